package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A Looker takes one fingerprint after another of a repository, not two at once.
// What it read the last time and is the same now it keeps once, and it does not
// ask git again about refs and index while all files that git answers from hold
// what they held.
type Looker struct {
	repo        *Repository
	last        Fingerprint
	refs, index remembered
	spare       []byte // room for what git prints
}

// A remembered is what git printed, with a digest of all that it was read from.
type remembered struct {
	from digest // zero when it is not known
	out  []byte
}

// Looker is a Looker at the repository.
func (r *Repository) Looker() *Looker { return &Looker{repo: r} }

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
	if f.index, err = l.recall(ctx, &l.index, r.indexFiles, "ls-files", "-z", "-v", "--stage"); err != nil {
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

// recall is what git prints when it reads what sources digests; git is asked only
// when that is not as it was, or is not known.
func (l *Looker) recall(ctx context.Context, kept *remembered, sources func() (digest, error), args ...string) ([]byte, error) {
	from, err := sources()
	if err != nil {
		return nil, err
	}
	if from != (digest{}) && from == kept.from {
		return kept.out, nil
	}
	out, err := l.run(ctx, kept.out, args...)
	if err != nil {
		return nil, err
	}
	*kept = remembered{out: out}
	if again, err := sources(); err == nil && again == from { // git read this, and nothing that came and went
		kept.from = from
	}
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
	var files []string
	refs, err := l.recall(ctx, &l.refs, func() (d digest, err error) {
		d, files, err = l.repo.refFiles()
		return d, err
	}, "for-each-ref", "--format=%(refname) %(objectname) %(symref)")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(refs), "\n"), "\n") {
		if name, value, ok := strings.Cut(line, " "); ok {
			f.state[name] = value
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

const (
	maxSmall  = 1 << 20   // bytes of a ref or of the configuration
	maxSource = 256 << 20 // bytes of what is read rather than git asked
)

// refFiles digests all that git lists refs from, which it does without looking for
// their objects. files are those below the refs of the whole repository.
func (r *Repository) refFiles() (d digest, files []string, err error) {
	s := newSources()
	shared := filepath.Join(r.commonDir, "refs")
	for _, refs := range []string{shared, filepath.Join(r.gitDir, "refs")} {
		err := filepath.WalkDir(refs, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // git removes refs and empty directories at any time
			}
			if err != nil || d.IsDir() {
				return err
			}
			if target, ok := bytes.CutPrefix(s.read(path), []byte("ref:")); ok && !bytes.HasPrefix(bytes.TrimSpace(target), []byte("refs/")) {
				s.unknown = true // it is read from elsewhere
			}
			if refs == shared {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return d, nil, err
		}
		if r.gitDir == r.commonDir {
			break
		}
	}
	s.add(filepath.Join(r.commonDir, "packed-refs"))
	config := s.read(filepath.Join(r.commonDir, "config"))
	if _, err := os.Lstat(filepath.Join(r.commonDir, "reftable")); !errors.Is(err, fs.ErrNotExist) || bytes.Contains(bytes.ToLower(config), []byte("refstorage")) {
		s.unknown = true // refs that are not files
	}
	return s.digest(), files, nil
}

// indexFiles digests all that git reads an index from.
func (r *Repository) indexFiles() (digest, error) {
	s := newSources()
	s.add(filepath.Join(r.gitDir, "index"))
	names, err := os.ReadDir(r.gitDir)
	if err != nil {
		return digest{}, err
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), "sharedindex.") {
			s.add(filepath.Join(r.gitDir, n.Name()))
		}
	}
	return s.digest(), nil
}

// A digest stands for the names and bytes of files.
type digest [sha256.Size]byte

// Sources are files that git reads.
type sources struct {
	sum     hash.Hash
	unknown bool // git may read more than these
}

func newSources() *sources { return &sources{sum: sha256.New()} }

// add adds a file, or that there is none. A program can change a file without a
// trace in what lstat says, through a link or a mapping, so what counts is what it
// holds.
func (s *sources) add(path string) { s.copy(path, maxSource, s.sum) }

// read is add of a small file, and returns what it holds.
func (s *sources) read(path string) []byte {
	var b bytes.Buffer
	s.copy(path, maxSmall, io.MultiWriter(s.sum, &b))
	return b.Bytes()
}

func (s *sources) copy(path string, most int64, to io.Writer) {
	fmt.Fprintf(s.sum, "%d %s ", len(path), path)
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		s.unknown = s.unknown || !errors.Is(err, fs.ErrNotExist)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		s.unknown = true
		return
	}
	fmt.Fprintf(s.sum, "%d ", info.Size())
	n, err := io.Copy(to, io.LimitReader(file, most))
	if err != nil || n != info.Size() {
		s.unknown = true // it grows, shrinks or cannot be read
	}
}

// digest is zero when it would not stand for all that git reads.
func (s *sources) digest() (d digest) {
	if !s.unknown {
		s.sum.Sum(d[:0])
	}
	return d
}
