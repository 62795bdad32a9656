package session

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/bestof-dev/bestof/mcp"
)

// maxAsked is how many requests a server may make of us in one stream.
const maxAsked = 64

// An events reads a stream of server-sent events and passes on only what the
// request that opened it waits for: its answer, with which the stream ends for
// us, its progress, a few requests, and what is needed to resume.
type events struct {
	body  io.Closer
	lines *lineReader
	x     *exchange
	asked int
	ready []byte
	ended bool
}

func newEvents(body io.ReadCloser, x *exchange) *events {
	return &events{body: body, lines: newLineReader(body, mcp.MaxLine), x: x}
}

// Close implements io.Closer. It may be called during a Read.
func (e *events) Close() error { return e.body.Close() }

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		event, data, err := e.next()
		if err != nil {
			return 0, err
		}
		if e.wanted(data) {
			e.ready = event
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// next is one event with the empty line after it, and the data in it.
func (e *events) next() (event, data []byte, err error) {
	for {
		line, long, err := e.lines.next(true)
		switch {
		case err == io.EOF && len(event) > 0:
			// mcp-go takes an event that was not finished for one.
			return append(event, '\n'), data, nil
		case err != nil:
			return nil, nil, err
		case long || len(event)+len(line) > mcp.MaxLine:
			e.x.oversize.Store(true)
			return nil, nil, errOversize
		}
		if len(line) == 0 {
			if len(event) == 0 {
				continue
			}
			return append(event, '\n'), data, nil
		}
		if line[0] == ':' {
			continue // a comment
		}
		event = append(append(event, line...), '\n')
		if part, ok := strings.CutPrefix(string(line), "data:"); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, strings.TrimPrefix(part, " ")...)
		}
	}
}

// wanted decides about one event by its data.
func (e *events) wanted(data []byte) bool {
	if len(bytes.TrimSpace(data)) == 0 {
		return true // an id or a retry time
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
	}
	switch {
	case json.Unmarshal(data, &m) != nil:
		return false
	case m.Method == nil:
		id, ok := ourID(m.ID)
		e.ended = ok && id == e.x.id
		return e.ended
	case isNull(m.ID):
		return *m.Method == progressMethod
	}
	e.asked++
	return e.asked <= maxAsked
}
