package report

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

// PassAtK is the unbiased estimate of the probability that at least one of k
// candidates is right, from n of which c are: 1 - C(n-c,k)/C(n,k). It is NaN
// when fewer than k were tried. (Chen et al., "Evaluating Large Language Models
// Trained on Code", 2021.)
func PassAtK(n, c, k int) float64 {
	if k < 1 || n < k || c < 0 || c > n {
		return math.NaN()
	}
	none := 1.0
	for i := range k {
		if n-c-i <= 0 {
			return 1
		}
		none *= float64(n-c-i) / float64(n-i)
	}
	return 1 - none
}

// A table has one row for each graded task and one column for each number that
// is a mean over tasks; NaN is a task that does not tell.
type table struct {
	columns int
	cells   []float64
}

func (t table) rows() int { return len(t.cells) / t.columns }

// estimate fills in everything that is a mean over tasks.
func (r *Report) estimate(tasks []Task, o Options) {
	most := 0
	var graded []Task
	for _, t := range tasks {
		if t.graded() {
			t.Candidates = slices.DeleteFunc(slices.Clone(t.Candidates), func(c Candidate) bool { return !c.counts() })
			slices.SortFunc(t.Candidates, func(a, b Candidate) int { return a.Number - b.Number })
			graded = append(graded, t)
			most = max(most, len(t.Candidates))
		}
	}
	const firstCurve = 3
	t := table{columns: firstCurve + 2*most + len(r.Agents)}
	t.cells = make([]float64, t.columns*len(graded))
	for i, task := range graded {
		r.fill(t.cells[i*t.columns:(i+1)*t.columns], task, most, o)
	}
	all := t.estimates(o)
	r.Pass1, r.BestOfN, r.OracleOfN = all[0], all[1], all[2]
	for k := 1; k <= most; k++ {
		r.PassK = append(r.PassK, Point{k, all[firstCurve+k-1]})
		if o.Choose != nil {
			r.BestOfK = append(r.BestOfK, Point{k, all[firstCurve+most+k-1]})
		}
	}
	for i := range r.Agents {
		r.Agents[i].Pass1 = all[firstCurve+2*most+i]
	}
}

// fill makes one task's row of the table.
func (r *Report) fill(row []float64, t Task, most int, o Options) {
	n, c := len(t.Candidates), 0
	byAgent := map[string][2]int{}
	row[1] = 0
	for _, k := range t.Candidates {
		a := byAgent[k.Agent]
		a[0]++
		if k.right() {
			c++
			a[1]++
			if k.Number == t.Winner {
				row[1] = 1
			}
		}
		byAgent[k.Agent] = a
	}
	row[0] = PassAtK(n, c, 1)
	row[2] = PassAtK(n, c, n)
	for k := 1; k <= most; k++ {
		row[2+k] = PassAtK(n, c, k)
		row[2+most+k] = math.NaN()
		if o.Choose != nil && k <= n {
			row[2+most+k] = bestOf(t, k, o)
		}
	}
	for i, a := range r.Agents {
		row[3+2*most+i] = PassAtK(byAgent[a.Name][0], byAgent[a.Name][1], 1)
	}
}

// bestOf is how often the judge's choice among k of the task's candidates is
// right, over all choices of k, or over MaxSubsets of them drawn.
func bestOf(t Task, k int, o Options) float64 {
	n := len(t.Candidates)
	right, total := 0, 0
	part := make([]int, k)
	try := func(indexes []int) {
		total++
		if chosenIsRight(t, indexes, part, o.Choose) {
			right++
		}
	}
	if binomial(n, k, o.MaxSubsets) <= o.MaxSubsets {
		eachSubset(n, k, try)
	} else {
		// Of the task alone, so that another task changes nothing here.
		h := fnv.New64a()
		h.Write([]byte(t.ID))
		rng := rand.New(rand.NewPCG(o.Seed, h.Sum64()+uint64(k)))
		for range o.MaxSubsets {
			drawn := rng.Perm(n)[:k]
			slices.Sort(drawn)
			try(drawn)
		}
	}
	return float64(right) / float64(total)
}

// chosenIsRight asks the judge only where its choice matters.
func chosenIsRight(t Task, indexes, numbers []int, choose func(Task, []int) int) bool {
	eligible, right := 0, 0
	for i, at := range indexes {
		c := t.Candidates[at]
		numbers[i] = c.Number
		if c.Eligible {
			eligible++
			if c.right() {
				right++
			}
		}
	}
	if right == 0 || right == eligible {
		return right > 0
	}
	winner := choose(t, numbers)
	for _, at := range indexes {
		if t.Candidates[at].Number == winner {
			return t.Candidates[at].right()
		}
	}
	return false
}

// binomial is C(n, k), or something above limit.
func binomial(n, k, limit int) int {
	k = min(k, n-k)
	c := 1
	for i := 1; i <= k; i++ {
		if c = c * (n - k + i) / i; c > limit {
			return limit + 1
		}
	}
	return c
}

// eachSubset calls do with each k of 0…n-1, in lexical order.
func eachSubset(n, k int, do func([]int)) {
	at := make([]int, k)
	for i := range at {
		at[i] = i
	}
	for {
		do(at)
		i := k - 1
		for i >= 0 && at[i] == n-k+i {
			i--
		}
		if i < 0 {
			return
		}
		at[i]++
		for j := i + 1; j < k; j++ {
			at[j] = at[j-1] + 1
		}
	}
}

// estimates makes the mean of each column, and its interval by resampling
// tasks: the percentile bootstrap, one seeded stream of draws for all columns.
func (t table) estimates(o Options) []Estimate {
	out := make([]Estimate, t.columns)
	for c := range out {
		out[c] = t.mean(c)
	}
	n := t.rows()
	if n < 2 {
		return out
	}
	means := make([][]float64, t.columns)
	rng := rand.New(rand.NewPCG(o.Seed, 0x626f6f74))
	sums, counts := make([]float64, t.columns), make([]int, t.columns)
	for range o.Resamples {
		clear(sums)
		clear(counts)
		for range n {
			row := rng.IntN(n) * t.columns
			for c, v := range t.cells[row : row+t.columns] {
				if v == v { // not NaN
					sums[c] += v
					counts[c]++
				}
			}
		}
		for c := range sums {
			if counts[c] > 0 {
				means[c] = append(means[c], sums[c]/float64(counts[c]))
			}
		}
	}
	for c := range out {
		if out[c].Tasks > 1 {
			slices.Sort(means[c])
			low, high := quantile(means[c], (1-confidence)/2), quantile(means[c], (1+confidence)/2)
			out[c].Low, out[c].High = &low, &high
		}
	}
	return out
}

func (t table) mean(column int) Estimate {
	sum, n := 0.0, 0
	for i := column; i < len(t.cells); i += t.columns {
		if v := t.cells[i]; v == v {
			sum += v
			n++
		}
	}
	if n == 0 {
		return Estimate{}
	}
	mean := sum / float64(n)
	return Estimate{Value: &mean, Tasks: n}
}

// quantile is the nearest rank of sorted values.
func quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}
