package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A clock that was set back by less than correction does not fire again what
// it fired; one that was set back by more is believed, as cron(8) does.
const correction = 3 * time.Hour

// Decide says what is to be done now, in the order in which it is to be done.
// It is a function of its arguments alone; what it says of one job counts with
// what it said of the jobs before. The last decision is to wait.
func Decide(s State, now time.Time) []Decision {
	p := planner{state: s, now: now, taken: s.Taken, locked: map[string]string{}, busy: map[string]Reason{}, stopped: map[int64]bool{}}
	for repository, who := range s.Locked {
		p.locked[repository] = who
	}
	var waiting []candidate
	for i := range s.Jobs {
		j := &s.Jobs[i]
		p.running(j)
		if s.Draining {
			continue
		}
		for _, f := range p.due(j) {
			waiting = append(waiting, candidate{j, f})
		}
	}
	// The oldest goes first, whichever job's it is.
	slices.SortStableFunc(waiting, func(a, b candidate) int {
		return cmp.Or(a.fire.After.Compare(b.fire.After), cmp.Compare(a.fire.Job, b.fire.Job), a.fire.Instant.Compare(b.fire.Instant))
	})
	for _, c := range waiting {
		p.start(c.job, c.fire)
	}
	p.say(Decision{Act: Wait, Until: p.wake})
	return p.said
}

type candidate struct {
	job  *JobState
	fire Fire
}

type planner struct {
	state   State
	now     time.Time
	said    []Decision
	wake    time.Time // when something is to be done although nothing happened
	taken   int       // places of the global limit
	full    bool      // a fire waits for a place: none that is younger gets one
	locked  map[string]string
	busy    map[string]Reason // jobs with a run → what their fires wait for
	stopped map[int64]bool    // runs that were told to end just now
}

func (p *planner) say(d Decision) { p.said = append(p.said, d) }

// at makes sure that Decide is asked again at t.
func (p *planner) at(t time.Time) {
	if p.wake.IsZero() || t.Before(p.wake) {
		p.wake = t
	}
}

// running counts the runs of a job and ends those that went too far.
func (p *planner) running(j *JobState) {
	for i := range j.Running {
		r := &j.Running[i]
		p.taken += r.Places
		if !j.Job.Policy.Share {
			p.locked[j.Job.Repository] = "job " + j.Job.Name
		}
		p.busy[j.Job.Name] = Reason{ByOverlap, fmt.Sprintf("run %d, of %s, is not over", r.ID, show(j, r.Instant))}
		if outcome, why, ok := p.tooFar(j.Job.Policy, r); ok {
			p.stop(r, outcome, why)
		}
	}
}

// stop ends a run, once.
func (p *planner) stop(r *Run, outcome Outcome, why Reason) {
	if r.Stopping || p.stopped[r.ID] {
		return
	}
	p.stopped[r.ID] = true
	p.say(Decision{Act: Stop, Job: r.Job, Run: r.ID, Outcome: outcome, Reason: why})
}

// tooFar reports a run that takes too long, is quiet or used too much.
func (p *planner) tooFar(policy Policy, r *Run) (Outcome, Reason, bool) {
	if r.Stopping {
		return "", Reason{}, false
	}
	if most := r.Allowed.MicroUSD; most > 0 && r.Used.MicroUSD > most {
		return OverBudget, Reason{ByBudget, fmt.Sprintf("it used %s, and may use %s", dollars(r.Used.MicroUSD), dollars(most))}, true
	}
	if most := r.Allowed.Tokens; most > 0 && r.Used.Tokens > most {
		return OverBudget, Reason{ByBudget, fmt.Sprintf("it used %d tokens, and may use %d", r.Used.Tokens, most)}, true
	}
	last := r.Started
	if r.Output.After(last) {
		last = r.Output
	}
	for _, x := range []struct {
		since   time.Time
		most    time.Duration
		outcome Outcome
		why     Reason
	}{
		{r.Started, policy.Timeout, TimedOut, Reason{ByTimeout, fmt.Sprintf("it took longer than %v", policy.Timeout)}},
		{r.Started, r.Allowed.Wall, OverBudget, Reason{ByBudget, fmt.Sprintf("it took longer than the %v that its budget leaves", r.Allowed.Wall)}},
		{last, policy.Quiet, Quiet, Reason{ByQuiet, fmt.Sprintf("it printed nothing for %v", policy.Quiet)}},
	} {
		if x.most <= 0 {
			continue
		}
		if p.now.Sub(x.since) >= x.most {
			return x.outcome, x.why, true
		}
		p.at(x.since.Add(x.most))
	}
	return "", Reason{}, false
}

// due decides about the instants that came since the last time, and returns all
// fires of the job that wait.
func (p *planner) due(j *JobState) []Fire {
	seen := j.Seen
	if seen.Sub(p.now) > correction {
		seen = p.now
		p.say(Decision{Act: Rewind, Job: j.Job.Name, Until: seen, Reason: Reason{ByClock, fmt.Sprintf("the clock was set back: %s was seen already", show(j, j.Seen))}})
	}
	q := queue{planner: p, job: j, waiting: slices.Clone(j.Waiting)}
	passed := q.collect(seen)
	switch {
	case j.Job.Paused:
		q.skip(passed.all(), Reason{ByPause, "the job was paused"})
	default:
		q.skip(passed.old, Reason{ByHorizon, fmt.Sprintf("it was missed more than %v ago", j.Job.Policy.Missed.Horizon)})
		q.missed(passed)
		for _, t := range passed.timely {
			q.timely(t)
		}
		if !q.next.IsZero() {
			p.at(q.next.Add(q.offset()))
		}
	}
	return q.waiting
}

// start begins a fire that waits, or says why it does not.
func (p *planner) start(j *JobState, f Fire) {
	policy := j.Job.Policy
	switch early := f.After.Sub(p.now); {
	case j.Job.Paused && !f.Manual:
		p.skip(f, Reason{ByPause, "the job was paused"})
		return
	case -early > policy.Missed.Horizon:
		p.skip(f, Reason{ByHorizon, fmt.Sprintf("it waited for more than %v", policy.Missed.Horizon)})
		return
	case early > 0 && early <= policy.Retry.Longest: // more than that is a clock that was set back
		p.at(f.After)
		return
	}
	if why, busy := p.busy[j.Job.Name]; busy {
		p.hold(f, why)
		return
	}
	if who, ok := p.locked[j.Job.Repository]; ok && !policy.Share {
		p.hold(f, Reason{ByLock, who + " works on the repository"})
		return
	}
	allowed, reserve, spent := allow(policy, j.Spent)
	if spent != "" {
		p.skip(f, Reason{ByMonth, spent})
		return
	}
	places := max(1, policy.Candidates)
	if most := p.state.Limit.Candidates; most > 0 {
		places = min(places, most)
		if p.full = p.full || p.taken+places > most; p.full {
			p.hold(f, Reason{ByLimit, fmt.Sprintf("at most %d candidates run at once", most)})
			return
		}
	}
	p.taken += places
	p.busy[j.Job.Name] = Reason{ByOverlap, fmt.Sprintf("the fire of %s is not over", show(j, f.Instant))}
	if !policy.Share {
		p.locked[j.Job.Repository] = "job " + j.Job.Name
	}
	why := cause(f)
	f.State, f.Attempt, f.Reason = FireRunning, f.Attempt+1, why
	p.say(Decision{Act: Start, Job: f.Job, Fire: f, Allowed: allowed, Reserve: reserve, Places: places, Reason: why})
}

// cause is why a fire runs, whatever it waited for.
func cause(f Fire) Reason {
	switch {
	case f.Attempt > 0:
		return Reason{ByRetry, fmt.Sprintf("the host failed attempt %d", f.Attempt)}
	case f.Manual:
		return Reason{ByHand, "somebody asked for it"}
	case f.Made:
		return Reason{ByMissed, "its time was missed"}
	}
	return Reason{ByTime, "its time came"}
}

func (p *planner) skip(f Fire, why Reason) {
	f.State, f.Reason = FireSkipped, why
	p.say(Decision{Act: Skip, Job: f.Job, Fire: f, Reason: why})
}

// hold says why a fire waits, if that is not known.
func (p *planner) hold(f Fire, why Reason) {
	if f.Reason == why {
		return
	}
	f.Reason = why
	p.say(Decision{Act: Hold, Job: f.Job, Fire: f, Reason: why})
}

// allow is what a run may use when spent was used this month, and what is kept
// for it; exhausted says which bound leaves it nothing.
func allow(policy Policy, spent Budget) (allowed, reserve Budget, exhausted string) {
	one := func(run, month, used int64, words func(int64) string) (int64, int64) {
		if month <= 0 {
			return run, 0
		}
		left := month - used
		switch {
		case left <= 0:
			if exhausted == "" {
				exhausted = fmt.Sprintf("the month's budget of %s is spent", words(month))
			}
			return 0, 0
		case run <= 0:
			return left, 0
		}
		return min(run, left), min(run, left)
	}
	allowed.MicroUSD, reserve.MicroUSD = one(policy.PerRun.MicroUSD, policy.PerMonth.MicroUSD, spent.MicroUSD, dollars)
	allowed.Tokens, reserve.Tokens = one(policy.PerRun.Tokens, policy.PerMonth.Tokens, spent.Tokens, func(n int64) string { return fmt.Sprintf("%d tokens", n) })
	wall, kept := one(int64(policy.PerRun.Wall), int64(policy.PerMonth.Wall), int64(spent.Wall), func(n int64) string { return time.Duration(n).String() })
	allowed.Wall, reserve.Wall = time.Duration(wall), time.Duration(kept)
	return allowed, reserve, exhausted
}

func dollars(micro int64) string {
	return fmt.Sprintf("$%d.%02d", micro/1_000_000, micro%1_000_000/10_000)
}

// show writes an instant as the job's clock shows it.
func show(j *JobState, t time.Time) string {
	return t.In(j.When.Zone()).Format("2006-01-02 15:04 MST")
}

// Settle is what becomes of a fire when an attempt of it ended: it is done, or
// it waits to be tried again.
func Settle(policy Policy, f Fire, outcome Outcome, now time.Time) Fire {
	f.State, f.Reason, f.Decided = FireDone, Reason{}, now
	if outcome.Retried() && f.Attempt <= policy.Retry.Most {
		wait := Backoff(policy.Retry, f.Attempt, f.Job+"/"+f.Instant.UTC().Format(time.RFC3339))
		f.State, f.After = FireWaiting, now.Add(wait)
		f.Reason = Reason{ByRetry, fmt.Sprintf("attempt %d was %s: it is tried again", f.Attempt, outcome)}
	}
	return f
}

// Month is the calendar month of now on the clock of a zone.
func Month(now time.Time, zone *time.Location) (from, to time.Time) {
	year, month, _ := now.In(zone).Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, zone), time.Date(year, month+1, 1, 0, 0, 0, 0, zone)
}
