package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// An Action is what the door is asked to do.
type Action string

// Actions of the door.
const (
	ActionRun    Action = "run"
	ActionSchema Action = "schema"
	ActionList   Action = "list"
	ActionCreate Action = "create"
	ActionDelete Action = "delete"
	ActionReload Action = "reload"
)

// Actions are all that the door can do, for the operator's own use.
func Actions() []Action {
	return []Action{ActionRun, ActionSchema, ActionList, ActionCreate, ActionDelete, ActionReload}
}

// CandidateActions are those of a candidate: what it creates is a proposal, and
// the live set is not its to change.
func CandidateActions() []Action {
	return []Action{ActionRun, ActionSchema, ActionList, ActionCreate}
}

// A Wire is the door as a model sees it.
type Wire struct {
	Name        string
	Description string
	InputSchema json.RawMessage
}

// doorSays are the words on each action that a model reads.
var doorSays = map[Action]string{
	ActionRun:    "run calls a tool by name with args",
	ActionSchema: "schema shows a tool's description and the JSON Schema of its args",
	ActionList:   "list shows the tools and why others are skipped",
	ActionCreate: "create proposes a new tool: name, and source, a Python file with DESCRIPTION (a string), SCHEMA (a JSON Schema as a literal dict) and def run(args); a person decides whether it becomes callable",
	ActionDelete: "delete switches a tool off",
	ActionReload: "reload looks for tools that were added or removed",
}

// Door is the one tool behind which the tools of a set are: their names ride
// its schema, and nothing else of them does. Without tools there is no door.
// The same names and actions give the same bytes.
func Door(set Set, actions []Action) (Wire, bool) {
	names := set.Names()
	if len(names) == 0 {
		return Wire{}, false
	}
	var says []string
	for _, a := range actions {
		says = append(says, doorSays[a])
	}
	type property struct {
		Type        string     `json:"type,omitempty"`
		Description string     `json:"description,omitempty"`
		Enum        any        `json:"enum,omitempty"`
		Pattern     string     `json:"pattern,omitempty"`
		AnyOf       []property `json:"anyOf,omitempty"`
	}
	name := property{Type: "string", Enum: names, Description: "the tool"}
	properties := map[string]property{
		"action": {Type: "string", Enum: actions},
		"args":   {Type: "object", Description: "of run: what the tool gets"},
	}
	if slices.Contains(actions, ActionCreate) {
		name = property{Type: "string", Description: "the tool; of create: the new one", AnyOf: []property{{Enum: names}, {Pattern: NameRule}}}
		properties["source"] = property{Type: "string", Description: "of create: the whole file"}
	}
	properties["name"] = name
	var schema bytes.Buffer
	enc := json.NewEncoder(&schema)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
		Additional bool                `json:"additionalProperties"`
	}{"object", properties, []string{"action"}, false}); err != nil {
		return Wire{}, false // strings cannot fail
	}
	return Wire{
		Name:        DoorName,
		Description: "One door to tools of this place. " + strings.Join(says, "; ") + ". Ask for a tool's schema before its first run.",
		InputSchema: bytes.TrimSpace(schema.Bytes()),
	}, true
}

// A Call is one request of the door.
type Call struct {
	Action Action
	Name   Name
	Args   json.RawMessage // nil is none
	Source string
}

// callFields are the keys of a call.
var callFields = []string{"action", "name", "args", "source"}

// ParseCall reads a request. The error is for the model: it says what is wrong
// and what would be right.
func ParseCall(raw []byte, actions []Action) (Call, error) {
	if len(raw) > MaxArguments+MaxSource {
		return Call{}, fmt.Errorf("the call is larger than %d bytes", MaxArguments+MaxSource)
	}
	fields, err := members(raw)
	if err != nil {
		return Call{}, fmt.Errorf("%w: give one JSON object with %s", err, strings.Join(callFields, ", "))
	}
	var c Call
	for key, value := range fields {
		switch key {
		case "action":
			err = text(key, value, (*string)(&c.Action))
		case "name":
			err = text(key, value, (*string)(&c.Name))
		case "source":
			err = text(key, value, &c.Source)
		case "args":
			if value[0] != '{' {
				err = errors.New("args is not a JSON object")
			}
			c.Args = value
		default:
			err = fmt.Errorf("there is no field %.60q: the fields are %s", key, strings.Join(callFields, ", "))
		}
		if err != nil {
			return Call{}, err
		}
	}
	return c, c.check(actions)
}

func (c Call) check(actions []Action) error {
	var known []string
	for _, a := range actions {
		known = append(known, string(a))
	}
	switch {
	case c.Action == "":
		return fmt.Errorf("action is missing: it is one of %s", strings.Join(known, ", "))
	case !slices.Contains(actions, c.Action) && slices.Contains(Actions(), c.Action):
		return fmt.Errorf("%s is the operator's to do: action is one of %s", c.Action, strings.Join(known, ", "))
	case !slices.Contains(actions, c.Action):
		return fmt.Errorf("there is no action %.60q: action is one of %s", c.Action, strings.Join(known, ", "))
	}
	named := c.Action != ActionList && c.Action != ActionReload
	switch {
	case named && c.Name == "":
		return fmt.Errorf("%s needs a name", c.Action)
	case c.Action == ActionCreate && c.Source == "":
		return errors.New("create needs a source, the whole Python file")
	}
	if !named {
		return nil
	}
	_, err := ParseName(string(c.Name))
	return err
}

// members divides a JSON object into its members, each of which may stand once.
func members(raw []byte) (map[string]json.RawMessage, error) {
	if _, err := decodeBounded(raw, MaxArguments+MaxSource); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	all := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%.60q stands twice", name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return all, nil
}

func text(key string, value json.RawMessage, to *string) error {
	if value[0] != '"' {
		return fmt.Errorf("%s is not a string", key)
	}
	return json.Unmarshal(value, to)
}
