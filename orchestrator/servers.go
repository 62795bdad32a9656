package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
	"github.com/bestof-dev/bestof/mcp/session"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/hook"
)

// Servers are the operator's MCP servers. A run connects to those that
// candidates may use once, and shares the connections with all of them.
type Servers struct {
	Entries []mcp.Entry
	Connect func(context.Context, []mcp.Server) Connection
	Record  func(mcp.Use) // keeps every call; must not block; may be nil
	Limits  gateway.Limits
}

// A Connection is servers that were connected to; see mcp/session.
type Connection interface {
	gateway.Upstream
	Failed() []session.Failure
	Close()
}

// tools are what a run offers to its candidates. The nil value offers nothing.
type tools struct {
	gateway    *gateway.Gateway
	connection Connection // nil when no server was connected
	self       string
	sealed     bool // programs see only what is bound
	loopback   bool // with the host's network they reach its loopback
}

// toolServer is what the tools of a plugin's package are offered under.
func toolServer(plugin string) string { return "plugin-" + plugin }

// shareable tells the entries that are connected to from those that are
// withheld without having been, each with the reason.
func shareable(entries []mcp.Entry) (connect []mcp.Server, withheld []gateway.Offer) {
	for _, e := range entries {
		switch reason := e.Withheld(); {
		case !e.CandidateSafe:
			withheld = append(withheld, gateway.Offer{Server: e.Name, Withheld: gateway.NotCandidateSafe})
		case reason != "":
			withheld = append(withheld, gateway.Offer{Server: e.Name, Withheld: reason})
		default:
			connect = append(connect, e.Server)
		}
	}
	return connect, withheld
}

// Words say in one line which servers candidates share and which are withheld.
func (s *Servers) Words() string {
	if s == nil || len(s.Entries) == 0 {
		return "no servers"
	}
	connect, withheld := shareable(s.Entries)
	var names, kept []string
	for _, c := range connect {
		names = append(names, c.Name)
	}
	for _, o := range withheld {
		kept = append(kept, o.Server)
	}
	text := "shared: " + cmp.Or(strings.Join(names, ", "), "none")
	if len(kept) > 0 {
		text += "; withheld: " + strings.Join(kept, ", ")
	}
	return text
}

// offers decides what candidates see of the servers that were connected to.
func offers(entries []mcp.Entry, c Connection) []gateway.Offer {
	changed := map[mcp.Route]string{}
	declared := c.Servers()
	for _, d := range declared {
		i := slices.IndexFunc(entries, func(e mcp.Entry) bool { return e.Name == d.Server.Name })
		if i < 0 {
			changed[mcp.Route{Server: d.Server.Name}] = "it is not configured"
			continue
		}
		_, withheld := entries[i].Admit(d.Tools)
		for _, w := range withheld {
			changed[mcp.Route{Server: d.Server.Name, Tool: w.Name}] = w.Reason
		}
	}
	all := gateway.Offers(declared, changed)
	for _, f := range c.Failed() {
		all = append(all, gateway.Offer{Server: f.Name, Withheld: "it is not connected: " + f.Reason})
	}
	return all
}

// connecting begins to connect while the base is made. The function that it
// returns waits for the end; it has to be called.
func (t *turn) connecting(ctx context.Context) func() Connection {
	if t.Servers == nil || !slices.ContainsFunc(t.Seats, func(s Seat) bool { return !s.Agent.Builtin }) {
		return func() Connection { return nil } // a built-in agent calls no tools
	}
	servers, _ := shareable(t.Servers.Entries)
	if len(servers) == 0 {
		return func() Connection { return nil }
	}
	connected := make(chan Connection, 1)
	go func() { connected <- t.Servers.Connect(ctx, servers) }()
	return func() Connection { return <-connected }
}

// openTools offers candidates what they may use, and gathers once what all of
// them would ask. A fault costs the tools, not the run.
func (t *turn) openTools(ctx context.Context, c Connection) {
	tooling := Tooling{t}
	g := gateway.Config{
		Upstream: nobody{}, Hooks: toolHooks{tooling}, Locals: slices.Concat(locals(tooling), tooling.door()), Candidates: len(t.Seats),
		SocketDir: filepath.Join(t.work.Dir(), "mcp"), Record: t.useTool, Run: t.Record.ID(), Version: t.Version, Now: t.Now,
	}
	kept := &record.Tools{Servers: []record.ToolServer{}, Offered: []string{}, OneFile: t.recordOneFile()}
	if t.OneFile != nil {
		for _, line := range t.OneFile.Notices {
			t.notice("%s", line)
		}
	}
	if s := t.Servers; s != nil {
		g.Limits = s.Limits
		_, g.Offers = shareable(s.Entries)
		if c != nil {
			g.Upstream = c
			g.Offers = append(g.Offers, offers(s.Entries, c)...)
		}
	}
	slices.SortFunc(g.Offers, func(a, b gateway.Offer) int { return strings.Compare(a.Server, b.Server) })
	kept.Servers = t.recordServers(g.Offers, c)
	if c == nil && len(g.Locals) == 0 {
		if len(kept.Servers) > 0 {
			t.update(func(d *record.Document) { d.Tools = kept })
		}
		return
	}
	opened, err := gateway.New(g)
	if err != nil {
		t.notice("candidates are offered no tools: %v", err)
		return
	}
	t.offered = tools{gateway: opened, connection: c, self: t.Self, sealed: t.Settings.Isolation.Filesystem, loopback: t.Settings.Isolation.Loopback}
	var secrets []string
	for _, s := range t.Seats {
		if a, err := opened.Access(int(s.Number)); err == nil {
			secrets = append(secrets, a.Token.Reveal())
		}
	}
	t.Redactor = t.Redactor.With(secrets)
	kept.Offered, kept.Colliding = opened.Offered(), opened.Colliding()
	for _, name := range kept.Colliding {
		t.notice("the tool name %s leads nowhere: two tools claim it", name)
	}
	if c != nil {
		t.emit(event.Step{Name: "tools", Text: "asking MCP servers what all candidates would ask"})
		gathered := opened.Prefetch(ctx)
		kept.Gathered = t.recordGathered(gathered)
		if gathered.Text != "" {
			t.context = append(t.context, candidate.Context{Label: "gathered once from the operator's MCP servers", Text: t.Redactor.String(gathered.Text)})
		}
	}
	t.update(func(d *record.Document) { d.Tools = kept })
	t.emit(event.Step{Name: "tools", Done: true, Text: toolsText(kept)})
}

// recordServers says for the record what became of every configured server,
// and tells the user what failed.
func (t *turn) recordServers(all []gateway.Offer, c Connection) []record.ToolServer {
	declared := map[string]mcp.Declared{}
	if c != nil {
		for _, d := range c.Servers() {
			declared[d.Server.Name] = d
		}
	}
	out := []record.ToolServer{}
	for _, o := range all {
		s := record.ToolServer{Name: o.Server, Withheld: t.Redactor.String(o.Withheld), WithheldTools: o.WithheldTools, Tools: len(o.Tools) - len(o.WithheldTools)}
		if d, ok := declared[o.Server]; ok {
			s.Connected, s.ConnectedMS, s.Protocol = true, d.Connected.Milliseconds(), d.Protocol
		}
		if s.Withheld != "" {
			s.Tools = 0
		}
		out = append(out, s)
		if len(o.WithheldTools) > 0 {
			names := slices.Sorted(maps.Keys(o.WithheldTools))
			t.notice("MCP server %s: %s withheld: %s", o.Server, firstFew(names), o.WithheldTools[names[0]])
		}
	}
	if c != nil {
		for _, f := range c.Failed() {
			t.notice("MCP server %s: %s", f.Name, t.Redactor.String(f.Words()))
		}
	}
	return out
}

func (t *turn) recordGathered(g gateway.Prefetched) *record.Gathered {
	kept := &record.Gathered{Called: g.Called, Bytes: len(g.Text), Failures: []record.GatherFailure{}}
	for _, f := range g.Failures {
		kept.Failures = append(kept.Failures, record.GatherFailure{Tool: f.Tool, Reason: t.Redactor.String(f.Reason)})
	}
	return kept
}

func toolsText(k *record.Tools) string {
	text := fmt.Sprintf("%d tools offered to candidates", len(k.Offered))
	if k.Gathered != nil && len(k.Gathered.Called) > 0 {
		text += fmt.Sprintf(", %d asked once for all", len(k.Gathered.Called))
	}
	return text
}

// closeTools ends what candidates could call.
func (t *turn) closeTools() {
	if g := t.offered.gateway; g != nil {
		if err := g.Close(); err != nil {
			t.notice("%v", err)
		}
	}
}

// useTool keeps a call, and counts it for its candidate.
func (t *turn) useTool(u mcp.Use) {
	if t.Servers != nil && t.Servers.Record != nil {
		t.Servers.Record(u)
	}
	i := slices.IndexFunc(t.Seats, func(s Seat) bool { return int(s.Number) == u.Candidate })
	if i < 0 {
		return
	}
	name := mcp.WireName(u.Server, u.Tool)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used == nil {
		t.used = map[int]map[string]*record.ToolUse{}
	}
	if t.used[i] == nil {
		t.used[i] = map[string]*record.ToolUse{}
	}
	use := t.used[i][name]
	if use == nil {
		const most = 1000
		if len(t.used[i]) >= most {
			return // names that a candidate makes up are not kept without end
		}
		use = &record.ToolUse{Tool: name}
		t.used[i][name] = use
	}
	switch u.Outcome {
	case string(mcp.Withheld), string(mcp.Unknown), string(mcp.OverLimit):
		use.Refused++
	case "ok":
		use.Calls++
	default:
		use.Calls++
		use.Failed++
	}
}

// usedTools is what a candidate called, sorted by name.
func (t *turn) usedTools(i int) []record.ToolUse {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []record.ToolUse
	for _, name := range slices.Sorted(maps.Keys(t.used[i])) {
		out = append(out, *t.used[i][name])
	}
	return out
}

// locals are the tools of plugins' packages.
func locals(g Tooling) []gateway.Local {
	var all []gateway.Local
	for _, p := range g.Tools() {
		tool := mcp.Tool{Name: p.Name, Description: p.Description, InputSchema: p.Schema}
		if p.Risk == "destructive" {
			yes := true
			tool.Annotations = &mcp.Annotations{Destructive: &yes}
		}
		all = append(all, gateway.Local{Server: toolServer(p.Plugin), Tool: tool, Call: func(ctx context.Context, candidate int, arguments json.RawMessage) (mcp.Result, error) {
			r, err := g.Call(ctx, candidate, p.Plugin, p.Name, arguments)
			if err != nil {
				return mcp.Result{}, &mcp.CallError{Server: toolServer(p.Plugin), Tool: p.Name, Kind: mcp.Unavailable, Reason: err.Error()}
			}
			return mcp.Result{Content: []json.RawMessage{textBlock(r.Text)}, IsError: r.IsError}, nil
		}})
	}
	return all
}

func textBlock(text string) json.RawMessage {
	b, err := json.Marshal(map[string]string{"type": "text", "text": text})
	if err != nil {
		return json.RawMessage(`{"type":"text","text":""}`)
	}
	return b
}

// toolHooks asks the hooks of the run about candidates' calls. Before there are
// candidates no hook can be asked, so what one would decide about is not
// gathered for all of them.
type toolHooks struct{ tooling Tooling }

func (h toolHooks) Before(ctx context.Context, c gateway.ToolCall) gateway.Decision {
	if c.Candidate == 0 {
		for _, k := range h.tooling.turn.Hooks {
			if k.Event == hook.PreToolUse && k.Matcher.Match(c.Tool) {
				return gateway.Decision{Deny: true, Unasked: true, Reason: fmt.Sprintf("it was not called, since the hook of %s at PreToolUse decides about it when a candidate calls it", k.From)}
			}
		}
		return gateway.Decision{}
	}
	d := h.tooling.Before(ctx, ToolCall(c))
	return gateway.Decision{Deny: d.Deny, Reason: d.Reason, Arguments: d.Arguments}
}

func (h toolHooks) After(ctx context.Context, c gateway.ToolCall, r mcp.Result, err error) {
	if c.Candidate == 0 {
		return
	}
	result := ToolResult{Text: gateway.Render(r), IsError: r.IsError}
	if err != nil {
		result = ToolResult{Text: err.Error(), IsError: true}
	}
	h.tooling.After(ctx, ToolCall(c), result)
}

// nobody is the upstream of a run without servers.
type nobody struct{}

func (nobody) Servers() []mcp.Declared { return nil }

func (nobody) Call(_ context.Context, c mcp.Call) (mcp.Result, error) {
	return mcp.Result{}, &mcp.CallError{Server: c.Server, Tool: c.Tool, Kind: mcp.Unknown, Reason: "no such server is connected"}
}

// socketPlace is where a candidate finds its socket in a sandbox that shows
// only what is bound.
const socketPlace = "/run/bestof/mcp.sock"

// A toolAccess is how one candidate reaches its tools. It is data.
type toolAccess struct {
	Files []gateway.File
	Env   map[string]string
	Args  []string // at the end of the agent's command
	Binds []sandbox.Bind
}

// access is the way of one candidate: over loopback where it shares that with
// the host, and otherwise through a socket and a bridge. home is its HOME as it
// sees it.
func (o tools) access(s Seat, network sandbox.Network, home string) (toolAccess, error) {
	if o.gateway == nil {
		return toolAccess{}, nil
	}
	a, err := o.gateway.Access(int(s.Number))
	if err != nil {
		return toolAccess{}, err
	}
	var t toolAccess
	if o.sealed && a.Socket != "" {
		t.Binds = []sandbox.Bind{{Source: a.Socket, Target: socketPlace}}
		a.Socket = socketPlace
	}
	switch {
	case network != sandbox.NetworkNone && o.loopback:
		t.Files = gateway.Configs(a)
	case a.Socket == "":
		return toolAccess{}, errors.New("no socket can be made for its tools: choose a shorter --work-dir")
	default:
		t.Files = gateway.BridgeConfigs(a, o.self)
	}
	t.Env, t.Args = gateway.Environ(a, home), gateway.Arguments(s.Agent.Name, home)
	return t, nil
}

// equip adds the access to a planned start. A file that the operator gives the
// agent is added to where it is settings, and left alone otherwise.
func (a toolAccess) equip(inv *agent.Invocation) error {
	files, env := map[string][]byte{}, map[string]string{}
	maps.Copy(files, inv.Files)
	maps.Copy(env, inv.Env)
	for _, f := range a.Files {
		have, there := files[f.Path]
		switch {
		case !there:
			files[f.Path] = f.Bytes
		case f.Merge:
			merged, err := gateway.MergeJSON(have, f.Bytes)
			if err != nil {
				return fmt.Errorf("add its tools to its %s: %w", f.Path, err)
			}
			files[f.Path] = merged
		}
	}
	maps.Copy(env, a.Env)
	inv.Files, inv.Env, inv.Argv = files, env, slices.Concat(inv.Argv, a.Args)
	return nil
}
