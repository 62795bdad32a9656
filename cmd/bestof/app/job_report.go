package app

import (
	"bytes"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/desk"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/orchestrator/schedule/report"
)

// maxReported is how many runs, and how many fires, a report holds.
const maxReported = 1000

func (a *app) jobReportCommand() *cobra.Command {
	var page string
	since, markdown := 24*time.Hour, false
	c := &cobra.Command{
		Use:   "report [--since LENGTH] [NAME]",
		Short: "Say what the jobs did last night",
		Long: `Sums up the runs of one job, or of all, of the last so many hours: how each ended,
what became of winners, what did not run and why, and what comes next.`,
		Example: `  bestof job report --since 24h
  bestof job report --since 168h --html week.html
  bestof job report --markdown nightly`,
		Args: mayNameJob, ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			if since <= 0 {
				return usagef("--since: write a length of time, for example 24h")
			}
			return a.withJobs(func(d *desk.Desk) error {
				name := ""
				if len(args) > 0 {
					name = args[0]
				}
				r, err := a.jobReport(d, name, since, time.Now())
				if err != nil {
					return err
				}
				if page != "" {
					var b bytes.Buffer
					if err := view.JobHTML(&b, r, a.zone()); err != nil {
						return err
					}
					if err := atomicfile.Write(a.absolute(page), b.Bytes(), 0o644); err != nil {
						return usagef("write the report: %w", err)
					}
				}
				return a.printJobReport(a.Out, r, markdown)
			})
		},
	}
	c.Flags().DurationVar(&since, "since", since, "how far back")
	c.Flags().StringVar(&page, "html", "", "write a page to this `FILE` too")
	c.Flags().BoolVar(&markdown, "markdown", false, "print Markdown")
	return c
}

// zone is where this person is.
func (a *app) zone() *time.Location {
	if loc, err := schedule.Zone(a.zoneName()); err == nil {
		return loc
	}
	return time.UTC
}

func (a *app) printJobReport(w io.Writer, r report.Report, markdown bool) error {
	switch {
	case a.json:
		return a.printJSON(r)
	case markdown:
		return view.JobMarkdown(w, r, a.zone())
	}
	return view.JobText(w, r, a.zone())
}

// jobReport gathers what happened.
func (a *app) jobReport(d *desk.Desk, name string, since time.Duration, now time.Time) (report.Report, error) {
	q := ledger.Query{Job: name, Since: now.Add(-since), Limit: maxReported}
	found, err := d.Runs(q)
	if err != nil {
		return report.Report{}, err
	}
	var runs []report.Run
	for _, r := range found {
		run := report.Run{
			ID: r.ID, Job: r.Job, Instant: r.Instant, Attempt: r.Attempt, Manual: r.Manual, Started: r.Started, Outcome: r.Outcome, Reason: r.Reason,
			Branch: r.Branch, Patches: r.Patches, Record: r.Record, MicroUSD: r.MicroUSD, Tokens: r.Tokens, Notes: r.Notices,
		}
		if r.Ended != nil {
			run.Ended = *r.Ended
		}
		if r.CutOff {
			run.Reason = "cut off: who runs jobs next settles it"
		}
		for _, s := range r.Told {
			if s.Failed {
				run.Notes = append(run.Notes, s.Kind+" was not told: "+s.Reason)
			}
		}
		runs = append(runs, run)
	}
	fires, err := d.Skipped(q)
	if err != nil {
		return report.Report{}, err
	}
	var skips []report.Skip
	for _, f := range fires {
		skips = append(skips, report.Skip{Job: f.Job, Instant: f.Instant, Through: f.Through, Count: f.Count, Waiting: f.State == string(schedule.FireWaiting), Reason: f.Reason})
	}
	var next []report.Next
	if coming, err := d.Next(name, 5); err == nil { // a job that was removed has a history and no future
		for _, n := range coming {
			next = append(next, report.Next{Job: n.Job, At: n.At})
		}
	}
	return report.Make(now.Add(-since), now, runs, skips, next, len(found) == maxReported || len(fires) == maxReported), nil
}
