package judge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A Contender is what the ranking knows about a candidate.
type Contender struct {
	Number       int               `json:"number"`
	Eligible     bool              `json:"eligible"`
	Normalised   string            `json:"normalised"` // equal for changes that count as the same; "" equals nothing
	Tree         string            `json:"tree"`       // equal for equal trees; "" equals nothing
	Measurements map[string]uint64 `json:"measurements,omitempty"`
	Lines        int               `json:"lines"`
	Files        int               `json:"files"`
	// Preferred is how many of the candidates that agreement and goals leave
	// equal with it a model put below it, the higher the better; 0 without
	// advice. It is asked after both, and never makes a candidate eligible.
	Preferred int `json:"preferred,omitempty"`
}

// A Goal names a measurement that ranks candidates, the lower the better
// unless Higher. A candidate without it comes after all that have it.
type Goal struct {
	Measurement string `json:"measurement"`
	Higher      bool   `json:"higher,omitempty"`
}

// A Criterion is one step of the order.
type Criterion string

// The steps, in the order in which they are asked.
const (
	ByAgreement   Criterion = "agreement"
	ByMeasurement Criterion = "measurement"
	ByAdvice      Criterion = "advice"
	ByLines       Criterion = "lines"
	ByFiles       Criterion = "files"
	ByNumber      Criterion = "number"
)

// A Comparison is what put one candidate above another.
type Comparison struct {
	By          Criterion `json:"by"`
	Measurement string    `json:"measurement,omitempty"`
	Above       *uint64   `json:"above"` // nil: not measured
	Below       *uint64   `json:"below"`
}

// A Place is one line of the ranking. Against the first place nothing was
// compared.
type Place struct {
	Place     int         `json:"place"`
	Number    int         `json:"number"`
	Agreement int         `json:"agreement"` // eligible candidates with this change, itself included
	Ties      bool        `json:"ties,omitempty"`
	Decided   *Comparison `json:"decided,omitempty"` // with the place above
	Because   string      `json:"because,omitempty"` // Decided in words
}

// A Ranking orders the eligible candidates; the others are not in it.
type Ranking struct {
	Places []Place `json:"places"`
	Winner int     `json:"winner"`        // 0 when nobody is eligible
	Tie    []int   `json:"tie,omitempty"` // all who have the winner's very tree, when that is more than one
	Reason string  `json:"reason"`
}

// Rank orders the contenders totally, whatever order they come in: larger
// agreement, then the goals in turn, advice where there is any, fewest lines,
// fewest files, and at last the lower number. Only eligible candidates take part, also in agreement:
// what was rejected has no vote.
func Rank(contenders []Contender, goals []Goal) Ranking {
	var in []ranked
	votes := map[string]int{}
	for _, c := range contenders {
		if c.Eligible {
			in = append(in, ranked{Contender: c})
			votes[c.Normalised]++
		}
	}
	for i := range in {
		in[i].agreement = 1
		if in[i].Normalised != "" {
			in[i].agreement = votes[in[i].Normalised]
		}
	}
	slices.SortFunc(in, func(a, b ranked) int {
		_, order := compare(a, b, goals)
		return cmp.Or(order, cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Normalised, b.Normalised))
	})

	r := Ranking{Places: []Place{}}
	if len(in) == 0 {
		r.Reason = "no candidate qualifies"
		return r
	}
	r.Winner = in[0].Number
	for i, c := range in {
		p := Place{Place: i + 1, Number: c.Number, Agreement: c.agreement}
		if i > 0 {
			decided, _ := compare(in[i-1], c, goals)
			p.Decided = &decided
			p.Ties = sameTree(in[i-1], c)
			p.Because = because(in[i-1], c, decided)
		}
		if i == 0 || sameTree(in[0], c) {
			r.Tie = append(r.Tie, c.Number)
		}
		r.Places = append(r.Places, p)
	}
	if len(r.Tie) == 1 {
		r.Tie = nil
	}
	r.Reason = reason(r)
	return r
}

type ranked struct {
	Contender
	agreement int
}

func sameTree(a, b ranked) bool { return a.Tree != "" && a.Tree == b.Tree }

// compare returns the first criterion that separates a and b and, as
// cmp.Compare, which comes first.
func compare(a, b ranked, goals []Goal) (Comparison, int) {
	if a.agreement != b.agreement {
		return compared(ByAgreement, a.agreement, b.agreement), cmp.Compare(b.agreement, a.agreement)
	}
	for _, g := range goals {
		x, hasX := a.Measurements[g.Measurement]
		y, hasY := b.Measurements[g.Measurement]
		c := Comparison{By: ByMeasurement, Measurement: g.Measurement}
		if hasX {
			c.Above = &x
		}
		if hasY {
			c.Below = &y
		}
		switch {
		case hasX && !hasY:
			return c, -1
		case !hasX && hasY:
			return c, 1
		case x != y && g.Higher:
			return c, cmp.Compare(y, x)
		case x != y:
			return c, cmp.Compare(x, y)
		}
	}
	if a.Preferred != b.Preferred {
		return compared(ByAdvice, a.Preferred, b.Preferred), cmp.Compare(b.Preferred, a.Preferred)
	}
	if a.Lines != b.Lines {
		return compared(ByLines, a.Lines, b.Lines), cmp.Compare(a.Lines, b.Lines)
	}
	if a.Files != b.Files {
		return compared(ByFiles, a.Files, b.Files), cmp.Compare(a.Files, b.Files)
	}
	return compared(ByNumber, a.Number, b.Number), cmp.Compare(a.Number, b.Number)
}

func compared(by Criterion, above, below int) Comparison {
	x, y := uint64(max(above, 0)), uint64(max(below, 0))
	return Comparison{By: by, Above: &x, Below: &y}
}

func because(above, below ranked, c Comparison) string {
	if sameTree(above, below) {
		return "a tie: the very same files as " + id(above.Number)
	}
	values := func(singular, plural string) string {
		return count(c.Below, singular, plural) + " against " + count(c.Above, "", "") + " of " + id(above.Number)
	}
	switch c.By {
	case ByAgreement:
		return "agreement of " + values("candidate", "candidates")
	case ByMeasurement:
		return plain(c.Measurement) + ": " + values("", "")
	case ByAdvice:
		return "advice: preferred to " + values("other", "others")
	case ByLines:
		return "changes " + values("line", "lines")
	case ByFiles:
		return "changes " + values("file", "files")
	default:
		return "nothing sets it apart from " + id(above.Number) + " but its number"
	}
}

func reason(r Ranking) string {
	winner := id(r.Winner)
	if len(r.Tie) > 1 {
		const few = 5
		names := make([]string, 0, few)
		for _, n := range r.Tie[:min(few, len(r.Tie))] {
			names = append(names, id(n))
		}
		more := ""
		if len(r.Tie) > few {
			more = " and " + strconv.Itoa(len(r.Tie)-few) + " more"
		}
		return "a tie: " + strings.Join(names, ", ") + more + " made the very same change; " + winner + " stands for them"
	}
	if len(r.Places) == 1 {
		return winner + " is the only candidate that qualifies"
	}
	return winner + " wins; next is " + id(r.Places[1].Number) + ": " + r.Places[1].Because
}

func id(n int) string { return "c" + strconv.Itoa(n) }

func count(n *uint64, singular, plural string) string {
	if n == nil {
		return "nothing measured"
	}
	unit := plural
	if *n == 1 {
		unit = singular
	}
	if unit != "" {
		unit = " " + unit
	}
	return strconv.FormatUint(*n, 10) + unit
}

// Equals groups the eligible contenders that agreement and the goals leave
// equal, best first, each group by number. Among them only what Rank asks
// later decides.
func Equals(contenders []Contender, goals []Goal) [][]int {
	in := make([]Contender, 0, len(contenders))
	of := map[int]Contender{}
	for _, c := range contenders {
		c.Preferred, c.Lines, c.Files = 0, 0, 0
		in = append(in, c)
		of[c.Number] = c
	}
	var groups [][]int
	var last ranked
	for _, p := range Rank(in, goals).Places {
		c := ranked{Contender: of[p.Number], agreement: p.Agreement}
		if by, _ := compare(last, c, goals); len(groups) == 0 || by.By != ByNumber {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], p.Number)
		last = c
	}
	return groups
}
