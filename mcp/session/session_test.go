package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/session"
)

func server(kind string, args ...string) mcp.Server {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return mcp.Server{Name: kind, Transport: mcp.Stdio, Cmd: self, Args: append([]string{serveWord, kind}, args...), Env: quick()}
}

// quick keeps a race-enabled binary from sleeping at its end.
func quick() map[string]string { return map[string]string{"GORACE": "atexit_sleep_ms=0"} }

// marked gives a server a variable that all its processes are found by.
func marked(s mcp.Server) (mcp.Server, string) {
	mark := fmt.Sprintf("%016x", rand.Uint64())
	env := map[string]string{"SESSION_TEST_MARK": mark}
	for k, v := range s.Env {
		env[k] = v
	}
	s.Env = env
	return s, mark
}

func living(mark string) (n int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(mark)) {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("not so after 30 seconds: %s", what)
		case <-tick.C:
		}
	}
}

// patient are options under which nothing ends because the machine is slow.
func patient() session.Options {
	return session.Options{Path: os.Getenv("PATH"), ConnectBudget: time.Minute, CallTimeout: time.Minute}
}

func connect(t *testing.T, o session.Options, servers ...mcp.Server) *session.Session {
	t.Helper()
	s := session.Connect(t.Context(), servers, o)
	t.Cleanup(s.Close)
	return s
}

// up connects to one server, which has to connect.
func up(t *testing.T, o session.Options, server mcp.Server) *session.Session {
	t.Helper()
	s := connect(t, o, server)
	if f := s.Failed(); len(f) > 0 {
		t.Fatalf("%+v", f)
	}
	return s
}

func call(s *session.Session, server, tool, args string) (string, *mcp.CallError) {
	return callWith(context.Background(), s, server, tool, args)
}

func callWith(ctx context.Context, s *session.Session, server, tool, args string) (string, *mcp.CallError) {
	res, err := s.Call(ctx, mcp.Call{Server: server, Tool: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		var e *mcp.CallError
		if !errors.As(err, &e) {
			panic(err)
		}
		return "", e
	}
	return texts(res), nil
}

func texts(r mcp.Result) string {
	var all []string
	for _, raw := range r.Content {
		var b struct{ Text string }
		if err := json.Unmarshal(raw, &b); err != nil {
			panic(err)
		}
		all = append(all, b.Text)
	}
	return strings.Join(all, "\n")
}

func wantText(t *testing.T, s *session.Session, server, tool, args, want string) {
	t.Helper()
	if got, err := call(s, server, tool, args); err != nil || got != want {
		t.Errorf("%s(%s) gave %.200q, %v; want %q", tool, args, got, err, want)
	}
}

func wantFailure(t *testing.T, e *mcp.CallError, kind mcp.Failure, sent bool, words string) {
	t.Helper()
	if e == nil || e.Kind != kind || e.Sent != sent || !strings.Contains(e.Reason, words) {
		t.Errorf("failed with %+v, want %s, sent %v, %q", e, kind, sent, words)
	}
	if e != nil && strings.ContainsAny(e.Error(), "\x1b\n") {
		t.Errorf("%q is not one clean line", e.Error())
	}
}

func TestHazardServersThatMisbehaveButAnswer(t *testing.T) {
	for _, kind := range []string{"good", "modern", "garbage", "stderr", "flood", "stubborn", "grandchild"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := patient()
			o.CloseGrace = 200 * time.Millisecond
			srv, mark := marked(server(kind))
			s := up(t, o, srv)
			d := s.Servers()[0]
			if d.Name != "faulty" || d.Server.Name != kind || d.Dropped.Any() || d.Connected <= 0 || len(d.Tools) != 21 {
				t.Errorf("declared %+v", d)
			}
			wantText(t, s, kind, "echo", `{"a":[1,"ü"]}`, `{"a":[1,"ü"]}`)
			wantText(t, s, kind, "echo", "", `{}`)
			wantText(t, s, kind, "echo", "null", `{}`)
			wantText(t, s, kind, "garbage", "", "after garbage")
			s.Close()
			if n := living(mark); n != 0 {
				t.Errorf("%d processes are alive after Close", n)
			}
			_, e := call(s, kind, "echo", "")
			wantFailure(t, e, mcp.Unavailable, false, "over")
		})
	}
}

func TestHazardServersThatDoNotConnect(t *testing.T) {
	for _, c := range []struct {
		kind, reason string
		budget       time.Duration
	}{
		{"silent", "it did not connect within 300ms: no answer to greeting", 300 * time.Millisecond},
		{"exits", `it exited with status 3; it wrote to stderr: no \u{1b}[31mlicense\u{1b}[0m found`, time.Minute},
		{"endless", "more than 1000 pages", time.Minute},
		{"stands", "its list of tools does not advance", time.Minute},
		{"huge-cursor", "its answer is not a list of tools", time.Minute},
		{"no-list", "its answer is not a list of tools", time.Minute},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			o := patient()
			o.ConnectBudget = c.budget
			srv, mark := marked(server(c.kind))
			s := connect(t, o, srv)
			if c.budget == time.Minute {
				s = connect(t, o, srv, server("good"))
				wantText(t, s, "good", "echo", `{}`, `{}`)
			}
			f := s.Failed()
			if len(f) != 1 || f[0].Name != c.kind || !strings.Contains(f[0].Words(), c.reason) || strings.Contains(f[0].Reason, "stderr") || f[0].NeedsLogin {
				t.Errorf("failed: %+v, want %q", f, c.reason)
			}
			if n := living(mark); n != 0 {
				t.Errorf("%d processes of it are alive", n)
			}
			_, e := call(s, c.kind, "echo", "")
			wantFailure(t, e, mcp.Unknown, false, "no such server")
		})
	}
}

func TestCannotBeStarted(t *testing.T) {
	o := patient()
	for name, c := range map[string]struct {
		server mcp.Server
		reason string
	}{
		"no program":  {mcp.Server{Name: "a", Transport: mcp.Stdio, Cmd: "no-such-program"}, "not on the PATH"},
		"no cmd":      {mcp.Server{Name: "a", Transport: mcp.Stdio}, "no cmd"},
		"no url":      {mcp.Server{Name: "a", Transport: mcp.HTTP}, "not an http or https URL"},
		"other url":   {mcp.Server{Name: "a", Transport: mcp.HTTP, URL: "file:///etc/passwd"}, "not an http or https URL"},
		"name":        {mcp.Server{Name: "a__b", Transport: mcp.Stdio, Cmd: "true"}, "contains __"},
		"environment": {mcp.Server{Name: "a", Transport: mcp.Stdio, Cmd: "true", Env: map[string]string{"A=B": "x\x00"}}, "not NAME=VALUE"},
	} {
		s := connect(t, o, c.server)
		if f := s.Failed(); len(f) != 1 || !strings.Contains(f[0].Reason, c.reason) {
			t.Errorf("%s: failed %+v, want %q", name, f, c.reason)
		}
	}
	s := connect(t, o, server("good"), server("good"))
	if f := s.Failed(); len(f) != 1 || len(s.Servers()) != 1 || !strings.Contains(f[0].Reason, "has this name") {
		t.Errorf("failed %+v", f)
	}
}

// A server that ignores the probe for the newer protocol costs the probe's
// time and no more, and is not probed again.
func TestSilentDiscover(t *testing.T) {
	o := patient()
	o.DiscoverTimeout = 50 * time.Millisecond
	s := up(t, o, server("silent-discover"))
	if d := s.Servers()[0]; d.Protocol != "2025-11-25" {
		t.Errorf("speaks %s", d.Protocol)
	}
	wantText(t, s, "silent-discover", "echo", "", "{}")
}

func TestAnEmptyDiscoverIsNoProtocol(t *testing.T) {
	s := up(t, patient(), server("agrees"))
	if d := s.Servers()[0]; d.Protocol != "2025-11-25" || d.Name != "faulty" {
		t.Errorf("speaks %s", d.Protocol)
	}
	wantText(t, s, "agrees", "echo", "", "{}")
}

func TestNoCapabilityIsOffered(t *testing.T) {
	s := up(t, patient(), server("good"))
	if v := s.Servers()[0].Version; v != "map[]" {
		t.Errorf("the client offers %s", v)
	}
	wantText(t, s, "good", "asked", "", "ping: map[], sampling/createMessage: -32601, elicitation/create: -32601, roots/list: -32601")
}

func TestHazardEnvironmentIsExact(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "secret")
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"PATH is passed on":     {map[string]string{"A": "1", "B": "two words"}, "A=1\nB=two words\nPATH=/some/bin:/bin"},
		"PATH can be overruled": {map[string]string{"PATH": "/mine"}, "PATH=/mine"},
	} {
		srv := server("good")
		srv.Env = c.env
		o := patient()
		o.Path, o.Dir = "/some/bin:/bin", t.TempDir()
		s := up(t, o, srv)
		got, e := call(s, "good", "env", "")
		lines := strings.Split(got, "\n")
		slices.Sort(lines)
		if e != nil || strings.Join(lines, "\n") != c.want {
			t.Errorf("%s: %q, %v", name, got, e)
		}
		if got, _ := call(s, "good", "pid", ""); !strings.HasSuffix(got, " "+o.Dir) {
			t.Errorf("works in %q, not in %s", got, o.Dir)
		}
	}
}

func TestEightCallersGetTheirOwnAnswers(t *testing.T) {
	s := up(t, patient(), server("good"))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 100 {
				args := fmt.Sprintf(`{"from":%d,"number":%d}`, i, j)
				if got, e := call(s, "good", "echo", args); e != nil || got != args {
					t.Errorf("%s got %q, %v", args, got, e)
				}
			}
		})
	}
	all.Wait()
}

func TestALongCallDoesNotHoldUpOthers(t *testing.T) {
	s := up(t, patient(), server("good"))
	done := make(chan string)
	go func() {
		got, _ := call(s, "good", "late", "")
		done <- got
	}()
	wantText(t, s, "good", "echo", "", "{}")
	wantText(t, s, "good", "release", "", "released")
	if got := <-done; got != "at last" {
		t.Errorf("the long call gave %q", got)
	}
}

func TestHazardAnswersThatAreNone(t *testing.T) {
	s := up(t, patient(), server("good"))
	for tool, words := range map[string]string{
		"huge":    "over the limit of 8388608 bytes",
		"input":   "asks for input",
		"nothing": "neither a result nor an error",
	} {
		_, e := call(s, "good", tool, "")
		wantFailure(t, e, mcp.Protocol, true, words)
		wantText(t, s, "good", "echo", `{"after":"`+tool+`"}`, `{"after":"`+tool+`"}`)
	}
	wantText(t, s, "good", "wrong", "", "for you, as text")
	wantText(t, s, "good", "twice", "", "one")
	wantText(t, s, "good", "twice", "", "one")
	if got, e := call(s, "good", "big", ""); e != nil || len(got) > mcp.MaxResult+100 || !strings.Contains(got, "\n[truncated 200000 bytes]\n") {
		t.Errorf("a big text gave %d bytes, %v", len(got), e)
	}
	_, e := call(s, "good", "none of them", "")
	wantFailure(t, e, mcp.Unknown, false, "no such tool")
	_, e = call(s, "good", "echo", "[]")
	wantFailure(t, e, mcp.Protocol, false, "not a JSON object")
}

func TestDeadlineAndCancellation(t *testing.T) {
	o := patient()
	s := up(t, o, server("good"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, e := callWith(ctx, s, "good", "hang", "")
	wantFailure(t, e, mcp.TimedOut, true, "may or may not")

	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		call(s, "good", "echo", "")
		cancel()
	}()
	_, e = callWith(ctx, s, "good", "hang", "")
	if e == nil || e.Kind != mcp.Canceled {
		t.Errorf("cancelled: %+v", e)
	}
	eventually(t, "the server was told twice", func() bool {
		got, e := call(s, "good", "cancelled", "")
		return e == nil && got == "2"
	})

	o.CallTimeout = 50 * time.Millisecond
	s = up(t, o, server("good"))
	_, e = call(s, "good", "hang", "")
	wantFailure(t, e, mcp.TimedOut, true, "no answer within 50ms")
}

func TestProgressIsTheCallsOwn(t *testing.T) {
	for _, kind := range []string{"good", "modern"} {
		s := up(t, patient(), server(kind))
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				var got []mcp.Progress
				var returned atomic.Bool
				args := fmt.Sprintf(`{"n":%d}`, i)
				_, err := s.Call(t.Context(), mcp.Call{Server: kind, Tool: "progress", Arguments: json.RawMessage(args), Progress: func(p mcp.Progress) {
					if returned.Load() {
						t.Error("progress of a call that has returned")
					}
					got = append(got, p)
				}})
				returned.Store(true)
				want := []mcp.Progress{{Progress: 0, Total: 4, Message: args}, {Progress: 1, Total: 4, Message: args}, {Progress: 2, Total: 4, Message: args}, {Progress: 3, Total: 4, Message: args}}
				if err != nil || len(got) < 4 || !slices.Equal(got[:4], want) {
					t.Errorf("progress %+v, %v", got, err)
				}
			})
		}
		all.Wait()
	}
}

func TestHazardSurfaceIsFrozen(t *testing.T) {
	s := up(t, patient(), server("good"))
	before, _ := json.Marshal(s.Servers())
	wantText(t, s, "good", "change", "", "changed")
	wantText(t, s, "good", "echo", "", "{}")
	if after, _ := json.Marshal(s.Servers()); !bytes.Equal(before, after) {
		t.Errorf("declared %s, before %s", after, before)
	}
}

func TestTooManyTools(t *testing.T) {
	s := up(t, patient(), server("many"))
	d := s.Servers()[0]
	if len(d.Tools) != mcp.MaxTools || d.Dropped.OverCount != 44 || d.Dropped.Duplicate != 1 {
		t.Errorf("%d tools, dropped %+v", len(d.Tools), d.Dropped)
	}
	_, e := call(s, "many", "t299", "")
	wantFailure(t, e, mcp.Unknown, false, "no such tool")
}

// connectAndHang is the process that crashes.
func connectAndHang(mark string) {
	srv := server("grandchild")
	srv.Env["SESSION_TEST_MARK"] = mark
	s := session.Connect(context.Background(), []mcp.Server{srv}, patient())
	fmt.Println(len(s.Servers()))
	select {}
}

func TestHazardACrashLeavesNoServer(t *testing.T) {
	_, mark := marked(mcp.Server{})
	cmd := exec.Command("/proc/self/exe", "connect-and-hang", mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2)
	if _, err := out.Read(b); err != nil || string(b) != "1\n" {
		t.Errorf("%q, %v", b, err)
	}
	if n := living(mark); n < 2 {
		t.Errorf("%d processes are alive before the crash", n)
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	eventually(t, "all are dead", func() bool { return living(mark) == 0 })
}
