// Package ledger keeps jobs, their fires and their runs in one SQLite file:
// $BESTOF_HOME/jobs/jobs.db. Whatever a method returned is on the disk.
package ledger

import (
	"errors"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// What the methods refuse.
var (
	ErrNewer   = errors.New("it was written by a newer bestof")
	ErrNone    = errors.New("there are no jobs yet")
	ErrDamaged = errors.New("it is damaged")
	ErrFull    = errors.New("the disk is full")
	ErrExists  = errors.New("there is a job of this name already")
	ErrNoJob   = errors.New("there is no such job")
	ErrNoRun   = errors.New("there is no such run")
	ErrChanged = errors.New("somebody else edited it meanwhile")
	ErrRunning = errors.New("a run of it is not over")
	ErrTaken   = errors.New("the fire does not wait any more")
	ErrBusy    = errors.New("another process runs the jobs")
)

// A Ledger is the file, opened. Its methods may be called concurrently, and
// several processes may have it open: each method is one transaction.
type Ledger struct{}

var errBodies = errors.New("bodies follow")

// Open opens the file below home for writing, makes it if it is missing, and
// brings it up to date.
func Open(home string) (*Ledger, error) { return nil, errBodies }

// View opens the file for reading. The error is ErrNone if there is none.
func View(home string) (*Ledger, error) { return nil, errBodies }

// Close closes it.
func (l *Ledger) Close() error { return errBodies }

// Version changes when another process, or another Ledger, wrote to the file.
func (l *Ledger) Version() (int64, error) { return 0, errBodies }

// Add keeps a new job. Its Created and Revision are set here.
func (l *Ledger) Add(j schedule.Job, now time.Time) (schedule.Job, error) { return j, errBodies }

// Edit replaces a job whose revision is still that of j. Instants up to now
// count as decided.
func (l *Ledger) Edit(j schedule.Job, now time.Time) (schedule.Job, error) { return j, errBodies }

// Remove forgets a job; its history stays. The error is ErrRunning while a run
// of it is not over.
func (l *Ledger) Remove(name string, now time.Time) error { return errBodies }

// Pause pauses a job or resumes it.
func (l *Ledger) Pause(name string, paused bool, now time.Time) error { return errBodies }

// Job is one job; ErrNoJob if there is none.
func (l *Ledger) Job(name string) (schedule.Job, error) { return schedule.Job{}, errBodies }

// Jobs are all jobs by name.
func (l *Ledger) Jobs() ([]schedule.Job, error) { return nil, errBodies }

// Ask keeps a fire by hand.
func (l *Ledger) Ask(name string, now time.Time) (schedule.Fire, error) {
	return schedule.Fire{}, errBodies
}

// State is what schedule.Decide reads of the file. Limit, Taken, Locked and
// Draining are the caller's, and so are Output and Stopping of runs.
func (l *Ledger) State(now time.Time) (schedule.State, error) { return schedule.State{}, errBodies }

// Apply keeps decisions of the acts Enqueue, Skip, Hold and Rewind in one
// transaction, and passes over others.
func (l *Ledger) Apply(decisions []schedule.Decision, now time.Time) error { return errBodies }

// Start keeps, before anything is spawned, that an attempt of a fire begins, as
// a decision of the act Start says. The error is ErrTaken if the fire does not
// wait any more.
func (l *Ledger) Start(d schedule.Decision, spawner schedule.Process, now time.Time) (schedule.Run, error) {
	return schedule.Run{}, errBodies
}

// Spawned keeps what process a run is, and where its record is.
func (l *Ledger) Spawned(run int64, child schedule.Process, record string) error { return errBodies }

// Use keeps what a run used so far; less than before is passed over.
func (l *Ledger) Use(run int64, used schedule.Budget, reported bool) error { return errBodies }

// An End is how a run ended.
type End struct {
	Outcome  schedule.Outcome
	Status   int // exit status; -1 without one
	Reason   string
	Record   string // "" leaves what Spawned said
	Used     schedule.Budget
	Reported bool
}

// End keeps how a run ended. Its fire is done, or waits for a retry if the
// outcome and the job's policy say so.
func (l *Ledger) End(run int64, e End, now time.Time) error { return errBodies }

// Reap ends, as lost, every run whose spawner is not alive, and returns those
// runs as they were: the caller ends what is left of their processes first.
func (l *Ledger) Reap(alive func(schedule.Process) bool, end func(schedule.Run) End, now time.Time) ([]schedule.Run, error) {
	return nil, errBodies
}

// A Query chooses runs or fires, the latest first.
type Query struct {
	Job    string // "" for all
	Before int64  // id of the last one of the page before; 0 for the first page
	Since  time.Time
	Limit  int // at most; 0 for 100
}

// Runs is a page of runs.
func (l *Ledger) Runs(q Query) ([]schedule.Run, error) { return nil, errBodies }

// Run is one run; ErrNoRun if there is none.
func (l *Ledger) Run(id int64) (schedule.Run, error) { return schedule.Run{}, errBodies }

// Fires is a page of fires.
func (l *Ledger) Fires(q Query) ([]schedule.Fire, error) { return nil, errBodies }

// A Mode is who runs the jobs of a home.
type Mode string

// The modes.
const (
	Daemon Mode = "daemon"
	Tick   Mode = "tick"
)

// A Claim is the right to run the jobs of a home. It ends with the process,
// however that ends.
type Claim struct{}

// TakeClaim gets it for this process. Of several that try one gets it, and the
// error of the others is ErrBusy and names that one.
func TakeClaim(home string, mode Mode) (*Claim, error) { return nil, errBodies }

// Release gives it back.
func (c *Claim) Release() error { return errBodies }

// Claimed is who runs the jobs of a home now, ok whether somebody does.
func Claimed(home string) (mode Mode, owner schedule.Process, ok bool) { return "", owner, false }
