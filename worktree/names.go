package worktree

import (
	"strings"

	"github.com/bestof-dev/bestof/worktree/internal/gitname"
	"github.com/bestof-dev/bestof/worktree/patch"
)

// isNamedGit reports whether a path has an element called exactly .git.
func isNamedGit(path string) bool {
	return path == ".git" || strings.HasPrefix(path, ".git/") || strings.HasSuffix(path, "/.git") || strings.Contains(path, "/.git/")
}

// refusedName says why a path may not be part of a tree, "" when it may.
func refusedName(path string) string { return gitname.Refused(path) }

// quote writes a name as git does in a patch, which is safe to print.
func quote(name string) string { return patch.Quote(name) }
