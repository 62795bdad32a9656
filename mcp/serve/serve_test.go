package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	wire "github.com/mark3labs/mcp-go/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// orchestra is an Orchestrator whose runs wait for hold.
type orchestra struct {
	hold  chan struct{}
	mu    sync.Mutex
	calls []string
	what  string
	ended error
	left  chan struct{} // gets one when a run was ended from outside
}

func (o *orchestra) note(call string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

func (o *orchestra) BestOfN(ctx context.Context, r Request, started func(string), progress Progress) (Answer, error) {
	o.note("run " + r.Task)
	if r.Task == "refused" {
		return Answer{}, errors.New("there is nothing to verify with")
	}
	started("run-1")
	for i, done := range []int{1, 2, 2, 1, 3} {
		progress(done, 3, string(rune('a'+i)))
	}
	select {
	case <-o.hold:
	case <-ctx.Done():
		o.ended = context.Cause(ctx)
		o.left <- struct{}{}
		return Answer{}, o.ended
	}
	return Answer{Text: "Winner: c1", Data: map[string]any{"winner": 1}}, nil
}

func (o *orchestra) Status(_ context.Context, r RunRequest) (Answer, error) {
	o.note("status " + r.Run)
	return Answer{Text: "status of " + r.Run, Data: map[string]any{}}, nil
}

func (o *orchestra) Compare(_ context.Context, r RunRequest) (Answer, error) {
	o.note("compare " + r.Run)
	return Answer{Text: "comparison of " + r.Run, Data: map[string]any{}}, nil
}

func (o *orchestra) Adoptable(_ context.Context, r AdoptRequest) (AdoptRequest, string, error) {
	if r.Token != "" {
		return r, "", errors.New("a token where none belongs")
	}
	if r.Candidate == 2 {
		return r, "", errors.New("c2 is unmet: a red candidate is not adopted")
	}
	r.Run, r.Candidate = "run-1", 1
	return r, o.what, nil
}

func (o *orchestra) Adopt(_ context.Context, r AdoptRequest) (Answer, error) {
	o.note("adopt " + r.Run)
	return Answer{Text: "adopted", Data: map[string]any{"adopted": true}}, nil
}

// A session is a real client of a server in this process.
type session struct {
	*client.Client
	t        *testing.T
	o        *orchestra
	mu       sync.Mutex
	progress []string
	waiting  []Pending
	log      bytes.Buffer
	now      time.Time
	hangUp   func()
}

func begin(t *testing.T) *session {
	t.Helper()
	s := &session{t: t, o: &orchestra{hold: make(chan struct{}), left: make(chan struct{}, 9), what: "adopt c1"}, now: time.Unix(1e9, 0)}
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		tokens := 0
		err := Serve(t.Context(), toServer, fromServer, s.o, Options{
			Version: "1", Log: &s.log, Now: func() time.Time { return s.now },
			Token:   func() string { tokens++; return strings.Repeat("T", tokens) },
			Waiting: func(p []Pending) { s.mu.Lock(); defer s.mu.Unlock(); s.waiting = p },
		})
		fromServer.Close()
		served <- err
	}()
	s.Client = client.NewClient(transport.NewIO(toClient, fromClient, io.NopCloser(strings.NewReader(""))))
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.OnNotification(func(n wire.JSONRPCNotification) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.progress = append(s.progress, n.Params.AdditionalFields["message"].(string))
	})
	s.hangUp = sync.OnceFunc(func() {
		fromClient.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.Close()
	})
	t.Cleanup(s.hangUp)
	if _, err := s.Initialize(t.Context(), wire.InitializeRequest{Params: wire.InitializeParams{ProtocolVersion: "2025-06-18", ClientInfo: wire.Implementation{Name: "t", Version: "1"}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *session) call(tool string, args map[string]any, meta *wire.Meta) (string, bool) {
	s.t.Helper()
	res, err := s.CallTool(s.t.Context(), wire.CallToolRequest{Params: wire.CallToolParams{Name: tool, Arguments: args, Meta: meta}})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.Content[0].(wire.TextContent).Text, res.IsError
}

func TestToolsSayWhatTheyChange(t *testing.T) {
	s := begin(t)
	listed, err := s.ListTools(t.Context(), wire.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	readOnly := map[string]bool{}
	for _, tool := range listed.Tools {
		readOnly[tool.Name] = *tool.Annotations.ReadOnlyHint
		if *tool.Annotations.DestructiveHint != (tool.Name == "adopt") {
			t.Errorf("%s: destructive %v", tool.Name, *tool.Annotations.DestructiveHint)
		}
	}
	want := map[string]bool{"best_of_n": false, "run_status": true, "compare_candidates": true, "adopt": false}
	for name, ro := range want {
		if got, ok := readOnly[name]; !ok || got != ro {
			t.Errorf("%s: listed %v, read-only %v", name, ok, got)
		}
	}
	if len(readOnly) != len(want) {
		t.Errorf("tools: %v", readOnly)
	}
}

func TestARunReportsProgressThatRises(t *testing.T) {
	s := begin(t)
	close(s.o.hold)
	text, failed := s.call("best_of_n", map[string]any{"task": "x"}, &wire.Meta{ProgressToken: "p"})
	if failed || text != "Winner: c1" {
		t.Error(text)
	}
	s.hangUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.progress, ""); got != "abe" {
		t.Errorf("progress %q: equal and falling steps are not sent", got)
	}
}

func TestWhatIsNotAnAgentsToSayIsRefused(t *testing.T) {
	s := begin(t)
	for _, args := range []map[string]any{
		{"task": "x", "network": "host"}, {"task": "x", "setup": "curl x"}, {"task": "x", "sandbox": "process"}, {"task": 7},
	} {
		if text, failed := s.call("best_of_n", args, nil); !failed {
			t.Errorf("%v: %s", args, text)
		}
	}
	if len(s.o.calls) != 0 {
		t.Error("something ran:", s.o.calls)
	}
	if text, failed := s.call("best_of_n", map[string]any{"task": "refused"}, nil); !failed || text != "there is nothing to verify with" {
		t.Error(text)
	}
}

func TestABackgroundRunAnswersAtOnceAndEndsWithTheConnection(t *testing.T) {
	s := begin(t)
	text, failed := s.call("best_of_n", map[string]any{"task": "x", "background": true}, nil)
	if failed || !strings.Contains(text, "run run-1 has begun") {
		t.Error(text)
	}
	if text, failed := s.call("best_of_n", map[string]any{"task": "refused", "background": true}, nil); !failed || text != "there is nothing to verify with" {
		t.Error(text)
	}
	if text, _ := s.call("run_status", nil, nil); text != "status of last" {
		t.Error(text)
	}
	if text, _ := s.call("compare_candidates", map[string]any{"run": "run-1"}, nil); text != "comparison of run-1" {
		t.Error(text)
	}
	s.hangUp() // returns when the run is over
	if !errors.Is(s.o.ended, context.Canceled) {
		t.Errorf("the run ended with %v", s.o.ended)
	}
}

// A run ends with the call that asked for it.
func TestACancelledCallEndsItsRun(t *testing.T) {
	s := begin(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.OnNotification(func(wire.JSONRPCNotification) { cancel() })
	req := wire.CallToolRequest{Params: wire.CallToolParams{Name: "best_of_n", Arguments: map[string]any{"task": "x"}, Meta: &wire.Meta{ProgressToken: "p"}}}
	if _, err := s.CallTool(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	<-s.o.left
	if text, _ := s.call("run_status", nil, nil); text != "status of last" {
		t.Error(text)
	}
}

func TestAnAdoptionNeedsAPersonsToken(t *testing.T) {
	adopt := func(s *session, token string) (string, bool) {
		args := map[string]any{"run": "last"}
		if token != "" {
			args["token"] = token
		}
		return s.call("adopt", args, nil)
	}
	t.Run("the token lets it happen once", func(t *testing.T) {
		s := begin(t)
		if text, failed := adopt(s, "T"); !failed || !strings.Contains(text, "without one first") {
			t.Error(text)
		}
		text, failed := adopt(s, "")
		if failed || strings.Contains(text, "T") && strings.Contains(text, " T ") {
			t.Error(text)
		}
		if len(s.waiting) != 1 || s.waiting[0].Token != "T" || s.waiting[0].What != "adopt c1" {
			t.Errorf("a person sees %+v", s.waiting)
		}
		if !strings.Contains(s.log.String(), "adopt c1") {
			t.Error("the log says nothing")
		}
		if text, failed := adopt(s, "T"); failed || text != "adopted" {
			t.Error(text)
		}
		if len(s.waiting) != 0 {
			t.Error("it still waits")
		}
		if _, failed := adopt(s, "T"); !failed {
			t.Error("the token was good twice")
		}
	})
	t.Run("three wrong ones take it back", func(t *testing.T) {
		s := begin(t)
		adopt(s, "")
		for range maxTries {
			if _, failed := adopt(s, "guess"); !failed {
				t.Error("a guess was good")
			}
		}
		if text, failed := adopt(s, "T"); !failed || slices.Contains(s.o.calls, "adopt run-1") {
			t.Error(text)
		}
	})
	t.Run("an old one is not good", func(t *testing.T) {
		s := begin(t)
		adopt(s, "")
		s.now = s.now.Add(tokenLife)
		if text, failed := adopt(s, "T"); !failed || !strings.Contains(text, "too old") {
			t.Error(text)
		}
	})
	t.Run("what was shown is what happens", func(t *testing.T) {
		s := begin(t)
		adopt(s, "")
		s.o.what = "adopt something else"
		if text, failed := adopt(s, "T"); !failed || !strings.Contains(text, "no longer what was shown") {
			t.Error(text)
		}
	})
	t.Run("red is refused before anybody is asked", func(t *testing.T) {
		s := begin(t)
		if text, failed := s.call("adopt", map[string]any{"run": "last", "candidate": 2}, nil); !failed || !strings.Contains(text, "red") || len(s.waiting) != 0 {
			t.Error(text, s.waiting)
		}
	})
}

func TestAMessageWithoutEndIsNotKept(t *testing.T) {
	b := &bounded{in: io.LimitReader(endless{}, 1<<30), most: 1000}
	n, err := io.Copy(io.Discard, b)
	if err == nil || n > 1000+64<<10 {
		t.Errorf("read %d bytes, %v", n, err)
	}
	short := &bounded{in: strings.NewReader(strings.Repeat("x\n", 5000)), most: 10}
	if _, err := io.Copy(io.Discard, short); err != nil {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
