package app

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/desk"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
)

func (a *app) jobCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "job",
		Short: "Let runs and batches happen by themselves, at times",
		Long: `A job is a run or a batch with the times at which it is made. bestof daemon runs
jobs when they are due; so does whatever calls bestof job tick every minute. Its
settings are frozen when it is added; nothing is ever pushed.`,
		Example: `  bestof job add nightly --cron '0 2 * * *' --result branch -- run --test 'go test ./...' "make the failing test pass"
  bestof daemon
  bestof job next
  bestof job runs nightly
  bestof job report --since 24h --html night.html`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command \"job %s\" (see `bestof job --help`)", args[0])
			}
			return c.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(a.jobAddCommand(), a.jobEditCommand(), a.jobListCommand(), a.jobShowCommand(), a.jobNextCommand(), a.jobRunsCommand(), a.jobLogsCommand(),
		a.jobRunCommand(), a.jobPauseCommand(true), a.jobPauseCommand(false), a.jobRemoveCommand(), a.jobReportCommand(), a.jobTickCommand(), a.jobExportCommand())
	for _, sub := range c.Commands() {
		sub.Long = strings.TrimSpace(sub.Long) + "\n\n" + statuses
		sub.Args = asUsage(sub.Args)
	}
	return c
}

// oneJob is the argument of commands about one job.
func oneJob(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one job: `bestof job list` shows them")
	}
	return nil
}

// mayNameJob is the argument of commands about one job or all.
func mayNameJob(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return errors.New("name one job, or none for all")
	}
	return nil
}

// completeJobs offers names of jobs to the shell.
func (a *app) completeJobs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	_ = a.withJobs(func(d *desk.Desk) error { // without jobs there is nothing to offer
		jobs, err := d.Jobs()
		for _, j := range jobs {
			names = append(names, j.Name)
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// withJobs opens the jobs for a command.
func (a *app) withJobs(f func(*desk.Desk) error) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	d, err := desk.Open(home, time.Now)
	if err != nil {
		return asJobError(err)
	}
	return asJobError(errors.Join(f(d), d.Close()))
}

// asJobError gives errors of the ledger their status.
func asJobError(err error) error {
	var status statusError
	var usage usageError
	switch {
	case err == nil, errors.As(err, &status), errors.As(err, &usage):
		return err
	case errors.Is(err, ledger.ErrNoJob), errors.Is(err, ledger.ErrNoRun), errors.Is(err, ledger.ErrExists):
		return usageError{err}
	case errors.Is(err, ledger.ErrBusy), errors.Is(err, ledger.ErrRunning), errors.Is(err, ledger.ErrChanged), errors.Is(err, ledger.ErrNewer), errors.Is(err, ledger.ErrForeign):
		return refusedf("%w", err)
	}
	return statusError{orchestrator.ExitInfrastructure, err}
}

func (a *app) jobPauseCommand(paused bool) *cobra.Command {
	c := &cobra.Command{
		Use:     "pause NAME",
		Short:   "Let a job fire no more until it is resumed",
		Long:    `What passes while a job is paused is skipped, and the history says so. A run that goes on is not ended.`,
		Example: "  bestof job pause nightly",
	}
	word := "paused"
	if !paused {
		word = "resumed"
		c.Use, c.Short, c.Example = "resume NAME", "Let a paused job fire again", "  bestof job resume nightly"
		c.Long = "What passed while the job was paused stays skipped."
	}
	c.Args, c.ValidArgsFunction = oneJob, a.completeJobs
	c.RunE = func(_ *cobra.Command, args []string) error {
		return a.withJobs(func(d *desk.Desk) error {
			if err := d.Pause(args[0], paused); err != nil {
				return err
			}
			return a.saidJob(d, args[0], word)
		})
	}
	return c
}

// saidJob says what was done to a job.
func (a *app) saidJob(d *desk.Desk, name, done string) error {
	j, err := d.Job(name)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(j)
	}
	next := "it does not fire any more"
	switch {
	case j.Paused:
		next = "it is paused"
	case j.Next != nil:
		next = "next: " + j.When(*j.Next)
	}
	_, err = fmt.Fprintf(a.Out, "%s: %s; %s\n", name, done, next)
	return err
}

func (a *app) jobRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Forget a job; its history stays",
		Long:    `Fires of the job that wait never run. A job with a run that is not over is not removed.`,
		Example: "  bestof job remove nightly",
		Args:    oneJob, ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withJobs(func(d *desk.Desk) error {
				if _, err := d.Job(args[0]); err != nil {
					return err
				}
				if ok, err := a.ask("remove the job "+args[0]+"?", "--yes"); err != nil || !ok {
					return errors.Join(err, nothingDone(ok, err))
				}
				if err := d.Remove(args[0]); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]string{"schema": "bestof.job-removed/1", "job": args[0]})
				}
				_, err := fmt.Fprintf(a.Out, "%s: removed; `bestof job runs %s` still shows its history\n", args[0], args[0])
				return err
			})
		},
	}
}

// nothingDone is the error of a question that was answered with no.
func nothingDone(ok bool, err error) error {
	if ok || err != nil {
		return nil
	}
	return refusedf("nothing was done")
}

func (a *app) jobNextCommand() *cobra.Command {
	count := 5
	c := &cobra.Command{
		Use:   "next [-n N] [NAME]",
		Short: "Say when jobs fire next",
		Long: `Prints the next fires of one job, or of all, in the order of their times, each in
the job's own zone.`,
		Example: "  bestof job next\n  bestof job next -n 20 nightly",
		Args:    mayNameJob, ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 || count > 10_000 {
				return usagef("-n: write a number from 1 to 10000")
			}
			return a.withJobs(func(d *desk.Desk) error {
				fires, err := d.Next(strings.Join(args, ""), count)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(struct {
						Schema string      `json:"schema"`
						Next   []desk.Next `json:"next"`
					}{"bestof.job-next/1", fires})
				}
				for _, f := range fires {
					if _, err := fmt.Fprintf(a.Out, "%s  %s\n", f.Words(), f.Job); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	c.Flags().IntVarP(&count, "number", "n", 5, "how many")
	return c
}

// zoneName is the name of the zone that this machine shows times in.
func (a *app) zoneName() string {
	for _, name := range []string{strings.TrimPrefix(a.getenv("TZ"), ":"), localZone()} {
		if _, err := schedule.Zone(name); name != "" && err == nil {
			return name
		}
	}
	return "UTC"
}
