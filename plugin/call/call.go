// Package call starts what a package brings, in a sandbox and with nothing but
// what its manifest asked for: an exchange with the plugin, or one of its tools.
package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/toolchain"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/run"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// Errors of what may not happen at all. They are the host's mistakes: a turn
// asks a plugin only what it declared.
var (
	ErrNoProcess = errors.New("the plugin ships no process")
	ErrNotAsked  = errors.New("the plugin did not declare that it answers this")
	ErrInput     = errors.New("a tool's input is one JSON object")
	ErrRefused   = errors.New("what it would do was not agreed to")
)

// A Plugin is a package in its place.
type Plugin struct {
	*plugin.Package
	Dir string // clean and absolute: what ${plugin_dir} stands for
}

// A Place is where a program of a package runs. It is as sandbox.Spec has it.
type Place struct {
	Root    string
	WorkDir string
	Home    string
	Enter   sandbox.Entry
	Seen    sandbox.Place
	Env     map[string]string // what the test needs; a plugin sees of it what its manifest names
	Ports   sandbox.PortBlock
	Started func(sandbox.Process)
	// Left reads the files in which the process leaves a report, after it ended.
	Left func() ([][]byte, error)
}

// Spec is the plugin's process. Its directory is there to be read; it has no
// network unless the manifest asked for one; and of all variables it sees those
// that the manifest names, as the sandbox has them or else as the operator has
// them, and no others. A credential is none of them.
func (p Plugin) Spec(o sandbox.Options, at Place) (sandbox.Spec, error) {
	r := p.Runtime
	if r == nil {
		return sandbox.Spec{}, fmt.Errorf("%q: %w", p.Name, ErrNoProcess)
	}
	s := p.spec(at)
	s.Timeout = r.Timeout()
	given, _ := r.Environment()
	own := environment(o, s)
	argv := []string{"env", "-i"}
	for _, name := range given {
		for _, from := range [][]string{own, o.Environ} {
			if value, ok := sandbox.Lookup(from, name); ok {
				argv = append(argv, name+"="+value)
				break
			}
		}
	}
	command := r.Command(p.Dir)
	if strings.Contains(command[0], "=") {
		return sandbox.Spec{}, wire.Faultf(wire.ErrSpawn, "the plugin's program %q has a = in its name", command[0])
	}
	s.Argv = append(argv, command...)
	return s, nil
}

// environment is what the sandbox gives to a program of the spec.
func environment(o sandbox.Options, s sandbox.Spec) []string {
	return o.Environment(s, toolchain.Find(o).Env(s.Place().Home, s.Network))
}

// tested is a request that says in which environment the test of its grant was
// run, and has to be: the one that a test has in this place.
func tested(o sandbox.Options, at Place, req wire.Request) wire.Request {
	g := req.Grant()
	if g == nil || g.Test == nil || g.Test.Env != nil {
		return req
	}
	limit := time.Duration(min(g.Test.TimeoutMS, uint64(run.MaxTimeout/time.Millisecond))) * time.Millisecond
	env := map[string]string{}
	for _, kv := range environment(o, sandbox.Spec{
		Root: at.Root, Home: at.Home, Enter: at.Enter, Seen: at.Seen, Env: at.Env, Ports: at.Ports, Network: sandbox.NetworkNone, Timeout: limit,
	}) {
		name, value, _ := strings.Cut(kv, "=")
		if utf8.ValidString(kv) {
			env[name] = value
		}
	}
	return req.WithEnvironment(env)
}

func (p Plugin) spec(at Place) sandbox.Spec {
	s := sandbox.Spec{
		Root: at.Root, WorkDir: at.WorkDir, Home: at.Home, Enter: at.Enter, Seen: at.Seen, Env: at.Env, Ports: at.Ports, Started: at.Started,
		Binds:   []sandbox.Bind{{Source: p.Dir, Target: p.Dir}},
		Network: sandbox.NetworkNone,
	}
	if p.Network() {
		s.Network = sandbox.NetworkHost
	}
	return s
}

// Exchange asks the plugin at a point that it declared, in the protocol that it
// speaks. Errors are as those of run.Exchange.
func (p Plugin) Exchange(ctx context.Context, sb sandbox.Sandbox, o sandbox.Options, at Place, req wire.Request) (wire.Response, sandbox.Result, error) {
	if !p.Loop.Answers(req.Point()) {
		return wire.Response{}, sandbox.Result{}, fmt.Errorf("%q at %s: %w", p.Name, req.Point(), ErrNotAsked)
	}
	spec, err := p.Spec(o, at)
	if err != nil {
		return wire.Response{}, sandbox.Result{}, err
	}
	if p.Runtime.Protocol == wire.Version2 {
		req = tested(o, at, req)
	}
	response, result, err := run.Exchange(ctx, sb, spec, req.In(p.Runtime.Protocol))
	if err == nil && response.Before != nil {
		if err = response.Before.Admit(p.RoleNames()); err != nil {
			response = wire.Response{}
		}
	}
	return response, result, notFound(result, err)
}

// notFound tells a program that env could not start from one that failed.
func notFound(r sandbox.Result, err error) error {
	if !errors.Is(err, wire.ErrExit) || (r.Code != 126 && r.Code != 127) {
		return err
	}
	if reason, ok := strings.CutPrefix(string(r.Stderr.Head), "env: "); ok {
		return wire.Faultf(wire.ErrSpawn, "the plugin could not be started: %s", reason)
	}
	return err
}

// MaxToolOutput is how many bytes of each stream of a tool are kept from the
// beginning, and as many from the end.
const MaxToolOutput = 32 << 10

// Tool runs a tool of the package as the plugin: in the root that is given,
// with the package's directory to be read, the plugin's network, and none of
// the operator's variables. input is a JSON object; the tool gets it on stdin,
// and what is simple in it as variables.
func (p Plugin) Tool(ctx context.Context, sb sandbox.Sandbox, at Place, name string, input []byte) (sandbox.Result, error) {
	i := slices.IndexFunc(p.PackageTools, func(t plugin.Tool) bool { return t.Name == name })
	if i < 0 {
		return sandbox.Result{}, fmt.Errorf("%q has no tool %q: %w", p.Name, name, ErrNotAsked)
	}
	if refused := p.Refuses(p.PackageTools[i]); refused != "" {
		return sandbox.Result{}, fmt.Errorf("%q: %s: %w", p.Name, refused, ErrRefused)
	}
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(string(input)))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || object == nil {
		return sandbox.Result{}, fmt.Errorf("the tool %q: %w", name, ErrInput)
	}
	if _, err := d.Token(); err != io.EOF {
		return sandbox.Result{}, fmt.Errorf("the tool %q: %w", name, ErrInput)
	}
	t := p.PackageTools[i].In(p.Dir)
	s := p.spec(at)
	s.Argv, s.Timeout, s.Stdin = t.Command, t.Timeout, input
	s.Head, s.Tail = MaxToolOutput, MaxToolOutput
	s.Env = plugin.InputEnvironment(object)
	for k, v := range t.Env {
		if !plugin.Withheld(k) {
			s.Env[k] = v
		}
	}
	return sb.Run(ctx, s)
}
