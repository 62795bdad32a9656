package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bestof-dev/bestof/worktree/patch"
)

// A Laid is a file that is laid over a verification shadow, in place of
// whatever the base or a candidate has there: the tests by which the candidate
// is judged and which it never sees.
type Laid struct {
	Path string // below the top, with slashes
	Mode Mode   // ModeFile, ModeExec, ModeLink, or ModeNone: nothing may be there
	Data []byte
}

// maxLaid bounds one file that a patch is applied to, in bytes.
const maxLaid = 64 << 20

// Patched applies a patch to the base and returns the files that come of it,
// sorted by path. The base itself stays as it is. The error names the file.
func (b *Base) Patched(text []byte) ([]Laid, error) {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(slices.Clone(text), '\n')
	}
	files, err := patch.Read(text)
	if err != nil {
		return nil, err
	}
	var out []Laid
	for _, f := range files {
		laid, err := b.patched(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quote(f.Path()), err)
		}
		out = append(out, laid...)
	}
	slices.SortFunc(out, func(a, b Laid) int { return strings.Compare(a.Path, b.Path) })
	return out, CheckLaid(out)
}

func (b *Base) patched(f patch.File) ([]Laid, error) {
	var old []byte
	mode := Mode(f.NewMode)
	i, there := b.index().files[f.Old]
	switch {
	case f.Old == "":
		if _, there := b.index().files[f.New]; there {
			return nil, errors.New("the patch adds it, and the base has it")
		}
	case !there:
		return nil, errors.New("the base does not have it")
	default:
		var err error
		if old, err = b.ReadFile(f.Old, maxLaid); err != nil {
			return nil, err
		}
		if mode == ModeNone {
			mode = b.entries[i].mode
		}
	}
	data, err := patch.Apply(old, f)
	if err != nil {
		return nil, err
	}
	var out []Laid
	if f.Old != "" && f.Old != f.New && !f.Copy {
		out = append(out, Laid{Path: f.Old})
	}
	if f.New != "" {
		out = append(out, Laid{Path: f.New, Mode: mode, Data: data})
	}
	return out, nil
}

// CheckLaid refuses files that no tree may have.
func CheckLaid(files []Laid) error {
	for _, f := range files {
		switch {
		case f.Path == "" || path.Clean(f.Path) != f.Path || !filepath.IsLocal(f.Path) || isOurs(f.Path):
			return fmt.Errorf("%s: no file may be laid there", quote(f.Path))
		case refusedName(f.Path) != "":
			return fmt.Errorf("%s: %s", quote(f.Path), refusedName(f.Path))
		case f.Mode != ModeNone && f.Mode != ModeFile && f.Mode != ModeExec && f.Mode != ModeLink:
			return fmt.Errorf("%s: %o is no mode of a file", quote(f.Path), f.Mode)
		}
	}
	return nil
}

// NewVerificationWith is NewVerification with files laid over it at the end:
// they win over what the candidate left in their places, or above them.
func (r *Run) NewVerificationWith(ctx context.Context, b *Base, name string, tree TreeID, protected func(path string) bool, laid []Laid) (*Shadow, error) {
	if err := CheckLaid(laid); err != nil {
		return nil, fmt.Errorf("make verification: %w", err)
	}
	sh, err := r.NewVerification(ctx, b, name, tree, protected)
	if err != nil || len(laid) == 0 {
		return sh, err
	}
	if err := sh.lay(laid); err != nil {
		return nil, errors.Join(fmt.Errorf("make verification %s: %w", name, err), sh.Remove(context.WithoutCancel(ctx)))
	}
	return sh, nil
}

// lay writes files into a shadow in which nothing has run.
func (sh *Shadow) lay(files []Laid) error {
	root, err := sh.writable()
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if f.Mode != ModeNone {
			continue
		}
		if err := clearWay(root, f.Path); err != nil {
			return err
		}
		removeEmptyParents(root, f.Path)
	}
	for _, f := range files {
		if f.Mode == ModeNone {
			continue
		}
		if err := clearWay(root, f.Path); err != nil {
			return err
		}
		if err := writeInto(root, f.Path, f.Mode, f.Data); err != nil {
			return err
		}
	}
	return nil
}

// clearWay removes what is at a path, and whatever above it is no directory: a
// link there would lead elsewhere.
func clearWay(root treeRoot, name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		info, err := root.Lstat(name[:i])
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return root.Remove(name[:i])
		}
	}
	return root.RemoveAll(name)
}

// BlobID is the id of a file's bytes in FileChange.
func BlobID(data []byte) string { return hashObject(plumbing.BlobObject, data).String() }
