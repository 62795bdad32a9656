package orchestrator

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxAnswer is how many bytes of an agent's last message are told, from its end.
const maxAnswer = 16 << 10

// lastMessage is the message with which an agent's stream of JSON lines ends,
// in the shapes of the agents that are known. stream is whether what was printed
// is such a stream at all: other agents' output is their message.
func lastMessage(stdout []byte) (text string, stream bool) {
	for line := range bytes.SplitSeq(bytes.TrimSpace(stdout), []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			stream = line[0] == '{' && json.Valid(line)
			if said := messageOf(line); said != "" {
				text = said
			}
		}
	}
	if !stream {
		return "", false
	}
	return text, true
}

// messageOf is the message of one line of a stream, "" for none. Claude Code and Qwen
// Code end with {"type":"result"}; Codex, opencode and pi have an event for each
// message.
func messageOf(line []byte) string {
	var e struct {
		Type   string
		Result json.RawMessage
		Item   struct{ Type, Text string }
		Part   struct{ Type, Text string }
		// Of any agent's, by its own shape.
		Message json.RawMessage
	}
	if line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return ""
	}
	switch {
	case e.Type == "result":
		var text string
		if json.Unmarshal(e.Result, &text) != nil {
			return ""
		}
		return text
	case e.Type == "item.completed" && e.Item.Type == "agent_message":
		return e.Item.Text
	case e.Type == "text" && e.Part.Type == "text":
		return e.Part.Text
	case e.Type == "assistant" || e.Type == "message_end":
		return spoken(e.Message)
	}
	return ""
}

// spoken is the text of an assistant's message with its content in blocks.
func spoken(message []byte) string {
	var m struct {
		Role    string
		Content []struct{ Type, Text string }
	}
	if json.Unmarshal(message, &m) != nil || m.Role != "assistant" {
		return ""
	}
	var texts []string
	for _, c := range m.Content {
		if c.Type == "text" && c.Text != "" {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// clipTail is the end of a text, at most limit bytes of it, in UTF-8.
func clipTail(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[len(text)-limit:], "")
	}
	return text
}

// maxTools is how many calls of tools are listed for one round.
const maxTools = 1000

// calledTools is a list as the wire carries it: nil says that nothing was
// measured, an empty one that nothing was called.
func calledTools(measured bool, names []string) []string {
	if !measured {
		return nil
	}
	return append([]string{}, names...)
}
