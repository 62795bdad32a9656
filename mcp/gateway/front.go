package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	maxSocketPath = 100 // bytes; Linux takes 107, other systems less
	maxStrangers  = 256 // connections that have not shown a token yet
	maxConns      = 64  // connections of one candidate

	headerTime = 10 * time.Second // to send the headers of a request
	bodyTime   = 30 * time.Second // to send its body
	writeTime  = 30 * time.Second // to take one piece of the answer
	idleTime   = 2 * time.Minute
)

// A front is the listeners and what is connected to them.
type front struct {
	server  *http.Server
	port    int
	sockets []string
	serving sync.WaitGroup

	mu     sync.Mutex
	closed bool
	links  map[net.Conn]*link
	count  int // connections so far, for their order
}

// A link is one connection. Its owner is known once it has shown a token.
type link struct {
	front *front
	conn  net.Conn
	order int
	owner *member
}

type linkKey struct{}

// listen opens loopback and the sockets.
func (g *Gateway) listen(socketDir string) error {
	f := &front{links: map[net.Conn]*link{}}
	f.server = &http.Server{
		Handler: g, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: 16 << 10,
		ErrorLog:    log.New(io.Discard, "", 0), // what a candidate does wrong is not the operator's news
		ConnState:   f.state,
		ConnContext: f.admit,
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("mcp gateway: listen on loopback: %w", err)
	}
	f.port = tcp.Addr().(*net.TCPAddr).Port
	listeners := []net.Listener{tcp}
	if socketDir != "" {
		for _, m := range g.members {
			l, err := f.socket(socketDir, m)
			if err != nil {
				for _, open := range listeners {
					open.Close()
				}
				return err
			}
			listeners = append(listeners, l)
		}
	}
	g.front = f // before the first request
	for _, l := range listeners {
		f.serving.Go(func() { f.server.Serve(l) }) // ends with ErrServerClosed
	}
	return nil
}

// socket makes one candidate's socket, which only this user can open.
func (f *front) socket(dir string, m *member) (net.Listener, error) {
	path := filepath.Join(dir, "c"+strconv.Itoa(m.number)+".sock")
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("mcp gateway: the socket's path %s is longer than %d bytes: choose a shorter work directory", path, maxSocketPath)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("mcp gateway: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("mcp gateway: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 {
		return nil, fmt.Errorf("mcp gateway: %s is not a directory with mode 0700", dir)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("mcp gateway: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("mcp gateway: %w", err)
	}
	m.socket = path
	return l, nil
}

// admit gives a new connection its link. When too many have shown no token,
// the oldest of those goes: whoever opens them in numbers loses their own.
func (f *front) admit(ctx context.Context, c net.Conn) context.Context {
	f.mu.Lock()
	f.count++
	l := &link{front: f, conn: c, order: f.count}
	f.links[c] = l
	var oldest *link
	strangers := 0
	for _, other := range f.links {
		if other.owner == nil {
			strangers++
			if oldest == nil || other.order < oldest.order {
				oldest = other
			}
		}
	}
	f.mu.Unlock()
	if strangers > maxStrangers {
		oldest.conn.Close()
	}
	return context.WithValue(ctx, linkKey{}, l)
}

func (f *front) state(c net.Conn, s http.ConnState) {
	if s == http.StateClosed {
		f.mu.Lock()
		delete(f.links, c)
		f.mu.Unlock()
	}
}

// claim says whose a connection is, and whether that candidate may have one
// more.
func (l *link) claim(m *member) bool {
	l.front.mu.Lock()
	defer l.front.mu.Unlock()
	if l.owner == m {
		return true
	}
	own := 0
	for _, other := range l.front.links {
		if other.owner == m {
			own++
		}
	}
	if own >= maxConns {
		return false
	}
	l.owner = m
	return true
}

// enter counts a request as work, unless the end has come.
func (g *Gateway) enter() bool {
	g.front.mu.Lock()
	defer g.front.mu.Unlock()
	if g.front.closed {
		return false
	}
	g.work.Add(1)
	return true
}

// close ends the listeners and all connections. The sockets go with them.
func (f *front) close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	err := f.server.Close()
	f.serving.Wait()
	return err
}
