package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway/wire"
)

// ServeHTTP answers one request of a candidate.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		refuse(w, http.StatusServiceUnavailable, ErrClosed.Error())
		return
	}
	defer g.work.Done()
	if r.Header.Get("Origin") != "" || !g.hostIsOurs(r) {
		refuse(w, http.StatusForbidden, "browsers and other hosts are not served")
		return
	}
	path, ok := endpoint(r.URL.Path)
	if !ok {
		refuse(w, http.StatusNotFound, "there is nothing here but /mcp")
		return
	}
	m := g.member(r.Header.Get("Authorization"))
	if m == nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "the token is missing or wrong")
		return
	}
	if l, ok := r.Context().Value(linkKey{}).(*link); ok && !l.claim(m) {
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusServiceUnavailable, "over the limit of "+strconv.Itoa(maxConns)+" connections for one candidate")
		return
	}
	if _, ok := g.surface.groups[path]; path != "" && !ok {
		refuse(w, http.StatusNotFound, "there is no such server")
		return
	}
	e := &exchange{g: g, m: m, w: w, r: r, part: path, control: http.NewResponseController(w)}
	switch r.Method {
	case http.MethodPost:
		e.post()
	case http.MethodDelete:
		e.delete()
	default: // there is no stream to open: nothing ever changes
		w.Header().Set("Allow", "POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "only POST and DELETE are answered")
	}
}

// hostIsOurs is the guard against a browser that was led here under a name of
// somebody else's (DNS rebinding).
func (g *Gateway) hostIsOurs(r *http.Request) bool {
	if _, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); unix {
		return r.Host == "localhost"
	}
	port := strconv.Itoa(g.front.port)
	return r.Host == "127.0.0.1:"+port || r.Host == "localhost:"+port
}

// endpoint reads /mcp, or /mcp/<part of a wire name>.
func endpoint(path string) (part string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/mcp")
	if !ok || rest == "" {
		return "", ok
	}
	part, ok = strings.CutPrefix(rest, "/")
	return part, ok && part != "" && !strings.Contains(part, "/")
}

// member finds whose token it is, in the same time whether it is anybody's.
func (g *Gateway) member(authorization string) *member {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	var found *member
	for _, m := range g.members {
		if subtle.ConstantTimeCompare(given[:], m.digest[:]) == 1 {
			found = m
		}
	}
	return found
}

// refuse answers below the level of JSON-RPC.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body := append([]byte(`{"error":`), wire.Text(why)...)
	w.Write(append(body, '}', '\n')) // whoever does not read it has hung up
}

// An exchange is one request and its answer.
type exchange struct {
	g       *Gateway
	m       *member
	w       http.ResponseWriter
	r       *http.Request
	part    string // of /mcp/<part>, "" for /mcp
	control *http.ResponseController
	era     wire.Era
	session *session // of the revisions that have one; nil before initialize
	stream  bool     // the answer has become a stream of events
}

func (e *exchange) delete() {
	if wire.Modern(e.r.Header.Get(wire.HeaderVersion)) {
		e.w.Header().Set("Allow", "POST")
		refuse(e.w, http.StatusMethodNotAllowed, "this protocol version has no sessions")
		return
	}
	if !e.m.sessions.drop(e.r.Header.Get(wire.HeaderSession)) {
		refuse(e.w, http.StatusNotFound, "there is no such session")
		return
	}
	e.w.WriteHeader(http.StatusNoContent)
}

func (e *exchange) post() {
	msg, body, bad, status := e.read()
	if status != 0 {
		refuse(e.w, status, http.StatusText(status))
		return
	}
	e.era = wire.Era{Modern: wire.Modern(e.r.Header.Get(wire.HeaderVersion)) || wire.Modern(msg.MetaVersion()), Info: e.g.info}
	if bad != nil {
		e.fail(msg, bad)
		return
	}
	if e.era.Modern {
		e.modern(msg)
		return
	}
	e.legacy(msg, body)
}

// large is the size in bytes from which a message is read alone: what it takes
// to read one can be many times its size.
const large = 64 << 10

// read reads the message of a request. A candidate's large ones are read one
// after the other.
func (e *exchange) read() (msg wire.Message, body []byte, bad *wire.Error, status int) {
	if e.r.ContentLength < 0 || e.r.ContentLength > large {
		select {
		case e.m.large <- struct{}{}:
			defer func() { <-e.m.large }()
		case <-e.r.Context().Done():
			return msg, nil, nil, http.StatusServiceUnavailable
		case <-e.g.ctx.Done():
			return msg, nil, nil, http.StatusServiceUnavailable
		}
	}
	if body, status = e.body(); status == 0 {
		msg, bad = wire.Parse(body)
	}
	return msg, body, bad, status
}

// body reads the request within its size and time.
func (e *exchange) body() ([]byte, int) {
	if media, _, _ := strings.Cut(e.r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return nil, http.StatusUnsupportedMediaType
	}
	e.control.SetReadDeadline(time.Now().Add(bodyTime))
	defer e.control.SetReadDeadline(time.Time{})
	var body bytes.Buffer
	if n := e.r.ContentLength; n > 0 && n <= large {
		body.Grow(int(n) + bytes.MinRead) // what it takes to see the end, too
	}
	_, err := body.ReadFrom(http.MaxBytesReader(e.w, e.r.Body, int64(e.g.limits.Body)))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, http.StatusRequestEntityTooLarge
	case err != nil:
		return nil, http.StatusBadRequest
	}
	return body.Bytes(), 0
}

// modern answers by 2026-07-28: no session, and a call lives as long as its
// request.
func (e *exchange) modern(msg wire.Message) {
	if msg.Method == "" {
		e.fail(msg, &wire.Error{Code: wire.InvalidRequest, Message: "this protocol version has no responses of clients"})
		return
	}
	if bad := wire.CheckHeaders(e.r.Header, msg); bad != nil {
		e.fail(msg, bad)
		return
	}
	switch {
	case msg.ID == nil:
		e.w.WriteHeader(http.StatusAccepted)
	case msg.Method == "server/discover":
		e.result(msg, e.era.Discover())
	case msg.Method == "subscriptions/listen":
		acknowledged, result := e.era.Listen(msg.ID)
		e.event(acknowledged)
		e.event(wire.AppendResult(nil, msg.ID, result))
	case msg.Method == "tools/call":
		e.modernCall(msg)
	default:
		e.shared(msg)
	}
}

func (e *exchange) modernCall(msg wire.Message) {
	c, bad := readCall(msg)
	if bad != nil {
		e.fail(msg, bad)
		return
	}
	ctx, cancel := context.WithCancel(e.r.Context()) // ends with the connection, also at Close
	f := newFlight(cancel, c.token != nil)
	e.fly(ctx, c, f, f.land)
	e.await(c, f)
}

// legacy answers by the revisions with sessions. There a lost connection
// cancels nothing: the answer waits for a retry.
func (e *exchange) legacy(msg wire.Message, body []byte) {
	if msg.Method == "initialize" && msg.ID != nil {
		e.initialize(msg)
		return
	}
	// The oldest revisions are let through: their messages are the same.
	id := e.r.Header.Get(wire.HeaderSession)
	if id == "" {
		refuse(e.w, http.StatusBadRequest, "the header "+wire.HeaderSession+" is missing: initialize first")
		return
	}
	if e.session = e.m.sessions.find(id); e.session == nil {
		refuse(e.w, http.StatusNotFound, "there is no such session: initialize again")
		return
	}
	switch {
	case msg.Method == "notifications/cancelled":
		e.session.abort(string(msg.Param("requestId")))
		e.w.WriteHeader(http.StatusAccepted)
	case msg.ID == nil || msg.Method == "": // another notification, or a response to what nobody asked
		e.w.WriteHeader(http.StatusAccepted)
	case msg.Method == "ping":
		e.result(msg, []byte("{}"))
	case msg.Method == "tools/call":
		e.legacyCall(msg, sha256.Sum256(append([]byte(e.part+"\x00"), body...)))
	default:
		e.shared(msg)
	}
}

func (e *exchange) initialize(msg wire.Message) {
	var asked string
	if v := msg.Param("protocolVersion"); len(v) > 2 {
		asked = strings.Trim(string(v), `"`)
	}
	e.w.Header().Set(wire.HeaderSession, e.m.sessions.open().id)
	e.result(msg, e.era.Initialize(wire.Negotiate(asked)))
}

func (e *exchange) legacyCall(msg wire.Message, digest [sha256.Size]byte) {
	c, bad := readCall(msg)
	if bad != nil {
		e.fail(msg, bad)
		return
	}
	ctx, cancel := context.WithCancel(e.g.ctx)
	id := string(msg.ID)
	f, fresh := e.session.join(id, digest, func() *flight { return newFlight(cancel, c.token != nil) })
	if !fresh {
		cancel()
	}
	if f == nil {
		e.fail(msg, &wire.Error{Code: wire.InvalidRequest, Message: "this id belongs to another request that is under way"})
		return
	}
	if fresh {
		s := e.session
		e.fly(ctx, c, f, func(answer []byte) {
			f.land(answer)
			s.keep(id, f)
		})
	}
	e.await(c, f)
}

// shared answers what all revisions have.
func (e *exchange) shared(msg wire.Message) {
	if msg.Method != "tools/list" {
		e.fail(msg, &wire.Error{Code: wire.MethodNotFound, Message: "there are only tools here"})
		return
	}
	if cursor := msg.Param("cursor"); cursor != nil && string(cursor) != "null" {
		e.fail(msg, &wire.Error{Code: wire.InvalidParams, Message: "there is one page"})
		return
	}
	list := e.g.surface.list
	if e.part != "" {
		list = e.g.surface.groups[e.part].list
	}
	e.result(msg, e.era.List(list))
}

// fly makes the call of a request, aside where its progress is to be written
// meanwhile; land gets the answer, once.
func (e *exchange) fly(ctx context.Context, c call, f *flight, land func([]byte)) {
	name := c.name
	if e.part != "" {
		name = "mcp__" + e.part + "__" + name
	}
	var progress func(mcp.Progress)
	if c.token != nil {
		progress = f.report
	}
	g, m, era := e.g, e.m, e.era
	work := func() {
		out := g.call(ctx, m, name, c.arguments, progress)
		result := era.Call(out.result)
		if out.err != nil {
			result = era.ToolError(text(out.err))
		}
		land(wire.AppendResult(nil, c.id, result))
	}
	if progress != nil {
		g.aside(work)
		return
	}
	work()
}
