package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

// Logger writes structured logs in a format: json or text.
func Logger(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	}
	return nil, fmt.Errorf("the format of logs is %q: write json or text", shortened(format))
}

// LogRun writes an event of a run. The log is the operator's own: it has what
// the terminal would show, but no line of an agent's output.
func LogRun(l *slog.Logger, run string, e event.Event) {
	l = l.With("run", run)
	switch b := e.Body.(type) {
	case event.Started:
		l.Info("run started", "candidates", len(b.Candidates), "isolation", b.Isolation, "record", b.Directory)
	case event.Step:
		l.Info("step", "step", b.Name, "done", b.Done, "text", b.Text)
	case event.Notice:
		l.Warn(b.Text)
	case event.Candidate:
		logCandidate(l.With("candidate", b.Number, "round", b.Round), b.State, b.Outcome, b.Detail)
	case event.Finished:
		winner := 0
		if b.Winner != nil {
			winner = *b.Winner
		}
		l.Info("run finished", "exit_code", b.ExitCode, "winner", winner, "reason", b.Reason)
	}
}

func logCandidate(l *slog.Logger, state candidate.State, outcome candidate.Outcome, detail string) {
	if state != candidate.Done {
		l.Info("candidate", "state", state)
		return
	}
	level := slog.LevelInfo
	if outcome == candidate.Infrastructure {
		level = slog.LevelError
	}
	l.Log(context.Background(), level, "candidate", "state", state, "outcome", outcome, "detail", detail)
}

// LogBatch writes an event of a batch.
func LogBatch(l *slog.Logger, e progress.Event) {
	switch b := e.Body.(type) {
	case progress.Started:
		l.Info("batch started", "directory", b.Directory, "tasks", b.Tasks, "left", b.Left, "jobs", b.Jobs)
	case progress.Task:
		l.Info("task", "task", b.ID, "state", b.State, "attempt", b.Attempt, "run", b.Run, "winner", b.Winner, "reason", b.Reason)
	case progress.Candidate:
		logCandidate(l.With("task", b.Task, "candidate", b.Number, "agent", b.Agent), candidate.State(b.State), candidate.Outcome(b.Outcome), b.Detail)
	case progress.Spend:
		l.Info("spend", "tokens", b.Tokens, "micro_usd", b.MicroUSD, "unreported", b.Unreported)
	case progress.Notice:
		l.Warn(b.Text)
	case progress.Finished:
		l.Info("batch finished", "reason", b.Reason, "left", b.Left, "exit_code", b.ExitCode)
	}
}
