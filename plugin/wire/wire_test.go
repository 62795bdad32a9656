package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/judge"
)

const (
	afterRequest = `{"point":"after_turn","body":{"protocol_version":1,"wrapper":"verify","round":0,"goal":"g",` +
		`"candidate":{"handle":"candidate-1","root":"/r","test":{"program":"p","args":["a"],"baseline":"failed"}},"turn":{"completed":true}}}`
	beforeRequest = `{"point":"before_turn","body":{"protocol_version":1,"wrapper":"w","stage":"plan","round":2,"goal":"g",` +
		`"published":[{"signal":"candidates","value":{"count":3}}]}}`
	afterResponse  = `{"point":"after_turn","body":{"protocol_version":1,"evidence":{"flip":"achieved","measurements":{"n":7}}}}`
	beforeResponse = `{"point":"before_turn","body":{"protocol_version":1,"context":[{"label":"l","text":"t"}],"role":"r","scope":["s"],` +
		`"publish":[{"signal":"plans","value":{"boolean":true}}],"witness":["w"]}}`
)

// TestRefusals edits a good message and expects a refusal of the kind whose
// text holds the given words.
func TestRefusals(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, c := range []struct {
		message, old, new string
		kind              Kind
		text              string
	}{
		{afterRequest, `{"point"`, `x`, ErrDecode, "stdin was not a single JSON object"},
		{afterRequest, afterRequest, ``, ErrDecode, "stdin was not a single JSON object"},
		{afterRequest, afterRequest, `[]`, ErrDecode, "stdin was not a single JSON object"},
		{afterRequest, `true}}}`, `true}}}{}`, ErrDecode, "stdin was not a single JSON object"},
		{afterRequest, `true}}}`, `true}}} x`, ErrDecode, "stdin was not a single JSON object"},
		{afterRequest, `{"point"`, "\ufeff" + `{"point"`, ErrDecode, "stdin was not a single JSON object"},
		{afterRequest, `"g"`, "\"\xff\"", ErrDecode, "not UTF-8"},
		{afterRequest, `"g"`, `"\ud800"`, ErrDecode, "surrogate"},
		{afterRequest, `"g"`, `"\udc00\ud800"`, ErrDecode, "surrogate"},
		{afterRequest, `"g"`, `"\ud800\ud800"`, ErrDecode, "surrogate"},
		{afterRequest, `"g"`, `"\ud83dA"`, ErrDecode, "surrogate"},
		{afterRequest, `"g"`, deep, ErrDecode, "nesting"},
		{afterRequest, `"round":0`, `"round":0,"round":0`, ErrDecode, "the key round twice"},
		{afterRequest, `"baseline"`, `"program":"q","baseline"`, ErrDecode, "the key program twice"},
		{afterRequest, `"program":"p"`, `"program":"p","pro\u0067ram":"q"`, ErrDecode, "the key program twice"},
		{afterRequest, `"point"`, `"Point"`, ErrDecode, "the request envelope carried a field outside {point, body}"},
		{afterRequest, `"body"`, `"x":1,"body"`, ErrDecode, "envelope"},
		{afterRequest, `"after_turn"`, `"judge"`, ErrPointMismatch, `this plugin answers after_turn only; the host asked for "judge"`},
		{afterRequest, `"after_turn"`, `7`, ErrPointMismatch, `this plugin answers after_turn only; the host asked for no point`},
		{afterRequest, `"point":"after_turn",`, ``, ErrPointMismatch, `the host asked for no point`},
		{afterRequest, `"round":0`, `"Round":0`, ErrDecode, "the request denies unknown fields; got Round"},
		{afterRequest, `"round":0`, `"z":1,"a b":1,"round":0`, ErrDecode, `the request denies unknown fields; got "a b", z`},
		{afterRequest, `"round":0`, `"a\nb":1,"round":0`, ErrDecode, `got "a\nb"`},
		{afterRequest, `"protocol_version":1`, `"protocol_version":2`, ErrProtocolVersion, "this plugin speaks wrapper protocol_version 1; the host asked for 2"},
		{afterRequest, `"protocol_version":1`, `"protocol_version":0`, ErrProtocolVersion, "the host asked for 0"},
		{afterRequest, `"protocol_version":1`, `"protocol_version":true`, ErrDecode, "protocol_version"},
		{afterRequest, `"protocol_version":1,`, ``, ErrDecode, "the request lacks the field protocol_version"},
		{afterRequest, `"protocol_version":1`, `"protocol_version":1.0`, ErrDecode, "protocol_version"},
		{afterRequest, `"round":0`, `"round":4294967296`, ErrDecode, "round"},
		{afterRequest, `"round":0`, `"round":-0`, ErrDecode, "round"},
		{afterRequest, `"round":0`, `"round":null`, ErrDecode, "lacks the field round"},
		{afterRequest, `"goal":"g",`, ``, ErrDecode, "lacks the field goal"},
		{afterRequest, `"wrapper":"verify",`, ``, ErrDecode, "lacks the field wrapper"},
		{afterRequest, `,"turn":{"completed":true}`, ``, ErrDecode, "lacks the field turn"},
		{afterRequest, `{"completed":true}`, `null`, ErrDecode, "lacks the field turn"},
		{afterRequest, `{"completed":true}`, `{}`, ErrDecode, "lacks the field completed"},
		{afterRequest, `{"completed":true}`, `{"completed":1}`, ErrDecode, "completed"},
		{afterRequest, `{"completed":true}`, `{"completed":true,"x":1}`, ErrDecode, "denies unknown fields; got x"},
		{afterRequest, `{"completed":true}`, `{"completed":true,"tools":[1]}`, ErrDecode, "tools"},
		{afterRequest, `"handle":"candidate-1",`, ``, ErrDecode, "lacks the field handle"},
		{afterRequest, `"root":"/r"`, `"root":""`, ErrDecode, "empty root"},
		{afterRequest, `"root":"/r"`, `"root":null`, ErrDecode, "root"},
		{afterRequest, `"handle"`, `"tool":1,"handle"`, ErrDecode, "denies unknown fields; got tool"},
		{afterRequest, `"baseline":"failed"`, `"baseline":"flaky"`, ErrDecode, `TestBaseline is a closed set {not-run, passed, failed, unobserved}; got "flaky"`},
		{afterRequest, `"baseline"`, `"env":{},"baseline"`, ErrDecode, "denies unknown fields; got env"},
		{afterRequest, `"program":"p"`, `"program":""`, ErrDecode, "empty program"},
		{afterRequest, `"program":"p",`, ``, ErrDecode, "lacks the field program"},
		{afterRequest, `["a"]`, `"a"`, ErrDecode, "args"},
		{afterRequest, `"candidate":{`, `"candidate":7,"x":{`, ErrDecode, "denies unknown fields; got x"},
		{beforeRequest, `"stage":"plan",`, ``, ErrDecode, "lacks the field stage"},
		{beforeRequest, `{"count":3}`, `{"count":3,"boolean":true}`, ErrDecode, "either"},
		{beforeRequest, `{"count":3}`, `{}`, ErrDecode, "either"},
		{beforeRequest, `{"count":3}`, `{"count":-3}`, ErrDecode, "count"},
		{beforeRequest, `{"count":3}`, `3`, ErrDecode, "value"},
		{beforeRequest, `"published":[`, `"turn":{},"published":[`, ErrDecode, "got turn"},

		{afterResponse, `"evidence"`, `"tamper":"clean","evidence"`, ErrDecode, "the response denies unknown fields; got tamper"},
		{afterResponse, `"flip"`, `"tamper":"clean","flip"`, ErrDecode, "got tamper"},
		{afterResponse, `"flip"`, `"detail":"d","provenance":"host-observed","flip"`, ErrDecode, "got detail, provenance"},
		{afterResponse, `"flip"`, `"Flip"`, ErrDecode, "got Flip"},
		{afterResponse, `"flip":"achieved",`, ``, ErrDecode, "lacks the field flip"},
		{afterResponse, `"achieved"`, `"not-applicable"`, ErrDecode, `got "not-applicable"`},
		{afterResponse, `"achieved"`, `"Achieved"`, ErrDecode, `got "Achieved"`},
		{afterResponse, `"achieved"`, `null`, ErrDecode, "lacks the field flip"},
		{afterResponse, `7`, `-1`, ErrDecode, "field n"},
		{afterResponse, `7`, `-0`, ErrDecode, "field n"},
		{afterResponse, `7`, `1.0`, ErrDecode, "field n"},
		{afterResponse, `7`, `1e3`, ErrDecode, "field n"},
		{afterResponse, `7`, `"7"`, ErrDecode, "field n"},
		{afterResponse, `7`, `null`, ErrDecode, "field n"},
		{afterResponse, `7`, `true`, ErrDecode, "field n"},
		{afterResponse, `7`, `18446744073709551616`, ErrDecode, "field n"},
		{afterResponse, `"n":7`, `"n":7,"n":0`, ErrDecode, "the key n twice"},
		{afterResponse, `{"n":7}`, `[]`, ErrDecode, "measurements"},
		{afterResponse, `"after_turn"`, `"before_turn"`, ErrPointMismatch, `asked at after_turn and answered for "before_turn"`},
		{afterResponse, `"protocol_version":1`, `"protocol_version":2`, ErrProtocolVersion, "this host speaks 1"},
		{afterResponse, `"protocol_version":1`, `"protocol_version":0`, ErrProtocolVersion, "protocol_version 0"},
		{afterResponse, afterResponse, `{"call":"recall","id":1,"args":{}}`, ErrUnannouncedCall, "called the host"},
		{afterResponse, `"body"`, `"call":"recall","body"`, ErrDecode, "envelope"},
		{afterResponse, `{"protocol_version"`, `[],"x":{"protocol_version"`, ErrDecode, "envelope"},
		{afterResponse, afterResponse, `{"point":"after_turn","body":[]}`, ErrDecode, "body"},
		{beforeResponse, `"role":"r"`, `"role":7`, ErrDecode, "role"},
		{beforeResponse, `"label":"l",`, ``, ErrDecode, "lacks the field label"},
		{beforeResponse, `"label"`, `"x":1,"label"`, ErrDecode, "got x"},
		{beforeResponse, `[{"label"`, `[7,{"label"`, ErrDecode, "context"},
		{beforeResponse, `"role"`, `"error":"e","role"`, ErrDecode, "got error"},
	} {
		edited := strings.Replace(c.message, c.old, c.new, 1)
		if edited == c.message {
			t.Fatalf("%q is not in %q", c.old, c.message)
		}
		var err error
		switch c.message {
		case afterRequest:
			_, err = DecodeRequest([]byte(edited), AfterTurn, Version)
		case beforeRequest:
			_, err = DecodeRequest([]byte(edited), BeforeTurn, Version)
		case afterResponse:
			_, err = DecodeResponse([]byte(edited), AfterTurn)
		case beforeResponse:
			_, err = DecodeResponse([]byte(edited), BeforeTurn)
		}
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n got %v (%v)\nwant %s: %s", edited, err, errors.Unwrap(err), c.kind, c.text)
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	for _, m := range []string{
		strings.Replace(afterRequest, `"g"`, `"\ud83d\ude00\\ud800"`, 1),
		strings.Replace(afterRequest, `"candidate":{`, `"stage":null,"candidate":{`, 1),
		strings.Replace(afterRequest, `"baseline":"failed"`, `"baseline":null`, 1),
		strings.Replace(afterRequest, `"args":["a"]`, `"args":null`, 1),
		strings.Replace(afterRequest, `true}}}`, "true,\"answer\":null}}}\n \t\r\n", 1),
		`{"body":{"protocol_version":7,"wrapper":"","round":0,"goal":"","candidate":null,"turn":{"completed":false}},"point":"after_turn"}`,
		beforeRequest,
	} {
		if _, err := DecodeRequest([]byte(m), "", 0); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
	r, err := DecodeResponse([]byte(strings.Replace(afterResponse, "7", "18446744073709551615", 1)), AfterTurn)
	if err != nil || r.After.Evidence.Measurements["n"] != math.MaxUint64 {
		t.Errorf("%+v, %v", r.After, err)
	}
	r, err = DecodeResponse([]byte(`{"point":"after_turn","body":{"protocol_version":1,"evidence":{"flip":"unobservable","measurements":null}}}`), AfterTurn)
	if err != nil || r.After.Evidence.Measurements != nil {
		t.Errorf("%+v, %v", r.After, err)
	}
}

// TestMeasuredAndNot keeps apart what was not measured from what was empty.
func TestMeasuredAndNot(t *testing.T) {
	q := Request{After: &AfterRequest{ProtocolVersion: 1, Turn: Turn{Tools: []string{}}}}
	b, err := q.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"point":"after_turn","body":{"protocol_version":1,"wrapper":"","round":0,"goal":"","turn":{"completed":false,"tools":[]}}}` + "\n"
	if string(b) != want {
		t.Errorf("%s", b)
	}
	got, err := DecodeRequest(b, AfterTurn, 1)
	if err != nil || got.After.Turn.Tools == nil || got.After.Turn.ChangedFiles != nil {
		t.Errorf("%+v, %v", got.After, err)
	}
}

func TestEncode(t *testing.T) {
	for _, q := range []Request{
		{},
		{Before: &BeforeRequest{}, After: &AfterRequest{}},
		{After: &AfterRequest{Wrapper: "\xff"}},
		{Before: &BeforeRequest{Candidate: &Grant{Root: "/\xff"}}},
		{After: &AfterRequest{Candidate: &Grant{Test: &TestPlan{Args: []string{"ok", "\xff"}}}}},
	} {
		if b, err := q.Encode(); !errors.Is(err, ErrEncode) {
			t.Errorf("%+v: %s, %v", q, b, err)
		}
	}
	b, err := Request{After: &AfterRequest{Goal: "<&>\xff", Turn: Turn{ChangedFiles: []string{"a\xffb"}}}}.Encode()
	if err != nil || !bytes.Contains(b, []byte("<&>")) || bytes.Count(b, []byte("\n")) != 1 {
		t.Errorf("%s, %v", b, err)
	}
	if got, err := DecodeRequest(b, AfterTurn, 0); err != nil || got.After.Turn.ChangedFiles[0] != "a\ufffdb" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := (Response{}).Encode(); !errors.Is(err, ErrEncode) {
		t.Error(err)
	}
}

func genText(t *rapid.T, label string) string { return rapid.String().Draw(t, label) }

func genTexts(t *rapid.T, label string) []string {
	l := rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, label)
	if len(l) == 0 {
		return nil
	}
	return l
}

func genPublished(t *rapid.T) []Published {
	var out []Published
	for range rapid.IntRange(0, 2).Draw(t, "published") {
		p := Published{Signal: genText(t, "signal")}
		if b, n := rapid.Bool().Draw(t, "b"), rapid.Uint64().Draw(t, "n"); rapid.Bool().Draw(t, "kind") {
			p.Value.Boolean = &b
		} else {
			p.Value.Count = &n
		}
		out = append(out, p)
	}
	return out
}

func genGrant(t *rapid.T) *Grant {
	if rapid.Bool().Draw(t, "granted") {
		return nil
	}
	g := &Grant{Handle: genText(t, "handle"), Root: "/" + genText(t, "root")}
	if rapid.Bool().Draw(t, "test") {
		g.Test = &TestPlan{Program: "p" + genText(t, "program"), Args: genTexts(t, "args"),
			Baseline: rapid.SampledFrom([]Baseline{NotRun, Passed, Failed, Unobserved}).Draw(t, "baseline")}
	}
	return g
}

// TestRoundTrip: what is encoded is decoded as it was, by both strict readers.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests := []Request{
			{Before: &BeforeRequest{1, genText(t, "w"), genText(t, "s"), rapid.Uint32().Draw(t, "r"), genText(t, "g"), genGrant(t), genPublished(t)}},
			{After: &AfterRequest{1, genText(t, "w"), genText(t, "s"), rapid.Uint32().Draw(t, "r"), genText(t, "g"), genGrant(t),
				Turn{rapid.Bool().Draw(t, "c"), genText(t, "a"), rapid.SampledFrom([][]string{nil, {}, {"x"}}).Draw(t, "tools"), genTexts(t, "files")}}},
		}
		for _, want := range requests {
			b, err := want.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeRequest(b, want.Point(), Version)
			if err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
		var contexts []Context
		for range rapid.IntRange(0, 2).Draw(t, "contexts") {
			contexts = append(contexts, Context{genText(t, "label"), genText(t, "text")})
		}
		measurements := rapid.MapOfN(rapid.String(), rapid.Uint64(), 0, 3).Draw(t, "m")
		if len(measurements) == 0 {
			measurements = nil
		}
		responses := []Response{
			{Before: &BeforeResponse{1, contexts, genText(t, "role"), genTexts(t, "scope"), genPublished(t), genTexts(t, "witness")}},
			{After: &AfterResponse{ProtocolVersion: 1, Evidence: Evidence{Flip: rapid.SampledFrom([]judge.Flip{judge.FlipAchieved, judge.FlipUnobservable}).Draw(t, "flip"), Measurements: measurements}}},
		}
		for _, want := range responses {
			b, err := want.Encode()
			if err != nil {
				t.Fatal(err)
			}
			framed, err := ReadResponse(bytes.NewReader(append([]byte(" \n"), append(b, "trailing { [ \""...)...)))
			if err != nil || !bytes.Equal(framed, bytes.TrimSpace(b)) {
				t.Fatalf("framed %q of %q: %v", framed, b, err)
			}
			got, err := DecodeResponse(framed, want.Point())
			if err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func TestReadResponse(t *testing.T) {
	for in, want := range map[string]string{
		"{}":                             "{}",
		" \r\n\t{\"a\": \"}\"}\n":        `{"a": "}"}`,
		`{"a":"\"}{"}{"second":1}`:       `{"a":"\"}{"}`,
		"{\n  \"a\": [\n {}\n ]\n}\nbye": "{\n  \"a\": [\n {}\n ]\n}",
		`{"a":"\\"}x`:                    `{"a":"\\"}`,
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
			if got, err := ReadResponse(r); err != nil || string(got) != want {
				t.Errorf("%q: %q, %v", in, got, err)
			}
		}
	}
	big := func(s string, n int) io.Reader {
		return io.MultiReader(strings.NewReader(s), io.LimitReader(zeroes{}, int64(n)))
	}
	for name, c := range map[string]struct {
		r    io.Reader
		kind Kind
	}{
		"nothing":            {strings.NewReader(""), ErrNoResponse},
		"white space":        {strings.NewReader(" \n\n"), ErrNoResponse},
		"a greeting":         {strings.NewReader("hello {}"), ErrDecode},
		"a list":             {strings.NewReader("[{}]"), ErrDecode},
		"half":               {strings.NewReader(`{"a":`), ErrDecode},
		"an open string":     {strings.NewReader(`{"a":"}`), ErrDecode},
		"reading fails":      {iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("{}"))), ErrTransport},
		"too much":           {big(`{"a":"`, MaxOutput), ErrOutputCap},
		"too much after":     {big(`{}`, MaxOutput-1), ErrOutputCap},
		"too much of spaces": {io.LimitReader(spaces{}, MaxOutput+1), ErrOutputCap},
	} {
		if b, err := ReadResponse(c.r); !errors.Is(err, c.kind) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := ReadResponse(big(`{}`, MaxOutput-2)); err != nil {
		t.Errorf("as much as allowed: %v", err)
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestAdmit(t *testing.T) {
	yes, three := true, uint64(3)
	for i, c := range []struct {
		r    BeforeResponse
		kind error
	}{
		{BeforeResponse{}, nil},
		{BeforeResponse{Role: "a", Publish: []Published{{"plans", Value{Boolean: &yes}}, {"diff-lines", Value{Count: &three}}}}, nil},
		{BeforeResponse{Role: "c"}, ErrUndeclaredRole},
		{BeforeResponse{Publish: []Published{{"plans", Value{Count: &three}}}}, ErrMistypedSignal},
		{BeforeResponse{Publish: []Published{{"candidates", Value{Boolean: &yes}}}}, ErrMistypedSignal},
		{BeforeResponse{Publish: []Published{{"nonsense", Value{Boolean: &yes}}}}, ErrMistypedSignal},
	} {
		if err := c.r.Admit([]string{"a", "b"}); !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\n b\tc ": "a b c", "\x1b[31mx": "\ufffd[31mx", "a\u202eb\xffc": "a\ufffdb\ufffdc", "123456": "12345…", "日本語": "日本語",
	} {
		if got := Line(in, 5); got != want && in != "\x1b[31mx" || strings.ContainsRune(got, 0x1b) {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{afterRequest, beforeRequest, afterResponse, beforeResponse, `{"point":"after_turn","body":{"a":1,"a":2}}`, `"\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range []Point{BeforeTurn, AfterTurn} {
			if q, err := DecodeRequest(b, p, 0); err == nil {
				out, err := q.Encode()
				if err != nil {
					t.Fatalf("%q decodes and does not encode: %v", b, err)
				}
				again, err := DecodeRequest(out, p, 0)
				if out2, _ := again.Encode(); err != nil || !bytes.Equal(out, out2) {
					t.Fatalf("%q, encoded %q, decodes as something else: %v", b, out, err)
				}
			} else if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Fatalf("%q is not one line", err)
			}
			if r, err := DecodeResponse(b, p); err == nil {
				if r.Point() != p || !json.Valid(b) {
					t.Fatalf("%q accepted", b)
				}
			}
		}
	})
}

func FuzzReadResponse(f *testing.F) {
	for _, s := range []string{"{}", ` {"a":"\"}"} x`, `{"a":[{}]`, "x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadResponse(bytes.NewReader(b))
		d := json.NewDecoder(bytes.NewReader(b))
		var want json.RawMessage
		if d.Decode(&want) == nil && want[0] == '{' && (err != nil || !bytes.Equal(want, got)) {
			t.Fatalf("%q: %q, %v; want %q", b, got, err, want)
		}
	})
}
