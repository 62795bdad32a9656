package orchestrator

import (
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// TestAdviceOfARecordIsHeldToItsPairs: a record from elsewhere may hold any
// advice. What counts are answers about two of the best whom the rule ranks
// equal, each pair once; without any the fewest lines win.
func TestAdviceOfARecordIsHeldToItsPairs(t *testing.T) {
	doc := record.Document{}
	for n := 1; n <= 5; n++ {
		c := record.Candidate{Number: n, Outcome: candidate.Met, Change: &record.Change{Tree: string(rune('a' + n)), Normalised: string(rune('a' + n)), Added: n, Files: make([]record.FileChange, 1)}}
		if n == 5 {
			c.Outcome = candidate.Unmet
		}
		doc.Candidates = append(doc.Candidates, c)
	}
	pair := func(first, second, better int) record.Preference {
		return record.Preference{First: first, Second: second, Better: better}
	}
	for _, test := range []struct {
		name   string
		pairs  []record.Preference
		winner int
	}{
		{"none", nil, 1},
		{"honest", []record.Preference{pair(1, 2, 2), pair(2, 3, 2), pair(1, 3, 3)}, 2},
		{"one that is not met", []record.Preference{pair(1, 5, 5), pair(2, 5, 5), pair(3, 5, 5)}, 1},
		{"better than one that is not met", []record.Preference{pair(4, 5, 4)}, 1},
		{"nobody", []record.Preference{pair(4, 77, 4), pair(-1, 4, 4), pair(0, 4, 4)}, 1},
		{"neither of both", []record.Preference{pair(1, 2, 4), pair(2, 3, 4)}, 1},
		{"better than itself", []record.Preference{pair(4, 4, 4)}, 1},
		{"the same again", []record.Preference{pair(1, 2, 2), pair(2, 3, 2), pair(1, 4, 4), pair(4, 1, 4), pair(1, 4, 4)}, 2},
	} {
		doc.Advice = &record.Advice{Pairs: test.pairs}
		if c := Choose(doc); c.Winner == nil || *c.Winner != test.winner {
			t.Errorf("%s: %v, want %d", test.name, c.Winner, test.winner)
		}
	}
}
