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
// what looks like a key, and a URL that cannot be read.
func (s Server) AddressSecrets() []string {
	if s.Transport == HTTP {
		return longEnough(secretsInURL(s.URL))
	}
	var out []string
	for i, arg := range s.Args {
		before := ""
		if i > 0 {
			before = s.Args[i-1]
		}
		shown := hideInArg(before, arg)
		if from := urlIn(arg); from >= 0 && shown != arg {
			out = append(out, secretsInURL(arg[from:])...)
			if !strings.Contains(shown, "://") && !slices.Contains(out, arg[from:]) {
				out = append(out, arg[from:])
			}
			continue
		}
		switch name, named := strings.CutSuffix(shown, "="+hidden); {
		case shown == arg:
		case shown == hidden:
			out = append(out, arg)
		case named:
			out = append(out, spoken(arg[len(name)+1:])...)
		default:
			name = strings.TrimSuffix(shown, ": "+hidden)
			value := arg[len(name)+1:]
			if credentialHeader(name) || slices.ContainsFunc(strings.Fields(value), looksLikeKey) {
				out = append(out, spoken(value)...)
			}
		}
	}
	return longEnough(out)
}

// spoken is a value, and what stands in it behind a word as "Bearer".
func spoken(value string) []string {
	value = strings.TrimSpace(value)
	_, word, _ := strings.Cut(value, " ")
	return []string{value, strings.TrimSpace(word)}
}

// secretsInURL lists what hideInURL hides and could be a credential, as it is
// written and as it is meant.
func secretsInURL(raw string) (out []string) {
	add := func(written string, meant func(string) (string, error)) {
		out = append(out, written)
		if plain, err := meant(written); err == nil && plain != written {
			out = append(out, plain)
		}
	}
	user := func(info string) {
		if _, password, ok := strings.Cut(info, ":"); ok {
			add(password, url.PathUnescape)
		} else if looksLikeKey(info) {
			add(info, url.PathUnescape)
		}
	}
	_, rest, _ := strings.Cut(raw, "//")
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		out = append(out, raw)
		first, last := strings.Index(rest, "@"), strings.LastIndex(rest, "@")
		if last >= 0 { // a password that is not escaped may have any of /?#
			out = append(out, rest[:last])
			user(rest[:last])
		}
		if first < last { // and what is behind the host may have an @
			user(rest[:first])
		}
	}
	if err != nil {
		return out
	}
	if u.User != nil && u.Host != "" {
		authority := rest
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			authority = rest[:end]
		}
		user(authority[:max(0, strings.LastIndex(authority, "@"))])
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
			add(value, url.QueryUnescape)
		}
	}
	if _, fragment, ok := strings.Cut(raw, "#"); ok {
		add(fragment, url.PathUnescape)
	}
	return out
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
	if from := urlIn(arg); from >= 0 {
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

// urlIn is where a URL begins in an argument, -1 if none does.
func urlIn(arg string) int {
	i := strings.Index(arg, "://")
	if i <= 0 {
		return -1
	}
	return strings.LastIndexAny(arg[:i], "= ") + 1
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

// credentialHeader reads a header by its name.
func credentialHeader(name string) bool {
	upper := strings.ToUpper(strings.TrimSpace(name))
	return credentialFlag(upper) ||
		slices.ContainsFunc([]string{"AUTHORIZATION", "AUTH", "COOKIE", "SESSION", "SIGNATURE"}, func(end string) bool { return strings.HasSuffix(upper, end) })
}
