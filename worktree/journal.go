package worktree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/internal/bytestring"
)

// A journal is an adoption into the user's tree, written down before its
// first step: what to put back if the last one is never reached.
type journal struct {
	dir    string
	Schema string
	Run    string
	Steps  []step
	Made   []string // directories that were not there
}

const (
	journalSchema = "bestof.adopt/1"
	journalFile   = "journal.json"
)

// A step is one path. Perm, owner and time are those of the user's file.
type step struct {
	FileChange
	Perm     uint32
	UID, GID uint32
	Mtime    int64
}

// The journal's form on the disk: names may hold any bytes.
type (
	journalText struct {
		Schema string              `json:"schema"`
		Run    string              `json:"run"`
		Steps  []stepText          `json:"steps"`
		Made   []bytestring.String `json:"made"`
	}
	stepText struct {
		Path    bytestring.String `json:"path"`
		OldMode Mode              `json:"old_mode"`
		NewMode Mode              `json:"new_mode"`
		Old     string            `json:"old"`
		New     string            `json:"new"`
		Perm    uint32            `json:"perm"`
		UID     uint32            `json:"uid"`
		GID     uint32            `json:"gid"`
		Mtime   int64             `json:"mtime"`
	}
)

func (j *journal) content(side string, i int) string {
	return filepath.Join(j.dir, side, strconv.Itoa(i))
}

// write puts both sides of every step, then the journal, on the disk.
func (j *journal) write(o *Objects) error {
	if _, err := os.Lstat(filepath.Join(j.dir, journalFile)); err == nil {
		return errors.New("an earlier adoption was interrupted: recover it first")
	}
	text := journalText{Schema: j.Schema, Run: j.Run}
	for _, side := range []string{"old", "new"} {
		if err := os.RemoveAll(filepath.Join(j.dir, side)); err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(j.dir, side), 0o700); err != nil {
			return err
		}
	}
	for i, s := range j.Steps {
		old, new, err := o.sides(s.FileChange)
		if err != nil {
			return err
		}
		if s.OldMode != ModeNone {
			if err := writeSynced(j.content("old", i), old); err != nil {
				return err
			}
		}
		if s.NewMode != ModeNone {
			if err := writeSynced(j.content("new", i), new); err != nil {
				return err
			}
		}
		text.Steps = append(text.Steps, stepText{bytestring.String(s.Path), s.OldMode, s.NewMode, s.Old, s.New, s.Perm, s.UID, s.GID, s.Mtime})
	}
	for _, d := range j.Made {
		text.Made = append(text.Made, bytestring.String(d))
	}
	for _, side := range []string{"old", "new"} {
		if err := atomicfile.SyncDir(filepath.Join(j.dir, side)); err != nil {
			return err
		}
	}
	b, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(j.dir, journalFile), b, 0o600)
}

func writeSynced(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// readJournal returns nil when there is none.
func readJournal(dir string) (*journal, error) {
	b, err := os.ReadFile(filepath.Join(dir, journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var text journalText
	if err := json.Unmarshal(b, &text); err != nil || text.Schema != journalSchema || !validID.MatchString(text.Run) {
		return nil, fmt.Errorf("%s is not understood", filepath.Join(dir, journalFile))
	}
	j := &journal{dir: dir, Schema: text.Schema, Run: text.Run}
	for _, s := range text.Steps {
		j.Steps = append(j.Steps, step{
			FileChange: FileChange{Path: string(s.Path), OldMode: s.OldMode, NewMode: s.NewMode, Old: s.Old, New: s.New},
			Perm:       s.Perm, UID: s.UID, GID: s.GID, Mtime: s.Mtime,
		})
	}
	for _, d := range text.Made {
		j.Made = append(j.Made, string(d))
	}
	return j, nil
}

// clear ends an adoption: without the journal there is nothing to put back.
func (j *journal) clear() error {
	if err := os.Remove(filepath.Join(j.dir, journalFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := atomicfile.SyncDir(j.dir); err != nil {
		return err
	}
	for _, side := range []string{"old", "new"} {
		if err := os.RemoveAll(filepath.Join(j.dir, side)); err != nil {
			return err
		}
	}
	return nil
}

// apply takes every step, deletions first, and verifies all of them.
func (j *journal) apply(ctx context.Context, root *os.Root, done func()) error {
	for _, gone := range []bool{true, false} {
		for i, s := range j.Steps {
			if (s.NewMode == ModeNone) != gone {
				continue
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := j.take(root, i, s); err != nil {
				return fmt.Errorf("%s: %w", quote(s.Path), err)
			}
			if done != nil {
				done()
			}
		}
	}
	dirs := make(map[string]bool)
	for _, s := range j.Steps {
		st, err := look(root, s.Path)
		if err != nil {
			return err
		}
		if !st.is(s.NewMode, s.New) && !(s.NewMode == ModeNone && st.dir) {
			return fmt.Errorf("%s: what was written is not what is there", quote(s.Path))
		}
		if reachable(root, s.Path) {
			dirs[path.Dir(s.Path)] = true
		}
	}
	for d := range dirs {
		if err := syncIn(root, d); err != nil {
			return err
		}
	}
	return nil
}

func syncIn(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// take makes one path what it shall be. What is there was checked when the
// journal was planned and is checked again here, as late as can be.
func (j *journal) take(root *os.Root, i int, s step) error {
	st, err := look(root, s.Path)
	if err != nil {
		return err
	}
	if st.dir && s.OldMode == ModeNone {
		// Its files have gone; what is left are directories that are empty.
		if err := removeEmptyDirs(root, s.Path); err != nil {
			return err
		}
	} else if !st.is(s.OldMode, s.Old) {
		return errors.New("it was edited just now")
	}
	if s.NewMode == ModeNone {
		if err := root.Remove(s.Path); err != nil {
			return err
		}
		removeEmptyParents(root, s.Path)
		return nil
	}
	data, err := os.ReadFile(j.content("new", i))
	if err != nil {
		return err
	}
	perm := os.FileMode(0) // that of any new file
	if s.OldMode != ModeNone && s.OldMode != ModeLink {
		perm = withExec(os.FileMode(s.Perm), s.NewMode == ModeExec)
	}
	return j.place(root, i, s, s.NewMode, data, perm, time.Time{})
}

// withExec sets the right to execute where there is one to read, as git does,
// or takes it away.
func withExec(perm os.FileMode, exec bool) os.FileMode {
	if exec {
		return perm | (perm&0o444)>>2
	}
	return perm &^ 0o111
}

// place writes a file or link beside its path and gives it the name in one
// step. A name that should be free is never overwritten.
func (j *journal) place(root *os.Root, i int, s step, mode Mode, data []byte, perm os.FileMode, mtime time.Time) error {
	dir := path.Dir(s.Path)
	if err := j.makeDirs(root, dir); err != nil {
		return err
	}
	tmp := j.temporary(i, s)
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if mode == ModeLink {
		if err := root.Symlink(string(data), tmp); err != nil {
			return err
		}
	} else {
		create := cmp.Or(perm, 0o666)
		if perm == 0 && mode == ModeExec {
			create = 0o777
		}
		f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, create)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err == nil && perm != 0 {
			err = f.Chmod(perm)
		}
		if err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err == nil && !mtime.IsZero() {
			err = root.Chtimes(tmp, mtime, mtime)
		}
		if err != nil {
			return err
		}
	}
	if err := j.own(root, tmp, s); err != nil {
		return err
	}
	if s.OldMode != ModeNone {
		return root.Rename(tmp, s.Path)
	}
	err := root.Link(tmp, s.Path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) {
		// No hard links here: then there is a moment between the look and the name.
		if _, lerr := root.Lstat(s.Path); errors.Is(lerr, fs.ErrNotExist) {
			return root.Rename(tmp, s.Path)
		}
	}
	if err != nil {
		return err
	}
	return root.Remove(tmp)
}

// own gives what root writes into somebody else's tree to its owner.
func (j *journal) own(root *os.Root, name string, s step) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := s.UID, s.GID
	if s.OldMode == ModeNone {
		info, err := root.Lstat(path.Dir(name))
		if err != nil {
			return err
		}
		uid, gid = owner(info)
	}
	return root.Lchown(name, int(uid), int(gid))
}

func (j *journal) makeDirs(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if info, err := root.Lstat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := j.makeDirs(root, path.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o777); err != nil {
		return err
	}
	return j.own(root, dir, step{})
}

// temporary is the name beside a path under which it is written.
func (j *journal) temporary(i int, s step) string {
	return path.Join(path.Dir(s.Path), ".bestof-"+j.Run+"-"+strconv.Itoa(i)+".tmp")
}

func owner(info fs.FileInfo) (uid, gid uint32) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid, st.Gid
	}
	return 0, 0
}

func removeEmptyDirs(root *os.Root, dir string) error {
	var dirs []string
	err := fs.WalkDir(root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, p)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		err = errors.Join(err, root.Remove(d))
	}
	return err
}

// rollback puts back what the steps changed. A path that is neither what it
// was nor what it should become was edited by somebody: it is left and named.
func (j *journal) rollback(root *os.Root) (left []string, err error) {
	for i, s := range j.Steps {
		tmp := j.temporary(i, s)
		if !reachable(root, tmp) {
			continue
		}
		if rerr := root.Remove(tmp); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	for _, s := range slices.Backward(j.Steps) {
		if s.OldMode != ModeNone {
			continue
		}
		st, lerr := look(root, s.Path)
		switch {
		case lerr != nil:
			err = errors.Join(err, lerr)
		case st.is(s.NewMode, s.New):
			err = errors.Join(err, root.Remove(s.Path))
		case st.is(ModeNone, "") || st.dir:
		default:
			left = append(left, s.Path)
		}
	}
	for _, d := range slices.Backward(j.Made) {
		_ = root.Remove(d) // stays when somebody put something there
	}
	for i, s := range j.Steps {
		if s.OldMode == ModeNone {
			continue
		}
		st, lerr := look(root, s.Path)
		switch {
		case lerr != nil:
			err = errors.Join(err, lerr)
		case st.is(s.OldMode, s.Old):
		case st.is(s.NewMode, s.New), st.is(ModeNone, ""):
			data, rerr := os.ReadFile(j.content("old", i))
			if rerr == nil {
				rerr = j.place(root, i, s, s.OldMode, data, os.FileMode(s.Perm), time.Unix(0, s.Mtime))
			}
			err = errors.Join(err, rerr)
		default:
			left = append(left, s.Path)
		}
	}
	if err != nil {
		return left, err // the journal stays, for another try
	}
	return left, j.clear()
}

// Recovered is what Recover undid.
type Recovered struct {
	Run  string   // whose adoption it was, "" when none was interrupted
	Done []string // what was done, one line each
}

// Recover undoes an adoption that a crash interrupted. It does nothing when
// none was.
func (r *Repository) Recover(ctx context.Context, journalDir string) (Recovered, error) {
	run, done, err := r.recover(journalDir)
	return Recovered{Run: run, Done: done}, err
}

func (r *Repository) recover(journalDir string) (run string, done []string, err error) {
	if _, err := os.Lstat(journalDir); errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	lock, err := lockDir(r.root)
	if errors.Is(err, ErrBusy) {
		return "", nil, nil // an adoption that is under way needs no help
	}
	if err != nil {
		return "", nil, fmt.Errorf("recover: %w", err)
	}
	defer lock.Close()
	j, err := readJournal(journalDir)
	if err != nil {
		return "", nil, fmt.Errorf("recover: %w", err)
	}
	if j == nil {
		for _, name := range []string{"old", "new", "branch"} {
			if err := os.RemoveAll(filepath.Join(journalDir, name)); err != nil {
				return "", nil, fmt.Errorf("recover: %w", err)
			}
		}
		return "", nil, nil
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return "", nil, fmt.Errorf("recover: %w", err)
	}
	defer root.Close()
	for _, s := range j.Steps {
		// A journal is ours, but lies where a repository's files do.
		if !filepath.IsLocal(s.Path) || refusedName(s.Path) != "" || strings.ContainsRune(s.Path, 0) {
			return "", nil, fmt.Errorf("recover: the journal names %s", quote(s.Path))
		}
	}
	left, err := j.rollback(root)
	if err != nil {
		return "", nil, fmt.Errorf("recover: %w", err)
	}
	done = []string{fmt.Sprintf("an interrupted adoption of %d paths was undone", len(j.Steps))}
	for _, l := range left {
		done = append(done, "left as it is, edited since: "+quote(l))
	}
	return j.Run, done, nil
}
