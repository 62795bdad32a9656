package task

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkReadJSONLines reads 2,000 tasks of 20 KB each.
func BenchmarkReadJSONLines(b *testing.B) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, `{"instance_id":"own__repo-%d","repo":"own/repo","base_commit":"abc1234","problem_statement":%q,"FAIL_TO_PASS":"[\"a\", \"b\"]","PASS_TO_PASS":["c"]}`+"\n", i, strings.Repeat("word ", 4000))
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if in, problems := Read(Source{Name: "in", Form: JSONLines, Reader: strings.NewReader(text.String())}); len(problems) > 0 || len(in.Tasks) != 2000 {
			b.Fatal(problems)
		}
	}
}
