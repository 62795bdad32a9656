package orchestrator

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLastMessage(t *testing.T) {
	for name, c := range map[string]struct {
		stdout, want string
		stream       bool
	}{
		"plain text":    {"I looked.\nI am done.\n", "", false},
		"nothing":       {"", "", false},
		"text with a {": {"{not json}\n", "", false},
		"claude":        {`{"type":"system"}` + "\n" + `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"working"},{"type":"tool_use"}]}}` + "\n" + `{"type":"result","subtype":"success","result":"All done.\nReally."}` + "\n", "All done.\nReally.", true},
		"claude, cut":   {`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}` + "\n", "a\nb", true},
		"a user's":      {`{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"the prompt"}]}}`, "", true},
		"codex":         {"noise\n" + `{"type":"item.completed","item":{"type":"agent_message","text":"one"}}` + "\n" + `{"type":"item.completed","item":{"type":"agent_message","text":"two"}}` + "\n" + `{"type":"turn.completed","usage":{}}`, "two", true},
		"opencode":      {`{"type":"text","part":{"type":"text","text":"fixed"}}` + "\n" + `{"type":"step_finish","part":{"type":"step-finish"}}`, "fixed", true},
		"pi":            {`{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"ok"}]}}` + "\r\n", "ok", true},
		"an unknown":    {`{"event":"x"}`, "", true},
		"no text":       {`{"type":"result","result":{"a":1}}`, "", true},
		"ends in text":  {`{"type":"result","result":"x"}` + "\nbye\n", "", false},
	} {
		if got, stream := lastMessage([]byte(c.stdout)); got != c.want || stream != c.stream {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, stream, c.want, c.stream)
		}
	}
}

func FuzzLastMessage(f *testing.F) {
	f.Add([]byte(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"\ud800"}]}}`))
	f.Add([]byte("a\n{\"type\":\"result\",\"result\":\"x\"}\n\n"))
	f.Fuzz(func(t *testing.T, stdout []byte) {
		text, stream := lastMessage(stdout)
		if text != "" && !stream {
			t.Fatalf("%q of what is no stream", text)
		}
		if got := clipTail(text, 8); len(got) > 8 || !utf8.ValidString(got) {
			t.Fatalf("%q", got)
		}
	})
}

func TestClipTail(t *testing.T) {
	for text, want := range map[string]string{"": "", "short": "short", "abcdefghij": "cdefghij", "xääää": "ääää", "xxääääb": "äääb", "\xff": "\uFFFD"} {
		if got := clipTail(text, 8); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if calledTools(false, []string{"a"}) != nil || calledTools(true, nil) == nil || strings.Join(calledTools(true, []string{"a", "b"}), " ") != "a b" {
		t.Error("what was not measured is not told from what was not called")
	}
}
