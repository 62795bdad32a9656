package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/choose"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/store"
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
	dryRun         bool

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
	f.StringVar(&o.setupNetwork, "setup-network", "host", "what the setup command reaches: none | host")
	f.StringVar(&o.base, "base", "snapshot", "what candidates start from: snapshot (your tree as it is) | head | any `REV`")
	f.StringVar(&o.expect, "expect", orchestrator.ExpectFlip, "flip: the test fails now and must pass; pass: it passes now and must still pass")
	f.StringVar(&o.allow, "allow", "", "undecided: rank candidates without evidence")
	f.StringVar(&o.sandbox, "sandbox", "auto", "how candidates are kept in: auto | process | bwrap")
	f.StringVar(&o.network, "network", "none", "what candidates reach: none | host; verification never has a network")
	f.StringVar(&o.shadow, "shadow", "auto", "how shadows are made: auto | overlay | btrfs | reflink | copy")
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
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would run, and run nothing")
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
  bestof run --agents claude:3,codex:1 --network host --task-file task.md --test 'pytest -q tests/test_x.py'
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
	for flag, values := range map[string][]string{
		"sandbox": {"auto", "process", "bwrap"}, "network": {"none", "host"}, "shadow": {"auto", "overlay", "btrfs", "reflink", "copy"}, "setup-network": {"none", "host"},
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
	file, notices, err := loadConfig(s.home, s.repo.Root(), trusted(a.getenv("BESTOF_TRUST_PROJECT")))
	if err != nil {
		return err
	}
	for _, n := range notices {
		a.warn("%s", n)
	}
	o.fill(file.Run, given)
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

// plan turns options into a turn's configuration, and refuses whatever can be
// known to be wrong before anything is spent.
func (a *app) plan(ctx context.Context, s *site, o runOptions, file fileConfig, counted bool) (orchestrator.Config, error) {
	var none orchestrator.Config
	for _, c := range []struct {
		ok   bool
		flag string
		want string
	}{
		{o.candidates >= 1 && o.candidates <= agent.MaxCandidates, "-n", fmt.Sprintf("a number from 1 to %d", agent.MaxCandidates)},
		{o.jobs >= 1, "--jobs", "a number from 1"},
		{o.repeat >= 1 && o.repeat <= 100, "--repeat", "a number from 1 to 100"},
		{o.holds >= 0 && o.holds <= 100, "--holds", "a number from 0 to 100"},
		{o.timeout > 0, "--timeout", "a length of time, for example 15m"},
		{o.testTimeout > 0, "--test-timeout", "a length of time, for example 10m"},
		{o.deadline >= 0, "--deadline", "a length of time, for example 1h"},
		{slices.Contains([]string{orchestrator.ExpectFlip, orchestrator.ExpectPass}, o.expect), "--expect", "flip or pass"},
		{slices.Contains([]string{"all", "first"}, o.stop), "--stop", "all or first"},
		{slices.Contains([]string{"none", "host"}, o.network), "--network", "none or host"},
		{slices.Contains([]string{"none", "host"}, o.setupNetwork), "--setup-network", "none or host"},
		{slices.Contains([]string{"auto", "overlay", "btrfs", "reflink", "copy"}, o.shadow), "--shadow", "auto, overlay, btrfs, reflink or copy"},
		{o.allow == "" || o.allow == "undecided", "--allow", "undecided"},
	} {
		if !c.ok {
			return none, usagef("%s: write %s", c.flag, c.want)
		}
	}
	adopt, err := parseAdopt(o.adopt)
	if err != nil {
		return none, err
	}
	if adopt.branch != "" {
		if err := s.repo.FreeBranch(ctx, adopt.branch); err != nil {
			return none, usagef("--adopt: %w", err)
		}
	}
	history := 0
	if o.history != "full" {
		n, err := strconv.Atoi(o.history)
		if err != nil || n < 1 {
			return none, usagef("--history: write a number from 1, or full")
		}
		history = n
	}
	test, err := splitCommand("--test", o.test)
	if err != nil {
		return none, err
	}
	setup, err := splitCommand("--setup", o.setup)
	if err != nil {
		return none, err
	}
	plugins, err := a.takePart(s, o.plugins, file.Plugins.Off)
	if err != nil {
		return none, err
	}
	arbiter := slices.ContainsFunc(plugins, func(p store.Installed) bool { return p.Loop.MayHold() })
	if len(test) == 0 && !arbiter && o.allow != "undecided" {
		return none, usagef("there is nothing to verify with: give a test with --test 'COMMAND', install a plugin that verifies, or ask for a ranking without evidence with --allow undecided")
	}
	ceiling, err := file.widest()
	if err != nil {
		return none, err
	}
	if n := a.wanted(plugins, ceiling); n > 0 && !counted && !strings.ContainsAny(o.agents, ":,") {
		o.candidates, counted = n, true
	}
	seats, counts, err := seatsOf(o, file, counted)
	if err != nil {
		return none, err
	}
	if err := a.canRun(seats, o.network); err != nil {
		return none, err
	}
	goals, err := file.goals()
	if err != nil {
		return none, err
	}
	hidden := []string{s.repo.Root(), s.home, s.scratch}
	options := sandbox.Options{Environ: a.Environ, Read: expandHome(file.Sandbox.Read, a.getenv("HOME")), Hidden: hidden}
	sb, note, err := choose.Choose(ctx, o.sandbox, options)
	if err != nil {
		return none, usageError{err}
	}
	if note != "" {
		a.warn("%s", note)
	}
	self, err := os.Executable()
	if err != nil {
		return none, fmt.Errorf("find this program: %w", err)
	}
	kind, rev := worktree.BaseRev, o.base
	switch o.base {
	case "snapshot":
		kind, rev = worktree.BaseSnapshot, ""
	case "head":
		kind, rev = worktree.BaseHead, ""
		if s.repo.Head() == "" {
			return none, usagef("--base head: this branch has no commit yet: leave it out to start from your tree as it is")
		}
	default:
		if _, err := s.repo.Resolve(ctx, rev); err != nil {
			return none, usagef("--base: %w", err)
		}
	}
	cfg := orchestrator.Config{
		Repo: s.repo, Store: s.store, Sandbox: sb, Self: self, Now: time.Now, Redactor: redact.New(redact.FromEnviron(a.Environ)),
		Version: version(), Task: o.task, RevisionOf: o.revisionOf, Seats: seats,
		Shadow: worktree.ShadowKind(strings.TrimPrefix(o.shadow, "auto")), BaseKind: kind, BaseRev: rev,
		Protect: o.protect, Unprotect: o.unprotect,
		Timeout: o.timeout, TestLimit: o.testTimeout, Deadline: o.deadline,
		SetupNetwork: sandbox.Network(o.setupNetwork), VerifyTimeouts: o.verifyTimeouts,
		Settings: record.Settings{
			Candidates: len(seats), Agents: counts, Test: test, Expect: o.expect, Setup: setup, Base: o.base, History: history,
			Isolation: sb.Isolation(), Network: sandbox.Network(o.network), TimeoutMS: o.timeout.Milliseconds(), DeadlineMS: o.deadline.Milliseconds(),
			Jobs: o.jobs, Protect: o.protect, ExtraProtect: o.protect, Unprotect: o.unprotect, Repeat: o.repeat, Stop: o.stop, Adopt: o.adopt,
			MaxHolds: o.holds, AllowUndecided: o.allow == "undecided", Rank: goals, TestTimeoutMS: o.testTimeout.Milliseconds(),
			Plugins: o.plugins, Rev: rev, Sandbox: o.sandbox, ShadowKind: o.shadow, SetupNetwork: sandbox.Network(o.setupNetwork), VerifyTimeouts: o.verifyTimeouts,
		},
	}
	for _, p := range plugins {
		cfg.Plugins = append(cfg.Plugins, turnPlugin(p, o.task, options))
		cfg.Hooks = append(cfg.Hooks, pluginHooks(p, options)...)
	}
	cfg.Hooks = append(cfg.Hooks, file.hooks()...)
	cfg.Settings.MaxBlocks = a.blocks(file.Run.Blocks)
	return cfg, nil
}

// splitCommand reads a command line that no shell will ever see.
func splitCommand(flag, line string) ([]string, error) {
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	words, err := argv.Split(line)
	if err != nil {
		return nil, usagef("%s: %w", flag, err)
	}
	return words, nil
}

// expandHome lets a path of the configuration begin with ~/.
func expandHome(paths []string, home string) []string {
	var out []string
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			p = filepath.Join(home, rest)
		}
		out = append(out, p)
	}
	return out
}

// seatsOf gives every candidate its agent.
func seatsOf(o runOptions, file fileConfig, counted bool) ([]orchestrator.Seat, []record.AgentCount, error) {
	counts, err := agent.ParseCounts(o.agents)
	if err != nil {
		return nil, nil, usageError{err}
	}
	n, sum := o.candidates, 0
	for _, c := range counts {
		sum += c.N
	}
	if !counted && (sum > 1 || strings.Contains(o.agents, ":")) {
		n = sum
	}
	known, err := file.agents()
	if err != nil {
		return nil, nil, err
	}
	var seats []orchestrator.Seat
	took := map[string]int{}
	for i, name := range agent.Assign(counts, n) {
		d, ok := known[name]
		if !ok {
			return nil, nil, usagef("agent %q is not known: define [agents.%s] command = [\"program\"] in config.toml, or use one of %s", name, name, strings.Join(sortedKeys(known), ", "))
		}
		seats = append(seats, orchestrator.Seat{Number: candidate.Number(i + 1), Agent: d})
		took[name]++
	}
	var out []record.AgentCount
	for _, c := range counts {
		if took[c.Agent] > 0 {
			out = append(out, record.AgentCount{Name: c.Agent, Count: took[c.Agent]})
		}
	}
	return seats, out, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// canRun refuses agents whose program is not there, or that need a network
// which the run does not open.
func (a *app) canRun(seats []orchestrator.Seat, network string) error {
	for _, s := range seats {
		d := s.Agent
		if d.Network == agent.NetworkHost && network != "host" {
			return usagef("agent %s has to reach its model over the network: add --network host (everything that a candidate starts can then use it)", d.Name)
		}
		if d.Builtin {
			continue
		}
		if _, err := lookPath(d.Command[0], a.getenv("PATH")); err != nil {
			return usagef("agent %s: %s is not on PATH: install it, or choose another agent with --agents", d.Name, d.Command[0])
		}
	}
	return nil
}

// lookPath finds a program as the sandboxes will: by the operator's PATH.
func lookPath(program, path string) (string, error) {
	if strings.ContainsRune(program, '/') {
		return exec.LookPath(program)
	}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil && filepath.IsAbs(dir) {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}

// execute runs the turn with a display, then adopts and reports.
func (a *app) execute(ctx context.Context, s *site, o runOptions, cfg orchestrator.Config) error {
	mode, err := parseAdopt(o.adopt)
	if err != nil {
		return err
	}
	owner, err := proc.Self()
	if err != nil {
		return err
	}
	w, err := s.records.Create(owner, func() string { return record.NewID(time.Now(), randomNumber()) })
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	defer w.Close()
	cfg.Record = w
	go a.sweep(ctx, s)
	display := a.display()
	cfg.Publish = display.Publish
	doc, runErr := orchestrator.Run(ctx, cfg)
	if err := display.Close(); err != nil && runErr == nil {
		runErr = fmt.Errorf("show the run: %w", err)
	}
	if runErr != nil {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("run %s: %w", doc.Run, runErr)}
	}
	if doc.Winner != nil && mode.mode != "" {
		if err := a.adoptWinner(ctx, s, &doc, *doc.Winner, mode, nil); err != nil {
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

// sweep empties the trash and drops what killed runs left, while candidates
// work: clean-up makes nobody wait. What it does not finish a later run does.
func (a *app) sweep(ctx context.Context, s *site) {
	if _, err := s.store.GC(ctx, worktree.GCOptions{Now: time.Now(), MaxBaseBytes: maxBases}); err != nil && ctx.Err() == nil {
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
	case a.quiet:
		return view.Quiet{}
	case look.Motion && !a.json:
		return view.NewLive(s, time.Now)
	default:
		return view.NewPlain(a.Err, look)
	}
}

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

// printPlan says what run would do.
func (a *app) printPlan(cfg orchestrator.Config) error {
	if a.json {
		return a.printJSON(struct {
			Schema   string          `json:"schema"`
			Task     string          `json:"task"`
			Settings record.Settings `json:"settings"`
		}{"bestof.plan/1", cfg.Task, cfg.Settings})
	}
	s := cfg.Settings
	var agents []string
	for _, c := range s.Agents {
		agents = append(agents, fmt.Sprintf("%s ×%d", c.Name, c.Count))
	}
	rows := [][2]string{
		{"repository", cfg.Repo.Root()},
		{"base", s.Base},
		{"candidates", fmt.Sprintf("%d (%s), %d at once", s.Candidates, strings.Join(agents, ", "), s.Jobs)},
		{"test", argv.Join(s.Test)},
		{"expect", s.Expect},
		{"isolation", s.Isolation.Summary},
		{"network", string(s.Network)},
		{"time", fmt.Sprintf("%s a candidate, at most %s for all", cfg.Timeout, worstCase(cfg))},
		{"plugins", pluginNames(cfg.Plugins)},
		{"adopt", s.Adopt},
	}
	if len(s.Setup) > 0 {
		rows = slices.Insert(rows, 2, [2]string{"setup", argv.Join(s.Setup)})
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(a.Out, "%-11s %s\n", r[0], term.Clean(r[1], 400)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.Out, "nothing was run")
	return err
}

func pluginNames(plugins []orchestrator.Plugin) string {
	if len(plugins) == 0 {
		return "none but the built-in one"
	}
	var names []string
	for _, p := range plugins {
		names = append(names, fmt.Sprintf("%s (%s)", p.Name, p.Origin.Level))
	}
	return strings.Join(names, ", ")
}

// worstCase is how long the candidates can take in all.
func worstCase(cfg orchestrator.Config) time.Duration {
	waves := (len(cfg.Seats) + cfg.Settings.Jobs - 1) / cfg.Settings.Jobs
	worst := time.Duration(waves) * (cfg.Timeout + time.Duration(cfg.Settings.Repeat)*cfg.TestLimit)
	if cfg.Deadline > 0 {
		worst = min(worst, cfg.Deadline)
	}
	return worst
}
