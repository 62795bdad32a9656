package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A listener waits on 127.0.0.1 for the browser to come back.
type listener struct {
	redirect string
	host     string
	server   *http.Server
	queries  chan url.Values
}

const callback = "/callback"

// listen starts before anything is registered, since the port is part of what
// is registered.
func listen(port int) (*listener, error) {
	socket, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	l := &listener{host: socket.Addr().String(), queries: make(chan url.Values, 1)}
	l.redirect = "http://" + l.host + callback
	l.server = &http.Server{
		Handler: l, MaxHeaderBytes: 8 << 10, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 15 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
	}
	l.server.SetKeepAlivesEnabled(false)
	go func() { _ = l.server.Serve(socket) }() // ends in close
	return l, nil
}

func (l *listener) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
}

// ServeHTTP takes one answer. A page of another site can neither reach this
// under another host name nor learn anything from it.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	q, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case r.Host != l.host || r.URL.Path != callback || r.Method != http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
		return
	case err != nil || len(q["state"]) == 0:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	select {
	case l.queries <- q:
		_, _ = io.WriteString(w, "Go back to the terminal: it says whether the login worked. This page can be closed.\n")
	default:
		w.WriteHeader(http.StatusConflict)
	}
}

// code waits for the answer of the authorization server, at the listener or
// pasted by the person.
func (l *listener) code(ctx context.Context, want expected, paste func(context.Context) (string, error)) (string, error) {
	type pasted struct {
		query url.Values
		err   error
	}
	typed := make(chan pasted, 1)
	if paste != nil {
		go func() {
			text, err := paste(ctx)
			if err != nil {
				typed <- pasted{err: err}
				return
			}
			q, err := pastedQuery(text)
			typed <- pasted{q, err}
		}()
	}
	select {
	case q := <-l.queries:
		return want.code(q)
	case p := <-typed:
		if p.err != nil {
			return "", p.err
		}
		return want.code(p.query)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// pastedQuery reads the address that a browser on another machine could not
// open.
func pastedQuery(text string) (url.Values, error) {
	u, err := url.Parse(text)
	if len(text) > 8<<10 || err != nil || u.Host == "" || u.Path != callback {
		return nil, errors.New("that is not the address that the browser ended at: it begins with http://127.0.0.1 and holds a code")
	}
	return url.ParseQuery(u.RawQuery)
}

// expected is what a genuine answer holds.
type expected struct {
	state, issuer string
	iss           bool // the issuer has to name itself
}

// code checks an answer and takes the code out of it: first who answers, then
// what. Of an answer from elsewhere nothing is shown.
func (e expected) code(q url.Values) (string, error) {
	for _, name := range []string{"state", "iss", "code", "error", "error_description"} {
		if len(q[name]) > 1 {
			return "", fmt.Errorf("the answer holds %s twice", name)
		}
	}
	iss, named := q.Get("iss"), q.Has("iss")
	switch {
	case subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(e.state)) != 1:
		return "", errors.New("the answer belongs to another login (its state is another): nothing was sent; try again")
	case named && iss != e.issuer, e.iss && !named:
		return "", fmt.Errorf("the answer is not from %s (its iss is another or missing): nothing was sent", e.issuer)
	case q.Has("error"):
		return "", fmt.Errorf("%w", &refusedError{q.Get("error"), q.Get("error_description")})
	case q.Get("code") == "":
		return "", errors.New("the answer holds no code")
	}
	return q.Get("code"), nil
}
