// Package ignore decides what a set of gitignore rules ignores, as git does.
// The rules are a value: nothing is read from the tree that is judged.
package ignore

import (
	"bytes"
	"strings"
)

// Rules is a set of gitignore files. The zero value ignores nothing.
type Rules struct {
	global []pattern            // lowest precedence first
	dirs   map[string][]pattern // by directory, slash separated, "" is the top
}

type pattern struct {
	glob     string
	negative bool
	dirOnly  bool // a trailing slash
	base     bool // no slash: matched against the last name only
	fixed    int  // how much of glob comes before anything special
}

// AddGlobal adds a file whose patterns count for the whole tree. A file that
// is added later takes precedence; those of a directory take precedence over
// all of them.
func (r *Rules) AddGlobal(content []byte) { r.global = append(r.global, parse(content)...) }

// Add sets the .gitignore of a directory.
func (r *Rules) Add(dir string, content []byte) {
	if ps := parse(content); len(ps) > 0 {
		if r.dirs == nil {
			r.dirs = make(map[string][]pattern)
		}
		r.dirs[dir] = ps
	}
}

// Match reports whether a path is ignored, because of itself or because of a
// directory above it.
func (r *Rules) Match(path string, dir bool) bool {
	for i := 0; i < len(path); i++ {
		if path[i] == '/' && r.Here(path[:i], true) {
			return true
		}
	}
	return r.Here(path, dir)
}

// Here is Match for a path none of whose directories is ignored.
func (r *Rules) Here(path string, dir bool) bool {
	for parent := path; parent != ""; {
		parent = parent[:max(0, strings.LastIndexByte(parent, '/'))]
		if ps, ok := r.dirs[parent]; ok {
			rel := path
			if parent != "" {
				rel = path[len(parent)+1:]
			}
			if p := last(ps, rel, dir); p != nil {
				return !p.negative
			}
		}
	}
	p := last(r.global, path, dir)
	return p != nil && !p.negative
}

// last is the last pattern that matches; rel is relative to its directory.
func last(ps []pattern, rel string, dir bool) *pattern {
	for i := len(ps) - 1; i >= 0; i-- {
		if ps[i].matches(rel, dir) {
			return &ps[i]
		}
	}
	return nil
}

func (p *pattern) matches(rel string, dir bool) bool {
	if p.dirOnly && !dir {
		return false
	}
	if p.base {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	if !strings.HasPrefix(rel, p.glob[:p.fixed]) {
		return false
	}
	// As in git, what follows the fixed part is matched on its own, so that
	// "a**/b" is "a" and then "**/b".
	rest, rel := p.glob[p.fixed:], rel[p.fixed:]
	if rest == "" {
		return rel == ""
	}
	return Wildmatch(rest, rel, !p.base)
}

func parse(content []byte) []pattern {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	var ps []pattern
	for line := range strings.SplitSeq(string(content), "\n") {
		line = strings.TrimSuffix(line, "\r")
		// As in git, what follows a NUL byte is not seen.
		line, _, _ = strings.Cut(line, "\x00")
		if line == "" || line[0] == '#' {
			continue
		}
		line = trimSpaces(line)
		var p pattern
		if strings.HasPrefix(line, "!") {
			p.negative = true
			line = line[1:]
		}
		if strings.HasSuffix(line, "/") {
			p.dirOnly = true
			line = line[:len(line)-1]
		}
		p.base = !strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if line == "" {
			continue
		}
		p.glob = line
		if p.fixed = strings.IndexAny(line, `*?[\`); p.fixed < 0 {
			p.fixed = len(line)
		}
		ps = append(ps, p)
	}
	return ps
}

// trimSpaces removes trailing spaces but for a last one that is escaped.
func trimSpaces(s string) string {
	end := len(s)
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			if i >= len(s) {
				return s
			}
			end = len(s)
		case ' ':
			if end == len(s) {
				end = i
			}
		default:
			end = len(s)
		}
	}
	return s[:end]
}
