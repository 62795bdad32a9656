package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway/wire"
)

// A call is a tools/call as the candidate sent it.
type call struct {
	id, token json.RawMessage // token is nil if no progress is wanted
	name      string
	arguments json.RawMessage
}

// readCall reads a tools/call. Without arguments they are {}.
func readCall(msg wire.Message) (call, *wire.Error) {
	c := call{id: msg.ID, token: msg.ProgressToken(), arguments: msg.Param("arguments")}
	if c.name, _ = wire.String(msg.Param("name")); c.name == "" {
		return c, &wire.Error{Code: wire.InvalidParams, Message: "params.name is not the name of a tool"}
	}
	if c.arguments == nil || string(c.arguments) == "null" {
		c.arguments = json.RawMessage("{}")
	}
	if c.arguments[0] != '{' { // the message was parsed: what begins so is an object
		return c, &wire.Error{Code: wire.InvalidParams, Message: "params.arguments is not an object"}
	}
	return c, nil
}

// await writes the progress and the answer of a call, as long as somebody is
// there to read.
func (e *exchange) await(c call, f *flight) {
	var events chan mcp.Progress
	if c.token != nil && strings.Contains(e.r.Header.Get("Accept"), "text/event-stream") {
		events = f.progress
	}
	for {
		select {
		case p := <-events:
			e.event(wire.Progress(c.token, p))
		case <-f.done:
			for len(events) > 0 {
				e.event(wire.Progress(c.token, <-events))
			}
			e.answer(f.answer)
			return
		case <-e.r.Context().Done():
			return
		}
	}
}

func (e *exchange) result(msg wire.Message, result json.RawMessage) {
	e.answer(wire.AppendResult(nil, msg.ID, result))
}

// answer writes the last message: as an event where there were some before it.
func (e *exchange) answer(message []byte) {
	if e.stream {
		e.event(message)
		return
	}
	e.send(http.StatusOK, message)
}

// fail answers with a JSON-RPC error, with the status that the revision asks
// for.
func (e *exchange) fail(msg wire.Message, bad *wire.Error) {
	status := http.StatusOK
	switch {
	case bad.Code == wire.MethodNotFound && e.era.Modern:
		status = http.StatusNotFound
	case e.era.Modern, bad.Code == wire.ParseError, bad.Code == wire.InvalidRequest:
		status = http.StatusBadRequest
	}
	e.send(status, wire.AppendError(nil, msg.ID, bad))
}

func (e *exchange) send(status int, message []byte) {
	e.patience()
	e.w.Header().Set("Content-Type", "application/json")
	e.w.WriteHeader(status)
	e.w.Write(message) // whoever does not read it has hung up
}

// event writes a message of a stream, and makes the answer one.
func (e *exchange) event(message []byte) {
	e.patience()
	if !e.stream {
		e.stream = true
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.w.Header().Set("Cache-Control", "no-store")
		e.w.WriteHeader(http.StatusOK)
	}
	e.w.Write(wire.AppendEvent(nil, message))
	e.control.Flush() // likewise
}

// patience bounds how long a reader may take for the next piece. A socket's
// deadlines are in real time.
func (e *exchange) patience() {
	e.control.SetWriteDeadline(time.Now().Add(writeTime))
}
