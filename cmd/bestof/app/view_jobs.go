package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bestof-dev/bestof/cmd/bestof/web"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/desk"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
)

// jobHistory is how many runs of a job the page lists.
const jobHistory = 100

// A jobDesk shows the operator's jobs in the page and acts on them as the
// commands do.
type jobDesk struct{ *archive }

// with opens the jobs, where there are any: looking keeps no file of them.
func (d jobDesk) with(use func(*desk.Desk) error) error {
	if _, err := os.Stat(ledger.File(d.home)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	jobs, err := desk.Open(d.home, time.Now)
	if err != nil {
		return err
	}
	return errors.Join(use(jobs), jobs.Close())
}

func (d jobDesk) List(context.Context) (all []web.Job, err error) {
	err = d.with(func(jobs *desk.Desk) error {
		them, err := jobs.Jobs()
		for _, j := range them {
			all = append(all, shownJob(jobs, j))
		}
		return err
	})
	return all, err
}

func shownJob(jobs *desk.Desk, j desk.Job) web.Job {
	out := web.Job{Name: j.Name, When: j.Trigger, Paused: j.Paused, State: "waits"}
	if j.Next != nil {
		out.Next = *j.Next
	}
	switch {
	case j.Running != nil && j.Running.CutOff:
		out.State, out.Bad = "was cut off: who runs jobs next settles it", true
	case j.Running != nil:
		out.State = "runs since " + j.When(j.Running.Started)
	case j.Paused:
		out.State = "paused"
	case j.Waits != nil:
		out.State = "waits: " + j.Waits.Reason
	case j.Next == nil:
		out.State = "fires no more"
	case jobs.Claimed() == "":
		out.State, out.Bad = "nobody runs it: start bestof daemon, or have bestof job tick called every minute", true
	}
	if j.Last != nil {
		out.Last = j.Last.Outcome + ", " + j.When(j.Last.Started)
	}
	return out
}

func (d jobDesk) History(_ context.Context, name string) (job web.Job, runs []web.JobRun, err error) {
	found := false
	err = d.with(func(jobs *desk.Desk) error {
		j, err := jobs.Job(name)
		if errors.Is(err, ledger.ErrNoJob) {
			return nil
		}
		if err != nil {
			return err
		}
		found, job = true, shownJob(jobs, j)
		them, err := jobs.Runs(ledger.Query{Job: name, Limit: jobHistory})
		for _, r := range them {
			runs = append(runs, d.shownRun(r))
		}
		return err
	})
	if err == nil && !found {
		err = web.ErrNone
	}
	return job, runs, err
}

func (d jobDesk) shownRun(r desk.Run) web.JobRun {
	out := web.JobRun{At: r.Started, How: runWords(r), Good: r.Outcome == string(schedule.Won), Bad: r.Ended != nil && r.Outcome != string(schedule.Won)}
	if r.Record == "" {
		return out
	}
	if folder, id := filepath.Split(filepath.Clean(r.Record)); record.ValidID(id) && filepath.Base(folder) == "runs" {
		out.Text, out.Link = id, web.RunPath(d.place(shelfOf{path: filepath.Dir(filepath.Dir(filepath.Clean(folder)))}), id)
	} else {
		out.Text, out.Link = filepath.Base(r.Record), web.BatchPath(d.place(shelfOf{path: r.Record, batch: true}))
	}
	return out
}

// Change does what `bestof job pause`, `resume` and `run --detach` do.
func (d jobDesk) Change(_ context.Context, name, action string) (done string, err error) {
	err = d.with(func(jobs *desk.Desk) error {
		switch action {
		case "pause", "resume":
			if err := jobs.Pause(name, action == "pause"); err != nil {
				return err
			}
			done = name + ": " + action + "d"
		case "run":
			if jobs.Claimed() == "" {
				return refusedf("nobody runs the jobs: start `bestof daemon`, or run it with `bestof job run %s`", name)
			}
			if _, err := jobs.RunNow(name); err != nil {
				return err
			}
			done = name + ": asked for"
		}
		return nil
	})
	return done, err
}
