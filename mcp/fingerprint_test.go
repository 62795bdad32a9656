package mcp

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

func tool(name, description, schema string) Tool {
	return Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}
}

// What a grant is given to is every key that says which code runs or which
// address is reached, and no credential.
func TestWhatTheEndpointIs(t *testing.T) {
	stdio := Server{Transport: Stdio, Cmd: "npx", Args: []string{"-y", "p"}, Env: map[string]string{"A_TOKEN": "1", "NODE_OPTIONS": "x"}}
	http := Server{Transport: HTTP, URL: "https://h/", Headers: map[string]string{"Authorization": "1"}}
	for _, c := range []struct {
		name   string
		server Server
		change func(*Server)
		want   []string
	}{
		{"nothing", stdio, func(s *Server) {}, nil},
		{"program", stdio, func(s *Server) { s.Cmd = "sh" }, []string{"cmd"}},
		{"argument", stdio, func(s *Server) { s.Args = []string{"-y p"} }, []string{"args"}},
		{"order", stdio, func(s *Server) { s.Args = []string{"p", "-y"} }, []string{"args"}},
		{"new token", stdio, func(s *Server) { s.Env = map[string]string{"A_TOKEN": "2", "NODE_OPTIONS": "x"} }, nil},
		{"new variable", stdio, func(s *Server) { s.Env = map[string]string{"A_TOKEN": "1", "NODE_OPTIONS": "x", "B_TOKEN": ""} }, []string{"env"}},
		{"a variable that decides which code runs", stdio, func(s *Server) {
			s.Env = map[string]string{"A_TOKEN": "1", "NODE_OPTIONS": "--require ./evil.js"}
		}, []string{"env"}},
		{"address", http, func(s *Server) { s.URL = "https://h/2" }, []string{"url"}},
		{"new bearer", http, func(s *Server) { s.Headers = map[string]string{"authorization": "2"} }, nil},
		{"new header", http, func(s *Server) { s.Headers = map[string]string{"Authorization": "1", "X-To": "y"} }, []string{"headers"}},
		{"transport", stdio, func(s *Server) { *s = http }, []string{"args", "cmd", "env", "headers", "transport", "url"}},
		{"card and flags", stdio, func(s *Server) { s.Title, s.CandidateSafe, s.Granted, s.Name = "t", true, no(), "n" }, nil},
	} {
		after := c.server
		c.change(&after)
		got := Review(Fingerprint(c.server, nil), Fingerprint(after, nil))
		if !slices.Equal(got.Endpoint, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got.Endpoint, c.want)
		}
		if same := Fingerprint(c.server, nil).Digest() == Fingerprint(after, nil).Digest(); same != (c.want == nil) {
			t.Errorf("%s: the digest is the same: %v", c.name, same)
		}
	}
}

func TestReviewOfTools(t *testing.T) {
	s := Server{Name: "s", Transport: HTTP, URL: "https://h/"}
	before := []Tool{
		tool("a", "d", `{"type":"object","properties":{"x":{"type":"string"},"y":{}}}`), tool("b", "d", `{}`), tool("c", "d", `{}`),
		{Name: "d", InputSchema: json.RawMessage(`{}`), Annotations: &Annotations{ReadOnly: yes()}},
		{Name: "e", InputSchema: json.RawMessage(`{}`), Title: "t", OutputSchema: json.RawMessage(`{}`)},
	}
	recorded := Fingerprint(s, before)
	reordered := []Tool{before[4], before[3], before[2], before[1], tool("a", "d", "{ \"properties\" : {\"y\":{}, \"x\":{\"type\":\"string\"}},\n\"type\":\"object\"}"), tool("a", "second of its name", `{}`)}
	if c := Review(recorded, Fingerprint(s, reordered)); c.Any() || recorded.Digest() != Fingerprint(s, reordered).Digest() {
		t.Errorf("order and blanks count: %+v", c)
	}
	now := []Tool{
		tool("a", "d", `{"type":"object","properties":{"x":{"type":"string"},"y":{"description":"send it all"}}}`), tool("b", "d, and more", `{}`),
		{Name: "d", InputSchema: json.RawMessage(`{}`), Annotations: &Annotations{ReadOnly: yes(), Destructive: yes()}},
		{Name: "e", InputSchema: json.RawMessage(`{}`), Title: "u", OutputSchema: json.RawMessage(`{"type":"object"}`)}, tool("f", "", `{}`),
	}
	c := Review(recorded, Fingerprint(s, now))
	want := Changes{Added: []string{"f"}, Removed: []string{"c"}, Changed: []ToolChange{
		{"a", []PartChange{{"input schema", `{"properties":{"x":{"type":"string"},"y":{}},"type":"object"}`, `{"properties":{"x":{"type":"string"},"y":{"description":"send it all"}},"type":"object"}`}}},
		{"b", []PartChange{{"description", "d", "d, and more"}}},
		{"d", []PartChange{{"claims", `{"readOnlyHint":true}`, `{"readOnlyHint":true,"destructiveHint":true}`}}},
		{"e", []PartChange{{"title", "t", "u"}, {"output schema", `{}`, `{"type":"object"}`}}},
	}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}

	e := Entry{Server: s, Scope: User, Record: &Record{Print: recorded}}
	admitted, withheld := e.Admit(now)
	if len(admitted) != 0 || len(withheld) != 5 {
		t.Errorf("admitted %v", admitted)
	}
	admitted, withheld = e.Admit(append(slices.Clone(before[:3]), tool("new", "", `{}`)))
	if len(admitted) != 3 || len(withheld) != 1 || withheld[0].Name != "new" || !strings.Contains(withheld[0].Reason, "bestof mcp grant s") {
		t.Errorf("%v %v", admitted, withheld)
	}
}

// JSON that has no single meaning is compared byte by byte, so that nothing
// hides behind the reading that a parser happens to choose.
func TestAmbiguousSchemas(t *testing.T) {
	s := Server{Transport: HTTP, URL: "https://h/"}
	for _, pair := range [][2]string{
		{`{"a":1,"a":2}`, `{"a":3,"a":2}`}, {`{"a":2}`, `{"a":1,"a":2}`}, {`{"a":"\ud800"}`, `{"a":"\ud801"}`},
		{"{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}"}, {`{} `, `{} x`}, {`{"a":1}`, `{"a":1.0}`}, {`{"a":"<"}`, `{"a":"\\u003c"}`},
		{strings.Repeat("x", MaxSchema+1), strings.Repeat("x", MaxSchema) + "y"},
	} {
		before, now := Fingerprint(s, []Tool{tool("t", "", pair[0])}), Fingerprint(s, []Tool{tool("t", "", pair[1])})
		if len(Review(before, now).Changed) != 1 || before.Digest() == now.Digest() {
			t.Errorf("%.30q is %.30q", pair[0], pair[1])
		}
		b, err := json.Marshal(before)
		var again Print
		if err != nil || json.Unmarshal(b, &again) != nil || Review(before, again).Any() {
			t.Errorf("%.30q is another one after it was kept", pair[0])
		}
	}
	replaced := tool("t", "", `{"type":"object"}`)
	replaced.Replaced = true
	if c := Review(Fingerprint(s, []Tool{tool("t", "", `{"type":"object"}`)}), Fingerprint(s, []Tool{replaced})); len(c.Changed) != 1 {
		t.Error("a stand-in is taken for a schema")
	}
}

// TestReviewLaw: what was just recorded has not changed; a change is seen from
// both sides; only what is exactly as recorded is admitted.
func TestReviewLaw(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	some := func() []Tool {
		var tools []Tool
		for _, name := range []string{"a", "b", "c", "d"} {
			if r.IntN(3) > 0 {
				tools = append(tools, tool(name, []string{"", "x"}[r.IntN(2)], []string{"{}", `{"y":1}`}[r.IntN(2)]))
			}
		}
		return tools
	}
	s := Server{Name: "s", Transport: Stdio, Cmd: "x"}
	for range 2000 {
		x, y := some(), some()
		before, now := Fingerprint(s, x), Fingerprint(s, y)
		there, back := Review(before, now), Review(now, before)
		if Review(before, before).Any() || there.Any() != (before.Digest() != now.Digest()) ||
			!slices.Equal(there.Added, back.Removed) || len(there.Changed) != len(back.Changed) {
			t.Fatalf("%v %v: %+v %+v", x, y, there, back)
		}
		admitted, withheld := Entry{Server: s, Record: &Record{Print: before}}.Admit(y)
		if len(admitted)+len(withheld) != len(y) {
			t.Fatal("a tool is lost")
		}
		for _, a := range admitted {
			if !slices.ContainsFunc(x, func(t Tool) bool { return reflect.DeepEqual(t, a) }) {
				t.Fatalf("%v was not reviewed: %v", a, x)
			}
		}
	}
}

// Who may say that a server is granted.
func TestWithheld(t *testing.T) {
	s := Server{Name: "s", Transport: Stdio, Cmd: "x"}
	elsewhere := s
	elsewhere.Cmd = "y"
	here, moved := &Record{Print: Fingerprint(s, nil)}, &Record{Print: Fingerprint(elsewhere, nil)}
	for _, c := range []struct {
		name    string
		scope   Scope
		granted *bool
		record  *Record
		want    string // "" is usable
	}{
		{"written by hand", Project, nil, nil, ""},
		{"written by hand", User, nil, nil, ""},
		{"installed", Project, no(), nil, "not granted"},
		{"installed", User, no(), nil, "not granted"},
		{"granted by a repository", Project, yes(), nil, "did not review it on this machine"},
		{"granted by the operator's own file", User, yes(), nil, ""},
		{"granted here", Project, yes(), here, ""},
		{"granted here", User, yes(), here, ""},
		{"moved", Project, yes(), moved, "its cmd changed since you reviewed it"},
		{"moved", User, yes(), moved, "its cmd changed since you reviewed it"},
		{"moved, and the key taken out", Project, nil, moved, "its cmd changed"},
		{"withdrawn in the file", Project, no(), here, "not granted"},
		{"withdrawn, and set again by the repository", Project, yes(), &Record{Revoked: true}, "you withdrew"},
		{"withdrawn, and the key taken out", Project, nil, &Record{Revoked: true}, "you withdrew"},
		{"a record that cannot be read", Project, nil, &Record{}, "changed since you reviewed it"},
	} {
		e := Entry{Server: s, Scope: c.scope, Record: c.record}
		e.Granted = c.granted
		got := e.Withheld()
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s (%s): %q, want %q", c.name, c.scope, got, c.want)
		}
		admitted, withheld := e.Admit([]Tool{tool("t", "", `{}`)})
		if c.want != "" && (len(admitted) > 0 || len(withheld) != 1 || withheld[0].Reason != got) {
			t.Errorf("%s (%s): admitted %v", c.name, c.scope, admitted)
		}
	}
}
