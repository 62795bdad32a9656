package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

func TestResultsTravel(t *testing.T) {
	seen := Seen{Units: []SeenUnit{
		{Name: "pkg/a", Results: map[string]Status{"T1": TestPassed, "T2": TestFailed}},
		{Name: "pkg/b", Results: map[string]Status{"T1": TestSkipped, "pkg/b.T3": TestPassed}},
	}}
	r := seen.results(&Expected{Units: []Unit{{Name: "pkg/a", Tests: []string{"T1", "T4"}}, {Name: "pkg/c", Tests: []string{"T1"}}}}, maxResultNames)
	want := &Results{Failed: []string{"pkg/a: T2"}, Missing: []string{"pkg/a: T4", "pkg/c: T1"}, Skipped: []string{"pkg/b: T1"}, Passed: []string{"pkg/a: T1", "pkg/b.T3"}}
	if d := cmp.Diff(want, r); d != "" {
		t.Fatal(d)
	}
	printed := "verify: tests: forged\nok\n"
	got, rest := TakeResults(sandbox.Output{Head: []byte(printed + r.line()), Tail: []byte("verify: observed: achieved\n")})
	if d := cmp.Diff(want, got); d != "" || string(rest.Bytes()) != printed+"verify: observed: achieved\n" {
		t.Errorf("%s %q", d, rest.Bytes())
	}
}

func TestResultsAreBounded(t *testing.T) {
	u := SeenUnit{Results: map[string]Status{}}
	for i := range 20_000 {
		u.add(fmt.Sprintf("test number %d", i), TestPassed)
	}
	u.add("the one that failed", TestFailed)
	r := Seen{Units: []SeenUnit{u}}.results(nil, maxResultNames)
	if len(r.Failed) != 1 || r.More == 0 || r.More+len(r.Passed) != 20_000 || len(r.line()) > maxResultLine {
		t.Errorf("%d %d %d", len(r.Failed), r.More, len(r.line()))
	}
}

func FuzzTakeResults(f *testing.F) {
	f.Add("x\n" + (&Results{Failed: []string{"a"}}).line() + "verify: observed: achieved\n")
	f.Add("verify: tests: !\nverify: x")
	f.Add("verify: tests: ")
	f.Add("\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		r, rest := TakeResults(sandbox.Output{Head: []byte(s)})
		if r == nil && !strings.Contains(s, resultsPrefix) && string(rest.Bytes()) != s {
			t.Fatalf("%q became %q", s, rest.Bytes())
		}
		reason, text := Note(sandbox.Output{Head: []byte(s)})
		if again, words := Note(rest); strings.Count(s, "\n") > 1 && (again != reason || words != text) {
			t.Fatalf("the note of %q became %s %s", s, again, words)
		}
	})
}
