// Package gateway is what candidates reach instead of the operator's MCP
// servers: one endpoint for each candidate, on loopback and on a unix socket,
// behind a token of its own. Candidates share the sessions that are connected
// already, see only what they may use, and hold no credential of a server.
//
// Decisions are pure: survey (offer.go) says what is seen and where names
// lead, meter what is within limits, package wire what is a message.
package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/mcp"
)

// Upstream are the connected servers.
type Upstream interface {
	// Servers are what each connected server declared, sorted by name.
	Servers() []mcp.Declared

	// Call makes one call. The error is a *mcp.CallError. It ends when ctx
	// does.
	Call(ctx context.Context, c mcp.Call) (mcp.Result, error)
}

// A Local is a tool of ours: of a plugin, or one file. It is offered to every
// candidate as mcp__<Server>__<name> and is not prefetched.
type Local struct {
	Tool    mcp.Tool
	Server  string
	OwnTime bool // it bounds its calls itself, so that Limits.Wall does not count for them
	Call    func(ctx context.Context, candidate int, arguments json.RawMessage) (mcp.Result, error)
}

// A Config is all that a gateway needs.
type Config struct {
	Upstream Upstream
	Offers   []Offer
	Locals   []Local
	Hooks    Hooks // may be nil
	Limits   Limits

	Candidates int              // how many endpoints there are: 1…N
	SocketDir  string           // for the unix sockets; made with mode 0700 if it is missing. "" means none
	Record     func(mcp.Use)    // must not block; may be nil
	Run        string           // the run's id, for the records
	Version    string           // ours, told to the candidates
	Now        func() time.Time // the clock
}

// A Gateway serves candidates from New to Close.
type Gateway struct {
	upstream Upstream
	hooks    Hooks
	limits   Limits
	record   func(mcp.Use)
	run      string
	now      func() time.Time
	surface  *surface
	offers   []Offer
	info     json.RawMessage

	members []*member
	front   *front

	work  sync.WaitGroup // calls, also those that nobody waits for
	idle  chan func()    // takes work where a goroutine waits for some
	ctx   context.Context
	stop  context.CancelCauseFunc
	ended chan struct{} // closed when work is done

	closing sync.Once

	prefetch sync.Once
	gathered Prefetched
}

// A member is one candidate. Number 0 is the prefetch, which has no endpoint.
type member struct {
	number   int
	token    Token
	digest   [sha256.Size]byte // of the token
	socket   string
	meter    meter
	sessions sessions
	large    chan struct{} // holds one large message while it is read
}

// ErrClosed is the end of a gateway.
var ErrClosed = errors.New("the run has ended")

// New opens the endpoints.
func New(c Config) (*Gateway, error) {
	if c.Upstream == nil || c.Now == nil || c.Candidates < 1 {
		return nil, errors.New("mcp gateway: it needs servers, a clock and at least one candidate")
	}
	s, err := survey(c.Offers, c.Locals)
	if err != nil {
		return nil, err
	}
	info, err := json.Marshal(map[string]string{"name": "bestof", "version": c.Version})
	if err != nil {
		return nil, fmt.Errorf("mcp gateway: %w", err)
	}
	g := &Gateway{
		upstream: c.Upstream, hooks: c.Hooks, limits: c.Limits.orDefault(), record: c.Record, run: c.Run, now: c.Now,
		surface: s, offers: c.Offers, info: info, idle: make(chan func()), ended: make(chan struct{}),
	}
	g.ctx, g.stop = context.WithCancelCause(context.Background())
	for n := range c.Candidates {
		token := newToken()
		g.members = append(g.members, &member{number: n + 1, token: token, digest: sha256.Sum256([]byte(token.v)), large: make(chan struct{}, 1)})
	}
	if err := g.listen(c.SocketDir); err != nil {
		g.stop(ErrClosed)
		return nil, err
	}
	return g, nil
}

// Colliding are the names that lead nowhere, since two tools claim each:
// sorted. The operator should be told.
func (g *Gateway) Colliding() []string { return g.surface.colliding }

// Offered are the names that candidates see, sorted.
func (g *Gateway) Offered() []string { return g.surface.names }

// closeBudget is how long Close waits for calls to notice.
const closeBudget = 2 * time.Second

// Close ends every connection and call, removes the sockets, and reports what
// did not end.
func (g *Gateway) Close() error {
	g.stop(ErrClosed)
	err := g.front.close()
	g.closing.Do(func() {
		go func() {
			g.work.Wait()
			close(g.ended)
		}()
	})
	timer := time.NewTimer(closeBudget)
	defer timer.Stop()
	select {
	case <-g.ended:
		return err
	case <-timer.C:
		return errors.Join(err, errors.New("mcp gateway: a call does not end; its server or hook ignores that the run is over"))
	}
}

// aside does work in another goroutine, in one that is done with its last where
// there is one: what a call needs of a stack is then there already.
func (g *Gateway) aside(work func()) {
	g.work.Add(1)
	select {
	case g.idle <- work:
		return
	default:
	}
	go func() {
		for {
			work()
			g.work.Done()
			select {
			case work = <-g.idle:
			case <-g.ctx.Done():
				return
			}
		}
	}()
}

// A Token is a candidate's secret. It does not print.
type Token struct{ v string }

func newToken() Token {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return Token{base64.RawURLEncoding.EncodeToString(b[:])}
}

// Reveal is the token itself, for the candidate it belongs to.
func (t Token) Reveal() string { return t.v }

func (t Token) String() string { return "***" }

// GoString keeps %#v from printing it.
func (t Token) GoString() string { return "***" }

// MarshalJSON keeps it out of records.
func (t Token) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }
