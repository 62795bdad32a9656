package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/mcp"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		code int // 0 for a message
		want Message
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"m"}`, 0, Message{ID: []byte("1"), Method: "m"}},
		{` {"jsonrpc":"2.0","id":"<x>","method":"m","params":{"a":1}} `, 0, Message{ID: []byte(`"<x>"`), Method: "m", Params: []byte(`{"a":1}`)}},
		{`{"jsonrpc":"2.0","id":-1.5,"method":"m","params":null}`, 0, Message{ID: []byte("-1.5"), Method: "m"}},
		{`{"jsonrpc":"2.0","method":"m"}`, 0, Message{Method: "m"}},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, 0, Message{ID: []byte("1")}},
		{`{"jsonrpc":"2.0","id":1,"error":{}}`, 0, Message{ID: []byte("1")}},
		{`{"jsonrpc":"2.0","id":1,"METHOD":"m"}`, InvalidRequest, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, ParseError, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":{"y":1,"y":1}}}`, ParseError, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[{"y":1},{"y":1}],"y":"x","z":"y"}}`, 0, Message{ID: []byte("1"), Method: "a", Params: []byte(`{"x":[{"y":1},{"y":1}],"y":"x","z":"y"}`)}},
		{`{"jsonrpc":"2.0","id":null,"method":"m"}`, InvalidRequest, Message{}},
		{`{"jsonrpc":"2.0","id":{},"method":"m"}`, InvalidRequest, Message{}},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"m"}`, InvalidRequest, Message{}},
		{`{"id":1,"method":"m"}`, InvalidRequest, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, InvalidRequest, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":1}`, InvalidRequest, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, InvalidParams, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":1}}`, InvalidParams, Message{}},
		{`{"jsonrpc":"2.0"}`, InvalidRequest, Message{}},
		{`[{"jsonrpc":"2.0","id":1,"method":"m"}]`, InvalidRequest, Message{}},
		{`"x"`, InvalidRequest, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":"m"} {}`, ParseError, Message{}},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", ParseError, Message{}},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":` + strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 301), ParseError, Message{}},
		{`{"a"`, ParseError, Message{}}, {``, ParseError, Message{}},
	} {
		m, bad := Parse([]byte(c.in))
		if c.code != 0 {
			if bad == nil || bad.Code != c.code {
				t.Errorf("%.80s: %v, want %d", c.in, bad, c.code)
			}
			continue
		}
		if bad != nil || !bytes.Equal(m.ID, c.want.ID) || m.Method != c.want.Method || !bytes.Equal(m.Params, c.want.Params) {
			t.Errorf("%.80s: %+v %v", c.in, m, bad)
		}
	}
}

func TestMetaOfARequest(t *testing.T) {
	m, bad := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":3,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`))
	if bad != nil || string(m.ProgressToken()) != "3" || m.MetaVersion() != V20260728 {
		t.Errorf("%+v %v", m, bad)
	}
	m, _ = Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":{},"io.modelcontextprotocol/protocolVersion":3}}}`))
	if m.ProgressToken() != nil || m.MetaVersion() != "" {
		t.Errorf("%s %s", m.ProgressToken(), m.MetaVersion())
	}
}

func TestNegotiate(t *testing.T) {
	for asked, want := range map[string]string{
		"2025-06-18": V20250618, "2025-11-25": V20251125, "2024-11-05": V20250618, "2026-07-28": V20251125, "": V20250618, "2025-08-01": V20250618,
	} {
		if got := Negotiate(asked); got != want {
			t.Errorf("%s: %s", asked, got)
		}
	}
}

func TestHeadersMustRepeatTheBody(t *testing.T) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	m, bad := Parse([]byte(body))
	if bad != nil {
		t.Fatal(bad)
	}
	for _, c := range []struct {
		change string // header=value
		code   int
	}{
		{"X=", 0}, {"Mcp-Name==?base64?bg==?=", 0},
		{"Mcp-Protocol-Version=", HeaderMismatch}, {"Mcp-Protocol-Version=2025-11-25", HeaderMismatch},
		{"Mcp-Method=", HeaderMismatch}, {"Mcp-Method=tools/list", HeaderMismatch}, {"Mcp-Name=", HeaderMismatch}, {"Mcp-Name=other", HeaderMismatch},
	} {
		h := http.Header{}
		SetHeaders(h, m)
		name, value, _ := strings.Cut(c.change, "=")
		h.Set(name, value)
		if bad := CheckHeaders(h, m); (bad == nil) != (c.code == 0) || bad != nil && bad.Code != c.code {
			t.Errorf("%s: %v", c.change, bad)
		}
	}
	future, _ := Parse([]byte(strings.ReplaceAll(body, V20260728, "2099-01-01")))
	h := http.Header{}
	SetHeaders(h, future)
	if bad := CheckHeaders(h, future); bad == nil || bad.Code != UnsupportedVersion || string(bad.Data) != `{"requested":"2099-01-01","supported":["2026-07-28","2025-11-25","2025-06-18"]}` {
		t.Errorf("%v %s", bad, bad.Data)
	}
	headerOnly, _ := Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if bad := CheckHeaders(h, headerOnly); bad == nil || bad.Code != InvalidParams {
		t.Errorf("%v", bad)
	}
}

// Any name survives the way through a header.
func TestHeaderValuesComeBack(t *testing.T) {
	law := func(s string) bool {
		h := http.Header{"V": {encodeHeader(s)}}
		var b bytes.Buffer
		return h.Write(&b) == nil && !strings.Contains(encodeHeader(s), "\n") && decodeHeader(encodeHeader(s)) == s
	}
	if err := quick.Check(law, nil); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"", " a", "a ", "=?base64?x?=", "é", "a\tb"} {
		if !law(s) {
			t.Errorf("%q", s)
		}
	}
}

func TestResultsOfBothEras(t *testing.T) {
	old, modern := Era{Info: []byte(`{"name":"b"}`)}, Era{Modern: true, Info: []byte(`{"name":"b"}`)}
	info := `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b"}}`
	for _, c := range []struct{ got, want string }{
		{string(old.Call(mcp.Result{})), `{"content":[]}`},
		{string(old.Call(mcp.Result{Meta: []byte(` { } `)})), `{"content":[]}`},
		{string(modern.Call(mcp.Result{IsError: true, Meta: []byte(" {\n\"a\":1} ")})), `{"content":[],"isError":true,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b"}, "a":1}}`},
		{string(modern.Call(mcp.Result{Meta: []byte(`{"io.modelcontextprotocol/serverInfo":{"name":"up"}}`)})), `{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up"}}}`},
		{string(old.List([]byte("[]"))), `{"tools":[]}`},
		{string(modern.List([]byte("[]"))), `{"tools":[],"ttlMs":300000,"cacheScope":"private","resultType":"complete",` + info + `}`},
		{string(old.ToolError("<\n>")), `{"content":[{"type":"text","text":"<\n>"}],"isError":true}`},
		{string(modern.Discover()), `{"supportedVersions":["2026-07-28","2025-11-25","2025-06-18"],"capabilities":{"tools":{"listChanged":false}},"ttlMs":300000,"cacheScope":"private","resultType":"complete",` + info + `}`},
		{string(old.Initialize(V20251125)), `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"b"}}`},
		{string(AppendError(nil, nil, &Error{Code: -1, Message: "m", Data: []byte("1")})), `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":1}}`},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
		if !json.Valid([]byte(c.got)) {
			t.Errorf("not JSON: %s", c.got)
		}
	}
	for _, r := range []mcp.Result{{Content: []json.RawMessage{[]byte("{")}}, {Structured: []byte("x")}, {Meta: []byte("[]")}} {
		if CheckResult(r) == nil {
			t.Errorf("%+v passed", r)
		}
	}
	a, b := modern.Listen([]byte("5"))
	if !json.Valid(a) || string(b) != `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":5}}` {
		t.Errorf("%s %s", a, b)
	}
}

func TestEvents(t *testing.T) {
	stream := "\ufeff: comment\nevent: message\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\nid: 3\n\ndata: unfinished"
	var got []string
	err := Events(strings.NewReader(stream), 100, func(b []byte) error { got = append(got, string(b)); return nil })
	if err != nil || !slices.Equal(got, []string{"one", "two\nlines"}) {
		t.Errorf("%q %v", got, err)
	}
	for _, long := range []string{"data: " + strings.Repeat("x", 200), strings.Repeat("data: xxxxxxxxxxxxx\n", 20)} {
		if err := Events(strings.NewReader(long), 100, nil); !errors.Is(err, ErrTooLong) {
			t.Errorf("%v", err)
		}
	}
	stop := errors.New("stop")
	if err := Events(strings.NewReader("data: x\n\n"), 100, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

func TestEventsComeBack(t *testing.T) {
	var stream []byte
	want := []string{`{"a":1}`, `{"b":"\n"}`}
	for _, w := range want {
		stream = AppendEvent(stream, []byte(w))
	}
	var got []string
	if err := Events(bytes.NewReader(stream), 100, func(b []byte) error { got = append(got, string(b)); return nil }); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
}

func TestLines(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("a\r\n\n"+strings.Repeat("x", 50)+"\nend"), 16)
	for _, want := range []string{"a", "", strings.Repeat("x", 50)} {
		if got, err := Line(r, 50); string(got) != want || err != nil {
			t.Errorf("%q %v", got, err)
		}
	}
	if got, err := Line(r, 50); string(got) != "end" || !errors.Is(err, io.EOF) {
		t.Errorf("%q %v", got, err)
	}
	if _, err := Line(bufio.NewReader(strings.NewReader(strings.Repeat("x", 60))), 50); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
}

// What Parse takes, everybody reads alike; what it gives makes valid answers.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{},"_meta":{"progressToken":"t"}}}`, `[]`, `{"a":1,"a":2}`, `{"jsonrpc":"2.0","id":"\ud800","method":"m"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, bad := Parse(b)
		if bad != nil {
			if !json.Valid(AppendError(nil, m.ID, bad)) {
				t.Errorf("the answer is no JSON: %s", AppendError(nil, m.ID, bad))
			}
			return
		}
		var standard map[string]json.RawMessage
		if err := json.Unmarshal(b, &standard); err != nil {
			t.Fatalf("taken, but not JSON: %v", err)
		}
		if !bytes.Equal(standard["id"], m.ID) {
			t.Errorf("id %s, read as %s", standard["id"], m.ID)
		}
		if m.ID != nil && !json.Valid(AppendResult(nil, m.ID, []byte("{}"))) {
			t.Errorf("%s makes an answer that is no JSON", m.ID)
		}
		if token := m.ProgressToken(); token != nil && !json.Valid(Progress(token, mcp.Progress{Progress: 1})) {
			t.Errorf("%s makes progress that is no JSON", token)
		}
		h := http.Header{}
		SetHeaders(h, m)
		if Modern(m.MetaVersion()) && Known(m.MetaVersion()) {
			if bad := CheckHeaders(h, m); bad != nil && m.Method != "tools/call" && m.Method != "prompts/get" && m.Method != "resources/read" {
				t.Errorf("own headers are refused: %v", bad)
			}
		}
	})
}

// Strict says what a reader of the standard library's, token by token, would
// say, and members are what it reads.
func FuzzStrict(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,{"b":"x\"}{"}],"\u0061b":null}`, `{"a":1,"\u0061":2}`, ` [ ] `, `{"a":{"a":{}},"b":[[],{}, -1.5e3 ,true]} `,
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"i":11}`, `{"\ud800":1,"\ufffd":2}`, "\"\xff\"", `{} {}`, `{"a":"\\"}`,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err, want := Strict(b), utf8.Valid(b) && tokens(json.NewDecoder(bytes.NewReader(b)))
		if (err == nil) != want {
			t.Fatalf("%.200q: %v, want %t", b, err, want)
		}
		if err != nil {
			return
		}
		o, ok := members(b)
		var standard map[string]json.RawMessage
		if isObject := json.Unmarshal(b, &standard) == nil && standard != nil; ok != isObject || len(o) != len(standard) {
			t.Fatalf("%.200q: %d members, want %d", b, len(o), len(standard))
		}
		for name, value := range standard {
			if !bytes.Equal(o.get(name), value) {
				t.Errorf("%.200q: %q is %q, want %q", b, name, o.get(name), value)
			}
		}
	})
}

// tokens reports whether there is one value, no deeper than maxDepth, without a
// key twice in one object.
func tokens(dec *json.Decoder) bool {
	dec.UseNumber()
	var value func(open int) bool
	value = func(open int) bool {
		tok, err := dec.Token()
		d, nests := tok.(json.Delim)
		if err != nil || !nests {
			return err == nil
		}
		keys := map[string]bool{}
		for dec.More() {
			if d == '{' {
				key, err := dec.Token()
				name, ok := key.(string)
				if err != nil || !ok || keys[name] {
					return false
				}
				keys[name] = true
			}
			if !value(open + 1) {
				return false
			}
		}
		_, err = dec.Token()
		return err == nil && open < maxDepth
	}
	if !value(0) {
		return false
	}
	_, err := dec.Token()
	return errors.Is(err, io.EOF)
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: x\n\n"))
	f.Add([]byte(":\r\ndata:\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Events(bytes.NewReader(b), 64, func(data []byte) error {
			if len(data) > 64 {
				t.Errorf("%d bytes", len(data))
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrTooLong) {
			t.Error(err)
		}
	})
}
