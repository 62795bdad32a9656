package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

func seed(f *testing.F, values ...any) {
	f.Helper()
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, text := range []string{"", "null", "{}", "[]", `{"schema":1}`, `{"schema":"bestof.job-result/1","run":1e99}`, `{"steps":[null]}`, `{"job":{"Trigger":{"Kind":"cron"}}}`} {
		f.Add([]byte(text))
	}
}

// A result that is read has its schema, and says the same when it is written
// again.
func FuzzLoadResult(f *testing.F) {
	seed(f, Result{Schema: ResultSchema, Job: "j", Run: 1, Started: noon, Ended: noon, Document: json.RawMessage(`{"a":1}`), Patches: []string{"p"}}, Result{Schema: "bestof.job-result/2"})
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := parseResult(b, 1)
		if err != nil {
			return
		}
		again, err := json.Marshal(res)
		if err != nil || res.Schema != ResultSchema {
			t.Fatalf("%q was read as %+v: %v", b, res, err)
		}
		same, err := parseResult(again, 1)
		if err != nil {
			t.Fatalf("%q: %v", again, err)
		}
		if third, err := json.Marshal(same); err != nil || !slices.Equal(again, third) {
			t.Fatalf("%q, then %q, %v", again, third, err)
		}
	})
}

// A plan that is read is that of its run.
func FuzzLoadPlan(f *testing.F) {
	run := schedule.Run{ID: 1, Job: "j", Instant: noon, Attempt: 1}
	seed(f, planned{Key: run.Key(), Invocation: Invocation{Argv: []string{"x"}, Dir: "/", Run: "abc"}}, planned{Key: "another"})
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePlan(b, run); err == nil && p.Key != run.Key() {
			t.Fatalf("%q was read as the plan of %q", b, p.Key)
		}
	})
}

// Who is still to be told: what is read is about its run, and its steps are
// those that its job has, so that each finds its program or its webhook.
func FuzzTold(f *testing.F) {
	full := schedule.Result{OnFinish: []string{"tell"}, Webhooks: []schedule.Webhook{{URL: "https://example.org", Secret: "KEY"}}}
	seed(f, Told{Run: 1, Job: schedule.Job{Name: "j", Result: full, Created: noon}, Steps: stepsOf(full)},
		Told{Run: 1, Steps: []Step{{Kind: hook}, {Kind: "x", Done: true}, {Kind: onFinish, Tries: -1}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		told, err := parseTold(b, 1)
		if err != nil {
			return
		}
		programs := min(1, len(told.Job.Result.OnFinish))
		if told.Run != 1 || len(told.Steps) != programs+len(told.Job.Result.Webhooks) {
			t.Fatalf("%q was read as %+v", b, told)
		}
		for i, s := range told.Steps {
			if i >= programs && (s.Kind != hook || s.Target != told.Job.Result.Webhooks[i-programs].URL) || i < programs && s.Kind != onFinish {
				t.Fatalf("%q: step %d is %+v", b, i, s)
			}
		}
	})
}

// A file in the outbox that is not what the runner wrote ends nothing: nobody is
// told of that run, and the others go on.
func TestHostileOutbox(t *testing.T) {
	m := newRoom(t, "exit 0")
	m.add(func(j *schedule.Job) { j.Result.OnFinish = []string{"tell"} })
	m.hands.forward(time.Hour)
	m.once()
	for _, text := range []string{`{"run":1,"steps":[{"kind":"webhook"},{"kind":"webhook"}]}`, `{"run":2}`, "null", "{"} {
		if err := os.WriteFile(filepath.Join(outbox(m.home), toldName(1)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m.once()
	}
	if len(m.fake.finished) != 1 || strings.Count(m.log.String(), "nobody is told of a run") != 4 {
		t.Errorf("told %d times\n%s", len(m.fake.finished), m.log)
	}
}
