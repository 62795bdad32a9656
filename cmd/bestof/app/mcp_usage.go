package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp/usage"
	"github.com/bestof-dev/bestof/orchestrator"
)

type mcpUsageOptions struct {
	run, server string
	since       time.Duration
}

func (a *app) mcpUsageCommand() *cobra.Command {
	var o mcpUsageOptions
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show what MCP tools were called for, and how it went",
		Long: `Sums up the calls of MCP tools by server and tool, and with --run by candidate.
They are kept in $BESTOF_HOME/mcp/usage.db and go nowhere else. Errors are calls
that did not end well; refused ones were never made.`,
		Example: "  bestof mcp usage --since 24h\n  bestof mcp usage --run 2nn43hjw3t --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runMCPUsage(c.Context(), o)
		},
	}
	c.Flags().StringVar(&o.run, "run", "", "only of the run `ID`, by candidate")
	c.Flags().StringVar(&o.server, "server", "", "only of the server `NAME`")
	c.Flags().DurationVar(&o.since, "since", 0, "only of the last `DURATION`, for example 24h")
	return c
}

func (a *app) runMCPUsage(ctx context.Context, o mcpUsageOptions) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	if o.since < 0 {
		return usagef("--since cannot be negative")
	}
	f := usage.Filter{Run: o.run, Server: o.server}
	if o.since > 0 {
		f.Since = time.Now().Add(-o.since)
	}
	lines, err := usage.Query(ctx, usage.File(home), f)
	switch {
	case errors.Is(err, usage.ErrNewer):
		return statusError{orchestrator.ExitUsage, err}
	case err != nil:
		return statusError{orchestrator.ExitInfrastructure, err}
	case a.json:
		return a.printJSON(map[string]any{"schema": "bestof.mcp-usage/1", "uses": append([]usage.Line{}, lines...)})
	case len(lines) == 0:
		_, err := fmt.Fprintln(a.Out, "no call of an MCP tool is recorded")
		return err
	}
	return a.printUsage(lines)
}

// printUsage writes a table: the names to the left, the numbers to the right.
func (a *app) printUsage(lines []usage.Line) error {
	rows := [][]term.Safe{{}}
	names := 2
	head := []string{"server", "tool", "calls", "errors", "refused", "sent", "received", "mean", "max"}
	if lines[0].Candidate != nil {
		names, head = 3, append([]string{"candidate"}, head...)
	}
	for _, h := range head {
		rows[0] = append(rows[0], term.Clean(h, 0))
	}
	for _, l := range lines {
		row := []term.Safe{term.Clean(l.Server, 40), term.Clean(l.Tool, 60)}
		if l.Candidate != nil {
			who := "prefetch"
			if *l.Candidate > 0 {
				who = candidate.Number(*l.Candidate).ID()
			}
			row = append([]term.Safe{term.Clean(who, 0)}, row...)
		}
		for _, cell := range []string{
			strconv.FormatInt(l.Calls, 10), strconv.FormatInt(l.Errors, 10), strconv.FormatInt(l.Refused, 10),
			formatSize(l.Sent), formatSize(l.Received), strconv.FormatInt(l.MeanMS, 10) + "ms", strconv.FormatInt(l.MaxMS, 10) + "ms",
		} {
			row = append(row, term.Clean(cell, 0))
		}
		rows = append(rows, row)
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], cell.Width())
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			text := cell.PadLeft(widths[i])
			if i < names {
				text = cell.Pad(widths[i])
			}
			if i > 0 {
				fmt.Fprint(a.Out, "  ")
			}
			fmt.Fprint(a.Out, text)
		}
		if _, err := fmt.Fprintln(a.Out); err != nil {
			return err
		}
	}
	return nil
}
