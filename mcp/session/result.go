package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/mcp"
)

// maxBlocks is how many content blocks a result may have: each costs its
// reader something beyond its text.
const maxBlocks = 1000

var errNoResult = errors.New("its answer is not the result of a tool")

// result reads a tools/call result and bounds it: blocks come as the server
// sent them where everything fits into mcp.MaxResult. Over it texts lose their
// middle, and what cannot be cut is replaced by a mark.
func result(raw json.RawMessage) (mcp.Result, error) {
	var r mcp.Result
	if !isObject(raw) || json.Unmarshal(raw, &r) != nil {
		return mcp.Result{}, errNoResult
	}
	if isNull(r.Structured) {
		r.Structured = nil
	}
	if !isObject(r.Meta) || len(r.Meta) > mcp.MaxSchema {
		r.Meta = nil
	}
	blocks := make([]block, len(r.Content))
	for i, raw := range r.Content {
		if !isObject(raw) {
			return mcp.Result{}, errNoResult
		}
		blocks[i].raw = raw
	}
	r.Content = fit(blocks)
	if n := len(r.Structured); n > mcp.MaxResult {
		r.Structured = nil
		r.Content = append(r.Content, mark("structured content of %d bytes left out", n))
	}
	if r.Content == nil {
		r.Content = []json.RawMessage{}
	}
	return r, nil
}

// A block is one block of content. What can be cut of it is its text, or the
// text of the resource in it.
type block struct {
	raw  json.RawMessage
	text string
	in   map[string]json.RawMessage // the block; nil until it is opened
	res  map[string]json.RawMessage // the resource that holds the text, or nil
}

// open looks for the text of a block.
func (b *block) open() (isText bool) {
	if json.Unmarshal(b.raw, &b.in) != nil {
		return false
	}
	var kind string
	_ = json.Unmarshal(b.in["type"], &kind)
	switch kind {
	case "text":
		return json.Unmarshal(b.in["text"], &b.text) == nil
	case "resource":
		return json.Unmarshal(b.in["resource"], &b.res) == nil && json.Unmarshal(b.res["text"], &b.text) == nil
	}
	return false
}

// withText is the block with another text.
func (b *block) withText(text string) json.RawMessage {
	quoted, _ := json.Marshal(text) // a string
	if b.res == nil {
		b.in["text"] = quoted
	} else {
		b.res["text"] = quoted
		b.in["resource"], _ = json.Marshal(b.res) // it was JSON before
	}
	raw, _ := json.Marshal(b.in)
	return raw
}

// strip leaves nothing of a block but its text and where it is from.
func (b *block) strip() {
	const longestURI = 2 << 10
	if uri := b.res["uri"]; b.res != nil {
		b.in = map[string]json.RawMessage{"type": b.in["type"]}
		b.res = map[string]json.RawMessage{}
		if len(uri) > 0 && len(uri) <= longestURI {
			b.res["uri"] = uri
		}
	} else {
		b.in = map[string]json.RawMessage{"type": b.in["type"]}
	}
	b.raw = b.withText(b.text)
}

// fit bounds blocks: texts together to mcp.MaxResult bytes, of which the first
// 40 % and the last 60 % stay, and everything else, also what stands around a text, to mcp.MaxResult again.
func fit(blocks []block) []json.RawMessage {
	total := 0
	for i := range blocks {
		total += len(blocks[i].raw)
	}
	if total <= mcp.MaxResult && len(blocks) <= maxBlocks {
		return raws(blocks)
	}
	var kept []json.RawMessage
	texts := 0
	other := mcp.MaxResult
	isText := make([]bool, len(blocks))
	for i := range blocks {
		if isText[i] = blocks[i].open(); isText[i] {
			texts += len(blocks[i].text)
		}
	}
	window := middle{total: texts, head: mcp.MaxResult * 2 / 5, tail: mcp.MaxResult - mcp.MaxResult*2/5}
	for i := range blocks {
		b := &blocks[i]
		if len(kept) >= maxBlocks {
			return append(kept, mark("%d more blocks left out", len(blocks)-i))
		}
		if isText[i] {
			if around := len(b.raw) - len(b.text); around > other {
				b.strip()
			} else {
				other -= around
			}
			kept = append(kept, window.take(b)...)
			continue
		}
		if len(b.raw) > other {
			kept = append(kept, mark("%s of %d bytes left out", kindOf(b.in), len(b.raw)))
			continue
		}
		other -= len(b.raw)
		kept = append(kept, b.raw)
	}
	return kept
}

func raws(blocks []block) []json.RawMessage {
	all := make([]json.RawMessage, len(blocks))
	for i, b := range blocks {
		all[i] = b.raw
	}
	return all
}

// kindOf is what a block says it is, if that is a word to repeat.
func kindOf(b map[string]json.RawMessage) string {
	var kind string
	switch _ = json.Unmarshal(b["type"], &kind); kind {
	case "image", "audio", "resource":
		return kind
	}
	return "a block"
}

// mark is a text block of ours in the place of something.
func mark(format string, args ...any) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"type": "text", "text": "[" + fmt.Sprintf(format, args...) + "]"})
	return raw
}

// A middle cuts the middle out of texts that follow each other.
type middle struct {
	total, head, tail int // bytes: of all texts, and of what stays at their ends
	at                int // where the next text begins
	marked            bool
}

// take is what stays of a text, nothing when it lies in the middle. The text
// in which the cut begins carries the mark.
func (m *middle) take(b *block) []json.RawMessage {
	begin, end := m.at, m.at+len(b.text)
	m.at = end
	if m.total <= m.head+m.tail || end <= m.head || begin >= m.total-m.tail {
		return []json.RawMessage{b.raw}
	}
	first := before(b.text, max(0, m.head-begin))
	last := after(b.text, max(0, min(len(b.text), m.total-m.tail-begin)))
	if m.marked && last == "" {
		return nil
	}
	text := first
	if !m.marked {
		m.marked = true
		text += fmt.Sprintf("\n[truncated %d bytes]\n", m.total-m.head-m.tail)
	}
	return []json.RawMessage{b.withText(text + last)}
}

// before is at most the first n bytes of s, whole characters.
func before(s string, n int) string {
	for n = min(n, len(s)); n > 0 && n < len(s) && !utf8.RuneStart(s[n]); {
		n--
	}
	return s[:n]
}

// after is s from its byte n on, whole characters.
func after(s string, n int) string {
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return s[n:]
}
