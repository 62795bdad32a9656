package desk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// opened is a desk with the jobs a and b, and runs of a that ended, the first of
// which is run 1.
func opened(t testing.TB, runs int) *Desk {
	t.Helper()
	d, err := Open(t.TempDir(), func() time.Time { return noon.Add(30 * time.Minute) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"a", "b"} {
		if _, err := d.Add(schedule.Job{
			Name: name, Trigger: schedule.Trigger{Kind: schedule.Every, Every: time.Hour, From: noon}, Command: []string{"run", "x"}, Repository: "/repo",
			Policy: schedule.DefaultPolicy(), Result: schedule.DefaultResult(), Created: noon, Revision: 1,
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range runs {
		at := noon.Add(time.Duration(i) * time.Minute)
		fire, err := d.ledger.Ask("a", at)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.ledger.Start(schedule.Decision{Act: schedule.Start, Job: "a", Fire: fire, Places: 1}, schedule.Process{PID: 1, StartTime: 1, BootID: "x"}, at)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.ledger.End(r.ID, ledger.End{Outcome: schedule.Won}, at.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(runner.Dir(d.home, r.ID), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// A paused job fires no more, one that was resumed does; two jobs are shown by
// name and their fires by time.
func TestJobsAndNext(t *testing.T) {
	d := opened(t, 1)
	if err := d.Pause("b", true); err != nil {
		t.Fatal(err)
	}
	jobs, err := d.Jobs()
	if err != nil || len(jobs) != 2 || jobs[0].Name != "a" || jobs[0].Last == nil || jobs[0].Last.Outcome != "won" || jobs[0].Running != nil {
		t.Fatalf("%+v, %v", jobs, err)
	}
	if jobs[0].Next == nil || !jobs[0].Next.Equal(noon.Add(time.Hour)) || !jobs[1].Paused || jobs[1].Next != nil || jobs[1].Last != nil {
		t.Errorf("%+v", jobs)
	}
	if next, err := d.Next("", 2); err != nil || len(next) != 2 || next[0].Job != "a" || next[1].Job != "a" {
		t.Errorf("%+v, %v", next, err)
	}
	if err := d.Pause("b", false); err != nil {
		t.Fatal(err)
	}
	if next, err := d.Next("", 2); err != nil || len(next) != 2 || next[0].Job != "a" || next[1].Job != "b" || next[0].Words() != "Mon 2026-03-02 13:00:00 UTC" {
		t.Errorf("%+v, %v", next, err)
	}
	if _, err := d.Next("c", 1); !errors.Is(err, ledger.ErrNoJob) {
		t.Errorf("a job that is not there: %v", err)
	}
}

// The history of a job that was removed stays; a name that neither knows is an
// error.
func TestRunsOfARemovedJob(t *testing.T) {
	d := opened(t, 1)
	if err := d.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if runs, err := d.Runs(ledger.Query{Job: "a"}); err != nil || len(runs) != 1 {
		t.Errorf("%+v, %v", runs, err)
	}
	if _, err := d.Runs(ledger.Query{Job: "c"}); !errors.Is(err, ledger.ErrNoJob) {
		t.Errorf("%v", err)
	}
}

// Pruning keeps the newest, what began later, what somebody is still to be told
// of, and what is of no run of this history.
func TestPrune(t *testing.T) {
	d := opened(t, 5)
	outbox := filepath.Join(d.home, "jobs", "outbox")
	for _, dir := range []string{outbox, runner.Dir(d.home, 77)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outbox, "2.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := func() (ids []int64) {
		ids, err := runner.Kept(d.home)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	before := noon.Add(3 * time.Minute) // run 4 began then
	if runs, err := d.Prune(1, before, true); err != nil || len(runs) != 2 || len(left()) != 6 {
		t.Errorf("dry: %+v, %v; %v are left", runs, err, left())
	}
	if runs, err := d.Prune(1, before, false); err != nil || len(runs) != 2 || runs[0].ID != 3 || runs[1].ID != 1 || !runs[0].Removed || len(left()) != 4 {
		t.Errorf("%+v, %v; %v are left", runs, err, left())
	}
}

// Whatever lies in the directory of a run, its line is the history's, and what
// is of another run is not shown with it.
func FuzzRunWithDocuments(f *testing.F) {
	d := opened(f, 1)
	kept, err := d.ledger.Run(1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"schema":"bestof.job-result/1","key":"`+kept.Key()+`","branch":"x","outcome":"lost"}`), []byte(`{"run":1,"steps":[]}`))
	f.Add([]byte(`{"schema":"bestof.job-result/1","key":"another","branch":"x"}`), []byte(`{"run":1,"job":{"Name":"a"},"steps":[{"kind":"webhook"}]}`))
	f.Add([]byte("null"), []byte("["))
	f.Fuzz(func(t *testing.T, result, told []byte) {
		for name, b := range map[string][]byte{runner.ResultFile: result, runner.ToldFile: told} {
			if err := os.WriteFile(filepath.Join(runner.Dir(d.home, 1), name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := d.Run(1)
		if err != nil || r.Outcome != "won" || r.Key != kept.Key() || r.Job != "a" {
			t.Fatalf("%q, %q: %+v, %v", result, told, r, err)
		}
		if res, err := runner.LoadResult(d.home, 1); r.Branch != "" && (err != nil || res.Key != kept.Key()) {
			t.Fatalf("%q: the branch %q is of another run", result, r.Branch)
		}
	})
}
