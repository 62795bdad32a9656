// Package mcp is the vocabulary of the operator's MCP servers: what is
// configured, how a tool is named on the wire, what a server declared and
// what a call gave. It is pure: session speaks to servers, gateway to
// candidates, store keeps files.
package mcp

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Transport is how a server is reached (seeds: "stdio or http").
type Transport string

// The two transports.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
)

// A Server is one entry of an mcp.toml: a table [servers.NAME].
type Server struct {
	Name          string
	Transport     Transport
	Cmd           string            // stdio: the program, found on PATH, never through a shell
	Args          []string          // stdio
	Env           map[string]string // stdio: all that the process gets besides PATH
	URL           string            // http: a streamable HTTP endpoint
	Headers       map[string]string // http: sent with every request; secret
	CandidateSafe bool              // may be reached by candidates and is prefetched
	Granted       *bool             // nil: written by hand, usable

	// The card is written by an install and is for display only, but for
	// RegistryName, which decides whether a grant survives a reinstall.
	Title, Description, RegistryName, Repository, Version string
}

// Usable reports whether the server's tools may be called at all: "left out on
// an entry you wrote yourself, which counts as granted".
func (s Server) Usable() bool { return s.Granted == nil || *s.Granted }

// A Tool is what a server declared, bounded by whoever read it from the server.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema"` // always a JSON object
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  *Annotations    `json:"annotations,omitempty"`

	// Replaced says that InputSchema is a stand-in for one that was too big,
	// so that what the tool requires is not known.
	Replaced bool `json:"-"`
}

// Annotations are a server's claims about a tool. They can raise caution and
// never lower it.
type Annotations struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    *bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool  `json:"destructiveHint,omitempty"`
	Idempotent  *bool  `json:"idempotentHint,omitempty"`
	OpenWorld   *bool  `json:"openWorldHint,omitempty"`
}

// SafeToRepeat reports whether the server claims that a call which may or may
// not have happened can be sent again.
func (t Tool) SafeToRepeat() bool {
	a := t.Annotations
	return a != nil && (a.ReadOnly != nil && *a.ReadOnly || a.Idempotent != nil && *a.Idempotent)
}

// A Call is one tools/call of one server. Arguments is a JSON object; nil is
// sent as {}.
type Call struct {
	Server    string
	Tool      string
	Arguments json.RawMessage
	Progress  func(Progress) // may be nil; called from another goroutine, never after the call returned
}

// A Progress is one notifications/progress of a call. Total is 0 when unknown.
type Progress struct {
	Progress float64
	Total    float64
	Message  string
}

// A Result is the answer of a tool: its content blocks as the server sent
// them, bounded. IsError is the tool's own word that it failed.
type Result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent,omitempty"`
	IsError    bool              `json:"isError,omitempty"`
	Meta       json.RawMessage   `json:"_meta,omitempty"` // an object, or nil
}

// A Failure is why a call gave no Result.
type Failure string

// The kinds of failure.
const (
	Withheld    Failure = "withheld"    // not granted, not candidate_safe, changed since its grant, refused by a hook
	Unknown     Failure = "unknown"     // no such server or tool
	Unavailable Failure = "unavailable" // not connected, or backing off
	NeedsLogin  Failure = "needs-login" // the server answered 401, or 403
	Severed     Failure = "dropped"     // the connection ended in the middle: it may or may not have happened
	TimedOut    Failure = "timed-out"   // it may or may not have happened
	Protocol    Failure = "protocol"    // a JSON-RPC error, or an answer that is none
	OverLimit   Failure = "over-limit"  // a candidate's limit of calls, bytes or time
	Canceled    Failure = "canceled"    // by the caller
)

// A CallError is a call that gave no Result. Its text is one line, safe to be
// shown to an agent, and says what to do where something can be done.
type CallError struct {
	Server, Tool string
	Kind         Failure
	Reason       string
	Code         int  // JSON-RPC code when Kind is Protocol, else 0
	Sent         bool // the request had left: it may have had an effect
}

func (e *CallError) Error() string {
	if e.Tool == "" {
		return fmt.Sprintf("mcp server %q: %s", e.Server, e.Reason)
	}
	return fmt.Sprintf("mcp server %q, tool %q: %s", e.Server, e.Tool, e.Reason)
}

// A Use is one dispatched call, as usage keeps it. Calls that were refused
// before dispatch are kept with Outcome "withheld", "unknown" or "over-limit"
// and are never counted as calls to a server.
type Use struct {
	Run       string // run id, "" outside of a run
	Candidate int    // 1…N; 0 is the prefetch or the operator
	Server    string
	Tool      string
	Started   time.Time
	Took      time.Duration
	Sent      int64  // bytes of the arguments
	Received  int64  // bytes of the result's blocks
	Outcome   string // "ok", "error" (the tool's own), or a Failure
}

// The limits on what a server may say. Over them a text is cut with a visible
// mark, a list is cut and the cut reported, and a message is refused.
const (
	MaxTools       = 256              // per server
	MaxDescription = 2000             // characters of one description
	MaxSchema      = 16 << 10         // bytes of one input schema
	MaxAdvertised  = 32 << 10         // bytes of name, description and schema of one server's tools
	MaxLine        = 8 << 20          // bytes of one message, on any transport
	MaxResult      = 100_000          // bytes of one result's text
	MaxPages       = 1000             // pages of one tools/list
	ConnectBudget  = 10 * time.Second // from process start to the whole tool list
	CallTimeout    = 60 * time.Second // one call
	PrefetchBudget = 20 * time.Second // all prefetched calls of a run
	PrefetchMax    = 20_000           // characters of all prefetched text
)
