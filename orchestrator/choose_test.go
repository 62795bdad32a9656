package orchestrator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/verify"
)

// drawDocument makes the record of a finished run whose outcomes follow from
// its evidence.
func drawDocument(t *rapid.T) record.Document {
	doc := record.Document{
		Schema: record.Schema, Phase: record.Finished,
		Settings: record.Settings{Test: []string{"t"}, Expect: ExpectFlip},
		Baseline: record.Baseline{Status: "failed"},
		Rules:    []record.Rule{{Plugin: builtin, Rule: verify.Rule(ExpectFlip)}},
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "n") {
		doc.Candidates = append(doc.Candidates, drawCandidate(t, i+1, doc.Rules))
	}
	choice := Choose(doc)
	doc.Ranking, doc.Winner, doc.Tie, doc.Reason, doc.ExitCode = choice.Ranking, choice.Winner, choice.Tie, choice.Reason, choice.ExitCode
	return doc
}

func drawCandidate(t *rapid.T, number int, rules []record.Rule) record.Candidate {
	c := record.Candidate{Number: number, Rounds: 1, State: candidate.Done}
	fact := rapid.SampledFrom([]candidate.Outcome{"", "", "", candidate.Empty, candidate.AgentFailed, candidate.TimedOut, candidate.Infrastructure, candidate.Escaped, candidate.Cancelled}).Draw(t, "fact")
	c.Outcome = fact
	if fact == candidate.Empty || fact == candidate.AgentFailed {
		return c
	}
	text := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "change")
	lines := rapid.IntRange(1, 3).Draw(t, "lines")
	c.Change = &record.Change{Tree: fmt.Sprint("tree-", text, lines), Normalised: "norm-" + text, Added: lines, Files: make([]record.FileChange, rapid.IntRange(1, 2).Draw(t, "files"))}
	if fact != "" {
		return c
	}
	if rapid.IntRange(0, 9).Draw(t, "tampered") == 0 {
		c.Tampered = []bytestring.String{"t"}
	}
	e := record.Evidence{Plugin: builtin, Evidence: judge.Evidence{
		Provenance: judge.PluginReported,
		Flip:       rapid.SampledFrom([]judge.Flip{judge.FlipAchieved, judge.FlipAchieved, judge.FlipNotAchieved, judge.FlipUnobservable, judge.FlipNotAttempted, judge.FlipUnsatisfiable}).Draw(t, "flip"),
		Tamper:     judge.Tamper{Status: rapid.SampledFrom([]judge.TamperStatus{judge.Clean, judge.Clean, judge.Clean, judge.Tampered, judge.NotChecked}).Draw(t, "tamper")},
	}}
	if code := rapid.IntRange(-1, 2).Draw(t, "code"); code >= 0 {
		e.Evidence.Measurements = map[string]uint64{verify.ExitCode: uint64(max(0, code-1))}
	}
	if rapid.IntRange(0, 9).Draw(t, "compromised") == 0 {
		e.Compromised = "fewer tests ran"
	}
	c.Evidence = []record.Evidence{e}
	v := combined(verdicts(rules, lastRound(c)))
	c.Verdict = &v
	c.Outcome, c.Detail = judged(c)
	return c
}

// P5: the record is all that the choice depends on.
func TestRejudgeGivesTheRecordedAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t)
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var read record.Document
		if err := json.Unmarshal(b, &read); err != nil {
			t.Fatal(err)
		}
		again, differs := Rejudge(read)
		if len(differs) > 0 {
			t.Fatalf("differs: %v", differs)
		}
		if d := cmp.Diff(doc.Ranking, again.Ranking); d != "" {
			t.Fatal(d)
		}
	})
}

func TestOnlyMetCandidatesWin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t)
		if doc.Winner == nil {
			for _, c := range doc.Candidates {
				if c.Outcome == candidate.Met {
					t.Fatalf("c%d is met and nobody won", c.Number)
				}
			}
			if doc.ExitCode == 0 {
				t.Fatal("exit code 0 without a winner")
			}
			return
		}
		w := doc.Candidates[*doc.Winner-1]
		e := w.Evidence[0]
		if w.Outcome != candidate.Met || e.Evidence.Flip != judge.FlipAchieved || e.Evidence.Tamper.Status != judge.Clean ||
			len(w.Tampered) > 0 || e.Compromised != "" || e.Evidence.Measurements[verify.ExitCode] != 0 || e.Evidence.Measurements == nil {
			t.Fatalf("won with %+v", w)
		}
	})
}

func TestOrderOfCandidatesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t)
		shuffled := doc
		shuffled.Candidates = rapid.Permutation(doc.Candidates).Draw(t, "order")
		if number(Choose(shuffled).Winner) != number(doc.Winner) {
			t.Fatal("another order has another winner")
		}
	})
}

// Undecided candidates never rank beside met ones, even when asked for.
func TestAllowUndecidedNeverBeatsMet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawDocument(t)
		before := number(doc.Winner)
		doc.Settings.AllowUndecided = true
		after := Choose(doc)
		if before != 0 && number(after.Winner) != before {
			t.Fatalf("winner %d became %d", before, number(after.Winner))
		}
		if before == 0 && after.Winner != nil {
			if o := doc.Candidates[*after.Winner-1].Outcome; o != candidate.Undecided || !strings.Contains(after.Reason, "without evidence") {
				t.Fatalf("%s won: %s", o, after.Reason)
			}
		}
	})
}

func TestWithoutWinner(t *testing.T) {
	tests := []struct {
		outcomes []candidate.Outcome
		code     int
		reason   string
	}{
		{[]candidate.Outcome{candidate.Unmet, candidate.Empty}, ExitNoWinner, "no candidate qualifies: 1 unmet, 1 empty"},
		{[]candidate.Outcome{candidate.Infrastructure, candidate.Infrastructure}, ExitInfrastructure, "no candidate qualifies: 2 infrastructure"},
		{[]candidate.Outcome{candidate.Infrastructure, candidate.Unmet}, ExitNoWinner, "no candidate qualifies: 1 unmet, 1 infrastructure"},
		{[]candidate.Outcome{candidate.TimedOut}, ExitTimedOut, "no candidate qualifies: 1 timed-out"},
		{[]candidate.Outcome{candidate.OverBudget}, ExitOverBudget, "no candidate qualifies: 1 over-budget"},
		{[]candidate.Outcome{candidate.Tampered}, ExitNoWinner, "no candidate qualifies: 1 tampered"},
	}
	for _, tt := range tests {
		var doc record.Document
		for i, o := range tt.outcomes {
			doc.Candidates = append(doc.Candidates, record.Candidate{Number: i + 1, Outcome: o})
		}
		if c := Choose(doc); c.ExitCode != tt.code || c.Reason != tt.reason || c.Winner != nil {
			t.Errorf("%v: %d %q, want %d %q", tt.outcomes, c.ExitCode, c.Reason, tt.code, tt.reason)
		}
	}
}

func TestFoldKeepsTheWorstRepetition(t *testing.T) {
	evidence := func(flip judge.Flip, code int) record.Evidence {
		e := record.Evidence{Plugin: builtin, Evidence: judge.Evidence{Flip: flip, Tamper: judge.Tamper{Status: judge.Clean}}}
		if code >= 0 {
			e.Evidence.Measurements = map[string]uint64{verify.ExitCode: uint64(code)}
		}
		return e
	}
	good, bad, blind := evidence(judge.FlipAchieved, 0), evidence(judge.FlipNotAchieved, 1), evidence(judge.FlipUnobservable, -1)
	tampered := good
	tampered.Evidence.Tamper = judge.Tamper{Status: judge.Tampered, Artifact: "t"}
	tests := []struct {
		name string
		runs []record.Evidence
		want record.Evidence
	}{
		{"all good", []record.Evidence{good, good}, good},
		{"one bad", []record.Evidence{good, bad, good}, bad},
		{"one unobserved", []record.Evidence{good, blind, good}, blind},
		{"bad beats unobserved", []record.Evidence{blind, bad, good}, bad},
		{"tampered beats all", []record.Evidence{tampered, bad, good}, tampered},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rule := verify.Rule(ExpectFlip)
			kept := record.Evidence{}
			for i, one := range tt.runs {
				kept = fold(&rule, kept, one, i, 0)
			}
			if len(kept.Runs) != len(tt.runs) {
				t.Errorf("%d runs kept of %d", len(kept.Runs), len(tt.runs))
			}
			kept.Runs, kept.Passed = nil, 0
			if d := cmp.Diff(tt.want, kept); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReviseNamesEveryCause(t *testing.T) {
	doc := record.Document{Task: "mend it", Candidates: []record.Candidate{
		{Number: 1, Agent: "a", Outcome: candidate.Unmet, Detail: "the test failed", Evidence: []record.Evidence{{OutputTail: "want 3\ngot 4\n"}}},
		{Number: 2, Agent: "b", Outcome: candidate.Empty, Detail: "nothing was changed"},
	}}
	r := Revise(doc)
	for _, want := range []string{"mend it", "c1 (a): unmet: the test failed", "got 4", "c2 (b): empty: nothing was changed"} {
		if !strings.Contains(r.Task, want) {
			t.Errorf("the proposed task lacks %q:\n%s", want, r.Task)
		}
	}
	if len(r.Causes) != 2 {
		t.Errorf("causes: %q", r.Causes)
	}
}
