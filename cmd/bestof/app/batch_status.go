package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// rowCounts is how many tasks are where.
type rowCounts struct{ solved, unsolved, invalid, failed, running, pending int }

func countRows(rows []batch.Row) rowCounts {
	var c rowCounts
	for _, r := range rows {
		switch {
		case r.State == batch.Done && r.Winner > 0:
			c.solved++
		case r.State == batch.Done:
			c.unsolved++
		case r.State == batch.Invalid:
			c.invalid++
		case r.State == batch.Failed:
			c.failed++
		case r.State == batch.Running:
			c.running++
		default:
			c.pending++
		}
	}
	return c
}

func (c rowCounts) String() string {
	parts := []string{fmt.Sprintf("%d solved", c.solved), fmt.Sprintf("%d not", c.unsolved)}
	for _, p := range []struct {
		n    int
		text string
	}{{c.invalid, "invalid"}, {c.failed, "failed by the host"}, {c.running, "running"}, {c.pending, "to do"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) batchStatusCommand() *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:   "status [flags] DIR",
		Short: "Say how far a batch has come",
		Long: `Says how far the batch in DIR has come, whoever runs it and whether or not
anybody does.`,
		Example: "  bestof batch status out\n  bestof batch status out --watch",
		Args:    oneDirectory,
		RunE: func(c *cobra.Command, args []string) error {
			return a.batchStatus(c.Context(), args[0], watch)
		},
		ValidArgsFunction: completeDirectories,
	}
	c.Flags().BoolVar(&watch, "watch", false, "say it again every second until nobody runs the batch")
	return c
}

// batchNow is what `batch status --json` prints.
type batchNow struct {
	Schema     string      `json:"schema"`
	Directory  string      `json:"directory"`
	Process    int         `json:"process"` // that runs it, 0 for none
	Tasks      int         `json:"tasks"`
	Solved     int         `json:"solved"`
	Unsolved   int         `json:"unsolved"`
	Invalid    int         `json:"invalid"`
	Failed     int         `json:"failed"`
	Running    int         `json:"running"`
	Pending    int         `json:"pending"`
	Tokens     int64       `json:"tokens"`
	CostUSD    float64     `json:"cost_usd"`
	Unreported int         `json:"unreported"` // candidates whose agents do not say what they used
	Now        []taskNow   `json:"now"`        // tasks that run
	Problems   []taskFault `json:"problems"`   // tasks that are invalid, or that the host failed
}

type taskNow struct {
	ID         string         `json:"id"`
	Run        string         `json:"run"`
	Candidates map[string]int `json:"candidates"` // by what they do, or by their outcome
}

type taskFault struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason"`
}

func (a *app) batchStatus(ctx context.Context, name string, watch bool) error {
	dir, err := a.batchDir(name)
	if err != nil {
		return err
	}
	for {
		now, err := readStatus(dir)
		if err != nil {
			return asBatchError(err)
		}
		if a.json {
			err = a.printJSON(now)
		} else {
			err = a.printStatus(now)
		}
		if err != nil || !watch || now.Process == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

func readStatus(dir string) (batchNow, error) {
	now := batchNow{Schema: "bestof.batch-status/1", Directory: dir, Now: []taskNow{}, Problems: []taskFault{}}
	state, err := batch.View(dir)
	if err != nil {
		return now, err
	}
	defer state.Close()
	if owner, ok := batch.Owner(dir); ok {
		now.Process = owner.PID
	}
	rows, err := state.Rows()
	if err != nil {
		return now, err
	}
	costs, err := state.Costs()
	if err != nil {
		return now, err
	}
	for _, c := range costs {
		now.Tokens += c.Usage.Tokens()
		now.CostUSD += float64(c.Usage.MicroUSD) / 1e6
		if c.Outcome != "" && !c.Usage.Reported {
			now.Unreported++
		}
	}
	c := countRows(rows)
	now.Tasks, now.Solved, now.Unsolved, now.Invalid, now.Failed, now.Running, now.Pending = len(rows), c.solved, c.unsolved, c.invalid, c.failed, c.running, c.pending
	records, err := record.OpenIn(dir)
	if err != nil {
		return now, err
	}
	defer records.Close()
	for _, r := range rows {
		switch r.State {
		case batch.Running:
			t := taskNow{ID: r.ID, Run: r.Run, Candidates: map[string]int{}}
			if doc, err := records.Load(r.Run); err == nil {
				for _, c := range doc.Candidates {
					word := string(c.State)
					if c.State == candidate.Done {
						word = string(c.Outcome)
					}
					t.Candidates[word]++
				}
			}
			now.Now = append(now.Now, t)
		case batch.Invalid, batch.Failed:
			now.Problems = append(now.Problems, taskFault{r.ID, r.State, r.Reason})
		}
	}
	return now, nil
}

// words are how far it has come, in one line.
func (now batchNow) words() string {
	counts := rowCounts{now.Solved, now.Unsolved, now.Invalid, now.Failed, now.Running, now.Pending}
	cut := ""
	if now.Process == 0 && now.Running > 0 { // whoever ran them is gone
		counts.pending, counts.running = now.Pending+now.Running, 0
		cut = fmt.Sprintf(", %d of them cut off", now.Running)
	}
	return fmt.Sprintf("%s: %s%s", count(now.Tasks, "task"), counts, cut)
}

// used is what was spent, "" when nothing is known of it.
func (now batchNow) used() string {
	if now.Tokens == 0 && now.CostUSD == 0 && now.Unreported == 0 {
		return ""
	}
	verb := "do"
	if now.Unreported == 1 {
		verb = "does"
	}
	return fmt.Sprintf("used: %d tokens, %.2f dollars; %s %s not say", now.Tokens, now.CostUSD, count(now.Unreported, "candidate"), verb)
}

func (a *app) printStatus(now batchNow) error {
	who := "nobody runs it"
	if now.Process > 0 {
		who = fmt.Sprintf("process %d runs it", now.Process)
	} else if now.Running+now.Pending > 0 {
		who += "; go on with: " + batchCommand("resume", now.Directory)
	}
	fmt.Fprintf(a.Out, "%s\n%s\n", now.words(), who)
	if used := now.used(); used != "" {
		fmt.Fprintln(a.Out, used)
	}
	for _, t := range now.Now {
		var parts []string
		for _, word := range sortedKeys(t.Candidates) {
			parts = append(parts, fmt.Sprintf("%d %s", t.Candidates[word], word))
		}
		fmt.Fprintf(a.Out, "  %s: %s\n", term.Clean(t.ID, 128), strings.Join(parts, ", "))
	}
	for _, p := range now.Problems {
		if _, err := fmt.Fprintf(a.Out, "  %s: %s: %s\n", term.Clean(p.ID, 128), p.State, term.Clean(p.Reason, 400)); err != nil {
			return err
		}
	}
	return nil
}
