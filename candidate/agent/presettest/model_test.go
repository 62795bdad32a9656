package presettest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A call is a tool call that the model makes: with an object, or with a script
// for a tool that takes free text.
type call struct {
	tool   string
	input  object
	script string
}

type object = map[string]any

// A model is a model server that speaks what the programs speak. It makes the
// calls of its plan, one a turn, and then says that it is done. It keeps no
// state: how far a conversation is, the conversation says.
type model struct {
	*httptest.Server
	key  string
	plan []call

	mu      sync.Mutex
	strange []string // what no program should have sent
	turns   int      // requests that offered tools
	results []string // of the tools, as the programs sent them
}

func newModel(t *testing.T, key string, plan []call) *model {
	return newModelAt(t, "127.0.0.1", key, plan)
}

// newModelAt is a model at an address of this machine's loopback.
func newModelAt(t *testing.T, host, key string, plan []call) *model {
	m := &model{key: key, plan: plan}
	mux := http.NewServeMux()
	for pattern, p := range map[string]protocol{
		"POST /v1/messages":    messages{},
		"POST /v1/responses":   responses{},
		"POST /v1beta/models/": generate{},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, p) })
	}
	mux.HandleFunc("GET /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no web socket here", http.StatusUpgradeRequired)
	})
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	m.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: mux}}
	m.Start()
	t.Cleanup(m.Close)
	return m
}

// A turn is what a request says, in any protocol.
type turn struct {
	tools   []string
	results []string // of the tool calls so far
	stream  bool
	text    string // what to say when there is nothing to call
}

// id makes identifiers that differ from turn to turn.
func (t turn) id(kind string) string { return fmt.Sprintf("%s_%d", kind, len(t.results)) }

// A protocol reads requests and writes answers: a call, or the turn's text when
// it is nil.
type protocol interface {
	read(r *http.Request, body []byte) (turn, error)
	answer(t turn, c *call) []event
	whole(t turn, c *call) object // the answer to a request that is not streamed
}

// An event is one server-sent event; some protocols name them.
type event struct {
	name string
	data object
}

func (m *model) serve(w http.ResponseWriter, r *http.Request, p protocol) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the program went away
	}
	refuse := func(code int, format string, args ...any) {
		said := fmt.Sprintf(format, args...)
		m.mu.Lock()
		m.strange = append(m.strange, r.Method+" "+r.URL.Path+": "+said)
		m.mu.Unlock()
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error"}}`, said), code)
	}
	given := []string{r.Header.Get("x-api-key"), strings.TrimPrefix(r.Header.Get("authorization"), "Bearer "), r.Header.Get("x-goog-api-key"), r.Header.Get("api-key")}
	if !slices.Contains(given, m.key) {
		refuse(http.StatusUnauthorized, "the request does not carry the operator's key")
		return
	}
	t, err := p.read(r, body)
	if err != nil {
		refuse(http.StatusBadRequest, "%v", err)
		return
	}
	t.text = cmp.Or(t.text, "I am done.")
	c := m.next(t)
	if c != nil && !slices.Contains(t.tools, c.tool) {
		refuse(http.StatusBadRequest, "no tool %q among %q", c.tool, t.tools)
		return
	}
	if !t.stream {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(p.whole(t, c))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range p.answer(t, c) {
		if e.name != "" {
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		fmt.Fprintf(w, "data: %s\n\n", must(e.data))
	}
}

// next is the call that is due, nil when there is none. A request without
// tools is about something else, such as a title.
func (m *model) next(t turn) *call {
	if len(t.tools) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns++
	if len(t.results) > len(m.results) {
		m.results = t.results
	}
	if len(t.results) >= len(m.plan) {
		return nil
	}
	return m.plan[len(t.results)].at(t.results)
}

var workingDir = regexp.MustCompile(`\bPWD=([^\s"\\]+)`)

// at puts the directory that an earlier call printed in the place of {dir}:
// some tools take absolute paths only.
func (c call) at(results []string) *call {
	input := object{}
	for name, v := range c.input {
		if text, ok := v.(string); ok && strings.Contains(text, "{dir}") {
			for _, r := range results {
				if found := workingDir.FindStringSubmatch(r); found != nil {
					v = strings.ReplaceAll(text, "{dir}", found[1])
				}
			}
		}
		input[name] = v
	}
	c.input = input
	return &c
}

func (m *model) said() (turns int, results, strange []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.turns, slices.Clone(m.results), slices.Clone(m.strange)
}

func must(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// messages is Anthropic's protocol.
type messages struct{}

func (messages) read(r *http.Request, body []byte) (t turn, err error) {
	var req struct {
		Stream   bool
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	err = json.Unmarshal(body, &req)
	t.stream = req.Stream
	for _, tool := range req.Tools {
		t.tools = append(t.tools, tool.Name)
	}
	for _, msg := range req.Messages {
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		if json.Unmarshal(msg.Content, &blocks) != nil {
			continue // plain text
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				t.results = append(t.results, string(b.Content))
			}
		}
	}
	return t, err
}

func (messages) whole(t turn, c *call) object {
	block, stop := object{"type": "text", "text": t.text}, "end_turn"
	if c != nil {
		block, stop = object{"type": "tool_use", "id": t.id("toolu"), "name": c.tool, "input": c.input}, "tool_use"
	}
	return object{"id": t.id("msg"), "type": "message", "role": "assistant", "model": "fake", "content": []any{block},
		"stop_reason": stop, "stop_sequence": nil, "usage": object{"input_tokens": 10, "output_tokens": 5}}
}

func (p messages) answer(t turn, c *call) []event {
	message := p.whole(t, c)
	stop := message["stop_reason"]
	start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": t.text}
	if c != nil {
		start = object{"type": "tool_use", "id": t.id("toolu"), "name": c.tool, "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": must(c.input)}
	}
	message["content"], message["stop_reason"] = []any{}, nil
	return named(
		object{"type": "message_start", "message": message},
		object{"type": "content_block_start", "index": 0, "content_block": start},
		object{"type": "content_block_delta", "index": 0, "delta": delta},
		object{"type": "content_block_stop", "index": 0},
		object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 5}},
		object{"type": "message_stop"},
	)
}

// named gives each event the name that its type says.
func named(data ...object) []event {
	var events []event
	for _, d := range data {
		events = append(events, event{d["type"].(string), d})
	}
	return events
}

// responses is OpenAI's protocol. Programs that would rather have a web socket
// are told that there is none.
type responses struct{}

// A toolbox is a tool, or a namespace of tools.
type toolbox struct {
	Name  string
	Tools []toolbox
}

func (b toolbox) names() []string {
	names := []string{b.Name}
	for _, inner := range b.Tools {
		names = append(names, inner.names()...)
	}
	return names
}

func (responses) read(r *http.Request, body []byte) (t turn, err error) {
	var req struct {
		Stream bool
		Tools  []toolbox
		Input  []struct {
			Type   string
			Output json.RawMessage
			Tools  []toolbox
		}
	}
	err = json.Unmarshal(body, &req)
	t.stream = req.Stream
	for _, item := range req.Input {
		req.Tools = append(req.Tools, item.Tools...)
		if strings.HasSuffix(item.Type, "_call_output") {
			t.results = append(t.results, string(item.Output))
		}
	}
	t.tools = toolbox{Tools: req.Tools}.names()[1:]
	return t, err
}

func (responses) whole(t turn, c *call) object {
	item := object{"type": "message", "id": t.id("msg"), "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": t.text, "annotations": []any{}}}}
	switch {
	case c != nil && c.script != "":
		item = object{"type": "custom_tool_call", "id": t.id("ctc"), "call_id": t.id("call"), "name": c.tool, "input": c.script, "status": "completed"}
	case c != nil:
		item = object{"type": "function_call", "id": t.id("fc"), "call_id": t.id("call"), "name": c.tool, "arguments": must(c.input), "status": "completed"}
	}
	return object{"id": t.id("resp"), "object": "response", "model": "fake", "status": "completed", "output": []any{item},
		"usage": object{"input_tokens": 10, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 5,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 15}}
}

func (p responses) answer(t turn, c *call) []event {
	done := p.whole(t, c)
	item := done["output"].([]any)[0]
	return named(
		object{"type": "response.created", "response": object{"id": done["id"], "object": "response", "model": "fake", "status": "in_progress", "output": []any{}}},
		object{"type": "response.output_item.added", "output_index": 0, "item": item},
		object{"type": "response.output_item.done", "output_index": 0, "item": item},
		object{"type": "response.completed", "response": done},
	)
}

// generate is Gemini's protocol: the method is the end of the path.
type generate struct{}

func (generate) read(r *http.Request, body []byte) (t turn, err error) {
	var req struct {
		GenerationConfig struct{ ResponseMimeType string }
		Tools            []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct{ FunctionResponse json.RawMessage }
		}
	}
	err = json.Unmarshal(body, &req)
	t.stream = strings.HasSuffix(r.URL.Path, ":streamGenerateContent")
	if req.GenerationConfig.ResponseMimeType == "application/json" {
		t.text = `{"complexity_reasoning": "One word.", "complexity_score": 1}` // it asks which model to take
	}
	for _, tool := range req.Tools {
		for _, f := range tool.FunctionDeclarations {
			t.tools = append(t.tools, f.Name)
		}
	}
	for _, content := range req.Contents {
		for _, part := range content.Parts {
			if part.FunctionResponse != nil {
				t.results = append(t.results, string(part.FunctionResponse))
			}
		}
	}
	return t, err
}

func (generate) whole(t turn, c *call) object {
	part := object{"text": t.text}
	if c != nil {
		part = object{"functionCall": object{"name": c.tool, "args": c.input}}
	}
	return object{
		"candidates":    []any{object{"index": 0, "content": object{"role": "model", "parts": []any{part}}, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "fake",
	}
}

func (p generate) answer(t turn, c *call) []event { return []event{{"", p.whole(t, c)}} }
