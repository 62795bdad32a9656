package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/mcp"
)

// The protocol revisions that are spoken, newest first. The first needs no
// handshake and no session: every request says its revision in _meta.
const (
	V20260728 = "2026-07-28"
	V20251125 = "2025-11-25"
	V20250618 = "2025-06-18"
)

// Versions are all of them.
func Versions() []string { return []string{V20260728, V20251125, V20250618} }

// Modern reports whether a revision has no handshake. Revisions are dates.
func Modern(version string) bool { return version >= V20260728 }

// Known reports whether a revision is spoken.
func Known(version string) bool { return slices.Contains(Versions(), version) }

// Negotiate is the revision that an initialize is answered with: the asked
// one, or the nearest that has a handshake.
func Negotiate(asked string) string {
	if asked >= V20251125 {
		return V20251125
	}
	return V20250618
}

const (
	metaVersion    = "io.modelcontextprotocol/protocolVersion"
	metaServerInfo = "io.modelcontextprotocol/serverInfo"
	metaListen     = "io.modelcontextprotocol/subscriptionId"
)

// HTTP headers of MCP.
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderSession = "Mcp-Session-Id"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
)

// named are the methods whose Mcp-Name repeats a member of the params.
var named = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

// CheckHeaders verifies what a request of 2026-07-28 must say twice: in its
// headers, for those who route by them, and in its body.
func CheckHeaders(h http.Header, m Message) *Error {
	version, header := m.MetaVersion(), h.Get(HeaderVersion)
	switch {
	case header == "":
		return &Error{Code: HeaderMismatch, Message: "the header " + HeaderVersion + " is missing"}
	case version == "":
		return &Error{Code: InvalidParams, Message: "_meta does not say " + metaVersion}
	case version != header:
		return &Error{Code: HeaderMismatch, Message: "the header " + HeaderVersion + " and _meta disagree"}
	case !Known(version):
		data, err := json.Marshal(map[string]any{"supported": Versions(), "requested": version})
		if err != nil {
			data = nil
		}
		return &Error{Code: UnsupportedVersion, Message: "this protocol version is not spoken", Data: data}
	case h.Get(HeaderMethod) != m.Method:
		return &Error{Code: HeaderMismatch, Message: "the header " + HeaderMethod + " is missing or not the method"}
	}
	member, ok := named[m.Method]
	if !ok {
		return nil
	}
	var want string
	if json.Unmarshal(m.Param(member), &want) != nil || decodeHeader(h.Get(HeaderName)) != want {
		return &Error{Code: HeaderMismatch, Message: "the header " + HeaderName + " is missing or not params." + member}
	}
	return nil
}

// SetHeaders sets what CheckHeaders verifies.
func SetHeaders(h http.Header, m Message) {
	h.Set(HeaderVersion, m.MetaVersion())
	h.Set(HeaderMethod, encodeHeader(m.Method))
	if member, ok := named[m.Method]; ok {
		var name string
		if json.Unmarshal(m.Param(member), &name) == nil {
			h.Set(HeaderName, encodeHeader(name))
		}
	}
}

const base64Prefix, base64Suffix = "=?base64?", "?="

func decodeHeader(v string) string {
	if inner, ok := strings.CutPrefix(v, base64Prefix); ok {
		if inner, ok = strings.CutSuffix(inner, base64Suffix); ok {
			if b, err := base64.StdEncoding.DecodeString(inner); err == nil {
				return string(b)
			}
		}
	}
	return v
}

func encodeHeader(v string) string {
	plain := strings.TrimSpace(v) == v && !strings.HasPrefix(v, base64Prefix) &&
		!strings.ContainsFunc(v, func(r rune) bool { return r < 0x20 || r > 0x7e })
	if plain {
		return v
	}
	return base64Prefix + base64.StdEncoding.EncodeToString([]byte(v)) + base64Suffix
}

// An Era is which of the two forms a response takes.
type Era struct {
	Modern bool
	Info   json.RawMessage // who answers: an Implementation, put into _meta of modern results
}

// CheckResult says why a result cannot be passed on: it holds what is not
// JSON, which would break the whole message.
func CheckResult(r mcp.Result) error {
	for i, block := range r.Content {
		if !json.Valid(block) {
			return fmt.Errorf("content block %d is not JSON", i+1)
		}
	}
	if r.Structured != nil && !json.Valid(r.Structured) {
		return errors.New("structuredContent is not JSON")
	}
	if r.Meta != nil {
		if _, err := Object(r.Meta); err != nil {
			return errors.New("_meta is not an object")
		}
	}
	return nil
}

// Call is the result of a tools/call. Blocks, structured content and _meta
// keep their bytes. CheckResult must have passed.
func (e Era) Call(r mcp.Result) json.RawMessage {
	size := 256 + len(r.Structured) + len(r.Meta)
	for _, block := range r.Content {
		size += len(block) + 1
	}
	b := make([]byte, 0, size)
	b = append(b, `{"content":[`...)
	for i, block := range r.Content {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, block...)
	}
	b = append(b, ']')
	if r.Structured != nil {
		b = append(b, `,"structuredContent":`...)
		b = append(b, r.Structured...)
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	return OneLine(append(e.appendTail(b, r.Meta), '}'))
}

// appendTail appends what every result of the era has, and _meta.
func (e Era) appendTail(b []byte, meta json.RawMessage) []byte {
	var own []byte
	if e.Modern {
		b = append(b, `,"resultType":"complete"`...)
		own = append(append(own, `"`+metaServerInfo+`":`...), e.Info...)
	}
	if fields, err := Object(meta); err == nil && len(fields) > 0 {
		inner := bytes.TrimSpace(meta)
		inner = inner[1 : len(inner)-1]
		if _, ok := fields[metaServerInfo]; ok || own == nil {
			own = inner
		} else {
			own = append(append(own, ','), inner...)
		}
	}
	if own != nil {
		b = append(append(append(b, `,"_meta":{`...), own...), '}')
	}
	return b
}

// ToolError is the result of a call that gave none: the reason, where the
// model reads it.
func (e Era) ToolError(reason string) json.RawMessage {
	b := append([]byte(`{"content":[{"type":"text","text":`), Text(reason)...)
	b = append(b, `}],"isError":true`...)
	return append(e.appendTail(b, nil), '}')
}

// List is the result of a tools/list: tools is a JSON array.
func (e Era) List(tools json.RawMessage) json.RawMessage {
	b := append([]byte(`{"tools":`), tools...)
	return e.cached(b)
}

// cached ends a result that the client may keep while it runs: what candidates
// are offered does not change.
func (e Era) cached(b []byte) json.RawMessage {
	if e.Modern {
		b = append(b, `,"ttlMs":300000,"cacheScope":"private"`...)
	}
	return append(e.appendTail(b, nil), '}')
}

const capabilities = `"capabilities":{"tools":{"listChanged":false}}`

// Discover is the result of a server/discover.
func (e Era) Discover() json.RawMessage {
	b := []byte(`{"supportedVersions":[`)
	for i, v := range Versions() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, Text(v)...)
	}
	return e.cached(append(b, "],"+capabilities...))
}

// Initialize is the result of an initialize.
func (e Era) Initialize(version string) json.RawMessage {
	b := append([]byte(`{"protocolVersion":`), Text(version)...)
	b = append(b, ","+capabilities+`,"serverInfo":`...)
	return append(append(b, e.Info...), '}')
}

// Listen gives the two messages of a subscriptions/listen: nothing was
// subscribed to, and that is all.
func (e Era) Listen(id json.RawMessage) (acknowledged, result json.RawMessage) {
	tag := append([]byte(`{"`+metaListen+`":`), id...)
	tag = append(tag, '}')
	acknowledged = append([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":`), tag...)
	acknowledged = append(acknowledged, '}', '}')
	b := append([]byte(`{"resultType":"complete","_meta":`), tag...)
	return acknowledged, append(b, '}')
}

// Progress is one notifications/progress.
func Progress(token json.RawMessage, p mcp.Progress) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token...)
	b = append(b, `,"progress":`...)
	b = strconv.AppendFloat(b, p.Progress, 'g', -1, 64)
	if p.Total != 0 {
		b = append(b, `,"total":`...)
		b = strconv.AppendFloat(b, p.Total, 'g', -1, 64)
	}
	if p.Message != "" {
		b = append(b, `,"message":`...)
		b = append(b, Text(p.Message)...)
	}
	return append(b, '}', '}')
}
