package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// adoptBranch commits the change on a new branch, on top of the base's
// commit. The user's uncommitted edits that were part of the base come first,
// in a commit of their own, so that the branch ends in the tree that was
// verified. Contents go through git's conversion of line ends as with git
// add, but through no filter program.
func (r *Repository) adoptBranch(ctx context.Context, o *Objects, c Change, opt AdoptOptions) (Adopted, error) {
	ref := "refs/heads/" + opt.Branch
	if _, err := r.git.Run(ctx, "check-ref-format", ref); err != nil || strings.HasPrefix(opt.Branch, "-") || opt.Branch == "HEAD" {
		return Adopted{}, fmt.Errorf("adopt: %q is no name for a branch", opt.Branch)
	}
	if _, err := r.git.Run(ctx, "rev-parse", "--verify", "--quiet", ref); err == nil {
		return Adopted{}, fmt.Errorf("adopt: the branch %s exists already: choose another name", opt.Branch)
	}
	if opt.BaseCommit != "" && strings.Trim(opt.BaseCommit, "0123456789abcdef") != "" {
		return Adopted{}, fmt.Errorf("adopt: %.80q is no commit id", opt.BaseCommit)
	}
	if _, _, err := r.Identity(ctx); err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", err)
	}
	tmp := filepath.Join(opt.JournalDir, "branch")
	if err := os.RemoveAll(tmp); err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", err)
	}
	defer os.RemoveAll(tmp)
	tree, err := filepath.Abs(filepath.Join(tmp, "tree"))
	if err == nil {
		err = os.MkdirAll(tree, 0o700)
	}
	if err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", err)
	}
	b := brancher{repo: r, objects: o, dir: tree, parent: opt.BaseCommit}
	b.git = r.git.In(tree).Env("GIT_WORK_TREE="+tree, "GIT_INDEX_FILE="+filepath.Join(filepath.Dir(tree), "index")).With(
		gitexec.Setting{Key: "core.fileMode", Value: "true"}, gitexec.Setting{Key: "core.symlinks", Value: "true"},
		gitexec.Setting{Key: "core.safecrlf", Value: "false"}, gitexec.Setting{Key: "core.sparseCheckout", Value: "false"})
	commit, err := b.commits(ctx, c, opt)
	if err != nil {
		return Adopted{}, fmt.Errorf("adopt: %w", err)
	}
	zero := strings.Repeat("0", len(commit))
	if _, err := r.git.Run(ctx, "update-ref", "--create-reflog", "-m", "bestof: adopt "+opt.RunID, ref, commit, zero); err != nil {
		return Adopted{}, fmt.Errorf("adopt: make the branch %s: %w", opt.Branch, err)
	}
	return Adopted{Tree: c.Tree, Commit: commit, Branch: opt.Branch}, nil
}

type brancher struct {
	repo    *Repository
	git     *gitexec.Git // with an index and a work tree of their own
	objects *Objects
	dir     string
	parent  string
}

func (b *brancher) commits(ctx context.Context, c Change, opt AdoptOptions) (string, error) {
	start := []string{"read-tree", "--empty"}
	if b.parent != "" {
		start = []string{"read-tree", b.parent}
	}
	if _, err := b.git.Run(ctx, start...); err != nil {
		return "", errors.Join(errMissingObject, err)
	}
	if opt.BaseKind == BaseSnapshot && len(b.objects.dirty) > 0 {
		var edits []FileChange
		for _, d := range b.objects.dirty {
			f := FileChange{Path: string(d.Path), NewMode: d.Mode, New: d.ID}
			edits = append(edits, f)
		}
		if err := b.add(ctx, edits, true); err != nil {
			return "", err
		}
		same, err := b.unchanged(ctx)
		if err == nil && !same {
			err = b.commit(ctx, "Uncommitted edits\n\nWhat the work tree held when bestof run "+opt.RunID+" began.\n")
		}
		if err != nil {
			return "", err
		}
	}
	if err := b.add(ctx, c.Files, false); err != nil {
		return "", err
	}
	if err := b.verify(ctx, c.Files); err != nil {
		return "", err
	}
	if err := b.commit(ctx, opt.Message); err != nil {
		return "", err
	}
	return b.parent, nil
}

// add brings files into the index through the work tree. Of the user's own
// edits, files that only look edited to a git without filter programs stay as
// they were committed.
func (b *brancher) add(ctx context.Context, files []FileChange, users bool) error {
	var gone bytes.Buffer
	var made []FileChange
	for _, f := range files {
		if f.NewMode == ModeNone {
			fmt.Fprintf(&gone, "0 %040d\t%s\x00", 0, f.Path)
			continue
		}
		made = append(made, f)
	}
	if b.repo.sha256 {
		gone = *bytes.NewBuffer(bytes.ReplaceAll(gone.Bytes(), []byte("0 "+strings.Repeat("0", 40)), []byte("0 "+strings.Repeat("0", 64))))
	}
	if gone.Len() > 0 {
		if _, err := b.git.RunInput(ctx, &gone, "update-index", "-z", "--index-info"); err != nil {
			return err
		}
	}
	if len(made) == 0 {
		return nil
	}
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range made {
		id, err := parseOID(f.New)
		if err != nil {
			return err
		}
		data, err := b.objects.blob(id)
		if err != nil {
			return err
		}
		if err := removeAll(ctx, filepath.Join(b.dir, f.Path)); err != nil {
			return err
		}
		if err := makeParents(b.dir, f.Path); err != nil {
			return err
		}
		if err := writeInto(root, f.Path, f.NewMode, data); err != nil {
			return err
		}
	}
	if made, err = b.unfiltered(ctx, made, users); err != nil {
		return err
	}
	_, err = b.git.RunInput(ctx, names(made), "update-index", "--add", "--replace", "-z", "--stdin")
	return err
}

// names are the paths of files as git reads them with -z.
func names(files []FileChange) *bytes.Buffer {
	var b bytes.Buffer
	for _, f := range files {
		b.WriteString(f.Path + "\x00")
	}
	return &b
}

// verify checks that the index holds exactly the files' new sides, but for
// line ends where git converts them.
func (b *brancher) verify(ctx context.Context, files []FileChange) error {
	lines, err := b.git.List(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return err
	}
	index := make(map[string][]string, len(lines))
	for _, l := range lines {
		if meta, name, ok := strings.Cut(l, "\t"); ok {
			index[name] = strings.Fields(meta)
		}
	}
	for _, f := range files {
		got, ok := index[f.Path]
		if f.NewMode == ModeNone {
			if ok {
				return fmt.Errorf("%s: it should be gone from the commit", quote(f.Path))
			}
			continue
		}
		if !ok || got[0] != fmt.Sprintf("%06o", f.NewMode) {
			return fmt.Errorf("%s: the commit has it as %q", quote(f.Path), got)
		}
		if got[1] == f.New {
			continue
		}
		data, err := b.git.Run(ctx, "cat-file", "blob", got[1])
		if err != nil {
			return err
		}
		id, err := parseOID(f.New)
		if err != nil {
			return err
		}
		want, err := b.objects.blob(id)
		if err != nil {
			return err
		}
		if hashObject(plumbing.BlobObject, data) != id && !bytes.Equal(data, bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))) {
			return &RefusedError{f.Path, "git would not commit the bytes that were verified (an attribute converts them): apply the change to the work tree instead"}
		}
	}
	return nil
}

// unchanged reports whether the index is the parent's tree.
func (b *brancher) unchanged(ctx context.Context) (bool, error) {
	if b.parent == "" {
		return false, nil
	}
	_, err := b.git.Run(ctx, "diff-index", "--cached", "--quiet", b.parent, "--")
	if gitexec.Code(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// commit records the index on top of the parent, which it becomes.
func (b *brancher) commit(ctx context.Context, message string) error {
	tree, err := b.git.Line(ctx, "write-tree")
	if err != nil {
		return err
	}
	args := []string{"commit-tree", tree}
	if b.parent != "" {
		args = append(args, "-p", b.parent)
	}
	out, err := b.git.RunInput(ctx, strings.NewReader(message), args...)
	if err != nil {
		return err
	}
	b.parent = strings.TrimSpace(string(out))
	return nil
}
