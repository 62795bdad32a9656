package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/desk"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner"
)

func (a *app) jobListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the jobs",
		Long:    `Lists all jobs with when each fires next and how its last run ended.`,
		Example: "  bestof job list\n  bestof job list --json",
		RunE: func(*cobra.Command, []string) error {
			return a.withJobs(func(d *desk.Desk) error {
				jobs, err := d.Jobs()
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(struct {
						Schema string     `json:"schema"`
						Runner string     `json:"runner"` // who runs the jobs now
						Jobs   []desk.Job `json:"jobs"`
					}{"bestof.jobs/1", d.Claimed(), jobs})
				}
				if len(jobs) == 0 {
					_, err := fmt.Fprintln(a.Out, "there is no job: add one with `bestof job add`")
					return err
				}
				for _, j := range jobs {
					if _, err := fmt.Fprintf(a.Out, "%s\n", term.Clean(jobLine(j), 0)); err != nil {
						return err
					}
				}
				if d.Claimed() == "" {
					a.warn("nobody runs them: start `bestof daemon`, or have `bestof job tick` called every minute")
				}
				return nil
			})
		},
	}
}

func jobLine(j desk.Job) string {
	next := "fires no more"
	switch {
	case j.Paused:
		next = "paused"
	case j.Next != nil:
		next = "next " + j.When(*j.Next)
	}
	if j.Waits != nil {
		next = "waits: " + j.Waits.Reason
		if j.Waits.After.After(time.Now()) {
			next = "again " + j.When(j.Waits.After)
		}
	}
	last := "never ran"
	switch {
	case j.Running != nil && j.Running.CutOff:
		last = fmt.Sprintf("run %d was cut off", j.Running.ID)
	case j.Running != nil:
		last = fmt.Sprintf("run %d goes on since %s", j.Running.ID, j.When(j.Running.Started))
	case j.Last != nil:
		last = fmt.Sprintf("run %d %s", j.Last.ID, j.Last.Outcome)
	}
	return fmt.Sprintf("%-16s %-28s %-36s %s", j.Name, j.Trigger, next, last)
}

func (a *app) jobShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show all of a job: its times, policies and frozen settings",
		Long:    `Prints everything that is kept of a job, its last run and what it waits for.`,
		Example: "  bestof job show nightly\n  bestof job show nightly --json",
		Args:    oneJob, ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withJobs(func(d *desk.Desk) error {
				v, err := d.Job(args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(v)
				}
				j, err := d.Definition(args[0])
				if err != nil {
					return err
				}
				if err := a.printDefinition(j); err != nil {
					return err
				}
				return a.printStanding(d, v)
			})
		},
	}
}

// printStanding says how a job stands.
func (a *app) printStanding(d *desk.Desk, v desk.Job) error {
	if err := a.printRow("now", jobLine(v)); err != nil {
		return err
	}
	for _, r := range []*desk.Run{v.Running, v.Last} {
		if r == nil {
			continue
		}
		if err := a.printRow("run "+strconv.FormatInt(r.ID, 10), runWords(*r)); err != nil {
			return err
		}
	}
	fires, err := d.Skipped(ledger.Query{Job: v.Name, Limit: 10})
	for _, f := range fires {
		if f.State == string(schedule.FireWaiting) {
			err = errors.Join(err, a.printRow("waits", "the fire of "+v.When(f.Instant)+": "+f.Reason))
		}
	}
	return err
}

func (a *app) printRow(name, text string) error {
	_, err := fmt.Fprintf(a.Out, "%-11s %s\n", name, term.Clean(text, 0))
	return err
}

// printDefinition prints what is kept of a job, defaults included.
func (a *app) printDefinition(j schedule.Job) error {
	p, rows := j.Policy, [][2]string{
		{"job", fmt.Sprintf("%s, revision %d", j.Name, j.Revision)},
		{"when", desk.TriggerWords(j.Trigger)},
		{"repository", j.Repository},
		{"does", argv.Join(j.Command)},
	}
	if j.Task.Kind != schedule.TaskArgument {
		rows = append(rows, [2]string{"task", taskOf(j.Task)})
	}
	if f, err := frozenOf(j); err == nil {
		rows = append(rows, [2]string{"settings", argv.Join(append(append([]string{}, f.Verb...), f.words()...))})
		for _, name := range sortedKeys(f.Agents) {
			rows = append(rows, [2]string{"agent", name + ": " + f.Agents[name]})
		}
	}
	overlap := string(p.Overlap)
	if p.Overlap == schedule.OverlapQueue {
		overlap += fmt.Sprintf(", %d at most", p.Queue)
	}
	missed := fmt.Sprintf("%s, later than %s and at most %s ago", p.Missed.Mode, p.Missed.Grace, p.Missed.Horizon)
	if p.Missed.Mode == schedule.MissedAll {
		missed += fmt.Sprintf(", %d at most", p.Missed.Most)
	}
	lock := "alone on its repository"
	if p.Share {
		lock = "also beside another job on its repository"
	}
	rows = append(rows, [][2]string{
		{"overlap", overlap}, {"missed", missed},
		{"retries", fmt.Sprintf("%d, the first after %s, for what the host failed", p.Retry.Most, p.Retry.First)},
		{"stops", fmt.Sprintf("after %s, and when it is quiet for %s", orNever(p.Timeout), orNever(p.Quiet))},
		{"lock", lock},
	}...)
	if p.Jitter > 0 {
		rows = append(rows, [2]string{"jitter", fmt.Sprintf("%s of at most %s", schedule.Offset(j.Name, p.Jitter), p.Jitter)})
	}
	for _, b := range []struct {
		name string
		of   schedule.Budget
	}{{"a run", p.PerRun}, {"a month", p.PerMonth}} {
		if b.of != (schedule.Budget{}) {
			rows = append(rows, [2]string{"budget", b.name + ": " + budgetWords(b.of)})
		}
	}
	rows = append(rows, resultRows(j.Result)...)
	for _, r := range rows {
		if err := a.printRow(r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

func taskOf(t schedule.Task) string {
	if t.Kind == schedule.TaskCommand {
		return "what this prints in a sandbox: " + argv.Join(t.Command)
	}
	return "what is in " + t.File + " when it fires"
}

func orNever(d time.Duration) string {
	if d == 0 {
		return "any time"
	}
	return d.String()
}

func budgetWords(b schedule.Budget) string {
	var parts []string
	if b.MicroUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", float64(b.MicroUSD)/1e6))
	}
	if b.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", b.Tokens))
	}
	if b.Wall > 0 {
		parts = append(parts, b.Wall.String())
	}
	return strings.Join(parts, ", ")
}

func resultRows(r schedule.Result) [][2]string {
	adopt := string(r.Adopt)
	if r.Folder != "" {
		adopt += " to " + r.Folder
	}
	rows := [][2]string{{"result", adopt}}
	if len(r.OnFinish) > 0 {
		where := "as you"
		if r.Sandbox {
			where = "in a sandbox"
		}
		rows = append(rows, [2]string{"on finish", argv.Join(r.OnFinish) + ", " + where})
	}
	for _, w := range r.Webhooks {
		signed := "not signed"
		if w.Secret != "" {
			signed = "signed with the value of " + w.Secret
		}
		rows = append(rows, [2]string{"webhook", w.URL + ", " + signed})
	}
	return rows
}

// runWords are a run in one line.
func runWords(r desk.Run) string {
	how := "by time"
	if r.Manual {
		how = "by hand"
	}
	text := fmt.Sprintf("%s, attempt %d, began %s", how, r.Attempt, r.Started.Local().Format(time.DateTime))
	if r.CutOff {
		return text + ", cut off: who runs jobs next settles it"
	}
	if r.Ended == nil {
		return text + ", goes on"
	}
	took := r.Ended.Sub(r.Started).Round(time.Second / 10)
	if r.Outcome == string(schedule.Lost) {
		text += fmt.Sprintf(", %s, heard of last after %s", r.Outcome, took)
	} else {
		text += fmt.Sprintf(", %s after %s", r.Outcome, took)
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	if r.Branch != "" {
		text += "; branch " + r.Branch
	}
	if len(r.Patches) > 0 {
		text += "; patch " + strings.Join(r.Patches, ", ")
	}
	if r.Removed {
		text += "; log removed"
	}
	for _, s := range r.Told {
		if s.Failed {
			text += fmt.Sprintf("; %s was not told: %s", s.Kind, s.Reason)
		}
	}
	return text
}

func (a *app) jobRunsCommand() *cobra.Command {
	var q ledger.Query
	skipped := false
	c := &cobra.Command{
		Use:   "runs [flags] [NAME]",
		Short: "List the runs of a job, or of all, the latest first",
		Long: `Lists runs that were begun, the latest first. --skipped lists the fires that did not
come to run, and why. --before pages on from the last run that was shown.`,
		Example: "  bestof job runs nightly\n  bestof job runs -n 100 --before 412 --json\n  bestof job runs nightly --skipped",
		Args:    mayNameJob, ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			if q.Limit < 1 || q.Limit > 10_000 {
				return usagef("-n: write a number from 1 to 10000")
			}
			q.Job = strings.Join(args, "")
			return a.withJobs(func(d *desk.Desk) error { return a.printRuns(d, q, skipped) })
		},
	}
	c.Flags().IntVarP(&q.Limit, "number", "n", 20, "how many")
	c.Flags().Int64Var(&q.Before, "before", 0, "only those before the run of this `ID`")
	c.Flags().BoolVar(&skipped, "skipped", false, "list fires that wait or were skipped")
	return c
}

func (a *app) printRuns(d *desk.Desk, q ledger.Query, skipped bool) error {
	runs, err := d.Runs(q)
	if err != nil {
		return err
	}
	if skipped {
		fires, err := d.Skipped(q)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(struct {
				Schema string         `json:"schema"`
				Fires  []desk.Skipped `json:"fires"`
			}{"bestof.job-fires/1", fires})
		}
		for _, f := range fires {
			line := fmt.Sprintf("%s  %-12s %s: %s", f.Instant.Local().Format(time.DateTime), f.Job, f.State, f.Reason)
			if f.Count > 1 {
				line += fmt.Sprintf(" (%d fires, up to %s)", f.Count, f.Through.Local().Format(time.DateTime))
			}
			if _, err := fmt.Fprintln(a.Out, term.Clean(line, 0)); err != nil {
				return err
			}
		}
		return nil
	}
	if a.json {
		return a.printJSON(struct {
			Schema string     `json:"schema"`
			Runs   []desk.Run `json:"runs"`
		}{"bestof.job-runs/1", runs})
	}
	for _, r := range runs {
		if _, err := fmt.Fprintf(a.Out, "%6d  %-16s %s\n", r.ID, term.Clean(r.Job, 0), term.Clean(runWords(r), 0)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) jobLogsCommand() *cobra.Command {
	var run int64
	follow, finish := false, false
	c := &cobra.Command{
		Use:   "logs [-f] NAME",
		Short: "Print what a run of a job printed",
		Long: `Prints the log of the last run of a job, or of the run of --run: what it printed, in
lines of nothing but what prints, without secrets. -f goes on until the run ends.`,
		Example: "  bestof job logs -f nightly\n  bestof job logs nightly --run 412",
		Args:    oneJob, ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJobs(func(d *desk.Desk) error {
				name := runner.LogFile
				if finish {
					name = runner.OnFinishFile
				}
				return a.printLog(c.Context(), d, args[0], run, name, follow)
			})
		},
	}
	c.Flags().Int64Var(&run, "run", 0, "the run of this `ID` instead of the last")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print what comes until the run ends")
	c.Flags().BoolVar(&finish, "on-finish", false, "print what the job's own program printed")
	return c
}

// logWait is how often a log that is followed is looked at.
const logWait = 200 * time.Millisecond

func (a *app) printLog(ctx context.Context, d *desk.Desk, job string, id int64, name string, follow bool) error {
	if id == 0 {
		runs, err := d.Runs(ledger.Query{Job: job, Limit: 1})
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return usagef("job %s: it never ran", job)
		}
		id = runs[0].ID
	}
	r, err := d.Run(id)
	if err != nil {
		return err
	}
	if r.Job != job {
		return usagef("run %d is of the job %s", id, r.Job)
	}
	home, err := a.home()
	if err != nil {
		return err
	}
	path := filepath.Join(runner.Dir(home, id), name)
	var at int64
	for {
		over := r.Ended != nil
		n, err := copyFrom(a.Out, path, at)
		at += n
		if r.Removed {
			return usagef("the log of run %d was removed by `bestof gc`", id)
		}
		if errors.Is(err, fs.ErrNotExist) && over {
			return usagef("run %d: it left no %s", id, name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) || over || !follow {
			return err
		}
		if r.CutOff {
			return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("run %d was cut off: who ran it is dead, and who runs jobs next settles it", id)}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(logWait):
		}
		if r, err = d.Run(id); err != nil {
			return err
		}
	}
}

// copyFrom prints a file from a place on. Logs are clean when they are written.
func copyFrom(w io.Writer, path string, at int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(w, io.NewSectionReader(f, at, 1<<40))
}
