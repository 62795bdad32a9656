package registry

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/mcp"
)

// A Concern is something that a stranger's entry wants and that a person has
// to agree to by itself.
type Concern struct {
	About string // one line for people
	Flag  string // the flag that agrees, where nobody can be asked
}

// The flags that agree to concerns.
const (
	RunnerFlag = "--runner-ok"
	RiskFlag   = "--risk-ok"
)

// Filled is an option with all its values: what an install writes.
type Filled struct {
	Kind     Kind
	Cmd      string
	Args     []string
	Env      map[string]string
	URL      string
	Headers  map[string]string
	Shown    string   // the whole command line, or the address, without secrets
	Settings []string // variables and headers as they are set, without secrets, sorted
	Concerns []Concern
}

// A ValueError is about a value of the user's, who can give another one.
type ValueError struct{ error }

func (e *ValueError) Unwrap() error { return e.error }

// Fill puts the user's values into an option. It fails for values that are
// missing or not asked for, and for what is never installed.
func (o Option) Fill(values Values) (Filled, error) {
	if o.Refused != "" {
		return Filled{}, fmt.Errorf("%s: %s", o.Label, o.Refused)
	}
	if err := checkValues(o.Inputs, values); err != nil {
		return Filled{}, &ValueError{err}
	}
	if missing := o.Missing(values); len(missing) > 0 {
		return Filled{}, &ValueError{fmt.Errorf("%s: it needs a value for %s", o.Label, missing[0].Name)}
	}
	if o.Kind == OnHTTP {
		return o.fillRemote(values)
	}
	return o.fillPackage(values)
}

func (o Option) fillRemote(values Values) (Filled, error) {
	f := Filled{Kind: o.Kind, Headers: map[string]string{}}
	address := o.render(o.url, values)
	if len(address) != 1 {
		return f, fmt.Errorf("%s: its address needs a value", o.Label)
	}
	f.URL, f.Shown = address[0].real, address[0].shown
	if err := CheckURL(f.URL); err != nil {
		return f, fmt.Errorf("%q: %w", f.Shown, err)
	}
	if address[0].secret() {
		f.Concerns = append(f.Concerns, Concern{"the address holds a secret, and addresses are shown and logged", RiskFlag})
	}
	for _, h := range o.headers {
		for _, w := range o.render(h.value, values) {
			if strings.ContainsFunc(w.real, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return f, fmt.Errorf("the header %s cannot hold a line break or another control character", h.name)
			}
			f.Headers[h.name] = w.real
			f.Settings = append(f.Settings, h.name+": "+w.shown)
		}
	}
	slices.Sort(f.Settings)
	return f, nil
}

// CheckURL says why a text cannot be the address of a server: it has to be
// https, or on this machine.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return fmt.Errorf("it is not an address")
	case u.User != nil:
		return fmt.Errorf("it holds a user name, which belongs in a header")
	case u.Fragment != "" || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f || r > 0x7e }):
		return fmt.Errorf("it holds characters that an address cannot have")
	case strings.ContainsAny(u.Host, "{}") || strings.ContainsAny(u.Path, "{}"):
		return fmt.Errorf("it has a variable that the publisher does not declare")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("it does not begin with https://, so that anybody between could read and change it")
}

func (o Option) fillPackage(values Values) (Filled, error) {
	f := Filled{Kind: o.Kind, Cmd: o.cmd, Env: map[string]string{}}
	env, byUser := map[string]word{}, map[string]bool{}
	for _, v := range o.env {
		for _, w := range o.render(v.value, values) {
			env[v.name] = w
			byUser[v.name] = len(v.value) == 1 && len(values[v.value[0].input]) > 0
		}
	}
	before, err := o.checkRuntime(o.words(o.runtime, values), env, &f)
	if err != nil {
		return f, fmt.Errorf("%s: %w", o.Label, err)
	}
	names := slices.Sorted(maps.Keys(env))
	for _, name := range names {
		if err := checkEnv(name, byUser[name], &f); err != nil {
			return f, fmt.Errorf("%s: %w", o.Label, err)
		}
		f.Env[name] = env[name].real
		f.Settings = append(f.Settings, name+"="+env[name].shown)
	}
	after := slices.Concat(o.words(o.arguments, values)...)

	if o.Runner != "" {
		f.Concerns = append([]Concern{{fmt.Sprintf("it wants to be started by the program %q", o.Runner), RunnerFlag}}, f.Concerns...)
	}
	words := o.line(before, after, names)
	for _, w := range words {
		if strings.ContainsRune(w.real, 0) {
			return f, fmt.Errorf("%s: an argument holds a NUL byte", o.Label)
		}
	}
	if slices.ContainsFunc(words, word.secret) {
		f.Concerns = append(f.Concerns, Concern{"the command line holds a secret, which everybody on this machine can read", RiskFlag})
	}
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = w.shown
		if i > 0 {
			f.Args = append(f.Args, w.real)
		}
	}
	f.Shown = argv.Join(shown)
	return f, nil
}

// line is the whole command line.
func (o Option) line(before, after []word, env []string) []word {
	words, ident := []word{plain(o.cmd)}, []word{plain(o.ident)}
	if o.Runner != "" {
		return slices.Concat(words, before, ident, after)
	}
	switch o.Kind {
	case NPM:
		words = append(words, plain("-y"))
	case NuGet:
		return slices.Concat(words, ident, []word{plain("--yes")}, before, separated(after))
	case OCI:
		words = append(words, plain("run"), plain("-i"), plain("--rm"))
		for _, name := range env {
			words = append(words, plain("-e"), plain(name))
		}
	}
	return slices.Concat(words, before, ident, after)
}

// separated puts -- before arguments that a runner would else take for its own.
func separated(words []word) []word {
	if len(words) == 0 {
		return nil
	}
	return append([]word{plain("--")}, words...)
}

// words renders arguments: each gives groups of one word, or of a flag and its
// value, which stay together.
func (o Option) words(list []argument, values Values) [][]word {
	var groups [][]word
	for _, a := range list {
		for _, w := range o.render(a.value, values) {
			switch {
			case a.flag == "":
				groups = append(groups, []word{w})
			case w.real == "" && a.single:
				groups = append(groups, []word{plain(a.flag)})
			default:
				groups = append(groups, []word{plain(a.flag), w})
			}
		}
	}
	return groups
}

// Server is the entry of mcp.toml that an install writes. It is withheld until
// it is granted.
func (f Filled) Server(alias string, e Entry) mcp.Server {
	withheld := false
	s := mcp.Server{
		Name: alias, Transport: mcp.Stdio, Cmd: f.Cmd, Args: f.Args, Env: f.Env, Granted: &withheld,
		Title: flat(e.Server.Title, 200), Description: flat(e.Server.Description, 500),
		RegistryName: e.Server.Name, Version: flat(e.Server.Version, 255),
	}
	if f.Kind == OnHTTP {
		s.Transport, s.Cmd, s.Args, s.Env = mcp.HTTP, "", nil, nil
		s.URL, s.Headers = f.URL, f.Headers
	}
	if u, err := url.Parse(e.Server.Repository.URL); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.User == nil {
		s.Repository = flat(e.Server.Repository.URL, 500)
	}
	return s
}

// flat is a text on one line, at most max characters long.
func flat(s string, max int) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 }), " ")
	if r := []rune(s); len(r) > max {
		s = string(r[:max-1]) + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
