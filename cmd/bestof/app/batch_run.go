package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp/usage"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// batchOptions are the flags of batch run: those of run that make sense for
// many tasks, and their own.
type batchOptions struct {
	run     runOptions
	limits  limitOptions
	out     string
	repo    string
	repos   string
	mapFile string
	selects []string
	exclude []string
	shard   string
	shuffle string
	reports string
	retries int
	wait    time.Duration
}

// limitOptions are what a start of a batch may use. They change nothing about
// results, so each start may have its own.
type limitOptions struct {
	jobs   int
	wall   time.Duration
	tokens int64
	usd    float64
	cpus   float64
	memory string
	disk   string
	room   int64 // what disk says
}

func (o *limitOptions) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.wall, "budget-wall", 0, "time for this start of the batch: then what runs is stopped (default none)")
	f.Int64Var(&o.tokens, "budget-tokens", 0, "tokens for the whole batch, where agents report them (default none)")
	f.Float64Var(&o.usd, "budget-usd", 0, "US dollars for the whole batch, where agents report what they cost (default none)")
	f.Float64Var(&o.cpus, "machine-cpus", 0, "processors of this machine that candidates may share; with --cpus of each (default all)")
	f.StringVar(&o.disk, "disk-short", "20GB", "with less free space than this, only tasks of one image are open at a time; 0 for never")
	f.StringVar(&o.memory, "machine-memory", "", "memory that candidates may share, for example 32GB; with --memory of each")
}

// notForBatches are the flags of run that a batch has no use for.
var notForBatches = []string{"task-file", "base", "adopt", "deadline", "expect", "budget-tokens", "budget-usd"} // those budgets a batch has itself

func (o *batchOptions) addFlags(f *pflag.FlagSet) {
	all := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.run.addFlags(all)
	all.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(notForBatches, flag.Name) {
			f.AddFlag(flag)
		}
	})
	f.Lookup("jobs").Usage = "how many candidates run at once, over all tasks"
	f.Lookup("dry-run").Usage = "check everything, say what would run and what it could take, and run nothing"
	o.limits.addFlags(f)
	f.StringVar(&o.out, "out", "", "the directory of the batch, which is made; outside of the repositories")
	f.StringVar(&o.repo, "repo", "", "the one repository of all tasks: a clone or a bare mirror")
	f.StringVar(&o.repos, "repos", "", "a directory of clones or bare mirrors: `DIR`/<repo>, DIR/<owner>/<name>, DIR/<owner>__<name>")
	f.StringVar(&o.mapFile, "map", "", "a TOML `FILE` that says where repositories are: [repos] \"owner/name\" = \"path or URL\"")
	f.StringArrayVar(&o.selects, "select", nil, "only these tasks: `ID,…` or globs (repeatable)")
	f.StringArrayVar(&o.exclude, "exclude", nil, "not these tasks: `ID,…` or globs (repeatable)")
	f.StringVar(&o.shard, "shard", "", "only part `I/N` of the tasks")
	f.StringVar(&o.shuffle, "shuffle", "", "another order, by the number `SEED`")
	f.StringVar(&o.reports, "test-report", "auto", "how the test command reports single tests on stdout: auto | "+reportNames(" | ")+"; or `FORM:FILE`, in files that it makes, as in junit:target/surefire-reports/*.xml")
	f.IntVar(&o.retries, "retries", 3, "how often a task is tried again after the host failed it")
	f.DurationVar(&o.wait, "retry-wait", 5*time.Second, "before the first of these; it doubles")
}

func (a *app) batchRunCommand() *cobra.Command {
	var o batchOptions
	c := &cobra.Command{
		Use:   "run [flags] TASKS",
		Short: "Run the tasks of a file or a directory",
		Long: `Runs every task of TASKS: a .jsonl, .json, .csv or .toml file, or a directory of
task folders. Everything that is wrong with them is said in one list before
anything is spent. The first interrupt finishes what runs, a second one stops;
bestof batch resume goes on from there.`,
		Example: `  bestof batch run tasks.csv --repo calc -n 4 --out out
  bestof batch run verified.jsonl --repos mirrors -n 8 --agents claude:4,codex:4 -j 4 --network host \
      --budget-usd 50 --out out
  bestof batch run tasks.toml --select 'sum-*' --shard 1/4 --dry-run --out out`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one file or directory of tasks")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.runBatch(c.Context(), &o, c.Flags(), args[0]) },
	}
	o.addFlags(c.Flags())
	a.completeBatch(c)
	return c
}

func (a *app) completeBatch(c *cobra.Command) {
	for flag, values := range map[string][]string{
		"sandbox": {"auto", "process", "bwrap", "docker"}, "network": {"none", "host"}, "shadow": {"auto", "overlay", "userns", "btrfs", "engine", "reflink", "copy"},
		"stop": {"all", "first"}, "allow": {"undecided"}, "test-report": append([]string{"auto"}, strings.Fields(reportNames(" "))...),
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, flag := range []string{"out", "repo", "repos"} {
		_ = c.RegisterFlagCompletionFunc(flag, completeDirectories)
	}
}

// runBatch is batch run.
func (a *app) runBatch(ctx context.Context, o *batchOptions, flags *pflag.FlagSet, tasks string) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	file, _, err := loadConfig(home, "", false) // a repository of a batch has no say
	if err != nil {
		return err
	}
	counted := flags.Changed("candidates") || file.Run.Candidates != nil
	o.run.fill(file.Run, flags.Changed)
	if o.out == "" && !o.run.dryRun {
		return usagef("name the directory of the batch with --out DIR")
	}
	dir := ""
	if o.out != "" {
		if dir, err = a.batchDir(o.out); err != nil {
			return err
		}
	}
	p, problems, err := a.planBatch(ctx, o, file, home, dir, tasks, counted)
	begun := false
	defer func() {
		if !begun {
			p.unmake()
		}
	}()
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return a.refuse(problems)
	}
	if o.run.dryRun {
		return a.printBatchPlan(p)
	}
	settings, err := p.settings(flags)
	if err != nil {
		return err
	}
	state, err := batch.Create(dir, settings, p.specs)
	if err != nil {
		return asBatchError(err)
	}
	begun = true
	a.noteBatch(home, state.Dir(), p.specs)
	return a.startBatch(ctx, p, state)
}

// collectLess lets garbage grow to three times what is in use, not once, until
// restore: a batch has little in use. Who set GOGC is obeyed.
func collectLess() (restore func()) {
	before := debug.SetGCPercent(300)
	if before != 100 {
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}

// startBatch runs what is left of a batch, with a display.
func (a *app) startBatch(ctx context.Context, p *batchPlan, state *batch.State) (err error) {
	defer collectLess()()
	if a.goOn != nil {
		command := batchCommand("resume", state.Dir())
		a.goOn.Store(&command)
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	records, err := record.OpenIn(state.Dir())
	if err != nil {
		return asBatchError(err)
	}
	defer records.Close()
	done, err := batch.Settle(ctx, state, records, p.site.store, time.Now())
	for _, line := range done {
		a.warn("%s", line)
	}
	if err != nil {
		return asBatchError(fmt.Errorf("put right what an earlier start left: %w", err))
	}
	uses := usage.NewRecorder(usage.File(p.site.home), func(line string) { a.warn("%s", line) })
	defer uses.Close()
	p.uses, p.word = uses.Record, rand.Text()
	go a.sweep(ctx, p.site)
	watch, err := a.watch("")
	if err != nil {
		return err
	}
	defer watch.Close()
	show := a.batchDisplay()
	result, runErr := batch.Run(context.WithoutCancel(ctx), batch.Config{
		State: state, Records: records, Turn: p.turn, NewID: func() string { return record.NewID(time.Now(), randomNumber()) },
		Limits: p.limits, Seats: len(p.seats), Retries: p.o.retries, Backoff: backoff(p.o.wait),
		Clock: batch.Clock{Now: time.Now, After: time.After}, Publish: watch.ofBatch(show.Publish), Drain: ctx.Done(), Short: p.short, Scratch: p.site.scratch,
	})
	if err := show.Close(); err != nil && runErr == nil {
		runErr = fmt.Errorf("show the batch: %w", err)
	}
	if err := p.site.store.DropShared(p.word); err != nil {
		a.warn("bases were not removed (`bestof gc` removes them): %v", err)
	}
	p.site.store.Wait()
	if batch.Full(runErr) {
		return fullDisk(runErr, "go on with: "+batchCommand("resume", state.Dir()))
	}
	if runErr != nil {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("batch %s: %w", state.Dir(), runErr)}
	}
	if err := a.endBatch(p, state, result); err != nil {
		return err
	}
	if result.ExitCode != 0 {
		return statusError{code: result.ExitCode}
	}
	return nil
}

// backoff doubles a wait with each failure, up to ten minutes.
func backoff(first time.Duration) func(int) time.Duration {
	return func(failures int) time.Duration {
		wait := first
		for range failures - 1 {
			if wait *= 2; wait > 10*time.Minute {
				return 10 * time.Minute
			}
		}
		return wait
	}
}

// A batchDisplay shows a batch while it runs.
type batchDisplay interface {
	Publish(progress.Event)
	Close() error
}

func (a *app) batchDisplay() batchDisplay {
	s := a.streams()
	look := s.ErrLook()
	switch {
	case a.json:
		return eventLines{json.NewEncoder(a.Out)}
	case a.quiet, a.logsInstead():
		return view.QuietBatch{}
	case look.Motion:
		return view.NewBatchLive(s, time.Now)
	default:
		return view.NewBatchPlain(a.Err, look)
	}
}

// eventLines writes each event as one line of JSON.
type eventLines struct{ to *json.Encoder }

func (e eventLines) Publish(ev progress.Event) { _ = e.to.Encode(ev) } // nobody reads any more: the batch goes on
func (e eventLines) Close() error              { return nil }

// endBatch says what became of the batch and what to do next.
func (a *app) endBatch(p *batchPlan, state *batch.State, r batch.Result) error {
	rows, err := state.Rows()
	if err != nil {
		return asBatchError(err)
	}
	if a.json {
		return nil // the last event says it
	}
	counts := countRows(rows)
	fmt.Fprintf(a.Out, "%s: %s\n", count(len(rows), "task"), counts)
	resume := batchCommand("resume", state.Dir())
	switch {
	case r.Left > 0 && r.ExitCode == orchestrator.ExitOverBudget:
		larger := ""
		if p.limits.Tokens > 0 {
			larger += " --budget-tokens N"
		}
		if p.limits.MicroUSD > 0 {
			larger += " --budget-usd N"
		}
		fmt.Fprintf(a.Out, "%s: %s left; go on with a larger one: %s%s\n", r.Reason, countAre(r.Left, "task"), resume, larger)
	case r.Left > 0:
		fmt.Fprintf(a.Out, "%s: %s left; go on with: %s\n", r.Reason, countAre(r.Left, "task"), resume)
	case counts.failed > 0:
		fmt.Fprintf(a.Out, "the host failed %s; try again with: %s --failed\n", count(counts.failed, "task"), batchCommand("retry", state.Dir()))
	}
	_, err = fmt.Fprintf(a.Out, "numbers: %s    patches: %s --format swebench\n", batchCommand("report", state.Dir()), batchCommand("export", state.Dir()))
	return err
}

// batchCommand is a command about the batch in dir, as it can be pasted here.
func batchCommand(name, dir string) string {
	at := shown(dir)
	if strings.HasPrefix(at, "-") {
		at = "./" + at
	}
	return term.Clean(argv.Join([]string{"bestof", "batch", name, at}), 0).String()
}

// shown is a path as a user would write it from here.
func shown(dir string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, dir); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return dir
}
