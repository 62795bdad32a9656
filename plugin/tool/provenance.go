package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Views are the two ways to see where a path leads: as it is written, and with
// all its links followed. Both are absolute and clean.
type Views struct{ Lexical, Resolved string }

// Grounds are the folders that a write is held against.
type Grounds struct {
	Root    Views   // everything of the tools
	Pending []Views // where whatever a model writes may land
}

// A ProvenanceError refuses a write.
type ProvenanceError struct{ Path, Problem string }

func (e *ProvenanceError) Error() string {
	return fmt.Sprintf("%s: %s: tools are written into pending/, and `bestof tool approve NAME` makes them live", e.Path, e.Problem)
}

// MayWrite decides whether a file may be written on behalf of a model: outside
// of the tools it is no affair of this rule; inside, both views of the target
// have to lie in pending/. What a link makes the two views disagree about is
// refused.
func (g Grounds) MayWrite(target Views) error {
	inRoot := below(target.Lexical, g.Root.Lexical) || below(target.Lexical, g.Root.Resolved)
	isRoot := below(target.Resolved, g.Root.Resolved)
	if !inRoot && !isRoot {
		return nil
	}
	for _, p := range g.Pending {
		lexical := strictlyBelow(target.Lexical, p.Lexical) || strictlyBelow(target.Lexical, p.Resolved)
		if lexical && strictlyBelow(target.Resolved, p.Resolved) {
			return nil
		}
	}
	switch {
	case inRoot && !isRoot:
		return &ProvenanceError{target.Lexical, fmt.Sprintf("a link leads from it out of the tools, to %s", target.Resolved)}
	case !inRoot:
		return &ProvenanceError{target.Lexical, fmt.Sprintf("a link leads from it into the tools, to %s", target.Resolved)}
	}
	return &ProvenanceError{target.Lexical, "it lies among the tools but not in pending/, or a link leads out of pending/"}
}

func below(path, dir string) bool { return path == dir || strictlyBelow(path, dir) }

func strictlyBelow(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Look sees a path both ways. home is what a leading "~/" stands for, dir what
// a relative path starts from. What does not exist yet is resolved as far as it
// exists; a path that cannot be resolved is an error, and so no permission.
func Look(path, dir, home string) (Views, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return Views{}, fmt.Errorf("%q is no path", path)
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = home + path[1:]
	}
	if !filepath.IsAbs(path) {
		path = dir + "/" + path // not cleaned: see below
	}
	if !filepath.IsAbs(path) {
		return Views{}, fmt.Errorf("%q is relative to nothing", path)
	}
	v := Views{Lexical: filepath.Clean(path)}
	// A component that is ".." means where links lead to and not where they
	// lie, so the path is resolved as it was written.
	missing := ""
	for at := path; ; {
		resolved, err := filepath.EvalSymlinks(at)
		if err == nil {
			v.Resolved = filepath.Join(resolved, missing)
			return v, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Views{}, err
		}
		if _, err := os.Lstat(at); err == nil {
			return Views{}, fmt.Errorf("%s is a link that leads nowhere", at)
		}
		at = strings.TrimRight(at, "/")
		cut := strings.LastIndexByte(at, '/')
		if name := at[cut+1:]; name == ".." {
			return Views{}, fmt.Errorf("%s goes up from what does not exist", path)
		} else if name != "." {
			missing = filepath.Join(name, missing)
		}
		at = at[:cut+1]
		if at == "" {
			return Views{}, fmt.Errorf("%q cannot be resolved", path)
		}
	}
}
