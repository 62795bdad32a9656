package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/cmd/bestof/web"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

type viewOptionsOf struct {
	port     int
	noOpen   bool
	all      bool
	readOnly bool
}

func (a *app) viewCommand() *cobra.Command {
	var o viewOptionsOf
	c := &cobra.Command{
		Use:   "view [RUN|DIR]",
		Short: "Look at runs and batches in a browser, and adopt by confirmation",
		Long: `Serves a local page: the runs and batches of this repository, a run live while it
works, the comparison of its candidates, and adoption once you confirm what would
be written. RUN, or the directory DIR of a batch, is shown first.

The page is on this machine's loopback alone. Its address works once, for one
browser; the next one is printed then. An interrupt ends it, with status 0.`,
		Example: "  bestof view\n  bestof view last --read-only\n  bestof view out --port 8080 --no-open",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runView(c.Context(), o, args)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, to string) ([]string, cobra.ShellCompDirective) {
			names, _ := a.completeRuns(c, args, to)
			return names, cobra.ShellCompDirectiveKeepOrder // and directories
		},
	}
	c.Flags().IntVar(&o.port, "port", 0, "listen on port `N`; 0 takes a free one")
	c.Flags().BoolVar(&o.noOpen, "no-open", false, "open no browser, print the address")
	c.Flags().BoolVar(&o.all, "all", false, "show the runs of all your repositories and all batches")
	c.Flags().BoolVar(&o.readOnly, "read-only", false, "change nothing: no adoption, no jobs")
	return c
}

func (a *app) runView(ctx context.Context, o viewOptionsOf, args []string) error {
	if o.port < 0 || o.port > 65535 {
		return usagef("--port: write a number from 0 to 65535")
	}
	c, start, err := a.openArchive(ctx, o, args)
	if err != nil {
		return err
	}
	l, err := listen(ctx, o.port)
	if err != nil {
		return err
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	server := web.New(port, web.Options{
		Archive: c, Adopter: c, Jobs: jobDesk{c}, ReadOnly: o.readOnly, Start: start, Location: time.Local,
		Log:     func(err error) { a.warn("view: %v", err) },
		Entered: func(next string) { a.warn("for another browser: %s", next) },
	})
	if err := a.announce(server.Address(), port, o); err != nil {
		return err
	}
	if err := server.Serve(ctx, l); err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	return nil
}

// announce prints the address and opens it where somebody sits at a screen.
func (a *app) announce(address string, port int, o viewOptionsOf) error {
	if a.json {
		return a.printJSON(struct {
			Schema   string `json:"schema"`
			Address  string `json:"address"` // works once
			Port     int    `json:"port"`
			Process  int    `json:"process"`
			ReadOnly bool   `json:"read_only"`
		}{"bestof.view/1", address, port, os.Getpid(), o.readOnly})
	}
	if _, err := fmt.Fprintln(a.Out, address); err != nil {
		return err
	}
	if !a.quiet {
		fmt.Fprintln(a.Err, "bestof: the address works once, for one browser of this machine; an interrupt ends the page")
	}
	if !o.noOpen && a.streams().Interactive() && a.hasScreen() && !openBrowser(address, a.Environ) {
		a.warn("no browser could be opened: open the address yourself")
	}
	return nil
}

// hasScreen reports whether a browser could be seen.
func (a *app) hasScreen() bool {
	return runtime.GOOS == "darwin" || a.getenv("DISPLAY") != "" || a.getenv("WAYLAND_DISPLAY") != ""
}

// listen takes a port of the loopback.
func listen(ctx context.Context, port int) (net.Listener, error) {
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && isView(ctx, at):
		return nil, usagef("another bestof view is on port %d: use it, end it, or choose another port with --port", port)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, usagef("port %d is taken by another program: choose another with --port, or 0 for a free one", port)
	case errors.Is(err, syscall.EACCES):
		return nil, usagef("port %d is not for everybody: choose one from 1024 on with --port", port)
	case err != nil:
		return nil, statusError{orchestrator.ExitInfrastructure, fmt.Errorf("listen on %s: %w", at, err)}
	}
	return l, nil
}

// isView reports whether a page of ours answers there.
func isView(ctx context.Context, at string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+at+"/icon.svg", nil)
	if err != nil {
		return false
	}
	direct := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := direct.Do(r)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.Header.Get("Server") == web.ServerName
}

// openArchive finds what is to be shown, and the path of the page that is
// shown first.
func (a *app) openArchive(ctx context.Context, o viewOptionsOf, args []string) (*archive, string, error) {
	home, err := a.home()
	if err != nil {
		return nil, "", err
	}
	c := &archive{a: a, home: home, all: o.all}
	s, outside := a.open(ctx) // puts right what a killed run left, as every command does
	if outside == nil {
		defer s.Close()
		c.top = s.repo.Root()
		if len(args) == 0 {
			return c, "/", nil
		}
		doc, err := s.records.Load(args[0])
		if err == nil {
			return c, web.RunPath(c.place(shelfOf{path: c.top}), doc.Run), nil
		}
		outside = err
	}
	if len(args) > 0 {
		dir, err := a.batchDir(args[0])
		if err != nil {
			return nil, "", err
		}
		state, err := batch.View(dir)
		if err == nil {
			c.asked = dir
			return c, web.BatchPath(c.place(shelfOf{path: dir, batch: true})), state.Close()
		}
		if info, serr := os.Stat(dir); serr == nil && info.IsDir() && (c.top == "" || errors.Is(outside, record.ErrNoRun)) {
			return nil, "", asBatchError(err)
		}
		return nil, "", outside
	}
	if o.all {
		return c, "/", nil
	}
	return nil, "", outside
}

// agentLog is the end of what a candidate's agent printed.
func agentLog(records *record.Store, run, id string, limit int64) (text []byte, cut bool, err error) {
	f, err := records.Open(run, "candidates/"+id+"/agent.log")
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	at := max(0, info.Size()-limit)
	text, err = io.ReadAll(io.NewSectionReader(f, at, limit))
	return text, at > 0, err
}
