package egress

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A flow is the bytes between a program and what it was connected to.
type flow struct {
	proxy          *Proxy
	client, up     net.Conn
	sent, received atomic.Int64 // bytes to up, and from it
	tooMuch        atomic.Bool
	idle, total    *time.Timer
}

func (p *Proxy) flow(client, up net.Conn) *flow {
	f := &flow{proxy: p, client: client, up: up}
	f.idle = time.AfterFunc(p.Limits.Idle, f.cut)
	f.total = time.AfterFunc(p.Limits.Total, f.cut)
	return f
}

// cut ends both connections, whatever is under way on them.
func (f *flow) cut() {
	f.client.Close()
	f.up.Close()
}

func (f *flow) stop() {
	f.idle.Stop()
	f.total.Stop()
}

// both carries bytes in both directions until both have ended. fromClient may
// hold what was read of the client already.
func (f *flow) both(fromClient io.Reader) {
	var way sync.WaitGroup
	way.Go(func() { f.copy(f.up, fromClient, &f.sent) })
	f.copy(f.client, f.up, &f.received)
	way.Wait()
}

// copy carries one direction, and passes its end on.
func (f *flow) copy(to net.Conn, from io.Reader, count *atomic.Int64) {
	if _, err := io.Copy(f.counting(to, count), struct{ io.Reader }{from}); err != nil {
		f.cut()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	f.cut()
}

// counting is to, with every write counted.
func (f *flow) counting(to net.Conn, count *atomic.Int64) io.Writer {
	return writer(func(b []byte) (int, error) {
		f.idle.Reset(f.proxy.Limits.Idle)
		if f.proxy.bytes.Add(int64(len(b))) > f.proxy.Limits.Bytes {
			f.tooMuch.Store(true)
			return 0, io.ErrShortWrite
		}
		n, err := to.Write(b)
		count.Add(int64(n))
		return n, err
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
