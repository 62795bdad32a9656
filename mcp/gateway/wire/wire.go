// Package wire is the part of JSON-RPC and MCP that the gateway and the bridge
// speak: messages in, bytes out. It is pure, and it never re-encodes what
// somebody else's server said: bytes go through as they came.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Codes of JSON-RPC and of MCP 2026-07-28.
const (
	ParseError         = -32700
	InvalidRequest     = -32600
	MethodNotFound     = -32601
	InvalidParams      = -32602
	Internal           = -32603
	HeaderMismatch     = -32020
	UnsupportedVersion = -32022
)

// An Error is a JSON-RPC error. Data is JSON, or nil.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// A Message is one JSON-RPC message as its bytes say: keys are matched by
// their exact spelling and none occurs twice, at any depth, so that everybody
// who reads it reads the same.
type Message struct {
	ID     json.RawMessage // a string or a number; nil for a notification
	Method string          // "" for a response
	Params json.RawMessage // an object, or nil

	params, meta object
}

// maxDepth is how deep a message may nest.
const maxDepth = 200

// Parse reads one message. With an error the ID is set where it could be read.
func Parse(body []byte) (Message, *Error) {
	var m Message
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '[' {
		return m, &Error{Code: InvalidRequest, Message: "batches are not taken: send one message at a time"}
	}
	if err := Strict(body); err != nil {
		return m, &Error{Code: ParseError, Message: "the message is not one JSON object: " + err.Error()}
	}
	fields, ok := members(body)
	if !ok {
		return m, &Error{Code: InvalidRequest, Message: "the message is not an object"}
	}
	if id := fields.get("id"); id != nil {
		if !idForm(id) {
			return m, &Error{Code: InvalidRequest, Message: "id is neither a string nor a number of at most 256 bytes"}
		}
		m.ID = id
	}
	if string(fields.get("jsonrpc")) != `"2.0"` {
		return m, &Error{Code: InvalidRequest, Message: `jsonrpc is not "2.0"`}
	}
	method := fields.get("method")
	if method == nil {
		if m.ID == nil || fields.get("result") == nil && fields.get("error") == nil {
			return m, &Error{Code: InvalidRequest, Message: "the message is no request, notification or response"}
		}
		return m, nil
	}
	if m.Method, _ = String(method); m.Method == "" {
		return m, &Error{Code: InvalidRequest, Message: "method is not a name"}
	}
	if params := fields.get("params"); params != nil && string(params) != "null" {
		if m.params, ok = members(params); !ok {
			return m, &Error{Code: InvalidParams, Message: "params is not an object"}
		}
		m.Params = params
		if meta := m.params.get("_meta"); meta != nil {
			if m.meta, ok = members(meta); !ok {
				return m, &Error{Code: InvalidParams, Message: "_meta is not an object"}
			}
		}
	}
	return m, nil
}

func idForm(id json.RawMessage) bool {
	return len(id) <= 256 && (id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9')
}

// Object reads the members of one JSON object.
func Object(b []byte) (map[string]json.RawMessage, error) {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 || b[0] != '{' {
		return nil, errors.New("not an object")
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	return m, nil
}

// Param gives one member of the params, nil if it is not there.
func (m Message) Param(name string) json.RawMessage { return m.params.get(name) }

// ProgressToken is the token under which progress is asked for: a string or a
// number, or nil.
func (m Message) ProgressToken() json.RawMessage {
	token := m.meta.get("progressToken")
	if token == nil || !idForm(token) {
		return nil
	}
	return token
}

// MetaVersion is the protocol version that a request of 2026-07-28 or later
// says it speaks, "" if it says none.
func (m Message) MetaVersion() string {
	v, _ := String(m.meta.get(metaVersion))
	return v
}

// Text is s as a JSON string, without HTML escapes.
func Text(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil { // a string always encodes
		return []byte(`""`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// AppendResult appends a response.
func AppendResult(dst []byte, id, result json.RawMessage) []byte {
	dst = appendHead(dst, id)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends an error response. Without an id it is null.
func AppendError(dst []byte, id json.RawMessage, e *Error) []byte {
	dst = appendHead(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = append(dst, Text(e.Message)...)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}', '}')
}

func appendHead(dst []byte, id json.RawMessage) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}

// OneLine is a JSON text without line ends. They are white space in JSON,
// never part of a string, so nothing but the layout changes, in place.
func OneLine(b []byte) []byte {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
	return b
}
