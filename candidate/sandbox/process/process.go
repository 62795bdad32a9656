// Package process runs programs as plain child processes: their environment,
// input, output and lifetime are in hand, the file system is not.
package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/inside"
	"github.com/bestof-dev/bestof/candidate/sandbox/toolchain"
	"github.com/bestof-dev/bestof/internal/proc"
)

// A Sandbox implements sandbox.Sandbox. Make one with New; it may be used
// concurrently and needs no closing.
type Sandbox struct {
	options sandbox.Options
	tools   toolchain.Found
	offline bool // a network namespace can be made
}

// New returns a sandbox that always works. It tries once whether the network
// can be kept away.
func New(o sandbox.Options) *Sandbox {
	return &Sandbox{options: o, tools: toolchain.Find(o), offline: canUnshareNetwork()}
}

func canUnshareNetwork() bool {
	res, err := proc.Run(context.Background(), proc.Command{
		Argv: []string{"true"}, Dir: "/", Env: []string{"PATH=" + sandbox.DefaultPath},
		Offline: true, Timeout: 10 * time.Second,
	})
	return err == nil && res.End != proc.Deadline
}

// Isolation implements sandbox.Sandbox.
func (s *Sandbox) Isolation() sandbox.Isolation {
	i := sandbox.Isolation{
		Name:    "process",
		Network: s.offline, Loopback: true,
		Summary: "plain processes: own HOME and environment, whole tree ended; files of this user are not protected",
		Missing: []string{
			"a program can read and write every file that this user can, the source checkout and other candidates included",
			"a program can see, signal and trace other processes of this user, the one that supervises it included",
		},
	}
	if os.Geteuid() == 0 {
		i.Missing = append(i.Missing, "programs run as root, with all of root's rights on this machine")
	}
	if !s.offline {
		i.Missing = append(i.Missing, "the network cannot be kept away: neither a network nor a user namespace can be made")
	}
	return i
}

// EntersOffline says that with NetworkNone this sandbox needs Entry.Offline.
func (s *Sandbox) EntersOffline() bool { return true }

// Run implements sandbox.Sandbox.
func (s *Sandbox) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	if err := errors.Join(spec.Check(), spec.Unmoved(), spec.Unlayered()); err != nil {
		return sandbox.Result{}, fmt.Errorf("process sandbox: %w", err)
	}
	if len(spec.Forwards) > 0 && !s.offline {
		return sandbox.Result{}, errors.New("process sandbox: the network cannot be kept away here, so nothing can be let through in its place")
	}
	network := spec.ToolsNetwork()
	spec, done, err := inside.Wrap(spec, false)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("process sandbox: %w", err)
	}
	dir, reason, err := spec.Dir()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("process sandbox: %w", err)
	}
	if reason != "" {
		return sandbox.Result{End: sandbox.NotRun, Reason: reason}, nil
	}
	if err := sandbox.PrepareHome(spec.HostHome()); err != nil {
		return sandbox.Result{}, fmt.Errorf("process sandbox: %w", err)
	}
	if err := linkHome(spec, s.tools.Home(spec.Home)); err != nil {
		return sandbox.Result{}, fmt.Errorf("process sandbox: %w", err)
	}
	tools := s.tools.Env(spec.Home, network)
	c := spec.Command(spec.Argv, dir, s.options.Environment(spec, tools))
	switch {
	case spec.Network != sandbox.NetworkNone:
	case len(c.Enter) > 0 && len(spec.Enter.Offline) > 0:
		c.Enter = spec.Enter.Offline
	case len(c.Enter) > 0:
		return sandbox.Result{}, errors.New("process sandbox: the network cannot be kept away in namespaces that have only it")
	default:
		c.Offline = s.offline
	}
	res, err := proc.Run(ctx, c)
	if err != nil {
		err = fmt.Errorf("process sandbox: %w", err)
	}
	return done(sandbox.Ended(res), err)
}

// linkHome shows package caches inside Home by links, for want of mounts. What
// is there already stays.
func linkHome(spec sandbox.Spec, binds []sandbox.Bind) error {
	root, err := os.OpenRoot(spec.HostHome())
	if err != nil {
		return err
	}
	defer root.Close()
	for _, b := range binds {
		rel, err := filepath.Rel(spec.Home, b.Target)
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
			continue // a program put something else there: its own loss
		}
		if err := root.Symlink(b.Source, rel); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("show %s in the home directory: %w", b.Source, err)
		}
	}
	return nil
}
