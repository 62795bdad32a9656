package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	server.Name, server.CandidateSafe = "echo", true
	if server.URL == "" {
		server.Transport = mcp.Stdio
	}
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

// BenchmarkCallsRealOverHTTP is the same with that server on loopback.
func BenchmarkCallsRealOverHTTP(b *testing.B) {
	server := mcp.Server{Transport: mcp.HTTP, URL: mcptest.OverHTTP(b, os.Getenv("PATH"))}
	calls(b, server, json.RawMessage(`{"message":"hello"}`))
}

// plainly is how an agent calls a server without a gateway: with mcp-go's
// client, all callers on one connection.
func plainly(b *testing.B, server mcp.Server, arguments json.RawMessage) func(int) error {
	b.Helper()
	env := []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range server.Env {
		env = append(env, name+"="+value)
	}
	connect := func() (*client.Client, error) { return client.NewStdioMCPClient(server.Cmd, env) }
	if server.URL != "" {
		connect = func() (*client.Client, error) { return client.NewStreamableHttpClient(server.URL) }
	}
	c, err := connect()
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
	floor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	defer floor.Close()
	through := func(network string, dial func(n int) *caller) func(b *testing.B) func(int) error {
		return func(b *testing.B) func(int) error {
			all := make([]*caller, 9)
			for n := range all[1:] {
				all[n+1] = dial(n + 1)
				all[n+1].connect(b, network)
			}
			return func(n int) error { return all[n].call() }
		}
	}
	at := func(n int) string { return strings.TrimSuffix(strings.TrimPrefix(r.access(n).URL, "http://"), "/mcp") }
	legacy := func(n int) *caller {
		p := callLegacy(r.session(n), "@", "mcp__echo__echo", string(arguments))
		return newCaller(at(n), r.access(n).Token.Reveal(), p)
	}
	modern := func(n int) *caller {
		return newCaller(at(n), r.access(n).Token.Reveal(), callModern("mcp__echo__echo", string(arguments)))
	}
	socket := func(n int) *caller {
		c := legacy(n)
		c.address, c.head = r.access(n).Socket, strings.Replace(c.head, c.address, "localhost", 1)
		return c
	}
	bare := func(n int) *caller {
		c := legacy(n)
		c.address = strings.TrimPrefix(floor.URL, "http://")
		return c
	}
	same := func(call func(int) error) func(*testing.B) func(int) error {
		return func(*testing.B) func(int) error { return call }
	}
	for _, callers := range []int{1, 8} {
		for _, way := range []struct {
			name string
			call func(*testing.B) func(int) error
		}{
			{"bare-http", through("tcp", bare)},
			{"plain", same(plain)},
			{"direct", same(direct)},
			{"session", through("tcp", legacy)},
			{"socket", through("unix", socket)},
			{"stateless", through("tcp", modern)},
		} {
			b.Run(fmt.Sprintf("%s-%d", way.name, callers), func(b *testing.B) { measure(b, callers, way.call(b)) })
		}
	}
}

// A caller sends one request over and over on a connection that it keeps, as a
// load generator does, so that the gateway is measured and not a client. The
// @ in a body is replaced by a number that is new each time.
type caller struct {
	address, head string
	before, after string // the @ of the body
	count         int
	conn          net.Conn
	in            *bufio.Reader
	out           []byte
}

func newCaller(address, token string, p post) *caller {
	head := "POST /mcp HTTP/1.1\r\nHost: " + address + "\r\nAuthorization: Bearer " + token +
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	for k, v := range p.headers {
		head += k + ": " + v + "\r\n"
	}
	c := &caller{address: address, head: head}
	c.before, c.after, _ = strings.Cut(p.body, "@")
	return c
}

func (c *caller) connect(b *testing.B, network string) {
	var err error
	if c.conn, err = net.Dial(network, c.address); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.conn.Close() })
	c.in = bufio.NewReader(c.conn)
}

func (c *caller) call() error {
	number := ""
	if c.after != "" {
		c.count++
		number = strconv.Itoa(c.count)
	}
	c.out = fmt.Appendf(c.out[:0], "%sContent-Length: %d\r\n\r\n%s%s%s", c.head, len(c.before)+len(number)+len(c.after), c.before, number, c.after)
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("hello"))) {
		err = fmt.Errorf("answered %d %s", resp.StatusCode, body)
	}
	return err
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
	start, spent := time.Now(), processorTime()
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
	b.ReportMetric(float64((processorTime()-spent).Nanoseconds())/1000/float64(b.N), "cpu-us/call")
}

// processorTime is what this process has used: the callers and the gateway, not
// the server.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
