package mcp

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/redact"
)

// hidden stands where a value is not shown.
const hidden = "…"

// Endpoint is where a server is, for people: the command line or the URL,
// without what is or could be a credential. It is not cleaned for a terminal.
func (s Server) Endpoint() string {
	known := redact.New(s.Secrets())
	if s.Transport == HTTP {
		return known.String(hideInURL(s.URL))
	}
	words := []string{s.Cmd}
	for i, arg := range s.Args {
		before := ""
		if i > 0 {
			before = s.Args[i-1]
		}
		words = append(words, known.String(hideInArg(before, arg)))
	}
	for i, w := range words {
		words[i] = QuotedWord(w)
	}
	return strings.Join(words, " ")
}

// Credentials lists the names of the variables or headers that the entry
// holds, sorted.
func (s Server) Credentials() []string {
	if s.Transport == HTTP {
		return slices.Sorted(maps.Keys(s.Headers))
	}
	return slices.Sorted(maps.Keys(s.Env))
}

// HasSecrets reports whether the entry holds what others must not read: a
// header, or a variable that is named as credentials are.
func (s Server) HasSecrets() bool {
	for name := range s.Env {
		if redact.CredentialName(name) {
			return true
		}
	}
	return len(s.Headers) > 0
}

// Secrets lists the values that must not be shown anywhere: of all headers, of
// the variables that are named as credentials are, or are long, and what
// AddressSecrets are.
func (s Server) Secrets() []string {
	out := s.AddressSecrets()
	for _, v := range s.Headers {
		out = append(out, v)
		if _, token, ok := strings.Cut(v, " "); ok {
			out = append(out, token)
		}
	}
	for name, v := range s.Env {
		if redact.CredentialName(name) || len(v) >= 16 {
			out = append(out, v)
		}
	}
	return out
}

// AddressSecrets lists what Endpoint hides of the address or the arguments and
// could be a credential: a password, a value that is named as credentials are,
// and what looks like a key.
func (s Server) AddressSecrets() []string {
	if s.Transport == HTTP {
		return secretsInURL(s.URL)
	}
	var out []string
	for i, arg := range s.Args {
		before := ""
		if i > 0 {
			before = s.Args[i-1]
		}
		switch shown := hideInArg(before, arg); {
		case shown == arg:
		case strings.Contains(shown, "://"):
			out = append(out, secretsInURL(arg[strings.LastIndexAny(arg[:strings.Index(arg, "://")], "= ")+1:])...)
		case shown == hidden:
			out = append(out, arg)
		default: // NAME=… or NAME: …, of which the name is shown
			value := arg[strings.IndexAny(arg, "=:")+1:]
			_, word, _ := strings.Cut(strings.TrimSpace(value), " ") // of "Bearer …"
			out = append(out, strings.TrimSpace(value), word)
		}
	}
	return longEnough(out)
}

// secretsInURL lists what hideInURL hides and could be a credential.
func secretsInURL(raw string) (out []string) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	if password, ok := u.User.Password(); ok {
		out = append(out, password)
	} else if u.User != nil {
		out = append(out, u.User.Username())
	}
	for _, part := range strings.Split(u.EscapedPath(), "/") {
		if looksLikeKey(part) {
			out = append(out, part)
		}
	}
	for _, pair := range strings.Split(u.RawQuery, "&") {
		name, value, valued := strings.Cut(pair, "=")
		if !valued {
			name, value = "", pair // a bare word may be the key itself
		}
		if credentialFlag(name) || looksLikeKey(value) {
			plain, _ := url.QueryUnescape(value)
			out = append(out, value, plain)
		}
	}
	return longEnough(out)
}

// longEnough leaves out values that would hide ordinary words.
func longEnough(values []string) []string {
	const shortest = 8
	return slices.DeleteFunc(values, func(v string) bool { return len(v) < shortest })
}

// QuotedWord writes a word as a shell would take it for one, so that a person
// sees where it begins and ends and can copy it.
func QuotedWord(w string) string {
	special := func(r rune) bool {
		return r < 0x80 && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_@%+=:,./-", r))
	}
	if w == "" || strings.IndexFunc(w, special) >= 0 {
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return w
}

// hideInURL hides the userinfo, every value of the query, the fragment and the
// parts of the path that look like a key.
func hideInURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return hidden
	}
	var b strings.Builder
	b.WriteString(u.Scheme + "://")
	if u.User != nil {
		b.WriteString(hidden + "@")
	}
	b.WriteString(u.Host)
	segments := strings.Split(u.EscapedPath(), "/")
	for i, part := range segments {
		if looksLikeKey(part) {
			segments[i] = hidden
		}
	}
	b.WriteString(strings.Join(segments, "/"))
	if u.RawQuery != "" {
		pairs := strings.Split(u.RawQuery, "&")
		for i, p := range pairs {
			name, _, valued := strings.Cut(p, "=")
			if pairs[i] = name + "=" + hidden; !valued {
				pairs[i] = hidden // a bare word may be the key itself
			}
		}
		b.WriteString("?" + strings.Join(pairs, "&"))
	}
	if u.Fragment != "" {
		b.WriteString("#" + hidden)
	}
	return b.String()
}

// looksLikeKey reports whether a part of a path is long and has digits among
// letters, as keys have and words do not.
func looksLikeKey(part string) bool {
	digits, letters := 0, 0
	for _, r := range part {
		switch {
		case '0' <= r && r <= '9':
			digits++
		case r|0x20 >= 'a' && r|0x20 <= 'z':
			letters++
		}
	}
	return len(part) >= 20 && digits >= 3 && letters >= 3
}

// hideInArg hides in one argument what its name, or the argument before it,
// says is a credential.
func hideInArg(before, arg string) string {
	if isFlag(before) && !strings.Contains(before, "=") && credentialFlag(before) && !isFlag(arg) {
		return hidden
	}
	if i := strings.Index(arg, "://"); i > 0 {
		from := strings.LastIndexAny(arg[:i], "= ") + 1
		if credentialFlag(strings.TrimRight(arg[:from], "= ")) {
			return arg[:from] + hidden
		}
		return arg[:from] + hideInURL(arg[from:])
	}
	if name, _, ok := strings.Cut(arg, "="); ok && credentialFlag(name) {
		return name + "=" + hidden
	}
	if name, value, ok := strings.Cut(arg, ":"); ok && value != "" && (headerFlag(before) || credentialFlag(name)) {
		return name + ": " + hidden
	}
	return arg
}

func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

func headerFlag(arg string) bool { return arg == "-H" || arg == "--header" }

// credentialFlag reads a flag, a variable or a header by its name.
func credentialFlag(name string) bool {
	if i := strings.LastIndexByte(name, '='); i >= 0 {
		name = name[i+1:]
	}
	name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")
	upper := strings.ToUpper(name)
	return redact.CredentialName(name) || slices.Contains([]string{"AUTHORIZATION", "KEY", "AUTH", "PASS", "PASSWD", "BEARER", "PAT"}, upper) ||
		slices.ContainsFunc([]string{"_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD"}, func(end string) bool { return strings.HasSuffix(upper, end) })
}
