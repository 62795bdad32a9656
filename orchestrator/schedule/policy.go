package schedule

import (
	"hash/fnv"
	"strconv"
	"time"
)

// An Overlap is what becomes of a fire while an earlier one of its job is not
// over.
type Overlap string

// What becomes of it.
const (
	OverlapSkip    Overlap = "skip"    // it is skipped
	OverlapQueue   Overlap = "queue"   // it waits
	OverlapReplace Overlap = "replace" // the earlier one is stopped
)

// A MissedMode is what becomes of fires that nobody was there to start.
type MissedMode string

// What becomes of them.
const (
	MissedOnce MissedMode = "once" // the last one stands for all
	MissedSkip MissedMode = "skip" // all are skipped
	MissedAll  MissedMode = "all"  // the last few run, one after another
)

// A Missed says what becomes of missed fires.
type Missed struct {
	Mode    MissedMode
	Most    int           // of MissedAll: how many run at most
	Horizon time.Duration // fires that are older never run
	Grace   time.Duration // a fire that is later than this was missed
}

// A Retry says how often and when a run that the host failed is tried again.
// Nothing else is: a task that nobody solved is not an accident.
type Retry struct {
	Most    int           // retries after the first attempt
	First   time.Duration // before the first retry; it doubles with each
	Longest time.Duration // that it grows to
}

// A Budget bounds what is used. A zero value is no bound.
type Budget struct {
	MicroUSD int64         // as agents report it
	Tokens   int64         // as agents report them, both directions together
	Wall     time.Duration // of runs
}

// A Policy is what a job does about everything that may come between.
type Policy struct {
	Overlap    Overlap
	Queue      int // of OverlapQueue: fires that wait at most
	Missed     Missed
	Retry      Retry
	Timeout    time.Duration // of a run; 0 for none
	Quiet      time.Duration // a run that prints nothing for so long is stopped; 0 for no watch
	PerRun     Budget
	PerMonth   Budget        // of a calendar month in the job's zone
	Jitter     time.Duration // a fire is put off by less than this, by always the same; see Offset
	Candidates int           // places that a run takes of the global limit
	Share      bool          // it may run beside another run on its repository
}

// DefaultPolicy is what a job does that says nothing else: it skips a fire
// while its last run goes on, makes up for downtime by one run, tries twice
// again what the host failed, and stops a run that takes six hours or is quiet
// for one.
func DefaultPolicy() Policy {
	return Policy{
		Overlap:    OverlapSkip,
		Queue:      1,
		Missed:     Missed{Mode: MissedOnce, Most: 3, Horizon: 7 * 24 * time.Hour, Grace: 10 * time.Minute},
		Retry:      Retry{Most: 2, First: time.Minute, Longest: 30 * time.Minute},
		Timeout:    6 * time.Hour,
		Quiet:      time.Hour,
		Candidates: 1,
	}
}

// Offset is by how much the fires of a job are put off: less than the policy's
// jitter, whole seconds, the same on every machine.
func Offset(job string, jitter time.Duration) time.Duration {
	seconds := uint64(jitter / time.Second)
	if seconds == 0 {
		return 0
	}
	return time.Duration(digest(job)%seconds) * time.Second
}

// Backoff is how long to wait before retry n, from 1: it doubles up to the
// longest, and seed takes up to a quarter of it away, so that jobs that failed
// together are not tried together.
func Backoff(r Retry, n int, seed string) time.Duration {
	wait := min(r.First, r.Longest)
	for i := 1; i < n && wait < r.Longest; i++ {
		wait = min(2*wait, r.Longest)
	}
	if part := uint64(wait / 4); part > 0 {
		wait -= time.Duration(digest(seed+"#"+strconv.Itoa(n)) % part)
	}
	return wait
}

func digest(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s)) // a hash does not fail
	// FNV's low bits follow the last letters; mixed, any of them will do.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}
