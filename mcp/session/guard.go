package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/bestof-dev/bestof/mcp"
)

const progressMethod = "notifications/progress"

// An exchange is what one request of ours left behind. It travels in the
// request's context, through mcp-go, to the transports below it.
type exchange struct {
	sent     atomic.Bool  // the request began to leave
	status   atomic.Int32 // of the last HTTP response
	id       int64        // of the JSON-RPC request
	oversize atomic.Bool  // the answer was over the limit

	result json.RawMessage          // of tools/call and tools/list
	rpc    *sdk.JSONRPCErrorDetails // a JSON-RPC error
}

// begin forgets what an earlier request of the same exchange left.
func (x *exchange) begin(id sdk.RequestId) {
	x.id, _ = id.Value().(int64)
	x.result, x.rpc = nil, nil
	x.sent.Store(false)
	x.status.Store(0)
	x.oversize.Store(false)
}

type exchangeKey struct{}

func withExchange(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// exchangeOf is never nil; outside of an exchange nobody reads what is noted.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// A guard stands between mcp-go's client and a transport. It keeps the results
// of tools/call and tools/list as the server sent them, and hands mcp-go only
// as much of them as it needs, so that nothing hostile is parsed twice.
type guard struct {
	transport.Interface
	overHTTP bool
	version  atomic.Value // string: the protocol agreed upon, over HTTP

	mu     sync.Mutex
	tokens int64
	watch  map[string]*progress
	aside  sync.WaitGroup
	over   bool // nothing is sent aside any more
}

func newGuard(inner transport.Interface) *guard {
	g := &guard{Interface: inner, watch: map[string]*progress{}}
	inner.SetNotificationHandler(g.notified)
	return g
}

var (
	errEmpty         = errors.New("its answer is neither a result nor an error")
	errAsksInput     = errors.New("it asks for input, which nobody is there to give")
	errNotDiscovered = errors.New("its answer to server/discover does not name the protocol")
	errBadList       = errors.New("its answer is not a list of tools")
)

// SetNotificationHandler implements transport.Interface. Nothing that a server
// may notify of concerns mcp-go's client.
func (g *guard) SetNotificationHandler(func(sdk.JSONRPCNotification)) {}

// SendRequest implements transport.Interface.
func (g *guard) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	x := exchangeOf(ctx)
	x.begin(r.ID)
	res, err := g.Interface.SendRequest(ctx, r)
	if err != nil {
		if ctx.Err() != nil && g.overHTTP && r.Method == string(sdk.MethodToolsCall) {
			g.cancelled(r.ID)
		}
		return nil, err
	}
	switch {
	case res.Error != nil:
		x.rpc = res.Error
		return res, nil
	case len(res.Result) == 0:
		return nil, errEmpty
	case !isID(res.ID, x.id):
		return nil, errForeignID
	}
	switch sdk.MCPMethod(r.Method) {
	case sdk.MethodToolsCall:
		return g.called(x, res)
	case sdk.MethodToolsList:
		return g.listed(x, res)
	case sdk.MethodServerDiscover:
		// Some servers of the older protocol answer anything.
		var d sdk.DiscoverResult
		if json.Unmarshal(res.Result, &d) != nil || !slices.Contains(d.SupportedVersions, sdk.LATEST_PROTOCOL_VERSION) {
			return nil, errNotDiscovered
		}
	}
	return res, nil
}

// isID also takes an id that was sent back as text.
func isID(id sdk.RequestId, want int64) bool {
	text := strconv.FormatInt(want, 10)
	return id.String() == "int64:"+text || id.String() == "string:"+text
}

// called keeps the result of a call and gives mcp-go an empty one.
func (g *guard) called(x *exchange, res *transport.JSONRPCResponse) (*transport.JSONRPCResponse, error) {
	var kind struct {
		ResultType sdk.ResultType `json:"resultType"`
	}
	if json.Unmarshal(res.Result, &kind) != nil {
		return nil, errNoResult
	}
	if !kind.ResultType.IsComplete() {
		return nil, errAsksInput
	}
	x.result = res.Result
	short := *res
	short.Result = json.RawMessage(`{"content":[]}`)
	return &short, nil
}

// listed keeps a page of tools and gives mcp-go those that it understands: it
// wants to know which parameters go into HTTP headers.
func (g *guard) listed(x *exchange, res *transport.JSONRPCResponse) (*transport.JSONRPCResponse, error) {
	var page struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor string            `json:"nextCursor"`
	}
	const longestCursor = 4 << 10
	if json.Unmarshal(res.Result, &page) != nil || page.Tools == nil || len(page.NextCursor) > longestCursor {
		return nil, errBadList
	}
	kept, known := []json.RawMessage{}, []json.RawMessage{}
	for _, raw := range page.Tools {
		var tool sdk.Tool
		understood := json.Unmarshal(raw, &tool) == nil
		if understood && g.mirrorsHeaders() && sdk.ValidateParamHeaderAnnotations(&tool) != nil {
			raw = json.RawMessage("null") // an entry that is no tool
		} else if understood {
			known = append(known, raw)
		}
		kept = append(kept, raw)
	}
	var err error
	if x.result, err = json.Marshal(kept); err != nil {
		return nil, errBadList
	}
	short := *res
	short.Result, err = json.Marshal(map[string]any{"tools": known, "nextCursor": page.NextCursor})
	return &short, err
}

func (g *guard) mirrorsHeaders() bool {
	version, _ := g.version.Load().(string)
	return g.overHTTP && sdk.IsModernProtocol(version)
}

// cancelled tells a server of the older protocol that nobody waits for an
// answer any more; mcp-go does it over stdio only, and in the newer protocol
// the end of the request says it.
func (g *guard) cancelled(id sdk.RequestId) {
	if version, _ := g.version.Load().(string); sdk.IsModernProtocol(version) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	g.aside.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = g.SendNotification(ctx, sdk.JSONRPCNotification{
			JSONRPC: sdk.JSONRPC_VERSION,
			Notification: sdk.Notification{
				Method: string(sdk.MethodNotificationCancelled),
				Params: sdk.NotificationParams{AdditionalFields: map[string]any{"requestId": id, "reason": "cancelled"}},
			},
		})
	})
}

// finish waits for what was sent aside.
func (g *guard) finish() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.aside.Wait()
}

// A progress is where notifications of one call wait for it to take them. One
// that is slow loses some, and holds up nobody else.
type progress struct {
	queue chan mcp.Progress
	done  chan struct{}
}

const progressQueue = 64

// follow gives a call a progress token. After stop returned tell is not called
// any more; a tell that is under way is waited for.
func (g *guard) follow(tell func(mcp.Progress)) (token string, stop func()) {
	p := &progress{queue: make(chan mcp.Progress, progressQueue), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for what := range p.queue {
			tell(what)
		}
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens++
	token = fmt.Sprintf("bestof-%d", g.tokens)
	g.watch[token] = p
	return token, func() {
		g.mu.Lock()
		delete(g.watch, token)
		close(p.queue)
		g.mu.Unlock()
		<-p.done
	}
}

func (g *guard) notified(n sdk.JSONRPCNotification) {
	if n.Method != progressMethod {
		return
	}
	fields := n.Params.AdditionalFields
	token, _ := fields["progressToken"].(string)
	var what mcp.Progress
	what.Progress, _ = fields["progress"].(float64)
	what.Total, _ = fields["total"].(float64)
	message, _ := fields["message"].(string)
	what.Message = cut(message, mcp.MaxDescription)
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.watch[token]; p != nil {
		select {
		case p.queue <- what:
		default:
		}
	}
}

// A webGuard is a guard over HTTP: mcp-go tells it the protocol agreed upon.
type webGuard struct {
	*guard
	inner *transport.StreamableHTTP
}

func newWebGuard(inner *transport.StreamableHTTP) webGuard {
	g := webGuard{newGuard(inner), inner}
	g.overHTTP = true
	inner.SetRequestHandler(func(_ context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		if r.Method == string(sdk.MethodPing) {
			return transport.NewJSONRPCResultResponse(r.ID, json.RawMessage("{}")), nil
		}
		return transport.NewJSONRPCErrorResponse(r.ID, sdk.METHOD_NOT_FOUND, "method not found", nil), nil
	})
	return g
}

// SetProtocolVersion implements transport.HTTPConnection.
func (g webGuard) SetProtocolVersion(version string) {
	g.version.Store(version)
	g.inner.SetProtocolVersion(version)
}
