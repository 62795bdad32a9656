// Package app is the command line of bestof: one file for each command.
package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate/agent/mutate"
	"github.com/bestof-dev/bestof/candidate/sandbox/inside"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/worktree"
)

// A Process is what the operating system gives a program.
type Process struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string // NAME=VALUE
	Self     string   // an executable of this program, for what it runs of itself in sandboxes; "" for the one that runs
}

// self is the absolute path of Self.
func (p Process) self() (string, error) {
	if p.Self != "" {
		return p.Self, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return self, nil
}

// lookup finds a variable; of several of one name the last counts.
func (p Process) lookup(name string) (string, bool) {
	for i := len(p.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(p.Environ[i], "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

func (p Process) getenv(name string) string {
	v, _ := p.lookup(name)
	return v
}

func (p Process) streams() term.Streams {
	return term.Streams{In: p.In, Out: p.Out, Err: p.Err, Env: p.lookup}
}

// Main runs one command and returns the exit status. Programs that speak a
// protocol on their standard streams are chosen before anything else looks at
// a terminal.
func Main(ctx context.Context, args []string, p Process) int {
	inside.Main(args)
	if len(args) > 3 && args[1] == "internal" {
		switch {
		case args[2] == "plugin" && args[3] == "verify":
			return verify.Main(args[4:], p.In, p.Out, p.Err)
		case args[2] == "agent" && args[3] == "mutate":
			return mutate.Main(ctx, args[4:], p.In, p.Out, p.Err, p.Environ)
		}
	}
	a := &app{Process: p, second: &atomic.Pointer[func()]{}, goOn: &atomic.Pointer[string]{}}
	ctx, stop := a.interruptible(ctx)
	defer stop()

	root := a.command()
	root.SetArgs(args[1:])
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return a.report(root.ExecuteContext(ctx))
}

// interruptible ends the context at the first INT, TERM or HUP. A second one
// ends the program at once, unless a command has something to do first: the
// supervisors of all candidates notice, and gc removes the rest.
func (a *app) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup: whoever started it wants it to go on
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(orchestrator.ErrInterrupted)
		case <-done:
			return
		}
		if second := a.second.Load(); second != nil {
			select {
			case <-signals:
				(*second)()
			case <-done:
				return
			}
		}
		select {
		case <-signals:
			then := ""
			if command := a.goOn.Load(); command != nil {
				then = "; go on with: " + *command
			}
			a.warn("stopped at once; `bestof gc` removes what is left%s", then)
			os.Exit(orchestrator.ExitInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// app holds what all commands share.
type app struct {
	Process
	dir     string // -C
	json    bool
	quiet   bool
	yes     bool
	workDir string
	log     logOptions

	observe func(event.Event) // who asked for a run in place of a person; nil for a person

	second *atomic.Pointer[func()] // what a second signal does before a third ends the program
	goOn   *atomic.Pointer[string] // the command that goes on after signals ended the program; none for most
}

// A usageError is the user's to mend: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// A statusError ends the program with a status of its own. Its text may be
// empty when everything was said already.
type statusError struct {
	code int
	err  error
}

func (e statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e statusError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func refusedf(format string, args ...any) error {
	return statusError{orchestrator.ExitRefused, fmt.Errorf(format, args...)}
}

// report prints an error as one clear line, or as JSON, and returns the exit
// status that belongs to it.
func (a *app) report(err error) int {
	if err == nil {
		return orchestrator.ExitWinner
	}
	code := exitStatus(err)
	text := err.Error()
	if text == "" {
		return code
	}
	if a.json {
		b, _ := json.Marshal(map[string]any{"schema": "bestof.error/1", "error": text, "exit_code": code})
		fmt.Fprintf(a.Out, "%s\n", b)
		return code
	}
	fmt.Fprintf(a.Err, "bestof: %s\n", term.Clean(text, 4000))
	return code
}

func exitStatus(err error) int {
	var status statusError
	var usage usageError
	var moved *worktree.MovedError
	var refused *worktree.RefusedError
	switch {
	case errors.As(err, &status):
		return status.code
	case errors.As(err, &usage), errors.Is(err, record.ErrNoRun), errors.Is(err, record.ErrAmbiguous):
		return orchestrator.ExitUsage
	case errors.As(err, &moved), errors.As(err, &refused), errors.Is(err, worktree.ErrBusy):
		return orchestrator.ExitRefused
	case errors.Is(err, context.Canceled), errors.Is(err, orchestrator.ErrInterrupted):
		return orchestrator.ExitInterrupted
	case errors.Is(err, record.ErrUnreadable), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOSPC):
		return orchestrator.ExitInfrastructure
	}
	return orchestrator.ExitInternal
}

const statuses = `Exit status:
  0  a winner (for other commands: done)
  1  internal error
  2  usage or configuration
  3  no candidate qualified
  4  timed out
  5  over budget
  6  refused by trust or policy
  7  infrastructure
  130  interrupted`

// command builds the whole command tree.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "bestof",
		Short: "Let N candidates try one task on a git repository and pick the winner by evidence",
		Long: `bestof lets N candidates try one task, each in a shadow of your repository,
verifies every change on a fresh shadow, and lets a judge that calls no model
name the winner. Your own tree is not touched until you adopt one.`,
		Example: `  bestof demo
  bestof run -n 4 --test 'go test ./...' "make the failing test pass"
  bestof adopt last`,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		Version:                    version(),
		Args:                       cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				return usagef("there is no command %q: did you mean %s?", args[0], strings.Join(near, " or "))
			}
			return usagef("there is no command %q (see `bestof --help`)", args[0])
		},
	}
	root.SetVersionTemplate("bestof {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVarP(&a.dir, "directory", "C", ".", "work as if started in `DIR`")
	flags.BoolVar(&a.json, "json", false, "print one JSON document on stdout")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print no progress")
	flags.BoolVarP(&a.yes, "yes", "y", false, "answer yes to every question")
	flags.StringVar(&a.workDir, "work-dir", "", "keep bases and shadows in `DIR` (default $BESTOF_HOME/scratch)")
	a.log.addFlags(flags)
	_ = root.RegisterFlagCompletionFunc("log", cobra.FixedCompletions([]string{"json", "text"}, cobra.ShellCompDirectiveNoFileComp))
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see `%s --help`)", err, c.CommandPath())
	})
	root.SetHelpCommand(&cobra.Command{Use: "help [command]", Short: "Help about any command", RunE: func(c *cobra.Command, args []string) error {
		cmd, _, err := root.Find(args)
		if err != nil || cmd == root && len(args) > 0 {
			return usagef("there is no command %q (see `bestof --help`)", strings.Join(args, " "))
		}
		return cmd.Help()
	}})
	root.AddCommand(a.runCommand(), a.runsCommand(), a.showCommand(), a.diffCommand(), a.compareCommand(), a.viewCommand(),
		a.adoptCommand(), a.reviseCommand(), a.gcCommand(), a.duCommand(), a.demoCommand(), a.doctorCommand(),
		a.pluginCommand(), a.toolCommand(), a.mcpCommand(), a.batchCommand(), a.jobCommand(), a.daemonCommand(), a.manCommand())
	for _, c := range root.Commands() {
		c.Long = strings.TrimSpace(c.Long) + "\n\n" + statuses
		c.Args = asUsage(c.Args)
	}
	return root
}

// asUsage makes a wrong number of arguments an error of exit status 2.
func asUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		check = cobra.NoArgs
	}
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usagef("%w (see `%s --help`)", err, c.CommandPath())
		}
		return nil
	}
}

// version is what the build recorded.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value[:min(12, len(s.Value))]
		}
	}
	if v == "" {
		return "(devel)"
	}
	return v
}

// home is $BESTOF_HOME, ~/.bestof unless it says otherwise.
func (a *app) home() (string, error) {
	home := a.getenv("BESTOF_HOME")
	if home == "" {
		user := a.getenv("HOME")
		if user == "" {
			return "", usagef("neither BESTOF_HOME nor HOME is set: set BESTOF_HOME to a directory of yours")
		}
		home = filepath.Join(user, ".bestof")
	}
	if !filepath.IsAbs(home) {
		return "", usagef("BESTOF_HOME is %q: make it an absolute path", home)
	}
	return filepath.Clean(home), nil
}

// store opens where bases and shadows live. It must not be below the
// repository: a base would contain itself.
func (a *app) store(home, top string) (*worktree.Store, string, error) {
	dir := a.workDir
	if dir == "" {
		dir = filepath.Join(home, "scratch")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", err
	}
	if top != "" && within(dir, top) {
		return nil, "", usagef("the work directory %s is inside the repository: choose another with --work-dir or BESTOF_HOME", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", statusError{orchestrator.ExitInfrastructure, fmt.Errorf("make the work directory: %w", err)}
	}
	s, err := worktree.OpenStore(dir)
	if err != nil {
		return nil, "", statusError{orchestrator.ExitInfrastructure, err}
	}
	return s, dir, nil
}

// within reports whether path is dir or below it, links resolved as far as
// they exist.
func within(path, dir string) bool {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// ask puts a question to the person at the terminal. --yes answers it; without
// a terminal nobody can.
func (a *app) ask(question, flag string) (bool, error) {
	if a.yes {
		return true, nil
	}
	if !a.streams().Interactive() {
		return false, refusedf("%s: nobody can be asked, since this is not a terminal; %s says yes", strings.TrimSuffix(question, "?"), flag)
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", term.Clean(question, 400))
	var line []byte
	var one [1]byte
	for len(line) < 100 {
		n, err := a.In.Read(one[:])
		if n == 1 && one[0] != '\n' {
			line = append(line, one[0])
		}
		if err != nil || n == 1 && one[0] == '\n' {
			break
		}
	}
	switch strings.ToLower(strings.TrimSpace(string(line))) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// warn prints a notice on stderr.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.Err, "bestof: %s\n", term.Clean(fmt.Sprintf(format, args...), 2000))
}

// printJSON writes one document on stdout.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.Out.Write(term.JSON(b.Bytes()))
	return err
}
