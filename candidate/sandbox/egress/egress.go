// Package egress is how a program without a network reaches the hosts that it
// was granted, and no others: an HTTP proxy in this process, on a unix socket
// of the program's own. A name is resolved here, once, and what is dialled is
// the address that was judged, so that a name cannot change its mind. What a
// program says inside of a tunnel is not looked at.
package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bestof-dev/bestof/internal/hosts"
)

// Limits bound what one program may ask for. Zero fields mean the default.
type Limits struct {
	Header      int           // bytes of a request's head; 32 KiB
	HeaderTime  time.Duration // to send it; 10 s
	DialTime    time.Duration // to resolve a name and reach it; 30 s
	Idle        time.Duration // without a byte in either direction; 10 min
	Total       time.Duration // of one connection; 6 h
	Connections int           // at once; 128
	Bytes       int64         // of all connections, both ways; 16 GiB
}

func (l Limits) withDefaults() Limits {
	fill(&l.Header, 32<<10)
	fill(&l.HeaderTime, 10*time.Second)
	fill(&l.DialTime, 30*time.Second)
	fill(&l.Idle, 10*time.Minute)
	fill(&l.Total, 6*time.Hour)
	fill(&l.Connections, 128)
	fill(&l.Bytes, 16<<30)
	return l
}

func fill[T int | int64 | time.Duration](field *T, def T) {
	if *field <= 0 {
		*field = def
	}
}

// Config is what a proxy needs to know.
type Config struct {
	Rules  []hosts.Rule // what is let through; everything else is refused
	Limits Limits
	Ledger *Ledger // keeps every decision; required

	// Roots are whom ListenFor trusts; nil is whom the system does.
	Roots *x509.CertPool

	// Resolve and Dial are the system's when they are nil.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// A Proxy serves one program. Close ends it and everything that it carries.
type Proxy struct {
	Config
	slots chan struct{}
	bytes atomic.Int64
	over  context.Context
	end   context.CancelFunc
	work  sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[net.Conn]bool
	servers   []func() error    // what else is to be closed
	meters    map[*metered]bool // connections that are open and note themselves
}

// New returns a proxy that listens nowhere yet.
func New(c Config) *Proxy {
	c.Limits = c.Limits.withDefaults()
	if c.Resolve == nil {
		c.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".") // no search domain
		}
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", to.String())
		}
	}
	p := &Proxy{Config: c, slots: make(chan struct{}, c.Limits.Connections), conns: map[net.Conn]bool{}}
	p.over, p.end = context.WithCancel(context.Background())
	return p
}

// maxSocketPath is what Linux takes for the name of a unix socket, in bytes.
const maxSocketPath = 107

// Listen serves HTTP's proxy protocol on a new unix socket.
func (p *Proxy) Listen(socket string) error { return p.listen(socket, p.serve) }

// ListenTo connects whoever comes to a new unix socket with the target, whose
// rule has to be among the proxy's.
func (p *Proxy) ListenTo(socket string, to hosts.Target) error {
	return p.listen(socket, func(c net.Conn) { p.carry(c, to) })
}

func listenUnix(socket string) (net.Listener, error) {
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("the socket's path %s is longer than %d bytes: choose a shorter work directory", socket, maxSocketPath)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for a program: %w", err)
	}
	// Who may reach it is decided by its directory and by what is mounted: in
	// a container the program is another user.
	if err := os.Chmod(socket, 0o666); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen for a program: %w", err)
	}
	return l, nil
}

var errClosed = errors.New("listen for a program: the proxy is closed")

func (p *Proxy) listen(socket string, serve func(net.Conn)) error {
	l, err := listenUnix(socket)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.Join(errClosed, l.Close())
	}
	p.listeners = append(p.listeners, l)
	p.work.Go(func() { p.accept(l, serve) })
	return nil
}

func (p *Proxy) accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			if p.over.Err() != nil {
				return
			}
			select { // of want of descriptors, which passes
			case <-p.over.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		select {
		case p.slots <- struct{}{}:
		default:
			p.Ledger.add(Use{Reason: tooMany, Count: 1})
			c.Close()
			continue
		}
		if !p.keep(c) {
			<-p.slots
			continue
		}
		p.work.Go(func() {
			defer func() { <-p.slots }()
			defer p.drop(c)
			serve(c)
		})
	}
}

// keep notes a connection that Close has to end; it reports false, and ends it,
// when the proxy is closed.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	c.Close()
}

// Close ends every connection and returns when nothing of the proxy is left.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.end()
	var errs []error
	for _, l := range p.listeners {
		errs = append(errs, l.Close())
	}
	p.listeners = nil
	for c := range p.conns {
		c.Close()
	}
	servers := p.servers
	p.servers = nil
	p.mu.Unlock()
	for _, end := range servers {
		errs = append(errs, end())
	}
	p.work.Wait()
	p.mu.Lock()
	meters := p.meters
	p.meters = nil
	p.mu.Unlock()
	for m := range meters {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// decide says which addresses stand for the target, or why none does.
func (p *Proxy) decide(ctx context.Context, t hosts.Target, plain bool) (to []netip.Addr, refused string) {
	allowed := false
	for _, r := range p.Rules {
		allowed = allowed || r.Match(t, plain)
	}
	switch {
	case !allowed:
		return nil, "not allowed"
	case t.Addr.IsValid():
		return []netip.Addr{t.Addr}, "" // only a rule that is this very address lets it through
	}
	found, err := p.Resolve(ctx, t.Name)
	if err != nil || len(found) == 0 {
		return nil, "its name cannot be resolved"
	}
	for _, a := range found {
		a = a.Unmap()
		why := hosts.NotPublic(a)
		if why == "" {
			to = append(to, a)
			continue
		}
		if refused == "" {
			refused = fmt.Sprintf("its name leads to %s, of %s", a, why)
		}
	}
	if len(to) > 0 {
		return to[:min(len(to), maxTries)], ""
	}
	return nil, refused
}

// maxTries is how many addresses of a name are dialled.
const maxTries = 4

// A refusal is why a program is not connected.
type refusal struct {
	reason  string
	allowed bool // by the rules: it could not be reached
}

// reach connects to a target that the rules let through.
func (p *Proxy) reach(t hosts.Target, plain bool) (net.Conn, *refusal) {
	if p.bytes.Load() >= p.Limits.Bytes {
		return nil, &refusal{reason: tooMuch}
	}
	ctx, cancel := context.WithTimeout(p.over, p.Limits.DialTime)
	defer cancel()
	to, why := p.decide(ctx, t, plain)
	if why != "" {
		return nil, &refusal{reason: why}
	}
	for _, a := range to {
		c, err := p.Dial(ctx, netip.AddrPortFrom(a, t.Port))
		if err == nil {
			if p.keep(c) {
				return c, nil
			}
			break
		}
	}
	return nil, &refusal{reason: "it could not be reached", allowed: true}
}

const tooMany = "too many connections at once"

const tooMuch = "more bytes than a candidate may carry"
