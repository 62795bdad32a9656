package orchestrator

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// TestWhatIsWrittenSoon: a change that waits is written shortly by itself, with
// any other before that, and once; what waits when the run ends is in its last
// word, and nothing is written after that.
func TestWhatIsWrittenSoon(t *testing.T) {
	s := newStage(t, fake.New(sandbox.Options{}, nil), "agent")
	file := filepath.Join(s.cfg.Record.Path(), "run.json")
	synctest.Test(t, func(t *testing.T) {
		tn := &turn{Config: s.cfg, stop: func(error) {}, doc: record.Document{Schema: record.Schema, Run: s.cfg.Record.ID(), Phase: record.Running}}
		reads := func(when, task, reason string) {
			t.Helper()
			synctest.Wait()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var d record.Document
			if err := json.Unmarshal(text, &d); err != nil || d.Task != task || d.Reason != reason {
				t.Errorf("%s: %v, %q %q", when, err, d.Task, d.Reason)
			}
		}
		task := func(s string) func(*record.Document) { return func(d *record.Document) { d.Task = s } }
		tn.update(task("1"))
		tn.soon(task("2"))
		tn.soon(func(d *record.Document) { d.Reason = "2" })
		reads("at once", "1", "")
		time.Sleep(shortly)
		reads("shortly", "2", "2")

		tn.soon(task("3"))
		tn.update(func(d *record.Document) { d.Reason = "3" })
		reads("with another", "3", "3")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * shortly)
		synctest.Wait()
		if _, err := os.Lstat(file); err == nil {
			t.Error("it was written twice")
		}

		tn.soon(task("4"))
		if _, err := tn.finish(t.Context(), ended(ExitInternal, "over")); err != nil {
			t.Fatal(err)
		}
		reads("at the end", "4", "over")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * shortly)
		synctest.Wait()
		if _, err := os.Lstat(file); err == nil {
			t.Error("it was written after the end")
		}
	})
}

// TestWhatAgentsUsedIsWrittenAtOnce: when what an agent left is sealed, the record
// has how it ended and what it used already, whatever becomes of the run.
func TestWhatAgentsUsedIsWrittenAtOnce(t *testing.T) {
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, "agent": writes("right\n")}), "agent")
	publish, looked := s.cfg.Publish, false
	s.cfg.Publish = func(e event.Event) {
		publish(e)
		if c, ok := e.Body.(event.Candidate); !ok || c.State != candidate.Sealing {
			return
		}
		looked = true
		text, err := os.ReadFile(filepath.Join(s.cfg.Record.Path(), "run.json"))
		var d record.Document
		if err := errors.Join(err, json.Unmarshal(text, &d)); err != nil || d.Candidates[0].AgentEnd == nil {
			t.Errorf("%v: %+v", err, d.Candidates)
		}
	}
	if doc := s.run(t); !looked {
		t.Errorf("looked: %v, %s", looked, doc.Reason)
	}
}
