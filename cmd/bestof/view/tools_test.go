package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

func TestShowSaysWhatWasOfferedAndCalled(t *testing.T) {
	doc := record.Document{
		Run: "r", Phase: record.Finished,
		Tools: &record.Tools{
			Servers: []record.ToolServer{
				{Name: "docs", Connected: true, WithheldTools: map[string]string{"b": "new", "a": "changed"}},
				{Name: "de\x1bploy", Withheld: "not marked candidate_safe"},
			},
			Offered:  []string{"mcp__docs__x", "mcp__docs__y"},
			Gathered: &record.Gathered{Called: []string{"mcp__docs__x"}, Failures: []record.GatherFailure{{Tool: "mcp__docs__y", Reason: "it took too long"}}},
		},
		Candidates: []record.Candidate{{Number: 1, Agent: "a", Tools: []record.ToolUse{
			{Tool: "mcp__docs__x", Calls: 3, Failed: 1}, {Tool: "mcp__deploy__now", Refused: 2},
		}}},
	}
	var b bytes.Buffer
	if err := Show(&b, doc, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 tools offered to candidates, 1 asked once for all", "docs: 2 tools withheld: a, b", "ploy withheld: not marked candidate_safe",
		"mcp__docs__y was asked for all and gave nothing: it took too long",
		"called mcp__docs__x 3 times, 1 of them failed", "called mcp__deploy__now 0 times, was refused it 2 times",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("nothing says %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("a name reached the terminal as it is")
	}
}
