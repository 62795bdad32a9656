package stricttoml

import (
	"fmt"
	"testing"

	"github.com/BurntSushi/toml"
)

const spanned = `top = 1  # comment
"a b".c = [ {x = 1 }, 2 ]
[ servers . 'd.e' ] # [no]
  args = [ # x
    "y", ]  # z
env = { A = "}", "B" = """q""" }
[[list]]
k = 2020-01-01 10:00:00	
[list.sub]
`

func TestSpans(t *testing.T) {
	var got []string
	for _, s := range Spans([]byte(spanned)) {
		got = append(got, fmt.Sprintf("%v|%v|%d|%s|%s", s.Path, s.Table, s.Depth, spanned[s.Start:s.End], spanned[s.Value:s.End]))
	}
	want := []string{
		`[top]|[]|0|top = 1|1`,
		`[a b c]|[]|0|"a b".c = [ {x = 1 }, 2 ]|[ {x = 1 }, 2 ]`,
		`[a b c 0 x]|[]|2|x = 1|1`,
		`[servers d.e]|[servers d.e]|0|[ servers . 'd.e' ]|`,
		"[servers d.e args]|[servers d.e]|0|args = [ # x\n    \"y\", ]|[ # x\n    \"y\", ]",
		`[servers d.e env]|[servers d.e]|0|env = { A = "}", "B" = """q""" }|{ A = "}", "B" = """q""" }`,
		`[servers d.e env A]|[servers d.e]|1|A = "}"|"}"`,
		`[servers d.e env B]|[servers d.e]|1|"B" = """q"""|"""q"""`,
		`[list 0]|[list 0]|0|[[list]]|`,
		`[list 0 k]|[list 0]|0|k = 2020-01-01 10:00:00|2020-01-01 10:00:00`,
		`[list 0 sub]|[list 0 sub]|0|[list.sub]|`,
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// FuzzSpans: spans lie inside the document, in order, and a statement of its
// own is a document.
func FuzzSpans(f *testing.F) {
	f.Add(spanned)
	f.Add(located)
	f.Fuzz(func(t *testing.T, text string) {
		var raw map[string]any
		if _, err := toml.Decode(text, &raw); err != nil || len(text) > 10000 {
			return
		}
		last := 0
		for _, s := range Spans([]byte(text)) {
			if s.Start < last || s.Value < s.Start || s.End < s.Value || s.End > len(text) || len(s.Path) == 0 {
				t.Fatalf("%q: %+v", text, s)
			}
			last = s.Start
			if s.Depth > 0 {
				continue
			}
			if _, err := toml.Decode(text[s.Start:s.End], &raw); err != nil {
				t.Fatalf("%q: %q is no document: %v", text, text[s.Start:s.End], err)
			}
			raw = nil
		}
	})
}
