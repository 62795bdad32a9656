package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp/serve"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

func (a *app) mcpServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Be an MCP server: any agent can ask for a best-of-N run",
		Long: `Speaks MCP on standard input and output. Tools: best_of_n, run_status,
compare_candidates, and adopt, which needs a token that only a person sees
(` + "`bestof mcp confirm`" + `). Network, set-up, sandbox and protected paths are not the
agent's to say: config.toml has them. Runs that are still going when the
connection ends are interrupted.`,
		Example: "  claude mcp add bestof -- bestof -C ~/src/project mcp serve",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runMCPServe(c.Context()) },
	}
}

func (a *app) runMCPServe(ctx context.Context) error {
	s, err := a.open(ctx) // a directory that is no repository is said at once
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	pending := newPendingFile(s.home)
	defer pending.remove()
	return serve.Serve(ctx, a.In, a.Out, hosted{a}, serve.Options{
		Version: version(), Now: time.Now, Token: token, Log: a.Err,
		Waiting: func(waiting []serve.Pending) {
			if err := pending.keep(waiting); err != nil {
				a.warn("the token cannot be shown: %v", err)
			}
		},
	})
}

// hosted is the orchestrator for an agent: each call is a command of its own
// that has nobody to ask.
type hosted struct{ a *app }

func (h hosted) command(out *bytes.Buffer) *app {
	return &app{
		Process: Process{In: strings.NewReader(""), Out: out, Err: h.a.Err, Environ: h.a.Environ},
		dir:     h.a.dir, workDir: h.a.workDir, json: true, quiet: true,
	}
}

func (h hosted) BestOfN(ctx context.Context, r serve.Request, started func(string), progress serve.Progress) (serve.Answer, error) {
	var o runOptions
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.addFlags(flags)
	for name, value := range map[string]string{"test": r.Test, "agents": r.Agents, "base": r.Base, "expect": r.Expect, "stop": r.Stop} {
		if value == "" {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return serve.Answer{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if r.Candidates != 0 {
		if err := flags.Set("candidates", strconv.Itoa(r.Candidates)); err != nil {
			return serve.Answer{}, err
		}
	}
	if r.TimeoutS != 0 {
		if err := flags.Set("timeout", (time.Duration(r.TimeoutS) * time.Second).String()); err != nil {
			return serve.Answer{}, err
		}
	}
	var out bytes.Buffer
	c := h.command(&out)
	c.observe = (&counted{started: started, progress: progress, states: map[int]int{}}).publish
	err := c.runRun(ctx, o, flags.Changed, []string{r.Task})
	var doc record.Document
	if out.Len() == 0 || json.Unmarshal(out.Bytes(), &doc) != nil || doc.Run == "" {
		if err == nil {
			err = errors.New("the run left no record")
		}
		return serve.Answer{}, err
	}
	return h.describe(doc, view.Verdict)
}

// counted turns events into progress: each candidate's way has five steps, and
// the base and the baseline are one each.
type counted struct {
	started  func(string)
	progress serve.Progress
	states   map[int]int
	total    int
	common   int
}

const stepsOfOne = 5

func (c *counted) publish(e event.Event) {
	switch b := e.Body.(type) {
	case event.Started:
		c.total = 2 + stepsOfOne*len(b.Candidates)
		c.started(b.Run)
		c.tell("run " + b.Run + " has begun")
	case event.Step:
		if b.Done && c.common < 2 {
			c.common++
		}
		c.tell(b.Text)
	case event.Candidate:
		step := map[candidate.State]int{candidate.Preparing: 1, candidate.Working: 2, candidate.Sealing: 3, candidate.Verifying: 4, candidate.Done: stepsOfOne}[b.State]
		c.states[b.Number] = max(c.states[b.Number], step)
		text := string(b.State)
		if b.State == candidate.Done {
			text = string(b.Outcome)
		}
		c.tell(candidate.Number(b.Number).ID() + ": " + text)
	case event.Finished:
		c.common = 2
		for n := range c.states {
			c.states[n] = stepsOfOne
		}
		c.tell(b.Reason)
	}
}

func (c *counted) tell(text string) {
	done := c.common
	for _, n := range c.states {
		done += n
	}
	c.progress(done, c.total, term.Clean(text, 300).String())
}

func (h hosted) Status(ctx context.Context, r serve.RunRequest) (serve.Answer, error) {
	doc, err := h.load(ctx, r.Run)
	if err != nil {
		return serve.Answer{}, err
	}
	return h.describe(doc, view.Show)
}

func (h hosted) Compare(ctx context.Context, r serve.RunRequest) (serve.Answer, error) {
	doc, err := h.load(ctx, r.Run)
	if err != nil {
		return serve.Answer{}, err
	}
	model := compare.Build(doc)
	var text bytes.Buffer
	if err := view.Compare(&text, model, view.Options{}); err != nil {
		return serve.Answer{}, err
	}
	return serve.Answer{Text: text.String(), Data: map[string]any{"run": doc.Run, "comparison": model}}, nil
}

func (h hosted) Adoptable(ctx context.Context, r serve.AdoptRequest) (serve.AdoptRequest, string, error) {
	s, err := h.a.open(ctx)
	if err != nil {
		return r, "", err
	}
	defer s.Close()
	doc, err := s.load(r.Run)
	if err != nil {
		return r, "", err
	}
	var named []string
	if r.Candidate != 0 {
		named = []string{strconv.Itoa(r.Candidate)}
	}
	number, _, err := h.a.adoptable(ctx, s, doc, named, "")
	if err != nil {
		return r, "", err
	}
	where := "into the work tree"
	if r.Branch != "" {
		if err := h.a.canBranch(ctx, s, r.Branch, doc.Run); err != nil {
			return r, "", err
		}
		where = "onto the new branch " + r.Branch
	}
	c, err := candidateOf(doc, number)
	if err != nil {
		return r, "", err
	}
	r.Run, r.Candidate = doc.Run, number
	return r, fmt.Sprintf("adopt %s of run %s (%s, +%d -%d, tree %.12s) %s of %s",
		candidate.Number(number).ID(), doc.Run, files(len(c.Change.Files)), c.Change.Added, c.Change.Deleted, c.Change.Tree, where, s.repo.Root()), nil
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

func (h hosted) Adopt(ctx context.Context, r serve.AdoptRequest) (serve.Answer, error) {
	var out bytes.Buffer
	if err := h.command(&out).runAdopt(ctx, adoptOptions{branch: r.Branch}, []string{r.Run, strconv.Itoa(r.Candidate)}); err != nil {
		return serve.Answer{}, err
	}
	var done record.Adoption
	if err := json.Unmarshal(out.Bytes(), &done); err != nil {
		return serve.Answer{}, err
	}
	where := "in the work tree, not yet committed"
	if done.Branch != "" {
		where = "on the branch " + done.Branch
	}
	return serve.Answer{
		Text: fmt.Sprintf("%s of run %s is %s", candidate.Number(done.Candidate).ID(), r.Run, where),
		Data: map[string]any{"adopted": true, "run": r.Run, "adoption": done},
	}, nil
}

func (h hosted) load(ctx context.Context, run string) (record.Document, error) {
	s, err := h.a.open(ctx)
	if err != nil {
		return record.Document{}, err
	}
	defer s.Close()
	return s.records.Load(run)
}

// describe is a run in words and as data that fits into an agent's context.
func (h hosted) describe(doc record.Document, words func(w io.Writer, doc record.Document, o view.Options) error) (serve.Answer, error) {
	var text bytes.Buffer
	if err := words(&text, doc, view.Options{Location: time.Local}); err != nil {
		return serve.Answer{}, err
	}
	type one struct {
		Number  int               `json:"number"`
		Agent   string            `json:"agent"`
		State   candidate.State   `json:"state"`
		Outcome candidate.Outcome `json:"outcome,omitempty"`
		Detail  string            `json:"detail,omitempty"`
		Files   int               `json:"files"`
		Added   int               `json:"added"`
		Deleted int               `json:"deleted"`
	}
	candidates := []one{}
	for _, c := range doc.Candidates {
		o := one{Number: c.Number, Agent: c.Agent, State: c.State, Outcome: c.Outcome, Detail: term.Clean(c.Detail, 400).String()}
		if c.Change != nil {
			o.Files, o.Added, o.Deleted = len(c.Change.Files), c.Change.Added, c.Change.Deleted
		}
		candidates = append(candidates, o)
	}
	return serve.Answer{Text: text.String(), Data: map[string]any{
		"run": doc.Run, "phase": doc.Phase, "winner": doc.Winner, "reason": term.Clean(doc.Reason, 400).String(),
		"exit_code": doc.ExitCode, "adopted": doc.Adopted != nil, "candidates": candidates,
	}}, nil
}
