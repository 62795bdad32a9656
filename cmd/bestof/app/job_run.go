package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/internal/telemetry"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/desk"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner/webhook"
	"github.com/bestof-dev/bestof/orchestrator/schedule/slots"
)

func (a *app) jobTickCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tick",
		Short: "Run what is due now, and end",
		Long: `Runs the jobs that are due, and ends when nothing runs and nothing more is due. It
is for cron, timers of systemd, launchd and whatever else calls it, every minute
say; while one is at work, another has nothing to do and says so. It is this or
bestof daemon, never both.`,
		Example: "  bestof job tick\n  * * * * * bestof job tick     # in a crontab",
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := a.home()
			if err != nil {
				return err
			}
			claim, err := ledger.TakeClaim(home, ledger.Tick)
			if mode, _, ok := ledger.Claimed(home); errors.Is(err, ledger.ErrBusy) && ok && mode == ledger.Tick {
				a.warn("%v: nothing to do here", err)
				return nil
			}
			if err != nil {
				return asJobError(err)
			}
			return a.runJobs(c.Context(), home, claim, func(cfg *runner.Config) { cfg.Once = true })
		},
	}
	return c
}

// runJobs runs jobs with a claim until there is nothing left, and gives the
// claim back.
func (a *app) runJobs(ctx context.Context, home string, claim *ledger.Claim, adjust func(*runner.Config)) error {
	r, done, err := a.runner(home, adjust)
	if err != nil {
		return errors.Join(err, claim.Release())
	}
	err = r.Run(ctx)
	if err = asJobError(errors.Join(err, done(), claim.Release())); err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// runner makes a runner of jobs. The caller has the claim, and calls done in
// the end.
func (a *app) runner(home string, adjust func(*runner.Config)) (r *runner.Runner, done func() error, err error) {
	logger, logFile, err := a.jobLogger()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, logFile.Close())
		}
	}()
	file, _, err := loadConfig(home, "", false)
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program: %w", err)
	}
	l, err := ledger.Open(home)
	if err != nil {
		return nil, nil, asJobError(err)
	}
	tel := telemetry.Start(a.lookup, version(), func(line string) { logger.Warn(line) })
	if at := tel.Address(); at != "" {
		logger.Info("metrics are served", "address", at)
	}
	cfg := runner.Config{
		Home: home, Ledger: l, Program: &jobProgram{app: a, self: self, home: home, gitDirs: map[string]string{}}, Environ: forRuns(a.Environ),
		Redactor: redact.New(redact.FromEnviron(a.Environ)), Clock: runner.SystemClock(), Log: logger,
		Observer: observedJobs{tel, time.Now}, Sender: webhook.NewSender(time.Now, 30*time.Second),
	}
	if n := file.Machine.Candidates; n != nil {
		if _, err := file.Machine.slot(home); err != nil {
			return nil, nil, errors.Join(err, l.Close())
		}
		if cfg.Slots, err = slots.Open(home, *n); err != nil {
			return nil, nil, errors.Join(statusError{orchestrator.ExitInfrastructure, err}, l.Close())
		}
		cfg.Limit = *n
	}
	adjust(&cfg)
	if r, err = runner.New(cfg); err != nil {
		tel.Close()
		return nil, nil, errors.Join(statusError{orchestrator.ExitInfrastructure, err}, l.Close())
	}
	return r, func() error { tel.Close(); return errors.Join(l.Close(), logFile.Close()) }, nil
}

// logTo is where what happens to jobs is logged.
func (a *app) logTo() io.Writer {
	if a.quiet {
		return io.Discard
	}
	return cleanLines{a.Err}
}

// cleanLines passes on lines of a log, of which each comes in one write, with
// nothing but what prints.
type cleanLines struct{ w io.Writer }

func (c cleanLines) Write(p []byte) (int, error) {
	line := string(p)
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if _, err := fmt.Fprintf(c.w, "%s\n", term.Clean(line, 0)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// observedJobs passes on what happens to jobs as metrics and traces.
type observedJobs struct {
	telemetry *telemetry.Telemetry
	now       func() time.Time
}

func (o observedJobs) Began(_ schedule.Job, r schedule.Run) string { return o.telemetry.JobParent(r) }

func (o observedJobs) Ended(_ schedule.Job, r schedule.Run, e ledger.End) {
	r.Ended, r.Outcome, r.Status, r.Used, r.Reported = o.now(), e.Outcome, e.Status, e.Used, e.Reported
	o.telemetry.JobRun(r)
}

func (o observedJobs) Queue(waiting, running int) { o.telemetry.Jobs(waiting, running) }

func (a *app) jobRunCommand() *cobra.Command {
	detach := false
	c := &cobra.Command{
		Use:   "run [--detach] NAME",
		Short: "Run a job now",
		Long: `Runs a job now, also a paused one, with its policies and its budget, and ends with
the status of the run. Where bestof daemon runs the jobs it does this too, and
the command waits for it; otherwise the command does it itself.`,
		Example: "  bestof job run nightly\n  bestof job run --detach nightly",
		Args:    oneJob, ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error { return a.runJobNow(c.Context(), args[0], detach) },
	}
	c.Flags().BoolVar(&detach, "detach", false, "ask whoever runs the jobs for it, and wait for nothing")
	return c
}

func (a *app) runJobNow(ctx context.Context, name string, detach bool) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	return a.withJobs(func(d *desk.Desk) error {
		if _, err := d.Job(name); err != nil {
			return err
		}
		if detach && d.Claimed() == "" {
			return refusedf("nobody runs the jobs: start `bestof daemon`, or leave out --detach")
		}
		fire, err := d.RunNow(name)
		if err != nil {
			return err
		}
		if detach {
			if a.json {
				return a.printJSON(struct {
					Schema  string    `json:"schema"`
					Job     string    `json:"job"`
					Instant time.Time `json:"instant"`
				}{"bestof.job-asked/1", name, fire.Instant})
			}
			_, err := fmt.Fprintf(a.Out, "%s: asked for\n", name)
			return err
		}
		if err := a.seeThrough(ctx, home, d, fire); err != nil {
			return err
		}
		return a.endOfFire(d, fire)
	})
}

// claimWait is how often a command that waits for a run of a job looks.
const claimWait = 200 * time.Millisecond

// seeThrough returns when a fire that was asked for is not to be begun any more
// and does not run: this process does it, or whoever has the claim.
func (a *app) seeThrough(ctx context.Context, home string, d *desk.Desk, fire schedule.Fire) error {
	for {
		claim, err := ledger.TakeClaim(home, ledger.Tick)
		if err == nil {
			return a.runJobs(ctx, home, claim, func(cfg *runner.Config) { cfg.Only = true })
		}
		if !errors.Is(err, ledger.ErrBusy) {
			return err
		}
		now, err := d.Fire(fire)
		if err != nil {
			return err
		}
		if now.State == schedule.FireDone || now.State == schedule.FireSkipped || now.State == schedule.FireWaiting && now.Attempt > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(claimWait):
		}
	}
}

// endOfFire says how the last attempt at a fire ended, and is the error of its
// status.
func (a *app) endOfFire(d *desk.Desk, fire schedule.Fire) error {
	runs, err := d.Attempts(fire)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		now, err := d.Fire(fire)
		if err != nil {
			return err
		}
		return refusedf("job %s: it is %s: %s", fire.Job, now.State, now.Reason.Detail)
	}
	r, err := d.Run(runs[0].ID)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(r)
	} else {
		_, err = fmt.Fprintf(a.Out, "run %d of %s: %s\n", r.ID, r.Job, term.Clean(runWords(r), 0))
	}
	if err == nil {
		if code := statusOfOutcome(r); code != 0 {
			err = statusError{code: code}
		}
	}
	return err
}

// statusOfOutcome is the exit status of a run of a job: its invocation's,
// unless it was ended for a reason of the job's.
func statusOfOutcome(r desk.Run) int {
	code := orchestrator.ExitInternal
	if r.ExitCode != nil && *r.ExitCode >= 0 {
		code = *r.ExitCode
	}
	switch schedule.Outcome(r.Outcome) {
	case schedule.Won:
		return orchestrator.ExitWinner
	case schedule.NoWinner:
		return orchestrator.ExitNoWinner
	case schedule.TimedOut, schedule.Quiet:
		return orchestrator.ExitTimedOut
	case schedule.OverBudget:
		return orchestrator.ExitOverBudget
	case schedule.Refused:
		return orchestrator.ExitRefused
	case schedule.Infrastructure, schedule.Lost:
		return orchestrator.ExitInfrastructure
	case schedule.Interrupted, schedule.Replaced:
		return orchestrator.ExitInterrupted
	}
	return code
}
