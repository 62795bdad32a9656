package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// The oldest git that has what is used here: GIT_CONFIG_COUNT, --path-format
// and a safe.directory that counts on the command's own configuration.
const minMajor, minMinor = 2, 35

// A Repository is the user's own repository, through one of its work trees.
// Reading it changes nothing in it.
type Repository struct {
	git        *gitexec.Git
	root       string // of the work tree
	prefix     string
	gitDir     string // of this work tree
	commonDir  string // of the whole repository
	head       string
	branch     string
	sha256     bool
	partial    bool // objects may be missing
	ignoreCase bool
	bare       bool // no work tree: root is the repository's own directory
	listed     atomic.Pointer[listedCommit]
}

// Open finds the repository that dir is in. Its error is one sentence for
// people.
func Open(ctx context.Context, dir string) (*Repository, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("open repository: %s is not a directory", dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	git, err := gitexec.New(abs, home)
	if err != nil {
		return nil, err
	}
	major, minor, err := git.Version(ctx)
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	if major < minMajor || (major == minMajor && minor < minMinor) {
		return nil, fmt.Errorf("git %d.%d is too old: %d.%d or later is needed", major, minor, minMajor, minMinor)
	}
	// An owner other than the user is accepted for this directory alone.
	git = git.With(gitexec.Setting{Key: "safe.directory", Value: likelyRoot(abs)}, gitexec.Setting{Key: "safe.directory", Value: abs})
	return open(ctx, git, abs)
}

func open(ctx context.Context, git *gitexec.Git, dir string) (*Repository, error) {
	r := &Repository{}
	git = git.In(dir)
	gitDir, err := git.Line(ctx, "rev-parse", "--absolute-git-dir")
	if name := gitexec.UnknownExtension(err); name != "" {
		return nil, fmt.Errorf("open repository: %s uses the extension %q, which the installed git does not know: install a newer git", dir, name)
	}
	if gitexec.Code(err) > 0 {
		return nil, fmt.Errorf("open repository: %s is not in a git repository that can be read: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	inside, err := git.Line(ctx, "rev-parse", "--is-inside-work-tree")
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	if inside != "true" {
		return nil, fmt.Errorf("open repository: %s has no work tree (a bare repository, or a .git directory): run in a checkout, for example one that git worktree add makes", dir)
	}
	for _, q := range []struct {
		to   *string
		args []string
	}{
		{&r.root, []string{"rev-parse", "--path-format=absolute", "--show-toplevel"}},
		{&r.commonDir, []string{"rev-parse", "--path-format=absolute", "--git-common-dir"}},
		{&r.prefix, []string{"rev-parse", "--show-prefix"}},
	} {
		if *q.to, err = git.Line(ctx, q.args...); err != nil {
			return nil, fmt.Errorf("open repository: %w", err)
		}
	}
	r.gitDir = gitDir
	r.prefix = strings.TrimSuffix(r.prefix, "/")
	if r.root, err = filepath.EvalSymlinks(r.root); err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	format, err := git.Line(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r.sha256 = format == "sha256"
	r.partial = isPartial(r.commonDir)
	r.git = git.In(r.root).Env("GIT_DIR="+r.gitDir, "GIT_WORK_TREE="+r.root, "GIT_COMMON_DIR="+r.commonDir)
	if r.git, err = r.git.WithoutFilters(ctx); err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r.head, err = r.git.Line(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil && gitexec.Code(err) != 1 {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r.branch, err = r.git.Line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && gitexec.Code(err) != 1 {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r.branch = strings.TrimPrefix(r.branch, "refs/heads/")
	ignoreCase, err := r.git.Line(ctx, "config", "--type=bool", "--default=false", "--get", "core.ignoreCase")
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r.ignoreCase = ignoreCase == "true"
	return r, nil
}

// likelyRoot is the nearest directory with something called .git. It only
// says which path the user's choice of directory vouches for; git decides
// what the repository is.
func likelyRoot(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

// Root is the top level of the work tree, absolute, without symbolic links.
func (r *Repository) Root() string { return r.root }

// Prefix is the directory below Root that Open was given, slash separated.
func (r *Repository) Prefix() string { return r.prefix }

// Head is the commit that was checked out at Open, "" when there is none yet.
func (r *Repository) Head() string { return r.head }

// Branch is the short name of the branch at Open, "" when HEAD is detached.
func (r *Repository) Branch() string { return r.branch }

// Identity is the user's name and address, as git would write them into a
// commit.
func (r *Repository) Identity(ctx context.Context) (name, email string, err error) {
	line, err := r.git.Line(ctx, "var", "GIT_AUTHOR_IDENT")
	if err != nil {
		return "", "", fmt.Errorf("git does not know who you are: set user.name and user.email with git config: %w", err)
	}
	open, end := strings.LastIndex(line, " <"), strings.LastIndex(line, ">")
	if open < 0 || end < open {
		return "", "", fmt.Errorf("git var GIT_AUTHOR_IDENT: %q is not understood", line)
	}
	return line[:open], line[open+2 : end], nil
}

// Resolve returns the id of the commit that a revision as people write it
// names in this repository.
func (r *Repository) Resolve(ctx context.Context, rev string) (string, error) {
	return r.commit(ctx, rev)
}

// GitVersion says which git is used, for people, or why none can be.
func GitVersion(ctx context.Context) (string, error) {
	git, err := gitexec.New("/", "")
	if err != nil {
		return "", err
	}
	major, minor, err := git.Version(ctx)
	if err != nil {
		return "", err
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return "", fmt.Errorf("git %d.%d is too old: %d.%d or later is needed", major, minor, minMajor, minMinor)
	}
	return fmt.Sprintf("git %d.%d", major, minor), nil
}

// commit resolves a revision that a user wrote.
func (r *Repository) commit(ctx context.Context, rev string) (string, error) {
	if strings.HasPrefix(rev, "-") || rev == "" {
		return "", fmt.Errorf("%q is not a revision", rev)
	}
	id, err := r.git.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if gitexec.Code(err) > 0 {
		return "", fmt.Errorf("%q names no commit that is in this repository", rev)
	}
	return id, err
}

var errMissingObject = errors.New("the repository lacks objects of that commit (a partial clone?): fetch them with git, or use the tree as it is as the base")
