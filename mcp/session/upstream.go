package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
)

// An upstream is one server that connected, and its further life:
//
//	live ──ended, or ended by us──► gone ──next call, after a while──► dialing ──► live
//	                                  ▲──────────────────failed──────────┘
//
// What it declared when it connected first stays as it is.
type upstream struct {
	server   mcp.Server
	o        Options
	declared mcp.Declared
	tools    map[string]mcp.Tool
	life     context.Context // of the session

	mu       sync.Mutex
	conn     *conn     // nil when gone
	dial     *dialing  // not nil while dialing
	failures int       // in a row; an answer to a call ends the row
	failed   time.Time // when the last one was
	until    time.Time // no call before
	reason   string    // of the last one
	locked   time.Time // no call before: it wanted a login
	retired  []*conn   // out of use but for the calls under way
	closed   bool
	work     sync.WaitGroup // what dials and tears down
}

// A dialing is a connection in the making that calls wait for together.
type dialing struct {
	done chan struct{}
	conn *conn
	err  *mcp.CallError
}

const (
	maxReason   = 500
	loginHold   = 30 * time.Second // so that calls do not hammer a token endpoint
	maxSilent   = 3                // calls in a row without a word, until a server counts as hung
	loginAdvice = "log in with `bestof mcp login %s`"
)

func cleaned(s string) string { return term.Clean(s, maxReason).String() }

// backoff is how long a server is left alone after so many failures in a row.
func backoff(failures int) time.Duration {
	steps := []time.Duration{0, 0, 1, 2, 4, 8, 16, 30}
	return steps[min(failures, len(steps)-1)] * time.Second
}

// connect makes the first connection of a server. ctx bounds it, life bounds
// what comes after.
func connect(ctx, life context.Context, server mcp.Server, o Options) (*upstream, *Failure) {
	began := o.Now()
	ctx, cancel := context.WithTimeout(ctx, o.ConnectBudget)
	defer cancel()
	failure := func(reason string, login bool) *Failure {
		return &Failure{Name: server.Name, Reason: reason, NeedsLogin: login}
	}
	if err := mcp.CheckName(server.Name); err != nil {
		return nil, failure(err.Error(), false)
	}
	if err := ctx.Err(); err != nil {
		return nil, failure("it was not tried: "+err.Error(), false)
	}
	c, err := open(server, o)
	if err != nil {
		return nil, failure(cleaned(err.Error()), false)
	}
	u := &upstream{server: server, o: o, life: life, conn: c, tools: map[string]mcp.Tool{}}
	doing := "greeting"
	hello, x, err := c.greet(ctx, o, "")
	var tools *surface
	if err == nil {
		doing = "listing its tools"
		tools, x, err = c.list(ctx)
	}
	if err != nil {
		reason := c.why(err, x)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			reason = fmt.Sprintf("it did not connect within %v: no answer to %s", o.ConnectBudget, doing)
		}
		f := failure(reason, needsLogin(x))
		f.Said = c.said()
		u.close()
		return nil, f
	}
	u.declared = mcp.Declared{
		Server: server,
		Name:   cut(hello.ServerInfo.Name, maxTitle), Version: cut(hello.ServerInfo.Version, maxTitle),
		Instructions: cut(hello.Instructions, mcp.MaxDescription),
		Protocol:     hello.ProtocolVersion,
		Connected:    o.Now().Sub(began),
	}
	u.declared.Tools, u.declared.Dropped = tools.done()
	for _, t := range u.declared.Tools {
		u.tools[t.Name] = t
	}
	return u, nil
}

// call makes one call, on a new connection where it must.
func (u *upstream) call(ctx context.Context, c mcp.Call) (mcp.Result, *mcp.CallError) {
	tool, ok := u.tools[c.Tool]
	if !ok {
		return mcp.Result{}, &mcp.CallError{Kind: mcp.Unknown, Reason: "the server has no such tool that can be called"}
	}
	if isNull(c.Arguments) {
		c.Arguments = json.RawMessage("{}")
	}
	if !isObject(c.Arguments) || !json.Valid(c.Arguments) {
		return mcp.Result{}, &mcp.CallError{Kind: mcp.Protocol, Reason: "its arguments are not a JSON object"}
	}
	inner, cancel := context.WithTimeout(ctx, u.o.CallTimeout)
	defer cancel()
	var before *mcp.CallError // why this is the second time
	for {
		cn, err := u.connection(inner)
		if err != nil && before != nil && before.Sent {
			return mcp.Result{}, before
		} else if err != nil {
			return mcp.Result{}, u.timed(ctx, err)
		}
		began := time.Now()
		res, x, callErr := cn.call(inner, c)
		var failure *mcp.CallError
		var again bool
		if callErr == nil {
			u.answered(cn)
		} else {
			failure, again = u.judge(inner, cn, x, callErr, began)
		}
		u.release(cn)
		if failure == nil {
			return res, nil
		}
		if failure.Kind == mcp.TimedOut && failure.Sent && ctx.Err() == nil {
			u.unanswered(cn, began)
		}
		again = again || failure.Kind == mcp.Severed && tool.SafeToRepeat()
		if before != nil || inner.Err() != nil || !again {
			return mcp.Result{}, u.timed(ctx, failure)
		}
		before = failure
	}
}

// timed tells a caller who left from a call that took too long.
func (u *upstream) timed(ctx context.Context, e *mcp.CallError) *mcp.CallError {
	if e.Kind != mcp.TimedOut {
		return e
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Kind, e.Reason = mcp.Canceled, "the call was cancelled"
	case ctx.Err() != nil:
		e.Reason = "the call ran into its caller's deadline"
	default:
		e.Reason = fmt.Sprintf("no answer within %v", u.o.CallTimeout)
	}
	if e.Sent {
		e.Reason += "; it may or may not have had an effect"
	}
	return e
}

// judge says what a failed call was, and notes what it means for the server.
// It reports again when the server certainly did nothing.
func (u *upstream) judge(ctx context.Context, c *conn, x *exchange, err error, began time.Time) (_ *mcp.CallError, again bool) {
	e := &mcp.CallError{Sent: x.sent.Load()}
	status := x.status.Load()
	switch {
	case needsLogin(x):
		return u.lock(c.why(err, x), x), false
	case ctx.Err() != nil:
		e.Kind = mcp.TimedOut
	case errors.Is(err, transport.ErrSessionTerminated) && c.hadSession():
		u.drop(c, "", began)
		return &mcp.CallError{Kind: mcp.Unavailable, Reason: "it has forgotten the session"}, true
	case errors.Is(err, errRedirect):
		e.Kind, e.Reason = mcp.Unavailable, c.why(err, x)
		u.drop(c, e.Reason, began)
	case x.rpc != nil:
		u.answered(c)
		e.Kind, e.Code, e.Reason = mcp.Protocol, x.rpc.Code, c.why(err, x)
	case status == http.StatusNotFound, status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		e.Kind, e.Reason = mcp.Unavailable, c.why(err, x)
		u.drop(c, e.Reason, began)
	case status >= http.StatusBadRequest, x.oversize.Load(), noAnswer(err):
		u.answered(c)
		e.Kind, e.Reason = mcp.Protocol, c.why(err, x)
	case errors.Is(err, errBusy):
		e.Kind, e.Reason = mcp.Unavailable, err.Error()
	case !e.Sent:
		e.Kind, e.Reason = mcp.Unavailable, c.why(err, x)
		u.drop(c, e.Reason, began)
	default:
		why := c.why(err, x)
		e.Kind = mcp.Severed
		e.Reason = "the connection ended during the call, which may or may not have had an effect and is not sent again: " + why
		u.drop(c, why, began)
	}
	return e, false
}

// noAnswer reports whether err is an answer that is none.
func noAnswer(err error) bool {
	return slices.ContainsFunc([]error{errNoResult, errEmpty, errAsksInput, errForeignID, errOversize}, func(e error) bool {
		return errors.Is(err, e)
	})
}

// lock holds calls off for a while after a 401, since a person has to act
// first. A 403 may be about one tool only.
func (u *upstream) lock(why string, x *exchange) *mcp.CallError {
	u.mu.Lock()
	defer u.mu.Unlock()
	why += ": " + fmt.Sprintf(loginAdvice, mcp.QuotedWord(u.server.Name))
	if x.status.Load() == http.StatusUnauthorized {
		u.locked = u.o.Now().Add(loginHold)
		u.reason = why
	}
	return &mcp.CallError{Kind: mcp.NeedsLogin, Reason: why}
}

// connection is the live connection, or a new one when that is gone and the
// server has been left alone for long enough.
func (u *upstream) connection(ctx context.Context) (*conn, *mcp.CallError) {
	u.bury()
	u.mu.Lock()
	now := u.o.Now()
	var refused *mcp.CallError
	switch {
	case u.closed:
		refused = &mcp.CallError{Kind: mcp.Unavailable, Reason: "the session is over"}
	case now.Before(u.locked):
		refused = &mcp.CallError{Kind: mcp.NeedsLogin, Reason: u.reason}
	case now.Before(u.until):
		wait := u.until.Sub(now).Round(100 * time.Millisecond)
		refused = &mcp.CallError{Kind: mcp.Unavailable, Reason: fmt.Sprintf("it failed %d times in a row and is left alone for another %v: %s", u.failures, wait, u.reason)}
	}
	if refused != nil || u.conn != nil {
		defer u.mu.Unlock()
		if refused == nil {
			u.conn.calls++
		}
		return u.conn, refused
	}
	d := u.dial
	if d == nil {
		d = &dialing{done: make(chan struct{})}
		u.dial = d
		u.work.Go(func() { u.redial(d) })
	}
	u.mu.Unlock()
	select {
	case <-d.done:
		if d.err == nil {
			u.mu.Lock()
			d.conn.calls++
			u.mu.Unlock()
		}
		return d.conn, d.err
	case <-ctx.Done():
		return nil, &mcp.CallError{Kind: mcp.TimedOut}
	}
}

// bury notices the death of a server between calls.
func (u *upstream) bury() {
	u.mu.Lock()
	c := u.conn
	u.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case <-c.gone():
		u.drop(c, c.pipe.cause(), time.Now())
	default:
	}
}

// redial makes another connection, with the protocol agreed upon first. What
// tools the server lists by now is not asked.
func (u *upstream) redial(d *dialing) {
	defer close(d.done)
	ctx, cancel := context.WithTimeout(u.life, u.o.ConnectBudget)
	defer cancel()
	began := u.o.Now()
	c, err := open(u.server, u.o)
	x := &exchange{}
	if err == nil {
		_, x, err = c.greet(ctx, u.o, u.declared.Protocol)
	}
	why, said := "", ""
	if err != nil && c == nil {
		why = cleaned(err.Error())
	} else if err != nil {
		why, said = c.why(err, x), c.said()
		if ctx.Err() != nil {
			why = fmt.Sprintf("it did not connect again within %v", u.o.ConnectBudget)
		}
	}
	if err != nil && needsLogin(x) {
		d.err = u.lock(why, x)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dial = nil
	switch {
	case err == nil && !u.closed:
		u.conn, d.conn = c, c
		u.o.Notice(fmt.Sprintf("mcp server %q: connected again after %v", u.server.Name, u.o.Now().Sub(began).Round(time.Millisecond)))
		return
	case err == nil:
		d.err = &mcp.CallError{Kind: mcp.Unavailable, Reason: "the session is over"}
	case d.err == nil:
		u.fail(why, said)
		d.err = &mcp.CallError{Kind: mcp.Unavailable, Reason: "it cannot be started again: " + why}
	}
	if c != nil {
		u.end(c)
	}
}

func (u *upstream) answered(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c.silent = 0
	u.failures = 0
}

// unanswered counts calls, one after the other, that took all of the time there
// is and during which the server said nothing at all, and ends a server that
// seems to hang.
func (u *upstream) unanswered(c *conn, began time.Time) {
	if c.pipe == nil || c.pipe.lastHeard().After(began) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || began.Before(c.counted) {
		return
	}
	c.counted = time.Now()
	if c.silent++; c.silent == maxSilent {
		u.work.Go(func() { c.pipe.end(fmt.Sprintf("it said nothing during %d calls", maxSilent)) })
	}
}

// drop gives a connection up. Without a reason it is no failure. Over HTTP a
// failed request ends no connection, and calls that began before the last
// failure tell nothing new about the server.
func (u *upstream) drop(c *conn, reason string, began time.Time) {
	said := ""
	if reason != "" {
		said = c.said()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	goesOn := c.web != nil && reason != ""
	if u.conn != c || goesOn && began.Before(u.failed) {
		return
	}
	if reason != "" {
		u.fail(reason, said)
	}
	if !goesOn {
		u.conn = nil
		u.retire(c)
	}
}

// retire ends a connection. Over HTTP its other calls come to their end first;
// over stdio they cannot. u.mu is held.
func (u *upstream) retire(c *conn) {
	if c.web != nil && c.calls > 0 && !u.closed {
		u.retired = append(u.retired, c)
		return
	}
	u.end(c)
}

// release says that a call does not use its connection any more.
func (u *upstream) release(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c.calls--
	if i := slices.Index(u.retired, c); i >= 0 && c.calls == 0 {
		u.retired = slices.Delete(u.retired, i, i+1)
		u.end(c)
	}
}

// fail notes a failure; what the server said on its stderr is for the operator
// only. u.mu is held.
func (u *upstream) fail(reason, said string) {
	u.failures++
	u.failed = time.Now()
	u.until = u.o.Now().Add(backoff(u.failures))
	u.reason = reason
	u.o.Notice(fmt.Sprintf("mcp server %q: %s", u.server.Name, Failure{Reason: reason, Said: said}.Words()))
}

// end closes a connection aside. u.mu is held.
func (u *upstream) end(c *conn) {
	u.work.Go(func() {
		if err := c.close(); err != nil && c.pipe != nil {
			u.o.Notice(fmt.Sprintf("mcp server %q: %s", u.server.Name, cleaned(err.Error())))
		}
	})
}

func (u *upstream) close() {
	u.mu.Lock()
	u.closed = true
	if u.conn != nil {
		u.retired = append(u.retired, u.conn)
	}
	for _, c := range u.retired {
		u.end(c)
	}
	u.conn, u.retired = nil, nil
	u.mu.Unlock()
	u.work.Wait()
}
