package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/schedule/desk"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/worktree"
)

type gcOptions struct {
	keep      int
	olderThan time.Duration
	bases     string
	dryRun    bool
}

func (a *app) gcCommand() *cobra.Command {
	var o gcOptions
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove what runs left behind",
		Long: `Ends processes and removes shadows, mounts and containers of runs whose orchestrator is dead,
empties the trash, and keeps the cached bases within their budget. Records of
runs are kept unless --keep or --older-than says otherwise; of each job they keep
the logs, results and batches of so many runs, and the history always stays.
Nothing is removed
that does not carry bestof's own mark.`,
		Example: "  bestof gc --dry-run\n  bestof gc --keep 20 --older-than 720h",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runGC(c.Context(), o, c.Flags().Changed)
		},
	}
	c.Flags().IntVar(&o.keep, "keep", 0, "keep the records of the newest `N` runs (default all)")
	c.Flags().DurationVar(&o.olderThan, "older-than", 0, "remove only records older than this; alone it removes all of those")
	c.Flags().StringVar(&o.bases, "bases", "10GB", "how much the cached bases may take, for example 500MB")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "say what would be removed, and remove nothing")
	return c
}

// gcReport is what `gc --json` prints.
type gcReport struct {
	Schema  string   `json:"schema"`
	DryRun  bool     `json:"dry_run"`
	Records []string `json:"records"`
	Runs    []string `json:"runs"`
	Bases   []string `json:"bases"`
	Mounts  []string `json:"mounts"`
	Trash   []string `json:"trash"`
	Bytes   int64    `json:"bytes"`
	JobRuns []int64  `json:"job_runs"` // whose logs, results and batches go; the history stays
	Copies  []string `json:"copies"`   // that a killed `diff --tool` left

	Containers []string `json:"containers"`
}

func (a *app) runGC(ctx context.Context, o gcOptions, given func(string) bool) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	file, err := a.configuration(s)
	if err != nil {
		return err
	}
	fillIn(&o.keep, file.Keep.Runs, given("keep"))
	fillIn(&o.olderThan, (*time.Duration)(file.Keep.Older), given("older-than"))
	fillIn(&o.bases, file.Keep.Bases, given("bases"))
	budget, err := parseSize(o.bases)
	if err != nil {
		return err
	}
	if o.keep < 0 || o.olderThan < 0 {
		return usagef("--keep and --older-than cannot be negative")
	}
	broken, err := s.records.Broken()
	if err != nil {
		return err
	}
	report := gcReport{Schema: "bestof.gc/1", DryRun: o.dryRun, Records: []string{}, JobRuns: []int64{}}
	var absent *sandbox.Unavailable
	if report.Containers, err = a.reapContainers(ctx, o.dryRun); err != nil && !errors.As(err, &absent) {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	if given("keep") || o.keep > 0 || o.olderThan > 0 {
		docs, _, err := s.records.List(0)
		if err != nil {
			return err
		}
		docs = slices.DeleteFunc(docs, func(d record.Document) bool { return !s.records.Own(d.Run) })
		broken = append(broken, expired(docs, o.keep, time.Now().Add(-o.olderThan))...)
		if report.JobRuns, err = a.pruneJobs(s.home, o); err != nil {
			return err
		}
	}
	for _, id := range broken {
		if !o.dryRun {
			if err := s.records.Remove(id); err != nil {
				return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("remove the record of run %s: %w", id, err)}
			}
		}
		report.Records = append(report.Records, id)
	}
	done, err := s.store.GC(ctx, worktree.GCOptions{MaxBaseBytes: budget, Now: time.Now(), DryRun: o.dryRun, Sweep: a.sweepLayers})
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	report.Runs, report.Bases, report.Mounts, report.Trash, report.Bytes = list(done.Runs), list(done.Bases), list(done.Mounts), list(done.Trash), done.Bytes
	report.Copies = list(sweepCopies(time.Now(), o.dryRun))
	if len(done.Left) > 0 {
		a.warn("left, since only an engine that works can remove what its overlays left: %s", strings.Join(done.Left, ", "))
	}
	if a.json {
		return a.printJSON(report)
	}
	verb := "removed"
	if o.dryRun {
		verb = "would remove"
	}
	var jobRuns []string
	for _, id := range report.JobRuns {
		jobRuns = append(jobRuns, strconv.FormatInt(id, 10))
	}
	for _, part := range []struct {
		what  string
		names []string
	}{{"record", report.Records}, {"what a job kept of run", jobRuns}, {"shadows of run", report.Runs}, {"base", report.Bases}, {"mount", report.Mounts}, {"container", report.Containers}, {"trash", report.Trash}, {"copies for a diff tool in", report.Copies}} {
		for _, name := range part.names {
			fmt.Fprintf(a.Out, "%s %s %s\n", verb, part.what, term.Clean(name, 200))
		}
	}
	_, err = fmt.Fprintf(a.Out, "%s %s\n", verb, formatSize(report.Bytes))
	return err
}

// pruneJobs removes what runs of jobs kept, where there are jobs.
func (a *app) pruneJobs(home string, o gcOptions) ([]int64, error) {
	ids := []int64{}
	if _, err := os.Stat(ledger.File(home)); errors.Is(err, fs.ErrNotExist) {
		return ids, nil
	}
	err := a.withJobs(func(d *desk.Desk) error {
		runs, err := d.Prune(o.keep, time.Now().Add(-o.olderThan), o.dryRun)
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		return err
	})
	return ids, err
}

func list(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// expired are the finished runs beyond the newest keep that began before the
// given time.
func expired(docs []record.Document, keep int, before time.Time) []string {
	var ids []string
	for i, d := range docs {
		if d.Phase != record.Running && len(docs)-i > keep && d.Started.Before(before) {
			ids = append(ids, d.Run)
		}
	}
	return ids
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}

// parseSize reads "10GB", "1.5GB" or "500MB".
func parseSize(s string) (int64, error) {
	text := strings.ToUpper(strings.TrimSpace(s))
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !(n >= 0 && n*float64(u.bytes) < 1e18) {
				break
			}
			return int64(n * float64(u.bytes)), nil
		}
	}
	return 0, usagef("%q is not a size: write for example 500MB or 10GB", s)
}

// formatSize is a size for people.
func formatSize(n int64) string {
	i := slices.IndexFunc(sizeUnits, func(u struct {
		suffix string
		bytes  int64
	}) bool {
		return n >= u.bytes
	})
	if i < 0 || sizeUnits[i].bytes == 1 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", float64(n)/float64(sizeUnits[i].bytes), sizeUnits[i].suffix)
}
