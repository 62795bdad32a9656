// Package login gets and keeps OAuth tokens for MCP servers that speak HTTP.
// A server says where its logins happen, so everything fetched here is chosen
// by a stranger: it must be https, must not lead to this machine or its
// network unless the server itself is there, and is bounded when read.
//
// Of the official SDK only the pieces are used, not its authorization handler:
// that one goes on without metadata, with another resource than was asked for
// and without S256.
package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bestof-dev/bestof/internal/hosts"
)

const (
	requestTimeout = 30 * time.Second
	maxBody        = 1 << 20
	maxRedirects   = 3
)

// A web fetches what belongs to the login of one server.
type web struct {
	server  *url.URL
	where   atomic.Int32 // a where: decided once, so that a name cannot change its mind
	client  *http.Client
	direct  http.RoundTripper
	proxied http.RoundTripper
}

// Where a server is: on this machine or its network, or not.
const (
	unknown int32 = iota
	public
	nearby
)

func (w *web) local() bool { return w.where.Load() == nearby }

// place says where the server was found to be at the login.
func (w *web) place(local bool) {
	if w.where.CompareAndSwap(unknown, public) && local {
		w.where.Store(nearby)
	}
}

func newWeb(server string) (*web, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errors.New("its url is not an address: mend it in mcp.toml")
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())):
		return nil, errors.New("its url does not begin with https://, so everybody between could read the tokens: change it in mcp.toml")
	case u.User != nil:
		return nil, errors.New("its url holds a user name: take it out of mcp.toml")
	}
	w := &web{server: u}
	if localName(u.Hostname()) {
		w.where.Store(nearby)
	}
	w.direct = &http.Transport{DialContext: w.dial, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true}
	w.proxied = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true}
	w.client = &http.Client{Transport: w, CheckRedirect: redirect, Timeout: requestTimeout}
	return w, nil
}

// redirect follows only what asks again at the same origin, and nothing that
// carries credentials.
func redirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || first.Header.Get("Authorization") != "" || len(via) > maxRedirects || !sameOrigin(first.URL, next.URL) {
		return fmt.Errorf("%s redirects to %s, which is not followed", first.URL.Host, next.URL.Host)
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && hostPort(a) == hostPort(b) }

// hostPort is the host with its port, written one way.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// permit says why an address that a server named may not be fetched.
func (w *web) permit(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("%.100q is not an address", address)
	case sameOrigin(u, w.server):
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname()) && loopback(w.server.Hostname())):
		return nil, fmt.Errorf("%.100q does not begin with https://", address)
	case localName(u.Hostname()) && !w.local():
		return nil, fmt.Errorf("%.100q is on this machine or its network, and the server is not", address)
	}
	return u, nil
}

// RoundTrip implements http.RoundTripper.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := w.permit(r.URL.String()); err != nil {
		return nil, err
	}
	transport := w.direct
	if proxy, err := http.ProxyFromEnvironment(r); err == nil && proxy != nil {
		transport = w.proxied // then names are looked up where the proxy is
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxBody), res.Body}
	return res, nil
}

// dial connects. Names are judged by the addresses they have at that moment.
func (w *web) dial(ctx context.Context, network, address string) (net.Conn, error) {
	own := strings.ToLower(address) == hostPort(w.server)
	d := net.Dialer{Timeout: 10 * time.Second, Control: func(_, to string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(to)
		if err != nil {
			return err
		}
		is := public
		if localAddr(ap.Addr()) {
			is = nearby
		}
		if own {
			w.where.CompareAndSwap(unknown, is)
		}
		if is == nearby && !w.local() {
			return fmt.Errorf("%s is on this machine or its network, and the server is not", address)
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// localName reports whether a host is on this machine or its network as far as
// its name tells.
func localName(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return localAddr(ip)
	}
	for _, suffix := range []string{"localhost", "local", "internal", "localdomain", "lan", "home.arpa"} {
		if host == suffix || strings.HasSuffix(host, "."+suffix) {
			return true
		}
	}
	// 127.1, 0x7f000001 and 2130706433 are addresses to some resolvers.
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == "" || last[0] >= '0' && last[0] <= '9'
}

func localAddr(ip netip.Addr) bool { return hosts.NotPublic(ip) != "" }

// getJSON fetches a document; found is false when there is none.
func (w *web) getJSON(ctx context.Context, address string, into any) (found bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, err
	}
	r.Header.Set("Accept", "application/json")
	res, err := w.client.Do(r)
	if err != nil {
		return false, plainError(err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= 400 && res.StatusCode < 500:
		return false, nil
	case res.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%s answers %s", address, res.Status)
	}
	if err := readJSON(res.Body, into); err != nil {
		return false, fmt.Errorf("what %s answers cannot be read: %w", address, err)
	}
	return true, nil
}

var errLarge = fmt.Errorf("it is larger than %d MiB", maxBody>>20)

// readJSON reads one JSON value.
func readJSON(r io.Reader, into any) error {
	b, err := io.ReadAll(r)
	switch {
	case err != nil:
		return plainError(err)
	case len(b) >= maxBody:
		return errLarge
	}
	return json.Unmarshal(b, into)
}

// plainError takes the address out of an error of net/http, which can hold a
// query.
func plainError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("%s: %w", hostOf(u.URL), u.Err)
	}
	return err
}

func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return "the server"
}

// clip is a stranger's text on one line, at most 300 characters long.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return s
}
