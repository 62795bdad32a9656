package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
)

func TestOnlyTheHolderOfATokenIsServed(t *testing.T) {
	r := start(t, nil)
	port := r.access(1).URL[len("http://127.0.0.1:") : len(r.access(1).URL)-len("/mcp")]
	list := post{headers: map[string]string{}, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}
	for _, c := range []struct {
		name   string
		change func(*post)
		status int
	}{
		{"no token", func(p *post) { p.headers["Authorization"] = "" }, 401},
		{"a wrong token", func(p *post) { p.token = "nobody's" }, 401},
		{"another scheme", func(p *post) { p.headers["Authorization"] = "Basic " + r.access(1).Token.Reveal() }, 401},
		{"a name that was rebound", func(p *post) { p.headers["Host"] = "evil.example:" + port }, 403},
		{"our host without its port", func(p *post) { p.headers["Host"] = "127.0.0.1" }, 403},
		{"a browser", func(p *post) { p.headers["Origin"] = "http://127.0.0.1:" + port }, 403},
		{"a browser's null", func(p *post) { p.headers["Origin"] = "null" }, 403},
		{"another path", func(p *post) { p.path = "/../x" }, 404},
		{"a server that is not there", func(p *post) { p.path = "/nothing" }, 404},
		{"a path below a server", func(p *post) { p.path = "/docs/x" }, 404},
		{"GET", func(p *post) { p.method = "GET" }, 405},
		{"another type", func(p *post) { p.headers["Content-Type"] = "text/plain" }, 415},
		{"no session", func(p *post) {}, 400},
		{"an unknown session", func(p *post) { p.headers["Mcp-Session-Id"] = "x" }, 404},
		{"a body over the limit", func(p *post) { p.body = strings.Repeat(" ", 5<<20) }, 413},
	} {
		p := list
		p.headers = map[string]string{}
		c.change(&p)
		if status, _, body := r.send(1, p); status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, status, body, c.status)
		}
	}
	p := list
	p.headers = r.session(1)
	p.headers["Host"] = "localhost:" + port
	if status, _, body := r.send(1, p); status != 200 {
		t.Errorf("localhost: %d %s", status, body)
	}
}

// hazards: a sibling's token is the sibling, whoever holds it, and its session
// is nobody else's.
func TestASiblingsTokenIsTheSibling(t *testing.T) {
	r := start(t, nil)
	p := callModern("mcp__docs__search", `{"q":"x"}`)
	p.token = r.access(2).Token.Reveal()
	if _, _, body := r.send(1, p); !strings.Contains(body, "found") {
		t.Error(body)
	}
	if u := r.uses.all(); len(u) != 1 || u[0].Candidate != 2 {
		t.Errorf("used as %+v", u)
	}
	if r.access(1).Token == r.access(2).Token {
		t.Error("two candidates have one token")
	}
	session := r.session(2)
	if status, _, _ := r.send(1, callLegacy(session, "1", "mcp__docs__search", "{}")); status != 404 {
		t.Errorf("candidate 1 in candidate 2's session: %d", status)
	}
}

func TestTokensDoNotPrint(t *testing.T) {
	r := start(t, nil)
	a := r.access(1)
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v %#v %s %q %s", a, a, a, a.Token, a.Token, b)
	if strings.Contains(shown, a.Token.Reveal()) || len(a.Token.Reveal()) < 40 {
		t.Error(shown)
	}
}

func TestBothErasListOnlyWhatIsOffered(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *upstream) {
		c.Offers = append(c.Offers, gateway.Offer{Server: "half", Tools: []mcp.Tool{tool("a"), tool("b")}, WithheldTools: map[string]string{"b": gateway.Changed}})
		c.Locals = []gateway.Local{{Tool: tool("local"), Server: "own"}}
	})
	want := []string{"mcp__docs__search", "mcp__half__a", "mcp__own__local"}
	if !slices.Equal(r.Offered(), want) {
		t.Errorf("offered: %v", r.Offered())
	}
	modern := post{headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`}
	legacy := post{headers: r.session(1), body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`}
	for _, p := range []post{modern, legacy} {
		if got := listed(r, p); !slices.Equal(got, want) {
			t.Errorf("listed: %v", got)
		}
	}
	modern.path = "/half"
	if got := listed(r, modern); !slices.Equal(got, []string{"a"}) {
		t.Errorf("/mcp/half lists %v", got)
	}
	modern.path = "/deploy"
	if got := listed(r, modern); len(got) != 0 {
		t.Errorf("/mcp/deploy lists %v", got)
	}
}

func listed(r *rig, p post) []string {
	r.t.Helper()
	_, _, body := r.send(1, p)
	var m struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		r.t.Fatalf("%s: %v", body, err)
	}
	names := []string{}
	for _, one := range m.Result.Tools {
		names = append(names, one.Name)
	}
	return names
}

func TestWithheldToolsSayWhy(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *upstream) {
		c.Offers = append(c.Offers,
			gateway.Offer{Server: "half", Tools: []mcp.Tool{tool("a"), tool("b")}, WithheldTools: map[string]string{"b": gateway.Changed}},
			gateway.Offer{Server: "silent", Withheld: "it is not connected"})
	})
	for name, want := range map[string]string{
		"mcp__deploy__ship":    "not marked candidate_safe in mcp.toml",
		"mcp__deploy__other":   "not marked candidate_safe in mcp.toml",
		"mcp__half__b":         "has changed since it was granted",
		"mcp__silent__x":       "it is not connected",
		"mcp__docs__nothing":   "there is no tool mcp__docs__nothing; there is: mcp__docs__search",
		"search":               "there is no tool search",
		"mcp__docs__se\\narch": `there is no tool mcp__docs__se\u{a}arch`,
	} {
		p := callModern(name, "{}")
		if strings.Contains(name, `\n`) {
			p.headers["Mcp-Name"] = "=?base64?bWNwX19kb2NzX19zZQphcmNo?="
		}
		_, _, body := r.send(1, p)
		if said, failed := tells(t, body); !failed || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", name, said, want)
		}
	}
	p := callModern("ship", "{}")
	p.path = "/deploy"
	if _, _, body := r.send(1, p); !strings.Contains(body, "candidate_safe") {
		t.Error(body)
	}
	if calls := r.up.seen(); len(calls) != 0 {
		t.Errorf("calls of what is withheld: %v", calls)
	}
	for _, u := range r.uses.all() {
		if u.Outcome != "withheld" && u.Outcome != "unknown" {
			t.Errorf("recorded as %+v", u)
		}
	}
}

func TestNamesBelowAServerBecomeTheExactWireName(t *testing.T) {
	long := strings.Repeat("tool", 30)
	names := []mcp.Route{{Server: "a b", Tool: "x.y"}, {Server: "a-b", Tool: "z"}, {Server: strings.Repeat("s", 100), Tool: long}, {Server: "docs", Tool: "a__b"}}
	r := start(t, func(c *gateway.Config, up *upstream) {
		c.Offers = nil
		for _, n := range names {
			c.Offers = append(c.Offers, gateway.Offer{Server: n.Server, Tools: []mcp.Tool{tool(n.Tool)}})
			up.tools[n] = answers(n.Server + "/" + n.Tool)
		}
	})
	for _, n := range names {
		wireName := mcp.WireName(n.Server, n.Tool)
		part, short, _ := mcp.SplitWireName(wireName)
		if !slices.Contains(r.access(1).Servers, part) {
			t.Errorf("%s is not among the servers to configure: %v", part, r.access(1).Servers)
		}
		p := callModern(short, `{"q":"1"}`)
		p.path = "/" + part
		_, _, body := r.send(1, p)
		if said, _ := tells(t, body); said != n.Server+"/"+n.Tool {
			t.Errorf("%s as %s of %s led to %q", wireName, short, part, said)
		}
	}
}

func TestACollidingNameLeadsNowhere(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *upstream) {
		c.Locals = []gateway.Local{{Server: "docs", Tool: tool("search"), Call: func(context.Context, int, json.RawMessage) (mcp.Result, error) {
			t.Error("the local tool was called")
			return mcp.Result{}, nil
		}}}
	})
	if !slices.Equal(r.Colliding(), []string{"mcp__docs__search"}) || len(r.Offered()) != 0 {
		t.Errorf("colliding %v, offered %v", r.Colliding(), r.Offered())
	}
	_, _, body := r.send(1, callModern("mcp__docs__search", "{}"))
	if said, failed := tells(t, body); !failed || !strings.Contains(said, "two tools claim this name") {
		t.Error(said)
	}
	if len(r.up.seen()) != 0 {
		t.Error("the server's tool was called")
	}
}

func TestSocketsAreTheirOwnersOnly(t *testing.T) {
	r := start(t, nil)
	a := r.access(2)
	info, err := os.Stat(a.Socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	if info, err = os.Stat(filepath.Dir(a.Socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", a.Socket)
	}}}
	defer client.CloseIdleConnections()
	for host, status := range map[string]int{"localhost": 401, "evil.example": 403} {
		resp, err := client.Post("http://"+host+"/mcp", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: %s", host, resp.Status)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.Socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestSocketDirectoriesThatCannotBe(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(t.TempDir(), strings.Repeat("x", 100)): "longer than 100 bytes",
		open: "mode 0700",
		link: "mode 0700",
	} {
		_, err := gateway.New(gateway.Config{Upstream: &upstream{t: t}, Now: nowhere, Candidates: 1, SocketDir: dir})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
