package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/stricttoml"
)

// A Scope is whose file an entry stands in.
type Scope string

// The scopes.
const (
	Project Scope = "project" // .bestof/mcp.toml of the repository
	User    Scope = "user"    // $BESTOF_HOME/mcp.toml, for every repository
)

// MaxServers is how many entries one file may have: each may be a process.
const MaxServers = 256

// An Unusable entry is one that has to be mended first; the others of its file can.
type Unusable struct {
	Name   string
	Reason string // one line, with the remedy, without any value of the entry
}

// A Config is one mcp.toml.
type Config struct {
	Servers  []Server   // sorted by name
	Unusable []Unusable // sorted by name
	Notices  []string   // what was read and counts for nothing, one line each, in the order of the file
}

// Server finds an entry that can be used.
func (c Config) Server(name string) (Server, bool) {
	for _, s := range c.Servers {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

// Has reports whether the file has an entry of the name, usable or not.
func (c Config) Has(name string) bool {
	_, ok := c.Server(name)
	return ok || slices.ContainsFunc(c.Unusable, func(u Unusable) bool { return u.Name == name })
}

// The keys of an entry, in the order in which they are written.
var (
	commonKeys = []string{"transport"}
	stdioKeys  = []string{"cmd", "args", "env"}
	httpKeys   = []string{"url", "headers"}
	lastKeys   = []string{"candidate_safe", "granted", "title", "description", "registry_name", "repository", "version"}
)

// keysOf are the keys that an entry of a transport may have.
func keysOf(t Transport) []string {
	if t == Stdio {
		return slices.Concat(commonKeys, stdioKeys, lastKeys)
	}
	return slices.Concat(commonKeys, httpKeys, lastKeys)
}

// ParseConfig reads an mcp.toml; name is how messages call it. What is no TOML,
// lacks a required key or has a value of a wrong type is an error about the
// whole file, a *stricttoml.Error with its line. Unknown keys, keys in another
// case and keys of the other transport count for nothing and are notices.
// Neither errors nor notices hold a value of the file, since any could be a
// secret.
func ParseConfig(name string, data []byte) (Config, error) {
	raw, err := parse(name, data)
	if err != nil {
		return Config{}, err
	}
	r := &reader{file: name, at: stricttoml.Locate(data)}
	return r.config(raw)
}

// parse reads TOML without quoting it in errors.
func parse(name string, data []byte) (map[string]any, error) {
	if len(data) > stricttoml.MaxSize {
		return nil, &stricttoml.Error{Name: name, Problem: fmt.Sprintf("larger than %d bytes", stricttoml.MaxSize)}
	}
	var raw map[string]any
	if err := stricttoml.Decode(name, data, &raw); err != nil {
		line := 0
		var e *stricttoml.Error
		if errors.As(err, &e) {
			line = e.Line
		}
		return nil, &stricttoml.Error{Name: name, Line: line, Problem: "this is not TOML, or it defines something a second time: mend it (the line is not shown, since it may hold a secret)"}
	}
	return raw, nil
}

// A reader turns a parsed file into a Config.
type reader struct {
	file string
	at   stricttoml.Positions
	out  Config
}

func (r *reader) errorf(path []any, format string, args ...any) error {
	return &stricttoml.Error{Name: r.file, Line: r.at.Line(path...), Problem: fmt.Sprintf(format, args...)}
}

func (r *reader) notice(path []any, format string, args ...any) {
	r.out.Notices = append(r.out.Notices, r.errorf(path, format, args...).Error())
}

func (r *reader) config(raw map[string]any) (Config, error) {
	for _, key := range r.inOrder(raw, nil) {
		if key != "servers" {
			r.unknown([]any{key}, key, []string{"servers"})
		}
	}
	tables, err := r.table(raw, nil, "servers")
	if err != nil {
		return Config{}, err
	}
	for i, name := range r.inOrder(tables, []any{"servers"}) {
		if i == MaxServers {
			return Config{}, r.errorf([]any{"servers", name}, "there are more than %d servers: remove some", MaxServers)
		}
		if err := r.entry(tables, name); err != nil {
			return Config{}, err
		}
	}
	slices.SortFunc(r.out.Servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.out.Unusable, func(a, b Unusable) int { return cmp.Compare(a.Name, b.Name) })
	return r.out, nil
}

func (r *reader) entry(tables map[string]any, name string) error {
	path := []any{"servers", name}
	table, err := r.table(tables, path[:1], name)
	if err != nil {
		return err
	}
	s, err := r.server(table, path)
	if err != nil {
		return err
	}
	s.Name = name
	if err := CheckServer(s); err != nil {
		r.out.Unusable = append(r.out.Unusable, Unusable{name, err.Error()})
		return nil
	}
	r.out.Servers = append(r.out.Servers, s)
	return nil
}

func (r *reader) server(table map[string]any, path []any) (Server, error) {
	var s Server
	transport, err := r.text(table, path, "transport", true)
	if err != nil {
		return s, err
	}
	s.Transport = Transport(transport)
	if s.Transport != Stdio && s.Transport != HTTP {
		return s, r.errorf(slices.Concat(path, []any{"transport"}), "%s: transport is neither \"stdio\" nor \"http\"", shownPath(path))
	}
	known := keysOf(s.Transport)
	for _, key := range r.inOrder(table, path) {
		switch at := slices.Concat(path, []any{key}); {
		case slices.Contains(known, key):
		case slices.Contains(stdioKeys, key), slices.Contains(httpKeys, key):
			r.notice(at, "%s: %s counts for nothing with transport = %q", shownPath(path), key, s.Transport)
		default:
			r.unknown(at, key, known)
		}
	}
	var errs [12]error
	if s.Transport == Stdio {
		s.Cmd, errs[0] = r.text(table, path, "cmd", true)
		s.Args, errs[1] = r.list(table, path, "args")
		s.Env, errs[2] = r.strings(table, path, "env")
	} else {
		s.URL, errs[0] = r.text(table, path, "url", true)
		s.Headers, errs[1] = r.strings(table, path, "headers")
	}
	var safe *bool
	safe, errs[3] = r.boolean(table, path, "candidate_safe")
	s.CandidateSafe = safe != nil && *safe
	s.Granted, errs[4] = r.boolean(table, path, "granted")
	for i, card := range s.card() {
		*card.field, errs[5+i] = r.text(table, path, card.key, false)
	}
	return s, cmp.Or(errs[:]...)
}

// A cardField is one key of a server's card.
type cardField struct {
	key   string
	field *string
}

func (s *Server) card() []cardField {
	return []cardField{
		{"title", &s.Title}, {"description", &s.Description}, {"registry_name", &s.RegistryName},
		{"repository", &s.Repository}, {"version", &s.Version},
	}
}

func (r *reader) unknown(path []any, key string, known []string) {
	for _, k := range known {
		if strings.EqualFold(k, key) {
			r.notice(path, "%s is no key and counts for nothing (keys are case-sensitive: did you mean %q?)", shownPath(path), k)
			return
		}
	}
	r.notice(path, "%s is no key and counts for nothing", shownPath(path))
}

// table reads a table; one that is not there is empty.
func (r *reader) table(in map[string]any, path []any, key string) (map[string]any, error) {
	v, ok := in[key]
	if !ok {
		return nil, nil
	}
	at := slices.Concat(path, []any{key})
	if t, ok := v.(map[string]any); ok {
		return t, nil
	}
	return nil, r.errorf(at, "%s is not a table", shownPath(at))
}

func (r *reader) text(in map[string]any, path []any, key string, required bool) (string, error) {
	v, ok := in[key]
	if !ok && required {
		hint := ""
		for k := range in {
			if strings.EqualFold(k, key) {
				hint = fmt.Sprintf(" (keys are case-sensitive: there is %q)", k)
			}
		}
		return "", r.errorf(path, "%s has no %s%s", shownPath(path), key, hint)
	}
	if s, isText := v.(string); isText || !ok {
		return s, nil
	}
	return "", r.wrong(path, key, "a string")
}

func (r *reader) boolean(in map[string]any, path []any, key string) (*bool, error) {
	v, ok := in[key]
	if !ok {
		return nil, nil
	}
	if b, ok := v.(bool); ok {
		return &b, nil
	}
	return nil, r.wrong(path, key, "true or false")
}

func (r *reader) list(in map[string]any, path []any, key string) ([]string, error) {
	v, ok := in[key]
	if !ok {
		return nil, nil
	}
	values, ok := v.([]any)
	if !ok {
		return nil, r.wrong(path, key, "a list of strings")
	}
	out := make([]string, len(values))
	for i, v := range values {
		if out[i], ok = v.(string); !ok {
			at := slices.Concat(path, []any{key, i})
			return nil, r.errorf(at, "%s: element %d is not a string", shownPath(at[:len(at)-1]), i+1)
		}
	}
	return out, nil
}

func (r *reader) strings(in map[string]any, path []any, key string) (map[string]string, error) {
	v, ok := in[key]
	if !ok {
		return nil, nil
	}
	values, ok := v.(map[string]any)
	if !ok {
		return nil, r.wrong(path, key, "a table of strings")
	}
	at := slices.Concat(path, []any{key})
	out := make(map[string]string, len(values))
	for _, k := range r.inOrder(values, at) {
		if out[k], ok = values[k].(string); !ok {
			return nil, r.wrong(at, k, "a string")
		}
	}
	return out, nil
}

func (r *reader) wrong(path []any, key, want string) error {
	at := slices.Concat(path, []any{key})
	return r.errorf(at, "%s is not %s", shownPath(at), want)
}

// inOrder lists the keys of a table as they stand in the file.
func (r *reader) inOrder(table map[string]any, path []any) []string {
	lines := make(map[string]int, len(table))
	for key := range table {
		lines[key] = r.at.Line(slices.Concat(path, []any{key})...)
	}
	return slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		return cmp.Or(cmp.Compare(lines[a], lines[b]), cmp.Compare(a, b))
	})
}

// shownPath is a path as TOML writes it. Only the name of an entry is shown
// whole.
func shownPath(path []any) string {
	keys := make([]string, len(path))
	for i, part := range path {
		if keys[i] = writtenKey(fmt.Sprint(part)); i != 1 {
			keys[i] = writtenKey(shownKey(fmt.Sprint(part)))
		}
	}
	return strings.Join(keys, ".")
}

// shownKey is a key as messages may show it: people write "NAME=value" or
// "Name: value" where only a name belongs.
func shownKey(key string) string {
	if i := strings.IndexAny(key, "=: \t\r\n"); i >= 0 {
		return key[:i] + hidden
	}
	return key
}
