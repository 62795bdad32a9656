package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// What the terminal and the page say alike.

// compareCommand is the command that compares a run, with more arguments.
func compareCommand(m compare.Model, more string) string { return command("compare", m, more) }

func command(what string, m compare.Model, more string) string {
	words := []string{"bestof", what}
	if m.Flags != "" {
		words = append(words, m.Flags)
	}
	return strings.Join(append(words, m.Run, more), " ")
}

// diffCommand is the command that shows what is between two candidates.
func diffCommand(m compare.Model, from, to int) string {
	if from > 0 {
		return command("diff", m, fmt.Sprintf("%d %d", from, to))
	}
	return command("diff", m, strconv.Itoa(to))
}

// basisWords says on what the candidates of a cluster are equal.
func basisWords(c compare.Cluster) string {
	switch c.Basis {
	case compare.ByBytes:
		return "byte for byte"
	case compare.ByFormatting:
		return "but for formatting and comments"
	default:
		return "but for white space"
	}
}

func stepWords(s compare.Step) string {
	switch s.By {
	case judge.ByAgreement:
		return "most candidates with the same change"
	case judge.ByMeasurement:
		if s.Higher {
			return s.Measurement + ", more is better"
		}
		return s.Measurement + ", less is better"
	case judge.ByLines:
		return "fewest changed lines"
	case judge.ByFiles:
		return "fewest changed files"
	default:
		return "lowest number"
	}
}

func stepValue(s compare.Step, i int) string {
	switch {
	case s.Values[i] == nil:
		return "not measured"
	case s.By == judge.ByNumber:
		return candidate.Number(*s.Values[i]).ID()
	}
	return strconv.FormatUint(*s.Values[i], 10)
}

func testCounts(t compare.Tests) string {
	differ, failed := 0, 0
	for _, r := range t.Rows {
		if r.Differs() {
			differ++
		}
		for _, s := range r.Status {
			if s == record.TestFailed || s == record.TestMissing {
				failed++
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d failed by a candidate, %d that set candidates apart", count(len(t.Rows), "test", "tests"), failed, differ)
}

func testNotes(t compare.Tests) []string {
	var out []string
	if len(t.Unread) > 0 {
		out = append(out, "No single tests are recorded of "+ids(t.Unread)+".")
	}
	if len(t.Cut) > 0 {
		names := ""
		for i, n := range t.Cut {
			if i > 0 {
				names += ", "
			}
			names += name(n)
		}
		out = append(out, "Not all tests are recorded of "+names+": an empty cell there may be a test that passed.")
	}
	return out
}

func overlapWords(o compare.Overlap, looked bool) string {
	text := fmt.Sprintf("%d (%d)", o.Shared, o.Same)
	if looked {
		text += fmt.Sprintf(" · %d (%d)", o.SharedRegions, o.SameRegions)
	}
	return text
}

func regionCounts(m compare.Model) string {
	contested := 0
	for _, r := range m.Regions {
		if r.By > 1 {
			contested++
		}
	}
	return fmt.Sprintf("%s, %d changed by more than one candidate", count(m.Looked.Regions, "place", "places"), contested)
}

// regionLines are the lines of the base, as a patch would name them.
func regionLines(r compare.Region) string {
	switch {
	case r.Start == 0:
		return "all"
	case r.Start == r.End:
		return fmt.Sprintf("before %d", r.Start)
	case r.End == r.Start+1:
		return strconv.Itoa(r.Start)
	}
	return fmt.Sprintf("%d-%d", r.Start, r.End-1)
}

// variantLetter is A, B, …, Z, AA, … and nothing for 0.
func variantLetter(n int) string {
	text := ""
	for ; n > 0; n = (n - 1) / 26 {
		text = string(rune('A'+(n-1)%26)) + text
	}
	return text
}

func lookedWords(l compare.Looked) string {
	text := ""
	if l.Left > 0 {
		text = count(l.Left, "content was", "contents were") + " not looked into, being too large or too many, and are compared as a whole."
	}
	if l.Fault != "" {
		text += " " + l.Fault
	}
	return text
}
