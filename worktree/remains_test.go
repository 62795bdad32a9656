package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"
)

// TestRemains: what became of a change is told by the bytes in the work tree,
// whatever lies there now.
func TestRemains(t *testing.T) {
	f := newFixture(t).write(map[string]string{"edited": "new\n", "back": "old\n", "else": "else\n", "added": "new\n", "dir/x": "x", "big": strings.Repeat("x", 101)})
	f.git("add", ".")
	f.git("commit", "-qm", "one")
	if err := os.Symlink("/etc/passwd", filepath.Join(f.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(f.dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := func(content string) string { return hashObject(plumbing.BlobObject, []byte(content)).String() }
	change := func(path, old, new string) FileChange {
		c := FileChange{Path: path}
		if old != "" {
			c.Old = id(old)
		}
		if new != "" {
			c.New = id(new)
		}
		return c
	}
	repo, err := Open(t.Context(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	for path, test := range map[string]struct {
		file FileChange
		want Remains
	}{
		"kept":                   {change("edited", "old\n", "new\n"), Remains{New: 1}},
		"taken back":             {change("back", "old\n", "new\n"), Remains{Old: 1}},
		"edited since":           {change("else", "old\n", "new\n"), Remains{Other: 1}},
		"added":                  {change("added", "", "new\n"), Remains{New: 1}},
		"added and taken back":   {change("nowhere", "", "new\n"), Remains{Old: 1}},
		"deleted":                {change("nowhere", "old\n", ""), Remains{New: 1}},
		"deleted and taken back": {change("back", "old\n", ""), Remains{Old: 1}},
		"a link":                 {change("link", "", "/etc/passwd"), Remains{New: 1}},
		"a directory now":        {change("dir", "old\n", "new\n"), Remains{Other: 1}},
		"below a file now":       {change("back/x", "old\n", ""), Remains{New: 1}},
		"a pipe now":             {change("fifo", "old\n", "new\n"), Remains{Other: 1}},
		"too large to be read":   {change("big", "old\n", "new\n"), Remains{Other: 1}},
		"out of the repository":  {change("../out", "", "new\n"), Remains{Other: 1}},
		"only its mode":          {change("back", "old\n", "old\n"), Remains{Other: 1}},
	} {
		if got, err := repo.Remains([]FileChange{test.file}, 100); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", path, got, err, test.want)
		}
	}
}

// TestIncludes: a commit is in the history of what is checked out, or not.
func TestIncludes(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "1"})
	f.git("add", ".")
	f.git("commit", "-qm", "one")
	first := f.git("rev-parse", "HEAD")
	f.git("checkout", "-qb", "other")
	f.git("commit", "-qm", "two", "--allow-empty")
	second := f.git("rev-parse", "HEAD")
	f.git("checkout", "-q", "main")
	repo, err := Open(t.Context(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	for commit, want := range map[string]bool{first: true, second: false, strings.Repeat("0", 40): false, "": false, "--all": false} {
		if got, err := repo.Includes(t.Context(), commit); err != nil || got != want {
			t.Errorf("%q: %v, %v", commit, got, err)
		}
	}
}
