package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	wire "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A tool is one entry of the table below.
type tool struct {
	name, title, description, schema string
	readOnly, idempotent             bool
	destructive                      bool // it changes or deletes files of the work tree
	call                             func(s *service, ctx context.Context, args json.RawMessage, progress Progress) (Answer, error)
}

func (t tool) annotations() wire.ToolAnnotation {
	open := false
	return wire.ToolAnnotation{Title: t.title, ReadOnlyHint: &t.readOnly, DestructiveHint: &t.destructive, IdempotentHint: &t.idempotent, OpenWorldHint: &open}
}

const runSchema = `{"type":"object","properties":{"run":{"type":"string","description":"a run's id, or last","default":"last"}},"additionalProperties":false}`

func (s *service) tools() []tool {
	return []tool{
		{
			name: "best_of_n", title: "Let N candidates try a task",
			description: "Starts N candidates on a task, each in an isolated shadow of the repository, verifies every change with the test and names a winner by evidence, or none. The repository itself is not changed. Reports progress.",
			schema: `{"type":"object","required":["task"],"additionalProperties":false,"properties":{
"task":{"type":"string","minLength":1,"description":"what the candidates are to do"},
"test":{"type":"string","description":"the command that decides, such as: go test ./...; split into words, never run by a shell"},
"candidates":{"type":"integer","minimum":1,"maximum":1000},
"agents":{"type":"string","description":"who tries: NAME:COUNT,…"},
"base":{"type":"string","description":"what they start from: snapshot (the tree as it is), head, or a revision"},
"expect":{"type":"string","enum":["flip","pass"],"description":"flip: the test fails now and must pass; pass: it passes now and must still pass"},
"stop":{"type":"string","enum":["all","first"]},
"timeout_seconds":{"type":"integer","minimum":1,"description":"for each candidate"},
"background":{"type":"boolean","description":"answer with the run's id at once"}}}`,
			call: func(s *service, ctx context.Context, args json.RawMessage, p Progress) (Answer, error) {
				r, err := decode[Request](args)
				if err != nil {
					return Answer{}, err
				}
				return s.bestOfN(ctx, r, p)
			},
		},
		{
			name: "run_status", title: "How far a run is, or how it ended", readOnly: true, idempotent: true,
			description: "Says how far a run is, or how it ended and why its winner won.",
			schema:      runSchema,
			call:        aboutRun(Orchestrator.Status),
		},
		{
			name: "compare_candidates", title: "Put the candidates of a run side by side", readOnly: true, idempotent: true,
			description: "Says what each candidate of a run changed, which made the same change, and what the judge said about each.",
			schema:      runSchema,
			call:        aboutRun(Orchestrator.Compare),
		},
		{
			name: "adopt", title: "Adopt a candidate's change", destructive: true,
			description: "Takes the winner's change, or another met candidate's, into the work tree or onto a new branch. Refuses a candidate that was not met. Needs a token that only a person sees: call it without one first.",
			schema: `{"type":"object","required":["run"],"additionalProperties":false,"properties":{
"run":{"type":"string","description":"a run's id, or last"},
"candidate":{"type":"integer","minimum":1,"description":"the winner unless given"},
"branch":{"type":"string","description":"commit on a new branch of this name instead of writing into the work tree"},
"token":{"type":"string","description":"what the person read to you"}}}`,
			call: func(s *service, ctx context.Context, args json.RawMessage, _ Progress) (Answer, error) {
				r, err := decode[AdoptRequest](args)
				if err != nil {
					return Answer{}, err
				}
				return s.adopt(ctx, r)
			},
		},
	}
}

func aboutRun(call func(Orchestrator, context.Context, RunRequest) (Answer, error)) func(*service, context.Context, json.RawMessage, Progress) (Answer, error) {
	return func(s *service, ctx context.Context, args json.RawMessage, _ Progress) (Answer, error) {
		r, err := decode[RunRequest](args)
		if err != nil {
			return Answer{}, err
		}
		if r.Run == "" {
			r.Run = "last"
		}
		return call(s.Orchestrator, ctx, r)
	}
}

// decode reads arguments strictly: an unknown one is a misunderstanding.
func decode[T any](args json.RawMessage) (T, error) {
	var v T
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	err := dec.Decode(&v)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return v, fmt.Errorf("arguments: %w", err)
	}
	return v, nil
}

// handler connects a tool to the protocol.
func (t tool) handler(s *service, out *lines) server.ToolHandlerFunc {
	return func(ctx context.Context, req wire.CallToolRequest) (*wire.CallToolResult, error) {
		a, err := t.call(s, ctx, req.Params.RawArguments, reporter(out, req))
		if err != nil {
			return wire.NewToolResultError(err.Error()), nil
		}
		return wire.NewToolResultStructured(a.Data, a.Text), nil
	}
}

// reporter sends progress where the caller asked for it; what does not rise is
// not sent, as the protocol wants.
func reporter(out *lines, req wire.CallToolRequest) Progress {
	if req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return func(int, int, string) {}
	}
	last := -1
	return func(done, total int, message string) {
		if done <= last {
			return
		}
		last = done
		out.notify("notifications/progress", map[string]any{
			"progressToken": req.Params.Meta.ProgressToken, "progress": done, "total": total, "message": message,
		})
	}
}
