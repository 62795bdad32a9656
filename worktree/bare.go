package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// ErrNoWorkTree means that something needs a work tree, and the repository was
// opened for its commits alone.
var ErrNoWorkTree = errors.New("a bare repository has no work tree")

// OpenAny is Open, and for a directory that is itself a bare repository, such
// as a mirror, it opens that for its commits alone: bases are made from commits
// (BaseHead, BaseRev), and Root is the repository's own directory.
func OpenAny(ctx context.Context, dir string) (*Repository, error) {
	bare, err := bareDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	if bare == "" {
		return Open(ctx, dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	git, err := gitexec.New(bare, home)
	if err != nil {
		return nil, err
	}
	r := &Repository{root: bare, gitDir: bare, commonDir: bare, bare: true}
	r.git = git.With(gitexec.Setting{Key: "safe.directory", Value: bare}).Env("GIT_DIR=" + bare)
	is, err := r.git.Line(ctx, "rev-parse", "--is-bare-repository")
	if name := gitexec.UnknownExtension(err); name != "" {
		return nil, fmt.Errorf("open repository: %s uses the extension %q, which the installed git does not know: install a newer git", dir, name)
	}
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	if is != "true" {
		return nil, fmt.Errorf("open repository: %s is the .git directory of a work tree: name the work tree", dir)
	}
	return r, r.readCommits(ctx)
}

// bareDir is the directory without links when it has what a bare repository
// has, and "" when it has not.
func bareDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", err
	}
	if filepath.Base(abs) == ".git" {
		return "", nil
	}
	for name, wantDir := range map[string]bool{"HEAD": false, "objects": true, "refs": true} {
		info, err := os.Lstat(filepath.Join(abs, name))
		if err != nil || info.IsDir() != wantDir {
			return "", nil
		}
	}
	return abs, nil
}

// readCommits reads what a repository says of its commits.
func (r *Repository) readCommits(ctx context.Context) error {
	format, err := r.git.Line(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return fmt.Errorf("open repository: %w", err)
	}
	r.sha256 = format == "sha256"
	r.partial = isPartial(r.commonDir)
	if r.git, err = r.git.WithoutFilters(ctx); err != nil {
		return fmt.Errorf("open repository: %w", err)
	}
	if r.head, err = r.git.Line(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil && gitexec.Code(err) != 1 {
		return fmt.Errorf("open repository: %w", err)
	}
	return nil
}

// Mirror makes a bare copy of everything at url in the directory to, which must
// not exist. It uses what the user's git uses to reach it, but runs no hook and
// no program that the url names.
func Mirror(ctx context.Context, url, to string) error {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("mirror %s: %w", url, err)
	}
	work, err := os.MkdirTemp(filepath.Dir(to), ".mirror-")
	if err != nil {
		return fmt.Errorf("mirror %s: %w", url, err)
	}
	defer os.RemoveAll(work) // empty after the rename
	git, err := gitexec.NewFetching(work, home)
	if err != nil {
		return err
	}
	made := filepath.Join(work, "mirror")
	if _, err := git.Run(ctx, "clone", "--quiet", "--mirror", "--template=", "--", url, made); err != nil {
		return fmt.Errorf("mirror %s: %w", url, err)
	}
	if err := os.Rename(made, to); err != nil {
		return fmt.Errorf("mirror %s: %w", url, err)
	}
	return nil
}
