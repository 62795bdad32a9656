package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/mcp/usage"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

// maxTask bounds a task's text, in bytes.
const maxTask = 1 << 20

// runOptions are the flags of run; see addFlags for what they mean.
type runOptions struct {
	candidates     int
	agents         string
	taskFile       string
	test           string
	setup          string
	setupNetwork   string
	base           string
	expect         string
	allow          string
	sandbox        string
	network        string
	shadow         string
	timeout        time.Duration
	testTimeout    time.Duration
	deadline       time.Duration
	jobs           int
	protect        []string
	unprotect      []string
	repeat         int
	holds          int
	stop           string
	adopt          string
	history        string
	verifyTimeouts bool
	plugins        string
	mcp            string
	advice         bool
	dryRun         bool
	budgetTokens   int64
	budgetUSD      float64
	image          imageOptions

	asJob string // the id of the run, which whoever runs jobs chose

	// Not flags: what revise and demo pass on.
	task       string
	revisionOf string
}

func (o *runOptions) addFlags(f *pflag.FlagSet) {
	f.IntVarP(&o.candidates, "candidates", "n", 4, "how many candidates try (default 4, or the sum of --agents)")
	f.StringVar(&o.agents, "agents", "mutate", "who tries: `NAME:COUNT,…`; see `bestof doctor` for the names")
	f.StringVar(&o.taskFile, "task-file", "", "read the task from `FILE`")
	f.StringVar(&o.test, "test", "", "the `COMMAND` that decides, split as a shell splits words but never run by one")
	f.StringVar(&o.setup, "setup", "", "a `COMMAND` to run once on the base, such as 'npm ci'")
	f.StringVar(&o.setupNetwork, "setup-network", "full", "what the setup command reaches: none | allow=HOST,… | full")
	f.StringVar(&o.base, "base", "snapshot", "what candidates start from: snapshot (your tree as it is) | head | any `REV`")
	f.StringVar(&o.expect, "expect", orchestrator.ExpectFlip, "flip: the test fails now and must pass; pass: it passes now and must still pass")
	f.StringVar(&o.allow, "allow", "", "undecided: rank candidates without evidence")
	f.StringVar(&o.sandbox, "sandbox", "auto", "how candidates are kept in: auto | process | bwrap | docker")
	o.image.addFlags(f)
	f.StringVar(&o.network, "network", "gateway", "what candidates reach: none | gateway (the hosts of their agents' models) | allow=HOST,… (these too) | full; verification has none")
	f.StringVar(&o.shadow, "shadow", "auto", "how shadows are made: auto | overlay | userns | btrfs | engine | reflink | copy")
	f.DurationVar(&o.timeout, "timeout", 15*time.Minute, "time for each candidate, all its rounds together")
	f.DurationVar(&o.testTimeout, "test-timeout", 10*time.Minute, "time for one run of the test")
	f.DurationVar(&o.deadline, "deadline", 0, "time for the whole run (default none)")
	f.IntVarP(&o.jobs, "jobs", "j", runtime.NumCPU(), "how many candidates run at once")
	f.StringArrayVar(&o.protect, "protect", nil, "a `GLOB` of paths that candidates must not change, besides tests and test configuration (repeatable)")
	f.StringArrayVar(&o.unprotect, "unprotect", nil, "a `GLOB` of paths that they may change after all (repeatable)")
	f.IntVar(&o.repeat, "repeat", 1, "verify this many times; one failure is a failure")
	f.IntVar(&o.holds, "holds", 1, "further rounds for a candidate whose change is not accepted")
	f.StringVar(&o.stop, "stop", "all", "all: let every candidate finish; first: stop at the first that is met")
	f.StringVar(&o.adopt, "adopt", "none", "what to do with the winner: none | apply | branch[=NAME]")
	f.StringVar(&o.history, "history", "1", "how many commits a candidate can read: `N` | full")
	f.BoolVar(&o.verifyTimeouts, "verify-timeouts", false, "verify what a candidate left when its time was up")
	f.StringVar(&o.plugins, "plugins", "all", "which installed plugins take part: all | none | `NAME,…`")
	f.StringVar(&o.mcp, "mcp", "all", "which MCP servers candidates share, of those marked candidate_safe: all | none | `NAME,…`")
	f.BoolVar(&o.advice, "advice", false, "a promoted model may order candidates whom the rule ranks equal (see `bestof tool train`)")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would run, and run nothing")
}

// addBudget adds what a batch has for all of its runs together.
func (o *runOptions) addBudget(f *pflag.FlagSet) {
	f.Int64Var(&o.budgetTokens, "budget-tokens", 0, "tokens for the whole run, where agents report them (default none)")
	f.Float64Var(&o.budgetUSD, "budget-usd", 0, "US dollars for the whole run, where agents report what they cost (default none)")
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run [flags] TASK",
		Short: "Let candidates try a task and pick the winner",
		Long: `Takes a task on the repository you are in, lets N candidates try it in shadows
of your tree, verifies each change on a fresh shadow and names the winner.
TASK is one argument, or - to read it from standard input.`,
		Example: `  bestof run -n 4 --test 'go test ./...' "make the failing test pass"
  bestof run --agents claude:3,codex:1 --task-file task.md --test 'pytest -q tests/test_x.py'
  bestof run --setup 'npm ci' --test 'npm test' --adopt branch - < task.md`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("the task is one argument: put it in quotes")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.runRun(c.Context(), o, c.Flags().Changed, args)
		},
	}
	o.addFlags(c.Flags())
	o.addBudget(c.Flags())
	c.Flags().StringVar(&o.asJob, "as-job", "", "the `ID` of the run, for who runs jobs")
	_ = c.Flags().MarkHidden("as-job")
	for flag, values := range map[string][]string{
		"sandbox": {"auto", "process", "bwrap", "docker"}, "network": {"none", "gateway", "allow=", "full"}, "shadow": {"auto", "overlay", "userns", "btrfs", "engine", "reflink", "copy"}, "setup-network": {"none", "allow=", "full"},
		"expect": {"flip", "pass"}, "stop": {"all", "first"}, "adopt": {"none", "apply", "branch"}, "base": {"snapshot", "head"}, "allow": {"undecided"},
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return c
}

// runRun is the whole command.
func (a *app) runRun(ctx context.Context, o runOptions, given func(flag string) bool, args []string) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	file, err := a.configuration(s)
	if err != nil {
		return err
	}
	o.fill(file.Run, given)
	o.image.fill(file.Sandbox, given)
	if o.task == "" {
		if o.task, err = a.readTask(o, args); err != nil {
			return err
		}
	}
	cfg, err := a.plan(ctx, s, o, file, given("candidates") || file.Run.Candidates != nil)
	if err != nil {
		return err
	}
	if o.dryRun {
		return a.printPlan(cfg)
	}
	return a.execute(ctx, s, o, cfg)
}

// fill takes from the configuration what no flag said.
func (o *runOptions) fill(f runSettings, given func(string) bool) {
	fillIn(&o.candidates, f.Candidates, given("candidates"))
	fillIn(&o.agents, f.Agents, given("agents"))
	fillIn(&o.test, f.Test, given("test"))
	fillIn(&o.setup, f.Setup, given("setup"))
	fillIn(&o.base, f.Base, given("base"))
	fillIn(&o.expect, f.Expect, given("expect"))
	fillIn(&o.sandbox, f.Sandbox, given("sandbox"))
	fillIn(&o.network, f.Network, given("network"))
	fillIn(&o.shadow, f.Shadow, given("shadow"))
	fillIn(&o.timeout, (*time.Duration)(f.Timeout), given("timeout"))
	fillIn(&o.testTimeout, (*time.Duration)(f.TestTimeout), given("test-timeout"))
	fillIn(&o.deadline, (*time.Duration)(f.Deadline), given("deadline"))
	fillIn(&o.jobs, f.Jobs, given("jobs"))
	fillIn(&o.repeat, f.Repeat, given("repeat"))
	fillIn(&o.holds, f.Holds, given("holds"))
	fillIn(&o.stop, f.Stop, given("stop"))
	fillIn(&o.adopt, f.Adopt, given("adopt"))
	fillIn(&o.history, f.History, given("history"))
	fillIn(&o.verifyTimeouts, f.VerifyTimeouts, given("verify-timeouts"))
	fillIn(&o.plugins, f.Plugins, given("plugins"))
	fillIn(&o.mcp, f.MCP, given("mcp"))
	// Flags add to what the configuration protects; they never take from it.
	o.protect = append(slices.Clone(f.Protect), o.protect...)
	o.unprotect = append(slices.Clone(f.Unprotect), o.unprotect...)
}

func fillIn[T any](flag *T, configured *T, given bool) {
	if configured != nil && !given {
		*flag = *configured
	}
}

// readTask finds the task's text.
func (a *app) readTask(o runOptions, args []string) (string, error) {
	var b []byte
	var err error
	switch {
	case o.taskFile != "" && len(args) > 0:
		return "", usagef("the task is given twice: leave out --task-file or the argument")
	case o.taskFile != "":
		var f *os.File
		if f, err = os.Open(o.taskFile); err == nil {
			b, err = io.ReadAll(io.LimitReader(f, maxTask+1))
			err = errors.Join(err, f.Close())
		}
	case len(args) == 0:
		return "", usagef("there is no task: say it in quotes, or use --task-file FILE, or - for standard input")
	case args[0] == "-":
		b, err = io.ReadAll(io.LimitReader(a.In, maxTask+1))
	default:
		b = []byte(args[0])
	}
	switch {
	case err != nil:
		return "", usagef("read the task: %w", err)
	case len(b) > maxTask:
		return "", usagef("the task is longer than %d bytes: put the rest in a file of the repository", maxTask)
	case !utf8.Valid(b) || slices.Contains(b, 0):
		return "", usagef("the task is not UTF-8 text")
	case strings.TrimSpace(string(b)) == "":
		return "", usagef("the task is empty")
	}
	return strings.TrimSpace(string(b)), nil
}

// execute runs the turn with a display, then adopts and reports.
func (a *app) execute(ctx context.Context, s *site, o runOptions, cfg orchestrator.Config) error {
	mode, err := parseAdopt(o.adopt)
	if err != nil {
		return err
	}
	money, err := dollars(o.budgetUSD)
	if err != nil {
		return usagef("--budget-usd: %w", err)
	}
	if o.budgetTokens < 0 {
		return usagef("--budget-tokens: write a number from 0")
	}
	owner, err := proc.Self()
	if err != nil {
		return err
	}
	if mode.mode != "" && o.asJob == "" {
		release, err := a.aboutToAdopt(ctx, s)
		if err != nil {
			return err
		}
		defer release()
	}
	watch, err := a.watch(s.repo.Root())
	if err != nil {
		return err
	}
	defer watch.Close()
	newID := func() string { return record.NewID(time.Now(), randomNumber()) }
	if o.asJob != "" {
		if !record.ValidID(o.asJob) {
			return usagef("--as-job: %q is no id of a run", o.asJob)
		}
		newID = func() string { return o.asJob }
	}
	w, err := s.records.Create(owner, newID)
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	defer w.Close()
	cfg.Record = w
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cfg.Used = withinBudget(orchestrator.Usage{Output: o.budgetTokens, MicroUSD: money}, stop)
	if cfg.Servers != nil {
		uses := usage.NewRecorder(usage.File(s.home), func(line string) { a.warn("%s", line) })
		cfg.Servers.Record = uses.Record
		defer func() {
			if lost := uses.Close(); lost > 0 {
				a.warn("%d calls of MCP tools are missing in `bestof mcp usage`", lost)
			}
		}()
	}
	go a.sweep(ctx, s)
	display := a.display()
	cfg.Publish = watch.ofRun(w.ID(), display.Publish)
	doc, runErr := orchestrator.Run(ctx, cfg)
	watch.ended(doc)
	if err := display.Close(); err != nil && runErr == nil {
		runErr = fmt.Errorf("show the run: %w", err)
	}
	if runErr != nil {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("run %s: %w", doc.Run, runErr)}
	}
	if doc.Winner != nil && mode.mode != "" {
		if err := a.adoptOwn(ctx, s, &doc, mode, o.asJob != ""); err != nil {
			doc.AdoptError, doc.ExitCode = err.Error(), exitStatus(err)
			if err := s.records.Update(doc); err != nil {
				a.warn("that the winner was not adopted could not be written down: %v", err)
			}
		}
	}
	if err := a.printRun(doc); err != nil {
		return err
	}
	if doc.ExitCode != 0 {
		return statusError{code: doc.ExitCode}
	}
	return nil
}

// withinBudget stops a run when its candidates together used more than most, of
// which a zero is no bound; nil when there is none.
func withinBudget(most orchestrator.Usage, stop context.CancelCauseFunc) func(candidate.Number, orchestrator.Usage) {
	if most.Tokens() == 0 && most.MicroUSD == 0 {
		return nil
	}
	var mu sync.Mutex
	used := map[candidate.Number]orchestrator.Usage{}
	return func(n candidate.Number, u orchestrator.Usage) {
		mu.Lock()
		defer mu.Unlock()
		used[n] = u
		var all orchestrator.Usage
		for _, one := range used {
			all = all.Add(one)
		}
		if most.Tokens() > 0 && all.Tokens() > most.Tokens() || most.MicroUSD > 0 && all.MicroUSD > most.MicroUSD {
			stop(orchestrator.ErrOverBudget)
		}
	}
}

// sweep empties the trash and drops what killed runs left, while candidates
// work: clean-up makes nobody wait. What it does not finish a later run does.
func (a *app) sweep(ctx context.Context, s *site) {
	if _, err := s.store.GC(ctx, worktree.GCOptions{Now: time.Now(), MaxBaseBytes: maxBases, Sweep: a.sweepLayers}); err != nil && ctx.Err() == nil {
		return // `bestof gc` says why
	}
}

// maxBases is how much the cached bases may take on disk unless told.
const maxBases = 10e9

func randomNumber() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint32(b[:])
}

// A display shows a run while it happens.
type display interface {
	Publish(event.Event)
	Close() error
}

// display chooses how progress is shown: it goes to stderr.
func (a *app) display() display {
	s := a.streams()
	look := s.ErrLook()
	switch {
	case a.observe != nil:
		return observer(a.observe)
	case a.quiet, a.logsInstead():
		return view.Quiet{}
	case look.Motion && !a.json:
		return view.NewLive(s, time.Now)
	default:
		return view.NewPlain(a.Err, look)
	}
}

// An observer is a display for another program.
type observer func(event.Event)

func (o observer) Publish(e event.Event) { o(e) }
func (o observer) Close() error          { return nil }

// printRun writes the end of a run to stdout.
func (a *app) printRun(doc record.Document) error {
	if a.json {
		return a.printJSON(doc)
	}
	return view.Verdict(a.Out, doc, a.viewOptions())
}

func (a *app) viewOptions() view.Options {
	return view.Options{Look: a.streams().OutLook(), Location: time.Local}
}
