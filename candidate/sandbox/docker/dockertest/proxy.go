package dockertest

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A Proxy is a socket behind which the engine is, as long as the test likes.
type Proxy struct {
	Host string // a value of DOCKER_HOST

	// Before and After are told of a request, "POST /v1.41/containers/create",
	// when it has come, and when it was answered. False cuts its connection.
	// They are set before the first request, or nil.
	Before, After func(request string) bool

	to    string
	l     *net.UnixListener
	hung  chan struct{} // closed: nothing is passed on
	ended chan struct{} // closed by Cut
	mu    sync.Mutex
	gone  bool
	conns []*net.UnixConn
}

// NewProxy makes a socket for members of a group.
func NewProxy(t testing.TB, host string, gid int) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dockertest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "docker.sock")
	p := &Proxy{Host: "unix://" + path, to: strings.TrimPrefix(host, "unix://"), hung: make(chan struct{}), ended: make(chan struct{})}
	if p.l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chmod(path, 0o660), os.Chown(path, -1, gid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	go p.serve()
	t.Cleanup(p.Cut)
	return p
}

func (p *Proxy) serve() {
	for {
		conn, err := p.l.AcceptUnix()
		if err != nil {
			return
		}
		up, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.to, Net: "unix"})
		if err != nil || !p.keep(conn, up) {
			conn.Close()
			continue
		}
		go p.pass(conn, up)
	}
}

func (p *Proxy) keep(conns ...*net.UnixConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		for _, c := range conns {
			c.Close()
		}
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

// Hang passes nothing on any more, and takes every connection all the same: an
// engine that hangs, until the proxy is Cut.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.hung:
	default:
		close(p.hung)
	}
}

// Cut ends all connections, and lets no more begin: an engine that died.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		close(p.ended)
	}
	p.gone = true
	p.l.Close()
	for _, c := range p.conns {
		c.Close()
	}
}

// Drop ends all connections, and others may begin: an engine that was restarted.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// pass joins two connections, each direction to its own end.
func (p *Proxy) pass(conn, up *net.UnixConn) {
	defer conn.Close()
	defer up.Close()
	var asked sync.Mutex
	request := ""
	var both sync.WaitGroup
	both.Go(func() {
		p.copy(up, conn, func(b []byte) bool {
			if r := requestOf(b); r != "" {
				asked.Lock()
				request = r
				asked.Unlock()
				return p.Before == nil || p.Before(r)
			}
			return true
		})
	})
	both.Go(func() {
		p.copy(conn, up, func(b []byte) bool {
			asked.Lock()
			r := request
			request = ""
			asked.Unlock()
			return r == "" || p.After == nil || p.After(r)
		})
	})
	both.Wait()
}

func (p *Proxy) copy(to, from *net.UnixConn, pass func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-p.hung:
			<-p.ended
			return
		default:
		}
		if n > 0 {
			if !pass(buf[:n]) {
				to.Close()
				from.Close()
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err == io.EOF {
			_ = to.CloseWrite()
		}
		if err != nil {
			return
		}
	}
}

// requestOf is the method and path that b begins with, if it begins a request.
func requestOf(b []byte) string {
	line, _, _ := bytes.Cut(b[:min(len(b), 4096)], []byte("\r\n"))
	f := strings.Fields(string(line))
	if len(f) != 3 || f[2] != "HTTP/1.1" {
		return ""
	}
	path, _, _ := strings.Cut(f[1], "?")
	return f[0] + " " + path
}
