package orchestrator

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"

	"github.com/bestof-dev/bestof/candidate"
)

// Usage is what an agent said that it used. Who reports nothing has the zero
// value. It is the agent's word: it decides about budgets, never about
// candidates.
type Usage struct {
	Input    int64 // tokens read, cached ones included
	Output   int64 // tokens written
	MicroUSD int64 // millionths of a dollar
	Reported bool
}

// Tokens is both directions together.
func (u Usage) Tokens() int64 { return u.Input + u.Output }

// Add is the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{bounded(u.Input + v.Input), bounded(u.Output + v.Output), bounded(u.MicroUSD + v.MicroUSD), u.Reported || v.Reported}
}

// maxUsage bounds what an agent may claim, so that sums do not overflow.
const maxUsage = 1 << 50

func bounded(n int64) int64 { return max(0, min(n, maxUsage)) }

// Keys of record.Candidate.Usage.
const (
	usageInput  = "input_tokens"
	usageOutput = "output_tokens"
	usageCost   = "cost_usd"
)

// UsageOf reads what a record keeps of a candidate's usage.
func UsageOf(kept map[string]any) Usage {
	number := func(key string) float64 {
		switch v := kept[key].(type) {
		case float64:
			return v
		case int64:
			return float64(v)
		}
		return 0
	}
	return Usage{whole(number(usageInput)), whole(number(usageOutput)), whole(number(usageCost) * 1e6), len(kept) > 0}
}

// record is the usage as a record keeps it.
func (u Usage) record() map[string]any {
	if !u.Reported {
		return map[string]any{}
	}
	return map[string]any{usageInput: u.Input, usageOutput: u.Output, usageCost: float64(u.MicroUSD) / 1e6}
}

func whole(f float64) int64 {
	if math.IsNaN(f) {
		return 0
	}
	return bounded(int64(math.Round(max(0, min(f, maxUsage)))))
}

// usageLine reads one line of an agent's stream. Claude Code and Qwen Code end
// with a total; Codex, opencode and pi report each turn, step or message. Any
// other agent can print {"type":"bestof.usage","input_tokens":N,
// "output_tokens":N,"cost_usd":X} for what it used since its last such line.
func usageLine(line []byte) (u Usage, total bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return u, false
	}
	type tokens struct {
		Input       float64 `json:"input_tokens"`
		Output      float64 `json:"output_tokens"`
		CacheWrites float64 `json:"cache_creation_input_tokens"`
		CacheReads  float64 `json:"cache_read_input_tokens"`
	}
	var e struct {
		Type string
		tokens
		Cost      float64 `json:"cost_usd"`
		TotalCost float64 `json:"total_cost_usd"`
		Usage     *tokens
		Part      struct {
			Cost   float64
			Tokens *struct {
				Input, Output, Reasoning float64
				Cache                    struct{ Read, Write float64 }
			}
		}
		Message json.RawMessage
	}
	if json.Unmarshal(line, &e) != nil {
		return u, false
	}
	switch {
	case e.Type == "bestof.usage":
		return Usage{whole(e.Input), whole(e.Output), whole(e.Cost * 1e6), true}, false
	case e.Type == "result" && e.Usage != nil:
		return Usage{whole(e.Usage.Input + e.Usage.CacheWrites + e.Usage.CacheReads), whole(e.Usage.Output), whole(e.TotalCost * 1e6), true}, true
	case e.Type == "turn.completed" && e.Usage != nil:
		return Usage{whole(e.Usage.Input), whole(e.Usage.Output), 0, true}, false
	case e.Type == "step_finish" && e.Part.Tokens != nil:
		t := e.Part.Tokens
		return Usage{whole(t.Input + t.Cache.Read + t.Cache.Write), whole(t.Output + t.Reasoning), whole(e.Part.Cost * 1e6), true}, false
	case e.Type == "message_end":
		return messageUsage(e.Message), false
	}
	return u, false
}

// messageUsage is what a message of pi says.
func messageUsage(message []byte) Usage {
	var m struct {
		Role  string
		Usage *struct {
			Input, Output, CacheRead, CacheWrite float64
			Cost                                 struct{ Total float64 }
		}
	}
	if json.Unmarshal(message, &m) != nil || m.Role != "assistant" || m.Usage == nil {
		return Usage{}
	}
	return Usage{whole(m.Usage.Input + m.Usage.CacheRead + m.Usage.CacheWrite), whole(m.Usage.Output), whole(m.Usage.Cost.Total * 1e6), true}
}

// longestUsage is the length of the longest line that is looked at.
const longestUsage = 1 << 20

// A meter reads usage off an agent's output while it comes.
type meter struct {
	seen    Usage
	told    func(Usage) // after each change; may be nil
	partial []byte
	skip    bool // the line is too long
}

func (m *meter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		part := b
		if end >= 0 {
			part = b[:end]
		}
		if len(m.partial)+len(part) > longestUsage {
			m.partial, m.skip = m.partial[:0], true
		}
		if !m.skip {
			m.partial = append(m.partial, part...)
		}
		if end < 0 {
			break
		}
		if !m.skip {
			m.line(m.partial)
		}
		m.partial, m.skip, b = m.partial[:0], false, b[end+1:]
	}
	return n, nil
}

// line takes one whole line.
func (m *meter) line(line []byte) {
	u, total := usageLine(line)
	switch {
	case !u.Reported:
		return
	case total:
		m.seen = u
	default:
		m.seen = m.seen.Add(u)
	}
	if m.told != nil {
		m.told(m.seen)
	}
}

// end takes a last line that has no line feed.
func (m *meter) end() Usage {
	if !m.skip && len(m.partial) > 0 {
		m.line(m.partial)
	}
	m.partial = nil
	return m.seen
}

// metering is a meter for one round of a candidate: what it used in earlier
// rounds and attempts is part of what is told.
func (l *life) metering() (*meter, Usage) {
	before := UsageOf(maps.Clone(l.snapshot().Usage))
	m := &meter{}
	if l.Used != nil {
		n := candidate.Number(l.seat.Number)
		m.told = func(u Usage) { l.Used(n, before.Add(u)) }
	}
	return m, before
}
