package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
)

// What somebody agreed to is agreed to once, also when something is gone.
func TestAcceptedChangesAreKept(t *testing.T) {
	specs := []batch.Spec{{Task: task.Task{ID: "a"}, Dir: "r"}}
	p := &batchPlan{app: &app{Process: Process{Err: new(strings.Builder)}}, o: &batchOptions{reports: "auto"}, turns: turnCache{"r\x00": {}}, lookouts: lookouts{"r": nil}}
	p.file.Sandbox.Read = []string{"/data"}
	found, err := p.found(t.Context(), specs[0])
	if err != nil {
		t.Fatal(err)
	}
	found[inputSetting] = "tasks.csv"
	state := stateOf(t, specs, found)
	p.file.Sandbox.Read = nil
	p.turns["r\x00"] = orchestrator.Config{Version: "another"}
	for _, accept := range []bool{true, false} {
		settings, err := state.Settings()
		if err != nil {
			t.Fatal(err)
		}
		now, lost, err := p.compareSettings(t.Context(), state, settings, resumeOptions{accept: accept})
		if err := errors.Join(err, state.SetSettings(now, lost...)); err != nil {
			t.Error(err)
		}
	}
	settings, err := state.Settings()
	if err != nil || settings[inputSetting] != "tasks.csv" || settings[foundSetting+"the version of bestof"] != "another" || settings[foundSetting+"what candidates may read"] != "" {
		t.Errorf("%q, %v", settings, err)
	}
}

// stateOf makes a batch of which nothing was run.
func stateOf(t *testing.T, specs []batch.Spec, settings map[string]string) *batch.State {
	t.Helper()
	state, err := batch.Create(filepath.Join(t.TempDir(), "b"), settings, specs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { state.Close() })
	return state
}

// A batch goes on although repositories are gone, that of the task that it was
// begun with among them, and is compared by one that is there.
func TestResumeWithoutTheFirstRepository(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	specs := []batch.Spec{{Task: task.Task{ID: "a"}, Dir: gone}, {Task: task.Task{ID: "b"}, Dir: gone}, {Task: task.Task{ID: "c", Image: "two"}, Dir: "r"}}
	var cfg orchestrator.Config
	cfg.Settings.Isolation.Summary = "a container of one"
	var said strings.Builder
	p := &batchPlan{app: &app{Process: Process{Err: &said}}, o: &batchOptions{reports: "auto"}, turns: turnCache{gone + "\x00": cfg}, lookouts: lookouts{gone: nil, "r": nil}}
	began, err := p.found(t.Context(), specs[0])
	if err != nil {
		t.Fatal(err)
	}
	state := stateOf(t, specs, began)
	delete(p.turns, gone+"\x00")
	if _, _, err := p.compareSettings(t.Context(), stateOf(t, specs[:2], began), began, resumeOptions{accept: true}); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("none is there: %v", err)
	}
	cfg.Settings.Isolation.Summary = "a container of two"
	p.turns["r\x00two"] = cfg
	if _, _, err := p.compareSettings(t.Context(), state, began, resumeOptions{}); err == nil || !strings.Contains(err.Error(), "changed since the batch began: the isolation: ") {
		t.Errorf("without containers: %v", err)
	}
	p.o.run.sandbox = "docker"
	if now, lost, err := p.compareSettings(t.Context(), state, began, resumeOptions{}); err != nil || len(now)+len(lost) != 0 {
		t.Errorf("%q, %q, %v", now, lost, err)
	}
	if !strings.Contains(said.String(), "whether the isolation changed is not known: ") || !strings.Contains(said.String(), gone) {
		t.Errorf("%q", said.String())
	}
	cfg.Version = "another"
	p.turns["r\x00two"] = cfg
	now, _, err := p.compareSettings(t.Context(), state, began, resumeOptions{accept: true})
	if err != nil || now[foundSetting+"the version of bestof"] != "another" || now[foundSetting+"the isolation"] != "a container of one" {
		t.Errorf("%q, %v", now, err)
	}
}
