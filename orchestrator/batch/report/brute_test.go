package report

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/candidate"
)

// TestCurvesByBruteForce: pass@k and best-of-k are the averages over all parts
// of k candidates, counted one by one, and the intervals are the quantiles of
// as many resampled means, drawn here once more from the same seed.
func TestCurvesByBruteForce(t *testing.T) {
	// The judge here takes the eligible candidate with the highest number.
	choose := func(_ Task, numbers []int) int { return slices.Max(numbers) }
	rapid.Check(t, func(t *rapid.T) {
		var tasks []Task
		for i := range rapid.IntRange(1, 5).Draw(t, "tasks") {
			task := Task{ID: fmt.Sprint("t", i), State: Done}
			for n := range rapid.IntRange(1, 6).Draw(t, "candidates") {
				c := Candidate{Number: n + 1, Agent: "a", Outcome: candidate.Unmet, Right: Wrong}
				if rapid.Bool().Draw(t, "right") {
					c.Outcome, c.Right = candidate.Met, Right
				}
				// Eligible are all, so the judge may choose a wrong one.
				c.Eligible = true
				task.Candidates = append(task.Candidates, c)
			}
			tasks = append(tasks, task)
		}
		o := Options{Seed: rapid.Uint64().Draw(t, "seed"), Resamples: 40, MaxSubsets: 1000, Choose: func(task Task, numbers []int) int { return choose(task, numbers) }}
		r := Build(Input{Tasks: tasks, Candidates: 6}, o)
		most := len(slices.MaxFunc(tasks, func(a, b Task) int { return len(a.Candidates) - len(b.Candidates) }).Candidates)
		if len(r.PassK) != most || len(r.BestOfK) != most {
			t.Fatalf("%d and %d points for %d", len(r.PassK), len(r.BestOfK), most)
		}
		for k := 1; k <= most; k++ {
			pass, best := make([]float64, len(tasks)), make([]float64, len(tasks))
			for i, task := range tasks {
				pass[i], best[i] = overParts(task, k, choose)
			}
			for name, got := range map[string]struct {
				Estimate
				each []float64
			}{"pass": {r.PassK[k-1].Estimate, pass}, "best": {r.BestOfK[k-1].Estimate, best}} {
				mean, n := meanOf(got.each)
				if got.Tasks != n || got.Value == nil || math.Abs(*got.Value-mean) > 1e-9 {
					t.Fatalf("%s@%d: %+v, want %v over %d tasks", name, k, got.Estimate, mean, n)
				}
				low, high := bootstrapped(got.each, o)
				if (got.Low == nil) != (n < 2) || n > 1 && (math.Abs(*got.Low-low) > 1e-9 || math.Abs(*got.High-high) > 1e-9) {
					t.Fatalf("%s@%d: %v to %v, want %v to %v", name, k, got.Low, got.High, low, high)
				}
			}
		}
	})
}

// overParts is how often one of k candidates is right, and how often the one
// that is chosen of them is; NaN where there are not so many.
func overParts(task Task, k int, choose func(Task, []int) int) (pass, best float64) {
	parts := 0.0
	for mask := range uint(1) << len(task.Candidates) {
		if bits.OnesCount(mask) != k {
			continue
		}
		parts++
		var numbers []int
		any := false
		for i, c := range task.Candidates {
			if mask&(1<<i) != 0 {
				numbers = append(numbers, c.Number)
				any = any || c.Right == Right
			}
		}
		if any {
			pass++
		}
		if task.Candidates[choose(task, numbers)-1].Right == Right {
			best++
		}
	}
	return pass / parts, best / parts // 0/0 is NaN
}

func meanOf(each []float64) (mean float64, n int) {
	sum := 0.0
	for _, v := range each {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / float64(n), n
}

// bootstrapped draws all tasks again and again, and reads the interval off the
// sorted means.
func bootstrapped(each []float64, o Options) (low, high float64) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x626f6f74))
	var means []float64
	for range o.Resamples {
		var drawn []float64
		for range each {
			drawn = append(drawn, each[rng.IntN(len(each))])
		}
		if mean, n := meanOf(drawn); n > 0 {
			means = append(means, mean)
		}
	}
	if len(means) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(means)
	at := func(q float64) float64 {
		return means[min(len(means)-1, max(0, int(math.Ceil(q*float64(len(means))))-1))]
	}
	return at(0.025), at(0.975)
}
