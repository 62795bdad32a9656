package registry

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/internal/lazyregexp"
)

// A Kind is what an option installs from: a package type or Remote.
type Kind string

// The kinds that can be installed.
const (
	NPM    Kind = "npm"
	PyPI   Kind = "pypi"
	OCI    Kind = "oci"
	NuGet  Kind = "nuget"
	OnHTTP Kind = "remote"
)

// runners are the programs that start a package of each kind.
var runners = map[Kind]string{NPM: "npx", PyPI: "uvx", OCI: "docker", NuGet: "dnx"}

// An Option is one way to install an entry. It holds no value of the user's.
type Option struct {
	Kind    Kind
	Label   string // the identifier with its version, or the address: for people
	Refused string // why it cannot be installed, or ""
	Runner  string // a program that bestof does not know and the publisher wants, or ""
	Inputs  []Input

	cmd       string
	ident     string // with its version
	runtime   []argument
	arguments []argument
	env       []named
	url       template
	headers   []named
}

type argument struct {
	flag   string // of a named one
	value  template
	asked  bool // without a value of the user's it is left out
	single bool // the flag stands alone when the value is empty
}

type named struct {
	name  string
	value template
}

// Plan lists the ways to install an entry: what runs already first, as the
// publisher lists them. It fails when there is none that can be used; then the
// options say why.
func Plan(e Entry) ([]Option, error) {
	s := e.Server
	if len(s.Remotes) > maxList || len(s.Packages) > maxList {
		return nil, fmt.Errorf("%s has more than %d packages or addresses", s.Name, maxList)
	}
	var options []Option
	for _, r := range s.Remotes {
		options = append(options, planRemote(r))
	}
	for _, p := range s.Packages {
		options = append(options, planPackage(p))
	}
	var why []string
	for _, o := range options {
		if o.Refused == "" {
			return options, nil
		}
		why = append(why, fmt.Sprintf("%s %s: %s", o.Kind, o.Label, o.Refused))
	}
	if len(why) == 0 {
		return options, fmt.Errorf("%s publishes neither a package nor an address", s.Name)
	}
	return options, fmt.Errorf("%s cannot be installed: %s", s.Name, strings.Join(why, "; "))
}

func planRemote(r Remote) Option {
	o := Option{Kind: OnHTTP, Label: r.URL}
	switch r.Type {
	case "streamable-http", "http":
	case "sse":
		o.Refused = "it speaks the old HTTP+SSE transport, which MCP has given up"
		return o
	default:
		o.Refused = fmt.Sprintf("its transport %q is not known", r.Type)
		return o
	}
	var in inputs
	switch {
	case len(r.Headers) > maxList || len(r.Variables) > maxList || len(r.URL) > maxText:
		in.fail("it has more headers or variables than bestof reads")
	case r.URL == "":
		in.fail("it has no address")
	default:
		o.url, _ = in.variables(r.URL, r.Variables, "part of the address", true, false, false)
		for _, h := range r.Headers {
			if len(h.Name) > 100 || !headerName().MatchString(h.Name) || forbiddenHeader[strings.ToLower(h.Name)] {
				in.fail("it wants a header called %.60q", h.Name)
				break
			}
			o.headers = append(o.headers, named{h.Name, in.template(h.Value, h.Name, "header", h.IsRequired, false)})
		}
	}
	return o.finish(in)
}

func (o Option) finish(in inputs) Option {
	o.Inputs = in.list
	if in.err != nil {
		o.Refused = in.err.Error()
	}
	return o
}

var headerName = lazyregexp.New("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// forbiddenHeader are headers that belong to the connection and not to whoever
// configures a server.
var forbiddenHeader = map[string]bool{
	"host": true, "content-length": true, "transfer-encoding": true, "connection": true, "upgrade": true, "te": true, "trailer": true,
	"content-type": true, "accept": true, "mcp-session-id": true, "mcp-protocol-version": true, "proxy-authorization": true,
}

func planPackage(p Package) Option {
	o := Option{Kind: Kind(p.Type), Label: strings.Trim(p.Identifier+" "+p.Version, " ")}
	if o.Kind == "docker" {
		o.Kind = OCI
	}
	runner, ok := runners[o.Kind]
	switch {
	case p.Type == "mcpb":
		o.Refused = "a bundle (mcpb) has to be downloaded and unpacked, which bestof does not do"
	case p.Type == "cargo":
		o.Refused = "a crate (cargo) has to be compiled first: install it yourself and write the entry by hand"
	case !ok:
		o.Refused = fmt.Sprintf("its package type %q is not known", p.Type)
	case p.Transport.Type != "" && p.Transport.Type != "stdio":
		o.Refused = fmt.Sprintf("it runs as a server of its own (%.40q), which bestof does not start", p.Transport.Type)
	case len(p.Runtime) > maxList || len(p.Arguments) > maxList || len(p.Environment) > maxList:
		o.Refused = fmt.Sprintf("it has more than %d arguments or variables", maxList)
	}
	if o.Refused != "" {
		return o
	}
	ident, err := pinned(o.Kind, p)
	if err != nil {
		o.Refused = err.Error()
		return o
	}
	o.cmd, o.ident, o.Label = runner, ident, ident
	if p.RuntimeHint != "" && p.RuntimeHint != runner {
		if runtimeRules[p.RuntimeHint] != nil {
			o.Refused = fmt.Sprintf("it wants a package of %s to be started by %s", o.Kind, p.RuntimeHint)
			return o
		}
		if !runnerName().MatchString(p.RuntimeHint) {
			o.Refused = fmt.Sprintf("it wants to be started by %.60q, which is not the name of a program", p.RuntimeHint)
			return o
		}
		o.cmd, o.Runner = p.RuntimeHint, p.RuntimeHint
	}
	var in inputs
	o.runtime = planArguments(&in, p.Runtime, "argument of "+o.cmd)
	for _, v := range p.Environment {
		if len(v.Name) > 200 || !envName().MatchString(v.Name) {
			in.fail("it wants an environment variable called %.60q", v.Name)
			break
		}
		o.env = append(o.env, named{v.Name, in.template(v.Value, v.Name, "environment variable", v.IsRequired, false)})
	}
	o.arguments = planArguments(&in, p.Arguments, "argument")
	return o.finish(in)
}

var (
	runnerName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
	envName    = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	flagName   = lazyregexp.New(`^-{0,2}[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
)

func planArguments(in *inputs, list []Argument, where string) []argument {
	var out []argument
	for i, a := range list {
		switch a.Type {
		case "named":
			if !flagName().MatchString(a.Name) {
				in.fail("it has an argument called %.60q", a.Name)
				return nil
			}
			if a.Text == "" && a.Default == "" && !a.IsRequired && !asks(a) {
				a.Description = strings.TrimSpace(a.Description + " (left out unless set; an empty value gives the flag alone)")
			}
			name := strings.TrimLeft(a.Name, "-")
			out = append(out, argument{flag: a.Name, value: in.template(a.Value, name, where, a.IsRequired, a.IsRepeated), single: true})
		case "positional", "":
			name := a.ValueHint
			if name == "" {
				name = "argument" + strconv.Itoa(i+1)
			}
			out = append(out, argument{value: in.template(a.Value, name, where, a.IsRequired, a.IsRepeated)})
		default:
			in.fail("it has an argument of the kind %.40q", a.Type)
			return nil
		}
	}
	return out
}

// asks reports whether an argument says something about the value it wants.
func asks(a Argument) bool {
	return a.ValueHint != "" || a.Placeholder != "" || a.Format != "" || len(a.Choices) > 0
}

var (
	npmName    = lazyregexp.New(`^(@[A-Za-z0-9~][A-Za-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*$`)
	npmVersion = lazyregexp.New(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	pypiName   = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	pypiVer    = lazyregexp.New(`^(\d+!)?\d+(\.\d+)*((a|b|rc|\.post|\.dev|-)\d+)*(\+[A-Za-z0-9.]+)?$`)
	nugetName  = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	nugetVer   = lazyregexp.New(`^\d+(\.\d+){1,3}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	imageName  = lazyregexp.New(`^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:\d{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
	imageTag   = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

// bases are the package registries that the runners ask by themselves.
var bases = map[Kind][]string{
	NPM:   {"https://registry.npmjs.org"},
	PyPI:  {"https://pypi.org", "https://pypi.org/simple"},
	NuGet: {"https://api.nuget.org", "https://api.nuget.org/v3/index.json", "https://www.nuget.org", "https://nuget.org"},
}

var errNoVersion = errors.New("it names no exact version, and bestof installs nothing that can change by itself")

// pinned is the identifier with its exact version, in the form of the runner.
func pinned(kind Kind, p Package) (string, error) {
	if len(p.Identifier) > 512 || len(p.Version) > 255 {
		return "", errors.New("its identifier is longer than 512 bytes")
	}
	if kind == OCI {
		return pinnedImage(p)
	}
	if base := strings.TrimRight(p.BaseURL, "/"); base != "" {
		known := false
		for _, b := range bases[kind] {
			known = known || base == b
		}
		if !known {
			return "", fmt.Errorf("it comes from another package registry, %.100q", p.BaseURL)
		}
	}
	form := map[Kind]struct {
		name, version func() *regexp.Regexp
		between       string
	}{NPM: {npmName, npmVersion, "@"}, PyPI: {pypiName, pypiVer, "=="}, NuGet: {nugetName, nugetVer, "@"}}[kind]
	switch {
	case !form.name().MatchString(p.Identifier):
		return "", fmt.Errorf("%.100q is not the name of a package of %s", p.Identifier, kind)
	case !form.version().MatchString(p.Version):
		return "", fmt.Errorf("%w (it says %.60q)", errNoVersion, p.Version)
	}
	return p.Identifier + form.between + p.Version, nil
}

func pinnedImage(p Package) (string, error) {
	ref := p.Identifier
	if u, err := url.Parse(p.BaseURL); p.BaseURL != "" {
		if err != nil || u.Scheme != "https" {
			return "", fmt.Errorf("it comes from %.100q, which is not an https address", p.BaseURL)
		}
		if host := u.Host; host != "docker.io" && host != "registry-1.docker.io" && !strings.HasPrefix(ref, host+"/") {
			ref = host + "/" + ref
		}
	}
	last := ref[strings.LastIndex(ref, "/")+1:]
	if !strings.ContainsAny(last, ":@") {
		if !imageTag().MatchString(p.Version) {
			return "", fmt.Errorf("%w (it says %.60q)", errNoVersion, p.Version)
		}
		ref += ":" + p.Version
	}
	switch {
	case !imageName().MatchString(ref):
		return "", fmt.Errorf("%.100q is not the name of an image", p.Identifier)
	case strings.HasSuffix(ref, ":latest"):
		return "", errNoVersion
	}
	return ref, nil
}

// Alias is the name that an entry gets in mcp.toml if the user gives none: the
// last part of the registry's name, with everything but letters, digits, dots,
// dashes and single underscores made a dash.
func Alias(name string) string {
	name = name[strings.LastIndex(name, "/")+1:]
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, name)
	for strings.Contains(name, "__") {
		name = strings.ReplaceAll(name, "__", "_")
	}
	if name = strings.Trim(name[:min(len(name), 100)], "-._"); name == "" {
		return "server"
	}
	return name
}
