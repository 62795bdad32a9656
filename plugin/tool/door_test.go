package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func toolset(names ...Name) Set {
	var s Set
	for _, n := range names {
		s.Tools = append(s.Tools, Tool{File: file(n, string(n)), Contract: Contract{Description: "says " + string(n), Schema: json.RawMessage(okSchemaJSON)}})
	}
	return s
}

const okSchemaJSON = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`

// TestDoor: one wire tool, of which only the names are seen; none at all
// without tools; the same bytes for the same names.
func TestDoor(t *testing.T) {
	if w, ok := Door(Set{}, Actions()); ok || w.Name != "" || w.InputSchema != nil {
		t.Errorf("there is a door to nothing: %+v", w)
	}
	if _, ok := Door(Set{Skipped: []Skip{{File: "x.py"}}}, Actions()); ok {
		t.Error("there is a door to what is skipped")
	}
	w, ok := Door(toolset("weather", "add"), CandidateActions())
	if !ok || w.Name != "tool" {
		t.Fatalf("%+v", w)
	}
	if again, _ := Door(toolset("add", "weather"), CandidateActions()); string(again.InputSchema) != string(w.InputSchema) || again.Description != w.Description {
		t.Error("the same names give other bytes")
	}
	if strings.Contains(w.Description+string(w.InputSchema), "says weather") {
		t.Error("a description crosses the wire before anybody asked")
	}
	schema, err := CompileSchema(w.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	for call, fits := range map[string]bool{
		`{"action":"list"}`:                                true,
		`{"action":"run","name":"weather","args":{}}`:      true,
		`{"action":"create","name":"new","source":"x"}`:    true,
		`{"action":"create","name":"New","source":"x"}`:    false,
		`{"action":"delete","name":"weather"}`:             false,
		`{"action":"reload"}`:                              false,
		`{"action":"run","name":"weather","arguments":{}}`: false,
		`{}`: false,
	} {
		if _, err := schema.Check(json.RawMessage(call)); (err == nil) != fits {
			t.Errorf("%s: %v", call, err)
		}
	}
	strict, _ := Door(toolset("weather"), []Action{ActionRun, ActionSchema, ActionList})
	if !strings.Contains(string(strict.InputSchema), `"enum":["weather"]`) || strings.Contains(string(strict.InputSchema), "source") {
		t.Errorf("%s", strict.InputSchema)
	}
}

func TestParseCall(t *testing.T) {
	for raw, want := range map[string]string{
		``:                                        "JSON",
		`[]`:                                      "not a JSON object",
		`{"action":"list"} {}`:                    "something follows",
		`{"action":"list","action":"x"}`:          `"action" stands twice`,
		`{"ACTION":"list"}`:                       `there is no field "ACTION": the fields are action, name, args, source`,
		`{}`:                                      "action is missing: it is one of run, schema",
		`{"action":"go"}`:                         `there is no action "go": action is one of run, schema`,
		`{"action":1}`:                            "action is not a string",
		`{"action":"run"}`:                        "run needs a name",
		`{"action":"schema"}`:                     "schema needs a name",
		`{"action":"run","name":"../x"}`:          "no name of a tool",
		`{"action":"run","name":null}`:            "name is not a string",
		`{"action":"create","name":"x"}`:          "create needs a source",
		`{"action":"delete","name":"x"}`:          "delete is the operator's to do",
		`{"action":"reload"}`:                     "reload is the operator's to do",
		`{"action":"list","more":1}`:              `there is no field "more"`,
		`{"action":"run","name":"x","args":[]}`:   "args is not a JSON object",
		`{"action":"run","name":"x","args":"{}"}`: "args is not a JSON object",
		`{"action":"run","name":"x","args":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`: "nested deeper",
		`{"action":"run","name":"x","args":{"a":1e9999}}`:                                                      "too long",
	} {
		if _, err := ParseCall([]byte(raw), CandidateActions()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", raw, err, want)
		}
	}
	c, err := ParseCall([]byte(`{"action":"run","name":"weather","args":{"city":"Oslo","n":10000000000000001}}`), Actions())
	if err != nil || c.Action != ActionRun || c.Name != "weather" || string(c.Args) != `{"city":"Oslo","n":10000000000000001}` {
		t.Errorf("%+v %v", c, err)
	}
}

func FuzzParseCall(f *testing.F) {
	for _, s := range []string{`{"action":"list"}`, `{"action":"run","name":"a","args":{}}`, `{"action":"create","name":"a","source":"x"}`, `{"a":{"b":[1,2]}}`, `{"action":"list"`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseCall(raw, CandidateActions())
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("a long refusal: %q", err)
			}
			return
		}
		if c.Args != nil && !json.Valid(c.Args) {
			t.Errorf("args %q", c.Args)
		}
		// What was read, written down again, is the same call.
		b, err := json.Marshal(map[string]any{"action": c.Action, "name": c.Name, "source": c.Source})
		if err != nil {
			t.Fatal(err)
		}
		if c.Name == "" {
			return
		}
		again, err := ParseCall(b, CandidateActions())
		if err != nil || again.Action != c.Action || again.Name != c.Name || again.Source != c.Source {
			t.Errorf("%+v became %+v: %v", c, again, err)
		}
	})
}

func desk(set Set, load func(context.Context) (Set, error)) *Desk {
	return &Desk{
		Actions: Actions(), Allow: NewAllowList(nil, Natives()), Table: NewTable(set, load),
		Run: func(_ context.Context, t Tool, args json.RawMessage) (Answer, error) {
			return Answer{Text: string(t.Name) + string(args), Printed: "noise"}, nil
		},
		Create: func(_ context.Context, n Name, source string) (Written, error) {
			return Written{Tool: Tool{File: file(n, source)}, Updated: n == "weather"}, nil
		},
		Delete:    func(context.Context, Name) (string, error) { return "disabled/x.py", nil },
		IsPending: func(n Name) bool { return n == "waiting" },
	}
}

func TestDesk(t *testing.T) {
	loads := 0
	broken := errors.New("a collision")
	var next Set
	var fail error
	d := desk(toolset("weather"), func(context.Context) (Set, error) { loads++; return next, fail })
	next = toolset("added", "weather")
	for _, c := range []struct {
		call, want string
		isError    bool
		loads      int
	}{
		{`{"action":"list"}`, "1 tools, 1 loaded, 0 skipped\nweather: says weather", false, 0},
		{`{"action":"schema","name":"weather"}`, "says weather\nschema: " + okSchemaJSON, false, 0},
		{`{"action":"run","name":"weather","args":{"city":"Oslo"}}`, `weather{"city":"Oslo"}`, false, 0},
		{`{"action":"run","name":"weather","args":{"city":1}}`, "weather: the arguments do not fit SCHEMA: at /city", true, 0},
		{`{"action":"run","name":"weather"}`, "the arguments do not fit SCHEMA", true, 0},
		{`{"action":"run","name":"added","args":{"city":""}}`, `added{"city":""}`, false, 1},
		{`{"action":"run","name":"nothing"}`, `no tool "nothing" is live: live are added, weather`, true, 2},
		{`{"action":"schema","name":"waiting"}`, "allow-list", true, 3},
		{`{"action":"run","name":"tool"}`, `no tool "tool" is live`, true, 4},
		{`{"action":"create","name":"fresh","source":"x"}`, "created ", false, 4},
		{`{"action":"create","name":"weather","source":"x"}`, "updated ", false, 4},
		{`{"action":"delete","name":"weather"}`, "kept in disabled/x.py", false, 4},
		{`{"action":"reload"}`, "2 tools, 2 loaded", false, 5},
		{`{"action":"x"}`, "there is no action", true, 5},
	} {
		a, err := d.Call(t.Context(), json.RawMessage(c.call))
		if err != nil || a.IsError != c.isError || !strings.Contains(a.Text, c.want) || loads != c.loads {
			t.Errorf("%s: %+v %v after %d loads, want %s", c.call, a, err, loads, c.want)
		}
	}
	// A load that fails leaves everything as it was, and says so.
	fail = broken
	before, _ := Door(d.Table.Set(), Actions())
	for _, call := range []string{`{"action":"reload"}`, `{"action":"run","name":"nothing"}`} {
		a, err := d.Call(t.Context(), json.RawMessage(call))
		if err != nil || !a.IsError || !strings.Contains(a.Text, "stay as they were: a collision") {
			t.Errorf("%s: %+v %v", call, a, err)
		}
	}
	if after, _ := Door(d.Table.Set(), Actions()); string(after.InputSchema) != string(before.InputSchema) {
		t.Error("a failed load changed the wire")
	}
	if a, _ := d.Call(t.Context(), json.RawMessage(`{"action":"run","name":"added","args":{"city":"x"}}`)); a.IsError {
		t.Errorf("after a failed load: %+v", a)
	}
	// A written list without the door refuses every call.
	d.Allow = NewAllowList([]string{"search"}, nil)
	for _, call := range []string{`{"action":"list"}`, `{"action":"run","name":"weather","args":{"city":"x"}}`} {
		if a, _ := d.Call(t.Context(), json.RawMessage(call)); !a.IsError || !strings.Contains(a.Text, "allow-list") {
			t.Errorf("%s: %+v", call, a)
		}
	}
}

// TestFrozen: the set of a run's candidates never changes, whatever is asked.
func TestFrozen(t *testing.T) {
	d := desk(toolset("weather"), nil)
	d.Actions = CandidateActions()
	for _, call := range []string{`{"action":"run","name":"added"}`, `{"action":"reload"}`} {
		if a, err := d.Call(t.Context(), json.RawMessage(call)); err != nil || !a.IsError {
			t.Errorf("%s: %+v %v", call, a, err)
		}
	}
	if _, err := d.Table.Reload(t.Context()); err == nil {
		t.Error("a frozen table was loaded again")
	}
}

// TestTableAtOnce: readers see one set or the other, never a mixture, and a
// caller who left does not wait for somebody else's load.
func TestTableAtOnce(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	table := NewTable(toolset("old"), func(context.Context) (Set, error) {
		once.Do(func() { close(entered); <-leave })
		return toolset("new1", "new2"), nil
	})
	done := make(chan error)
	go func() { _, err := table.Reload(t.Context()); done <- err }()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	if _, err := table.Reload(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who left waited: %v", err)
	}
	if got := fmt.Sprint(table.Set().Names()); got != "[old]" {
		t.Errorf("during a load: %s", got)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(table.Set().Names()); got != "[new1 new2]" {
		t.Errorf("after it: %s", got)
	}
}
