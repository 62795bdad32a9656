package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bestof-dev/bestof/internal/hosts"
)

// ParseBase reads a base URL: http or https, a host, and perhaps a port and a
// path.
func ParseBase(s string) (*url.URL, hosts.Target, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, hosts.Target{}, errors.New("not a URL that begins with http:// or https://")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, hosts.Target{}, errors.New("a base URL has a host and a path and nothing else")
	}
	port := uint16(hosts.HTTP)
	if u.Scheme == "https" {
		port = hosts.HTTPS
	}
	to, err := hosts.ParseTarget(u.Host, port)
	if err != nil {
		return nil, to, fmt.Errorf("its host cannot be read: %w", err)
	}
	return u, to, nil
}

// ListenFor serves the service at a base URL on a new unix socket, as plain
// HTTP: what is asked there goes below the URL, over TLS where it says https.
// It is for programs that ask no proxy. Its host has to be let through by the
// rules.
func (p *Proxy) ListenFor(socket, base string) error {
	u, to, err := ParseBase(base)
	if err != nil {
		return err
	}
	l, err := listenUnix(socket)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			c, no := p.reach(to, true)
			if no != nil {
				p.Ledger.add(Use{Host: to.Host(), Port: int(to.Port), Allowed: no.allowed, Reason: no.reason, Count: 1})
				return nil, errors.New(no.reason)
			}
			return p.meter(c, to), nil
		},
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: p.Limits.DialTime, IdleConnTimeout: time.Minute,
		MaxConnsPerHost: p.Limits.Connections, DisableCompression: true,
		TLSClientConfig: &tls.Config{RootCAs: p.Roots, MinVersion: tls.VersionTLS12},
	}
	front := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, // and the Host with it
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprintf("bestof: %s: %.200q", to, err.Error()), http.StatusBadGateway)
		},
	}
	server := &http.Server{
		ReadHeaderTimeout: p.Limits.HeaderTime, IdleTimeout: p.Limits.Idle, MaxHeaderBytes: p.Limits.Header, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !p.begin() {
				return
			}
			defer p.work.Done()
			if slices.Contains(strings.Split(r.URL.Path, "/"), "..") {
				http.Error(w, "bestof: a path may not lead above the base URL", http.StatusBadRequest)
				return
			}
			front.ServeHTTP(w, r)
		}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.Join(errClosed, l.Close())
	}
	p.servers = append(p.servers, func() error { transport.CloseIdleConnections(); return server.Close() })
	p.work.Go(func() { _ = server.Serve(door{l, p}) })
	return nil
}

// begin counts work that Close waits for, unless it is too late for any.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

// A door lets in as many connections as there are slots.
type door struct {
	net.Listener
	proxy *Proxy
}

// Accept implements net.Listener.
func (d door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case d.proxy.slots <- struct{}{}:
			return &guest{Conn: c, leave: sync.OnceFunc(func() { <-d.proxy.slots })}, nil
		default:
			d.proxy.Ledger.add(Use{Reason: tooMany, Count: 1})
			c.Close()
		}
	}
}

type guest struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}

// A metered connection counts what it carries, and is in the ledger once it is
// closed.
type metered struct {
	net.Conn
	proxy          *Proxy
	sent, received atomic.Int64
	note           func()
}

func (p *Proxy) meter(c net.Conn, to hosts.Target) *metered {
	m := &metered{Conn: c, proxy: p}
	m.note = sync.OnceFunc(func() {
		p.mu.Lock()
		delete(p.meters, m)
		p.mu.Unlock()
		u := Use{Host: to.Host(), Port: int(to.Port), Allowed: true, Count: 1, Sent: m.sent.Load(), Received: m.received.Load()}
		if p.bytes.Load() > p.Limits.Bytes {
			u.Reason = tooMuch
		}
		p.Ledger.add(u)
	})
	p.mu.Lock()
	if p.meters == nil {
		p.meters = map[*metered]bool{}
	}
	p.meters[m] = true
	p.mu.Unlock()
	return m
}

func (m *metered) count(n int, by *atomic.Int64) error {
	by.Add(int64(n))
	if m.proxy.bytes.Add(int64(n)) > m.proxy.Limits.Bytes {
		return errors.New(tooMuch)
	}
	return nil
}

// Read implements net.Conn.
func (m *metered) Read(b []byte) (int, error) {
	_ = m.SetReadDeadline(time.Now().Add(m.proxy.Limits.Idle))
	n, err := m.Conn.Read(b)
	if over := m.count(n, &m.received); over != nil {
		return n, over
	}
	return n, err
}

// Write implements net.Conn.
func (m *metered) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	if over := m.count(n, &m.sent); over != nil {
		return n, over
	}
	return n, err
}

// Close implements net.Conn.
func (m *metered) Close() error {
	m.proxy.drop(m.Conn)
	m.note()
	return nil
}
