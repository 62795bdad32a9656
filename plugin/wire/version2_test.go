package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/judge"
)

var second = Request{After: &AfterRequest{
	ProtocolVersion: 2, Wrapper: "w", Goal: "g", Turn: Turn{Completed: true},
	Candidate: &Grant{Handle: "h", Root: "/r", Test: &TestPlan{
		Program: "t", Baseline: Failed, Env: map[string]string{"PATH": "/bin", "EMPTY": ""}, Cwd: "a/b", TimeoutMS: 60000,
	}},
}}

const secondResponse = `{"point":"after_turn","body":{"protocol_version":2,"evidence":{"flip":"unobservable","reason":"no root","measurements":{"a":1},"omitted":{"b":"no benchmark here"}}}}`

func TestVersion2(t *testing.T) {
	b, err := second.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRequest(b, AfterTurn, Version2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(second, got); diff != "" {
		t.Error(diff)
	}
	r, err := DecodeResponseIn([]byte(secondResponse), AfterTurn, Version2)
	if err != nil {
		t.Fatal(err)
	}
	want := Evidence{Flip: judge.FlipUnobservable, Reason: "no root", Measurements: map[string]uint64{"a": 1}, Omitted: map[string]string{"b": "no benchmark here"}}
	if diff := cmp.Diff(want, r.After.Evidence); diff != "" {
		t.Error(diff)
	}
	if out, err := r.Encode(); err != nil || strings.TrimSpace(string(out)) == "" {
		t.Errorf("%s, %v", out, err)
	} else if again, err := DecodeResponseIn(out, AfterTurn, Version2); err != nil || !cmp.Equal(again, r) {
		t.Errorf("%+v, %v", again, err)
	}
	before := Request{Before: &BeforeRequest{ProtocolVersion: 2, Wrapper: "w", Stage: "s", Goal: "g"}}
	if b, err = before.Encode(); err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeRequest(b, BeforeTurn, Version2); err != nil || !cmp.Equal(got, before) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestVersionIsChecked: the number is checked when a message is read, and each
// version has its own keys only.
func TestVersionIsChecked(t *testing.T) {
	b, err := second.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		decode func() error
		kind   Kind
		want   string
	}{
		"2 for a plugin of 1":       {func() error { _, err := DecodeRequest(b, AfterTurn, Version); return err }, ErrProtocolVersion, "speaks wrapper protocol_version 1; the host asked for 2"},
		"1 for a plugin of 2":       {func() error { _, err := DecodeRequest([]byte(afterRequest), AfterTurn, Version2); return err }, ErrProtocolVersion, "speaks wrapper protocol_version 2; the host asked for 1"},
		"an answer in 2 for 1":      {func() error { _, err := DecodeResponse([]byte(secondResponse), AfterTurn); return err }, ErrProtocolVersion, "this host speaks 1"},
		"an answer in 1 for 2":      {func() error { _, err := DecodeResponseIn([]byte(afterResponse), AfterTurn, Version2); return err }, ErrProtocolVersion, "this host speaks 2"},
		"keys of 2 in 1":            {func() error { return edit(b, `"protocol_version":2`, `"protocol_version":1`) }, ErrDecode, "got cwd, env, timeout_ms"},
		"keys of 2 in 3":            {func() error { return edit(b, `"protocol_version":2`, `"protocol_version":3`) }, ErrDecode, "got cwd, env, timeout_ms"},
		"an unknown key in 2":       {func() error { return edit(b, `"cwd"`, `"dir"`) }, ErrDecode, "got dir"},
		"a cwd that leads out":      {func() error { return edit(b, `a/b`, `../b`) }, ErrDecode, "not below the root"},
		"an absolute cwd":           {func() error { return edit(b, `a/b`, `/b`) }, ErrDecode, "not below the root"},
		"no time":                   {func() error { return edit(b, `60000`, `0`) }, ErrDecode, "timeout_ms of the test is 0"},
		"a negative time":           {func() error { return edit(b, `60000`, `-1`) }, ErrDecode, "timeout_ms"},
		"a variable that is none":   {func() error { return edit(b, `"/bin"`, `7`) }, ErrDecode, "PATH"},
		"unobservable for nothing":  {func() error { return answer(`"reason":"no root",`, ``) }, ErrDecode, "has a reason"},
		"unobservable and blank":    {func() error { return answer(`no root`, ` `) }, ErrDecode, "has a reason"},
		"a reason for an achieved":  {func() error { return answer(`unobservable`, `achieved`) }, ErrDecode, "no other has"},
		"reported and left out":     {func() error { return answer(`"b":`, `"a":`) }, ErrDecode, "both reported and left out"},
		"left out without a reason": {func() error { return answer(`"no benchmark here"`, `null`) }, ErrDecode, "lacks the field b"},
		"tampering in 2":            {func() error { return answer(`"reason"`, `"tamper":"clean","reason"`) }, ErrDecode, "got tamper"},
	} {
		if err := c.decode(); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func edit(message []byte, old, new string) error {
	_, err := DecodeRequest([]byte(strings.Replace(string(message), old, new, 1)), AfterTurn, 0)
	return err
}

func answer(old, new string) error {
	_, err := DecodeResponseIn([]byte(strings.Replace(secondResponse, old, new, 1)), AfterTurn, Version2)
	return err
}

func TestIn(t *testing.T) {
	for _, q := range []Request{second, {Before: &BeforeRequest{ProtocolVersion: 2, Wrapper: "w", Stage: "s", Goal: "g", Candidate: second.After.Candidate}}} {
		first := q.In(Version)
		b, err := first.Encode()
		if err != nil || first.Version() != 1 || strings.Contains(string(b), "timeout_ms") {
			t.Errorf("%s, %v", b, err)
		}
		if second.After.Candidate.Test.Cwd != "a/b" || q.Version() != 2 {
			t.Error("In changed the request that it was called on")
		}
		if again := q.In(Version2); !cmp.Equal(again, q) {
			t.Error(cmp.Diff(again, q))
		}
	}
	wrong := second.In(Version2)
	wrong.After.ProtocolVersion = 1
	if _, err := wrong.Encode(); !errors.Is(err, ErrEncode) {
		t.Errorf("version 1 with the keys of 2: %v", err)
	}
	if _, err := (Response{After: &AfterResponse{ProtocolVersion: 1, Evidence: Evidence{Flip: judge.FlipUnobservable, Reason: "x"}}}).Encode(); !errors.Is(err, ErrEncode) {
		t.Errorf("a reason in version 1: %v", err)
	}
	if (Request{}).Version() != 0 || (Request{}).In(2) != (Request{}) {
		t.Error("a request for no point")
	}
}
