package app

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

func (a *app) duCommand() *cobra.Command {
	var runs bool
	c := &cobra.Command{
		Use:   "du",
		Short: "Show what bestof takes on the disk",
		Long: `Shows what cached bases, shadows and trash take, and the records of each
repository in which you ran bestof: objects, patches, and the rest (documents,
events, logs). It works from any directory and removes nothing; gc does.`,
		Example: "  bestof du\n  bestof du --runs\n  bestof du --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runDU(c.Context(), runs)
		},
	}
	c.Flags().BoolVar(&runs, "runs", false, "list the records of each run, too")
	return c
}

// duReport is what `du --json` prints. Sizes are bytes.
type duReport struct {
	Schema       string            `json:"schema"`
	Scratch      bytestring.String `json:"scratch"`
	Bases        duPart            `json:"bases"`
	Shadows      duPart            `json:"shadows"`
	Trash        duPart            `json:"trash"`
	Repositories []duRepository    `json:"repositories"` // largest first
	Bytes        int64             `json:"bytes"`
}

type duPart struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// duRepository is the records in one repository. Shadows are not part of
// Bytes: they are in the scratch.
type duRepository struct {
	Path    bytestring.String `json:"path"`
	Gone    string            `json:"gone,omitempty"` // why nothing was measured
	Runs    []duRun           `json:"runs"`           // oldest first
	Objects int64             `json:"objects"`
	Patches int64             `json:"patches"`
	Rest    int64             `json:"rest"`
	Bytes   int64             `json:"bytes"`
	Shadows duPart            `json:"shadows"` // of runs that work, or were killed
}

type duRun struct {
	Run   string `json:"run"`
	Bytes int64  `json:"bytes"`
}

func (a *app) runDU(ctx context.Context, runs bool) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	report, err := a.measure(ctx, home)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	if a.json {
		return a.printJSON(report)
	}
	return a.printDU(report, runs)
}

// measure adds up the scratch directory and the records of all repositories
// that the ledger names.
func (a *app) measure(ctx context.Context, home string) (duReport, error) {
	report := duReport{Schema: "bestof.du/1", Repositories: []duRepository{}}
	scratch := cmp.Or(a.workDir, filepath.Join(home, "scratch"))
	scratch, err := filepath.Abs(scratch)
	if err != nil {
		return report, err
	}
	report.Scratch = bytestring.String(scratch)
	var used worktree.Usage
	if _, err := os.Lstat(scratch); err == nil {
		store, _, err := a.store(home, "")
		if err != nil {
			return report, err
		}
		if used, err = store.Usage(ctx); err != nil {
			return report, err
		}
	}
	report.Bases, report.Shadows = duPart{used.Bases, used.BaseBytes}, duPart{used.Runs, used.RunBytes}
	report.Trash = duPart{used.Trash, used.TrashBytes}
	report.Bytes = used.BaseBytes + used.RunBytes + used.TrashBytes
	ledger := filepath.Join(home, "runs")
	noted, err := record.Ledger(ledger)
	if err != nil {
		return report, err
	}
	for top, ids := range noted {
		r, err := measureRecords(ctx, top, ledger, ids)
		if err != nil {
			return report, err
		}
		for _, s := range used.Shadows {
			if s.Record == filepath.Join(top, record.Directory, s.Run) {
				r.Shadows.Count++
				r.Shadows.Bytes += s.Bytes
			}
		}
		report.Bytes += r.Bytes
		report.Repositories = append(report.Repositories, r)
	}
	slices.SortFunc(report.Repositories, func(x, y duRepository) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Path, y.Path))
	})
	return report, nil
}

// measureRecords adds up the records of one repository's own runs. One that
// cannot be opened takes nothing and says why.
func measureRecords(ctx context.Context, top, ledger string, ids []string) (duRepository, error) {
	r := duRepository{Path: bytestring.String(top), Runs: []duRun{}}
	if _, err := os.Lstat(top); err != nil {
		r.Gone = "it is not there any more"
		return r, nil
	}
	records, err := record.Open(top, ledger) // refuses a .bestof that is a link
	if err != nil {
		r.Gone = err.Error()
		return r, nil
	}
	defer records.Close()
	for _, id := range ids {
		if info, err := os.Lstat(records.Path(id)); err != nil || !info.IsDir() {
			continue
		}
		used, err := worktree.DiskUse(ctx, records.Path(id), partOfRecord)
		if err != nil {
			return r, err
		}
		run := duRun{Run: id, Bytes: used["objects"] + used["patches"] + used["rest"]}
		r.Objects += used["objects"]
		r.Patches += used["patches"]
		r.Rest += used["rest"]
		r.Bytes += run.Bytes
		r.Runs = append(r.Runs, run)
	}
	return r, nil
}

// partOfRecord says what a path below a run's directory is part of.
func partOfRecord(rel string) string {
	switch {
	case rel == "objects" || strings.HasPrefix(rel, "objects/"):
		return "objects"
	case strings.HasPrefix(rel, "candidates/") && fs.ValidPath(rel) && filepath.Base(rel) == "change.patch":
		return "patches"
	}
	return "rest"
}

func (a *app) printDU(d duReport, runs bool) error {
	var b strings.Builder
	line := func(bytes int64, format string, args ...any) {
		fmt.Fprintf(&b, "%10s  %s\n", formatSize(bytes), fmt.Sprintf(format, args...))
	}
	line(d.Bases.Bytes, "%s, for all repositories", numberOf(d.Bases.Count, "cached base"))
	line(d.Shadows.Bytes, "shadows of %s", numberOf(d.Shadows.Count, "run"))
	line(d.Trash.Bytes, "trash, %s", numberOf(d.Trash.Count, "directory"))
	for _, r := range d.Repositories {
		path := term.Clean(string(r.Path), 0)
		if r.Gone != "" {
			line(0, "records in %s: %s", path, term.Clean(r.Gone, 400))
			continue
		}
		line(r.Bytes, "records of %s in %s: objects %s, patches %s, the rest %s", numberOf(len(r.Runs), "run"), path,
			formatSize(r.Objects), formatSize(r.Patches), formatSize(r.Rest))
		for _, run := range r.Runs {
			if runs {
				line(run.Bytes, "  %s", run.Run)
			}
		}
	}
	line(d.Bytes, "in all")
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}

// numberOf is a number of things, in words.
func numberOf(n int, what string) string {
	plural := what + "s"
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		plural = stem + "ies"
	}
	if n == 1 {
		plural = what
	}
	return fmt.Sprintf("%d %s", n, plural)
}
