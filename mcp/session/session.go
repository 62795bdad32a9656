// Package session is the client of the operator's MCP servers. It connects to
// all of them once, keeps what they declared, and passes calls on. A server is
// a stranger's program: whatever it says is bounded, whatever it does not say
// is waited for only so long, and none of it reaches the other servers.
package session

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/mcp"
)

// Tokens gives bearer tokens for HTTP servers. It is called concurrently.
type Tokens interface {
	// Token is the token to send to a server, "" when there is none.
	Token(ctx context.Context, server mcp.Server) (string, error)

	// Refused is called once for each request that a server answered with
	// 401 or 403. The token that it returns is tried once, in place of the
	// refused one; "" means that a person has to log in.
	Refused(ctx context.Context, server mcp.Server, r Refusal) (string, error)
}

// A Refusal is how a server said no.
type Refusal struct {
	Token     string   // what was sent, "" when nothing was
	Status    int      // 401 or 403
	Challenge []string // the WWW-Authenticate headers
}

// Options say how servers are run and how long they are waited for. The zero
// value of every duration and count is the default that stands beside it.
type Options struct {
	// Dependencies.

	Tokens Tokens           // nil: HTTP servers get their static headers only
	Now    func() time.Time // for backing off and durations; time.Now
	Notice func(string)     // one line for the operator, cleaned; may be nil, must not block or use the session

	// Config.

	Dir     string // absolute working directory of stdio servers: the repository
	Path    string // PATH of stdio servers that declare none
	Version string // of this program, as servers are told

	ConnectBudget   time.Duration // mcp.ConnectBudget, for each server by itself
	DiscoverTimeout time.Duration // 1.5 s: how long the probe for the newest protocol may stay unanswered
	CallTimeout     time.Duration // mcp.CallTimeout
	StuckAfter      time.Duration // 10 s: a server that has not taken its input for so long is ended
	CloseGrace      time.Duration // 1 s: after the end of its input, and again after TERM, a server may tidy up
	Parallel        int           // how many servers connect at once; the number of CPUs, at least 4

	transport *http.Transport // of tests
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	o.Dir = cmp.Or(o.Dir, "/")
	o.Version = cmp.Or(o.Version, "0")
	o.ConnectBudget = cmp.Or(o.ConnectBudget, mcp.ConnectBudget)
	o.DiscoverTimeout = cmp.Or(o.DiscoverTimeout, 1500*time.Millisecond)
	o.CallTimeout = cmp.Or(o.CallTimeout, mcp.CallTimeout)
	o.StuckAfter = cmp.Or(o.StuckAfter, 10*time.Second)
	o.CloseGrace = cmp.Or(o.CloseGrace, time.Second)
	o.Parallel = cmp.Or(o.Parallel, max(4, runtime.NumCPU()))
	return o
}

// A Failure is a server that did not connect.
type Failure struct {
	Name       string
	Reason     string // one cleaned line: how it ended, or what it answered
	Said       string // what it wrote to stderr last, cleaned; for the operator only
	NeedsLogin bool   // it wants a login
}

// Words are what the operator is told. An agent may read Reason.
func (f Failure) Words() string {
	if f.Said == "" {
		return f.Reason
	}
	return f.Reason + "; it wrote to stderr: " + f.Said
}

// A Session holds the servers that connected. It may be used concurrently.
type Session struct {
	upstreams map[string]*upstream // by name; only those that connected
	failed    []Failure
	cancel    context.CancelFunc
	closing   sync.Once
}

// Connect connects to the servers, several at once, each within a budget of
// its own that starts with its process or its first request. It never fails as
// a whole: a server that does not connect is in Failed. When ctx ends, what
// has not connected fails. Close must be called in the end.
//
// Names are to be unique; a server whose name cannot be one fails.
func Connect(ctx context.Context, servers []mcp.Server, o Options) *Session {
	o = o.withDefaults()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Session{upstreams: map[string]*upstream{}, cancel: cancel}
	slots := make(chan struct{}, o.Parallel)
	ups := make([]*upstream, len(servers))
	failures := make([]*Failure, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ups[i], failures[i] = connect(ctx, life, server, o)
		})
	}
	all.Wait()
	for i, server := range servers {
		if f := failures[i]; f != nil {
			s.failed = append(s.failed, *f)
		} else if other := s.upstreams[server.Name]; other != nil {
			ups[i].close()
			s.failed = append(s.failed, Failure{Name: server.Name, Reason: "another server has this name"})
		} else {
			s.upstreams[server.Name] = ups[i]
		}
	}
	slices.SortFunc(s.failed, func(a, b Failure) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// Servers is what each connected server declared, sorted by name.
func (s *Session) Servers() []mcp.Declared {
	all := make([]mcp.Declared, 0, len(s.upstreams))
	for _, name := range slices.Sorted(maps.Keys(s.upstreams)) {
		all = append(all, s.upstreams[name].declared)
	}
	return all
}

// Failed are the servers that did not connect, sorted by name.
func (s *Session) Failed() []Failure { return slices.Clone(s.failed) }

// Call makes one call. The error is always an *mcp.CallError. A server that is
// gone is started again, after a while when it went more than once. A call
// that may have happened is not sent again, unless its tool is SafeToRepeat.
func (s *Session) Call(ctx context.Context, c mcp.Call) (mcp.Result, error) {
	u := s.upstreams[c.Server]
	if u == nil {
		return mcp.Result{}, &mcp.CallError{Server: c.Server, Tool: c.Tool, Kind: mcp.Unknown, Reason: "no such server is connected"}
	}
	res, err := u.call(ctx, c)
	if err != nil {
		err.Server, err.Tool = c.Server, c.Tool
		return mcp.Result{}, err
	}
	return res, nil
}

// Close ends all servers and everything that they started, and fails the calls
// that are under way. It returns when they are dead.
func (s *Session) Close() {
	s.closing.Do(func() {
		s.cancel()
		var all sync.WaitGroup
		for _, u := range s.upstreams {
			all.Go(u.close)
		}
		all.Wait()
	})
}
