package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/mcp"
)

// A pipe speaks to a server over its stdin and stdout. It is a transport of
// mcp-go in the place of its own, which bounds no line and in which a server
// that does not read its input blocks every caller for good. Here nobody waits
// for a write, and nothing but answers to our requests and progress gets in.
type pipe struct {
	process *proc.Process
	stderr  *tail
	stuck   time.Duration

	queue chan *message
	mu    sync.Mutex
	wait  map[int64]chan answer
	told  func(sdk.JSONRPCNotification)
	heard time.Time // when the last line came
	why   string    // why it was ended from here

	gone    chan struct{} // closed when no answer can come any more
	loops   sync.WaitGroup
	closing sync.Once
}

type answer struct {
	response *transport.JSONRPCResponse
	err      error
}

var (
	errGone      = errors.New("the connection ended")
	errBusy      = errors.New("it does not read its input")
	errOversize  = fmt.Errorf("its answer is over the limit of %d bytes", mcp.MaxLine)
	errForeignID = errors.New("its answer has the id of another request")
)

const (
	queueLength = 256
	deathWait   = 500 * time.Millisecond // between the end of a stream and that of its process
)

// A message waits to be written until it is taken back.
type message struct {
	line  []byte
	state atomic.Int32
}

const (
	waiting = iota
	leaving
	withdrawn
)

func newPipe(p *proc.Process, stuck time.Duration) *pipe {
	c := &pipe{
		process: p, stderr: drain(p.Stderr), stuck: stuck,
		queue: make(chan *message, queueLength),
		wait:  map[int64]chan answer{},
		gone:  make(chan struct{}),
	}
	c.loops.Go(c.read)
	c.loops.Go(c.write)
	return c
}

// Start implements transport.Interface.
func (c *pipe) Start(context.Context) error { return nil }

// GetSessionId implements transport.Interface.
func (c *pipe) GetSessionId() string { return "" }

// SetNotificationHandler implements transport.Interface.
func (c *pipe) SetNotificationHandler(told func(sdk.JSONRPCNotification)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = told
}

// SendRequest implements transport.Interface. It returns when ctx ends, however
// the server behaves.
func (c *pipe) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	id, ok := r.ID.Value().(int64)
	if !ok {
		return nil, fmt.Errorf("request id %v is not a number", r.ID)
	}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	got := make(chan answer, 1)
	c.mu.Lock()
	c.wait[id] = got
	c.mu.Unlock()
	defer c.forget(id)

	m := &message{line: append(line, '\n')}
	if err := c.put(m); err != nil {
		return nil, err
	}
	defer func() { exchangeOf(ctx).sent.Store(m.state.Load() == leaving) }()
	select {
	case a := <-got:
		return a.response, a.err
	case <-ctx.Done():
		m.state.CompareAndSwap(waiting, withdrawn)
		return nil, ctx.Err()
	case <-c.gone:
		m.state.CompareAndSwap(waiting, withdrawn)
		select {
		case a := <-got: // it came just before the end
			return a.response, a.err
		default:
			return nil, errGone
		}
	}
}

func (c *pipe) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wait, id)
}

// SendNotification implements transport.Interface.
func (c *pipe) SendNotification(_ context.Context, n sdk.JSONRPCNotification) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return c.put(&message{line: append(line, '\n')})
}

func (c *pipe) put(m *message) error {
	select {
	case <-c.gone:
		return errGone
	default:
	}
	select {
	case c.queue <- m:
		return nil
	default:
		return errBusy
	}
}

// write passes messages on. A server that has not taken one after a while is
// ended: there is no way to take half a line back.
func (c *pipe) write() {
	late := time.AfterFunc(c.stuck, func() {
		c.end(fmt.Sprintf("it had not read its input for %v", c.stuck))
	})
	late.Stop()
	for {
		select {
		case <-c.gone:
			return
		case m := <-c.queue:
			if !m.state.CompareAndSwap(waiting, leaving) {
				continue
			}
			late.Reset(c.stuck)
			_, err := c.process.Stdin.Write(m.line)
			late.Stop()
			if err != nil {
				c.endUnlessDead("it closed its input")
				return
			}
		}
	}
}

// end ends the server for a reason of ours.
func (c *pipe) end(why string) {
	c.mu.Lock()
	if c.why == "" {
		c.why = why
	}
	c.mu.Unlock()
	_ = c.process.Stop() // Close says what cannot be stopped
}

// endUnlessDead ends a server that is of no use any more. One that is dying by
// itself is left to say how.
func (c *pipe) endUnlessDead(why string) {
	if !c.died() {
		c.end(why)
	}
}

// died waits a little for the end of a server that has closed a stream.
func (c *pipe) died() bool {
	timer := time.NewTimer(deathWait)
	defer timer.Stop()
	select {
	case <-c.process.Done():
		return true
	case <-timer.C:
		return false
	}
}

func (c *pipe) read() {
	for lines := newLineReader(c.process.Stdout, mcp.MaxLine); ; {
		line, long, err := lines.next(false)
		if err != nil {
			break
		}
		c.mu.Lock()
		c.heard = time.Now()
		c.mu.Unlock()
		if long {
			c.oversized()
			continue
		}
		c.take(line)
	}
	close(c.gone)
	c.endUnlessDead("it closed its output")
}

// take is told one line. What is not a message is none of our business.
func (c *pipe) take(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(line, &m) != nil {
		return
	}
	if m.Method != nil {
		c.asked(line, *m.Method, m.ID)
		return
	}
	id, ok := ourID(m.ID)
	if !ok {
		return
	}
	r := transport.JSONRPCResponse{JSONRPC: sdk.JSONRPC_VERSION, ID: sdk.NewRequestId(id), Result: m.Result}
	if m.Error != nil && json.Unmarshal(m.Error, &r.Error) != nil {
		return
	}
	c.deliver(id, answer{response: &r})
}

// ourID reads an id of ours, which some servers send back as text.
func ourID(raw json.RawMessage) (int64, bool) {
	s := string(bytes.Trim(raw, `"`))
	id, err := strconv.ParseInt(s, 10, 64)
	return id, err == nil
}

func (c *pipe) deliver(id int64, a answer) {
	c.mu.Lock()
	got := c.wait[id]
	delete(c.wait, id)
	c.mu.Unlock()
	if got != nil {
		got <- a
	}
}

// oversized fails the request whose answer was too long, when there is no doubt
// which it is.
func (c *pipe) oversized() {
	c.mu.Lock()
	var only int64
	n := len(c.wait)
	for id := range c.wait {
		only = id
	}
	c.mu.Unlock()
	if n == 1 {
		c.deliver(only, answer{err: errOversize})
	}
}

// asked is told what is not an answer: of a server's notifications only
// progress counts, and of its requests only ping. No capability is offered, so
// everything else is refused.
func (c *pipe) asked(line []byte, method string, id json.RawMessage) {
	if isNull(id) {
		var n sdk.JSONRPCNotification
		c.mu.Lock()
		told := c.told
		c.mu.Unlock()
		if method == progressMethod && told != nil && json.Unmarshal(line, &n) == nil {
			told(n)
		}
		return
	}
	const longestID = 1 << 10
	if len(id) > longestID || isObject(id) || id[0] == '[' {
		return
	}
	reply := struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result,omitempty"`
		Error   any             `json:"error,omitempty"`
	}{JSONRPC: sdk.JSONRPC_VERSION, ID: id}
	if method == string(sdk.MethodPing) {
		reply.Result = struct{}{}
	} else {
		reply.Error = map[string]any{"code": sdk.METHOD_NOT_FOUND, "message": "method not found"}
	}
	if b, err := json.Marshal(reply); err == nil {
		_ = c.put(&message{line: append(b, '\n')}) // one that asks and does not read gets no answer
	}
}

// lastHeard is when the server wrote its last line.
func (c *pipe) lastHeard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// cause is how the server ended, in a few words.
func (c *pipe) cause() string {
	dead := c.died()
	c.mu.Lock()
	why := c.why
	c.mu.Unlock()
	if why != "" {
		return why
	}
	if !dead {
		return "it does not end"
	}
	res, err := c.process.Wait()
	switch {
	case errors.Is(err, proc.ErrSupervisorLost):
		return "it was killed from outside"
	case err != nil:
		return err.Error()
	case res.End == proc.NotRun:
		return res.Reason
	case res.Signal != 0:
		return fmt.Sprintf("it was killed by signal %d", res.Signal)
	}
	return fmt.Sprintf("it exited with status %d", res.Code)
}

// finish lets the server tidy up after the end of its input, and then ends it
// with everything that it started.
func (c *pipe) finish(grace time.Duration) error {
	var err error
	c.closing.Do(func() {
		c.process.Stdin.Close()
		timer := time.NewTimer(grace)
		select {
		case <-c.process.Done():
		case <-timer.C:
		}
		timer.Stop()
		err = c.process.Close()
		c.loops.Wait()
		<-c.stderr.ended
	})
	return err
}

// Close implements transport.Interface; finish is what ends a server.
func (c *pipe) Close() error { return nil }
