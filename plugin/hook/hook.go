// Package hook is what is said at a hook: the payload that a program gets on
// stdin, the decision that it prints, and what several decisions come to. It
// is pure.
package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/plugin"
)

// An Event is a moment of a session.
type Event = plugin.Hook

// The moments that this host sees. It sees the calls of tools that it offers
// itself; those of an agent's own tools happen inside the agent, and so does
// compaction: nothing can be asked there.
const (
	SessionStart = plugin.SessionStart
	PreToolUse   = plugin.PreToolUse
	PostToolUse  = plugin.PostToolUse
	Stop         = plugin.Stop
)

// Seen lists them, in the order in which they are listed to people.
func Seen() []Event { return []Event{SessionStart, PreToolUse, PostToolUse, Stop} }

// Limits of what is taken from a hook.
const (
	DefaultTimeout = 60 * time.Second
	MaxTimeout     = 600 * time.Second
	MaxContext     = 16 << 10 // bytes that one hook adds to a brief
	MaxReason      = 4 << 10  // bytes of a reason, and of its evidence
)

// How often hooks may send one candidate back at Stop.
const (
	DefaultBlocks = 3
	MaxBlocks     = 8
)

// A Payload is what a hook gets on stdin, as one JSON object.
type Payload struct {
	Event      Event   `json:"event"`
	Cwd        string  `json:"cwd"`                  // as the hook's process sees it
	Tool       *Tool   `json:"tool,omitempty"`       // at PreToolUse and PostToolUse
	ToolResult *string `json:"toolResult,omitempty"` // at PostToolUse: the text that the tool gave, or its error
	FinalText  string  `json:"finalText,omitempty"`  // at Stop: what the agent said last
}

// Encode writes the payload as one line.
func (p Payload) Encode() ([]byte, error) {
	b, err := json.Marshal(p)
	return append(b, '\n'), err
}

// An Action is what a hook decides. The zero value is no decision.
type Action string

const (
	Allow           Action = "allow"
	Modify          Action = "modify" // only at PreToolUse
	RequireApproval Action = "require_approval"
	Deny            Action = "deny"
)

// Blocks reports whether the action keeps a turn from ending. Nobody can be
// asked during a run, so what needs an approval does not get it.
func (a Action) Blocks() bool { return a == Deny || a == RequireApproval }

// A Decision is what a hook printed. Its texts show nothing but what prints.
type Decision struct {
	Action   Action
	Reason   string // of deny and require_approval
	Evidence string // what deny was founded on, "" when it did not say
	Input    string // of modify: the tool's new input, a JSON object as it was written
}

// Parse reads a hook's stdout: the whole of it if that is a JSON object, else
// its last line with something on it. Text and JSON without an action are no
// decision; an action that cannot be followed at e is an error.
func Parse(e Event, stdout []byte) (Decision, error) {
	whole := bytes.TrimSpace(stdout)
	text := whole
	if !isObject(whole) {
		text = bytes.TrimSpace(whole[bytes.LastIndexByte(whole, '\n')+1:])
	}
	if !isObject(text) {
		// What looks like the rest of an object was meant as one.
		if bytes.HasPrefix(text, []byte("{")) || bytes.HasSuffix(text, []byte("}")) {
			return Decision{}, errors.New("its decision is not well-formed JSON")
		}
		return Decision{}, nil
	}
	return decide(e, text)
}

func isObject(b []byte) bool { return bytes.HasPrefix(b, []byte("{")) && json.Valid(b) }

func decide(e Event, object []byte) (Decision, error) {
	if !utf8.Valid(object) {
		return Decision{}, errors.New("its decision is not UTF-8")
	}
	keys, err := members(object)
	if err != nil {
		return Decision{}, err
	}
	raw, ok := keys["action"]
	if !ok {
		return Decision{}, nil
	}
	word, err := text(keys, "action")
	if err != nil {
		return Decision{}, err
	}
	switch d := (Decision{Action: Action(word)}); d.Action {
	case Allow:
		return d, nil
	case Deny, RequireApproval:
		if d.Reason, err = text(keys, "reason"); err != nil {
			return Decision{}, fmt.Errorf("its decision is to %s: %w", d.Action, err)
		}
		if d.Reason = Clean(d.Reason, MaxReason); d.Reason == "" {
			return Decision{}, fmt.Errorf("its decision is to %s: reason is empty", d.Action)
		}
		if evidence := keys["evidence"]; d.Action == Deny && len(evidence) > 0 && string(evidence) != "null" {
			s, err := text(keys, "evidence")
			if err != nil {
				s = string(evidence)
			}
			d.Evidence = Clean(s, MaxReason)
		}
		return d, nil
	case Modify:
		if e != PreToolUse {
			return Decision{}, errors.New("its decision is to modify a tool's input, and there is none here")
		}
		d.Input, err = newInput(keys["payload"])
		if err != nil {
			return Decision{}, fmt.Errorf("its decision is to modify the tool's input: %w", err)
		}
		return d, nil
	}
	if e == PreToolUse {
		return Decision{}, fmt.Errorf("its action %s is not one of allow, deny, require_approval, modify", term.Clean(string(raw), 60))
	}
	return Decision{}, fmt.Errorf("its action %s is not one of allow, deny, require_approval", term.Clean(string(raw), 60))
}

// members are the values of a valid object; no key may be there twice.
func members(object []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("its decision has the key %s twice", term.Clean(fmt.Sprintf("%q", name), 60))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// text is the string that key names.
func text(keys map[string]json.RawMessage, key string) (string, error) {
	raw := bytes.TrimSpace(keys[key])
	var s string
	if !bytes.HasPrefix(raw, []byte(`"`)) || json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("%s is not a string", key)
	}
	return s, nil
}

// Context is what a SessionStart hook adds to a brief: what it printed, unless
// that is a decision, which nobody asked for.
func Context(stdout []byte) string {
	if d, err := Parse(SessionStart, stdout); err != nil || d.Action != "" {
		return ""
	}
	return Clean(string(stdout), MaxContext)
}

// Clean is text of several lines in which everything that does not print is
// escaped, of at most limit bytes and a mark for what was cut.
func Clean(s string, limit int) string {
	const cut = "\n[cut]"
	s = strings.TrimSpace(strings.ReplaceAll(s[:min(len(s), 4*limit)], "\r\n", "\n"))
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j, cell := range cells {
			cells[j] = term.Clean(cell, 0).String()
		}
		lines[i] = strings.TrimRight(strings.Join(cells, "\t"), " \t")
	}
	if s = strings.Join(lines, "\n"); len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + cut
	}
	return s
}

// An Answer is one hook's decision.
type Answer struct {
	From string // who was asked
	Decision
}

// Combine is what several answers come to: deny before require_approval before
// allow, whoever comes first.
func Combine(answers []Answer) Action {
	all := Action("")
	for _, a := range answers {
		if rank(a.Action) > rank(all) {
			all = a.Action
		}
	}
	return all
}

func rank(a Action) int {
	switch a {
	case Deny:
		return 3
	case RequireApproval:
		return 2
	case Allow:
		return 1
	}
	return 0
}

// Correction is what a candidate is told that was sent back at Stop: every
// reason, with who gave it. It is "" when nobody sent it back.
func Correction(answers []Answer) string {
	var s strings.Builder
	for _, a := range answers {
		if !a.Action.Blocks() {
			continue
		}
		fmt.Fprintf(&s, "[stop-hook feedback from %s] %s\n", term.Clean(a.From, 0), a.Words())
		if a.Evidence != "" {
			fmt.Fprintf(&s, "Evidence: %s\n", a.Evidence)
		}
	}
	return s.String()
}

// Words is the reason as people are told it.
func (d Decision) Words() string {
	if d.Action == RequireApproval {
		return d.Reason + " (this needs a person's approval, and nobody can be asked during a run)"
	}
	return d.Reason
}
