package view

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule/report"
)

// What jobs did is shown without anything of what others wrote having an
// effect: on the page, in Markdown and on a terminal.
func TestJobReportOfHostileText(t *testing.T) {
	const bad = "<script>alert(1)</script>\x1b[2J\u202e|[x](javascript:1)\n# head"
	at := time.Date(2026, 3, 2, 2, 0, 0, 0, time.UTC)
	r := report.Make(at, at.Add(time.Hour),
		[]report.Run{{ID: 7, Job: bad, Started: at, Ended: at.Add(time.Minute), Outcome: "lost", Reason: bad, Branch: bad, Patches: []string{bad}, Record: bad, Notes: []string{bad}, Attempt: 2}},
		[]report.Skip{{Job: bad, Instant: at, Through: at, Count: 3, Reason: bad}}, []report.Next{{Job: bad, At: at}}, true)
	var page, md, text bytes.Buffer
	for _, err := range []error{JobHTML(&page, r, time.UTC), JobMarkdown(&md, r, time.UTC), JobText(&text, r, time.UTC)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, out := range map[string]string{"page": page.String(), "Markdown": md.String(), "text": text.String()} {
		for _, c := range []string{"\x1b", "\u202e"} {
			if strings.Contains(out, c) {
				t.Errorf("%s holds %q", name, c)
			}
		}
		if !strings.Contains(out, "lost") || !strings.Contains(out, "3 fires") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if strings.Contains(page.String(), "<script") || !strings.Contains(page.String(), `content="`+strings.ReplaceAll(strings.ReplaceAll(policy(), "'", "&#39;"), "+", "&#43;")+`"`) {
		t.Errorf("page: %.900s", page.String())
	}
	for i, l := range strings.Split(md.String(), "\n") {
		if strings.Contains(l, "<script") || i > 0 && strings.HasPrefix(l, "# ") || strings.Contains(l, "](javascript") && !strings.Contains(l, `\]`) {
			t.Errorf("line %d: %s", i+1, l)
		}
	}
	if strings.Contains(text.String(), "\n# head") {
		t.Errorf("text: %s", text.String())
	}
}
