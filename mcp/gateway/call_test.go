package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
)

func nowhere() time.Time { return time.Unix(0, 0) }

// Results keep their bytes: what we do not know, escapes, order, numbers.
func TestResultsPassThroughByteExact(t *testing.T) {
	blocks := []string{
		`{"type":"text","text":"<a & b>\u003c \u2028","annotations":{"audience":["user"],"priority":0.10}}`,
		`{"type":"hologram","zz":1.0,"aa":{"deep":[1e3,null]},"_meta":{"x":1}}`,
		`{"z":1,"a":2,"z":3}`,
	}
	structured, meta := `{"n":12345678901234567890,"s":"<"}`, `{"vendor/x":"<y>"}`
	r := start(t, func(c *gateway.Config, up *upstream) {
		up.tools[mcp.Route{Server: "docs", Tool: "search"}] = func(context.Context, mcp.Call) (mcp.Result, error) {
			res := mcp.Result{Structured: json.RawMessage(structured), Meta: json.RawMessage(meta)}
			for _, b := range blocks {
				res.Content = append(res.Content, json.RawMessage(b))
			}
			return res, nil
		}
	})
	tail := `"content":[` + strings.Join(blocks, ",") + `],"structuredContent":` + structured
	_, _, body := r.send(1, callLegacy(r.session(1), `"id<1>"`, "mcp__docs__search", `{"q":"1"}`))
	if want := `{"jsonrpc":"2.0","id":"id<1>","result":{` + tail + `,"_meta":` + meta + `}}`; body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	_, _, body = r.send(1, callModern("mcp__docs__search", `{"q":"1"}`))
	want := `{"jsonrpc":"2.0","id":7,"result":{` + tail +
		`,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bestof","version":"1.2.3"},"vendor/x":"<y>"}}}`
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func TestArgumentsPassThroughByteExact(t *testing.T) {
	r := start(t, nil)
	arguments := `{"q":"<x>","n":1.50,"deep":{"b":[{}],"a":null}}`
	r.send(1, callModern("mcp__docs__search", arguments))
	r.send(1, post{headers: callModern("mcp__docs__search", "").headers, body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"mcp__docs__search",` + modernMeta + `}}`})
	calls := r.up.seen()
	if len(calls) != 2 || string(calls[0].Arguments) != arguments || string(calls[1].Arguments) != "{}" {
		t.Errorf("%d calls: %s", len(calls), sentArguments(calls))
	}
}

// hazards: a hook and a server that read the same bytes differently could be
// played against each other.
func TestMessagesThatParsersReadDifferentlyAreRefused(t *testing.T) {
	r := start(t, nil)
	for _, arguments := range []string{`{"q":"safe","q":"evil"}`, `{"q":{"a":1,"a":2}}`, "{\"q\":\"\xff\"}", `[]`, `{"q":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`} {
		status, _, body := r.send(1, callModern("mcp__docs__search", arguments))
		if status != 400 || !strings.Contains(body, `"error"`) {
			t.Errorf("%.40s: %d %s", arguments, status, body)
		}
	}
	if calls := r.up.seen(); len(calls) != 0 {
		t.Errorf("%d calls were made", len(calls))
	}
}

// holding is a tool that says when it began and ends when told or canceled.
func holding() (do func(context.Context, mcp.Call) (mcp.Result, error), began chan struct{}, release chan struct{}, canceled chan struct{}) {
	began, release, canceled = make(chan struct{}, 8), make(chan struct{}), make(chan struct{}, 8)
	return func(ctx context.Context, c mcp.Call) (mcp.Result, error) {
		began <- struct{}{}
		select {
		case <-release:
			return says("done"), nil
		case <-ctx.Done():
			canceled <- struct{}{}
			return mcp.Result{}, &mcp.CallError{Server: c.Server, Tool: c.Tool, Kind: mcp.Canceled, Reason: "canceled", Sent: true}
		}
	}, began, release, canceled
}

func withSlow(do func(context.Context, mcp.Call) (mcp.Result, error)) func(*gateway.Config, *upstream) {
	return func(c *gateway.Config, up *upstream) {
		c.Offers = append(c.Offers, gateway.Offer{Server: "s", Tools: []mcp.Tool{tool("slow")}})
		up.tools[mcp.Route{Server: "s", Tool: "slow"}] = do
	}
}

func TestARetryOfTheSameRequestIsOneCall(t *testing.T) {
	do, began, release, _ := holding()
	r := start(t, withSlow(do))
	p := callLegacy(r.session(1), "5", "mcp__s__slow", "{}")
	lost, hangUp := context.WithCancel(context.Background())
	gone := make(chan error, 1)
	go func() {
		q := p
		q.ctx = lost
		_, _, _, err := r.try(1, q)
		gone <- err
	}()
	<-began
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// The connection is lost; the call goes on, and the retry joins it.
	answers := make(chan string, 2)
	for range 2 {
		go func() {
			_, _, body, err := r.try(1, p)
			answers <- body + fmt.Sprint(err)
		}()
	}
	close(release)
	first, second := <-answers, <-answers
	if first != second || !strings.Contains(first, "done") {
		t.Errorf("%s\n%s", first, second)
	}
	// Also when it has long been answered.
	if _, _, body := r.send(1, p); !strings.Contains(body, "done") {
		t.Error(body)
	}
	if n := len(r.up.seen()); n != 1 {
		t.Errorf("%d calls", n)
	}
	if u := r.uses.all(); len(u) != 1 || u[0].Outcome != "ok" {
		t.Errorf("recorded: %+v", u)
	}
}

// What a session remembers is bounded: the oldest answers go first.
func TestOldAnswersAreForgotten(t *testing.T) {
	r := start(t, nil)
	session := r.session(1)
	for id := range 70 {
		r.send(1, callLegacy(session, fmt.Sprint(id), "mcp__docs__search", "{}"))
	}
	r.send(1, callLegacy(session, "69", "mcp__docs__search", "{}"))
	if n := len(r.up.seen()); n != 70 {
		t.Errorf("%d calls after a retry of the newest", n)
	}
	r.send(1, callLegacy(session, "0", "mcp__docs__search", "{}"))
	if n := len(r.up.seen()); n != 71 {
		t.Errorf("%d calls after a retry of the oldest", n)
	}
}

func TestOldSessionsGiveWay(t *testing.T) {
	r := start(t, nil)
	first := r.session(1)
	other := r.session(2)
	for range 32 {
		r.session(1)
	}
	if status, _, _ := r.send(1, post{headers: first, body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`}); status != 404 {
		t.Errorf("the oldest session: %d", status)
	}
	if status, _, body := r.send(2, post{headers: other, body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`}); status != 200 || body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("the sibling's: %d %s", status, body)
	}
}

func TestMethodsThatAreNotThere(t *testing.T) {
	r := start(t, nil)
	session := r.session(1)
	for _, c := range []struct {
		p      post
		status int
		want   string
	}{
		{post{headers: session, body: `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`}, 200, "-32601"},
		{post{headers: session, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`}, 200, "-32602"},
		{post{headers: session, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`}, 200, "-32602"},
		{post{headers: session, body: `{"jsonrpc":"2.0","method":"notifications/x"}`}, 202, ""},
		{post{headers: session, body: `{"jsonrpc":"2.0","id":1,"result":{}}`}, 202, ""},
		{post{headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "ping"}, body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + modernMeta + `}}`}, 404, "-32601"},
		{post{headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28"}, body: `{"jsonrpc":"2.0","id":1,"result":{}}`}, 400, "-32600"},
		{post{headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}, body: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`}, 200, `"notifications":{}`},
		{post{method: "DELETE", headers: map[string]string{"Mcp-Protocol-Version": "2026-07-28"}}, 405, ""},
	} {
		if status, _, body := r.send(1, c.p); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.p.body, status, body)
		}
	}
}

func TestAnIdInUseIsNotTakenForSomethingElse(t *testing.T) {
	do, began, release, _ := holding()
	r := start(t, withSlow(do))
	session := r.session(1)
	first := make(chan string)
	go func() {
		_, _, body, _ := r.try(1, callLegacy(session, "5", "mcp__s__slow", "{}"))
		first <- body
	}()
	<-began
	if status, _, body := r.send(1, callLegacy(session, "5", "mcp__docs__search", "{}")); status != 400 || !strings.Contains(body, "under way") {
		t.Errorf("%d %s", status, body)
	}
	close(release)
	<-first
	if _, _, body := r.send(1, callLegacy(session, "5", "mcp__docs__search", "{}")); !strings.Contains(body, "found") {
		t.Error(body)
	}
}

func TestCancellationReachesTheServer(t *testing.T) {
	t.Run("hanging up, 2026-07-28", func(t *testing.T) {
		do, began, _, canceled := holding()
		r := start(t, withSlow(do))
		ctx, hangUp := context.WithCancel(context.Background())
		gone := make(chan struct{})
		go func() {
			p := callModern("mcp__s__slow", "{}")
			p.ctx = ctx
			r.try(1, p)
			close(gone)
		}()
		<-began
		hangUp()
		<-canceled
		<-gone
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if u := r.uses.all(); len(u) != 1 || u[0].Outcome != "canceled" || len(r.up.seen()) != 1 {
			t.Errorf("%+v, %d calls", u, len(r.up.seen()))
		}
	})
	t.Run("notifications/cancelled", func(t *testing.T) {
		do, began, _, canceled := holding()
		r := start(t, withSlow(do))
		session := r.session(1)
		answer := make(chan string)
		go func() {
			_, _, body, _ := r.try(1, callLegacy(session, "5", "mcp__s__slow", "{}"))
			answer <- body
		}()
		<-began
		status, _, _ := r.send(1, post{headers: session, body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`})
		<-canceled
		if said, failed := tells(t, <-answer); status != 202 || !failed || !strings.Contains(said, "canceled") {
			t.Errorf("%d %s", status, said)
		}
	})
	t.Run("the end of the session", func(t *testing.T) {
		do, began, _, canceled := holding()
		r := start(t, withSlow(do))
		session := r.session(1)
		answer := make(chan string)
		go func() {
			_, _, body, _ := r.try(1, callLegacy(session, "5", "mcp__s__slow", "{}"))
			answer <- body
		}()
		<-began
		status, _, _ := r.send(1, post{method: http.MethodDelete, headers: session})
		<-canceled
		<-answer
		if again, _, _ := r.send(1, post{method: http.MethodDelete, headers: session}); status != 204 || again != 404 {
			t.Errorf("%d, then %d", status, again)
		}
	})
}

func TestProgressPassesThroughUnderTheCandidatesToken(t *testing.T) {
	r := start(t, func(c *gateway.Config, up *upstream) {
		up.tools[mcp.Route{Server: "docs", Tool: "search"}] = func(_ context.Context, call mcp.Call) (mcp.Result, error) {
			if call.Progress != nil {
				call.Progress(mcp.Progress{Progress: 1, Total: 2, Message: "half <way>"})
				call.Progress(mcp.Progress{Progress: 2, Total: 2})
			}
			return says("found"), nil
		}
	})
	p := callModern("mcp__docs__search", `{"q":"x"}`)
	p.body = strings.Replace(p.body, `"_meta":{`, `"_meta":{"progressToken":"tok<1>",`, 1)
	_, h, body := r.send(1, p)
	want := `event: message
data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok<1>","progress":1,"total":2,"message":"half <way>"}}

event: message
data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok<1>","progress":2,"total":2}}

event: message
data: {"jsonrpc":"2.0","id":7,"result":{`
	if h.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(body, want) || !strings.Contains(body, "found") {
		t.Errorf("%v\n%s", h, body)
	}
	if _, h, body = r.send(1, callModern("mcp__docs__search", `{"q":"x"}`)); h.Get("Content-Type") != "application/json" || strings.Contains(body, "progress") {
		t.Errorf("without a token: %v %s", h, body)
	}
}

// hooks is a fake: each function may be nil.
type hooks struct {
	before func(context.Context, gateway.ToolCall) gateway.Decision
	after  func(context.Context, gateway.ToolCall, mcp.Result, error)

	mu   sync.Mutex
	told []string
}

func (h *hooks) Before(ctx context.Context, c gateway.ToolCall) gateway.Decision {
	if h.before == nil {
		return gateway.Decision{}
	}
	return h.before(ctx, c)
}

func (h *hooks) After(ctx context.Context, c gateway.ToolCall, r mcp.Result, err error) {
	h.mu.Lock()
	h.told = append(h.told, fmt.Sprintf("%d %s %s %d %v", c.Candidate, c.Tool, c.Arguments, len(r.Content), err))
	h.mu.Unlock()
	if h.after != nil {
		h.after(ctx, c, r, err)
	}
}

func TestHooksDecide(t *testing.T) {
	for _, c := range []struct {
		name   string
		hooks  *hooks
		says   string
		failed bool
		sent   string // arguments, "" for no call
		told   int
	}{
		{"lets through", &hooks{}, "found", false, `{"q":"1"}`, 1},
		{"denies", &hooks{before: func(context.Context, gateway.ToolCall) gateway.Decision {
			return gateway.Decision{Deny: true, Reason: "not on\nSundays"}
		}}, `refused by a hook: not on\u{a}Sundays`, true, "", 0},
		{"replaces", &hooks{before: func(_ context.Context, c gateway.ToolCall) gateway.Decision {
			return gateway.Decision{Arguments: json.RawMessage(`{"q":"other"}`)}
		}}, "found", false, `{"q":"other"}`, 1},
		{"replaces by what is no object", &hooks{before: func(context.Context, gateway.ToolCall) gateway.Decision {
			return gateway.Decision{Arguments: json.RawMessage(`[1]`)}
		}}, "not a JSON object", true, "", 0},
		{"panics before", &hooks{before: func(context.Context, gateway.ToolCall) gateway.Decision { panic("secret") }}, "refused by a hook: the hook failed", true, "", 0},
		{"panics after", &hooks{after: func(context.Context, gateway.ToolCall, mcp.Result, error) { panic("secret") }}, "the result is withheld", true, `{"q":"1"}`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, func(conf *gateway.Config, _ *upstream) { conf.Hooks = c.hooks })
			_, _, body := r.send(2, callModern("mcp__docs__search", `{"q":"1"}`))
			if said, failed := tells(t, body); !strings.Contains(said, c.says) || failed != c.failed || strings.Contains(said, "secret") {
				t.Errorf("%q, failed %v", said, failed)
			}
			calls := r.up.seen()
			if c.sent == "" && len(calls) != 0 || c.sent != "" && (len(calls) != 1 || string(calls[0].Arguments) != c.sent) {
				t.Errorf("calls: %s", sentArguments(calls))
			}
			if len(c.hooks.told) != c.told {
				t.Errorf("told: %v", c.hooks.told)
			}
		})
	}
}

func TestHooksSeeWhatFailed(t *testing.T) {
	h := &hooks{}
	r := start(t, func(c *gateway.Config, up *upstream) {
		c.Hooks = h
		up.tools[mcp.Route{Server: "docs", Tool: "search"}] = func(_ context.Context, call mcp.Call) (mcp.Result, error) {
			return mcp.Result{}, &mcp.CallError{Server: "docs", Tool: "search", Kind: mcp.Severed, Reason: "the connection dropped", Sent: true}
		}
	})
	_, _, body := r.send(1, callModern("mcp__docs__search", `{"q":"1"}`))
	if said, failed := tells(t, body); !failed || said != `mcp server "docs", tool "search": the connection dropped` {
		t.Error(said)
	}
	if len(h.told) != 1 || !strings.Contains(h.told[0], "the connection dropped") {
		t.Errorf("told: %v", h.told)
	}
}

func TestLimitsSayWhichOneItIs(t *testing.T) {
	t.Run("calls", func(t *testing.T) {
		r := start(t, func(c *gateway.Config, _ *upstream) { c.Limits.Calls = 2 })
		for range 2 {
			r.send(1, callModern("mcp__docs__search", "{}"))
		}
		_, _, body := r.send(1, callModern("mcp__docs__search", "{}"))
		if said, failed := tells(t, body); !failed || !strings.Contains(said, "over the limit of 2 calls for one candidate") {
			t.Error(said)
		}
		if _, _, body := r.send(2, callModern("mcp__docs__search", "{}")); !strings.Contains(body, "found") {
			t.Errorf("the sibling: %s", body)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		r := start(t, func(c *gateway.Config, _ *upstream) { c.Limits.Bytes = 20 })
		r.send(1, callModern("mcp__docs__search", `{}`))
		_, _, body := r.send(1, callModern("mcp__docs__search", `{}`))
		if said, failed := tells(t, body); !failed || !strings.Contains(said, "over the limit of 20 bytes") {
			t.Error(said)
		}
		if len(r.up.seen()) != 1 {
			t.Error("it was called")
		}
	})
	t.Run("at the same time", func(t *testing.T) {
		do, began, release, _ := holding()
		r := start(t, func(c *gateway.Config, up *upstream) { withSlow(do)(c, up); c.Limits.Concurrent = 1 })
		answer := make(chan string)
		go func() {
			_, _, body, _ := r.try(1, callModern("mcp__s__slow", "{}"))
			answer <- body
		}()
		<-began
		_, _, body := r.send(1, callModern("mcp__docs__search", "{}"))
		if said, failed := tells(t, body); !failed || !strings.Contains(said, "over the limit of 1 calls at the same time") {
			t.Error(said)
		}
		if _, _, body := r.send(2, callModern("mcp__docs__search", "{}")); !strings.Contains(body, "found") {
			t.Errorf("the sibling waits for it: %s", body)
		}
		close(release)
		<-answer
		if _, _, body := r.send(1, callModern("mcp__docs__search", "{}")); !strings.Contains(body, "found") {
			t.Errorf("the place is not given back: %s", body)
		}
	})
	t.Run("the time of one call", func(t *testing.T) {
		// The server ignores that time is up: the candidate gets its answer.
		stuck := make(chan struct{})
		r := start(t, func(c *gateway.Config, up *upstream) {
			withSlow(func(context.Context, mcp.Call) (mcp.Result, error) { <-stuck; return says("late"), nil })(c, up)
			c.Limits.Wall = 20 * time.Millisecond
			c.Limits.Concurrent = 1
		})
		_, _, body := r.send(1, callModern("mcp__s__slow", "{}"))
		if said, failed := tells(t, body); !failed || !strings.Contains(said, "over the limit of 20ms for one call; it may or may not have happened") {
			t.Error(said)
		}
		if _, _, body := r.send(1, callModern("mcp__docs__search", "{}")); !strings.Contains(body, "at the same time") {
			t.Errorf("a call that goes on does not count any more: %s", body)
		}
		close(stuck)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if u := r.uses.all(); len(u) != 2 || !slices.ContainsFunc(u, func(u mcp.Use) bool { return u.Outcome == "timed-out" }) {
			t.Errorf("what came late is recorded too: %+v", u)
		}
	})
	t.Run("a hook waits until the time is over", func(t *testing.T) {
		h := &hooks{before: func(ctx context.Context, _ gateway.ToolCall) gateway.Decision {
			<-ctx.Done()
			return gateway.Decision{}
		}}
		r := start(t, func(c *gateway.Config, up *upstream) { c.Hooks = h; c.Limits.Wall = 20 * time.Millisecond })
		_, _, body := r.send(1, callModern("mcp__docs__search", "{}"))
		if said, failed := tells(t, body); !failed || !strings.Contains(said, "it was not made") || len(r.up.seen()) != 0 {
			t.Errorf("%s, %d calls", said, len(r.up.seen()))
		}
	})
	t.Run("a hook takes all the time", func(t *testing.T) {
		stuck := make(chan struct{})
		h := &hooks{before: func(context.Context, gateway.ToolCall) gateway.Decision { <-stuck; return gateway.Decision{} }}
		r := start(t, func(c *gateway.Config, up *upstream) { c.Hooks = h; c.Limits.Wall = 20 * time.Millisecond })
		_, _, body := r.send(1, callModern("mcp__docs__search", "{}"))
		if said, failed := tells(t, body); !failed || !strings.Contains(said, "it was not made") {
			t.Error(said)
		}
		close(stuck)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if len(r.up.seen()) != 0 {
			t.Error("it was called when nobody waited any more")
		}
	})
}

func hasDeadline(ctx context.Context, _ int, _ json.RawMessage) (mcp.Result, error) {
	_, ok := ctx.Deadline()
	return says(fmt.Sprint("a deadline: ", ok)), nil
}

func TestLocalToolsKnowWhoCalls(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *upstream) {
		c.Locals = []gateway.Local{
			{Server: "own", Tool: tool("who"), Call: func(_ context.Context, candidate int, arguments json.RawMessage) (mcp.Result, error) {
				return says(fmt.Sprintf("%d %s", candidate, arguments)), nil
			}},
			{Server: "own", Tool: tool("limited"), Call: hasDeadline},
			{Server: "own", Tool: tool("own_time"), OwnTime: true, Call: hasDeadline},
			{Server: "own", Tool: tool("panics"), Call: func(context.Context, int, json.RawMessage) (mcp.Result, error) { panic("secret") }},
			{Server: "own", Tool: tool("garbage"), Call: func(context.Context, int, json.RawMessage) (mcp.Result, error) {
				return mcp.Result{Content: []json.RawMessage{json.RawMessage(`{"a":1}]}`)}}, nil
			}},
			{Server: "own", Tool: tool("fails"), Call: func(context.Context, int, json.RawMessage) (mcp.Result, error) {
				return mcp.Result{}, errors.New("no\x1b[2J")
			}},
		}
	})
	for name, want := range map[string]string{
		"who": `2 {"q":"x"}`, "limited": "a deadline: true", "own_time": "a deadline: false", "panics": "the tool failed inside of bestof", "garbage": "content block 1 is not JSON", "fails": `no\u{1b}[2J`,
	} {
		_, _, body := r.send(2, callModern("mcp__own__"+name, `{"q":"x"}`))
		if said, failed := tells(t, body); !strings.Contains(said, want) || failed != (name == "panics" || name == "garbage" || name == "fails") {
			t.Errorf("%s: %q", name, said)
		}
	}
	for _, u := range r.uses.all() {
		if u.Server != "own" || u.Candidate != 2 || u.Run != "r1" || u.Sent == 0 {
			t.Errorf("recorded: %+v", u)
		}
	}
}

func TestTheEndEndsCalls(t *testing.T) {
	do, began, _, canceled := holding()
	r := start(t, withSlow(do))
	gone := make(chan struct{})
	go func() {
		r.try(1, callLegacy(r.session(1), "1", "mcp__s__slow", "{}"))
		close(gone)
	}()
	<-began
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	<-canceled
	<-gone
	if _, _, _, err := r.try(1, callModern("mcp__docs__search", "{}")); err == nil {
		t.Error("it still answers")
	}
}
