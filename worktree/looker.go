package worktree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Looker takes one fingerprint after another of a repository, not two at once.
// What it read the last time and is the same now it keeps once, and it does not
// ask git again about refs and index while no file that git answers from changed.
type Looker struct {
	repo        *Repository
	now         func() time.Time
	last        Fingerprint
	refs, index remembered
	spare       []byte // room for what git prints
}

// A remembered is what git printed, with the state of all that it was read from.
type remembered struct {
	from []byte // nil when it is not known
	out  []byte
}

// Looker is a Looker at the repository.
func (r *Repository) Looker() *Looker { return &Looker{repo: r, now: time.Now} }

// Fingerprint takes the state of HEAD, refs, stash, index, configuration,
// hooks and the files of the work tree that git does not ignore. Files are
// known by inode, ctime and size, so it is cheap; .bestof is left out.
func (r *Repository) Fingerprint(ctx context.Context) (Fingerprint, error) {
	return r.Looker().Look(ctx)
}

// Look takes the fingerprint of the repository as it is now.
func (l *Looker) Look(ctx context.Context) (Fingerprint, error) {
	f, err := l.look(ctx)
	if err != nil {
		return f, fmt.Errorf("fingerprint: %w", err)
	}
	l.last = f
	return f, nil
}

func (l *Looker) look(ctx context.Context) (Fingerprint, error) {
	r, f := l.repo, Fingerprint{state: make(map[string]string)}
	if err := l.listRefs(ctx, f); err != nil {
		return f, err
	}
	if err := f.settings(r); err != nil {
		return f, err
	}
	if err := f.hooks(filepath.Join(r.commonDir, "hooks")); err != nil {
		return f, err
	}
	if r.bare {
		return f, nil
	}
	// The entries, not the bytes: git refreshes the index by itself.
	var err error
	if f.index, err = l.recall(ctx, &l.index, r.indexTraces(l.now()), "ls-files", "-z", "-v", "--stage"); err != nil {
		return f, err
	}
	f.files = l.last.files
	if f.files == nil {
		f.files = &fileList{}
	}
	paths, err := l.run(ctx, f.files.text, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return f, err
	}
	if !bytes.Equal(paths, f.files.text) {
		f.files = newFileList(paths)
	}
	f.found, err = f.files.find(r.root)
	return f, err
}

// recall is what git prints when it reads what is traced; git is asked only when
// that is not as it was, or was not known.
func (l *Looker) recall(ctx context.Context, kept *remembered, now *traces, args ...string) ([]byte, error) {
	from := now.settled()
	if from != nil && bytes.Equal(from, kept.from) {
		return kept.out, nil
	}
	out, err := l.run(ctx, kept.out, args...)
	if err != nil {
		return nil, err
	}
	*kept = remembered{from, out}
	return out, nil
}

// run is what git prints, in the same memory as the last time when it is the
// same.
func (l *Looker) run(ctx context.Context, last []byte, args ...string) ([]byte, error) {
	out := bytes.NewBuffer(l.spare[:0])
	if err := l.repo.git.Stream(ctx, nil, out, args...); err != nil {
		return nil, err
	}
	l.spare = out.Bytes()
	if bytes.Equal(l.spare, last) {
		return last, nil
	}
	return bytes.Clone(l.spare), nil
}

// listRefs adds the refs, and the files among them that git does not list because
// they hold none.
func (l *Looker) listRefs(ctx context.Context, f Fingerprint) error {
	now, files, err := l.repo.refTraces(l.now())
	if err != nil {
		return err
	}
	refs, err := l.recall(ctx, &l.refs, now, "for-each-ref", "--format=%(refname) %(objectname) %(symref)")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(refs), "\n"), "\n") {
		if name, value, ok := strings.Cut(line, " "); ok {
			f.state[name] = value
			if _, symbolic, _ := strings.Cut(value, " "); symbolic != "" && !strings.HasPrefix(symbolic, "refs/") {
				l.refs.from = nil // it is read from elsewhere
			}
		}
	}
	for _, path := range files {
		name := "refs" + filepath.ToSlash(strings.TrimPrefix(path, filepath.Join(l.repo.commonDir, "refs")))
		if _, ok := f.state[name]; !ok {
			f.state[name] = stateOf(path)
		}
	}
	return nil
}

// refTraces are of all that git lists refs from, which it does without looking for
// their objects. files are those below the refs of the whole repository.
func (r *Repository) refTraces(now time.Time) (t *traces, files []string, err error) {
	t = &traces{began: now}
	shared := filepath.Join(r.commonDir, "refs")
	for _, refs := range []string{shared, filepath.Join(r.gitDir, "refs")} {
		err := filepath.WalkDir(refs, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // git removes refs and empty directories at any time
			}
			if err != nil || d.IsDir() {
				return err
			}
			if d.Type()&fs.ModeSymlink != 0 {
				t.unknown = true // git follows it to anywhere
			}
			t.add(path)
			if refs == shared {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if r.gitDir == r.commonDir {
			break
		}
	}
	t.add(filepath.Join(r.gitDir, "HEAD"))
	t.add(filepath.Join(r.commonDir, "packed-refs"))
	t.unknown = t.unknown || exists(filepath.Join(r.commonDir, "reftable")) // refs that are not files
	return t, files, nil
}

// indexTraces are of all that git reads an index from.
func (r *Repository) indexTraces(now time.Time) *traces {
	t := &traces{began: now}
	t.add(filepath.Join(r.gitDir, "index"))
	shared, err := filepath.Glob(filepath.Join(globbed(r.gitDir), "sharedindex.*"))
	t.unknown = t.unknown || err != nil
	for _, path := range shared {
		t.add(path)
	}
	return t
}

// globbed is a path as a pattern that matches it alone.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Traces are the states of files at one moment, as one word.
type traces struct {
	began   time.Time
	newest  time.Time // of all ctimes
	unknown bool      // there is more than the files say
	word    []byte
}

// add adds a file, or that there is none.
func (t *traces) add(path string) {
	t.word = append(append(t.word, path...), 0)
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.unknown = t.unknown || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
		return
	}
	for _, n := range []uint64{st.Ino, uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec), uint64(st.Size), uint64(st.Mode)} {
		t.word = binary.LittleEndian.AppendUint64(t.word, n)
	}
	if changed := time.Unix(st.Ctim.Unix()); changed.After(t.newest) {
		t.newest = changed
	}
}

// tick is more than what the clocks of file systems move by: of two changes
// within it the second may leave the ctime of the first.
const tick = 100 * time.Millisecond

// settled is the word, nil when what it stands for may change and it would not.
func (t *traces) settled() []byte {
	if t.unknown || t.newest.Add(tick).After(t.began) {
		return nil
	}
	return t.word
}
