package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
	"github.com/bestof-dev/bestof/mcp/gateway/bridge"
)

// bridgeMark makes the test's program a bridge.
const bridgeMark = "BESTOF_TEST_BRIDGE"

func TestMain(m *testing.M) {
	if os.Getenv(echoMark) != "" {
		echo(os.Stdin, os.Stdout)
		return
	}
	if os.Getenv(bridgeMark) != "" {
		c := bridge.Config{Socket: os.Getenv("BESTOF_MCP_SOCKET"), Token: os.Getenv("BESTOF_MCP_TOKEN")}
		if err := bridge.Run(context.Background(), c, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// net/http lets a connection that it ends stand for half a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// upstream is a fake: each tool does what its function says, and every call is
// kept. A call of a tool that is not there is a mistake of the gateway.
type upstream struct {
	t     testing.TB
	tools map[mcp.Route]func(context.Context, mcp.Call) (mcp.Result, error)

	mu    sync.Mutex
	calls []mcp.Call
}

func (u *upstream) Servers() []mcp.Declared { return nil }

func (u *upstream) Call(ctx context.Context, c mcp.Call) (mcp.Result, error) {
	u.mu.Lock()
	u.calls = append(u.calls, c)
	u.mu.Unlock()
	do, ok := u.tools[mcp.Route{Server: c.Server, Tool: c.Tool}]
	if !ok {
		u.t.Errorf("the gateway called %s of %s, which nobody offers", c.Tool, c.Server)
		return mcp.Result{}, &mcp.CallError{Server: c.Server, Tool: c.Tool, Kind: mcp.Unknown, Reason: "no such tool"}
	}
	return do(ctx, c)
}

func (u *upstream) seen() []mcp.Call {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]mcp.Call(nil), u.calls...)
}

func says(s string) mcp.Result {
	b, _ := json.Marshal(map[string]string{"type": "text", "text": s})
	return mcp.Result{Content: []json.RawMessage{b}}
}

func answers(s string) func(context.Context, mcp.Call) (mcp.Result, error) {
	return func(context.Context, mcp.Call) (mcp.Result, error) { return says(s), nil }
}

func tool(name string) mcp.Tool {
	return mcp.Tool{Name: name, Description: "does " + name, InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`)}
}

// rig is a gateway with a fake behind it.
type rig struct {
	*gateway.Gateway
	t    testing.TB
	up   *upstream
	uses *uses
}

type uses struct {
	mu   sync.Mutex
	list []mcp.Use
}

func (u *uses) add(one mcp.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, one)
}

func (u *uses) all() []mcp.Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]mcp.Use(nil), u.list...)
}

// start opens a gateway for two candidates on docs.search, docs.slow and what
// change adds.
func start(t testing.TB, change func(*gateway.Config, *upstream)) *rig {
	t.Helper()
	up := &upstream{t: t, tools: map[mcp.Route]func(context.Context, mcp.Call) (mcp.Result, error){
		{Server: "docs", Tool: "search"}: answers("found"),
	}}
	r := &rig{t: t, up: up, uses: &uses{}}
	c := gateway.Config{
		Upstream: up, Candidates: 2, Run: "r1", Version: "1.2.3", Now: time.Now, Record: r.uses.add,
		SocketDir: filepath.Join(t.TempDir(), "s"),
		Offers: []gateway.Offer{
			{Server: "docs", Tools: []mcp.Tool{tool("search")}},
			{Server: "deploy", Tools: []mcp.Tool{tool("ship")}, Withheld: gateway.NotCandidateSafe},
		},
	}
	if change != nil {
		change(&c, up)
	}
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.Gateway = g
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) access(n int) gateway.Access {
	r.t.Helper()
	a, err := r.Access(n)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// A post is one HTTP request of a candidate.
type post struct {
	ctx     context.Context
	method  string // POST
	path    string // below /mcp
	token   string // the candidate's
	headers map[string]string
	body    string
}

// send makes the request and gives status, headers and body.
func (r *rig) send(candidate int, p post) (int, http.Header, string) {
	r.t.Helper()
	status, h, body, err := r.try(candidate, p)
	if err != nil {
		r.t.Fatal(err)
	}
	return status, h, body
}

func (r *rig) try(candidate int, p post) (int, http.Header, string, error) {
	a := r.access(candidate)
	if p.ctx == nil {
		p.ctx = context.Background()
	}
	if p.method == "" {
		p.method = http.MethodPost
	}
	if p.token == "" {
		p.token = a.Token.Reveal()
	}
	req, err := http.NewRequestWithContext(p.ctx, p.method, a.URL+p.path, strings.NewReader(p.body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+p.token)
	for k, v := range p.headers {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
		if v == "" {
			req.Header.Del(k)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(body), err
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// callModern is a tools/call of 2026-07-28.
func callModern(name, arguments string) post {
	return post{
		headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name},
		body:    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `,` + modernMeta + `}}`,
	}
}

// tells reads what a tools/call gave: its text, and whether it is an error of
// the tool.
func tells(t testing.TB, body string) (string, bool) {
	t.Helper()
	var m struct {
		Result *struct {
			Content []struct{ Text string }
			IsError bool
		}
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(body)))
	if err := dec.Decode(&m); err != nil || m.Result == nil || len(m.Result.Content) == 0 {
		t.Fatalf("not the result of a tool: %s", body)
	}
	return m.Result.Content[0].Text, m.Result.IsError
}

// session opens one of 2025-11-25 and gives its headers.
func (r *rig) session(candidate int) map[string]string {
	r.t.Helper()
	status, h, body := r.send(candidate, post{body: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`})
	if status != 200 || h.Get("Mcp-Session-Id") == "" || !strings.Contains(body, `"protocolVersion":"2025-11-25"`) {
		r.t.Fatalf("initialize: %d %v %s", status, h, body)
	}
	return map[string]string{"Mcp-Session-Id": h.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}
}

func callLegacy(session map[string]string, id, name, arguments string) post {
	return post{headers: session, body: `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`}
}

func sentArguments(calls []mcp.Call) string {
	var all []string
	for _, c := range calls {
		all = append(all, string(c.Arguments))
	}
	return strings.Join(all, " ")
}
