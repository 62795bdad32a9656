package presettest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A call is a tool call that the model makes.
type call struct {
	tool  string
	input object
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
	m := &model{key: key, plan: plan}
	mux := http.NewServeMux()
	for pattern, p := range map[string]protocol{
		"POST /v1/messages":         messages{},
		"POST /v1/responses":        responses{},
		"POST /v1/chat/completions": completions{},
		"POST /v1beta/models/":      generate{},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, p) })
	}
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

// A turn is what a request says, in any protocol.
type turn struct {
	tools   []string
	results []string // of the tool calls so far
	stream  bool
}

// A protocol reads requests and writes answers: a call, or text when it is nil.
type protocol interface {
	read(r *http.Request, body []byte) (turn, error)
	answer(t turn, c *call) []event
	whole(c *call) any // the answer to a request that is not streamed
}

// An event is one server-sent event; some protocols name them. Without data it
// says that no more follow.
type event struct {
	name string
	data any
}

const farewell = "I am done."

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
	c := m.next(t)
	if c != nil && !slices.Contains(t.tools, c.tool) {
		refuse(http.StatusBadRequest, "no tool %q among %q", c.tool, t.tools)
		return
	}
	if !t.stream {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(p.whole(c))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range p.answer(t, c) {
		data := "[DONE]"
		if e.data != nil {
			data = must(e.data)
		}
		if e.name != "" {
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		fmt.Fprintf(w, "data: %s\n\n", data)
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
	return &call{c.tool, input}
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

func (messages) block(c *call) (block object, stop string) {
	if c == nil {
		return object{"type": "text", "text": farewell}, "end_turn"
	}
	return object{"type": "tool_use", "id": "toolu_" + c.tool, "name": c.tool, "input": c.input}, "tool_use"
}

func (p messages) whole(c *call) any {
	block, stop := p.block(c)
	return object{"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": []any{block},
		"stop_reason": stop, "stop_sequence": nil, "usage": object{"input_tokens": 10, "output_tokens": 5}}
}

func (p messages) answer(t turn, c *call) []event {
	block, stop := p.block(c)
	start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": farewell}
	if c != nil {
		block["id"] = fmt.Sprintf("toolu_%d", len(t.results))
		start = object{"type": "tool_use", "id": block["id"], "name": c.tool, "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": must(c.input)}
	}
	message := p.whole(c).(object)
	message["content"], message["stop_reason"] = []any{}, nil
	return []event{
		{"message_start", object{"type": "message_start", "message": message}},
		{"content_block_start", object{"type": "content_block_start", "index": 0, "content_block": start}},
		{"content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta}},
		{"content_block_stop", object{"type": "content_block_stop", "index": 0}},
		{"message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 5}}},
		{"message_stop", object{"type": "message_stop"}},
	}
}

// responses is OpenAI's newer protocol.
type responses struct{}

func (responses) read(r *http.Request, body []byte) (t turn, err error) {
	var req struct {
		Stream bool
		Tools  []struct{ Type, Name string }
		Input  []struct {
			Type   string
			Output json.RawMessage
		}
	}
	err = json.Unmarshal(body, &req)
	t.stream = req.Stream
	for _, tool := range req.Tools {
		t.tools = append(t.tools, tool.Name)
	}
	for _, item := range req.Input {
		if item.Type == "function_call_output" || item.Type == "custom_tool_call_output" {
			t.results = append(t.results, string(item.Output))
		}
	}
	return t, err
}

func (responses) item(id int, c *call) object {
	if c == nil {
		return object{"type": "message", "id": fmt.Sprintf("msg_%d", id), "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": farewell, "annotations": []any{}}}}
	}
	return object{"type": "function_call", "id": fmt.Sprintf("fc_%d", id), "call_id": fmt.Sprintf("call_%d", id),
		"name": c.tool, "arguments": must(c.input), "status": "completed"}
}

func (p responses) whole(c *call) any {
	return object{"id": "resp_1", "object": "response", "model": "fake", "status": "completed", "output": []any{p.item(0, c)},
		"usage": object{"input_tokens": 10, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 5,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 15}}
}

func (p responses) answer(t turn, c *call) []event {
	done := p.whole(c).(object)
	item := p.item(len(t.results), c)
	done["output"] = []any{item}
	events := []object{
		{"type": "response.created", "response": object{"id": "resp_1", "object": "response", "model": "fake", "status": "in_progress", "output": []any{}}},
		{"type": "response.output_item.added", "output_index": 0, "item": item},
	}
	if c == nil {
		events = append(events,
			object{"type": "response.content_part.added", "item_id": item["id"], "output_index": 0, "content_index": 0, "part": object{"type": "output_text", "text": "", "annotations": []any{}}},
			object{"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0, "content_index": 0, "delta": farewell})
	} else {
		events = append(events, object{"type": "response.function_call_arguments.done", "item_id": item["id"], "output_index": 0, "arguments": item["arguments"]})
	}
	events = append(events,
		object{"type": "response.output_item.done", "output_index": 0, "item": item},
		object{"type": "response.completed", "response": done})
	var named []event
	for i, e := range events {
		e["sequence_number"] = i
		named = append(named, event{e["type"].(string), e})
	}
	return named
}

// completions is OpenAI's older protocol, which many servers speak.
type completions struct{}

func (completions) read(r *http.Request, body []byte) (t turn, err error) {
	var req struct {
		Stream bool
		Tools  []struct {
			Function struct{ Name string }
		}
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	err = json.Unmarshal(body, &req)
	t.stream = req.Stream
	for _, tool := range req.Tools {
		t.tools = append(t.tools, tool.Function.Name)
	}
	for _, msg := range req.Messages {
		if msg.Role == "tool" {
			t.results = append(t.results, string(msg.Content))
		}
	}
	return t, err
}

func (completions) message(id int, c *call) (message object, reason string) {
	if c == nil {
		return object{"role": "assistant", "content": farewell}, "stop"
	}
	return object{"role": "assistant", "content": nil, "tool_calls": []any{object{
		"index": 0, "id": fmt.Sprintf("call_%d", id), "type": "function",
		"function": object{"name": c.tool, "arguments": must(c.input)},
	}}}, "tool_calls"
}

var tokens = object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

func (p completions) whole(c *call) any {
	message, reason := p.message(0, c)
	return object{"id": "chat_1", "object": "chat.completion", "model": "fake", "usage": tokens,
		"choices": []any{object{"index": 0, "message": message, "finish_reason": reason}}}
}

func (p completions) answer(t turn, c *call) []event {
	message, reason := p.message(len(t.results), c)
	chunk := func(delta object, reason any) event {
		return event{"", object{"id": "chat_1", "object": "chat.completion.chunk", "model": "fake",
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": reason}}}}
	}
	usage := event{"", object{"id": "chat_1", "object": "chat.completion.chunk", "model": "fake", "choices": []any{}, "usage": tokens}}
	return []event{chunk(message, nil), chunk(object{}, reason), usage, {"", nil}}
}

// generate is Gemini's protocol: the method is the end of the path.
type generate struct{}

func (generate) read(r *http.Request, body []byte) (t turn, err error) {
	var req struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct{ FunctionResponse json.RawMessage }
		}
	}
	err = json.Unmarshal(body, &req)
	t.stream = strings.HasSuffix(r.URL.Path, ":streamGenerateContent")
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

func (generate) whole(c *call) any {
	part := object{"text": farewell}
	if c != nil {
		part = object{"functionCall": object{"name": c.tool, "args": c.input}}
	}
	return object{
		"candidates":    []any{object{"index": 0, "content": object{"role": "model", "parts": []any{part}}, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "fake",
	}
}

func (p generate) answer(t turn, c *call) []event { return []event{{"", p.whole(c)}} }
