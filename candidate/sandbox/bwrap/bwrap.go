// Package bwrap runs programs under bubblewrap: namespaces of their own and a
// file system that holds what was granted and nothing else.
package bwrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/inside"
	"github.com/bestof-dev/bestof/candidate/sandbox/toolchain"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/seccomp"
)

// A Sandbox implements sandbox.Sandbox. Make one with New; it may be used
// concurrently and needs no closing.
type Sandbox struct {
	options sandbox.Options
	tools   toolchain.Found
	path    string   // of bwrap
	harden  []string // flags that this bwrap and this kernel can do besides the required ones
	filter  bool     // of system calls, likewise
	system  []mount
}

// New finds bwrap on the operator's PATH and tries it, with every namespace it
// will need. The error is a *sandbox.Unavailable when this machine cannot do it.
func New(ctx context.Context, o sandbox.Options) (*Sandbox, error) {
	path := lookPath(o)
	if path == "" {
		return nil, &sandbox.Unavailable{Sandbox: "bwrap", Reason: "bwrap is not on the PATH", Remedy: "Install the package bubblewrap."}
	}
	s := &Sandbox{options: o, tools: toolchain.Find(o), path: path}
	var err error
	if s.system, err = systemMounts(o); err != nil {
		return nil, err
	}
	for _, p := range o.Read {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("bwrap: path to read %q is not absolute", p)
		}
		if o.Hides(p) {
			return nil, fmt.Errorf("bwrap: %s cannot be granted: it is inside a hidden directory", p)
		}
	}
	said := ""
	for _, s.filter = range []bool{seccomp.Supported, false} {
		for _, s.harden = range [][]string{{"--disable-userns"}, nil} {
			ok, output, err := s.probe(ctx)
			if err != nil {
				return nil, fmt.Errorf("bwrap: try it: %w", err)
			}
			if ok {
				return s, nil
			}
			said = output
		}
	}
	return nil, &sandbox.Unavailable{Sandbox: "bwrap", Reason: "it cannot make its namespaces: " + said, Remedy: remedy()}
}

func (s *Sandbox) probe(ctx context.Context) (ok bool, said string, err error) {
	if err := ctx.Err(); err != nil {
		return false, "", err
	}
	args := append(s.isolation(sandbox.NetworkNone), flags(s.system)...)
	args = append(args, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
	c := proc.Command{Dir: "/", Env: []string{"PATH=" + sandbox.DefaultPath}, Timeout: 20 * time.Second}
	if s.filter {
		args, c.Files = append(args, "--seccomp", "3"), [][]byte{seccomp.Program()}
	}
	c.Argv = append(append([]string{s.path}, args...), "--", "true")
	res, err := proc.Run(ctx, c)
	switch {
	case err != nil:
		return false, "", err
	case res.End == proc.NotRun:
		return false, res.Reason, nil
	case res.End == proc.Stopped:
		return false, "", context.Cause(ctx)
	case res.End == proc.Deadline:
		return false, "it did not answer", nil
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(res.Stderr.Head)), "\n")
	return res.Code == 0 && res.Signal == 0, strings.TrimPrefix(line, "bwrap: "), nil
}

func lookPath(o sandbox.Options) string {
	for _, d := range o.Path() {
		p := filepath.Join(d, "bwrap")
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// remedy asks the kernel's own switches why namespaces are refused.
func remedy() string {
	for _, c := range []struct{ file, bad, remedy string }{
		{"/proc/sys/user/max_user_namespaces", "0", "Allow user namespaces: sysctl user.max_user_namespaces=10000."},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "Allow user namespaces: sysctl kernel.unprivileged_userns_clone=1."},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "Give bwrap an AppArmor profile that allows userns, or sysctl kernel.apparmor_restrict_unprivileged_userns=0."},
	} {
		if b, err := os.ReadFile(c.file); err == nil && strings.TrimSpace(string(b)) == c.bad {
			return c.remedy
		}
	}
	return "Allow user namespaces; inside a container, its seccomp profile must allow them and /proc must not be masked."
}

// Isolation implements sandbox.Sandbox.
func (s *Sandbox) Isolation() sandbox.Isolation {
	i := sandbox.Isolation{
		Name: "bwrap", Filesystem: true, Processes: true, Network: true, Loopback: true,
		Summary: "own user, process, IPC, host name and network namespace; read-only system, only the shadow and its HOME writable",
		Missing: []string{
			"memory, processes and disk are not limited",
			"a fault in the kernel's own isolation is a way out",
		},
	}
	if !s.filter {
		i.Missing = append(i.Missing, "system calls are not filtered: this kernel or this bwrap cannot")
	}
	return i
}

// Run implements sandbox.Sandbox. A program killed by signal n and one that
// exits with status 128+n look the same through bwrap, as they do through a
// shell; both are reported as the signal.
func (s *Sandbox) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	if err := errors.Join(spec.Check(), spec.Unlayered()); err != nil {
		return sandbox.Result{}, fmt.Errorf("bwrap sandbox: %w", err)
	}
	network := spec.ToolsNetwork()
	spec, done, err := inside.Wrap(spec, true)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("bwrap sandbox: %w", err)
	}
	dir, reason, err := spec.Dir()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("bwrap sandbox: %w", err)
	}
	if reason != "" {
		return sandbox.Result{End: sandbox.NotRun, Reason: reason}, nil
	}
	if err := sandbox.PrepareHome(spec.HostHome()); err != nil {
		return sandbox.Result{}, fmt.Errorf("bwrap sandbox: %w", err)
	}
	args, err := s.arguments(spec, dir)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("bwrap sandbox: %w", err)
	}
	// The arguments go through a descriptor: the program can read the command
	// line of its first process, and host paths are none of its business.
	argv := append([]string{s.path, "--json-status-fd", "3", "--args", "4", "--"}, spec.Argv...)
	c := spec.Command(argv, "/", s.options.Environment(spec, s.tools.Env(spec.Place().Home, network)))
	c.Report, c.Wrapper = true, true
	c.Files = [][]byte{[]byte(strings.Join(args, "\x00") + "\x00"), s.passwd(spec), s.group(), seccomp.Program()}
	res, err := proc.Run(ctx, c)
	out := sandbox.Ended(res)
	if err != nil {
		return out, fmt.Errorf("bwrap sandbox: %w", err)
	}
	if out.End != sandbox.Exited {
		if out.End == sandbox.NotRun {
			return out, fmt.Errorf("bwrap sandbox: %s", out.Reason)
		}
		return out, nil
	}
	return done(s.decode(out, res.Report))
}

// decode tells the program's end from bwrap's own. bwrap reports an exit code
// only for a program that it could start.
func (s *Sandbox) decode(out sandbox.Result, report []byte) (sandbox.Result, error) {
	d := json.NewDecoder(strings.NewReader(string(report)))
	for {
		var line struct {
			ExitCode *int `json:"exit-code"`
		}
		if d.Decode(&line) != nil {
			break
		}
		if line.ExitCode == nil {
			continue
		}
		out.Code, out.Signal = *line.ExitCode, 0
		if out.Code > 128 && out.Code <= 128+64 {
			out.Code, out.Signal = 0, out.Code-128
		}
		return out, nil
	}
	if out.Signal != 0 {
		return out, errors.New("bwrap sandbox: bwrap itself was killed")
	}
	said := strings.TrimSpace(string(out.Stderr.Head))
	if reason, ok := strings.CutPrefix(said, "bwrap: execvp "); ok {
		return sandbox.Result{End: sandbox.NotRun, Reason: reason, Duration: out.Duration}, nil
	}
	return out, fmt.Errorf("bwrap sandbox: %s", strings.TrimPrefix(said, "bwrap: "))
}
