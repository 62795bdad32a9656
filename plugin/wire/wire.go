// Package wire is what the host and a plugin say to each other: one request on
// stdin, one response on stdout, each a JSON object {"point": …, "body": …}.
// The codec is strict in both directions and does no I/O but reading what it is
// given.
//
// Version 1 is what every plugin speaks. Version 2, which a plugin opts in to,
// has the same messages and adds what version 1 has no room for: the test's
// environment, working directory and time limit, the reason of an unobservable
// flip, and which measurements were left out on purpose.
package wire

import "github.com/bestof-dev/bestof/judge"

// The values of protocol_version.
const (
	Version  = 1
	Version2 = 2
)

// A Point is a moment at which a plugin is asked. A plugin is never asked to
// judge: there is no point for it.
type Point string

const (
	BeforeTurn Point = "before_turn"
	AfterTurn  Point = "after_turn"
)

// A Request is what the host asks; exactly one field is set.
type Request struct {
	Before *BeforeRequest
	After  *AfterRequest
}

// Point names the field that is set.
func (r Request) Point() Point { return pointOf(r.Before != nil, r.After != nil) }

// A Response is what the plugin answers; exactly one field is set.
type Response struct {
	Before *BeforeResponse
	After  *AfterResponse
}

// Point names the field that is set.
func (r Response) Point() Point { return pointOf(r.Before != nil, r.After != nil) }

func pointOf(before, after bool) Point {
	switch {
	case before && !after:
		return BeforeTurn
	case after && !before:
		return AfterTurn
	}
	return ""
}

// Version is the protocol_version of the request, 0 for none.
func (r Request) Version() uint32 {
	switch r.Point() {
	case BeforeTurn:
		return r.Before.ProtocolVersion
	case AfterTurn:
		return r.After.ProtocolVersion
	}
	return 0
}

// In is the request as it is told in a version: what version 1 has no room for
// is left out of it.
func (r Request) In(version uint32) Request {
	switch r.Point() {
	case BeforeTurn:
		b := *r.Before
		b.ProtocolVersion, b.Candidate = version, b.Candidate.in(version)
		return Request{Before: &b}
	case AfterTurn:
		a := *r.After
		a.ProtocolVersion, a.Candidate = version, a.Candidate.in(version)
		return Request{After: &a}
	}
	return r
}

// Grant is what the request gives to the plugin, nil for nothing.
func (r Request) Grant() *Grant {
	switch r.Point() {
	case BeforeTurn:
		return r.Before.Candidate
	case AfterTurn:
		return r.After.Candidate
	}
	return nil
}

// WithEnvironment is a request whose test has env as its whole environment.
func (r Request) WithEnvironment(env map[string]string) Request {
	g := r.Grant()
	if g == nil || g.Test == nil {
		return r
	}
	grant, test := *g, *g.Test
	test.Env, grant.Test = env, &test
	if r.Before != nil {
		b := *r.Before
		b.Candidate = &grant
		return Request{Before: &b}
	}
	a := *r.After
	a.Candidate = &grant
	return Request{After: &a}
}

func (g *Grant) in(version uint32) *Grant {
	if g == nil || g.Test == nil || version == Version2 {
		return g
	}
	c, t := *g, *g.Test
	t.Env, t.Cwd, t.TimeoutMS = nil, "", 0
	c.Test = &t
	return &c
}

// A BeforeRequest asks what should be known before candidates start.
type BeforeRequest struct {
	ProtocolVersion uint32      `json:"protocol_version"`
	Wrapper         string      `json:"wrapper"`
	Stage           string      `json:"stage"`
	Round           uint32      `json:"round"`
	Goal            string      `json:"goal"`
	Candidate       *Grant      `json:"candidate,omitempty"`
	Published       []Published `json:"published,omitempty"`
}

// A BeforeResponse contributes to the brief. All of it is optional.
type BeforeResponse struct {
	ProtocolVersion uint32      `json:"protocol_version"`
	Context         []Context   `json:"context,omitempty"`
	Role            string      `json:"role,omitempty"`
	Scope           []string    `json:"scope,omitempty"`   // paths; advice
	Publish         []Published `json:"publish,omitempty"` // for later plugins of the same round
	Witness         []string    `json:"witness,omitempty"` // paths that decide and must not change
}

// Context is one text for the brief.
type Context struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Published is a signal with its value.
type Published struct {
	Signal string `json:"signal"`
	Value  Value  `json:"value"`
}

// A Value is {"boolean": …} or {"count": …}; exactly one field is set.
type Value struct {
	Boolean *bool   `json:"boolean,omitempty"`
	Count   *uint64 `json:"count,omitempty"`
}

// An AfterRequest asks for evidence about a candidate's turn.
type AfterRequest struct {
	ProtocolVersion uint32 `json:"protocol_version"`
	Wrapper         string `json:"wrapper"`
	Stage           string `json:"stage,omitempty"`
	Round           uint32 `json:"round"`
	Goal            string `json:"goal"`
	Candidate       *Grant `json:"candidate,omitempty"`
	Turn            Turn   `json:"turn"`
}

// A Turn is what the candidate did. Nil lists were not measured, empty ones
// were and hold nothing.
type Turn struct {
	Completed    bool     `json:"completed"`
	Answer       string   `json:"answer,omitempty"`
	Tools        []string `json:"tools,omitzero"`
	ChangedFiles []string `json:"changed_files,omitzero"`
}

// A Grant is all that a plugin may use: a name, a directory, and the test.
type Grant struct {
	Handle string    `json:"handle"`
	Root   string    `json:"root"`
	Test   *TestPlan `json:"test,omitempty"`
}

// A TestPlan is a program to run in the grant's root.
type TestPlan struct {
	Program  string   `json:"program"`
	Args     []string `json:"args,omitempty"`
	Baseline Baseline `json:"baseline,omitempty"`

	// Version 2: how the baseline was run, and so how the test has to be.
	Env       map[string]string `json:"env,omitzero"`         // the whole environment; nil when not told
	Cwd       string            `json:"cwd,omitempty"`        // slash path below the root
	TimeoutMS uint64            `json:"timeout_ms,omitempty"` // 0 when not told
}

// A Baseline is what the test said before the turn. On the wire its absence is
// NotRun; a decoded plan always has one of the constants.
type Baseline string

const (
	NotRun     Baseline = "not-run"
	Passed     Baseline = "passed"
	Failed     Baseline = "failed"
	Unobserved Baseline = "unobserved" // tried, but nothing was asserted
)

// An AfterResponse is a plugin's evidence.
type AfterResponse struct {
	ProtocolVersion uint32   `json:"protocol_version"`
	Evidence        Evidence `json:"evidence"`
}

// Evidence has no place for a tamper finding: that is the host's.
type Evidence struct {
	Flip         judge.Flip        `json:"flip"`
	Measurements map[string]uint64 `json:"measurements,omitempty"`

	// Version 2.
	Reason  string            `json:"reason,omitempty"`  // why the flip is unobservable
	Omitted map[string]string `json:"omitted,omitempty"` // measurements left out on purpose, and why
}
