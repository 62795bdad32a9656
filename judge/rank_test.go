package judge

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func genContender(t *rapid.T, number int) Contender {
	key := strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "key"))
	return Contender{
		Number:       number,
		Eligible:     rapid.IntRange(0, 3).Draw(t, "eligible") > 0,
		Normalised:   []string{"", "k" + key}[rapid.IntRange(0, 1).Draw(t, "keyed")],
		Tree:         "t" + strconv.Itoa(rapid.IntRange(0, 4).Draw(t, "tree")),
		Measurements: rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.Uint64Range(0, 2), 0, 2).Draw(t, "m"),
		Lines:        rapid.IntRange(0, 2).Draw(t, "lines"),
		Files:        rapid.IntRange(0, 2).Draw(t, "files"),
		Preferred:    rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "preferred"),
	}
}

func genField(t *rapid.T) ([]Contender, []Goal) {
	var cs []Contender
	for i := range rapid.IntRange(0, 12).Draw(t, "n") {
		cs = append(cs, genContender(t, i+1))
	}
	goals := []Goal{{"a", rapid.Bool().Draw(t, "higher")}, {"b", false}}[:rapid.IntRange(0, 2).Draw(t, "goals")]
	return cs, goals
}

func TestRankIsInvariantUnderPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, goals := genField(t)
		want := Rank(cs, goals)
		if diff := cmp.Diff(want, Rank(rapid.Permutation(cs).Draw(t, "order"), goals)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestALoserNeverChangesTheWinner: neither a candidate that may not win, even
// one that agrees with others, nor one whose change is its own and that loses.
func TestALoserNeverChangesTheWinner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, goals := genField(t)
		before := Rank(cs, goals)
		loser := genContender(t, len(cs)+1)
		loser.Eligible = false
		with := append(slices.Clone(cs), loser)
		if diff := cmp.Diff(before, Rank(with, goals)); diff != "" {
			t.Fatalf("an ineligible candidate changed the ranking: %s", diff)
		}
		loser.Eligible, loser.Normalised, loser.Tree = true, "its own", "its own"
		after := Rank(append(slices.Clone(cs), loser), goals)
		if after.Winner != loser.Number && after.Winner != before.Winner {
			t.Fatalf("c%d won; with the loser c%d, c%d does", before.Winner, loser.Number, after.Winner)
		}
	})
}

func TestOnlyTheEligibleAreRanked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, goals := genField(t)
		r := Rank(cs, goals)
		eligible := map[int]bool{}
		for _, c := range cs {
			if c.Eligible {
				eligible[c.Number] = true
			}
		}
		if len(r.Places) != len(eligible) || (r.Winner == 0) != (len(eligible) == 0) {
			t.Fatalf("%d places for %d eligible, winner %d", len(r.Places), len(eligible), r.Winner)
		}
		for i, p := range r.Places {
			if !eligible[p.Number] || p.Place != i+1 {
				t.Fatalf("place %d: %+v", i, p)
			}
			delete(eligible, p.Number)
			if (i == 0) != (p.Decided == nil) {
				t.Fatalf("place %d has comparison %v", i+1, p.Decided)
			}
			if i > 0 && p.Decided.By != ByMeasurement && *p.Decided.Above == *p.Decided.Below {
				t.Fatalf("decided by %s of %d against %d", p.Decided.By, *p.Decided.Above, *p.Decided.Below)
			}
		}
	})
}

// TestFewerLinesNeverHurt: with all else equal a smaller change is not placed
// lower.
func TestFewerLinesNeverHurt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, goals := genField(t)
		if len(cs) == 0 {
			return
		}
		i := rapid.IntRange(0, len(cs)-1).Draw(t, "who")
		place := func() int {
			return slices.IndexFunc(Rank(cs, goals).Places, func(p Place) bool { return p.Number == cs[i].Number })
		}
		before := place()
		cs[i].Lines--
		if after := place(); after > before {
			t.Fatalf("from %d to %d", before, after)
		}
	})
}

// TestAdviceOnlyBreaksTies: it moves no candidate past one that agreement or a
// goal sets apart, and makes nobody eligible.
func TestAdviceOnlyBreaksTies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, goals := genField(t)
		places := Rank(cs, goals).Places
		for i := range cs {
			cs[i].Preferred = rapid.IntRange(0, 9).Draw(t, "advice")
		}
		after := Rank(cs, goals).Places
		if len(after) != len(places) {
			t.Fatalf("advice made %d of %d candidates take part", len(after), len(places))
		}
		for i, a := range after {
			for _, b := range after[i+1:] {
				x, y := ranked{Contender: cs[a.Number-1], agreement: a.Agreement}, ranked{Contender: cs[b.Number-1], agreement: b.Agreement}
				x.Preferred, y.Preferred = 0, 0
				if c, order := compare(x, y, goals); order > 0 && (c.By == ByAgreement || c.By == ByMeasurement) {
					t.Fatalf("advice put c%d above c%d, which %s sets apart", a.Number, b.Number, c.By)
				}
			}
		}
	})
}

func TestRank(t *testing.T) {
	c := func(number int, key string, lines, files int) Contender {
		return Contender{Number: number, Eligible: true, Normalised: key, Tree: key + strconv.Itoa(lines) + "/" + strconv.Itoa(files), Lines: lines, Files: files}
	}
	m := func(c Contender, name string, v uint64) Contender {
		c.Measurements = map[string]uint64{name: v}
		return c
	}
	out := func(c Contender) Contender { c.Eligible = false; return c }
	for _, test := range []struct {
		name   string
		in     []Contender
		goals  []Goal
		order  string
		tie    []int
		reason string
	}{
		{"nobody", nil, nil, "", nil, "no candidate qualifies"},
		{"nobody eligible", []Contender{out(c(1, "a", 1, 1))}, nil, "", nil, "no candidate qualifies"},
		{"one", []Contender{out(c(1, "a", 1, 1)), c(2, "a", 1, 1)}, nil, "2", nil, "c2 is the only candidate that qualifies"},
		{"number as a number", []Contender{c(10, "a", 1, 1), c(2, "b", 1, 1)}, nil, "2 10", nil, "c2 wins; next is c10: nothing sets it apart from c2 but its number"},
		{"agreement first", []Contender{c(1, "a", 1, 1), c(2, "b", 9, 9), c(3, "b", 8, 8)}, nil, "3 2 1", nil, "c3 wins; next is c2: changes 9 lines against 8 of c3"},
		{"the rejected do not vote", []Contender{c(1, "a", 1, 1), c(2, "b", 9, 9), out(c(3, "b", 9, 9))}, nil, "1 2", nil, "c1 wins; next is c2: changes 9 lines against 1 of c1"},
		{"no key agrees with nothing", []Contender{c(1, "a", 3, 1), c(2, "", 4, 1), c(3, "", 5, 1)}, nil, "1 2 3", nil, "c1 wins; next is c2: changes 4 lines against 3 of c1"},
		{"lower is better", []Contender{m(c(1, "a", 1, 1), "ms", 20), m(c(2, "b", 5, 1), "ms", 10)}, []Goal{{"ms", false}}, "2 1", nil, "c2 wins; next is c1: ms: 20 against 10 of c2"},
		{"higher is better", []Contender{m(c(1, "a", 1, 1), "qps", 20), m(c(2, "b", 1, 1), "qps", 10)}, []Goal{{"qps", true}}, "1 2", nil, "c1 wins; next is c2: qps: 10 against 20 of c1"},
		{"not measured is last", []Contender{c(1, "a", 1, 1), m(c(2, "b", 1, 1), "qps", 0)}, []Goal{{"qps", true}}, "2 1", nil, "c2 wins; next is c1: qps: nothing measured against 0 of c2"},
		{"undeclared is ignored", []Contender{c(1, "a", 1, 1), m(c(2, "b", 1, 1), "x", 0)}, []Goal{{"ms", false}}, "1 2", nil, "c1 wins; next is c2: nothing sets it apart from c1 but its number"},
		{"fewest files", []Contender{c(1, "a", 1, 2), c(2, "b", 1, 1)}, nil, "2 1", nil, "c2 wins; next is c1: changes 2 files against 1 of c2"},
		{"tie", []Contender{c(3, "a", 1, 1), c(1, "a", 1, 1), c(2, "b", 0, 0)}, nil, "1 3 2", []int{1, 3}, "a tie: c1, c3 made the very same change; c1 stands for them"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Rank(test.in, test.goals)
			var order []string
			for _, p := range r.Places {
				order = append(order, strconv.Itoa(p.Number))
			}
			if got := strings.Join(order, " "); got != test.order || !slices.Equal(r.Tie, test.tie) || r.Reason != test.reason {
				t.Errorf("order %q, tie %v, reason %q", got, r.Tie, r.Reason)
			}
		})
	}
	r := Rank([]Contender{c(1, "a", 1, 1), c(2, "b", 7, 1), c(3, "b", 7, 1)}, nil)
	two, one := uint64(2), uint64(1)
	want := Ranking{Winner: 2, Tie: []int{2, 3}, Reason: "a tie: c2, c3 made the very same change; c2 stands for them", Places: []Place{
		{Place: 1, Number: 2, Agreement: 2},
		{Place: 2, Number: 3, Agreement: 2, Ties: true, Because: "a tie: the very same files as c2", Decided: compareNumbers(2, 3)},
		{Place: 3, Number: 1, Agreement: 1, Because: "agreement of 1 candidate against 2 of c3", Decided: &Comparison{By: ByAgreement, Above: &two, Below: &one}},
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func compareNumbers(above, below int) *Comparison {
	c := compared(ByNumber, above, below)
	return &c
}

// TestEquals: the groups are the ranking cut where agreement or a goal decided.
func TestEquals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, goals := genField(t)
		groups := Equals(cs, goals)
		of := map[int]int{}
		for i, g := range groups {
			if !slices.IsSorted(g) || len(g) == 0 {
				t.Fatalf("group %v", g)
			}
			for _, n := range g {
				of[n] = i
			}
		}
		places := Rank(cs, goals).Places
		if len(of) != len(places) {
			t.Fatalf("%d in groups, %d are ranked", len(of), len(places))
		}
		for i := 1; i < len(places); i++ {
			a, b, d := of[places[i-1].Number], of[places[i].Number], places[i].Decided
			if apart := d.By == ByAgreement || d.By == ByMeasurement; apart != (a != b) || b-a > 1 || b < a {
				t.Fatalf("groups %v, but %s decided between c%d and c%d", groups, d.By, places[i-1].Number, places[i].Number)
			}
		}
	})
}
