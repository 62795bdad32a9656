package app

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
	"github.com/bestof-dev/bestof/plugin/hook"
)

// TestWorstTime: the time that a plan names is enough, counted by hand.
func TestWorstTime(t *testing.T) {
	const m = time.Minute
	plain, hidden := batch.Spec{}, batch.Spec{Task: task.Task{TestPatch: []byte("x")}}
	for _, c := range []struct {
		specs         []batch.Spec
		seats, jobs   int
		holds, repeat int
		want          time.Duration
	}{
		{[]batch.Spec{plain}, 1, 1, 0, 1, (2 + 30 + 2) * m},
		{[]batch.Spec{plain}, 1, 8, 0, 1, (2 + 30 + 2) * m}, // more places do not help one candidate
		{[]batch.Spec{plain}, 3, 1, 2, 1, (2 + 3*(30+3*2)) * m},
		{[]batch.Spec{hidden}, 3, 1, 2, 5, (11 + 3*(30+10)) * m},
		{[]batch.Spec{plain, plain}, 2, 2, 0, 1, (2*(2+2*32)/2 + 34/2) * m},
	} {
		p := &batchPlan{o: &batchOptions{run: runOptions{timeout: 30 * m, testTimeout: m, holds: c.holds, repeat: c.repeat}}, specs: c.specs, seats: make([]orchestrator.Seat, c.seats)}
		p.limits.Jobs = c.jobs
		if got := p.worst(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// What changed, what went and what came is named, each once.
func TestChangedSettingsAreNamed(t *testing.T) {
	settings := map[string]string{"found:the same": "1", "found:the other": "1", "found:the plugin gone": "1", "flag:jobs": "2", "input": "x"}
	found := map[string]string{"found:the same": "1", "found:the other": "2", "found:the plugin new": "1"}
	if got, want := changes(settings, found), []string{"the other", "the plugin gone", "the plugin new"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	hooks := []orchestrator.Hook{{Event: hook.Stop, From: "config.toml", Files: []string{"true"}}, {Event: hook.Stop, From: "a plugin"}}
	p := &batchPlan{file: fileConfig{Sandbox: sandboxSettings{Read: []string{"/data"}}}}
	all := p.around(orchestrator.Config{Hooks: hooks})
	if got, want := sortedKeys(all), []string{"the hooks", "what candidates may read"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := (&batchPlan{}).around(orchestrator.Config{Hooks: hooks[1:]}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// How many candidates run at once is the batch's where somebody said so, else one
// for each processor of whatever machine goes on. A time is never the batch's.
func TestKeptSettings(t *testing.T) {
	for _, given := range [][]string{nil, {"--jobs=3", "--budget-wall=1h", "--budget-tokens=5"}} {
		flags := pflag.NewFlagSet("batch", pflag.ContinueOnError)
		(&batchOptions{}).addFlags(flags)
		if err := flags.Parse(given); err != nil {
			t.Fatal(err)
		}
		all, err := (&batchPlan{}).settings(flags)
		if err != nil {
			t.Fatal(err)
		}
		if jobs, tokens := all["flag:jobs"], all["flag:budget-tokens"]; given == nil && (jobs != "" || tokens != `"0"`) || given != nil && (jobs != `"3"` || tokens != `"5"`) {
			t.Errorf("%q: %s, %s", given, jobs, tokens)
		}
		if wall, there := all["flag:budget-wall"]; there {
			t.Errorf("a time is kept: %s", wall)
		}
	}
}

// A batch whose tasks have images of their own is compared by the task that it
// was begun with: another task's image is no change.
func TestResumeComparesTheSameTask(t *testing.T) {
	specs := []batch.Spec{{Task: task.Task{ID: "a", Image: "one"}, Dir: "r"}, {Task: task.Task{ID: "b", Image: "two"}, Dir: "r"}}
	p := &batchPlan{app: &app{}, o: &batchOptions{reports: "auto"}, turns: turnCache{}, lookouts: lookouts{"r": nil}, specs: specs}
	for _, s := range specs {
		var cfg orchestrator.Config
		cfg.Settings.Isolation.Summary = "a container of " + s.Task.Image
		p.turns[s.Dir+"\x00"+s.Task.Image] = cfg
	}
	found, err := p.found(t.Context(), specs[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "b")
	state, err := batch.Create(dir, found, specs)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "batch.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE tasks SET state = ? WHERE seq = 0`, batch.Done); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.compareSettings(t.Context(), state, found, resumeOptions{}); err != nil {
		t.Error(err)
	}
	p.file.Sandbox.Read = []string{"/data"}
	if _, _, err := p.compareSettings(t.Context(), state, found, resumeOptions{}); err == nil || !strings.Contains(err.Error(), "what candidates may read") {
		t.Error(err)
	}
	p.file.Sandbox.Read = nil
	changed := p.turns["r\x00one"]
	changed.Settings.Isolation.Summary = "plain processes"
	p.turns["r\x00one"] = changed
	if _, _, err := p.compareSettings(t.Context(), state, found, resumeOptions{}); err == nil || !strings.Contains(err.Error(), "the isolation") {
		t.Error(err)
	}
}
