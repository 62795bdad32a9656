package session_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/session"
)

// A clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// notices keeps what the operator was told.
type notices struct {
	mu    sync.Mutex
	lines []string
}

func (n *notices) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, s)
}

func (n *notices) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "\n")
}

func TestHazardADeadServerIsStartedAgain(t *testing.T) {
	var told notices
	o := patient()
	o.Notice = told.add
	s := up(t, o, server("good"))
	first, _ := call(s, "good", "pid", "")
	_, e := call(s, "good", "die", "")
	wantFailure(t, e, mcp.Severed, true, "may or may not have had an effect and is not sent again: it exited with status 9")
	if strings.Contains(e.Error(), "hunter2") {
		t.Errorf("an agent is shown what the server wrote to its stderr: %v", e)
	}
	if said := told.String(); !strings.Contains(said, "exited with status 9; it wrote to stderr: dying of tool die, secret hunter2") {
		t.Errorf("the operator was told %q", said)
	}
	second, e := call(s, "good", "pid", "")
	if e != nil || second == first || !strings.Contains(told.String(), "connected again") {
		t.Errorf("pid %s, then %s, %v; told %q", first, second, e, told.String())
	}
}

// All calls that were under way fail, and the server counts as failed once.
func TestManyCallsEndWithAServer(t *testing.T) {
	c := &clock{now: time.Now()}
	o := patient()
	o.Now = c.Now
	s := up(t, o, server("good"))
	failures := make([]*mcp.CallError, 4)
	var all sync.WaitGroup
	for i := range failures {
		all.Go(func() { _, failures[i] = call(s, "good", "hang", "") })
	}
	wantText(t, s, "good", "echo", "", "{}")
	_, e := call(s, "good", "die", "")
	wantFailure(t, e, mcp.Severed, true, "status 9")
	all.Wait()
	for _, e := range failures {
		if e == nil || e.Kind != mcp.Severed && e.Kind != mcp.Unavailable {
			t.Errorf("%+v", e)
		}
	}
	wantText(t, s, "good", "echo", "", "{}")
}

func TestBackingOff(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	allow := func(n int) {
		t.Helper()
		if err := os.WriteFile(starts, []byte(strings.Repeat("x\n", n)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	o := patient()
	o.Now = c.Now
	allow(1)
	s := up(t, o, server("once", starts))
	_, e := call(s, "once", "die", "")
	wantFailure(t, e, mcp.Severed, true, "status 9")
	for i, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		_, e = call(s, "once", "echo", "")
		wantFailure(t, e, mcp.Unavailable, false, "cannot be started again: it exited with status 7")
		_, e = call(s, "once", "echo", "")
		wantFailure(t, e, mcp.Unavailable, false, fmt.Sprintf("failed %d times in a row and is left alone for another %ds", i+2, seconds))
		c.pass(time.Duration(seconds)*time.Second - time.Millisecond)
		_, e = call(s, "once", "echo", "")
		wantFailure(t, e, mcp.Unavailable, false, "left alone")
		c.pass(time.Millisecond)
	}
	allow(2)
	wantText(t, s, "once", "echo", "", "{}")
	_, e = call(s, "once", "die", "")
	wantFailure(t, e, mcp.Severed, true, "status 9")
	wantText(t, s, "once", "echo", "", "{}") // an answer had ended the row
}

// A server that only starts, and never answers, is left alone longer and longer.
func TestAStartIsNoAnswer(t *testing.T) {
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	o := patient()
	o.Now = c.Now
	s := up(t, o, server("good"))
	for range 2 {
		_, e := call(s, "good", "die", "")
		wantFailure(t, e, mcp.Severed, true, "status 9")
	}
	_, e := call(s, "good", "echo", "")
	wantFailure(t, e, mcp.Unavailable, false, "failed 2 times in a row and is left alone for another 1s")
}

func TestOnlyAHarmlessCallIsSentAgain(t *testing.T) {
	for tool, want := range map[string]struct {
		effects string
		ok      bool
	}{
		"once":      {"xx", true}, // declared as idempotent
		"once-only": {"x", false},
	} {
		dir := t.TempDir()
		s := up(t, patient(), server("good", dir))
		got, e := call(s, "good", tool, "")
		if want.ok != (e == nil && got == "done") {
			t.Errorf("%s gave %q, %v", tool, got, e)
		}
		if !want.ok {
			wantFailure(t, e, mcp.Severed, true, "may or may not")
		}
		if b, err := os.ReadFile(filepath.Join(dir, "effects")); err != nil || string(b) != want.effects {
			t.Errorf("%s had effects %q, %v", tool, b, err)
		}
	}
}

// The calls of a server that does not read its input end in time, and the
// server is ended in the end.
func TestHazardAServerThatStopsReading(t *testing.T) {
	var told notices
	o := patient()
	o.Notice, o.StuckAfter, o.CloseGrace = told.add, time.Second, 50*time.Millisecond
	srv, mark := marked(server("deaf"))
	s := up(t, o, srv)
	big := `{"a":"` + strings.Repeat("x", 200_000) + `"}`
	first := make(chan *mcp.CallError)
	go func() {
		_, e := call(s, "deaf", "echo", big)
		first <- e
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	failures := make([]*mcp.CallError, 8)
	var all sync.WaitGroup
	for i := range failures {
		all.Go(func() { _, failures[i] = callWith(ctx, s, "deaf", "echo", big) })
	}
	all.Wait()
	for _, e := range failures {
		if e == nil || e.Kind != mcp.TimedOut {
			t.Errorf("%+v", e)
		}
	}
	// Whichever was written first, it ended with the server.
	if e := <-first; e == nil || !strings.Contains(e.Reason, "it had not read its input for 1s") {
		t.Errorf("%+v", e)
	}
	eventually(t, "the server was ended", func() bool { return living(mark) == 0 })
	_, e := call(s, "deaf", "echo", "")
	if e != nil {
		t.Errorf("the server was not started again: %v", e)
	}
	if said := told.String(); !strings.Contains(said, "it had not read its input for 1s") {
		t.Errorf("the operator was told %q", said)
	}
}

// A call that had not left when its time was over never leaves.
func TestACallThatWaitedIsTakenBack(t *testing.T) {
	dir := t.TempDir()
	s := up(t, patient(), server("pauses", dir))
	first := make(chan *mcp.CallError)
	go func() {
		_, e := call(s, "pauses", "echo", `{"a":"`+strings.Repeat("x", 200_000)+`"}`)
		first <- e
	}()
	eventually(t, "the server does not read", func() bool {
		_, err := os.Stat(filepath.Join(dir, "paused"))
		return err == nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, e := callWith(ctx, s, "pauses", "once-only", "")
	wantFailure(t, e, mcp.TimedOut, false, "caller's deadline")
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := <-first; e != nil {
		t.Error(e)
	}
	wantText(t, s, "pauses", "echo", "", "{}")
	if _, err := os.Stat(filepath.Join(dir, "effects")); err == nil {
		t.Error("the call had an effect")
	}
}

func TestHazardAServerThatHangs(t *testing.T) {
	var told notices
	o := patient()
	o.Notice, o.CallTimeout, o.CloseGrace = told.add, 20*time.Millisecond, 50*time.Millisecond
	s := up(t, o, server("good"))
	for range 3 {
		_, e := call(s, "good", "hang", "")
		wantFailure(t, e, mcp.TimedOut, true, "no answer within 20ms")
	}
	eventually(t, "the server was ended", func() bool {
		call(s, "good", "hang", "")
		return strings.Contains(told.String(), "it said nothing during 3 calls")
	})
}

func TestAServerThatChangesItsProtocol(t *testing.T) {
	file := filepath.Join(t.TempDir(), "era")
	s := up(t, patient(), server("changes", file))
	if p := s.Servers()[0].Protocol; p != "2026-07-28" {
		t.Fatalf("speaks %s", p)
	}
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	call(s, "changes", "die", "")
	_, e := call(s, "changes", "echo", "")
	wantFailure(t, e, mcp.Unavailable, false, `it answers with protocol "2025-11-25", and had agreed on 2026-07-28`)
}

// A server of the newer protocol alone that starts slower than the probe waits
// is not taken for one of the older.
func TestASlowStart(t *testing.T) {
	o := patient()
	o.DiscoverTimeout = 20 * time.Millisecond
	srv := server("modern", "300ms")
	s := up(t, o, srv)
	if p := s.Servers()[0].Protocol; p != "2026-07-28" {
		t.Errorf("speaks %s", p)
	}
	wantText(t, s, "modern", "echo", "", "{}")
}

// Servers connect at the same time, each within its own budget.
func TestConnectingTakesAsLongAsTheSlowest(t *testing.T) {
	barrier := t.TempDir()
	var servers []mcp.Server
	for i := range 4 {
		srv := server("meets", barrier)
		srv.Name = fmt.Sprint("meets-", i)
		servers = append(servers, srv)
	}
	// Each answers only when all four have started.
	s := connect(t, patient(), servers...)
	if f := s.Failed(); len(f) > 0 || len(s.Servers()) != 4 {
		t.Errorf("%+v", f)
	}
}

func TestConnectIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv, mark := marked(server("silent"))
	done := make(chan *session.Session)
	go func() { done <- session.Connect(ctx, []mcp.Server{srv}, patient()) }()
	eventually(t, "the server runs", func() bool { return living(mark) > 0 })
	cancel()
	s := <-done
	defer s.Close()
	if f := s.Failed(); len(f) != 1 || living(mark) != 0 {
		t.Errorf("%+v, %d alive", f, living(mark))
	}
}
