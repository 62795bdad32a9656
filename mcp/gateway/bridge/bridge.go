// Package bridge carries MCP between an agent that speaks it on its standard
// streams and its candidate's endpoint on a unix socket, for sandboxes without
// a network. It understands no more of a message than it must to send it.
package bridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway/wire"
)

const (
	maxAtOnce = 32               // requests under way
	endGrace  = 5 * time.Second  // for answers after the end of the input
	dialTime  = 10 * time.Second // to reach the socket
)

// A Config says where the endpoint is.
type Config struct {
	Socket string
	Token  string
	Server string // of /mcp/<server>, "" for all of them
}

// Run carries messages until in ends, or ctx does. It writes nothing to out
// but messages, each a line.
func Run(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	if c.Socket == "" || c.Token == "" {
		return errors.New("BESTOF_MCP_SOCKET and BESTOF_MCP_TOKEN are not set: a candidate's environment has them")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := newBridge(c, out)
	defer b.client.CloseIdleConnections()
	lines := make(chan line)
	go read(ctx, in, lines)
	for {
		select {
		case <-ctx.Done():
			b.work.Wait()
			return context.Cause(ctx)
		case l := <-lines:
			if len(bytes.TrimSpace(l.text)) > 0 {
				b.take(ctx, l.text)
			}
			if l.err != nil {
				return b.end(cancel, l.err)
			}
		}
		if err := b.broken(); err != nil {
			cancel()
			b.work.Wait()
			return err
		}
	}
}

// A line is one of the input; with an error it is the last.
type line struct {
	text []byte
	err  error
}

// read feeds lines until ctx ends. It may hang in a read after that, as long
// as whoever holds the other end keeps it open.
func read(ctx context.Context, in io.Reader, lines chan<- line) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		text, err := wire.Line(r, mcp.MaxLine)
		select {
		case lines <- line{text, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

type bridge struct {
	client *http.Client
	url    string
	token  string
	places chan struct{}
	work   sync.WaitGroup

	mu      sync.Mutex
	out     io.Writer
	failed  error // of the output
	session string
	version string
	cancels map[string]context.CancelFunc // of requests under way
}

func newBridge(c Config, out io.Writer) *bridge {
	url := "http://localhost/mcp"
	if c.Server != "" {
		url += "/" + c.Server
	}
	dialer := net.Dialer{Timeout: dialTime}
	return &bridge{
		url: url, token: c.Token, out: out, places: make(chan struct{}, maxAtOnce), cancels: map[string]context.CancelFunc{},
		client: &http.Client{
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return dialer.DialContext(ctx, "unix", c.Socket)
				},
				DisableCompression: true, MaxIdleConnsPerHost: maxAtOnce,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// end waits a little for answers that are under way.
func (b *bridge) end(cancel context.CancelFunc, err error) error {
	if !errors.Is(err, io.EOF) {
		cancel()
		b.work.Wait()
		return fmt.Errorf("read the input: %w", err)
	}
	stop := time.AfterFunc(endGrace, cancel)
	defer stop.Stop()
	b.work.Wait()
	return b.broken()
}

func (b *bridge) broken() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// take sends one message of the agent. Requests go side by side, but for the
// handshake; what is no request goes before the next message is read, so that
// nothing overtakes it.
func (b *bridge) take(ctx context.Context, text []byte) {
	msg, bad := wire.Parse(text)
	switch {
	case bad != nil:
		b.put(wire.AppendError(nil, msg.ID, bad))
	case msg.Method == "":
		// A response: the endpoint asks nothing.
	case msg.ID == nil && msg.Method == "notifications/cancelled" && b.modern():
		b.abort(string(msg.Param("requestId")))
	case msg.ID == nil || msg.Method == "initialize":
		b.send(ctx, msg, text)
	default:
		b.start(ctx, msg, text)
	}
}

// start sends a request by the side of others. It never waits for them: a
// cancellation must be heard.
func (b *bridge) start(ctx context.Context, msg wire.Message, text []byte) {
	select {
	case b.places <- struct{}{}:
	default:
		why := fmt.Sprintf("bestof mcp bridge: %d requests are under way: wait for one to end", maxAtOnce)
		b.put(wire.AppendError(nil, msg.ID, &wire.Error{Code: wire.Internal, Message: why}))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	id := string(msg.ID)
	b.mu.Lock()
	b.cancels[id] = cancel
	b.mu.Unlock()
	b.work.Go(func() {
		defer func() { <-b.places }()
		defer b.landed(id, cancel)
		b.send(ctx, msg, text)
	})
}

func (b *bridge) landed(id string, cancel context.CancelFunc) {
	b.mu.Lock()
	delete(b.cancels, id)
	b.mu.Unlock()
	cancel()
}

// modern reports whether there was no handshake: then a request is canceled by
// hanging up.
func (b *bridge) modern() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session == ""
}

func (b *bridge) abort(id string) {
	b.mu.Lock()
	cancel := b.cancels[id]
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// send posts one message and passes on what comes back.
func (b *bridge) send(ctx context.Context, msg wire.Message, text []byte) {
	resp, err := b.post(ctx, msg, text)
	if err == nil {
		defer resp.Body.Close()
		err = b.pass(msg, resp)
	}
	if err == nil || msg.ID == nil || ctx.Err() != nil {
		return // of a notification nobody wants to hear; of what was canceled neither
	}
	b.put(wire.AppendError(nil, msg.ID, &wire.Error{Code: wire.Internal, Message: "bestof mcp bridge: " + b.hide(err.Error())}))
}

func (b *bridge) post(ctx context.Context, msg wire.Message, text []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	b.mu.Lock()
	session, version := b.session, b.version
	b.mu.Unlock()
	switch {
	case msg.MetaVersion() != "":
		wire.SetHeaders(req.Header, msg)
	case msg.Method != "initialize" && session != "":
		req.Header.Set(wire.HeaderSession, session)
		req.Header.Set(wire.HeaderVersion, version)
	}
	return b.client.Do(req)
}

// pass writes the messages of an answer.
func (b *bridge) pass(msg wire.Message, resp *http.Response) error {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if media == "text/event-stream" {
		answered := false
		err := wire.Events(io.LimitReader(resp.Body, 4*mcp.MaxLine), mcp.MaxLine, func(data []byte) error {
			answered = answered || bytes.Contains(data, msg.ID) && isAnswer(data)
			b.put(data)
			return nil
		})
		if err == nil && !answered {
			err = errors.New("the answer ended before its result")
		}
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, mcp.MaxLine+1))
	switch {
	case err != nil:
		return err
	case len(body) > mcp.MaxLine:
		return fmt.Errorf("the answer: %w", wire.ErrTooLong)
	case msg.ID == nil:
		return nil
	case !isAnswer(body):
		return fmt.Errorf("the endpoint answered %s: %.200q", resp.Status, body)
	}
	if msg.Method == "initialize" {
		b.opened(resp.Header.Get(wire.HeaderSession), body)
	}
	b.put(body)
	return nil
}

// isAnswer reports whether b is a response of JSON-RPC.
func isAnswer(b []byte) bool {
	fields, err := wire.Object(b)
	return err == nil && string(fields["jsonrpc"]) == `"2.0"` && fields["method"] == nil && (fields["result"] != nil || fields["error"] != nil)
}

// opened keeps what the following messages must say.
func (b *bridge) opened(session string, body []byte) {
	var reply struct {
		Result struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(body, &reply) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session, b.version = session, reply.Result.ProtocolVersion
}

// put writes one message as a line.
func (b *bridge) put(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		return
	}
	text := append(wire.OneLine(bytes.TrimSpace(message)), '\n')
	if _, err := b.out.Write(text); err != nil {
		b.failed = fmt.Errorf("write the output: %w", err)
	}
}

func (b *bridge) hide(s string) string { return strings.ReplaceAll(s, b.token, "***") }
