package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// unfiltered returns the files that git does not pass through a program on
// their way into a commit. As no program is run, a commit would not hold what
// the user's own git add makes of the others, so one that the candidate
// changed is refused, and so is one that the user has edited. A user's file
// that is proved not to be edited is left out: the commit has it already.
func (b *brancher) unfiltered(ctx context.Context, files []FileChange, users bool) ([]FileChange, error) {
	drivers, err := b.drivers(ctx, files)
	if err != nil || len(drivers) == 0 {
		return files, err
	}
	var out []FileChange
	for _, f := range files {
		driver, ok := drivers[f.Path]
		if !ok || f.NewMode == ModeLink {
			out = append(out, f)
			continue
		}
		if data, _, err := b.objects.Blob(f.New, 1024); err == nil && driver == "lfs" && isPointer(data) {
			out = append(out, f) // what is committed of a pointer is itself
			continue
		}
		through := "git passes it through the filter program " + quote(driver)
		if !users {
			return nil, &RefusedError{f.Path, through + ": apply the change to the work tree and commit it yourself"}
		}
		switch edited, err := b.edited(ctx, f); {
		case err != nil:
			return nil, err
		case edited == maybe:
			return nil, &RefusedError{f.Path, through + ", without which nobody can tell whether you edited it: if not, `git status` settles it, then adopt again; else apply the change to the work tree"}
		case edited == yes:
			return nil, &RefusedError{f.Path, "it has an uncommitted edit and " + through + ": apply the change to the work tree instead"}
		}
	}
	return out, nil
}

// drivers says which files have a filter for which a program is configured,
// or demanded, on the way into a commit.
func (b *brancher) drivers(ctx context.Context, files []FileChange) (map[string]string, error) {
	configured, err := b.git.List(ctx, "config", "-z", "--name-only", "--get-regexp", `^filter\..*\.(clean|process|required)$`)
	if gitexec.Code(err) == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	is := make(map[string]bool)
	for _, key := range configured {
		is[key[len("filter."):strings.LastIndexByte(key, '.')]] = true
	}
	out, err := b.git.RunInput(ctx, names(files), "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return nil, err
	}
	drivers := make(map[string]string)
	fields := strings.Split(string(out), "\x00") // path, "filter", value, …
	for i := 0; i+2 < len(fields); i += 3 {
		if is[fields[i+2]] {
			drivers[fields[i]] = fields[i+2]
		}
	}
	return drivers, nil
}

// Whether a file was edited, as far as can be told.
type answer uint8

const (
	maybe answer = iota
	yes
	no
)

// edited compares a filtered file of the base with the commit by content. It
// is not edited when its bytes are those of the commit, when the commit has
// the Git LFS pointer to them, or when the user's own git has since looked at
// the same bytes and found them to be those of the commit.
func (b *brancher) edited(ctx context.Context, f FileChange) (answer, error) {
	mode, id, err := b.committed(ctx, f.Path)
	if err != nil {
		return maybe, err
	}
	if mode != f.NewMode {
		return yes, nil // also when it is new
	}
	raw, err := parseOID(f.New)
	if err != nil {
		return maybe, err
	}
	data, err := b.objects.blob(raw)
	if err != nil {
		return maybe, err
	}
	size, err := b.git.Line(ctx, "cat-file", "-s", id)
	if n, nerr := strconv.Atoi(size); err == nil && nerr == nil && (n == len(data) || n < 1024) {
		stored, err := b.git.Run(ctx, "cat-file", "blob", id)
		if err != nil {
			return maybe, err
		}
		if bytes.Equal(stored, data) {
			return no, nil
		}
		if oid, size, ok := parsePointer(stored); ok {
			if sum := sha256.Sum256(data); oid == hex.EncodeToString(sum[:]) && size == len(data) {
				return no, nil
			}
			return yes, nil
		}
	} else if gitexec.Code(err) < 0 && err != nil {
		return maybe, err
	} // else the object is not in a partial clone, or too large to be these bytes
	return b.repo.settled(ctx, f, mode, id)
}

// committed is what the index made from the parent has at a path.
func (b *brancher) committed(ctx context.Context, path string) (Mode, string, error) {
	lines, err := b.git.List(ctx, "ls-files", "-z", "--stage", "--", path)
	if err != nil {
		return ModeNone, "", err
	}
	for _, l := range lines {
		if meta, name, ok := strings.Cut(l, "\t"); ok && name == path {
			if fields := strings.Fields(meta); len(fields) == 3 {
				mode, err := strconv.ParseUint(fields[0], 8, 32)
				return Mode(mode), fields[1], err
			}
		}
	}
	return ModeNone, "", nil
}

// settled reports whether git, as the user ran it with the filter program, has
// found a file that still has the bytes of the base to be what the commit
// has: then the user's index knows the file's time and size.
func (r *Repository) settled(ctx context.Context, f FileChange, mode Mode, id string) (answer, error) {
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return maybe, err
	}
	defer root.Close()
	st, err := look(root, f.Path)
	if err != nil || !st.is(f.NewMode, f.New) {
		return maybe, err
	}
	// In this order, so that an edit in between is seen. The tag is another
	// than H where git was told to assume that nothing changes.
	entry, err := r.git.List(ctx, "ls-files", "-z", "--stage", "-v", "--", f.Path)
	if err != nil || len(entry) != 1 || entry[0] != fmt.Sprintf("H %06o %s 0\t%s", mode, id, f.Path) {
		return maybe, err
	}
	modified, err := r.git.List(ctx, "ls-files", "-z", "--modified", "--", f.Path)
	if err != nil || len(modified) > 0 {
		return maybe, err
	}
	return no, nil
}

// parsePointer reads a Git LFS pointer without extensions, which would change
// what its id is of.
func parsePointer(b []byte) (sha string, size int, ok bool) {
	lines := strings.Split(string(b), "\n")
	if !isPointer(b) || len(lines) != 4 || lines[3] != "" {
		return "", 0, false
	}
	sha, isSHA := strings.CutPrefix(lines[1], "oid sha256:")
	number, isSize := strings.CutPrefix(lines[2], "size ")
	size, err := strconv.Atoi(number)
	return sha, size, isSHA && isSize && err == nil && len(sha) == 2*sha256.Size
}
