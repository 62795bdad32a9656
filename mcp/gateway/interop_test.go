package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	gomcp "github.com/mark3labs/mcp-go/mcp"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
	"github.com/bestof-dev/bestof/mcp/gateway/bridge"
	"github.com/bestof-dev/bestof/mcp/mcptest"
)

// connect starts a client of somebody else's on a transport.
func connect(t testing.TB, tr transport.Interface, version string) *client.Client {
	t.Helper()
	c := client.NewClient(tr, client.WithProtocolVersion(version))
	ctx := context.Background()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	req := gomcp.InitializeRequest{}
	req.Params.ProtocolVersion = version
	req.Params.ClientInfo = gomcp.Implementation{Name: "test", Version: "1"}
	res, err := c.Initialize(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if res.ServerInfo.Name != "bestof" || c.ProtocolVersion() != version {
		t.Errorf("%+v, speaking %s", res, c.ProtocolVersion())
	}
	return c
}

func overHTTP(t testing.TB, a gateway.Access, path string) transport.Interface {
	t.Helper()
	tr, err := transport.NewStreamableHTTP(a.URL+path, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + a.Token.Reveal()}))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// overBridge runs the bridge as `bestof mcp bridge` does, on pipes.
func overBridge(t testing.TB, a gateway.Access, server string) transport.Interface {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var ended sync.WaitGroup
	ended.Go(func() {
		defer outW.Close()
		if err := bridge.Run(context.Background(), bridge.Config{Socket: a.Socket, Token: a.Token.Reveal(), Server: server}, inR, outW); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(ended.Wait)
	return transport.NewIO(outR, inW, io.NopCloser(strings.NewReader("")))
}

// A client that we did not write, over each way and in each era.
func TestAnotherClientWorks(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		for way, open := range map[string]func(testing.TB, gateway.Access) transport.Interface{
			"http":       func(t testing.TB, a gateway.Access) transport.Interface { return overHTTP(t, a, "") },
			"http /docs": func(t testing.TB, a gateway.Access) transport.Interface { return overHTTP(t, a, "/docs") },
			"bridge":     func(t testing.TB, a gateway.Access) transport.Interface { return overBridge(t, a, "") },
			"bridge docs": func(t testing.TB, a gateway.Access) transport.Interface {
				return overBridge(t, a, "docs")
			},
		} {
			t.Run(version+" "+way, func(t *testing.T) {
				r := start(t, func(c *gateway.Config, up *upstream) {
					up.tools[mcp.Route{Server: "docs", Tool: "search"}] = func(_ context.Context, call mcp.Call) (mcp.Result, error) {
						if call.Progress != nil {
							call.Progress(mcp.Progress{Progress: 1, Total: 2, Message: "half"})
						}
						return mcp.Result{Content: says("found").Content, Structured: json.RawMessage(`{"n":1}`)}, nil
					}
				})
				name := "mcp__docs__search"
				if strings.HasSuffix(way, "docs") {
					name = "search"
				}
				useClient(t, connect(t, open(t, r.access(1)), version), name)
				if n := len(r.up.seen()); n != 1 {
					t.Errorf("%d calls", n)
				}
			})
		}
	}
}

func useClient(t *testing.T, c *client.Client, name string) {
	t.Helper()
	ctx := context.Background()
	progress := make(chan string, 4)
	c.OnNotification(func(n gomcp.JSONRPCNotification) { progress <- n.Method })
	list, err := c.ListTools(ctx, gomcp.ListToolsRequest{})
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != name {
		t.Fatalf("%+v %v", list, err)
	}
	req := gomcp.CallToolRequest{}
	req.Params.Name, req.Params.Arguments = name, map[string]any{"q": "x"}
	req.Params.Meta = &gomcp.Meta{ProgressToken: "p1"}
	res, err := c.CallTool(ctx, req)
	if err != nil || res.IsError || len(res.Content) != 1 || res.StructuredContent == nil {
		t.Fatalf("%+v %v", res, err)
	}
	if got := <-progress; got != "notifications/progress" {
		t.Errorf("notified of %s", got)
	}
	req.Params.Name = "mcp__deploy__ship"
	if res, err = c.CallTool(ctx, req); err != nil || !res.IsError {
		t.Errorf("a withheld tool: %+v %v", res, err)
	}
}

// The inspector's command line cannot send a header over HTTP, so that a proxy
// of the test's adds the token; over the bridge it needs none.
func TestTheInspectorWorks(t *testing.T) {
	node, inspector := mcptest.Program(t, "node"), mcptest.Program(t, "mcp-inspector")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"http", "bridge"} {
		t.Run(way, func(t *testing.T) {
			r := start(t, nil)
			a := r.access(1)
			target := []string{"-e", "BESTOF_MCP_SOCKET=" + a.Socket, "-e", "BESTOF_MCP_TOKEN=" + a.Token.Reveal(), "-e", bridgeMark + "=1", self}
			if way == "http" {
				target = []string{withToken(t, a), "--transport", "http"}
			}
			inspect := func(args ...string) string {
				cmd := exec.Command(inspector, append(append([]string{"--cli"}, target...), args...)...)
				cmd.Env = []string{"PATH=" + filepath.Dir(node) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return string(out)
			}
			var list struct{ Tools []struct{ Name string } }
			out := inspect("--method", "tools/list")
			if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "mcp__docs__search" {
				t.Errorf("%s %v", out, err)
			}
			if out := inspect("--method", "tools/call", "--tool-name", "mcp__docs__search", "--tool-arg", "q=hey"); !strings.Contains(out, "found") {
				t.Error(out)
			}
			if calls := r.up.seen(); len(calls) != 1 || string(calls[0].Arguments) != `{"q":"hey"}` {
				t.Errorf("%s", sentArguments(calls))
			}
		})
	}
}

// withToken is the URL of a proxy that adds a candidate's token.
func withToken(t *testing.T, a gateway.Access) string {
	to, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	s := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Host, p.Out.URL.Scheme, p.Out.Host = to.Host, to.Scheme, to.Host
		p.Out.Header.Set("Authorization", "Bearer "+a.Token.Reveal())
	}})
	t.Cleanup(func() { s.Close(); transport.CloseIdleConnections() })
	return s.URL + "/mcp"
}
