package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

func (a *app) runsCommand() *cobra.Command {
	var most int
	c := &cobra.Command{
		Use:     "runs",
		Short:   "List the runs of this repository",
		Long:    "Lists the runs of this repository, the newest last.",
		Example: "  bestof runs\n  bestof runs --json | jq '.runs[-1].winner'",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runRuns(c.Context(), most)
		},
	}
	c.Flags().IntVar(&most, "limit", 50, "list the newest `N`; 0 lists all")
	return c
}

// runEntry is a line of `runs --json`.
type runEntry struct {
	Run        string       `json:"run"`
	Phase      record.Phase `json:"phase"`
	Started    time.Time    `json:"started"`
	Task       string       `json:"task"`
	Candidates int          `json:"candidates"`
	Winner     *int         `json:"winner"`
	Adopted    bool         `json:"adopted"`
	ExitCode   int          `json:"exit_code"`
}

func (a *app) runRuns(ctx context.Context, most int) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	docs, notices, err := s.records.List(most)
	if err != nil {
		return err
	}
	for _, n := range notices {
		a.warn("%s", n)
	}
	if a.json {
		entries := []runEntry{}
		for _, d := range docs {
			entries = append(entries, runEntry{d.Run, d.Phase, d.Started, d.Task, len(d.Candidates), d.Winner, d.Adopted != nil, d.ExitCode})
		}
		return a.printJSON(struct {
			Schema string     `json:"schema"`
			Runs   []runEntry `json:"runs"`
		}{"bestof.runs/1", entries})
	}
	if len(docs) == 0 {
		fmt.Fprintln(a.Err, "no runs yet: `bestof run --test 'COMMAND' \"the task\"` starts one, `bestof demo` shows one")
		return nil
	}
	var rows []view.Summary
	for _, d := range docs {
		rows = append(rows, view.Summarise(d))
	}
	return view.Runs(a.Out, rows, a.viewOptions())
}

func (a *app) showCommand() *cobra.Command {
	var rejudge bool
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Show the whole record of a run",
		Long: `Shows what happened in a run: base, baseline, every candidate with its evidence,
and why the winner won. --rejudge asks the judge again from the record alone and
exits with 1 if its answer is not the recorded one.`,
		Example: "  bestof show last\n  bestof show last --rejudge\n  bestof show last --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runShow(c.Context(), args[0], rejudge)
		},
		ValidArgsFunction: a.completeRuns,
	}
	c.Flags().BoolVar(&rejudge, "rejudge", false, "decide again from the recorded evidence and compare")
	return c
}

func (a *app) runShow(ctx context.Context, run string, rejudge bool) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	doc, err := s.records.Load(run)
	if err != nil {
		return err
	}
	if !rejudge {
		if a.json {
			return a.printJSON(doc)
		}
		return view.Show(a.Out, doc, a.viewOptions())
	}
	if doc.Phase != record.Finished {
		return usagef("run %s is %s: only a finished run can be judged again", doc.Run, doc.Phase)
	}
	again, differs := orchestrator.Rejudge(doc)
	if a.json {
		err = a.printJSON(again)
	} else {
		err = view.Verdict(a.Out, again, a.viewOptions())
	}
	if err != nil {
		return err
	}
	if len(differs) > 0 {
		return statusError{orchestrator.ExitInternal, fmt.Errorf("judged again, the record of run %s does not hold: %s", doc.Run, differs[0])}
	}
	if !a.json {
		fmt.Fprintln(a.Out, "judged again: the same answer")
	}
	return nil
}

// completeRuns offers run ids to the shell.
func (a *app) completeRuns(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := a.open(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	names, err := s.records.Names()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	slices.Reverse(names)
	return append([]string{"last"}, names...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
