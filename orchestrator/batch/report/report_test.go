package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/judge"
)

func ptr(n int64) *int64 { return &n }

// cand reads "met right": outcome and rightness; met is eligible.
func cand(number int, agent, words, change string) Candidate {
	o, r, _ := strings.Cut(words, " ")
	return Candidate{Number: number, Agent: agent, Outcome: candidate.Outcome(o), Right: Rightness(r), Eligible: o == "met", Change: change, DurationMS: int64(1000 * number)}
}

// firstEligible stands for the judge.
func firstEligible(t Task, numbers []int) int {
	for _, n := range numbers {
		for _, c := range t.Candidates {
			if c.Number == n && c.Eligible {
				return n
			}
		}
	}
	return 0
}

func sample() Input {
	tokens := cand(1, "a", "met right", "x")
	tokens.Tokens, tokens.CostMicros = ptr(1000), ptr(1_250_000)
	return Input{Batch: "demo", Version: "v", Candidates: 3, Tasks: []Task{
		{ID: "t1", State: Done, Run: "r1", Winner: 1, WallMS: 4000, Candidates: []Candidate{tokens, cand(2, "a", "met right", "x"), cand(3, "b", "unmet wrong", "y")}},
		{ID: "t2", Instance: "own/t2", State: Done, Winner: 1, Candidates: []Candidate{cand(1, "a", "met wrong", "x"), cand(2, "a", "met right", "y"), cand(3, "b", "infrastructure", "")}},
		{ID: "t3", State: Done, Candidates: []Candidate{cand(1, "a", "undecided right", "x"), cand(2, "a", "tampered wrong", "y"), cand(3, "b", "empty", "")}},
		{ID: "t4", State: Done, Reason: "no candidate qualifies", Candidates: []Candidate{cand(1, "a", "unmet wrong", "x"), cand(2, "a", "cancelled", ""), cand(3, "b", "cancelled", "")}},
		{ID: "t5", State: Infrastructure, Candidates: []Candidate{cand(1, "a", "infrastructure", "")}},
		{ID: "t6", State: Done, Candidates: []Candidate{cand(1, "a", "infrastructure", "")}},
		{ID: "t7", State: Invalid},
		{ID: "t8"},
	}}
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-12 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestNumbers(t *testing.T) {
	r := Build(sample(), Options{Seed: 1, Choose: firstEligible})
	if want := (Counts{Total: 8, Done: 5, Graded: 4, Solved: 1, Pending: 1, Invalid: 1, Infrastructure: 1}); r.Tasks != want {
		t.Errorf("tasks %+v", r.Tasks)
	}
	if want := (Choices{Right: 1, Wrong: 1, Missed: 1, None: 1}); r.Choices != want {
		t.Errorf("choices %+v", r.Choices)
	}
	// Infrastructure and cancelled candidates had no chance: t2 has two that
	// count, t4 one.
	near(t, "pass@1", r.Pass1.Value, (2.0/3+1.0/2+1.0/3+0)/4)
	near(t, "best of N", r.BestOfN.Value, 1.0/4)
	near(t, "oracle of N", r.OracleOfN.Value, 3.0/4)
	near(t, "pass@2", r.PassK[1].Value, (1+1+2.0/3)/3)
	near(t, "pass@3", r.PassK[2].Value, (1+1)/2.0)
	near(t, "best of 1", r.BestOfK[0].Value, (2.0/3+1.0/2+0+0)/4)
	near(t, "best of 2", r.BestOfK[1].Value, (1+0+0)/3.0)
	near(t, "best of 3", r.BestOfK[2].Value, (1+0)/2.0)
	for i, want := range []int{4, 3, 2} {
		if r.PassK[i].Tasks != want || r.BestOfK[i].Tasks != want {
			t.Errorf("k = %d rests on %d and %d tasks", i+1, r.PassK[i].Tasks, r.BestOfK[i].Tasks)
		}
	}
	near(t, "agent a", r.Agents[0].Pass1.Value, (1+0.5+0.5+0)/4)
	near(t, "agent b", r.Agents[1].Pass1.Value, 0)
	if a := r.Agents[0]; a.Name != "a" || a.Candidates != 10 || a.Counted != 7 || a.Right != 4 || a.Chosen != 2 || a.MedianMS != 1000 || a.Spend.CostMicros != 1_250_000 || a.Spend.CostUnknown != 9 {
		t.Errorf("agent a: %+v", a)
	}
	if want := (Integrity{Infrastructure: 3, Cancelled: 2, Tampered: 1, Unknown: 1}); r.Integrity != want {
		t.Errorf("integrity %+v", r.Integrity)
	}
	if want := []Agreed{{1, 1, 0}, {2, 1, 1}}; !slices.Equal(r.Agreement, want) {
		t.Errorf("agreement %+v", r.Agreement)
	}
	if row := r.Rows[0]; row.Winner != 1 || row.WinnerRight != Right || row.Counted != 3 || row.Right != 2 || row.Changes != 2 || row.Spend.WallMS != 4000 || row.Spend.CandidateMS != 6000 {
		t.Errorf("row %+v", row)
	}
	if got := fmt.Sprint(r.Outcomes); got != "[{met 4} {unmet 2} {undecided 1} {empty 1} {tampered 1} {infrastructure 3} {cancelled 2}]" {
		t.Errorf("outcomes %s", got)
	}
	want := []string{
		"4 of 8 tasks are in no share: 1 pending, 1 whose base is not as the task says, 1 lost to infrastructure, 1 done without a candidate that had its chance.",
		"3 candidates were lost to infrastructure, which counts neither for nor against an agent.",
		"2 candidates were cancelled. Where that depended on how others went, as with --stop first, pass@k and the curves are biased.",
		"Of 1 candidate the tests say nothing, which counts as not right.",
		"1 candidate touched what decides, could have forged it, or left the shadow.",
	}
	if !slices.Equal(r.Notes, want) {
		t.Errorf("notes %q", r.Notes)
	}
}

// Agreement is the judge's: who may not be chosen has no vote.
func TestAgreementIsOfTheEligible(t *testing.T) {
	in := Input{Tasks: []Task{{ID: "a", State: Done, Winner: 1, Candidates: []Candidate{
		cand(1, "a", "met right", "x"), cand(2, "a", "tampered wrong", "x"), cand(3, "a", "met right", "x"), cand(4, "a", "met right", ""),
	}}, {ID: "b", State: Done, Winner: 4, Candidates: []Candidate{cand(4, "a", "met wrong", ""), cand(5, "a", "met wrong", "")}}}}
	if got, want := Build(in, Options{}).Agreement, []Agreed{{1, 1, 0}, {2, 1, 1}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// The estimator is the mean over all parts of k.
func TestPassAtKIsTheMeanOverSubsets(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				hits, all := 0, 0
				eachSubset(n, k, func(at []int) {
					all++
					if at[0] < c { // the first c are right, and at is sorted
						hits++
					}
				})
				if want, got := float64(hits)/float64(all), PassAtK(n, c, k); math.Abs(got-want) > 1e-12 {
					t.Errorf("PassAtK(%d, %d, %d) = %v, want %v", n, c, k, got, want)
				}
				if all != binomial(n, k, 1000) {
					t.Errorf("%d subsets of %d of %d", all, k, n)
				}
			}
		}
	}
	for _, bad := range [][3]int{{2, 1, 3}, {2, 3, 1}, {2, 1, 0}, {0, 0, 1}, {2, -1, 1}} {
		if v := PassAtK(bad[0], bad[1], bad[2]); !math.IsNaN(v) {
			t.Errorf("PassAtK%v = %v", bad, v)
		}
	}
}

// randomBatch is what nobody arranged.
func randomBatch(rng *rand.Rand, tasks, n int) Input {
	in := Input{Batch: "random", Candidates: n}
	words := []string{"met right", "met wrong", "unmet wrong", "undecided right", "empty unknown", "infrastructure", "tampered wrong", "cancelled"}
	for i := range tasks {
		t := Task{ID: fmt.Sprint("task-", i), State: Done}
		for c := range n {
			t.Candidates = append(t.Candidates, cand(c+1, fmt.Sprint("agent", c%2), words[rng.IntN(len(words))], fmt.Sprint(rng.IntN(3))))
		}
		var numbers []int
		for _, c := range t.Candidates {
			if c.counts() {
				numbers = append(numbers, c.Number)
			}
		}
		t.Winner = firstEligible(t, numbers)
		in.Tasks = append(in.Tasks, t)
	}
	return in
}

func TestLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		in := randomBatch(rng, 1+rng.IntN(20), 1+rng.IntN(6))
		o := Options{Seed: 7, Resamples: 50, Choose: firstEligible}
		r := Build(in, o)
		if r.Tasks.Graded == 0 {
			continue
		}
		if *r.BestOfN.Value > *r.OracleOfN.Value || *r.Pass1.Value > *r.OracleOfN.Value {
			t.Errorf("the oracle %v is below best-of-N %v or pass@1 %v", *r.OracleOfN.Value, *r.BestOfN.Value, *r.Pass1.Value)
		}
		for i, p := range r.PassK {
			if *r.BestOfK[i].Value > *p.Value+1e-12 {
				t.Errorf("best of %d is above pass@%d", p.K, p.K)
			}
			if p.Low != nil && (*p.Low < 0 || *p.High > 1 || *p.Low > *p.High) {
				t.Errorf("the interval of %v", p)
			}
		}
		if got := r.Choices.Right + r.Choices.Wrong + r.Choices.Missed + r.Choices.None; got != r.Tasks.Graded {
			t.Errorf("%d choices of %d tasks", got, r.Tasks.Graded)
		}
		// The order of tasks and candidates changes no number but those of draws.
		mixed := in
		mixed.Tasks = slices.Clone(in.Tasks)
		for i := range mixed.Tasks {
			mixed.Tasks[i].Candidates = slices.Clone(mixed.Tasks[i].Candidates)
			rng.Shuffle(len(mixed.Tasks[i].Candidates), func(a, b int) {
				c := mixed.Tasks[i].Candidates
				c[a], c[b] = c[b], c[a]
			})
		}
		if a, b := asJSON(t, r), asJSON(t, Build(mixed, o)); a != b {
			t.Errorf("another order of candidates gives\n%s\nnot\n%s", b, a)
		}
	}
}

func asJSON(t *testing.T, r Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A curve whose parts are drawn is near the one of all parts, and the same
// every time.
func TestDrawnSubsets(t *testing.T) {
	in := randomBatch(rand.New(rand.NewPCG(5, 6)), 200, 8)
	exact := Build(in, Options{Seed: 1, Resamples: 1, Choose: firstEligible})
	drawn := Build(in, Options{Seed: 1, Resamples: 1, Choose: firstEligible, MaxSubsets: 20})
	if asJSON(t, drawn) != asJSON(t, Build(in, Options{Seed: 1, Resamples: 1, Choose: firstEligible, MaxSubsets: 20})) {
		t.Error("not the same again")
	}
	for i := range exact.BestOfK {
		if d := math.Abs(*exact.BestOfK[i].Value - *drawn.BestOfK[i].Value); d > 0.05 {
			t.Errorf("k = %d: off by %v", i+1, d)
		}
	}
}

// The bootstrap's interval of a share is near the binomial one, and depends on
// nothing but the seed.
func TestIntervals(t *testing.T) {
	var in Input
	for i := range 400 {
		words := "unmet wrong"
		if i%4 == 0 {
			words = "met right"
		}
		in.Tasks = append(in.Tasks, Task{ID: fmt.Sprint(i), State: Done, Candidates: []Candidate{cand(1, "a", words, "")}})
	}
	r := Build(in, Options{Seed: 1})
	se := math.Sqrt(0.25 * 0.75 / 400)
	if math.Abs(*r.Pass1.Low-(0.25-1.96*se)) > 0.01 || math.Abs(*r.Pass1.High-(0.25+1.96*se)) > 0.01 {
		t.Errorf("interval %v to %v", *r.Pass1.Low, *r.Pass1.High)
	}
	if asJSON(t, r) != asJSON(t, Build(in, Options{Seed: 1})) {
		t.Error("the same seed gives other numbers")
	}
	if other := Build(in, Options{Seed: 2}); *other.Pass1.Low == *r.Pass1.Low && *other.Pass1.High == *r.Pass1.High {
		t.Error("another seed gives the same interval")
	}
}

func TestNothingIsNotZero(t *testing.T) {
	r := Build(Input{Tasks: []Task{{ID: "a"}}}, Options{})
	if r.Pass1.Value != nil || r.Pass1.Share() != "–" || r.Pass1.Interval() != "–" || len(r.PassK) != 0 {
		t.Errorf("%+v", r)
	}
	one := Build(Input{Tasks: []Task{{ID: "a", State: Done, Candidates: []Candidate{cand(1, "a", "met right", "")}}}}, Options{})
	if *one.Pass1.Value != 1 || one.Pass1.Low != nil || len(one.BestOfK) != 0 {
		t.Errorf("%+v", one)
	}
	// Lists of nothing are lists.
	empty := asJSON(t, Build(Input{}, Options{Choose: firstEligible}))
	for _, list := range []string{"pass_k", "best_of_k", "agents", "outcomes", "agreement", "rows", "notes"} {
		if !strings.Contains(empty, fmt.Sprintf("%q: []", list)) {
			t.Errorf("%s is no list in %s", list, empty)
		}
	}
}

// hazards: infrastructure is no vote. More of it changes no share.
func TestHazardsInfrastructureIsNoVote(t *testing.T) {
	in := randomBatch(rand.New(rand.NewPCG(8, 9)), 30, 5)
	o := Options{Seed: 1, Resamples: 50, Choose: rankChoose}
	before := Build(in, o)
	for i := range in.Tasks {
		in.Tasks[i].Candidates = append(in.Tasks[i].Candidates, cand(6, "agent0", "infrastructure", ""))
	}
	after := Build(in, o)
	for _, r := range []*Report{&before, &after} {
		for i := range r.Agents {
			r.Agents[i] = Agent{Name: r.Agents[i].Name, Counted: r.Agents[i].Counted, Right: r.Agents[i].Right, Pass1: r.Agents[i].Pass1, Chosen: r.Agents[i].Chosen}
		}
		r.Rows, r.Outcomes, r.Notes, r.Integrity, r.Spend = nil, nil, nil, Integrity{}, Spend{}
	}
	if a, b := asJSON(t, before), asJSON(t, after); a != b {
		t.Errorf("got\n%s\nnot\n%s", b, a)
	}
}

// Candidates that were only planned, of tasks that are invalid or still to do,
// are nobody's numbers and bias nothing.
func TestPlannedCandidatesAreNotCancelled(t *testing.T) {
	planned := func(id string, state State) Task {
		return Task{ID: id, State: state, Candidates: []Candidate{cand(1, "a", "cancelled", ""), cand(2, "a", "cancelled", "")}}
	}
	done := Task{ID: "d", State: Done, Winner: 1, Candidates: []Candidate{cand(1, "a", "met right", ""), cand(2, "a", "cancelled", "")}}
	r := Build(Input{Candidates: 2, Tasks: []Task{done, planned("i", Invalid), planned("p", Pending)}}, Options{Resamples: 1})
	if r.Integrity.Cancelled != 1 || r.Agents[0].Candidates != 2 || len(r.Outcomes) != 2 || r.Outcomes[1].Count != 1 {
		t.Errorf("%+v, %+v, %+v", r.Integrity, r.Agents, r.Outcomes)
	}
}

// Where the judge is not asked, its answer would have been the same.
func TestTheJudgeIsAskedOnlyWhereItMatters(t *testing.T) {
	in := randomBatch(rand.New(rand.NewPCG(10, 11)), 60, 6)
	asked := 0
	r := Build(in, Options{Resamples: 1, Choose: func(t Task, numbers []int) int { asked++; return rankChoose(t, numbers) }})
	for k := 1; k <= 6; k++ {
		sum, tasks := 0.0, 0
		for _, task := range in.Tasks {
			task.Candidates = slices.DeleteFunc(slices.Clone(task.Candidates), func(c Candidate) bool { return !c.counts() })
			if len(task.Candidates) < k {
				continue
			}
			right, all := 0, 0
			eachSubset(len(task.Candidates), k, func(at []int) {
				var numbers []int
				for _, i := range at {
					numbers = append(numbers, task.Candidates[i].Number)
				}
				winner := rankChoose(task, numbers)
				all++
				if i := slices.IndexFunc(task.Candidates, func(c Candidate) bool { return c.Number == winner && c.right() }); i >= 0 {
					right++
				}
			})
			sum, tasks = sum+float64(right)/float64(all), tasks+1
		}
		near(t, fmt.Sprint("best of ", k), r.BestOfK[k-1].Value, sum/float64(tasks))
	}
	if asked == 0 || asked > 60*63/2 {
		t.Errorf("asked %d times", asked)
	}
}

func TestMarkdown(t *testing.T) {
	in := sample()
	in.Batch = "de|mo\n# <b>"
	var b bytes.Buffer
	if err := Markdown(&b, Build(in, Options{Seed: 1, Choose: firstEligible})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Batch de\\|mo", "1 of 4 graded tasks solved", "Time of candidates 26s, tokens 1000+, cost $1.2500+. For each solved task: time 26s, cost $1.2500+.", "| oracle-of-N: any candidate is right | 75.0 % |", "| a | 10 | 7 | 4 | 50.0 % |", "$1.2500+", "| t1 | done | c1 | right | 2/3 | 2 | 4s | $1.2500+ |  |",
		"| t4 | done | – |  | 0/1 | 1 | 0s | not told | no candidate qualifies |", "| chose nobody, and somebody was right | 1 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	for i, l := range strings.Split(b.String(), "\n") {
		if strings.ContainsAny(l, "<>\x1b") || i > 0 && strings.HasPrefix(l, "# ") {
			t.Errorf("line %d: %s", i+1, l)
		}
	}
}

func TestMarkdownOfHostileText(t *testing.T) {
	for _, s := range []string{"<script>", "a|b", "[x](javascript:1)", "`x`", "\x1b[2J", "\u202e", "a\nb", "![x](//h)", "**x**"} {
		got := md(s)
		for _, bad := range []string{"<", "\n", "\x1b", "\u202e"} {
			if strings.Contains(got, bad) {
				t.Errorf("md(%q) = %q", s, got)
			}
		}
		for i, c := range got {
			if strings.ContainsRune("|[]`*!", c) && (i == 0 || got[i-1] != '\\') {
				t.Errorf("md(%q) = %q", s, got)
			}
		}
	}
}

func TestResults(t *testing.T) {
	var b bytes.Buffer
	if err := Results(&b, sample().Tasks); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 8 {
		t.Fatalf("%d lines", len(lines))
	}
	var got struct {
		Schema, ID, Instance string
		Winner               int
		WinnerRight          string `json:"winner_right"`
		Candidates           []map[string]any
	}
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != ResultSchema || got.ID != "t2" || got.Instance != "own/t2" || got.Winner != 1 || got.WinnerRight != "wrong" || len(got.Candidates) != 3 || got.Candidates[2]["right"] != "unknown" || got.Candidates[1]["tokens"] != nil {
		t.Errorf("%+v", got)
	}
}

func TestCSV(t *testing.T) {
	in := sample()
	in.Tasks[0].Candidates[0].Agent = "=cmd|'/c calc'!A1"
	in.Tasks[0].Candidates[1].Agent = "a\"b,\nc"
	var b bytes.Buffer
	if err := CSV(&b, in.Tasks); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+3*4+1+1+2 || !slices.Equal(rows[0], csvHeader) {
		t.Fatalf("%d rows: %q", len(rows), rows[0])
	}
	if want := []string{"t1", "done", "r1", "1", "'=cmd|'/c calc'!A1", "met", "right", "true", "true", "x", "1000", "1000", "1250000"}; !slices.Equal(rows[1], want) {
		t.Errorf("%q", rows[1])
	}
	if rows[2][4] != "a\"b,\nc" || rows[4][0] != "own/t2" || rows[16][0] != "t8" || rows[16][1] != "pending" || rows[16][3] != "" {
		t.Errorf("%q", rows)
	}
}

// The harness gets exactly the bytes that were verified, or nothing.
func TestPredictions(t *testing.T) {
	all := []Prediction{
		{"own__a-1", []byte("diff --git a/x b/x\n+<&>\u2028é\x01\n")}, {"own__a-2", nil}, {"own__a-3", []byte("+\xff\n")}, {"own__a-4", []byte("+x\r\n")},
	}
	yield := func(fail error) iter.Seq2[Prediction, error] {
		return func(yield func(Prediction, error) bool) {
			for _, p := range all {
				if !yield(p, nil) {
					return
				}
			}
			if fail != nil {
				yield(Prediction{}, fail)
			}
		}
	}
	var b bytes.Buffer
	left, err := Predictions(&b, "bestof", yield(nil))
	if err != nil || !slices.Equal(left, []string{"own__a-3"}) {
		t.Errorf("%v, %v", left, err)
	}
	d := json.NewDecoder(&b)
	for _, want := range []Prediction{all[0], all[1], all[3]} {
		var got map[string]string
		if err := d.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if len(got) != 3 || got["instance_id"] != want.Instance || got["model_name_or_path"] != "bestof" || got["model_patch"] != string(want.Patch) {
			t.Errorf("%q", got)
		}
	}
	if _, err := Predictions(io.Discard, "m", yield(io.ErrUnexpectedEOF)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteErrorsAreTold(t *testing.T) {
	r := Build(sample(), Options{})
	for name, err := range map[string]error{
		"json": JSON(broken{}, r), "markdown": Markdown(broken{}, r), "results": Results(broken{}, sample().Tasks), "csv": CSV(broken{}, sample().Tasks),
	} {
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWords(t *testing.T) {
	for ms, want := range map[int64]string{0: "0s", 850: "850ms", 4230: "4.2s", 190_000: "3m10s", 7_500_000: "2h5m0s"} {
		if got := Duration(ms); got != want {
			t.Errorf("Duration(%d) = %s, want %s", ms, got, want)
		}
	}
	if got := (Spend{CostMicros: 12_345_600}).CostWords(); got != "$12.3456" {
		t.Error(got)
	}
	if got := (Spend{TokensUnknown: 2, Tokens: 5}).TokenWords(); got != "5+" {
		t.Error(got)
	}
}

// rankChoose is the judge's own ranking over made-up sizes.
func rankChoose(t Task, numbers []int) int {
	var cs []judge.Contender
	for _, c := range t.Candidates {
		if slices.Contains(numbers, c.Number) {
			cs = append(cs, judge.Contender{Number: c.Number, Eligible: c.Eligible, Normalised: c.Change, Tree: c.Change})
		}
	}
	return judge.Rank(cs, nil).Winner
}

// BenchmarkReport makes every form of the report of 2,000 tasks × 8.
func BenchmarkReport(b *testing.B) {
	in := randomBatch(rand.New(rand.NewPCG(1, 1)), 2000, 8)
	for b.Loop() {
		r := Build(in, Options{Seed: 1, Choose: rankChoose})
		for _, err := range []error{JSON(io.Discard, r), Markdown(io.Discard, r), Results(io.Discard, in.Tasks), CSV(io.Discard, in.Tasks)} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
