package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
)

// A Tool is the tool of a call, as hooks are told of it.
type Tool struct {
	Name  string          `json:"name"` // mcp__server__tool
	Input json.RawMessage `json:"input"`
	// ReadOnly is false wherever the host does not know it for certain: what a
	// tool claims about itself makes nobody less careful.
	ReadOnly bool `json:"read_only"`
}

// A Matcher is a glob over tools' names, in which * stands for any text and ?
// for any one character. The zero value matches every tool.
type Matcher string

// Match reports whether a hook with this matcher is called for a tool.
func (m Matcher) Match(tool string) bool {
	if m == "" {
		return true
	}
	pattern := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(string(m)))
	return regexp.MustCompile(`(?s)\A` + pattern + `\z`).MatchString(tool)
}

// OfTools reports whether an event is about a tool's call, so that a matcher
// says something.
func OfTools(e Event) bool { return e == PreToolUse || e == PostToolUse }

// newInput reads the payload of modify: {"input": {…}}. Rules are for objects,
// since that is what tools take.
func newInput(payload json.RawMessage) (string, error) {
	if !isObject(bytes.TrimSpace(payload)) {
		return "", errors.New("payload is not an object")
	}
	keys, err := members(payload)
	if err != nil {
		return "", err
	}
	input := bytes.TrimSpace(keys["input"])
	if !isObject(input) {
		return "", errors.New("payload has no object input")
	}
	return string(input), nil
}
