// Package report sums up what jobs did in a stretch of time: for people in the
// morning. It is pure.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Schema names the version of Report. Fields are only ever added to it.
const Schema = "bestof.job-report/1"

// A Run is one run of a job.
type Run struct {
	ID       int64     `json:"run"`
	Job      string    `json:"job"`
	Instant  time.Time `json:"instant"`
	Attempt  int       `json:"attempt"`
	Manual   bool      `json:"manual"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`   // zero while it goes on
	Outcome  string    `json:"outcome"` // "" while it goes on
	Reason   string    `json:"reason"`
	Branch   string    `json:"branch,omitempty"`
	Patches  []string  `json:"patches,omitempty"`
	Record   string    `json:"record"`
	MicroUSD int64     `json:"micro_usd"`
	Tokens   int64     `json:"tokens"`
	Notes    []string  `json:"notes,omitempty"`
}

// Took is how long a run took, up to now while it goes on.
func (r Run) Took(now time.Time) time.Duration {
	end := r.Ended
	if end.IsZero() {
		end = now
	}
	return max(0, end.Sub(r.Started)).Round(100 * time.Millisecond)
}

// A Skip is fires that did not come to run.
type Skip struct {
	Job     string    `json:"job"`
	Instant time.Time `json:"instant"`
	Through time.Time `json:"through"`
	Count   int       `json:"count"`
	Waiting bool      `json:"waiting"` // it may still run
	Reason  string    `json:"reason"`
}

// A Next is when a job fires.
type Next struct {
	Job string    `json:"job"`
	At  time.Time `json:"at"`
}

// A Total sums up runs.
type Total struct {
	Runs     int   `json:"runs"`
	Won      int   `json:"won"`
	NoWinner int   `json:"no_winner"`
	Failed   int   `json:"failed"` // every other way to end
	Going    int   `json:"going"`
	Skipped  int   `json:"skipped"` // fires
	MicroUSD int64 `json:"micro_usd"`
	Tokens   int64 `json:"tokens"`
	WallMS   int64 `json:"wall_ms"`
}

// A Job is what one job did.
type Job struct {
	Name  string `json:"name"`
	Total Total  `json:"total"`
	Last  string `json:"last"` // outcome of its last run that ended
}

// A Report is the whole.
type Report struct {
	Schema string    `json:"schema"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Total  Total     `json:"total"`
	Jobs   []Job     `json:"jobs"`     // by name
	Runs   []Run     `json:"runs"`     // the latest first
	Skips  []Skip    `json:"skips"`    // the latest first
	Next   []Next    `json:"next"`     // by time
	Left   bool      `json:"left_out"` // there were more than fit
}

// The outcomes that are counted by name; see schedule.Outcome.
const (
	won      = "won"
	noWinner = "no-winner"
)

// Make sums up. runs and skips may be in any order.
func Make(from, to time.Time, runs []Run, skips []Skip, next []Next, left bool) Report {
	r := Report{Schema: Schema, From: from, To: to, Jobs: []Job{}, Runs: slices.Clone(runs), Skips: slices.Clone(skips), Next: slices.Clone(next), Left: left}
	if r.Runs == nil {
		r.Runs = []Run{}
	}
	if r.Skips == nil {
		r.Skips = []Skip{}
	}
	if r.Next == nil {
		r.Next = []Next{}
	}
	slices.SortFunc(r.Runs, func(a, b Run) int { return cmp.Compare(b.ID, a.ID) })
	slices.SortStableFunc(r.Skips, func(a, b Skip) int { return cmp.Or(b.Instant.Compare(a.Instant), cmp.Compare(a.Job, b.Job)) })
	slices.SortStableFunc(r.Next, func(a, b Next) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Job, b.Job)) })
	of := map[string]*Job{}
	job := func(name string) *Job {
		if of[name] == nil {
			of[name] = &Job{Name: name}
		}
		return of[name]
	}
	for _, run := range r.Runs {
		j := job(run.Job)
		if j.Last == "" {
			j.Last = run.Outcome
		}
		for _, t := range []*Total{&r.Total, &j.Total} {
			t.add(run, to)
		}
	}
	for _, s := range r.Skips {
		if !s.Waiting {
			r.Total.Skipped += max(1, s.Count)
			job(s.Job).Total.Skipped += max(1, s.Count)
		}
	}
	for _, j := range of {
		r.Jobs = append(r.Jobs, *j)
	}
	slices.SortFunc(r.Jobs, func(a, b Job) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

func (t *Total) add(r Run, now time.Time) {
	t.Runs++
	switch r.Outcome {
	case "":
		t.Going++
	case won:
		t.Won++
	case noWinner:
		t.NoWinner++
	default:
		t.Failed++
	}
	t.MicroUSD += r.MicroUSD
	t.Tokens += r.Tokens
	t.WallMS += r.Took(now).Milliseconds()
}

// Good says of an outcome whether it is good (1), neither (0) or bad (-1).
func Good(outcome string) int {
	switch outcome {
	case won:
		return 1
	case noWinner, "", "replaced", "interrupted":
		return 0
	}
	return -1
}

// Words are a total in one line.
func (t Total) Words() string {
	text := count(t.Runs, "run", "runs")
	for _, p := range []struct {
		n    int
		text string
	}{{t.Won, "won"}, {t.NoWinner, "without a winner"}, {t.Failed, "failed"}, {t.Going, "going on"}} {
		if p.n > 0 {
			text += fmt.Sprintf(", %d %s", p.n, p.text)
		}
	}
	if t.Skipped > 0 {
		text += ", " + count(t.Skipped, "fire skipped", "fires skipped")
	}
	return text
}

// Spend is what a total used, in words.
func (t Total) Spend() string {
	return fmt.Sprintf("%s, %s, %s", (time.Duration(t.WallMS) * time.Millisecond).Round(time.Second), count(int(t.Tokens), "token", "tokens"), Dollars(t.MicroUSD))
}

// Dollars writes an amount.
func Dollars(micro int64) string { return fmt.Sprintf("$%.2f", float64(micro)/1e6) }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
