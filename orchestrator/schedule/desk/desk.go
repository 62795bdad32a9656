// Package desk is where jobs are looked at and acted on, whoever runs them: by
// the command line, and by a page.
package desk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner"
)

// A Desk is the jobs of one home. Its methods may be called concurrently.
type Desk struct {
	home   string
	now    func() time.Time
	ledger *ledger.Ledger
}

// Open opens the jobs below home, and begins to keep them there if there are
// none.
func Open(home string, now func() time.Time) (*Desk, error) {
	l, err := ledger.Open(home)
	if err != nil {
		return nil, err
	}
	return &Desk{home, now, l}, nil
}

// Close lets go of the jobs.
func (d *Desk) Close() error { return d.ledger.Close() }

// A Job is a job as others are shown it. Whatever holds text of others is to be
// cleaned by who prints it.
type Job struct {
	Schema     string          `json:"schema"` // bestof.job/1
	Name       string          `json:"name"`
	Trigger    string          `json:"trigger"` // words
	Zone       string          `json:"zone"`
	Paused     bool            `json:"paused"`
	Next       *time.Time      `json:"next"` // null when it does not fire any more
	Repository string          `json:"repository"`
	Command    []string        `json:"command"` // as it was asked for
	Task       string          `json:"task"`    // where it comes from, in words
	Adopt      string          `json:"adopt"`   // report | branch | apply | patch
	Revision   int64           `json:"revision"`
	Running    *Run            `json:"running"`
	Waits      *Waits          `json:"waits,omitempty"`    // its fire that waits, the one that may begin first
	Last       *Run            `json:"last"`               // that ended
	Definition json.RawMessage `json:"definition"`         // all of it
	Settings   json.RawMessage `json:"settings,omitempty"` // that were frozen
	Digest     string          `json:"settings_digest,omitempty"`
}

// A Waits is a fire that waits.
type Waits struct {
	Instant time.Time `json:"instant"`
	After   time.Time `json:"after"` // it does not begin before
	Reason  string    `json:"reason"`
}

// When shows a time on the job's clock.
func (j Job) When(t time.Time) string { return show(t, j.Zone) }

func show(t time.Time, zone string) string {
	if loc, err := schedule.Zone(zone); err == nil {
		t = t.In(loc)
	}
	return t.Format("Mon 2006-01-02 15:04:05 MST")
}

// A Run is a run of a job as others are shown it.
type Run struct {
	ID       int64         `json:"run"`
	Job      string        `json:"job"`
	Key      string        `json:"key"`
	Manual   bool          `json:"manual"`
	Instant  time.Time     `json:"instant"`
	Attempt  int           `json:"attempt"`
	Revision int64         `json:"revision"`
	Started  time.Time     `json:"started"`
	Ended    *time.Time    `json:"ended"`
	Outcome  string        `json:"outcome"` // "" while it runs
	ExitCode *int          `json:"exit_code"`
	Reason   string        `json:"reason"`
	Record   string        `json:"record"`
	MicroUSD int64         `json:"micro_usd"`
	Tokens   int64         `json:"tokens"`
	Branch   string        `json:"branch,omitempty"`
	Patches  []string      `json:"patches,omitempty"`
	Notices  []string      `json:"notices,omitempty"`
	Told     []runner.Step `json:"told,omitempty"`        // the job's program and webhooks
	Removed  bool          `json:"log_removed,omitempty"` // with all that it kept but this
	CutOff   bool          `json:"cut_off,omitempty"`     // who ran it is dead, and nobody has settled it yet
}

// A Skipped is a fire, or several in a row, that did not run or waits.
type Skipped struct {
	Job     string    `json:"job"`
	State   string    `json:"state"` // waiting | skipped
	Instant time.Time `json:"instant"`
	Through time.Time `json:"through"`
	Count   int       `json:"count"`
	Manual  bool      `json:"manual"`
	Code    string    `json:"code"`
	Reason  string    `json:"reason"`
}

// Jobs are all jobs by name.
func (d *Desk) Jobs() ([]Job, error) {
	jobs, err := d.ledger.Jobs()
	if err != nil {
		return nil, err
	}
	out := []Job{}
	for _, j := range jobs {
		one, err := d.view(j)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// Job is one job.
func (d *Desk) Job(name string) (Job, error) {
	j, err := d.ledger.Job(name)
	if err != nil {
		return Job{}, err
	}
	return d.view(j)
}

func (d *Desk) view(j schedule.Job) (Job, error) {
	v := Job{
		Schema: "bestof.job/1", Name: j.Name, Trigger: TriggerWords(j.Trigger), Zone: zoneOf(j.Trigger), Paused: j.Paused, Repository: j.Repository,
		Command: j.Command, Task: taskWords(j.Task), Adopt: string(j.Result.Adopt), Revision: j.Revision, Digest: j.Settings.Digest,
	}
	if json.Valid(j.Settings.Document) {
		v.Settings = j.Settings.Document
	}
	var err error
	if v.Definition, err = schedule.Encode(j); err != nil {
		return v, err
	}
	w, err := schedule.Compile(j.Trigger)
	if err != nil {
		return v, err
	}
	if next, ok := w.Next(d.now()); ok && !j.Paused {
		next = next.Add(schedule.Offset(j.Name, j.Policy.Jitter))
		v.Next = &next
	}
	runs, err := d.ledger.Runs(ledger.Query{Job: j.Name, Limit: 2})
	if err != nil {
		return v, err
	}
	for _, r := range runs {
		one := d.run(r)
		switch {
		case r.Ended.IsZero():
			v.Running = &one
		case v.Last == nil:
			v.Last = &one
		}
	}
	waiting, err := d.ledger.Waiting(j.Name)
	if len(waiting) > 0 {
		f := waiting[0]
		v.Waits = &Waits{f.Instant, f.After, f.Reason.Detail}
	}
	return v, err
}

func zoneOf(t schedule.Trigger) string {
	if t.Zone != "" {
		return t.Zone
	}
	return "UTC"
}

// TriggerWords say when a job fires.
func TriggerWords(t schedule.Trigger) string {
	switch t.Kind {
	case schedule.Cron:
		return "cron " + t.Cron + " " + t.Zone
	case schedule.At:
		return "at " + t.At.UTC().Format(time.RFC3339)
	}
	return "every " + t.Every.String()
}

func taskWords(t schedule.Task) string {
	switch t.Kind {
	case schedule.TaskFile:
		return "the file " + t.File + " as it is then"
	case schedule.TaskCommand:
		return "what `" + argv.Join(t.Command) + "` prints then, in a sandbox"
	case schedule.TaskText:
		return "a fixed text"
	}
	return "in the command"
}

// run is a run with what its directory says of it.
func (d *Desk) run(r schedule.Run) Run {
	v := Run{
		ID: r.ID, Job: r.Job, Key: r.Key(), Manual: r.Manual, Instant: r.Instant, Attempt: r.Attempt, Revision: r.Revision, Started: r.Started,
		Outcome: string(r.Outcome), Reason: r.Reason, Record: r.Record, MicroUSD: r.Used.MicroUSD, Tokens: r.Used.Tokens,
	}
	if r.Ended.IsZero() {
		v.CutOff = !proc.Identity(r.Spawner).Alive()
		return v
	}
	ended, code := r.Ended, r.Status
	v.Ended, v.ExitCode, v.Removed = &ended, &code, runner.Removed(d.home, r.ID)
	if res, err := runner.LoadResult(d.home, r.ID); err == nil && res.Key == v.Key {
		v.Branch, v.Patches, v.Notices = res.Branch, res.Patches, res.Notices
	}
	if told, err := runner.LoadTold(d.home, r.ID); err == nil && told.Job.Name == r.Job {
		v.Told = told.Steps
	}
	return v
}

// Runs is a page of runs, the latest first; see ledger.Query. Reading each
// run's result costs a file each: pages are to be small.
func (d *Desk) Runs(q ledger.Query) ([]Run, error) {
	if q.Job != "" {
		if err := d.exists(q.Job); err != nil {
			return nil, err
		}
	}
	runs, err := d.ledger.Runs(q)
	out := []Run{}
	for _, r := range runs {
		out = append(out, d.run(r))
	}
	return out, err
}

// exists reports a name that neither a job nor the history knows.
func (d *Desk) exists(name string) error {
	_, err := d.ledger.Job(name)
	if !errors.Is(err, ledger.ErrNoJob) {
		return err
	}
	if runs, more := d.ledger.Runs(ledger.Query{Job: name, Limit: 1}); more == nil && len(runs) > 0 {
		return nil
	}
	return err
}

// Run is one run.
func (d *Desk) Run(id int64) (Run, error) {
	r, err := d.ledger.Run(id)
	if err != nil {
		return Run{}, err
	}
	return d.run(r), nil
}

// Skipped is a page of fires that did not run or wait, the latest first.
func (d *Desk) Skipped(q ledger.Query) ([]Skipped, error) {
	fires, err := d.ledger.Fires(q)
	out := []Skipped{}
	for _, f := range fires {
		if f.State == schedule.FireWaiting || f.State == schedule.FireSkipped {
			out = append(out, Skipped{f.Job, string(f.State), f.Instant, f.Through, f.Count, f.Manual, string(f.Reason.Code), f.Reason.Detail})
		}
	}
	return out, err
}

// Prune removes what runs kept besides their lines in the history: of each job all
// but of the newest keep, where they began before a time. Runs that are not over, or
// of which somebody is still to be told, keep it, and so do earlier attempts at a
// fire of which a later one keeps it or is still to come: it may go on with what
// they left. It returns the runs, the latest
// first; with dry it removes nothing.
func (d *Desk) Prune(keep int, before time.Time, dry bool) (pruned []Run, err error) {
	waiting, err := d.ledger.Waiting("")
	if err != nil {
		return nil, err
	}
	ids, err := runner.Kept(d.home)
	seen, needed := map[string]int{}, map[string]bool{}
	fire := func(job string, manual bool, at time.Time) string { return fmt.Sprint(job, manual, at.UnixMilli()) }
	for _, f := range waiting {
		needed[fire(f.Job, f.Manual, f.Instant)] = true
	}
	for _, id := range ids {
		r, err := d.ledger.Run(id)
		if errors.Is(err, ledger.ErrNoRun) {
			continue // it is not of this history
		}
		if err != nil {
			return pruned, err
		}
		seen[r.Job]++
		if mine := fire(r.Job, r.Manual, r.Instant); needed[mine] || seen[r.Job] <= keep || r.Ended.IsZero() || !r.Started.Before(before) || runner.Untold(d.home, id) {
			needed[mine] = true
			continue
		}
		if !dry {
			if err := runner.Remove(d.home, id); err != nil {
				return pruned, fmt.Errorf("remove what run %d of job %s kept: %w", id, r.Job, err)
			}
		}
		pruned = append(pruned, d.run(r))
	}
	return pruned, err
}

// Pause pauses a job or resumes it.
func (d *Desk) Pause(name string, paused bool) error {
	return d.ledger.Pause(name, paused, d.now())
}

// RunNow asks for a run of a job. Whoever runs the jobs begins it; Claimed says
// whether anybody does.
func (d *Desk) RunNow(name string) (schedule.Fire, error) { return d.ledger.Ask(name, d.now()) }

// Claimed says who runs the jobs at this moment, "" for nobody.
func (d *Desk) Claimed() string {
	mode, owner, ok := ledger.Claimed(d.home)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s of process %d", mode, owner.PID)
}

// Remove forgets a job; its history stays.
func (d *Desk) Remove(name string) error { return d.ledger.Remove(name, d.now()) }

// Definition is a job as it is kept, to be changed.
func (d *Desk) Definition(name string) (schedule.Job, error) { return d.ledger.Job(name) }

// Add keeps a new job.
func (d *Desk) Add(j schedule.Job) (schedule.Job, error) { return d.ledger.Add(j, d.now()) }

// Edit replaces a job that nobody else edited since it was read.
func (d *Desk) Edit(j schedule.Job) (schedule.Job, error) { return d.ledger.Edit(j, d.now()) }

// Attempts are the runs of one fire, the latest first.
func (d *Desk) Attempts(f schedule.Fire) ([]schedule.Run, error) {
	runs, err := d.ledger.Runs(ledger.Query{Job: f.Job})
	return slices.DeleteFunc(runs, func(r schedule.Run) bool { return r.Manual != f.Manual || !r.Instant.Equal(f.Instant) }), err
}

// Fire is what became of a fire.
func (d *Desk) Fire(f schedule.Fire) (schedule.Fire, error) {
	fires, err := d.ledger.Fires(ledger.Query{Job: f.Job})
	if err != nil {
		return f, err
	}
	for _, g := range fires {
		if g.Manual == f.Manual && g.Instant.Equal(f.Instant) {
			return g, nil
		}
	}
	return f, fs.ErrNotExist
}

// A Next is when a job fires.
type Next struct {
	Job     string    `json:"job"`
	At      time.Time `json:"at"` // jitter included
	Instant time.Time `json:"instant"`
	Zone    string    `json:"zone"`
}

// Words are the time on the job's clock.
func (n Next) Words() string { return show(n.At, n.Zone) }

// Next are the next fires of a job, of all for "", at most so many, by time.
// Paused jobs have none.
func (d *Desk) Next(name string, most int) ([]Next, error) {
	jobs, err := d.ledger.Jobs()
	if err == nil && name != "" {
		var j schedule.Job
		j, err = d.ledger.Job(name)
		jobs = []schedule.Job{j}
	}
	if err != nil {
		return nil, err
	}
	out := []Next{}
	for _, j := range jobs {
		w, err := schedule.Compile(j.Trigger)
		if err != nil {
			return nil, err
		}
		t, ok := w.Next(d.now())
		for n := 0; ok && !j.Paused && n < most; n++ {
			out = append(out, Next{j.Name, t.Add(schedule.Offset(j.Name, j.Policy.Jitter)), t, zoneOf(j.Trigger)})
			t, ok = w.Next(t)
		}
	}
	slices.SortStableFunc(out, func(a, b Next) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Job, b.Job)
	})
	return out[:min(most, len(out))], nil
}
