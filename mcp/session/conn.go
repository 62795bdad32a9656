package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/mcp"
)

// A conn is one connection to a server: over stdio one process, over HTTP one
// session of the older protocol, or all of the newer one.
type conn struct {
	client *client.Client
	guard  *guard
	pipe   *pipe // stdio
	web    *web  // http
	grace  time.Duration
	hide   *redact.Redactor // of what its entry must not show, whoever says it

	// Of the upstream, under its mutex: the calls under way, how many calls
	// one after the other took all of their time without a word, and when the
	// last was counted.
	calls   int
	silent  int
	counted time.Time
}

// open reaches a server without a word yet.
func open(server mcp.Server, o Options) (*conn, error) {
	reach := openPipe
	if server.Transport == mcp.HTTP {
		reach = openWeb
	}
	c, err := reach(server, o)
	if err != nil {
		return nil, err
	}
	c.hide = redact.New(server.Secrets())
	return c, nil
}

func openPipe(server mcp.Server, o Options) (*conn, error) {
	if server.Cmd == "" {
		return nil, errors.New("its entry has no cmd")
	}
	p, err := proc.Start(proc.Command{
		Argv:  append([]string{server.Cmd}, server.Args...),
		Dir:   o.Dir,
		Env:   environment(server, o.Path),
		Grace: o.CloseGrace,
	})
	if err != nil {
		return nil, err
	}
	pipe := newPipe(p, o.StuckAfter)
	g := newGuard(pipe)
	return &conn{client: newClient(g, o), guard: g, pipe: pipe, grace: o.CloseGrace}, nil
}

// environment is all that a stdio server gets: what its entry declares, and
// PATH, so that a bare npx can be found at all.
func environment(server mcp.Server, path string) []string {
	env := []string{}
	if _, ok := server.Env["PATH"]; !ok {
		env = append(env, "PATH="+path)
	}
	for name, value := range server.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

func openWeb(server mcp.Server, o Options) (*conn, error) {
	w, err := newWeb(server, o)
	if err != nil {
		return nil, err
	}
	inner, err := transport.NewStreamableHTTP(server.URL,
		transport.WithHTTPBasicClient(w.client()),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	g := newWebGuard(inner)
	return &conn{client: newClient(g, o), guard: g.guard, web: w, grace: o.CloseGrace}, nil
}

func newClient(t transport.Interface, o Options) *client.Client {
	return client.NewClient(t, client.WithDiscoverTimeout(o.DiscoverTimeout), client.WithMaxInputRoundTrips(1))
}

// greet agrees on a protocol. A version that was agreed upon before is the only
// one to ask for.
func (c *conn) greet(ctx context.Context, o Options, version string) (*sdk.InitializeResult, *exchange, error) {
	if version != "" {
		client.WithProtocolVersion(version)(c.client)
	}
	if err := c.client.Start(ctx); err != nil {
		return nil, &exchange{}, err
	}
	var r sdk.InitializeRequest
	r.Params.ClientInfo = sdk.Implementation{Name: "bestof", Version: o.Version}
	xctx, x := withExchange(ctx)
	res, err := c.client.Initialize(xctx, r)
	if err != nil && x.rpc != nil && version == "" {
		// It answered, so it is up: it may be one of the newer protocol that
		// took longer to start than the probe waited.
		client.WithDiscoverTimeout(-1)(c.client)
		xctx, x = withExchange(ctx)
		res, err = c.client.Initialize(xctx, r)
	}
	if err == nil && version != "" && res.ProtocolVersion != version {
		err = fmt.Errorf("it answers with protocol %.20q, and had agreed on %s", res.ProtocolVersion, version)
	}
	return res, x, err
}

var errPages = fmt.Errorf("its list of tools has more than %d pages", mcp.MaxPages)

// list reads the whole tool list.
func (c *conn) list(ctx context.Context) (*surface, *exchange, error) {
	var s surface
	var r sdk.ListToolsRequest
	seen := map[sdk.Cursor]bool{}
	for range mcp.MaxPages {
		ctx, x := withExchange(ctx)
		page, err := c.client.ListToolsByPage(ctx, r)
		if err != nil {
			return nil, x, err
		}
		var entries []json.RawMessage
		if err := json.Unmarshal(x.result, &entries); err != nil {
			return nil, x, errBadList
		}
		next := page.NextCursor
		if more := s.page(entries); !more || next == "" {
			return &s, x, nil
		}
		if seen[next] {
			return nil, x, errors.New("its list of tools does not advance")
		}
		seen[next] = true
		r.Params.Cursor = next
	}
	return nil, &exchange{}, errPages
}

// call makes one call. What mcp-go makes of the result is not looked at.
func (c *conn) call(ctx context.Context, call mcp.Call) (mcp.Result, *exchange, error) {
	var r sdk.CallToolRequest
	r.Params.Name = call.Tool
	r.Params.Arguments = call.Arguments
	if call.Progress != nil {
		token, stop := c.guard.follow(call.Progress)
		defer stop()
		r.Params.Meta = &sdk.Meta{ProgressToken: token}
	}
	ctx, x := withExchange(ctx)
	if _, err := c.client.CallTool(ctx, r); err != nil {
		return mcp.Result{}, x, err
	}
	res, err := result(x.result)
	return res, x, err
}

// hadSession reports whether the server had given this connection a session.
func (c *conn) hadSession() bool {
	return c.web != nil && !sdk.IsModernProtocol(c.client.ProtocolVersion())
}

// gone is closed when the connection is of no use any more; never over HTTP.
func (c *conn) gone() <-chan struct{} {
	if c.pipe == nil {
		return nil
	}
	return c.pipe.gone
}

// close ends the connection, and over stdio the server.
func (c *conn) close() error {
	if c.pipe != nil {
		return c.pipe.finish(c.grace)
	}
	err := c.client.Close()
	c.guard.finish()
	if t, ok := c.web.base.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	return err
}

// said is what the server wrote to its stderr last, for the operator only.
func (c *conn) said() string {
	if c.pipe == nil {
		return ""
	}
	return c.pipe.stderr.said(c.hide)
}

// why says in one cleaned line what an error of this connection comes from.
func (c *conn) why(err error, x *exchange) string {
	status := int(x.status.Load())
	var over *transport.Error
	switch {
	case errors.Is(err, errGone) && c.pipe != nil:
		return c.pipe.cause()
	case errors.Is(err, errRedirect):
		return errRedirect.Error()
	case x.rpc != nil:
		return fmt.Sprintf("it answered with error %d: %s", x.rpc.Code, oneLine(c.hide.String(x.rpc.Message)))
	case needsLogin(x):
		return fmt.Sprintf("it answered with HTTP status %d and wants a login", status)
	case errors.Is(err, transport.ErrLegacySSEServer):
		return fmt.Sprintf("it answered with HTTP status %d: it may be a server of the retired HTTP+SSE transport, or the url may be wrong", status)
	case x.oversize.Load():
		return errOversize.Error()
	case status >= 300:
		return fmt.Sprintf("it answered with HTTP status %d", status)
	case errors.As(err, &over):
		err = over.Err
	}
	return oneLine(c.hide.String(innermost(err).Error()))
}

func needsLogin(x *exchange) bool {
	status := x.status.Load()
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// innermost leaves out what wraps an error: URLs among it may hold secrets.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// oneLine is text of a server's, cleaned and cut.
func oneLine(s string) string {
	return cleaned(strings.Join(strings.Fields(s), " "))
}
