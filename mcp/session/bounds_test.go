package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/mcp"
)

func rawOf(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func TestParseTool(t *testing.T) {
	yes := true
	long := strings.Repeat("ü", mcp.MaxDescription+1)
	bigSchema := `{"type":"object","title":"` + strings.Repeat("x", mcp.MaxSchema) + `"}`
	for name, c := range map[string]struct {
		raw  string
		want mcp.Tool
	}{
		"plain": {`{"name":"a","title":"A","description":"d","inputSchema":{ "type" : "object" },"outputSchema":{"type":"object","x":1},"icons":[]}`,
			mcp.Tool{Name: "a", Title: "A", Description: "d", InputSchema: anyObject, OutputSchema: json.RawMessage(`{"type":"object","x":1}`)}},
		"no schema":        {`{"name":"a"}`, mcp.Tool{Name: "a", InputSchema: anyObject}},
		"null schema":      {`{"name":"a","inputSchema":null,"outputSchema":null,"annotations":null}`, mcp.Tool{Name: "a", InputSchema: anyObject}},
		"annotations":      {`{"name":"a","annotations":{"readOnlyHint":true,"title":"T"}}`, mcp.Tool{Name: "a", InputSchema: anyObject, Annotations: &mcp.Annotations{Title: "T", ReadOnly: &yes}}},
		"odd annotations":  {`{"name":"a","annotations":{"readOnlyHint":"yes"}}`, mcp.Tool{Name: "a", InputSchema: anyObject}},
		"long description": {`{"name":"a","description":"` + long + `"}`, mcp.Tool{Name: "a", Description: strings.Repeat("ü", mcp.MaxDescription) + "…", InputSchema: anyObject}},
		"big schema": {`{"name":"a","description":"d","inputSchema":` + bigSchema + `}`,
			mcp.Tool{Name: "a", Description: fmt.Sprintf("d [its input schema of %d bytes is left out: over the limit of 16384]", len(bigSchema)), InputSchema: anyObject, Replaced: true}},
		"big output schema": {`{"name":"a","outputSchema":` + bigSchema + `}`, mcp.Tool{Name: "a", InputSchema: anyObject}},
		"odd output schema": {`{"name":"a","outputSchema":[]}`, mcp.Tool{Name: "a", InputSchema: anyObject}},
	} {
		if got, ok := parseTool(json.RawMessage(c.raw)); !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	for _, raw := range []string{
		`null`, `1`, `"a"`, `[]`, `{}`, `{"name":""}`, `{"name":1}`, `{"name":"a\u001b[2J"}`, `{"name":"a\n"}`, "{\"name\":\"a\xff\"}",
		`{"name":"` + strings.Repeat("a", maxToolName+1) + `"}`, `{"name":"a","inputSchema":[]}`, `{"name":"a","inputSchema":"object"}`, `{"name":"a","description":{}}`,
	} {
		if got, ok := parseTool(json.RawMessage(raw)); ok {
			t.Errorf("%s is a tool: %+v", raw, got)
		}
	}
}

func TestSurfaceIsBounded(t *testing.T) {
	tool := func(name string, size int) json.RawMessage {
		return rawOf(map[string]string{"name": name, "description": strings.Repeat("d", size)})
	}
	var s surface
	entries := []json.RawMessage{tool("z", 10), json.RawMessage("7")}
	for i := range 20 {
		entries = append(entries, tool(fmt.Sprintf("t%02d", i), mcp.MaxDescription))
	}
	if more := s.page(append(entries, tool("z", 20))); !more {
		t.Error("no further page is wanted")
	}
	tools, dropped := s.done()
	names := func() (all []string) {
		for _, t := range tools {
			all = append(all, t.Name)
		}
		return all
	}()
	if !slices.IsSorted(names) || len(tools) != 17 || names[16] != "z" || tools[16].Description != strings.Repeat("d", 10) {
		t.Errorf("kept %q", names)
	}
	if want := (mcp.Dropped{Duplicate: 1, Invalid: 1, OverBudget: []string{"t16", "t17", "t18", "t19"}}); !reflect.DeepEqual(dropped, want) {
		t.Errorf("dropped %+v, want %+v", dropped, want)
	}
}

// Whatever is listed, what is kept is within the limits, and everything is
// accounted for.
func TestSurfaceLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s surface
		total := 0
		for range rapid.IntRange(1, 3).Draw(t, "pages") {
			n := rapid.IntRange(0, 200).Draw(t, "tools")
			var page []json.RawMessage
			for range n {
				page = append(page, rawOf(map[string]any{
					"name":        fmt.Sprint("t", rapid.IntRange(0, 400).Draw(t, "name")),
					"description": strings.Repeat("d", rapid.SampledFrom([]int{0, 5, 500, 3000}).Draw(t, "size")),
				}))
			}
			total += n
			s.page(page)
		}
		tools, d := s.done()
		size := 0
		for i, tool := range tools {
			size += len(tool.Name) + len(tool.Description) + len(tool.InputSchema)
			if i > 0 && tools[i-1].Name >= tool.Name {
				t.Fatalf("%q before %q", tools[i-1].Name, tool.Name)
			}
		}
		if len(tools) > mcp.MaxTools || size > mcp.MaxAdvertised || len(tools)+d.Duplicate+d.Invalid+d.OverCount+len(d.OverBudget) != total {
			t.Fatalf("%d tools of %d, %d bytes, %+v", len(tools), total, size, d)
		}
	})
}

func TestResultIsKept(t *testing.T) {
	for raw, want := range map[string]mcp.Result{
		`{"content":[{"type":"text","text":"a","annotations":{"priority":1}},{"type":"new","x":[1]}],"isError":true,"_meta":{"k":1}}`: {
			Content: []json.RawMessage{json.RawMessage(`{"type":"text","text":"a","annotations":{"priority":1}}`), json.RawMessage(`{"type":"new","x":[1]}`)},
			IsError: true, Meta: json.RawMessage(`{"k":1}`)},
		`{"structuredContent":{"a": 12345678901234567890}}`:   {Content: []json.RawMessage{}, Structured: json.RawMessage(`{"a": 12345678901234567890}`)},
		`{"content":[],"structuredContent":null,"_meta":"x"}`: {Content: []json.RawMessage{}},
	} {
		if got, err := result(json.RawMessage(raw)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	for _, raw := range []string{``, `null`, `[]`, `"x"`, `{"content":"x"}`, `{"content":[1]}`, `{"content":[null]}`, `{"isError":"no"}`} {
		if got, err := result(json.RawMessage(raw)); err == nil {
			t.Errorf("%s: %+v", raw, got)
		}
	}
}

func TestResultIsCut(t *testing.T) {
	textBlock := func(s string) any { return map[string]any{"type": "text", "text": s, "annotations": 1} }
	image := func(n int) any {
		return map[string]any{"type": "image", "data": strings.Repeat("A", n), "mimeType": "image/png"}
	}
	resource := func(s string) any {
		return map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///x", "text": s}}
	}
	a, b := strings.Repeat("a", 60_000), strings.Repeat("b", 80_000)
	for name, c := range map[string]struct {
		content []any
		want    []any
	}{
		"one text":            {[]any{textBlock(a + b)}, []any{textBlock(a[:40_000] + "\n[truncated 40000 bytes]\n" + b[:60_000])}},
		"two texts":           {[]any{textBlock(a), textBlock(b)}, []any{textBlock(a[:40_000] + "\n[truncated 40000 bytes]\n"), textBlock(b[:60_000])}},
		"the middle one goes": {[]any{textBlock(a), textBlock("middle"), resource(b)}, []any{textBlock(a[:40_000] + "\n[truncated 40006 bytes]\n"), resource(b[:60_000])}},
		"a large image":       {[]any{textBlock("t"), image(200_000), textBlock("u")}, []any{textBlock("t"), json.RawMessage(mark("image of %d bytes left out", len(rawOf(image(200_000))))), textBlock("u")}},
		"much around a text": {[]any{map[string]any{"type": "text", "text": "t", "_meta": a + b}, map[string]any{"type": "resource", "resource": map[string]any{"uri": "u", "text": "t", "_meta": a + b}}},
			[]any{map[string]any{"type": "text", "text": "t"}, map[string]any{"type": "resource", "resource": map[string]any{"uri": "u", "text": "t"}}}},
		"images together": {[]any{image(90_000), image(90_000)}, []any{image(90_000), json.RawMessage(mark("image of %d bytes left out", len(rawOf(image(90_000)))))}},
	} {
		got, err := result(rawOf(map[string]any{"content": c.content}))
		if err != nil || len(got.Content) != len(c.want) {
			t.Fatalf("%s: %d blocks, %v", name, len(got.Content), err)
		}
		for i := range c.want {
			if !bytes.Equal(got.Content[i], rawOf(c.want[i])) {
				t.Errorf("%s: block %d is %.60s… of %d bytes", name, i, got.Content[i], len(got.Content[i]))
			}
		}
	}
	got, err := result(rawOf(map[string]any{"content": []any{}, "structuredContent": map[string]string{"x": a + b}}))
	if err != nil || got.Structured != nil || len(got.Content) != 1 || !strings.Contains(string(got.Content[0]), "[structured content of 140008 bytes left out]") {
		t.Errorf("structured content: %d bytes, %s, %v", len(got.Structured), got.Content, err)
	}
	got, err = result(rawOf(map[string]any{"content": slices.Repeat([]any{textBlock("")}, 5000)}))
	if err != nil || len(got.Content) != maxBlocks+1 || !strings.Contains(string(got.Content[maxBlocks]), "[4000 more blocks left out]") {
		t.Errorf("many blocks: %d, %v", len(got.Content), err)
	}
}

// In FuzzResult every @ stands for so many bytes more.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"€@"},{"type":"resource","resource":{"text":"@","uri":"@"}},{"type":"image","data":"@"}]}`), uint16(9000))
	f.Add([]byte(`{"content":[{"type":1,"text":"@@"},{"type":"text","text":"a","annotations":"@"}],"structuredContent":["@"],"_meta":{"a":"@"}}`), uint16(50_000))
	f.Fuzz(func(t *testing.T, raw []byte, n uint16) {
		raw = bytes.ReplaceAll(raw, []byte("@"), bytes.Repeat([]byte("ü"), int(n)))
		if len(raw) > 4<<20 {
			return
		}
		r, err := result(raw)
		if err != nil {
			return
		}
		size := 0
		for _, b := range r.Content {
			if !json.Valid(b) || !isObject(b) {
				t.Fatalf("not a block: %.100s", b)
			}
			size += len(b)
		}
		// Texts can take their room once, six times with escapes, and the
		// rest once more; marks are short.
		if size > 7*mcp.MaxResult+200*len(r.Content) || len(r.Structured) > mcp.MaxResult || len(r.Meta) > mcp.MaxSchema {
			t.Fatalf("%d bytes in blocks, %d in structured content of %d are left", size, len(r.Structured), len(raw))
		}
	})
}

func FuzzTool(f *testing.F) {
	f.Add([]byte(`{"name":"a","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`))
	f.Add([]byte(`{"name":"a","inputSchema":{"x":"@"},"outputSchema":{"x":"@"},"description":"@"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = bytes.ReplaceAll(raw, []byte("@"), bytes.Repeat([]byte("ü"), 10_000))
		tool, ok := parseTool(raw)
		if !ok {
			return
		}
		if !json.Valid(tool.InputSchema) || !isObject(tool.InputSchema) || len(tool.InputSchema) > mcp.MaxSchema || len(tool.OutputSchema) > mcp.MaxSchema ||
			utf8.RuneCountInString(tool.Description) > mcp.MaxDescription+100 || tool.Name == "" {
			t.Fatalf("%+v", tool)
		}
	})
}

func TestLines(t *testing.T) {
	for name, c := range map[string]struct {
		in      string
		partial bool
		want    []string
	}{
		"plain":                {"a\nbc\r\n\nd\n", false, []string{"a", "bc", "", "d"}},
		"no newline":           {"a\nb", false, []string{"a"}},
		"no newline, wanted":   {"a\nb", true, []string{"a", "b"}},
		"at the limit":         {"12345678\n12345678\r\n", false, []string{"12345678", "12345678 long"}},
		"over the limit":       {"123456789{\"id\":1}\nb\n", false, []string{"12345678 long", "b"}},
		"over, and no end":     {"a\n1234567890", false, []string{"a"}},
		"far over the limit":   {strings.Repeat("x", 100_000) + "\nb\n", false, []string{"xxxxxxxx long", "b"}},
		"nothing":              {"", true, nil},
		"over, and end wanted": {"1234567890", true, []string{"12345678 long"}},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			lines := newLineReader(r, 8)
			var got []string
			for {
				line, long, err := lines.next(c.partial)
				if err != nil {
					break
				}
				s := string(line)
				if long {
					s += " long"
				}
				got = append(got, s)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}

func TestTailKeepsTheLast(t *testing.T) {
	var in strings.Builder
	for i := range 100 {
		fmt.Fprintf(&in, "line %d\n\n", i)
	}
	in.WriteString("\x1b[31m" + strings.Repeat("z", 1000))
	said := drain(strings.NewReader(in.String())).said(redact.New(nil))
	if !strings.HasPrefix(said, `line 96 | line 97 | line 98 | line 99 | \u{1b}[31mzzz`) || len(said) > 300 {
		t.Errorf("kept %q", said)
	}
}

func TestEvents(t *testing.T) {
	ours := `data: {"jsonrpc":"2.0","id":5,"result":{}}` + "\n\n"
	for name, c := range map[string]struct{ in, want string }{
		"answer":               {ours + ours + "data: x\n\n", ours},
		"answer as text":       {`data: {"id":"5"}` + "\n\n", `data: {"id":"5"}` + "\n\n"},
		"others are dropped":   {"data: {\"id\":4}\n\ndata: no json\n\ndata: {\"method\":\"notifications/message\"}\n\n: comment\n\n" + ours, ours},
		"progress":             {"data: {\"method\":\"notifications/progress\"}\r\n\r\n", "data: {\"method\":\"notifications/progress\"}\n\n"},
		"what resumes":         {"id: 7\nretry: 5\n\n", "id: 7\nretry: 5\n\n"},
		"data in parts":        {"data: {\"id\":\ndata: 5}\n\n", "data: {\"id\":\ndata: 5}\n\n"},
		"requests are bounded": {strings.Repeat("data: {\"id\":1,\"method\":\"ping\"}\n\n", 1000), strings.Repeat("data: {\"id\":1,\"method\":\"ping\"}\n\n", maxAsked)},
		"unfinished":           {`data: {"id":5}`, "data: {\"id\":5}\n\n"},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := io.ReadAll(newEvents(io.NopCloser(r), &exchange{id: 5}))
			if err != nil || string(got) != c.want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	x := &exchange{id: 5}
	big := strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9)
	if _, err := io.ReadAll(newEvents(io.NopCloser(strings.NewReader(big)), x)); err == nil || !x.oversize.Load() {
		t.Errorf("an event over the limit: %v", err)
	}
}

// Whatever comes in, at most one answer goes out, it is ours and the last, and
// reading ends without an error.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {\"id\":5}\n\ndata: {\"id\":5}\n\n"))
	f.Add([]byte(":\nid: 1\n\ndata: {\"method\":\"notifications/progress\"}\n\ndata:{\"id\":6}\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := io.ReadAll(newEvents(io.NopCloser(bytes.NewReader(in)), &exchange{id: 5}))
		if err != nil {
			t.Fatal(err)
		}
		answers := 0
		for _, part := range strings.Split(string(got), "\n\n") {
			var data []string
			for _, line := range strings.Split(part, "\n") {
				if d, ok := strings.CutPrefix(line, "data:"); ok {
					data = append(data, strings.TrimPrefix(d, " "))
				}
			}
			var m struct {
				ID     json.RawMessage
				Method *string
			}
			if json.Unmarshal([]byte(strings.Join(data, "\n")), &m) == nil && m.Method == nil && len(data) > 0 {
				answers++
			}
		}
		if answers > 1 {
			t.Fatalf("%d answers in %q", answers, got)
		}
	})
}

func TestBackoff(t *testing.T) {
	var got []int
	for n := range 10 {
		got = append(got, int(backoff(n).Seconds()))
	}
	if want := []int{0, 0, 1, 2, 4, 8, 16, 30, 30, 30}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
