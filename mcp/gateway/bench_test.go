package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	wiremcp "github.com/mark3labs/mcp-go/mcp"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
	"github.com/bestof-dev/bestof/mcp/gateway/wire"
	"github.com/bestof-dev/bestof/mcp/mcptest"
	"github.com/bestof-dev/bestof/mcp/session"
)

// echoMark makes the test's program an MCP server on its standard streams.
const echoMark = "BESTOF_TEST_ECHO"

// echo answers every call with its arguments, in the era with a handshake.
func echo(in io.Reader, out io.Writer) {
	lines := bufio.NewReader(in)
	w := bufio.NewWriter(out)
	for {
		line, err := wire.Line(lines, 1<<20)
		if err != nil {
			return
		}
		msg, bad := wire.Parse(line)
		if bad != nil || msg.ID == nil {
			continue
		}
		var result string
		switch msg.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}},{"name":"now","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":` + string(wire.Text(string(msg.Param("arguments")))) + `}]}`
		}
		answer := wire.AppendResult(nil, msg.ID, json.RawMessage(result))
		if result == "" {
			answer = wire.AppendError(nil, msg.ID, &wire.Error{Code: wire.MethodNotFound, Message: "no"})
		}
		w.Write(append(answer, '\n'))
		if lines.Buffered() == 0 {
			w.Flush()
		}
	}
}

// echoing connects to an echo server as a run does, and puts a gateway before
// it.
func echoing(t testing.TB, candidates int) (*session.Session, *rig) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return before(t, mcp.Server{Cmd: self, Env: map[string]string{echoMark: "1"}}, candidates)
}

// before puts a gateway before a server, which is called echo.
func before(t testing.TB, server mcp.Server, candidates int) (*session.Session, *rig) {
	t.Helper()
	server.Name, server.Transport, server.CandidateSafe = "echo", mcp.Stdio, true
	s := session.Connect(context.Background(), []mcp.Server{server}, session.Options{Dir: t.TempDir(), Path: os.Getenv("PATH")})
	t.Cleanup(s.Close)
	if f := s.Failed(); len(f) != 0 {
		t.Fatal(f)
	}
	r := &rig{t: t, uses: &uses{}}
	var err error
	r.Gateway, err = gateway.New(gateway.Config{
		Upstream: s, Offers: gateway.Offers(s.Servers(), nil), Candidates: candidates, Now: time.Now, Record: r.uses.add,
		SocketDir: filepath.Join(t.TempDir(), "s"), Limits: gateway.Limits{Calls: 1 << 30, Bytes: 1 << 60, Concurrent: 64},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, r
}

// With the real client of servers: what a run does.
func TestTheRealSessionBehindTheGateway(t *testing.T) {
	_, r := echoing(t, 2)
	if p := r.Prefetch(context.Background()); !strings.Contains(p.Text, "### mcp__echo__now\n\n```\n{}\n```") || len(p.Called) != 1 {
		t.Errorf("%+v", p)
	}
	var all sync.WaitGroup
	for n := 1; n <= 2; n++ {
		for i := range 20 {
			all.Go(func() {
				arguments := fmt.Sprintf(`{"q":"%d of %d"}`, i, n)
				_, _, body, err := r.try(n, callModern("mcp__echo__echo", arguments))
				if err != nil || !strings.Contains(body, strings.ReplaceAll(arguments, `"`, `\"`)) {
					t.Errorf("%v %s", err, body)
				}
			})
		}
	}
	all.Wait()
	outcomes := map[string]int{}
	for _, u := range r.uses.all() {
		outcomes[fmt.Sprint(u.Candidate, " ", u.Outcome)]++
	}
	if outcomes["0 ok"] != 1 || outcomes["1 ok"] != 20 || outcomes["2 ok"] != 20 {
		t.Errorf("%v", outcomes)
	}
}

// BenchmarkCalls measures calls of a Go echo server on stdio: by the client
// itself, and by candidates over HTTP; plain is mcp-go's client, and bare-http
// is a server that says back what it was sent, and calls nothing.
func BenchmarkCalls(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	calls(b, mcp.Server{Cmd: self, Env: map[string]string{echoMark: "1"}}, json.RawMessage(`{"q":"hello"}`))
}

// BenchmarkCallsReal is the same with a server from npm.
func BenchmarkCallsReal(b *testing.B) {
	calls(b, mcp.Server{Cmd: mcptest.Program(b, "mcp-server-everything")}, json.RawMessage(`{"message":"hello"}`))
}

// plainly is how an agent calls a server that it starts itself: with mcp-go's
// client, all callers on one connection.
func plainly(b *testing.B, server mcp.Server, arguments json.RawMessage) func(int) error {
	b.Helper()
	env := []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range server.Env {
		env = append(env, name+"="+value)
	}
	c, err := client.NewStdioMCPClient(server.Cmd, env)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	if _, err := c.Initialize(b.Context(), wiremcp.InitializeRequest{Params: wiremcp.InitializeParams{ProtocolVersion: "2025-11-25"}}); err != nil {
		b.Fatal(err)
	}
	return func(int) error {
		_, err := c.CallTool(context.Background(), wiremcp.CallToolRequest{Params: wiremcp.CallToolParams{Name: "echo", Arguments: arguments}})
		return err
	}
}

func calls(b *testing.B, server mcp.Server, arguments json.RawMessage) {
	plain := plainly(b, server, arguments)
	s, r := before(b, server, 8)
	direct := func(int) error {
		_, err := s.Call(context.Background(), mcp.Call{Server: "echo", Tool: "echo", Arguments: arguments})
		return err
	}
	through := func(make func(n int) post) func(int) error {
		return func(n int) error {
			_, _, body, err := r.try(n, make(n))
			if err == nil && !strings.Contains(body, "hello") {
				err = fmt.Errorf("answered %s", body)
			}
			return err
		}
	}
	sessions := map[int]map[string]string{}
	for n := 1; n <= 8; n++ {
		sessions[n] = r.session(n)
	}
	var mu sync.Mutex
	next := 0
	legacy := func(n int) post {
		mu.Lock()
		defer mu.Unlock()
		next++
		return callLegacy(sessions[n], fmt.Sprint(next), "mcp__echo__echo", string(arguments))
	}
	modern := func(int) post { return callModern("mcp__echo__echo", string(arguments)) }
	old := http.DefaultClient
	http.DefaultClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer func() { http.DefaultClient.CloseIdleConnections(); http.DefaultClient = old }()
	floor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	defer floor.Close()
	bare := func(int) error {
		resp, err := http.Post(floor.URL, "application/json", strings.NewReader(legacy(1).body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for _, callers := range []int{1, 8} {
		b.Run(fmt.Sprintf("bare-http-%d", callers), func(b *testing.B) { measure(b, callers, bare) })
		b.Run(fmt.Sprintf("plain-%d", callers), func(b *testing.B) { measure(b, callers, plain) })
		b.Run(fmt.Sprintf("direct-%d", callers), func(b *testing.B) { measure(b, callers, direct) })
		b.Run(fmt.Sprintf("session-%d", callers), func(b *testing.B) { measure(b, callers, through(legacy)) })
		b.Run(fmt.Sprintf("stateless-%d", callers), func(b *testing.B) { measure(b, callers, through(modern)) })
	}
}

// measure shares b.N calls among the callers and reports their median and
// their rate.
func measure(b *testing.B, callers int, call func(n int) error) {
	took := make([][]time.Duration, callers)
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	b.ResetTimer()
	start := time.Now()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range left {
				began := time.Now()
				if err := call(i + 1); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	all.Wait()
	rate := float64(b.N) / time.Since(start).Seconds()
	every := slices.Concat(took...)
	slices.Sort(every)
	b.ReportMetric(float64(every[len(every)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(rate, "calls/s")
}
