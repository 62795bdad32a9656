package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

func (a *app) reviseCommand() *cobra.Command {
	var taskFile string
	c := &cobra.Command{
		Use:   "revise RUN",
		Short: "Start the next attempt of a red run from what it learned",
		Long: `A run without a winner proposes a revision: its task, with the cause and the
evidence of every requirement that was not met. revise shows it and, once you
approve (or with --yes), starts a run with it and the same settings. The run
that was red stays as it is.`,
		Example: "  bestof revise last\n  bestof revise last --task-file better.md --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runRevise(c.Context(), args[0], taskFile)
		},
		ValidArgsFunction: a.completeRuns,
	}
	c.Flags().StringVar(&taskFile, "task-file", "", "use the task in `FILE` instead of the proposed one")
	return c
}

func (a *app) runRevise(ctx context.Context, run, taskFile string) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	doc, err := s.load(run)
	if err != nil {
		return err
	}
	if doc.Revision == nil {
		return refusedf("run %s proposes no revision: %s", doc.Run, doc.Reason)
	}
	o := optionsOf(doc)
	o.task, o.revisionOf = doc.Revision.Task, doc.Run
	if taskFile != "" {
		o.taskFile = taskFile
		if o.task, err = a.readTask(o, nil); err != nil {
			return err
		}
	}
	for line := range strings.Lines(o.task) {
		fmt.Fprintf(a.Err, "  %s\n", term.Clean(strings.TrimRight(line, "\n"), 400))
	}
	fmt.Fprintf(a.Err, "\nagents %s · test %s · setup %s · base %s · sandbox %s · network %s · adopt %s\n\n", term.Clean(o.agents, 200), term.Clean(orNone(o.test), 400),
		term.Clean(orNone(o.setup), 400), term.Clean(o.base, 100), o.sandbox, o.network, term.Clean(o.adopt, 100))
	ok, err := a.ask(fmt.Sprintf("Start the next attempt of run %s with this task?", doc.Run), "--yes")
	if err != nil {
		return err
	}
	if !ok {
		return refusedf("not approved: nothing was started")
	}
	file, err := a.configuration(s)
	if err != nil {
		return err
	}
	cfg, err := a.plan(ctx, s, o, file, true)
	if err != nil {
		return err
	}
	return a.execute(ctx, s, o, cfg)
}

// optionsOf is the options a finished run was started with.
func optionsOf(doc record.Document) runOptions {
	s := doc.Settings
	var agents []string
	for _, c := range s.Agents {
		agents = append(agents, fmt.Sprintf("%s:%d", c.Name, c.Count))
	}
	history := "full"
	if s.History > 0 {
		history = fmt.Sprint(s.History)
	}
	allow := ""
	if s.AllowUndecided {
		allow = "undecided"
	}
	return runOptions{
		candidates: s.Candidates, agents: strings.Join(agents, ","), test: argv.Join(s.Test), setup: argv.Join(s.Setup),
		setupNetwork: string(s.SetupNetwork), base: s.Base, expect: s.Expect, allow: allow, sandbox: s.Sandbox, network: string(s.Network),
		shadow: s.ShadowKind, timeout: milliseconds(s.TimeoutMS), testTimeout: milliseconds(s.TestTimeoutMS), deadline: milliseconds(s.DeadlineMS),
		jobs: s.Jobs, protect: s.ExtraProtect, unprotect: s.Unprotect, repeat: s.Repeat, holds: s.MaxHolds, stop: s.Stop, adopt: s.Adopt,
		history: history, verifyTimeouts: s.VerifyTimeouts, plugins: s.Plugins, mcp: s.MCP, advice: s.Advice,
		image: imagesOf(s),
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
