package mcp

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// CheckServer says why a server cannot be used as an entry of mcp.toml. The
// reason names keys and never holds a value but the entry's name.
func CheckServer(s Server) error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch s.Transport {
	case Stdio:
		return checkStdio(s)
	case HTTP:
		return checkHTTP(s)
	}
	return fmt.Errorf("the transport of %q is neither \"stdio\" nor \"http\"", s.Name)
}

func checkStdio(s Server) error {
	if strings.TrimSpace(s.Cmd) == "" {
		return errors.New("cmd is empty: name the program")
	}
	if !plainText(s.Cmd) || slices.ContainsFunc(s.Args, func(a string) bool { return !plainText(a) }) {
		return errors.New("cmd or args hold a NUL or no UTF-8, which no program can be given")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.Contains(name, "=") || !plainText(name) {
			return fmt.Errorf("env: %q cannot be the name of a variable", shownKey(name))
		}
		if !plainText(s.Env[name]) {
			return fmt.Errorf("env: the value of %q holds a NUL or no UTF-8, which no program can be given", name)
		}
	}
	return nil
}

func plainText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

func checkHTTP(s Server) error {
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New("url is not an http or https address with a host: write it whole, as https://host/mcp")
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		switch lower := strings.ToLower(name); {
		case name == "" || strings.IndexFunc(name, func(r rune) bool { return !tokenRune(r) }) >= 0:
			return fmt.Errorf("headers: %q cannot be the name of a header", shownKey(name))
		case seen[lower]:
			return fmt.Errorf("headers: %q stands there twice, in different cases", name)
		case strings.IndexFunc(s.Headers[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) >= 0 || !utf8.ValidString(s.Headers[name]):
			return fmt.Errorf("headers: the value of %q holds a line end or another control character", name)
		default:
			seen[lower] = true
		}
	}
	return nil
}

// tokenRune reports whether r may stand in a header's name (RFC 9110, 5.6.2).
func tokenRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// An Entry is a server of one of the two files, with what else decides
// whether it may be used.
type Entry struct {
	Server
	Scope  Scope
	Record *Record // what the operator reviewed, nil for nothing
}

// Merge puts the entries of both files together, sorted by name. Where both
// have a name the operator's counts, also when it cannot be used or is
// withheld: a repository takes no name from the operator. notices has one line
// about all such names, if any.
func Merge(project, user Config) (entries []Entry, unusable []Unusable, shadowed []string) {
	for _, s := range user.Servers {
		entries = append(entries, Entry{Server: s, Scope: User})
	}
	unusable = slices.Clone(user.Unusable)
	for _, s := range project.Servers {
		if user.Has(s.Name) {
			shadowed = append(shadowed, s.Name)
			continue
		}
		entries = append(entries, Entry{Server: s, Scope: Project})
	}
	for _, u := range project.Unusable {
		if user.Has(u.Name) {
			shadowed = append(shadowed, u.Name)
			continue
		}
		unusable = append(unusable, u)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(unusable, func(a, b Unusable) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(shadowed)
	return entries, unusable, shadowed
}
