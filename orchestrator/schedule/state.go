package schedule

import (
	"fmt"
	"time"
)

// A FireState is how far a fire has come.
type FireState string

// The states of a fire.
const (
	FireWaiting FireState = "waiting" // for its time, a place, a lock or a retry
	FireRunning FireState = "running" // an attempt of it was begun
	FireDone    FireState = "done"    // its last attempt ended
	FireSkipped FireState = "skipped" // for a reason; it never runs
)

// A Fire is one instant at which a job is to run. Job, Manual and Instant name
// it: of one name there is never a second that is not skipped.
type Fire struct {
	ID      int64 // in the order in which they were decided; 0 until it is kept
	Job     string
	Manual  bool      // somebody asked for it
	Instant time.Time // that the trigger names, or at which somebody asked
	Made    bool      // made up for: its time was missed
	After   time.Time // it does not begin before: Instant and jitter, or the end of a back-off
	Attempt int       // attempts that were begun
	State   FireState
	Reason  Reason    // why it waits or was skipped
	Through time.Time // the last instant, where a skipped one stands for several
	Count   int       // how many those are; 1 for a plain one
	Decided time.Time // when State came to be
}

// An Outcome is how a run ended.
type Outcome string

// The outcomes of a run.
const (
	Won            Outcome = "won"            // exit status 0
	NoWinner       Outcome = "no-winner"      // 3
	TimedOut       Outcome = "timed-out"      // 4, or stopped by the policy
	OverBudget     Outcome = "over-budget"    // 5, or stopped by the policy
	Refused        Outcome = "refused"        // 6: by trust or policy
	Infrastructure Outcome = "infrastructure" // 7, or it could not be started
	Misused        Outcome = "misused"        // 2: the job itself is wrong
	Broken         Outcome = "broken"         // 1 and every other status
	Interrupted    Outcome = "interrupted"    // 130, or somebody stopped it
	Quiet          Outcome = "quiet"          // it printed nothing for too long
	Replaced       Outcome = "replaced"       // a later fire took its place
	Lost           Outcome = "lost"           // its runner died: nobody saw how it ended
)

// OutcomeOf is what an exit status of this program says.
func OutcomeOf(status int) Outcome {
	switch status {
	case 0:
		return Won
	case 2:
		return Misused
	case 3:
		return NoWinner
	case 4:
		return TimedOut
	case 5:
		return OverBudget
	case 6:
		return Refused
	case 7:
		return Infrastructure
	case 130:
		return Interrupted
	}
	return Broken
}

// Retried reports whether a run that ended so is tried again: the host failed
// it, and nobody chose that it end.
func (o Outcome) Retried() bool { return o == Infrastructure || o == Lost }

// A Process names a process beyond reuse of its pid. It converts to a
// proc.Identity.
type Process struct {
	PID       int
	StartTime uint64
	BootID    string
}

// A Run is one attempt at a fire. Who runs it may give Started and Output with
// the monotonic clock's reading: steps of the wall clock end no run then.
type Run struct {
	ID       int64 // in the order in which they began
	Job      string
	Manual   bool      // of its fire
	Instant  time.Time // of its fire
	Attempt  int       // from 1
	Revision int64     // of the job
	Started  time.Time
	Ended    time.Time // zero while it runs
	Spawner  Process
	Child    Process   // zero until it was spawned
	Output   time.Time // when it last printed something; zero if it has not
	Stopping bool      // it was told to end
	Places   int       // it takes of the global limit
	Allowed  Budget    // what it may use
	Reserved Budget    // what the month's budget keeps for it
	Used     Budget    // what it used so far
	Reported bool      // whether an agent reported what Used says of money and tokens
	Outcome  Outcome   // "" while it runs
	Status   int       // exit status; -1 without one
	Reason   string    // why it ended so, one line
	Record   string    // where its record or batch is; "" for none
}

// Key names a run as its attempts do in logs and seeds: job, instant, attempt.
func (r Run) Key() string {
	return fmt.Sprintf("%s/%s/%d", r.Job, r.Instant.UTC().Format(time.RFC3339), r.Attempt)
}

// A Limit is what all runs share.
type Limit struct {
	Candidates int // that run at once on this machine; 0 for no limit
}

// A State is all that Decide reads.
type State struct {
	Jobs     []JobState
	Limit    Limit
	Taken    int               // places that others than the runs below take
	Locked   map[string]string // repositories that others work on → who
	Draining bool              // nothing more begins
}

// A JobState is what is known of one job.
type JobState struct {
	Job     Job
	When    *When       // Job.Trigger, compiled
	Seen    time.Time   // every instant up to this one was decided
	Ahead   []time.Time // instants after Seen, or after now, that have a fire already which was not skipped: the clock was set back
	Waiting []Fire      // fires that wait, in the order of their instants
	Running []Run       // runs that have not ended
	Spent   Budget      // in the calendar month of now, without Running
}

// An Act is what a decision says to do.
type Act string

// The acts.
const (
	Enqueue Act = "enqueue" // the fire is to run: keep it
	Skip    Act = "skip"    // the fire does not run: keep it, or those that Count says, with the reason
	Start   Act = "start"   // begin an attempt of a fire that was kept
	Hold    Act = "hold"    // the fire goes on waiting: keep the reason
	Stop    Act = "stop"    // end the run
	Rewind  Act = "rewind"  // the clock was set back by much: instants count from now again
	Wait    Act = "wait"    // nothing is to be done before Until; the last decision of all
)

// A Code is a kind of reason.
type Code string

// The kinds of reasons.
const (
	ByTime     Code = "time"     // its time has come
	ByHand     Code = "hand"     // somebody asked for it
	ByMissed   Code = "missed"   // nobody was there when its time came
	ByHorizon  Code = "horizon"  // it was missed so long ago that it does not run
	ByOverlap  Code = "overlap"  // another run of the job is not over
	ByQueue    Code = "queue"    // as many fires wait as may
	ByReplace  Code = "replace"  // a later fire took its place
	ByPause    Code = "pause"    // the job is paused
	ByMonth    Code = "month"    // the month's budget is spent
	ByBudget   Code = "budget"   // the run's budget is spent
	ByTimeout  Code = "timeout"  // it takes too long
	ByQuiet    Code = "quiet"    // it prints nothing
	ByLock     Code = "lock"     // another run works on the repository
	ByLimit    Code = "limit"    // as many candidates run as may
	ByRetry    Code = "retry"    // the host failed its last attempt
	ByClock    Code = "clock"    // the clock was set back
	ByRemoval  Code = "removal"  // the job was removed
	ByDraining Code = "draining" // the runner ends
)

// A Reason says why something was decided.
type Reason struct {
	Code   Code
	Detail string // one line for people
}

func (r Reason) String() string { return r.Detail }

// A Decision is one thing to do.
type Decision struct {
	Act     Act
	Job     string
	Fire    Fire      // of Enqueue, Skip, Start and Hold, as it is to be kept
	Run     int64     // of Stop
	Outcome Outcome   // of Stop: what the run ends as
	Allowed Budget    // of Start: what the run may use
	Reserve Budget    // of Start: what the month's budget keeps for it
	Places  int       // of Start: candidates that it may run at once
	Until   time.Time // of Wait, zero for no limit; of Rewind, the instant that counts as seen
	Reason  Reason
}
