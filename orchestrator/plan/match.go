// Package plan decides what a turn does before anything is done: it reads no
// file and starts nothing.
package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Matcher returns a function that tells whether a slash-separated path
// relative to the top of the tree is matched by the globs, which are read much
// like lines of a .gitignore:
//
//   - A glob without a slash, or with one only at its end, matches a name at
//     any depth; any other is matched from the top, whether it begins with a
//     slash or not.
//   - A glob that matches a directory matches everything below it. One that
//     ends in a slash matches directories only.
//   - *, ? and [a-z] (negated by ! or ^) do not match a slash. A whole element
//     ** matches any number of elements, none included. A backslash takes the
//     meaning from the character after it.
//   - A glob that begins with ! takes back what the globs before it matched.
//   - A glob without *, ? or [ is compared without regard to letter case,
//     since on some file systems other spellings are the same file.
//   - An element with a bad pattern stands for itself. An empty glob matches
//     nothing.
func Matcher(globs []string) func(path string) bool {
	var rules []rule
	for _, g := range globs {
		if r, ok := parseRule(g); ok {
			rules = append(rules, r)
		}
	}
	return func(p string) bool {
		elements := strings.Split(strings.TrimPrefix(p, "/"), "/")
		matched := false
		for _, r := range rules {
			if matched == r.negated && r.match(elements) {
				matched = !r.negated
			}
		}
		return matched
	}
}

// CheckGlob reports a glob that Matcher would never match, such as one with a
// bracket that is not closed.
func CheckGlob(glob string) error {
	if strings.Trim(glob, "!/") == "" {
		return fmt.Errorf("the glob %q names nothing", glob)
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(glob, "!"), "/") {
		if _, err := path.Match(part, ""); err != nil {
			return fmt.Errorf("the glob %q is not well formed: close its brackets, or write a backslash before them", glob)
		}
	}
	return nil
}

// Tampered lists the changed paths that the matcher protects, sorted.
func Tampered(changed []string, protected func(string) bool) []string {
	var out []string
	for _, p := range changed {
		if protected(p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

type rule struct {
	elements []string
	literal  bool
	negated  bool
	dirOnly  bool
}

func parseRule(g string) (rule, bool) {
	var r rule
	g, r.negated = strings.CutPrefix(g, "!")
	for strings.HasPrefix(g, "./") {
		g = g[2:]
	}
	trimmed := strings.TrimRight(g, "/")
	r.dirOnly = trimmed != g
	anchored := strings.Contains(trimmed, "/")
	for e := range strings.SplitSeq(trimmed, "/") {
		if e != "" {
			r.elements = append(r.elements, negate(e))
		}
	}
	if len(r.elements) == 0 {
		return r, false
	}
	r.literal = !strings.ContainsAny(unescaped(trimmed), "*?[")
	if !anchored {
		r.elements = append([]string{"**"}, r.elements...)
	}
	return r, true
}

// match reports whether the rule matches the path or a directory above it.
func (r rule) match(elements []string) bool {
	last := len(elements)
	if r.dirOnly {
		last--
	}
	for n := last; n > 0; n-- {
		if r.matchAll(elements[:n]) {
			return true
		}
	}
	return false
}

// matchAll matches all elements. Only the last ** seen needs to be retried,
// so it takes at most len(r.elements)*len(elements) steps.
func (r rule) matchAll(elements []string) bool {
	i, j, star, retry := 0, 0, -1, 0
	for j < len(elements) {
		switch {
		case i < len(r.elements) && r.elements[i] == "**":
			star, retry = i, j
			i++
		case i < len(r.elements) && r.element(r.elements[i], elements[j]):
			i++
			j++
		case star >= 0:
			retry++
			i, j = star+1, retry
		default:
			return false
		}
	}
	for i < len(r.elements) && r.elements[i] == "**" {
		i++
	}
	return i == len(r.elements)
}

func (r rule) element(glob, name string) bool {
	if r.literal {
		return strings.EqualFold(unescape(glob), name)
	}
	ok, err := path.Match(glob, name)
	return ok || err != nil && glob == name
}

// negate spells [!a-z] as path.Match does.
func negate(s string) string {
	b := []byte(s)
	for i := 0; i+1 < len(b); i++ {
		switch {
		case b[i] == '\\':
			i++
		case b[i] == '[' && b[i+1] == '!':
			b[i+1] = '^'
		}
	}
	return string(b)
}

// unescaped is s without its escaped characters.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unescape is s without its backslashes, but for escaped ones.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// escape is a glob that matches exactly s.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`*?[\`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
