package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner/notify"
)

// healthSocket is where a daemon says how it is, below $BESTOF_HOME/jobs.
const healthSocket = "daemon.sock"

func (a *app) daemonCommand() *cobra.Command {
	health := false
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Run the jobs when they are due",
		Long: `Runs jobs when they are due, in the foreground, until it is told to end: the first
TERM or interrupt begins nothing more and lets finish what runs, a second one stops
that, a third ends at once. It tells a service manager that listens at NOTIFY_SOCKET
when it is ready and, with WATCHDOG_USEC, that it is alive.

How it is can be asked at the unix socket $BESTOF_HOME/jobs/daemon.sock: GET /health
answers in JSON. One daemon serves one $BESTOF_HOME; a second one is refused.`,
		Example: `  bestof daemon --log json
  bestof daemon --health
  curl --unix-socket ~/.bestof/jobs/daemon.sock http://bestof/health`,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := a.home()
			if err != nil {
				return err
			}
			if health {
				return a.printHealth(c.Context(), home)
			}
			return a.runDaemon(c.Context(), home)
		},
	}
	c.Flags().BoolVar(&health, "health", false, "say how the daemon that runs is, and end: with status 7 if there is none or it is not well")
	return c
}

// runDaemon is the daemon. ctx ends at the first signal.
func (a *app) runDaemon(ctx context.Context, home string) error {
	claim, err := ledger.TakeClaim(home, ledger.Daemon)
	if err != nil {
		return asJobError(err)
	}
	manager, err := notify.Open(a.getenv("NOTIFY_SOCKET"))
	if err != nil {
		return errors.Join(usageError{err}, claim.Release())
	}
	defer manager.Close()
	beat := notify.Watchdog(a.getenv("WATCHDOG_USEC"), a.getenv("WATCHDOG_PID"), os.Getpid())
	a.Environ = slices.DeleteFunc(slices.Clone(a.Environ), func(kv string) bool { // of this process alone
		return strings.HasPrefix(kv, "NOTIFY_SOCKET=") || strings.HasPrefix(kv, "WATCHDOG_")
	})

	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	second := func() { stop(orchestrator.ErrInterrupted) }
	if a.second != nil {
		a.second.Store(&second)
	}
	var tellFault error
	tell := func(lines ...string) {
		if err := manager.Tell(lines...); tellFault == nil {
			tellFault = err
		}
	}
	r, done, err := a.runner(home, func(cfg *runner.Config) {
		cfg.Drain = ctx.Done()
		cfg.Ready = func() { tell(notify.Ready, notify.Status("runs the jobs of "+home)) }
		cfg.Alive, cfg.Beat = func() { tell(notify.Alive) }, beat
	})
	if err != nil {
		return errors.Join(err, claim.Release())
	}
	server, err := serveHealth(home, r)
	if err == nil {
		context.AfterFunc(ctx, func() { _ = manager.Tell(notify.Stopping) })
		err = errors.Join(r.Run(work), server())
	}
	if tellFault != nil {
		a.warn("the service manager was not told how it goes: %v", tellFault)
	}
	return asJobError(errors.Join(err, done(), claim.Release()))
}

// serveHealth answers who asks how a runner is, until it is called.
func serveHealth(home string, r *runner.Runner) (stop func() error, err error) {
	path, closeDir, err := socketPath(home)
	if err != nil {
		return nil, err
	}
	// The claim says that nobody listens there.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, closeDir())
	}
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for who asks how the daemon is: %w", err), closeDir())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		h := r.Health()
		w.Header().Set("Content-Type", "application/json")
		if h.Fault != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(h) // who asked may be gone
	})
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	server.SetKeepAlivesEnabled(false)
	go func() { _ = server.Serve(l) }() // it ends with Close
	return func() error { return errors.Join(server.Close(), closeDir()) }, nil
}

// socketPath is the socket's path by a descriptor of its directory: the path of
// a home may be longer than a socket's may be.
func socketPath(home string) (path string, done func() error, err error) {
	if err := ledger.Guard(home); err != nil {
		return "", nil, err
	}
	dir, err := os.Open(ledger.Folder(home))
	if err != nil {
		return "", nil, err
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), healthSocket), dir.Close, nil
}

// maxHealth bounds what a daemon says of itself, in bytes.
const maxHealth = 16 << 20

// printHealth asks the daemon of a home how it is.
func (a *app) printHealth(ctx context.Context, home string) error {
	h, err := askHealth(ctx, home)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("no daemon runs the jobs of %s: start `bestof daemon`", home)}
	}
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("no daemon answers for %s: %w", home, err)}
	}
	if a.json {
		err = a.printJSON(h)
	} else {
		next := "nothing"
		if h.Next != nil {
			next = h.Next.Local().Format(time.DateTime)
		}
		_, err = fmt.Fprintf(a.Out, "process %d is %s since %s: %d jobs, %d fires wait, %d runs go on; next: %s\n",
			h.Process.PID, term.Clean(h.State, 20), h.Since.Local().Format(time.DateTime), h.Jobs, h.Waiting, len(h.Running), next)
	}
	if err == nil && h.Fault != "" {
		err = statusError{orchestrator.ExitInfrastructure, fmt.Errorf("the daemon is not well: %s", h.Fault)}
	}
	return err
}

func askHealth(ctx context.Context, home string) (runner.Health, error) {
	var h runner.Health
	path, done, err := socketPath(home)
	if err != nil {
		return h, err
	}
	defer done()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://bestof/health", nil)
	if err != nil {
		return h, err
	}
	res, err := client.Do(req)
	if err != nil {
		return h, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxHealth))
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	return h, err
}
