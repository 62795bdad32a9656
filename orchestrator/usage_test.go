package orchestrator

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Lines as the agents print them.
var usageLines = map[string]struct {
	line  string
	want  Usage
	total bool
}{
	"claude":  {`{"type":"result","subtype":"success","total_cost_usd":0.0421,"usage":{"input_tokens":12,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":34}}`, Usage{1112, 34, 42100, true}, true},
	"codex":   {`{"type":"turn.completed","usage":{"input_tokens":24763,"cached_input_tokens":24448,"output_tokens":122}}`, Usage{24763, 122, 0, true}, false},
	"open":    {`{"type":"step_finish","part":{"type":"step-finish","cost":0.001,"tokens":{"input":671,"output":8,"reasoning":2,"cache":{"read":21415,"write":5}}}}`, Usage{22091, 10, 1000, true}, false},
	"pi":      {`{"type":"message_end","message":{"role":"assistant","usage":{"input":10,"output":5,"cacheRead":3,"cacheWrite":2,"cost":{"total":0.25}}}}`, Usage{15, 5, 250000, true}, false},
	"pi user": {`{"type":"message_end","message":{"role":"user","usage":{"input":10}}}`, Usage{}, false},
	"ours":    {`{"type":"bestof.usage","input_tokens":1,"output_tokens":2,"cost_usd":3}`, Usage{1, 2, 3000000, true}, false},
	"forged":  {`{"type":"bestof.usage","input_tokens":-5,"output_tokens":1e300,"cost_usd":-1}`, Usage{0, maxUsage, 0, true}, false},
	"other":   {`{"type":"assistant","usage":{"input_tokens":1}}`, Usage{}, false},
	"text":    {`tokens: 5`, Usage{}, false},
	"broken":  {`{"type":"result","usage":{"input_tokens":"x"}}`, Usage{}, false},
}

func TestUsageLine(t *testing.T) {
	for name, c := range usageLines {
		if got, total := usageLine([]byte(c.line)); got != c.want || total != c.total {
			t.Errorf("%s: %+v, %v", name, got, total)
		}
	}
}

// TestMeter: however the output is cut into writes, the sum is the same, a
// record gives it back, and a line that is too long is passed over.
func TestMeter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text string
		want := Usage{}
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			c := usageLines[rapid.SampledFrom([]string{"codex", "open", "pi", "ours", "text", "claude"}).Draw(t, "line")]
			text += c.line + "\n"
			if c.total {
				want = c.want
			} else {
				want = want.Add(c.want)
			}
		}
		text = strings.TrimSuffix(text, "\n")
		told := Usage{}
		m := meter{told: func(u Usage) { told = u }}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			m.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if got := m.end(); got != want || told != want {
			t.Fatalf("%+v, told %+v, want %+v", got, told, want)
		}
		b, err := json.Marshal(want.record())
		var kept map[string]any
		if err == nil {
			err = json.Unmarshal(b, &kept)
		}
		if got := UsageOf(kept); err != nil || got != want {
			t.Fatalf("from the record: %+v, %v", got, err)
		}
	})
	m := meter{}
	m.Write([]byte("{" + strings.Repeat(" ", longestUsage)))
	m.Write([]byte(`"type":"bestof.usage","input_tokens":1}` + "\n" + usageLines["ours"].line))
	if got := m.end(); got != usageLines["ours"].want {
		t.Errorf("after a long line: %+v", got)
	}
}

func FuzzUsageLine(f *testing.F) {
	for _, c := range usageLines {
		f.Add([]byte(c.line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		u, _ := usageLine(line)
		if u.Input < 0 || u.Output < 0 || u.MicroUSD < 0 || u.Tokens() > 2*maxUsage || !u.Reported && u != (Usage{}) {
			t.Fatalf("%q: %+v", line, u)
		}
	})
}
