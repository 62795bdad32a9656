package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = utc("2026-11-30T12:00:00Z")

func someJob(name string, change ...func(*Job)) Job {
	j := Job{
		Name: name, Trigger: Trigger{Kind: Every, Every: time.Hour, From: noon}, Command: []string{"run", "mend it"}, Repository: "/r/" + name,
		Policy: DefaultPolicy(), Result: DefaultResult(), Created: noon, Revision: 1,
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

func stateOf(t testing.TB, j Job, change ...func(*JobState)) JobState {
	t.Helper()
	when, err := Compile(j.Trigger)
	if err != nil {
		t.Fatal(err)
	}
	s := JobState{Job: j, When: when, Seen: j.Created}
	for _, c := range change {
		c(&s)
	}
	return s
}

// print writes a decision for tables.
func (d Decision) print() string {
	clock := func(t time.Time) string { return t.UTC().Format("15:04:05") }
	switch d.Act {
	case Wait:
		if d.Until.IsZero() {
			return "wait"
		}
		return "wait until " + clock(d.Until)
	case Stop:
		return fmt.Sprintf("stop run %d of %s as %s: %s", d.Run, d.Job, d.Outcome, d.Reason.Code)
	case Rewind:
		return fmt.Sprintf("rewind %s to %s", d.Job, clock(d.Until))
	}
	text := fmt.Sprintf("%s %s %s", d.Act, d.Job, clock(d.Fire.Instant))
	if d.Fire.Count > 1 {
		text += fmt.Sprintf(" and %d more through %s", d.Fire.Count-1, clock(d.Fire.Through))
	}
	if d.Act == Start {
		text += fmt.Sprintf(" #%d with %d places", d.Fire.Attempt, d.Places)
		if d.Allowed != (Budget{}) {
			text += fmt.Sprintf(", %s, %d tokens, %v", dollars(d.Allowed.MicroUSD), d.Allowed.Tokens, d.Allowed.Wall)
		}
	}
	return text + ": " + string(d.Reason.Code)
}

func TestDecide(t *testing.T) {
	policy := func(change func(*Policy)) func(*Job) { return func(j *Job) { change(&j.Policy) } }
	overlap := func(o Overlap) func(*Job) { return policy(func(p *Policy) { p.Overlap = o }) }
	missed := func(m MissedMode) func(*Job) { return policy(func(p *Policy) { p.Missed.Mode = m }) }
	runs := func(r Run) func(*JobState) {
		return func(s *JobState) {
			r.Job, r.Instant, r.Places = s.Job.Name, noon, max(1, r.Places)
			if r.Started.IsZero() {
				r.Started = noon.Add(50 * time.Minute)
			}
			r.ID = 7
			s.Running = append(s.Running, r)
		}
	}
	waits := func(f Fire) func(*JobState) {
		return func(s *JobState) {
			f.Job, f.State, f.Count = s.Job.Name, FireWaiting, 1
			if f.After.IsZero() {
				f.After = f.Instant
			}
			s.Waiting = append(s.Waiting, f)
		}
	}
	asked := Fire{Instant: noon.Add(time.Minute), Manual: true, Reason: Reason{ByHand, "somebody asked for it"}}
	hour := func(h float64) time.Time { return noon.Add(time.Duration(h * float64(time.Hour))) }
	for name, x := range map[string]struct {
		jobs []JobState
		also func(*State)
		at   time.Time
		want string
	}{
		"nothing yet":               {[]JobState{stateOf(t, someJob("a"))}, nil, hour(0.5), "wait until 13:00:00"},
		"its time came":             {[]JobState{stateOf(t, someJob("a"))}, nil, hour(1), "enqueue a 13:00:00: time\nstart a 13:00:00 #1 with 1 places: time\nwait until 14:00:00"},
		"the runner ends":           {[]JobState{stateOf(t, someJob("a"))}, func(s *State) { s.Draining = true }, hour(1), "wait"},
		"overlap skip":              {[]JobState{stateOf(t, someJob("a"), runs(Run{}))}, nil, hour(1), "skip a 13:00:00: overlap\nwait until 13:50:00"},
		"overlap queue":             {[]JobState{stateOf(t, someJob("a", overlap(OverlapQueue)), runs(Run{}))}, nil, hour(1), "enqueue a 13:00:00: time\nhold a 13:00:00: overlap\nwait until 13:50:00"},
		"the queue is full":         {[]JobState{stateOf(t, someJob("a", overlap(OverlapQueue)), runs(Run{}), waits(Fire{Instant: hour(0.9), Reason: Reason{ByOverlap, "run 7, of 2026-11-30 12:00 UTC, is not over"}}))}, nil, hour(1), "skip a 13:00:00: queue\nwait until 13:50:00"},
		"overlap replace":           {[]JobState{stateOf(t, someJob("a", overlap(OverlapReplace)), runs(Run{}), waits(Fire{Instant: hour(0.9)}))}, nil, hour(1), "skip a 12:54:00: replace\nstop run 7 of a as replaced: replace\nenqueue a 13:00:00: time\nhold a 13:00:00: overlap\nwait until 13:50:00"},
		"what ends is left":         {[]JobState{stateOf(t, someJob("a", overlap(OverlapReplace)), runs(Run{Stopping: true}))}, nil, hour(1), "enqueue a 13:00:00: time\nhold a 13:00:00: overlap\nwait until 14:00:00"},
		"missed once":               {[]JobState{stateOf(t, someJob("a"))}, nil, hour(5.5), "skip a 13:00:00 and 3 more through 16:00:00: missed\nenqueue a 17:00:00: missed\nstart a 17:00:00 #1 with 1 places: missed\nwait until 18:00:00"},
		"missed, and one is timely": {[]JobState{stateOf(t, someJob("a"))}, nil, hour(3.01), "skip a 13:00:00 and 1 more through 14:00:00: missed\nenqueue a 15:00:00: time\nstart a 15:00:00 #1 with 1 places: time\nwait until 16:00:00"},
		"missed skip":               {[]JobState{stateOf(t, someJob("a", missed(MissedSkip)))}, nil, hour(3.5), "skip a 13:00:00 and 2 more through 15:00:00: missed\nwait until 16:00:00"},
		"missed all up to 3":        {[]JobState{stateOf(t, someJob("a", missed(MissedAll)))}, nil, hour(5.5), "skip a 13:00:00 and 1 more through 14:00:00: missed\nenqueue a 15:00:00: missed\nenqueue a 16:00:00: missed\nenqueue a 17:00:00: missed\nstart a 15:00:00 #1 with 1 places: missed\nhold a 16:00:00: overlap\nhold a 17:00:00: overlap\nwait until 18:00:00"},
		"beyond the horizon":        {[]JobState{stateOf(t, someJob("a", policy(func(p *Policy) { p.Missed.Horizon = 2 * time.Hour })))}, nil, hour(5.5), "skip a 13:00:00 and 2 more through 15:00:00: horizon\nskip a 16:00:00: missed\nenqueue a 17:00:00: missed\nstart a 17:00:00 #1 with 1 places: missed\nwait until 18:00:00"},
		"it waited too long":        {[]JobState{stateOf(t, someJob("a"), waits(Fire{Instant: hour(-200)}))}, nil, hour(0.5), "skip a 04:00:00: horizon\nwait until 13:00:00"},
		"paused":                    {[]JobState{stateOf(t, someJob("a", func(j *Job) { j.Paused = true }), waits(Fire{Instant: hour(0.9)}), waits(asked))}, nil, hour(2), "skip a 13:00:00 and 1 more through 14:00:00: pause\nstart a 12:01:00 #1 with 1 places: hand\nskip a 12:54:00: pause\nwait"},
		"asked for":                 {[]JobState{stateOf(t, someJob("a"), waits(asked))}, nil, hour(0.5), "start a 12:01:00 #1 with 1 places: hand\nwait until 13:00:00"},
		"asked for, while it runs":  {[]JobState{stateOf(t, someJob("a"), runs(Run{}), waits(asked))}, nil, hour(0.9), "hold a 12:01:00: overlap\nwait until 13:00:00"},
		"a retry waits":             {[]JobState{stateOf(t, someJob("a"), waits(Fire{Instant: noon, Attempt: 1, After: hour(0.6)}))}, nil, hour(0.5), "wait until 12:36:00"},
		"a retry begins":            {[]JobState{stateOf(t, someJob("a"), waits(Fire{Instant: noon, Attempt: 1, After: hour(0.6)}))}, nil, hour(0.6), "start a 12:00:00 #2 with 1 places: retry\nwait until 13:00:00"},
		"a retry, clock set back":   {[]JobState{stateOf(t, someJob("a"), waits(Fire{Instant: noon, Attempt: 1, After: hour(9)}))}, nil, hour(0.5), "start a 12:00:00 #2 with 1 places: retry\nwait until 13:00:00"},
		"another's lock":            {[]JobState{stateOf(t, someJob("a"))}, func(s *State) { s.Locked = map[string]string{"/r/a": "process 3"} }, hour(1), "enqueue a 13:00:00: time\nhold a 13:00:00: lock\nwait until 14:00:00"},
		"one repository": {[]JobState{stateOf(t, someJob("a", func(j *Job) { j.Repository = "/r" })), stateOf(t, someJob("b", func(j *Job) { j.Repository = "/r" })), stateOf(t, someJob("c", func(j *Job) { j.Repository, j.Policy.Share = "/r", true }))}, nil, hour(1),
			"enqueue a 13:00:00: time\nenqueue b 13:00:00: time\nenqueue c 13:00:00: time\nstart a 13:00:00 #1 with 1 places: time\nhold b 13:00:00: lock\nstart c 13:00:00 #1 with 1 places: time\nwait until 14:00:00"},
		"the limit": {[]JobState{stateOf(t, someJob("a", policy(func(p *Policy) { p.Candidates = 3 }))), stateOf(t, someJob("b", policy(func(p *Policy) { p.Candidates = 9 }))), stateOf(t, someJob("c"))}, func(s *State) { s.Limit.Candidates, s.Taken = 5, 1 }, hour(1),
			"enqueue a 13:00:00: time\nenqueue b 13:00:00: time\nenqueue c 13:00:00: time\nstart a 13:00:00 #1 with 3 places: time\nhold b 13:00:00: limit\nhold c 13:00:00: limit\nwait until 14:00:00"},
		"more than the limit": {[]JobState{stateOf(t, someJob("b", policy(func(p *Policy) { p.Candidates = 9 })))}, func(s *State) { s.Limit.Candidates = 5 }, hour(1), "enqueue b 13:00:00: time\nstart b 13:00:00 #1 with 5 places: time\nwait until 14:00:00"},
		"the month is spent":  {[]JobState{stateOf(t, someJob("a", policy(func(p *Policy) { p.PerMonth.MicroUSD = 5e6 })), func(s *JobState) { s.Spent.MicroUSD = 5e6 })}, nil, hour(1), "enqueue a 13:00:00: time\nskip a 13:00:00: month\nwait until 14:00:00"},
		"what the month leaves": {[]JobState{stateOf(t, someJob("a", policy(func(p *Policy) {
			p.PerMonth, p.PerRun = Budget{5e6, 1000, time.Hour}, Budget{2e6, 100, 0}
		})), func(s *JobState) { s.Spent = Budget{4_500_000, 100, time.Minute} })}, nil, hour(1),
			"enqueue a 13:00:00: time\nstart a 13:00:00 #1 with 1 places, $0.50, 100 tokens, 59m0s: time\nwait until 14:00:00"},
		"too long":        {[]JobState{stateOf(t, someJob("a"), runs(Run{Started: hour(-5.5), Output: hour(0.4)}))}, nil, hour(0.5), "stop run 7 of a as timed-out: timeout\nwait until 13:00:00"},
		"quiet":           {[]JobState{stateOf(t, someJob("a"), runs(Run{Started: hour(-3), Output: hour(-0.6)}))}, nil, hour(0.5), "stop run 7 of a as quiet: quiet\nwait until 13:00:00"},
		"it still speaks": {[]JobState{stateOf(t, someJob("a"), runs(Run{Started: hour(-3), Output: hour(-0.4)}))}, nil, hour(0.5), "wait until 12:36:00"},
		"too dear":        {[]JobState{stateOf(t, someJob("a"), runs(Run{Allowed: Budget{MicroUSD: 5}, Used: Budget{MicroUSD: 6}}))}, nil, hour(0.9), "stop run 7 of a as over-budget: budget\nwait until 13:00:00"},
		"too much":        {[]JobState{stateOf(t, someJob("a"), runs(Run{Allowed: Budget{Tokens: 5}, Used: Budget{Tokens: 6}}))}, nil, hour(0.9), "stop run 7 of a as over-budget: budget\nwait until 13:00:00"},
		"wall is spent":   {[]JobState{stateOf(t, someJob("a"), runs(Run{Allowed: Budget{Wall: 2 * time.Minute}}))}, nil, hour(0.9), "stop run 7 of a as over-budget: budget\nwait until 13:00:00"},
		"set back a bit":  {[]JobState{stateOf(t, someJob("a"), func(s *JobState) { s.Seen = hour(3) })}, nil, hour(0.5), "wait until 16:00:00"},
		"set back much":   {[]JobState{stateOf(t, someJob("a"), func(s *JobState) { s.Seen, s.Ahead = hour(30), []time.Time{hour(1), hour(30)} })}, nil, hour(0.5), "rewind a to 12:30:00\nwait until 13:00:00"},
		"set back, again": {[]JobState{stateOf(t, someJob("a"), func(s *JobState) { s.Seen, s.Ahead = hour(0.5), []time.Time{hour(1)} })}, nil, hour(1), "wait until 14:00:00"},
	} {
		s := State{Jobs: x.jobs}
		if x.also != nil {
			x.also(&s)
		}
		var got []string
		for _, d := range Decide(s, x.at) {
			got = append(got, d.print())
		}
		if text := strings.Join(got, "\n"); text != x.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, text, x.want)
		}
	}
}

// TestJitterPutsOff: always by the same, and never by more than it says.
func TestJitterPutsOff(t *testing.T) {
	j := someJob("a", func(j *Job) { j.Policy.Jitter = 30 * time.Minute })
	by := Offset("a", 30*time.Minute)
	if by <= 0 || by >= 30*time.Minute || by != Offset("a", 30*time.Minute) || Offset("a", 0) != 0 {
		t.Fatalf("put off by %v", by)
	}
	early := Decide(State{Jobs: []JobState{stateOf(t, j)}}, noon.Add(time.Hour+by-time.Second))
	if len(early) != 1 || !early[0].Until.Equal(noon.Add(time.Hour+by)) {
		t.Errorf("early: %+v", early)
	}
	if d := Decide(State{Jobs: []JobState{stateOf(t, j)}}, noon.Add(time.Hour+by)); len(d) != 3 || d[1].Act != Start {
		t.Errorf("in time: %+v", d)
	}
	spread := map[time.Duration]bool{}
	for i := range 200 {
		spread[Offset(fmt.Sprintf("job-%d", i), 10*time.Minute)/time.Minute] = true
	}
	if len(spread) != 10 {
		t.Errorf("200 jobs are put off by %d different minutes of 10", len(spread))
	}
}

func TestBackoff(t *testing.T) {
	r := Retry{Most: 9, First: time.Minute, Longest: 10 * time.Minute}
	for n, most := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 4: 8 * time.Minute, 5: 10 * time.Minute, 1000: 10 * time.Minute} {
		if got := Backoff(r, n, "x"); got > most || got < most*3/4 || got != Backoff(r, n, "x") {
			t.Errorf("retry %d after %v", n, got)
		}
	}
	if Backoff(r, 3, "x") == Backoff(r, 3, "y") {
		t.Error("all wait for the same time")
	}
}

func TestSettle(t *testing.T) {
	f := Fire{Job: "a", Instant: noon, Attempt: 1, State: FireRunning}
	for outcome, again := range map[Outcome]bool{Won: false, NoWinner: false, TimedOut: false, OverBudget: false, Refused: false, Infrastructure: true, Misused: false, Broken: false, Interrupted: false, Quiet: false, Replaced: false, Lost: true} {
		got := Settle(DefaultPolicy(), f, outcome, noon)
		if want := map[bool]FireState{true: FireWaiting, false: FireDone}[again]; got.State != want || again && (got.Reason.Code != ByRetry || !got.After.After(noon)) {
			t.Errorf("%s: %+v", outcome, got)
		}
	}
	f.Attempt = 3
	if got := Settle(DefaultPolicy(), f, Lost, noon); got.State != FireDone {
		t.Errorf("after two retries: %+v", got)
	}
	for status, want := range map[int]Outcome{0: Won, 1: Broken, 2: Misused, 3: NoWinner, 4: TimedOut, 5: OverBudget, 6: Refused, 7: Infrastructure, 130: Interrupted, 137: Broken, -1: Broken} {
		if got := OutcomeOf(status); got != want {
			t.Errorf("status %d: %s", status, got)
		}
	}
}

func TestMonth(t *testing.T) {
	zone, err := Zone("Pacific/Auckland")
	if err != nil {
		t.Fatal(err)
	}
	from, to := Month(utc("2026-12-31T12:00:00Z"), zone)
	if !from.Equal(utc("2026-12-31T11:00:00Z")) || !to.Equal(utc("2027-01-31T11:00:00Z")) {
		t.Errorf("%v to %v", from, to)
	}
}

// A memory does what decisions say, and holds them to what they promise.
type memory struct {
	state  State
	fires  map[string]map[int64]Fire // by job and instant, or its negative for one by hand
	runs   int64
	starts []Fire
}

func (m *memory) job(name string) *JobState {
	return &m.state.Jobs[slices.IndexFunc(m.state.Jobs, func(j JobState) bool { return j.Job.Name == name })]
}

func key(f Fire) int64 {
	if f.Manual {
		return -f.Instant.UnixMilli()
	}
	return f.Instant.UnixMilli()
}

func (m *memory) apply(fatal func(string, ...any), now time.Time) (wake time.Time) {
	for i := range m.state.Jobs {
		j := &m.state.Jobs[i]
		j.Ahead = nil
		for _, f := range m.fires[j.Job.Name] {
			if (f.Instant.After(now) || f.Instant.After(j.Seen)) && !f.Manual && f.State != FireSkipped {
				j.Ahead = append(j.Ahead, f.Instant)
			}
		}
	}
	for _, d := range Decide(m.state, now) {
		if d.Act != Wait && (d.Reason.Code == "" || d.Reason.Detail == "" || strings.Contains(d.Reason.Detail, "\n")) {
			fatal("no reason: %+v", d)
		}
		switch d.Act {
		case Wait:
			return d.Until
		case Rewind:
			m.job(d.Job).Seen = d.Until
		case Stop:
			for i := range m.job(d.Job).Running {
				if r := &m.job(d.Job).Running[i]; r.ID == d.Run {
					if r.Stopping {
						fatal("stopped twice: %+v", d)
					}
					r.Stopping = true
				}
			}
		default:
			m.fire(fatal, d, now)
		}
	}
	fatal("the last decision is not to wait")
	return wake
}

func (m *memory) fire(fatal func(string, ...any), d Decision, now time.Time) {
	j, f := m.job(d.Job), d.Fire
	at := slices.IndexFunc(j.Waiting, func(w Fire) bool { return key(w) == key(f) })
	old, known := m.fires[d.Job][key(f)]
	switch {
	case d.Act == Enqueue && known && old.State != FireSkipped, d.Act == Skip && known && old.State != FireWaiting && old.State != FireSkipped:
		fatal("two fires of one instant: %+v, after %+v", d, old)
	case d.Act == Start && (!known || at < 0), d.Act == Hold && at < 0:
		fatal("nothing of the kind waits: %+v", d)
	case d.Act == Start && slices.ContainsFunc(m.starts, func(s Fire) bool { return s.Job == f.Job && key(s) == key(f) && s.Attempt == f.Attempt }):
		fatal("begun twice: %+v", d)
	case f.Instant.After(now) && !f.Manual && !known:
		fatal("early: %+v at %v", d, now)
	}
	if !f.Manual && (d.Act == Enqueue || d.Act == Skip) {
		for _, t := range []time.Time{f.Instant, f.Through} {
			if t.After(j.Seen) {
				j.Seen = t
			}
		}
	}
	if at >= 0 {
		j.Waiting = slices.Delete(slices.Clone(j.Waiting), at, at+1)
	}
	switch d.Act {
	case Enqueue, Hold:
		j.Waiting = append(j.Waiting, f)
		slices.SortFunc(j.Waiting, func(a, b Fire) int { return a.Instant.Compare(b.Instant) })
	case Start:
		m.runs++
		m.starts = append(m.starts, f)
		j.Running = append(slices.Clone(j.Running), Run{ID: m.runs, Job: d.Job, Manual: f.Manual, Instant: f.Instant, Attempt: f.Attempt, Started: now, Places: d.Places, Allowed: d.Allowed})
		m.hold(fatal)
	}
	m.fires[d.Job][key(f)] = f
}

// hold checks the limits after something began.
func (m *memory) hold(fatal func(string, ...any)) {
	places, locks := m.state.Taken, map[string]int{}
	for _, j := range m.state.Jobs {
		if len(j.Running) > 1 {
			fatal("job %s runs twice", j.Job.Name)
		}
		for _, r := range j.Running {
			places += r.Places
			if !j.Job.Policy.Share {
				locks[j.Job.Repository]++
			}
			if m := j.Job.Policy.PerMonth.Tokens; m > 0 && (r.Allowed.Tokens <= 0 || j.Spent.Tokens+r.Allowed.Tokens > m) {
				fatal("job %s may use %d tokens, and %d of %d are spent", j.Job.Name, r.Allowed.Tokens, j.Spent.Tokens, m)
			}
		}
	}
	if most := m.state.Limit.Candidates; most > 0 && places > most {
		fatal("%d candidates run at once", places)
	}
	for repository, n := range locks {
		if n > 1 {
			fatal("%d runs on %s", n, repository)
		}
	}
}

func (m *memory) end(r Run, outcome Outcome, used int64, now time.Time) {
	j := m.job(r.Job)
	j.Running = slices.DeleteFunc(slices.Clone(j.Running), func(x Run) bool { return x.ID == r.ID })
	j.Spent.Tokens += used
	f := m.fires[r.Job][key(Fire{Manual: r.Manual, Instant: r.Instant})]
	f = Settle(j.Job.Policy, f, outcome, now)
	m.fires[r.Job][key(f)] = f
	if f.State == FireWaiting {
		j.Waiting = append(j.Waiting, f)
		slices.SortFunc(j.Waiting, func(a, b Fire) int { return a.Instant.Compare(b.Instant) })
	}
}

func newMemory(jobs ...JobState) *memory {
	m := &memory{state: State{Jobs: jobs}, fires: map[string]map[int64]Fire{}}
	for _, j := range jobs {
		m.fires[j.Job.Name] = map[int64]Fire{}
	}
	return m
}

// TestDecisionsKeepTheirPromises drives random jobs with a clock that jumps
// both ways: no instant fires twice, nothing begins beyond a limit, everything
// that is skipped has a reason, and no instant that passed is without a word.
func TestDecisionsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []JobState
		for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
			j := someJob(fmt.Sprintf("j%d", i), func(j *Job) {
				j.Repository = rapid.SampledFrom([]string{"/r", "/s"}).Draw(t, "repository")
				p := &j.Policy
				p.Overlap = rapid.SampledFrom([]Overlap{OverlapSkip, OverlapQueue, OverlapReplace}).Draw(t, "overlap")
				p.Queue = rapid.IntRange(1, 3).Draw(t, "queue")
				p.Missed.Mode = rapid.SampledFrom([]MissedMode{MissedOnce, MissedSkip, MissedAll}).Draw(t, "missed")
				p.Missed.Horizon = rapid.SampledFrom([]time.Duration{time.Hour, 48 * time.Hour}).Draw(t, "horizon")
				p.Candidates = rapid.IntRange(1, 5).Draw(t, "candidates")
				p.Jitter = rapid.SampledFrom([]time.Duration{0, 20 * time.Minute}).Draw(t, "jitter")
				p.PerMonth.Tokens = rapid.SampledFrom([]int64{0, 1000}).Draw(t, "month")
				p.PerRun.Tokens = rapid.SampledFrom([]int64{0, 300}).Draw(t, "run")
				p.Share = rapid.Bool().Draw(t, "share")
				switch rapid.IntRange(0, 2).Draw(t, "kind") {
				case 0:
					j.Trigger.Every = rapid.SampledFrom([]time.Duration{time.Minute, 7 * time.Minute, 5 * time.Hour}).Draw(t, "every")
				case 1:
					j.Trigger = Trigger{Kind: Cron, Cron: rapid.SampledFrom([]string{"*/10 * * * *", "30 2 * * *", "0 */3 * * *"}).Draw(t, "cron"), Zone: "Europe/Berlin"}
				default:
					j.Trigger = Trigger{Kind: At, At: noon.Add(9 * time.Hour)}
				}
			})
			when, err := Compile(j.Trigger)
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, JobState{Job: j, When: when, Seen: noon})
		}
		m := newMemory(jobs...)
		m.state.Limit.Candidates = rapid.IntRange(0, 6).Draw(t, "limit")
		now := noon
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			j := &m.state.Jobs[rapid.IntRange(0, len(jobs)-1).Draw(t, "job")]
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				now = now.Add(-rapid.SampledFrom([]time.Duration{time.Second, time.Hour, 30 * time.Hour}).Draw(t, "back"))
			case 1:
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Hour, 26 * time.Hour, 100 * time.Hour}).Draw(t, "forth"))
			case 2:
				if len(j.Running) > 0 {
					used := int64(0)
					if most := j.Running[0].Allowed.Tokens; most > 0 {
						used = rapid.Int64Range(0, most).Draw(t, "used")
					}
					m.end(j.Running[0], rapid.SampledFrom([]Outcome{Won, NoWinner, Infrastructure, Lost, Interrupted}).Draw(t, "outcome"), used, now)
				}
			case 3:
				j.Job.Paused = !j.Job.Paused
			case 4:
				f := Fire{Job: j.Job.Name, Manual: true, Instant: now, After: now, State: FireWaiting, Count: 1, Through: now}
				if _, ok := m.fires[j.Job.Name][key(f)]; !ok {
					m.fires[j.Job.Name][key(f)] = f
					j.Waiting = append(j.Waiting, f)
					slices.SortFunc(j.Waiting, func(a, b Fire) int { return a.Instant.Compare(b.Instant) })
				}
			default:
				now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)
			}
			wake := m.apply(t.Fatalf, now)
			if !wake.IsZero() && !wake.After(now) {
				t.Fatalf("at %v it is to be asked again at %v", now, wake)
			}
			for _, j := range m.state.Jobs {
				if at, ok := j.When.Next(j.Seen); ok && !j.Job.Paused && !at.Add(Offset(j.Job.Name, j.Job.Policy.Jitter)).After(now) && !slices.ContainsFunc(j.Ahead, at.Equal) {
					if _, known := m.fires[j.Job.Name][at.UnixMilli()]; !known {
						t.Fatalf("nothing was said of %v of %s", at, j.Job.Name)
					}
				}
			}
		}
	})
}

// TestAYearOfFires: a clock that goes from one wake to the next sees exactly
// the fires that a minute walk finds, over both nights on which clocks are put.
func TestAYearOfFires(t *testing.T) {
	line := plainLine{{0, 30}, {2, 3}, nil, nil, nil}
	for _, s := range stretches[:3] {
		zone, err := Zone(s.zone)
		if err != nil {
			t.Fatal(err)
		}
		from, to := utc(s.from), utc(s.to)
		j := someJob("nightly", func(j *Job) { j.Trigger = Trigger{Kind: Cron, Cron: line.String(), Zone: s.zone} })
		m := newMemory(stateOf(t, j, func(s *JobState) { s.Seen = from.Add(-time.Second) }))
		for now := from; now.Before(to); {
			wake := m.apply(t.Fatalf, now)
			for _, r := range m.state.Jobs[0].Running {
				m.end(r, Won, 0, now)
			}
			now = wake
		}
		var got []time.Time
		for _, f := range m.starts {
			got = append(got, f.Instant.UTC())
		}
		if want := line.brute(walk(from, to, zone)); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("%s: %d fires, want %d", s.zone, len(got), len(want))
		}
	}
}

// TestALongAbsenceIsShort: a clock that was thousands of years away costs no
// more than a moment, and what passed is one line.
func TestALongAbsenceIsShort(t *testing.T) {
	j := someJob("a", func(j *Job) { j.Trigger.Every = time.Minute })
	s := stateOf(t, j)
	d := Decide(State{Jobs: []JobState{s}}, time.Date(8000, 1, 1, 0, 0, 0, 0, time.UTC))
	if len(d) < 3 || len(d) > 30 || d[0].Act != Skip || d[0].Reason.Code != ByHorizon || d[0].Fire.Count < maxCounted {
		t.Fatalf("%d decisions, the first %+v", len(d), d[0])
	}
}

func TestDecideLeavesTheStateAlone(t *testing.T) {
	job := func() JobState {
		return stateOf(t, someJob("a", func(j *Job) { j.Policy.Overlap = OverlapReplace }), func(s *JobState) {
			s.Running = []Run{{ID: 1, Job: "a", Started: noon}}
			s.Waiting = []Fire{{Job: "a", Instant: noon, State: FireWaiting}}
		})
	}
	s, same := job(), job()
	first := Decide(State{Jobs: []JobState{s}}, noon.Add(time.Hour))
	if s.Running[0].Stopping || s.Waiting[0] != same.Waiting[0] {
		t.Error("the state is another one")
	}
	if again := Decide(State{Jobs: []JobState{s}}, noon.Add(time.Hour)); !slices.Equal(first, again) {
		t.Errorf("%+v, then %+v", first, again)
	}
}

func BenchmarkDecideOf10000Jobs(b *testing.B) {
	var s State
	for i := range 10_000 {
		s.Jobs = append(s.Jobs, stateOf(b, someJob(fmt.Sprintf("j%d", i), func(j *Job) {
			j.Trigger = Trigger{Kind: Cron, Cron: fmt.Sprintf("%d %d * * %d", i%60, i%24, i%7), Zone: stretches[i%len(stretches)].zone}
		})))
	}
	for b.Loop() {
		if d := Decide(s, noon); len(d) != 1 || cmp.Compare(len(s.Jobs), 10_000) != 0 {
			b.Fatal(len(d))
		}
	}
}
