package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/mcptest"
	"github.com/bestof-dev/bestof/mcp/session"
)

// npm is a server from npm. Its script looks for a node on its PATH, which is
// made to be the pinned one.
func npm(t testing.TB, name string, args ...string) mcp.Server {
	return mcp.Server{Name: name, Transport: mcp.Stdio, Cmd: mcptest.Program(t, "mcp-server-"+name), Args: args}
}

func npmOptions(t testing.TB) session.Options {
	o := patient()
	o.Path = filepath.Dir(mcptest.Program(t, "node")) + ":/usr/bin:/bin"
	return o
}

func TestServersFromNPM(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	memory := npm(t, "memory")
	memory.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.jsonl")}
	everything := npm(t, "everything")
	everything.Env = map[string]string{"DECLARED": "yes"}
	t.Setenv("ANTHROPIC_API_KEY", "not for servers")
	o := npmOptions(t)
	s := connect(t, o, everything, npm(t, "filesystem", dir), memory, npm(t, "sequential-thinking"))
	if f := s.Failed(); len(f) > 0 {
		t.Fatalf("%+v", f)
	}
	counts := map[string]int{}
	for _, d := range s.Servers() {
		counts[d.Server.Name] = len(d.Tools)
		if d.Dropped.Any() || d.Protocol != "2025-11-25" || d.Name == "" {
			t.Errorf("%s: %q, %s, dropped %+v", d.Server.Name, d.Name, d.Protocol, d.Dropped)
		}
	}
	if want := fmt.Sprint(map[string]int{"everything": 13, "filesystem": 14, "memory": 9, "sequential-thinking": 1}); fmt.Sprint(counts) != want {
		t.Errorf("tools: %v, want %s", counts, want)
	}

	got, e := call(s, "everything", "get-env", "")
	env := map[string]string{}
	if err := json.Unmarshal([]byte(got), &env); e != nil || err != nil || len(env) != 2 || env["DECLARED"] != "yes" || env["PATH"] != o.Path {
		t.Errorf("its environment is %v, %v, %v", env, e, err)
	}
	wantText(t, s, "filesystem", "read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "hello.txt")), "hello from a file")
	if res, err := s.Call(t.Context(), mcp.Call{Server: "filesystem", Tool: "read_text_file", Arguments: json.RawMessage(`{"path":"/etc/passwd"}`)}); err != nil || !res.IsError {
		t.Errorf("a file elsewhere: %+v, %v", res, err)
	}
	if got, e := call(s, "memory", "read_graph", ""); e != nil || !strings.Contains(got, `"entities"`) {
		t.Errorf("read_graph gave %q, %v", got, e)
	}
	eightCallers(t, s)
	interrupted(t, s)
}

// eightCallers calls server-everything from all sides.
func eightCallers(t *testing.T, s *session.Session) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25 {
				text := fmt.Sprintf("%d of %d", j, i)
				wantText(t, s, "everything", "echo", fmt.Sprintf(`{"message":%q}`, text), "Echo: "+text)
			}
			n := 0
			_, err := s.Call(t.Context(), mcp.Call{
				Server: "everything", Tool: "trigger-long-running-operation", Arguments: json.RawMessage(`{"duration":0.2,"steps":4}`),
				Progress: func(mcp.Progress) { n++ },
			})
			if err != nil || n != 4 {
				t.Errorf("a long operation: %d notifications, %v", n, err)
			}
		})
	}
	all.Wait()
}

// interrupted leaves a long operation.
func interrupted(t *testing.T, s *session.Session) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Call(ctx, mcp.Call{
		Server: "everything", Tool: "trigger-long-running-operation", Arguments: json.RawMessage(`{"duration":600,"steps":6000}`),
		Progress: func(mcp.Progress) { cancel() },
	})
	if e, ok := err.(*mcp.CallError); !ok || e.Kind != mcp.Canceled {
		t.Errorf("interrupted: %v", err)
	}
	wantText(t, s, "everything", "echo", `{"message":"still here"}`, "Echo: still here")
}

func TestServerFromNPMOverHTTP(t *testing.T) {
	o := npmOptions(t)
	s := up(t, o, mcp.Server{Name: "everything", Transport: mcp.HTTP, URL: mcptest.OverHTTP(t, o.Path)})
	if d := s.Servers()[0]; len(d.Tools) != 13 || d.Protocol != "2025-11-25" {
		t.Errorf("%d tools, %s", len(d.Tools), d.Protocol)
	}
	eightCallers(t, s)
	interrupted(t, s)
}

// BenchmarkConnect compares four servers at once with the slowest of them
// alone, and with all of them alone divided by the processors: the start of a
// node is nothing but computing.
func BenchmarkConnect(b *testing.B) {
	o := npmOptions(b)
	o.Path = "/usr/bin:/bin:" + filepath.Dir(mcptest.Program(b, "node"))
	dir := b.TempDir()
	servers := []mcp.Server{npm(b, "everything"), npm(b, "filesystem", dir), npm(b, "memory"), npm(b, "sequential-thinking")}
	servers[2].Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}
	compare(b, o, servers)
}

// BenchmarkConnectWaiting is the same with servers that wait for something else
// than the processor, as most do that speak to a network.
func BenchmarkConnectWaiting(b *testing.B) {
	var servers []mcp.Server
	for i, wait := range []string{"400ms", "600ms", "800ms", "1s"} {
		srv := server("waits", wait)
		srv.Name = fmt.Sprint("waits-", i)
		servers = append(servers, srv)
	}
	compare(b, patient(), servers)
}

func compare(b *testing.B, o session.Options, servers []mcp.Server) {
	took := func(servers ...mcp.Server) time.Duration {
		began := time.Now()
		s := session.Connect(b.Context(), servers, o)
		d := time.Since(began)
		if f := s.Failed(); len(f) > 0 {
			b.Fatalf("%+v", f)
		}
		s.Close()
		return d
	}
	var together, slowest, bound []time.Duration
	for b.Loop() {
		together = append(together, took(servers...))
		var alone []time.Duration
		for _, server := range servers {
			alone = append(alone, took(server))
		}
		slowest = append(slowest, slices.Max(alone))
		var sum time.Duration
		for _, d := range alone {
			sum += d
		}
		bound = append(bound, sum/time.Duration(runtime.NumCPU()))
	}
	slices.Sort(together)
	slices.Sort(slowest)
	slices.Sort(bound)
	n := len(together) / 2
	b.ReportMetric(float64(together[n])/float64(slowest[n]), "x-slowest")
	b.ReportMetric(float64(together[n])/float64(bound[n]), "x-all-one-by-one-by-cpus")
	b.ReportMetric(float64(together[n].Milliseconds()), "ms-together")
}
