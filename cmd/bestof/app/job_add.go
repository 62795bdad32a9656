package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/desk"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner/webhook"
)

// jobOptions are the flags of job add and job edit.
type jobOptions struct {
	cron, zone, at string
	every          time.Duration

	taskCommand string

	overlap     string
	queue       int
	missed      string
	missedMost  int
	missedAfter time.Duration
	retries     int
	retryWait   time.Duration
	timeout     time.Duration
	quietAfter  time.Duration
	jitter      time.Duration
	share       bool
	usd         float64
	tokens      int64
	wall        time.Duration
	monthUSD    float64
	monthTokens int64
	monthWall   time.Duration

	result   string
	onFinish string
	inside   bool
	webhooks []string
	secret   string

	paused bool
	dryRun bool
}

func (o *jobOptions) addFlags(f *pflag.FlagSet) {
	p := schedule.DefaultPolicy()
	f.StringVar(&o.cron, "cron", "", "fire at the times of a cron `LINE` of five fields, such as '0 2 * * *'")
	f.StringVar(&o.zone, "tz", "", "the `ZONE` of --cron and --at, such as Europe/Berlin (default this machine's)")
	f.StringVar(&o.at, "at", "", "fire once, at a `TIME` such as '2027-03-01 02:00'")
	f.DurationVar(&o.every, "every", 0, "fire again and again, so long after now and after each fire, for example 6h")
	f.StringVar(&o.taskCommand, "task-command", "", "the task of a run is what this `COMMAND` prints in a sandbox when the job fires; nothing printed is nothing to do")
	f.StringVar(&o.overlap, "overlap", string(p.Overlap), "a fire while the last run goes on: skip it | queue it | replace the run")
	f.IntVar(&o.queue, "queue", p.Queue, "how many fires wait with --overlap queue")
	f.StringVar(&o.missed, "missed", string(p.Missed.Mode), "fires that nobody was there for: once for all | skip | all")
	f.IntVar(&o.missedMost, "missed-most", p.Missed.Most, "how many run at most with --missed all")
	f.DurationVar(&o.missedAfter, "missed-after", p.Missed.Grace, "a fire that is later than this was missed")
	f.IntVar(&o.retries, "retries", p.Retry.Most, "how often a run that the host failed is tried again")
	f.DurationVar(&o.retryWait, "retry-wait", p.Retry.First, "before the first of these; it doubles")
	f.DurationVar(&o.timeout, "timeout", p.Timeout, "stop a run that takes longer; 0 for no limit")
	f.DurationVar(&o.quietAfter, "quiet-timeout", p.Quiet, "stop a run that prints nothing for so long; 0 for no watch")
	f.DurationVar(&o.jitter, "jitter", p.Jitter, "put each fire off by less than this, always by the same")
	f.BoolVar(&o.share, "share-repository", false, "run also while another job runs on the repository")
	f.Float64Var(&o.usd, "budget-usd", 0, "US dollars for one run, where agents report what they cost (default none)")
	f.Int64Var(&o.tokens, "budget-tokens", 0, "tokens for one run, where agents report them (default none)")
	f.DurationVar(&o.wall, "budget-wall", 0, "time for one run that counts as its budget (default none)")
	f.Float64Var(&o.monthUSD, "month-usd", 0, "US dollars for all runs of a calendar month (default none)")
	f.Int64Var(&o.monthTokens, "month-tokens", 0, "tokens for all runs of a calendar month (default none)")
	f.DurationVar(&o.monthWall, "month-wall", 0, "time for all runs of a calendar month (default none)")
	f.StringVar(&o.result, "result", string(schedule.AdoptReport), "a winner: report it | make it a branch | apply it to the tree | write its patch=`DIR`")
	f.StringVar(&o.onFinish, "on-finish", "", "a `COMMAND` that gets each run's result document on its stdin, split as a shell splits words but never run by one")
	f.BoolVar(&o.inside, "on-finish-sandbox", false, "run it in a sandbox without network")
	f.StringArrayVar(&o.webhooks, "webhook", nil, "a `URL` that gets the result document by POST (repeatable; '' takes all away)")
	f.StringVar(&o.secret, "webhook-secret", "", "the environment variable `NAME` whose value signs what webhooks get; the value is never kept")
	f.BoolVar(&o.paused, "paused", false, "keep the job and let it fire only by hand")
	f.BoolVar(&o.dryRun, "dry-run", false, "check everything, say what the job would be, and keep nothing")
}

func (a *app) completeJob(c *cobra.Command) {
	for flag, values := range map[string][]string{
		"overlap": {"skip", "queue", "replace"}, "missed": {"once", "skip", "all"}, "result": {"report", "branch", "apply", "patch="},
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

func (a *app) jobAddCommand() *cobra.Command {
	var o jobOptions
	c := &cobra.Command{
		Use:   "add NAME --cron LINE|--at TIME|--every LENGTH [flags] -- run|batch run|tool train …",
		Short: "Add a job",
		Long: `Adds a job: a run or a batch on the repository you are in, or a training, and when
it is made.
What follows -- is checked as if it were made now, and its settings are frozen:
what the configuration says later changes nothing about them. The repository
itself is looked at again whenever the job fires.`,
		Example: `  bestof job add nightly --cron '0 2 * * *' --tz Europe/Berlin --result branch -- \
      run -n 4 --agents claude:4 --test 'go test ./...' "make the failing test pass"
  bestof job add triage --every 6h --task-command './newest-failure.sh' -- run --test 'go test ./...'
  bestof job add bench --at '2027-03-01 22:00' -- batch run tasks.csv --repo calc -n 4
  bestof job add learn --cron '@weekly' -- tool train pairs`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 {
				return errors.New("name the job")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.runJobAdd(c.Context(), o, c.Flags(), c.ArgsLenAtDash(), args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"--", "run", "batch", "tool"}, cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.addFlags(c.Flags())
	a.completeJob(c)
	return c
}

// afterDash are the words of the invocation.
func afterDash(args []string, dash int) ([]string, error) {
	switch {
	case dash < 0 && len(args) > 1:
		return nil, usagef("write -- before what the job does: -- %s", argv.Join(args[1:]))
	case dash >= 0 && dash != 1:
		return nil, usagef("name one job before --")
	}
	return args[1:], nil
}

func (a *app) runJobAdd(ctx context.Context, o jobOptions, flags *pflag.FlagSet, dash int, args []string) error {
	words, err := afterDash(args, dash)
	if err != nil {
		return err
	}
	now := time.Now()
	j := schedule.Job{Name: args[0], Policy: schedule.DefaultPolicy(), Result: schedule.DefaultResult(), Created: now, Revision: 1}
	if err := schedule.CheckName(j.Name); err != nil {
		return usageError{err}
	}
	if err := a.applyJob(ctx, &j, o, func(string) bool { return true }, flags.Changed, words, now); err != nil {
		return err
	}
	err = j.Check()
	if err == nil {
		err = j.CheckNew(now)
	}
	if err != nil {
		return usageError{err}
	}
	if o.dryRun {
		return a.printJobPlan(j, now)
	}
	return a.withJobs(func(d *desk.Desk) error {
		if _, err := d.Add(j); err != nil {
			return err
		}
		return a.saidJob(d, j.Name, "added")
	})
}

func (a *app) jobEditCommand() *cobra.Command {
	var o jobOptions
	c := &cobra.Command{
		Use:   "edit NAME [flags] [-- run|batch run|tool train …]",
		Short: "Change a job",
		Long: `Changes what flags say and leaves the rest. What follows -- replaces what the job
does, and freezes its settings anew. A run that goes on is not touched.`,
		Example: `  bestof job edit nightly --cron '30 3 * * *'
  bestof job edit nightly --result patch=/srv/patches
  bestof job edit nightly -- run -n 8 --test 'go test ./...' "make the failing test pass"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 {
				return errors.New("name one job: `bestof job list` shows them")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.runJobEdit(c.Context(), o, c.Flags(), c.ArgsLenAtDash(), args)
		},
		ValidArgsFunction: a.completeJobs,
	}
	o.addFlags(c.Flags())
	a.completeJob(c)
	return c
}

func (a *app) runJobEdit(ctx context.Context, o jobOptions, flags *pflag.FlagSet, dash int, args []string) error {
	words, err := afterDash(args, dash)
	if err != nil {
		return err
	}
	return a.withJobs(func(d *desk.Desk) error {
		j, err := d.Definition(args[0])
		if err != nil {
			return err
		}
		now := time.Now()
		if err := a.applyJob(ctx, &j, o, flags.Changed, flags.Changed, words, now); err != nil {
			return err
		}
		if err := j.Check(); err != nil {
			return usageError{err}
		}
		if timed(flags.Changed) {
			if err := j.CheckNew(now); err != nil {
				return usageError{err}
			}
		}
		if o.dryRun {
			return a.printJobPlan(j, now)
		}
		if _, err := d.Edit(j); err != nil {
			return err
		}
		return a.saidJob(d, j.Name, "changed")
	})
}

func timed(changed func(string) bool) bool {
	return slices.ContainsFunc([]string{"cron", "tz", "at", "every"}, changed)
}

// applyJob changes a job as the flags that count say. given are those that
// somebody wrote.
func (a *app) applyJob(ctx context.Context, j *schedule.Job, o jobOptions, counts, given func(string) bool, words []string, now time.Time) error {
	if timed(given) || j.Trigger.Kind == "" {
		t, err := a.trigger(j.Trigger, o, given, now)
		if err != nil {
			return err
		}
		j.Trigger = t
	}
	if counts("paused") {
		j.Paused = o.paused
	}
	if err := o.policy(&j.Policy, counts); err != nil {
		return err
	}
	if err := a.jobResult(&j.Result, o, counts); err != nil {
		return err
	}
	switch {
	case len(words) > 0 || j.Command == nil:
		if err := a.applyInvocation(ctx, j, o, words); err != nil {
			return err
		}
	case given("task-command"):
		return usagef("--task-command: say with it what the job does: -- run …")
	}
	if err := a.withoutSecrets(*j); err != nil {
		return err
	}
	return a.deliverable(ctx, *j)
}

// withoutSecrets refuses a job that has a secret in what is kept of it, and shown.
func (a *app) withoutSecrets(j schedule.Job) error {
	r := redact.New(redact.FromEnviron(a.Environ))
	kept := slices.Concat(j.Command, j.Task.Command, j.Result.OnFinish, []string{j.Task.Text, string(j.Settings.Document)})
	for _, w := range j.Result.Webhooks {
		kept = append(kept, w.URL)
	}
	for _, text := range kept {
		if shown := r.String(text); shown != text {
			return usagef("the job would keep a secret and show it: %s: let the program read it from its environment or a file", term.Clean(shown, 200))
		}
	}
	return nil
}

// applyInvocation freezes what a job does.
func (a *app) applyInvocation(ctx context.Context, j *schedule.Job, o jobOptions, words []string) error {
	f, err := a.freeze(ctx, words, o.taskCommand != "")
	if err != nil {
		return err
	}
	document, err := json.Marshal(f.settings)
	if err != nil {
		return err
	}
	j.Command, j.Repository, j.Settings, j.Task, j.Policy.Candidates = words, f.repository, schedule.Freeze(document), schedule.Task{}, f.candidates
	if f.file != "" {
		j.Task = schedule.Task{Kind: schedule.TaskFile, File: f.file}
	}
	if o.taskCommand != "" {
		command, err := splitCommand("--task-command", o.taskCommand)
		if err != nil {
			return err
		}
		j.Task = schedule.Task{Kind: schedule.TaskCommand, Command: command}
	}
	return nil
}

// deliverable refuses a job whose result could never be what it says.
func (a *app) deliverable(ctx context.Context, j schedule.Job) error {
	f, err := frozenOf(j)
	switch adopt := j.Result.Adopt; {
	case err != nil:
		return err
	case f.batch() && (adopt == schedule.AdoptBranch || adopt == schedule.AdoptApply):
		return usagef("--result %s is for a run: a batch has many winners, so write report or patch=DIR", adopt)
	case f.training() && adopt != schedule.AdoptReport:
		return usagef("--result %s is for runs and batches: training has no winner, so write report", adopt)
	case adopt != schedule.AdoptBranch:
		return nil
	}
	there := *a
	there.dir = j.Repository
	s, err := there.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return a.canBranch(ctx, s, "", "job")
}

// trigger reads when a job fires. --tz alone changes the zone of a cron line.
func (a *app) trigger(old schedule.Trigger, o jobOptions, given func(string) bool, now time.Time) (schedule.Trigger, error) {
	var kinds []string
	for _, k := range []string{"cron", "at", "every"} {
		if given(k) {
			kinds = append(kinds, "--"+k)
		}
	}
	zone := o.zone
	if zone == "" {
		zone = a.zoneName()
	}
	loc, err := schedule.Zone(zone)
	if err != nil {
		return old, usagef("--tz: %w", err)
	}
	switch {
	case len(kinds) > 1:
		return old, usagef("say once when the job fires: %s are too many", strings.Join(kinds, " and "))
	case given("cron"):
		return schedule.Trigger{Kind: schedule.Cron, Cron: o.cron, Zone: zone}, nil
	case given("every"):
		return schedule.Trigger{Kind: schedule.Every, Every: o.every, From: now.UTC().Truncate(time.Second)}, nil
	case given("at"):
		at, err := parseAt(o.at, loc)
		return schedule.Trigger{Kind: schedule.At, At: at}, err
	case given("tz") && old.Kind == schedule.Cron:
		old.Zone = zone
		return old, nil
	case given("tz") && old.Kind != "":
		return old, usagef("--tz is about --cron and --at: say one of them too")
	}
	return old, usagef("say when the job fires: --cron '0 2 * * *', --at '2027-03-01 02:00' or --every 6h")
}

// parseAt reads a time in a zone. One that a clock shows twice is the first of
// the two, and one that it leaves out is none.
func parseAt(text string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04"} {
		t, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			continue
		}
		if layout != time.RFC3339 && t.Format(layout) != text {
			return t, usagef("--at %s: the clock of %s leaves this time out", text, zone)
		}
		return t.UTC(), nil
	}
	return time.Time{}, usagef("--at %s is no time: write for example 2027-03-01 02:00", term.Clean(text, 40))
}

// policy changes what a job does about what comes between.
func (o *jobOptions) policy(p *schedule.Policy, counts func(string) bool) error {
	set := func(flag string, do func()) {
		if counts(flag) {
			do()
		}
	}
	set("overlap", func() { p.Overlap = schedule.Overlap(o.overlap) })
	set("queue", func() { p.Queue = o.queue })
	set("missed", func() { p.Missed.Mode = schedule.MissedMode(o.missed) })
	set("missed-most", func() { p.Missed.Most = o.missedMost })
	set("missed-after", func() { p.Missed.Grace = o.missedAfter })
	set("retries", func() { p.Retry.Most = o.retries })
	set("retry-wait", func() { p.Retry.First, p.Retry.Longest = o.retryWait, max(o.retryWait, p.Retry.Longest) })
	set("timeout", func() { p.Timeout = o.timeout })
	set("quiet-timeout", func() { p.Quiet = o.quietAfter })
	set("jitter", func() { p.Jitter = o.jitter })
	set("share-repository", func() { p.Share = o.share })
	set("budget-tokens", func() { p.PerRun.Tokens = o.tokens })
	set("budget-wall", func() { p.PerRun.Wall = o.wall })
	set("month-tokens", func() { p.PerMonth.Tokens = o.monthTokens })
	set("month-wall", func() { p.PerMonth.Wall = o.monthWall })
	for _, m := range []struct {
		flag string
		from float64
		to   *int64
	}{{"budget-usd", o.usd, &p.PerRun.MicroUSD}, {"month-usd", o.monthUSD, &p.PerMonth.MicroUSD}} {
		if !counts(m.flag) {
			continue
		}
		micro, err := dollars(m.from)
		if err != nil {
			return usagef("--%s: %w", m.flag, err)
		}
		*m.to = micro
	}
	return nil
}

// jobResult changes what becomes of a job's runs.
func (a *app) jobResult(r *schedule.Result, o jobOptions, counts func(string) bool) error {
	if counts("result") {
		word, folder, named := strings.Cut(o.result, "=")
		r.Adopt, r.Folder = schedule.Adopt(word), ""
		switch {
		case r.Adopt == schedule.AdoptPatch && folder == "":
			return usagef("--result patch: say where to: patch=DIR")
		case r.Adopt == schedule.AdoptPatch:
			r.Folder = a.absolute(folder)
		case named || !slices.Contains([]schedule.Adopt{schedule.AdoptReport, schedule.AdoptBranch, schedule.AdoptApply}, r.Adopt):
			return usagef("--result: write report, branch, apply or patch=DIR")
		}
	}
	if counts("on-finish") {
		command, err := splitCommand("--on-finish", o.onFinish)
		if err != nil {
			return err
		}
		r.OnFinish = command
	}
	if counts("on-finish-sandbox") {
		r.Sandbox = o.inside
	}
	if counts("webhook") {
		r.Webhooks = nil
		for _, u := range o.webhooks {
			if u == "" {
				continue // takes away those that are there
			}
			if err := webhook.CheckURL(u); err != nil {
				return usagef("--webhook: %w", err)
			}
			r.Webhooks = append(r.Webhooks, schedule.Webhook{URL: u})
		}
	}
	if counts("webhook-secret") || counts("webhook") {
		for i := range r.Webhooks {
			r.Webhooks[i].Secret = o.secret
		}
	}
	if o.secret != "" && len(r.Webhooks) == 0 {
		return usagef("--webhook-secret: there is no webhook: say one with --webhook URL")
	}
	return nil
}

// printJobPlan says what a job would be.
func (a *app) printJobPlan(j schedule.Job, now time.Time) error {
	definition, err := schedule.Encode(j)
	if err != nil {
		return err
	}
	w, err := schedule.Compile(j.Trigger)
	if err != nil {
		return err
	}
	var next []time.Time
	for t, ok := w.Next(now); ok && len(next) < 3; t, ok = w.Next(t) {
		next = append(next, t.Add(schedule.Offset(j.Name, j.Policy.Jitter)))
	}
	if a.json {
		return a.printJSON(struct {
			Schema     string          `json:"schema"`
			Definition json.RawMessage `json:"definition"`
			Settings   json.RawMessage `json:"settings"`
			Next       []time.Time     `json:"next"`
		}{"bestof.job-plan/1", definition, j.Settings.Document, next})
	}
	if err := a.printDefinition(j); err != nil {
		return err
	}
	for _, t := range next {
		if _, err := fmt.Fprintf(a.Out, "%-11s %s\n", "fires", t.In(w.Zone()).Format("Mon 2006-01-02 15:04:05 MST")); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(a.Out, "nothing was kept")
	return err
}

// localZone is the name of the zone of this machine, "" when it has none.
func localZone() string {
	target, err := os.Readlink("/etc/localtime")
	if err != nil {
		return ""
	}
	_, name, _ := strings.Cut(target, "/zoneinfo/")
	return name
}
