package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"
	sdkserver "github.com/mark3labs/mcp-go/server"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/session"
)

// A site is an HTTP server of the older protocol. What its tools do to the
// response is in their names.
type site struct {
	*httptest.Server
	mu       sync.Mutex
	sessions int
	live     string // the session that it knows
	token    string // when set, the bearer token that it wants
	seen     []string
	stop     chan struct{}
	late     chan struct{}
	other    string // where it redirects to

	refuse  sync.Once
	refused chan struct{} // closed when a request of its own was refused
}

func newSite(t *testing.T) *site {
	s := &site{stop: make(chan struct{}), late: make(chan struct{}), refused: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		close(s.stop)
		s.Close()
	})
	return s
}

func (s *site) server(headers map[string]string) mcp.Server {
	return mcp.Server{Name: "site", Transport: mcp.HTTP, URL: s.URL + "/mcp", Headers: headers}
}

// saw counts requests that contain a text.
func (s *site) saw(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if strings.Contains(r, what) {
			n++
		}
	}
	return n
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s type=%q auth=%q key=%q session=%q %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("Mcp-Session-Id"), body))
	token, live := s.token, s.live
	s.mu.Unlock()
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://example.com/m"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if strings.Contains(string(body), "-32601") {
		s.refuse.Do(func() { close(s.refused) })
	}
	var m message
	if r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	known := r.Header.Get("Mcp-Session-Id") == live
	switch {
	case m.Method == "server/discover":
		http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no session"}}`, http.StatusBadRequest)
	case m.Method == "initialize":
		s.mu.Lock()
		s.sessions++
		s.live = fmt.Sprint("session-", s.sessions)
		w.Header().Set("Mcp-Session-Id", s.live)
		s.mu.Unlock()
		s.json(w, m.ID, object{"protocolVersion": "2025-11-25", "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "site", "version": "1"}})
	case !known:
		http.Error(w, "session not found", http.StatusNotFound)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tools/list":
		var tools []object
		for _, name := range strings.Fields("echo late stream many-answers endless endless-event big status-500 status-403 status-400 wrong-id away moved broken-off notifies asks") {
			tools = append(tools, tool(name))
		}
		s.json(w, m.ID, object{"tools": tools})
	case m.Method == "tools/call":
		s.call(w, r, m)
	}
}

func (s *site) json(w http.ResponseWriter, id any, result object) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(object{"jsonrpc": "2.0", "id": id, "result": result})
}

func event(w http.ResponseWriter, v object) {
	v["jsonrpc"] = "2.0"
	b, _ := json.Marshal(v)
	fmt.Fprintf(w, "event: message\r\ndata: %s\r\n\r\n", b)
	w.(http.Flusher).Flush()
}

func (s *site) call(w http.ResponseWriter, r *http.Request, m message) {
	name, _ := m.Params["name"].(string)
	args, _ := json.Marshal(m.Params["arguments"])
	stream := func() { w.Header().Set("Content-Type", "text/event-stream") }
	switch name {
	case "echo":
		s.json(w, m.ID, text(string(args)))
	case "late":
		<-s.late
		s.json(w, m.ID, text("at last"))
	case "stream":
		stream()
		io.WriteString(w, ": hello\n\nid: 1\nretry: 10\n\n")
		event(w, object{"id": 12345, "result": text("somebody else's")})
		event(w, object{"id": m.ID, "result": text("streamed")})
		<-r.Context().Done() // the client has what it wants, and goes
	case "many-answers":
		stream()
		for range 100 {
			event(w, object{"id": m.ID, "result": text("one of many")})
		}
	case "endless":
		stream()
		for r.Context().Err() == nil {
			event(w, object{"method": "notifications/message", "params": object{"data": strings.Repeat("x", 1000)}})
		}
	case "endless-event":
		stream()
		for r.Context().Err() == nil {
			fmt.Fprintf(w, "data: %s\n", strings.Repeat("x", 1<<16))
		}
	case "big":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%v,"result":{"content":[{"type":"text","text":"`, m.ID)
		for r.Context().Err() == nil {
			io.WriteString(w, strings.Repeat("x", 1<<16))
		}
	case "status-500":
		http.Error(w, "\x1b[31m"+strings.Repeat("oops ", 1<<20), http.StatusInternalServerError)
	case "status-403":
		http.Error(w, "not for you", http.StatusForbidden)
	case "status-400":
		http.Error(w, "no", http.StatusBadRequest)
	case "wrong-id":
		s.json(w, 4711, text("not yours"))
	case "away":
		http.Redirect(w, r, s.other+"/mcp", http.StatusTemporaryRedirect)
	case "moved":
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
			return
		}
		s.json(w, m.ID, text("moved"))
	case "broken-off":
		stream()
		event(w, object{"method": "notifications/message"})
		panic(http.ErrAbortHandler)
	case "notifies":
		stream()
		token := m.Params["_meta"].(map[string]any)["progressToken"]
		event(w, object{"method": "notifications/progress", "params": object{"progressToken": token, "progress": 1}})
		event(w, object{"id": m.ID, "result": text("notified")})
	case "asks":
		stream()
		for range 200 {
			event(w, object{"id": "s1", "method": "sampling/createMessage", "params": object{}})
		}
		select { // the client has nobody to answer for when the call is over
		case <-s.refused:
		case <-r.Context().Done():
		}
		event(w, object{"id": m.ID, "result": text("asked")})
	}
}

func TestHTTP(t *testing.T) {
	web := newSite(t)
	s := up(t, patient(), web.server(map[string]string{"X-Api-Key": "k1", "Content-Type": "text/evil"}))
	for tool, want := range map[string]string{
		"echo": "{}", "stream": "streamed", "many-answers": "one of many", "moved": "moved", "asks": "asked",
	} {
		wantText(t, s, "site", tool, "", want)
	}
	for tool, want := range map[string]struct {
		kind  mcp.Failure
		words string
	}{
		"endless-event": {mcp.Protocol, "over the limit of 8388608 bytes"},
		"big":           {mcp.Protocol, "over the limit of 8388608 bytes"},
		"status-400":    {mcp.Protocol, "HTTP status 400"},
		"wrong-id":      {mcp.Protocol, "the id of another request"},
		"broken-off":    {mcp.Severed, "may or may not"},
		"status-500":    {mcp.Unavailable, "HTTP status 500"},
	} {
		_, e := call(s, "site", tool, "")
		wantFailure(t, e, want.kind, true, want.words)
		wantText(t, s, "site", "echo", "", "{}")
	}
	if n := web.saw("-32601"); n == 0 {
		t.Error("no request of the server was refused")
	}
	_, e := call(s, "site", "status-403", "")
	wantFailure(t, e, mcp.NeedsLogin, false, "HTTP status 403")
	wantText(t, s, "site", "echo", "", "{}")
	var got []mcp.Progress
	res, err := s.Call(t.Context(), mcp.Call{Server: "site", Tool: "notifies", Progress: func(p mcp.Progress) { got = append(got, p) }})
	if err != nil || texts(res) != "notified" || len(got) != 1 {
		t.Errorf("%+v, %v, %+v", res, err, got)
	}
	if all, with := web.saw(""), web.saw(`key="k1"`); all != with {
		t.Errorf("%d of %d requests carried the header", with, all)
	}
	if n := web.saw("evil"); n != 0 {
		t.Errorf("a static header took the place of the protocol's own %d times", n)
	}
	s.Close()
	if n := web.saw("DELETE"); n != 1 {
		t.Errorf("the session was ended %d times", n)
	}
}

func TestHTTPDeadlineAndCancellation(t *testing.T) {
	web := newSite(t)
	s := up(t, patient(), web.server(nil))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, e := callWith(ctx, s, "site", "endless", "")
	wantFailure(t, e, mcp.TimedOut, true, "may or may not")
	eventually(t, "the server was told", func() bool { return web.saw("notifications/cancelled") == 1 })
	wantText(t, s, "site", "echo", "", "{}")
}

func TestHTTPForgottenSession(t *testing.T) {
	web := newSite(t)
	s := up(t, patient(), web.server(nil))
	late := make(chan struct{})
	go func() {
		defer close(late)
		wantText(t, s, "site", "late", "", "at last")
	}()
	eventually(t, "a long call is under way", func() bool { return web.saw(`"late"`) > 0 })
	web.mu.Lock()
	web.live = "another"
	web.mu.Unlock()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { wantText(t, s, "site", "echo", "", "{}") })
	}
	all.Wait()
	close(web.late)
	<-late
	web.mu.Lock()
	defer web.mu.Unlock()
	if web.sessions < 2 {
		t.Errorf("%d sessions", web.sessions)
	}
}

func TestHazardHTTPRedirectsCarryNothingAway(t *testing.T) {
	web, other := newSite(t), newSite(t)
	web.other = other.URL
	s := up(t, patient(), web.server(map[string]string{"X-Api-Key": "k1", "Authorization": "Bearer secret"}))
	_, e := call(s, "site", "away", "")
	if e == nil || !strings.Contains(e.Reason, "redirects to another place") {
		t.Errorf("%+v", e)
	}
	if n := other.saw(""); n != 0 {
		t.Errorf("the other site saw %d requests", n)
	}
	// And at once, while connecting.
	moved := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer moved.Close()
	f := connect(t, patient(), mcp.Server{Name: "moved", Transport: mcp.HTTP, URL: moved.URL}).Failed()
	if len(f) != 1 || !strings.Contains(f[0].Reason, "redirects to another place") || other.saw("") != 0 {
		t.Errorf("%+v", f)
	}
}

func TestHTTPDoesNotConnect(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		reason  string
		login   bool
	}{
		"404":    {http.NotFound, "HTTP status 404: it may be a server of the retired HTTP+SSE transport", false},
		"500":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "HTTP status 500", false},
		"401":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "HTTP status 401 and wants a login", true},
		"403":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, "HTTP status 403 and wants a login", true},
		"page":   {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "unexpected content type", false},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, "did not connect within", false},
		"gone":   {nil, "connection refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			url := gone.URL
			if c.handler != nil {
				srv := httptest.NewServer(c.handler)
				defer srv.Close()
				url = srv.URL
			}
			o := patient()
			if name == "silent" {
				o.ConnectBudget = 300 * time.Millisecond
			}
			f := connect(t, o, mcp.Server{Name: "site", Transport: mcp.HTTP, URL: url + "/mcp?key=hunter2"}).Failed()
			if len(f) != 1 || !strings.Contains(f[0].Reason, c.reason) || f[0].NeedsLogin != c.login || strings.Contains(f[0].Reason, "hunter2") {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestHTTPServerGoesAway(t *testing.T) {
	web := newSite(t)
	c := &clock{now: time.Now()}
	o := patient()
	o.Now = c.Now
	s := up(t, o, web.server(nil))
	web.Server.Close()
	for range 2 {
		_, e := call(s, "site", "echo", "")
		if e == nil || e.Kind != mcp.Unavailable && e.Kind != mcp.Severed {
			t.Errorf("%+v", e)
		}
	}
	_, e := call(s, "site", "echo", "")
	wantFailure(t, e, mcp.Unavailable, false, "failed 2 times in a row and is left alone for another 1s: connection refused")
}

// wallet is a source of tokens that has one more.
type wallet struct {
	mu       sync.Mutex
	token    string
	next     string
	refusals []session.Refusal
}

func (w *wallet) Token(context.Context, mcp.Server) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.token, nil
}

func (w *wallet) Refused(_ context.Context, _ mcp.Server, r session.Refusal) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = append(w.refusals, r)
	w.token, w.next = w.next, ""
	return w.token, nil
}

func (w *wallet) set(token, next string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token, w.next, w.refusals = token, next, nil
}

// The command that a refusal names can be pasted.
func TestTheLoginAdviceIsOneCommand(t *testing.T) {
	web := newSite(t)
	web.token = "new"
	w := &wallet{token: "new"}
	o := patient()
	o.Tokens = w
	server := web.server(nil)
	server.Name = "shop;ls"
	s := up(t, o, server)
	w.set("expired", "also expired")
	_, e := call(s, server.Name, "echo", "")
	wantFailure(t, e, mcp.NeedsLogin, false, "log in with `bestof mcp login 'shop;ls'`")
}

func TestTokens(t *testing.T) {
	web := newSite(t)
	web.token = "new"
	w := &wallet{token: "old", next: "new"}
	c := &clock{now: time.Now()}
	o := patient()
	o.Tokens, o.Now = w, c.Now
	s := up(t, o, web.server(map[string]string{"Authorization": "Basic static"}))
	if len(w.refusals) != 1 || w.refusals[0].Token != "old" || w.refusals[0].Status != 401 || len(w.refusals[0].Challenge) != 1 {
		t.Errorf("refused: %+v", w.refusals)
	}
	if n := web.saw("static"); n != 0 {
		t.Errorf("the static header was sent %d times in place of a token", n)
	}
	wantText(t, s, "site", "echo", "", "{}")

	w.set("expired", "also expired")
	_, e := call(s, "site", "echo", "")
	wantFailure(t, e, mcp.NeedsLogin, false, "HTTP status 401 and wants a login: log in with `bestof mcp login site`")
	if len(w.refusals) != 1 {
		t.Errorf("refused: %+v", w.refusals)
	}
	before := web.saw("")
	_, e = call(s, "site", "echo", "")
	wantFailure(t, e, mcp.NeedsLogin, false, "log in")
	if web.saw("") != before {
		t.Error("a server that wants a login is asked again at once")
	}
	w.set("new", "")
	c.pass(time.Minute)
	wantText(t, s, "site", "echo", "", "{}")
}

// A server of the newer protocol has parameters in headers and no session.
func TestHTTPNewerProtocol(t *testing.T) {
	m := sdkserver.NewMCPServer("newer", "3", sdkserver.WithToolCapabilities(true), sdkserver.WithInstructions("hello"))
	m.AddTool(sdk.NewTool("echo", sdk.WithString("text", sdk.Required())), func(_ context.Context, r sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return sdk.NewToolResultText(r.GetString("text", "")), nil
	})
	h := sdkserver.NewStreamableHTTPServer(m)
	var mu sync.Mutex
	headers := []http.Header{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		headers = append(headers, r.Header.Clone())
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	s := up(t, patient(), mcp.Server{Name: "newer", Transport: mcp.HTTP, URL: srv.URL + "/mcp"})
	if d := s.Servers()[0]; d.Protocol != "2026-07-28" || d.Name != "newer" || d.Version != "3" || d.Instructions != "hello" {
		t.Errorf("declared %+v", d)
	}
	wantText(t, s, "newer", "echo", `{"text":"ü"}`, "ü")
	s.Close()
	mu.Lock()
	defer mu.Unlock()
	last := headers[len(headers)-1]
	if last.Get("Mcp-Session-Id") != "" || last.Get("Mcp-Method") != "tools/call" || last.Get("Mcp-Name") != "echo" {
		t.Errorf("the last request had %v", last)
	}
}
