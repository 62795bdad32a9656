package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/bestof-dev/bestof/mcp"
)

// A web is how requests reach one HTTP server, and only it: what is secret
// never goes to another origin, and no answer is larger than it may be.
type web struct {
	server mcp.Server
	origin *url.URL
	tokens Tokens
	base   http.RoundTripper
	grace  time.Duration // for the DELETE that ends a session
}

const (
	maxErrorBody = 64 << 10
	maxRedirects = 5
)

var (
	errRedirect  = errors.New("it redirects to another place; put that one's URL into the entry if you trust it")
	errElsewhere = errors.New("a request would have left the server's origin")
)

// newWeb checks a server's URL.
func newWeb(server mcp.Server, o Options) (*web, error) {
	u, err := url.Parse(server.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("its url is not an http or https URL")
	}
	base := o.transport
	if base == nil {
		base = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 256 << 10,
		}
	}
	return &web{server: server, origin: u, tokens: o.Tokens, base: base, grace: o.CloseGrace}, nil
}

// client is for mcp-go. It has no time-out, which would end streams; every
// request has a context that does.
func (w *web) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: w.redirect}
}

// redirect allows only what repeats the request at the same origin: any other
// one would carry headers away, or turn a call into something else.
func (w *web) redirect(next *http.Request, via []*http.Request) error {
	code := next.Response.StatusCode
	if !w.owns(next.URL) || len(via) > maxRedirects || code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect {
		return errRedirect
	}
	return nil
}

func (w *web) owns(u *url.URL) bool { return u.Scheme == w.origin.Scheme && u.Host == w.origin.Host }

// RoundTrip implements http.RoundTripper.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	if !w.owns(r.URL) {
		return nil, errElsewhere
	}
	ctx := r.Context()
	cancel := func() {}
	if r.Method == http.MethodDelete {
		ctx, cancel = context.WithTimeout(ctx, w.grace)
	}
	res, err := w.send(ctx, r)
	if err != nil {
		cancel()
		return nil, err
	}
	res.Body = w.bounded(ctx, res, cancel)
	return res, nil
}

// send sends a request with the server's headers and token, and once more with
// another token when that one is refused.
func (w *web) send(ctx context.Context, r *http.Request) (*http.Response, error) {
	token := ""
	if w.tokens != nil {
		var err error
		if token, err = w.tokens.Token(ctx, w.server); err != nil {
			return nil, fmt.Errorf("get a token: %w", err)
		}
	}
	res, err := w.once(ctx, r, r.Body, token)
	if err != nil || w.tokens == nil || res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		return res, err
	}
	refusal := Refusal{Token: token, Status: res.StatusCode, Challenge: res.Header.Values("WWW-Authenticate")}
	next, err := w.tokens.Refused(ctx, w.server, refusal)
	if err != nil || next == "" || next == token || r.Body != nil && r.GetBody == nil {
		return res, nil
	}
	var body io.ReadCloser
	if r.GetBody != nil {
		if body, err = r.GetBody(); err != nil {
			return res, nil
		}
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxErrorBody) // so that the connection can be used again
	res.Body.Close()
	return w.once(ctx, r, body, next)
}

func (w *web) once(ctx context.Context, r *http.Request, body io.ReadCloser, token string) (*http.Response, error) {
	x := exchangeOf(ctx)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { x.sent.Store(true) }})
	out := r.Clone(ctx)
	out.Body = body
	for name, value := range w.server.Headers {
		if out.Header.Get(name) == "" { // the protocol's own stay
			out.Header.Set(name, value)
		}
	}
	if token != "" {
		out.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := w.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	x.status.Store(int32(res.StatusCode))
	return res, nil
}

// bounded limits what can be read of a response.
func (w *web) bounded(ctx context.Context, res *http.Response, done func()) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	body := ended{res.Body, done}
	switch {
	case res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted:
		return limited{io.LimitReader(body, maxErrorBody), body}
	case kind == "text/event-stream":
		return newEvents(body, exchangeOf(ctx))
	}
	return limited{&capped{r: body, left: mcp.MaxLine, over: func() { exchangeOf(ctx).oversize.Store(true) }}, body}
}

// An ended is a body that says when it was closed.
type ended struct {
	io.ReadCloser
	done func()
}

func (e ended) Close() error {
	defer e.done()
	return e.ReadCloser.Close()
}

type limited struct {
	io.Reader
	io.Closer
}

// A capped reads at most so many bytes and fails if there are more.
type capped struct {
	r    io.Reader
	left int
	over func()
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.r.Read(p[:min(len(p), c.left+1)])
	if n > c.left {
		c.over()
		return 0, errOversize
	}
	c.left -= n
	return n, err
}
