package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/hosts"
)

// serve answers one request of HTTP's proxy protocol: CONNECT host:port, or any
// other method with an absolute http URL. A connection has one request: what
// follows it is the tunnel's, or nobody's.
func (p *Proxy) serve(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(p.Limits.HeaderTime))
	head := &io.LimitedReader{R: c, N: int64(p.Limits.Header)}
	in := bufio.NewReader(head)
	req, err := http.ReadRequest(in)
	switch {
	case err != nil && head.N <= 0:
		p.refuse(c, "", 0, http.StatusRequestHeaderFieldsTooLarge, "a request whose head is too long")
		return
	case errors.Is(err, io.EOF):
		return // nothing was asked
	case err != nil:
		p.refuse(c, "", 0, http.StatusBadRequest, "not a request of HTTP's proxy protocol")
		return
	}
	head.N = math.MaxInt64
	_ = c.SetDeadline(time.Time{})
	plain := req.Method != http.MethodConnect
	to, err := asked(req)
	if err != nil {
		p.refuse(c, "", 0, http.StatusBadRequest, "not a request of HTTP's proxy protocol")
		return
	}
	up, no := p.reach(to, plain)
	if no != nil {
		code := http.StatusForbidden
		if no.allowed {
			code = http.StatusBadGateway
		}
		p.Ledger.add(Use{Host: to.Host(), Port: int(to.Port), Allowed: no.allowed, Reason: no.reason, Count: 1})
		p.answer(c, code, to.String()+": "+no.reason)
		return
	}
	defer p.drop(up)
	f := p.flow(c, up)
	defer f.stop()
	if plain {
		p.once(f, req, to)
	} else if _, err = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		f.both(in)
	}
	p.note(to, f)
}

// asked is whom a request is for.
func asked(req *http.Request) (hosts.Target, error) {
	if req.Method == http.MethodConnect {
		return hosts.ParseTarget(req.RequestURI, 0)
	}
	if req.URL.Scheme != "http" || req.URL.Host == "" || req.URL.User != nil {
		return hosts.Target{}, errors.New("not an absolute http URL")
	}
	return hosts.ParseTarget(req.URL.Host, hosts.HTTP)
}

// carry connects c with a target.
func (p *Proxy) carry(c net.Conn, to hosts.Target) {
	up, no := p.reach(to, true)
	if no != nil {
		p.Ledger.add(Use{Host: to.Host(), Port: int(to.Port), Allowed: no.allowed, Reason: no.reason, Count: 1})
		return
	}
	defer p.drop(up)
	f := p.flow(c, up)
	defer f.stop()
	f.both(c)
	p.note(to, f)
}

func (p *Proxy) note(to hosts.Target, f *flow) {
	u := Use{Host: to.Host(), Port: int(to.Port), Allowed: true, Count: 1, Sent: f.sent.Load(), Received: f.received.Load()}
	if f.tooMuch.Load() {
		u.Reason = tooMuch
	}
	p.Ledger.add(u)
}

// once sends one request on, in the form that servers are asked in, and gives
// back whatever comes.
func (p *Proxy) once(f *flow, req *http.Request, to hosts.Target) {
	if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(f.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return
		}
	}
	for _, list := range req.Header.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			req.Header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect"} {
		req.Header.Del(name)
	}
	req.Close = true
	req.Host = req.URL.Host
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := req.Write(f.counting(f.up, &f.sent)); err != nil {
			f.cut()
		}
	}()
	f.copy(f.client, f.up, &f.received)
	f.cut()
	<-done
}

// refuse answers a request that was not understood, and keeps that.
func (p *Proxy) refuse(c net.Conn, host string, port, code int, reason string) {
	p.Ledger.add(Use{Host: host, Port: port, Reason: reason, Count: 1})
	p.answer(c, code, reason)
}

func (p *Proxy) answer(c net.Conn, code int, reason string) {
	_ = c.SetDeadline(time.Now().Add(p.Limits.HeaderTime))
	body := "bestof: " + reason + "\n"
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nX-Bestof-Refused: %s\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(body), reason, body)
}
