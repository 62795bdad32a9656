package tiebreak

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// run is a record in which the candidates change so many lines each.
func run(id, repo, task string, adopted int, lines ...int) record.Document {
	d := record.Document{Run: id, Task: task, Base: record.Base{Tree: "base of " + repo, Files: 9}}
	d.Repo.Root = bytestring.String("/" + repo)
	for i, n := range lines {
		d.Candidates = append(d.Candidates, record.Candidate{
			Number: i + 1, Agent: "a", Rounds: 1,
			Change: &record.Change{Tree: fmt.Sprint("tree ", id, n), Added: n, Files: []record.FileChange{{Path: "dir/f", Status: "modified", Added: n}}},
		})
	}
	if adopted > 0 {
		d.Adopted = &record.Adoption{Candidate: adopted}
	}
	return d
}

func choice(d record.Document, fate Fate, equal ...int) Choice {
	return Choice{Document: d, Equal: [][]int{equal}, Fate: fate}
}

// winner is the number of the candidate that a row expects.
func winner(t *testing.T, r Row, d record.Document) int {
	t.Helper()
	var s State
	if err := json.Unmarshal([]byte(r.State), &s); err != nil {
		t.Fatal(err)
	}
	f := s.First
	if r.Expected[Question] == Second {
		f = s.Second
	}
	for _, c := range d.Candidates {
		if c.Change.Added == f.LinesAdded {
			return c.Number
		}
	}
	t.Fatalf("nobody has %d lines", f.LinesAdded)
	return 0
}

func TestRows(t *testing.T) {
	d := run("aaaaaaaaaa", "r", "fix", 2, 5, 7, 7, 9)
	d.Candidates[2].Change.Tree = d.Candidates[1].Change.Tree
	for _, test := range []struct {
		name  string
		fate  Fate
		equal []int
		pairs string // better>worse
	}{
		{"kept", Kept, []int{1, 2, 3, 4}, "2>1 2>4"},
		{"taken back", Reverted, []int{1, 2, 4}, "1>2 4>2"},
		{"nobody can tell", Unknown, []int{1, 2, 4}, ""},
		{"the rule set them apart", Kept, []int{1, 4}, ""},
		{"alone", Kept, []int{2}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var pairs []string
			for _, r := range Rows([]Choice{choice(d, test.fate, test.equal...)}) {
				better := winner(t, r, d)
				ids := strings.Split(r.ID, "-")
				worse := ids[1]
				if worse == fmt.Sprint(better) {
					worse = ids[2]
				}
				pairs = append(pairs, fmt.Sprintf("%d>%s", better, worse))
			}
			if got := strings.Join(pairs, " "); got != test.pairs {
				t.Errorf("%s, want %s", got, test.pairs)
			}
		})
	}
	if rows := Rows([]Choice{choice(run("aaaaaaaaaa", "r", "fix", 0, 5, 7), Kept, 1, 2)}); rows != nil {
		t.Errorf("rows of a run that nobody adopted: %v", rows)
	}
}

// TestNoContent: rows hold numbers and agents, and content where it was asked
// for.
func TestNoContent(t *testing.T) {
	d := run("aaaaaaaaaa", "r", "the secret task", 1, 1, 2)
	d.Candidates[0].Detail, d.Candidates[0].Change.Files[0].Path = "secret", "secret"
	c := choice(d, Kept, 1, 2)
	b, err := json.Marshal(Rows([]Choice{c}))
	if err != nil || strings.Contains(string(b), "secret") {
		t.Errorf("%v: %s", err, b)
	}
	c.Patches = map[int]string{1: "+wanted"}
	if rows := Rows([]Choice{c}); !strings.Contains(rows[0].State, "+wanted") {
		t.Errorf("%+v", rows)
	}
}

// TestDivideKeepsWorkTogether: no piece of work is on both sides, and what is
// held out stays held out when more is known.
// TestAMovedRepositoryIsTheSameWork: where a repository is does not make another
// piece of work of the same task on the same commit, nor of a run that is revised.
func TestAMovedRepositoryIsTheSameWork(t *testing.T) {
	before, after := run("run0000001", "/old", "task", 1, 1, 2), run("run0000002", "/new", "task", 1, 3, 4)
	before.Base, after.Base = record.Base{Commit: "c", Tree: "t"}, record.Base{Commit: "c", Tree: "u"}
	revised := run("run0000003", "/elsewhere", "another text", 1, 5, 6)
	revised.RevisionOf = before.Run
	other := run("run0000004", "/old", "another task", 1, 7, 8)
	rows := Rows([]Choice{choice(before, Kept, 1, 2), choice(after, Kept, 1, 2), choice(revised, Kept, 1, 2), choice(other, Kept, 1, 2)})
	if pieces := Pieces(rows); len(rows) != 4 || len(pieces) != 2 {
		t.Errorf("%d rows about %d pieces of work", len(rows), len(pieces))
	}
}

func TestDivideKeepsWorkTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var choices []Choice
		for i := range rapid.IntRange(0, 60).Draw(t, "n") {
			d := run(fmt.Sprintf("run%07d", i), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "repo"), fmt.Sprint("task ", rapid.IntRange(0, 12).Draw(t, "task")), 1,
				rapid.IntRange(0, 3).Draw(t, "x"), rapid.IntRange(4, 6).Draw(t, "y"))
			if i > 0 && rapid.IntRange(0, 5).Draw(t, "revises") == 0 {
				d.RevisionOf = choices[i-1].Document.Run
				d.Repo = choices[i-1].Document.Repo
				d.Task = "revised " + d.Task
			}
			choices = append(choices, choice(d, Kept, 1, 2))
		}
		seed := rapid.SampledFrom([]string{"s", "t"}).Draw(t, "seed")
		rows := Rows(choices)
		s := Divide(rows, seed)
		if len(s.Train)+len(s.Held)+s.Dropped != len(rows) {
			t.Fatalf("%d + %d + %d of %d rows", len(s.Train), len(s.Held), s.Dropped, len(rows))
		}
		side, work := map[string]string{}, map[string]string{}
		look := func(rows []Row, name string) {
			for _, r := range rows {
				i := slices.IndexFunc(choices, func(c Choice) bool { return strings.HasPrefix(r.ID, c.Document.Run) })
				d := choices[i].Document
				key := string(d.Repo.Root) + d.Task
				if was, ok := work[key]; ok && was != name {
					t.Fatalf("%s is on both sides", key)
				}
				work[key] = name
				side[r.State] = side[r.State] + name
			}
		}
		look(s.Train, "t")
		look(s.Held, "h")
		for state, in := range side {
			if strings.Contains(in, "t") && strings.Contains(in, "h") {
				t.Fatalf("both sides have %s", state)
			}
		}
		fewer := Divide(Rows(choices[:len(choices)/2]), seed)
		held := map[string]bool{}
		for _, r := range s.Held {
			held[r.ID] = true
		}
		for _, r := range fewer.Train {
			if d := choices[slices.IndexFunc(choices, func(c Choice) bool { return strings.HasPrefix(r.ID, c.Document.Run) })].Document; held[r.ID] && d.RevisionOf == "" && !joined(choices, r) {
				t.Fatalf("%s was trained on and is held out now", r.ID)
			}
		}
	})
}

// joined reports whether a later run tied a row's piece of work to another.
func joined(choices []Choice, r Row) bool {
	all, half := grouped(choices), grouped(choices[:len(choices)/2])
	i := slices.IndexFunc(choices, func(c Choice) bool { return strings.HasPrefix(r.ID, c.Document.Run) })
	return all[i] != half[i]
}

// TestRivals: the fewest lines are right where the smaller change was kept, the
// constant where its label is expected.
func TestRivals(t *testing.T) {
	var choices []Choice
	for i := range 40 {
		choices = append(choices, choice(run(fmt.Sprintf("run%07d", i), "r", fmt.Sprint("task ", i), 1, 1+i%2*8, 5), Kept, 1, 2))
	}
	rows := Rows(choices)
	if got := Total(FewestLines(Pieces(rows))); got != (Score{40, 20}) {
		t.Errorf("fewest lines: %+v", got)
	}
	first := 0
	for _, r := range rows {
		if r.Expected[Question] == First {
			first++
		}
	}
	if got := Total(Constant(rows, Pieces(rows))); got != (Score{40, max(first, 40-first)}) || first < 10 || first > 30 {
		t.Errorf("the constant: %+v, %d expect the first", got, first)
	}
}

func TestParseReport(t *testing.T) {
	for text, want := range map[string]string{
		`{"checkpoint":"/c","questions":{"better":{"n":9,"correct":7,"accuracy":0.78}}}`:                                              "",
		`{"checkpoint":"/c","questions":{"better":{"n":9,"accuracy":0.7777}}}`:                                                        "",
		`{"checkpoint":"/c","questions":{"better":{"n":9,"correct":7,"pTrue":{"goldTrue":0.5,"goldFalse":0.1}}},"more":"is ignored"}`: "",
		`{"checkpoint":"c","questions":{"better":{"n":9,"correct":7}}}`:                                                               "absolute path",
		`{"checkpoint":"/c","questions":{}}`:                                                                                          "answers no question",
		`{"checkpoint":"/c","questions":{"better":{"n":0,"correct":0}}}`:                                                              "above 0",
		`{"checkpoint":"/c","questions":{"better":{"correct":0}}}`:                                                                    "above 0",
		`{"checkpoint":"/c","questions":{"better":{"n":9}}}`:                                                                          "neither correct nor accuracy",
		`{"checkpoint":"/c","questions":{"better":{"n":9,"correct":10}}}`:                                                             "10 correct of 9",
		`{"checkpoint":"/c","questions":{"better":{"n":9,"correct":-1}}}`:                                                             "-1 correct of 9",
		`{"checkpoint":"/c","questions":{"better":{"n":9,"correct":1,"accuracy":0.9}}}`:                                               "is not 1 of 9",
		`{"checkpoint":"/c","questions":{"better":{"n":9,"accuracy":1.5}}}`:                                                           "from 0 to 1",
		`{"checkpoint":"/c","questions":{"better":{"n":9,"correct":7,"pTrue":{"goldTrue":1.5}}}}`:                                     "pTrue",
		`{"checkpoint":"/c","questions":{"better":{"n":9,"correct":7}}} {}`:                                                           "more after it",
		`[]`: "object",
		``:   "object",
	} {
		got, err := ParseReport([]byte(text), true)
		switch {
		case want == "" && (err != nil || got.Questions[Question] != Score{9, 7}):
			t.Errorf("%s: %v, %v", text, got, err)
		case want != "" && (!errors.Is(err, ErrReport) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := ParseReport([]byte(`{"checkpoint":"/c","questions":{}}`), false); err != nil {
		t.Errorf("train may answer nothing: %v", err)
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add([]byte(`{"checkpoint":"/c","questions":{"better":{"n":9,"correct":7,"accuracy":0.78}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseReport(b, true)
		if err != nil {
			return
		}
		for id, s := range r.Questions {
			if s.N <= 0 || s.Correct < 0 || s.Correct > s.N {
				t.Fatalf("%q: %+v", id, s)
			}
		}
	})
}

func scores(right string) []Score {
	var out []Score
	for _, c := range right {
		out = append(out, Score{2, int(c - '0')})
	}
	return out
}

func TestPromote(t *testing.T) {
	for _, test := range []struct {
		name, model string
		rivals      []string
		promote     bool
		reason      string
	}{
		{"better than both", "2222222222", []string{"1111111111", "1110111111"}, true, "better than all of 2"},
		{"a tie is no win", "1111111111", []string{"1111111111"}, false, "not surely better than r0"},
		{"better by chance", "1112111111", []string{"1111111111"}, false, "not surely better than r0"},
		{"better than one of two", "2222222222", []string{"1111111111", "2222222222"}, false, "not surely better than r1"},
		{"worse", "0000000000", []string{"1111111111"}, false, "not surely better"},
		{"too few", "2222222", []string{"0000000"}, false, "only 7 pieces"},
		{"nothing", "", []string{""}, false, "only 0 pieces"},
		{"no rival", "2222222222", nil, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var rivals []Rival
			for i, r := range test.rivals {
				rivals = append(rivals, Rival{fmt.Sprint("r", i), scores(r)})
			}
			p := Promote(scores(test.model), rivals, "seed")
			if p.Promote != test.promote || !strings.Contains(p.Reason, test.reason) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestPromotionIsSure: a model that guesses is almost never promoted.
func TestPromotionIsSure(t *testing.T) {
	promoted := 0
	for i := range 200 {
		var model, rival []Score
		for k := range 20 {
			sum := hash(fmt.Sprint(i, " ", k))
			model = append(model, Score{1, int(sum[0] & 1)})
			rival = append(rival, Score{1, int(sum[1] & 1)})
		}
		if Promote(model, []Rival{{"chance", rival}}, "seed").Promote {
			promoted++
		}
	}
	if promoted > 12 { // 2.5 % of 200 are 5
		t.Errorf("%d of 200 guessing models were promoted", promoted)
	}
}

func TestPairs(t *testing.T) {
	d := run("aaaaaaaaaa", "r", "fix", 0, 3, 4, 4, 5)
	d.Candidates[2].Change.Tree = d.Candidates[1].Change.Tree
	rows, pairs := Pairs(d, [][]int{{4, 3, 2, 1}, {9}})
	if want := []record.Preference{{First: 1, Second: 2}, {First: 1, Second: 4}, {First: 2, Second: 4}}; !slices.Equal(pairs, want) || len(rows) != 3 {
		t.Errorf("%v", pairs)
	}
	for _, equal := range [][][]int{nil, {{1}}, {{2, 3}}, {{1}, {2, 4}}} {
		if rows, _ := Pairs(d, equal); rows != nil {
			t.Errorf("%v: %d rows", equal, len(rows))
		}
	}
}

func TestAnswer(t *testing.T) {
	yes, no := Score{1, 1}, Score{1, 0}
	for _, test := range []struct {
		first, second Score
		want          string
	}{{yes, no, First}, {no, yes, Second}, {yes, yes, ""}, {no, no, ""}, {Score{2, 1}, no, ""}} {
		if got, err := Answer(test.first, test.second); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%v %v: %q, %v", test.first, test.second, got, err)
		}
	}
}
