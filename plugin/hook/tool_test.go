package hook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/plugin/hook"
)

// TestParseAtPreToolUse: the one moment at which there is an input to modify.
func TestParseAtPreToolUse(t *testing.T) {
	for _, c := range []struct {
		name, stdout string
		want         hook.Decision
		err          string
	}{
		{"nothing", "", hook.Decision{}, ""},
		{"information", "fine\n" + `{"seen":1}`, hook.Decision{}, ""},
		{"deny", `{"action":"deny","reason":"no"}`, hook.Decision{Action: hook.Deny, Reason: "no"}, ""},
		{"approval", `{"action":"require_approval","reason":"ask"}`, hook.Decision{Action: hook.RequireApproval, Reason: "ask"}, ""},
		{"modify", `{"action":"modify","payload":{"input":{"path":"b"}}}`, hook.Decision{Action: hook.Modify, Input: `{"path":"b"}`}, ""},
		{"modify to nothing", `{"action":"modify","payload":{"input": {} , "note":1}}`, hook.Decision{Action: hook.Modify, Input: `{}`}, ""},

		{"modify nothing", `{"action":"modify"}`, hook.Decision{}, "payload is not an object"},
		{"modify without input", `{"action":"modify","payload":{"path":"b"}}`, hook.Decision{}, "no object input"},
		{"modify to a list", `{"action":"modify","payload":{"input":[1]}}`, hook.Decision{}, "no object input"},
		{"modify to null", `{"action":"modify","payload":{"input":null}}`, hook.Decision{}, "no object input"},
		{"modify twice", `{"action":"modify","payload":{"input":{},"input":{"a":1}}}`, hook.Decision{}, `"input" twice`},
		{"another word", `{"action":"ask","reason":"x"}`, hook.Decision{}, "not one of allow, deny, require_approval, modify"},
		{"garbage", `{"action":`, hook.Decision{}, "not well-formed"},
	} {
		got, err := hook.Parse(hook.PreToolUse, []byte(c.stdout))
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", c.name, got, err, c.want, c.err)
		}
	}
	for _, e := range []hook.Event{hook.Stop, hook.SessionStart, hook.PostToolUse} {
		if _, err := hook.Parse(e, []byte(`{"action":"modify","payload":{"input":{}}}`)); err == nil {
			t.Errorf("%s: there is nothing to modify", e)
		}
	}
}

func FuzzParseAtPreToolUse(f *testing.F) {
	for _, s := range []string{"", `{"action":"modify","payload":{"input":{"a":[1,{"b":null}]}}}`, `{"action":"modify","payload":{"input":{"a":1,"a":2}}}`, "x\n{\"action\":\"deny\",\"reason\":\"\u202e\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stdout []byte) {
		d, err := hook.Parse(hook.PreToolUse, stdout)
		if err != nil && d != (hook.Decision{}) {
			t.Fatalf("a decision and %v", err)
		}
		var object map[string]any
		if (d.Action == hook.Modify) != (d.Input != "") || d.Input != "" && json.Unmarshal([]byte(d.Input), &object) != nil {
			t.Fatalf("%+v", d)
		}
		if err == nil && d.Action.Blocks() == (d.Reason == "") {
			t.Fatalf("%+v", d)
		}
	})
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		matcher hook.Matcher
		tool    string
		want    bool
	}{
		{"", "mcp__db__drop", true},
		{"*", "mcp__db__drop", true},
		{"mcp__db__*", "mcp__db__drop", true},
		{"mcp__db__*", "mcp__db__a/b\nc", true}, // no character of a name leads past a matcher
		{"mcp__db__*", "mcp__dbx__drop", false},
		{"mcp__db__*", "xmcp__db__drop", false},
		{"*__drop", "mcp__db__drop", true},
		{"*__drop", "mcp__db__drop2", false},
		{"mcp__??__drop", "mcp__db__drop", true},
		{"mcp__?__drop", "mcp__db__drop", false},
		{"mcp__db__drop", "MCP__db__drop", false},
		{"mcp__[d]b__.+", "mcp__db__x", false}, // only * and ? are more than themselves
		{"a.b", "axb", false},
	} {
		if got := c.matcher.Match(c.tool); got != c.want {
			t.Errorf("%q and %q: %v", c.matcher, c.tool, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z*?.\[\]{}()+^$\\|-]{1,12}`).Draw(t, "name")
		if !hook.Matcher(name).Match(name) || !hook.Matcher(name+"*").Match(name+"/x") || hook.Matcher(strings.NewReplacer("*", "s", "?", "q").Replace(name)).Match(name+"x") {
			t.Fatalf("%q", name)
		}
	})
}

func TestToolPayload(t *testing.T) {
	result := "<ok>"
	for want, p := range map[string]hook.Payload{
		`{"event":"PreToolUse","cwd":"/w","tool":{"name":"mcp__s__t","input":{"a":1},"read_only":false}}`:                   {Event: hook.PreToolUse, Cwd: "/w", Tool: &hook.Tool{Name: "mcp__s__t", Input: json.RawMessage(`{"a": 1}`)}},
		`{"event":"PostToolUse","cwd":"/w","tool":{"name":"t","input":{},"read_only":false},"toolResult":"\u003cok\u003e"}`: {Event: hook.PostToolUse, Cwd: "/w", Tool: &hook.Tool{Name: "t", Input: json.RawMessage(`{}`)}, ToolResult: &result},
		`{"event":"PostToolUse","cwd":"/w","tool":{"name":"t","input":{},"read_only":false},"toolResult":""}`:               {Event: hook.PostToolUse, Cwd: "/w", Tool: &hook.Tool{Name: "t", Input: json.RawMessage(`{}`)}, ToolResult: new(string)},
	} {
		b, err := p.Encode()
		if err != nil || string(b) != want+"\n" {
			t.Errorf("%s, %v; want %s", b, err, want)
		}
	}
}
