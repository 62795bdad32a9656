package patch

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bestof-dev/bestof/worktree/internal/gitname"
)

// Quote writes a name as git does: in C's way when it holds a byte that is
// not printable ASCII, a quote or a backslash.
func Quote(name string) string {
	plain := true
	for i := 0; i < len(name); i++ {
		if c := name[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); i++ {
		switch c := name[i]; c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\a', '\b', '\t', '\n', '\v', '\f', '\r':
			b.WriteByte('\\')
			b.WriteByte("abtnvfr"[c-'\a'])
		default:
			if c < 0x20 || c >= 0x7f {
				fmt.Fprintf(&b, `\%03o`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

var errQuoted = errors.New("it is not quoted in git's way")

// Unquote reads a name that Quote wrote, or one that git wrote plainly: a
// plain one is itself, without a quote at its beginning or a control byte.
func Unquote(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		for i := 0; i < len(s); i++ {
			if s[i] < 0x20 || s[i] == 0x7f {
				return "", errQuoted
			}
		}
		return s, nil
	}
	name, rest, err := quoted(s)
	if err == nil && rest != "" {
		err = errQuoted
	}
	return name, err
}

// quoted reads a name in quotes at the beginning of s.
func quoted(s string) (name, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c < 0x20 || c == 0x7f:
			return "", "", errQuoted
		case c != '\\':
			b.WriteByte(c)
		default:
			c, n := escape(s[i+1:])
			if n == 0 {
				return "", "", errQuoted
			}
			b.WriteByte(c)
			i += n
		}
	}
	return "", "", errQuoted
}

// escape is the byte that stands after a backslash, and how many bytes say so;
// 0 when none does.
func escape(s string) (c byte, n int) {
	if s == "" {
		return 0, 0
	}
	if i := strings.IndexByte("abtnvfr", s[0]); i >= 0 {
		return byte('\a' + i), 1
	}
	if s[0] == '"' || s[0] == '\\' {
		return s[0], 1
	}
	if len(s) < 3 || s[0] > '3' {
		return 0, 0
	}
	for i := range 3 {
		if s[i] < '0' || s[i] > '7' {
			return 0, 0
		}
		c = c<<3 | (s[i] - '0')
	}
	return c, 3
}

// MaxName bounds a path, in bytes.
const MaxName = 4096

// checkName says why a path may not be in a patch.
func checkName(name string) error {
	reason := gitname.Refused(name)
	switch {
	case name == "":
		reason = "it is empty"
	case len(name) > MaxName:
		return fmt.Errorf("a name of %d bytes is too long", len(name))
	case strings.ContainsRune(name, 0):
		reason = "it has a NUL byte"
	case name[0] == '/':
		reason = "it is absolute"
	case path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		reason = "it is not a plain path below the top level"
	}
	if reason != "" {
		return fmt.Errorf("%s: %s", Quote(name), reason)
	}
	return nil
}
