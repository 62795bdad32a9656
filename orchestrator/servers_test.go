package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
	"github.com/bestof-dev/bestof/mcp/session"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/hook"
)

// library is a connection to servers that answer every call with its name.
type library struct {
	mu       sync.Mutex
	declared []mcp.Declared
	failed   []session.Failure
	calls    map[string]int
	closed   bool
}

func (l *library) Servers() []mcp.Declared   { return l.declared }
func (l *library) Failed() []session.Failure { return l.failed }
func (l *library) Close()                    { l.closed = true }

func (l *library) Call(_ context.Context, c mcp.Call) (mcp.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c.Server+"."+c.Tool]++
	return mcp.Result{Content: []json.RawMessage{textBlock("answer of " + c.Tool + string(c.Arguments))}}, nil
}

func entryOf(name string, safe bool) mcp.Entry {
	return mcp.Entry{Server: mcp.Server{Name: name, Transport: mcp.Stdio, Cmd: name, CandidateSafe: safe}, Scope: mcp.User}
}

var (
	schemas = mcp.Tool{Name: "schemas", InputSchema: json.RawMessage(`{"type":"object"}`)}
	search  = mcp.Tool{Name: "search", InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`)}
)

// share lets a stage share servers: docs is safe, deploy is not, ungranted waits
// for its grant, and gone does not connect.
func share(s *stage) (l *library, connected *[]string) {
	no := false
	ungranted := entryOf("ungranted", true)
	ungranted.Granted = &no
	l = &library{calls: map[string]int{}, failed: []session.Failure{{Name: "gone", Reason: "it exited with status 3", Said: "told to stderr"}}}
	connected = &[]string{}
	s.cfg.Servers = &Servers{
		Entries: []mcp.Entry{entryOf("deploy", false), entryOf("docs", true), entryOf("gone", true), ungranted},
		Connect: func(_ context.Context, servers []mcp.Server) Connection {
			for _, server := range servers {
				*connected = append(*connected, server.Name)
				if server.Name == "docs" {
					l.declared = append(l.declared, mcp.Declared{Server: server, Protocol: "2025-06-18", Tools: []mcp.Tool{schemas, search}})
				}
			}
			return l
		},
	}
	return l, connected
}

// ask calls one tool as an agent would, by what its environment says.
func ask(p *fake.Process, tool, arguments string) (string, error) {
	url, _ := sandbox.Lookup(p.Env, "BESTOF_MCP_URL")
	token, _ := sandbox.Lookup(p.Env, "BESTOF_MCP_TOKEN")
	post := func(session, body string) (*http.Response, error) {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		// A connection of its own: nothing of it is left when the agent ended.
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		return client.Do(req)
	}
	res, err := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if err != nil {
		return "", err
	}
	res.Body.Close()
	res, err = post(res.Header.Get("Mcp-Session-Id"), fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

func TestServersAreSharedByAllCandidates(t *testing.T) {
	const n = 4
	var mu sync.Mutex
	var said []string
	var briefs [][]byte
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{
		"check": check, self: plugin,
		"agent": func(ctx context.Context, p *fake.Process) fake.Exit {
			prompt, err := io.ReadAll(p.Stdin)
			if err != nil {
				return fake.Exit{Code: 1}
			}
			token, _ := sandbox.Lookup(p.Env, "BESTOF_MCP_TOKEN")
			fmt.Fprintln(p.Stdout, "my token is", token)
			for _, tool := range []string{"mcp__docs__search", "mcp__deploy__now", "mcp__ungranted__x", "mcp__none__x", "mcp__gone__x"} {
				answer, err := ask(p, tool, `{"q":"x"}`)
				if err != nil {
					fmt.Fprintln(p.Stderr, err)
					return fake.Exit{Code: 1}
				}
				mu.Lock()
				said = append(said, answer)
				mu.Unlock()
			}
			mu.Lock()
			briefs = append(briefs, prompt)
			mu.Unlock()
			return writes("right\n")(ctx, p)
		},
	})
	s := newStage(t, sb, slices.Repeat([]string{"agent"}, n)...)
	s.cfg.Settings.Network = sandbox.NetworkHost
	l, connected := share(s)
	var uses []mcp.Use
	s.cfg.Servers.Record = func(u mcp.Use) { mu.Lock(); defer mu.Unlock(); uses = append(uses, u) }
	doc := s.run(t)

	if !slices.Equal(*connected, []string{"docs", "gone"}) {
		t.Errorf("connected to %v", *connected)
	}
	if !l.closed {
		t.Error("the servers were not closed")
	}
	if l.calls["docs.schemas"] != 1 || l.calls["docs.search"] != n || len(l.calls) != 2 {
		t.Errorf("%d candidates cost %v", n, l.calls)
	}
	for _, want := range []string{"answer of search", "candidate_safe", "not granted", "mcp__none__x", "it exited with status 3"} {
		if got := strings.Count(strings.Join(said, "\n"), want); got != n {
			t.Errorf("%d answers say %q, want %d", got, want, n)
		}
	}
	if strings.Contains(strings.Join(said, "\n"), "told to stderr") || !slices.Contains(doc.Notices, "MCP server gone: it exited with status 3; it wrote to stderr: told to stderr") {
		t.Errorf("what a server wrote to its stderr is for the operator only: %q, %q", said, doc.Notices)
	}
	for _, b := range briefs {
		if !bytes.Contains(b, []byte("answer of schemas{}")) || !bytes.Equal(b, briefs[0]) {
			t.Errorf("the brief is not the same for all, or has no gathered answer:\n%s", b)
		}
	}
	if len(uses) != 1+n*5 {
		t.Errorf("%d calls were kept", len(uses))
	}
	checkTools(t, doc, n)
	log, err := os.ReadFile(filepath.Join(string(doc.Repo.Root), ".bestof", "runs", doc.Run, "candidates", "c1", "agent.log"))
	if err != nil || !strings.Contains(string(log), "my token is [redacted]") {
		t.Errorf("the log: %s, %v", log, err)
	}
}

func checkTools(t *testing.T, doc record.Document, n int) {
	t.Helper()
	k := doc.Tools
	if k == nil || !slices.Equal(k.Offered, []string{"mcp__docs__schemas", "mcp__docs__search"}) {
		t.Fatalf("offered: %+v", k)
	}
	if k.Gathered == nil || !slices.Equal(k.Gathered.Called, []string{"mcp__docs__schemas"}) || k.Gathered.Bytes == 0 {
		t.Errorf("gathered: %+v", k.Gathered)
	}
	why := map[string]string{"deploy": "candidate_safe", "docs": "", "gone": "it exited with status 3", "ungranted": "not granted"}
	for _, s := range k.Servers {
		if w, ok := why[s.Name]; !ok || !strings.Contains(s.Withheld, w) || (w == "") != (s.Withheld == "") || s.Connected != (s.Name == "docs") {
			t.Errorf("server %+v", s)
		}
		delete(why, s.Name)
	}
	if len(why) > 0 {
		t.Errorf("the record says nothing of %v", why)
	}
	for _, c := range doc.Candidates {
		want := []record.ToolUse{{Tool: "mcp__deploy__now", Refused: 1}, {Tool: "mcp__docs__search", Calls: 1}}
		if len(c.Tools) < 2 || c.Tools[0] != want[0] || c.Tools[1] != want[1] {
			t.Errorf("candidate %d of %d called %+v", c.Number, n, c.Tools)
		}
	}
}

// What a repository's own hook refuses never reaches a server, also not when it
// would be gathered for all candidates, of whom there is none to ask it for.
func TestHooksSeeCallsOfSharedServers(t *testing.T) {
	var answer string
	s := hookStage(t, map[string]fake.Program{
		"gate": fake.Say(`{"action":"deny","reason":"say please"}`, 0),
		"agent": func(ctx context.Context, p *fake.Process) fake.Exit {
			var err error
			if answer, err = ask(p, "mcp__docs__search", `{"q":"x"}`); err != nil {
				return fake.Exit{Code: 1}
			}
			return writes("right\n")(ctx, p)
		},
	}, at(hook.PreToolUse, "gate"))
	s.cfg.Settings.Network = sandbox.NetworkHost
	l, _ := share(s)
	doc := s.run(t)
	if !strings.Contains(answer, "say please") || len(l.calls) != 0 {
		t.Errorf("answer %s, calls %v", answer, l.calls)
	}
	if f := doc.Tools.Gathered.Failures; len(doc.Tools.Gathered.Called) != 0 || len(f) != 1 || f[0].Tool != "mcp__docs__schemas" || !strings.Contains(f[0].Reason, ": it was not called, since the hook of gate ") || strings.Contains(f[0].Reason, "refused") {
		t.Errorf("gathered: %+v", doc.Tools.Gathered)
	}
	if len(doc.Candidates[0].Hooks) != 1 || doc.Candidates[0].Hooks[0].Action != "deny" {
		t.Errorf("hooks: %+v", doc.Candidates[0].Hooks)
	}
}

// A built-in agent calls no tools, so nothing is started for it.
func TestBuiltinAgentsNeedNoServers(t *testing.T) {
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin})
	s := newStage(t, sb, "x")
	s.cfg.Seats[0].Agent = agent.Definition{Name: "mutate", Builtin: true, Command: []string{"internal", "agent", "mutate"}}
	_, connected := share(s)
	s.run(t)
	if len(*connected) != 0 {
		t.Errorf("connected to %v", *connected)
	}
}

// What a server that failed said may hold a token: no notice and no record has it.
func TestAServerThatFailedRevealsNothing(t *testing.T) {
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{
		"check": check, self: plugin, "agent": func(context.Context, *fake.Process) fake.Exit { return fake.Exit{} },
	})
	s := newStage(t, sb, "agent")
	l, _ := share(s)
	l.failed[0] = session.Failure{Name: "gone", Reason: "it answered with error -1: bad token the-secret-value"}
	doc := s.run(t)
	kept, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(doc.Notices, "MCP server gone: it answered with error -1: bad token [redacted]") || bytes.Contains(kept, []byte("the-secret-value")) {
		t.Errorf("%q\n%s", doc.Notices, kept)
	}
}

// What changed since it was reviewed is withheld, the rest is not.
func TestChangedToolsAreWithheld(t *testing.T) {
	e := entryOf("docs", true)
	e.Record = &mcp.Record{Print: mcp.Fingerprint(e.Server, []mcp.Tool{schemas, search})}
	now := search
	now.Description = "and deletes the index"
	l := &library{declared: []mcp.Declared{{Server: e.Server, Tools: []mcp.Tool{schemas, now, {Name: "fresh", InputSchema: schemas.InputSchema}}}}}
	got := offers([]mcp.Entry{e}, l)
	if len(got) != 1 || got[0].Withheld != "" || got[0].WithheldTools["schemas"] != "" ||
		!strings.Contains(got[0].WithheldTools["search"], "description changed") || !strings.Contains(got[0].WithheldTools["fresh"], "new since") {
		t.Errorf("%+v", got)
	}
}

func TestEquip(t *testing.T) {
	a := toolAccess{
		Files: []gateway.File{{Path: ".gemini/settings.json", Merge: true, Bytes: []byte(`{"mcpServers":{"docs":{}}}`)}, {Path: ".codex/config.toml", Bytes: []byte("ours")}, {Path: "new", Bytes: []byte("new")}},
		Env:   map[string]string{"BESTOF_MCP_URL": "u"}, Args: []string{"--mcp-config", "f"},
	}
	preset := map[string][]byte{".gemini/settings.json": []byte(`{"privacy":{"usageStatisticsEnabled":false}}`), ".codex/config.toml": []byte("the operator's")}
	inv := agent.Invocation{Argv: []string{"gemini"}, Files: preset, Env: map[string]string{"A": "b"}}
	if err := a.equip(&inv); err != nil {
		t.Fatal(err)
	}
	var merged map[string]any
	if err := json.Unmarshal(inv.Files[".gemini/settings.json"], &merged); err != nil || len(merged) != 2 {
		t.Errorf("merged %v, %v", merged, err)
	}
	if string(inv.Files[".codex/config.toml"]) != "the operator's" || string(inv.Files["new"]) != "new" || len(preset) != 2 {
		t.Errorf("files %q", inv.Files)
	}
	if inv.Env["BESTOF_MCP_URL"] != "u" || inv.Env["A"] != "b" || !slices.Equal(inv.Argv, []string{"gemini", "--mcp-config", "f"}) {
		t.Errorf("%v %v", inv.Env, inv.Argv)
	}
	inv.Files = map[string][]byte{".gemini/settings.json": []byte("not JSON")}
	if err := a.equip(&inv); err == nil {
		t.Error("settings that are no JSON were taken")
	}
}
