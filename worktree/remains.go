package worktree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// Remains says how much of a change is in the work tree, by its files.
type Remains struct {
	New   int // as the change made them
	Old   int // as they were before it
	Other int // neither
}

// Remains compares the files of a change with those of the work tree, by their
// bytes. What cannot be read is neither. Files larger than limit bytes are not
// read.
func (r *Repository) Remains(files []FileChange, limit int64) (Remains, error) {
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return Remains{}, err
	}
	defer root.Close()
	var m Remains
	for _, f := range files {
		id, ok := blobAt(root, f.Path, limit)
		switch {
		case ok && f.Old == f.New: // only its mode changed
			m.Other++
		case ok && id == f.New:
			m.New++
		case ok && id == f.Old:
			m.Old++
		default:
			m.Other++
		}
	}
	return m, nil
}

// blobAt is the blob id of what is at a path, "" where nothing is. ok is false
// for what is neither a file nor a link, or too large, or not to be read.
func blobAt(root *os.Root, path string, limit int64) (id string, ok bool) {
	info, err := root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", true
	}
	switch {
	case err != nil:
		return "", false
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(path)
		return hashObject(plumbing.BlobObject, []byte(target)).String(), err == nil
	case !info.Mode().IsRegular() || info.Size() > limit:
		return "", false
	}
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil || int64(len(b)) > limit {
		return "", false
	}
	return hashObject(plumbing.BlobObject, b).String(), true
}

// Includes reports whether a commit is part of the history of what is checked
// out. A commit that is not in the repository is part of nothing.
func (r *Repository) Includes(ctx context.Context, commit string) (bool, error) {
	id, err := r.commit(ctx, commit)
	if err != nil || r.head == "" {
		return false, nil
	}
	_, err = r.git.Line(ctx, "merge-base", "--is-ancestor", id, r.head)
	if code := gitexec.Code(err); code == 1 {
		return false, nil
	}
	return err == nil, err
}
