// Package serve offers the orchestrator itself as an MCP server, so that any
// agent can ask for a best-of-N run. It speaks over one pair of streams; what
// the tools do is the Orchestrator's.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	wire "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/bestof-dev/bestof/mcp"
)

// A Request is what an agent can ask of a run. What reaches further than the
// shadows (network, set-up, sandbox, what is protected) is not an agent's to
// say: the operator's configuration has it.
type Request struct {
	Task       string `json:"task"`
	Test       string `json:"test"`
	Candidates int    `json:"candidates"` // 0 for the operator's default
	Agents     string `json:"agents"`
	Base       string `json:"base"`
	Expect     string `json:"expect"`
	Stop       string `json:"stop"`
	TimeoutS   int    `json:"timeout_seconds"` // of one candidate, 0 for the operator's default
	Background bool   `json:"background"`      // answer with the run's id and go on
}

// A RunRequest names a run: its id, a prefix of it, or "last".
type RunRequest struct {
	Run string `json:"run"`
}

// An AdoptRequest asks for a candidate's change in the user's tree.
type AdoptRequest struct {
	Run       string `json:"run"`
	Candidate int    `json:"candidate"` // 0 for the winner
	Branch    string `json:"branch"`    // "" writes into the work tree
	Token     string `json:"token"`     // "" asks for one
}

// An Answer is what a tool says: a text for the reader and the same as data.
type Answer struct {
	Text string
	Data any // marshals to a JSON object
}

// A Progress tells how far a run is. done never falls.
type Progress func(done, total int, message string)

// An Orchestrator does what the tools say. Its errors are shown to the agent
// as the tool's own; they are one line.
type Orchestrator interface {
	// BestOfN runs to the end. started is told the run's id once.
	BestOfN(ctx context.Context, r Request, started func(run string), progress Progress) (Answer, error)
	Status(ctx context.Context, r RunRequest) (Answer, error)
	Compare(ctx context.Context, r RunRequest) (Answer, error)
	// Adoptable names run and candidate in full, says what Adopt would do, and
	// refuses what it would refuse.
	Adoptable(ctx context.Context, r AdoptRequest) (exact AdoptRequest, what string, err error)
	Adopt(ctx context.Context, r AdoptRequest) (Answer, error)
}

// Options are what Serve needs besides.
type Options struct {
	Version string
	Waiting func([]Pending) // is told at every change which adoptions wait for a person
	Now     func() time.Time
	Token   func() string // unguessable and easy to type
	Log     io.Writer     // for people
}

// Serve answers on in and out until in ends or ctx does. Runs that are still
// going then are interrupted, and Serve returns when they are over.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Orchestrator, opt Options) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &service{Orchestrator: o, life: ctx, confirm: &confirmations{Options: opt, waiting: map[AdoptRequest]Pending{}}}
	srv := server.NewMCPServer("bestof", opt.Version, server.WithToolCapabilities(false), server.WithRecovery(), server.WithInstructions(instructions))
	lines := &lines{out: out}
	for _, t := range s.tools() {
		srv.AddTool(wire.Tool{Name: t.name, Title: t.title, Description: t.description, RawInputSchema: json.RawMessage(t.schema), Annotations: t.annotations()}, t.handler(s, lines))
	}
	stdio := server.NewStdioServer(srv)
	stdio.SetErrorLogger(log.New(opt.Log, "bestof: mcp serve: ", 0))
	err := stdio.Listen(ctx, &bounded{in: in, most: mcp.MaxLine}, lines)
	cancel()
	s.background.Wait()
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

const instructions = `bestof lets N candidates try one task on the git repository of this server, each in a shadow of its own,
verifies every change on a fresh shadow and names a winner by evidence. Ask for a run with best_of_n, look at it with run_status
and compare_candidates, and adopt the winner with adopt once a person agreed.`

// service holds what lives as long as the connection.
type service struct {
	Orchestrator
	life       context.Context
	background sync.WaitGroup
	confirm    *confirmations
}

// bestOfN runs, or begins a run and returns its id.
func (s *service) bestOfN(ctx context.Context, r Request, progress Progress) (Answer, error) {
	if !r.Background {
		return s.BestOfN(ctx, r, func(string) {}, progress)
	}
	run := make(chan string, 1)
	ended := make(chan error, 1)
	s.background.Go(func() {
		_, err := s.BestOfN(s.life, r, func(id string) { run <- id }, func(int, int, string) {})
		ended <- err
	})
	select {
	case id := <-run:
		return begun(id), nil
	case err := <-ended:
		select {
		case id := <-run:
			return begun(id), nil
		default:
		}
		if err == nil {
			err = errors.New("the run ended before it had a name")
		}
		return Answer{}, err
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

func begun(id string) Answer {
	return Answer{
		Text: fmt.Sprintf("run %s has begun: run_status shows how far it is", id),
		Data: map[string]any{"run": id, "phase": "running"},
	}
}

// adopt asks for a person's word first.
func (s *service) adopt(ctx context.Context, r AdoptRequest) (Answer, error) {
	token := r.Token
	r.Token = ""
	r, what, err := s.Adoptable(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	r.Token = token
	if r.Token == "" {
		s.confirm.ask(r, what)
		return Answer{
			Text: what + ". A person has to agree: ask them to run `bestof mcp confirm`, which shows the token of this adoption, and call adopt again with that token. Do not look it up yourself.",
			Data: map[string]any{"adopted": false, "confirmation": "needed", "what": what},
		}, nil
	}
	if err := s.confirm.take(r, what); err != nil {
		return Answer{}, err
	}
	return s.Adopt(ctx, r)
}

// lines are messages to the client, each written at once. mcp-go would send
// notifications aside, and the last of a call after its answer or never.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lines) notify(method string, params map[string]any) {
	line, err := json.Marshal(map[string]any{"jsonrpc": wire.JSONRPC_VERSION, "method": method, "params": params})
	if err != nil {
		return
	}
	_, _ = l.Write(append(line, '\n')) // a reader that is gone notices nothing; the call's own answer says so
}

// bounded fails when one line is longer than most bytes.
type bounded struct {
	in   io.Reader
	most int
	line int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	for _, c := range p[:n] {
		if c == '\n' {
			b.line = 0
			continue
		}
		if b.line++; b.line > b.most {
			return 0, fmt.Errorf("a message is longer than %d bytes", b.most)
		}
	}
	return n, err
}
