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
	state, err := batch.Create(filepath.Join(t.TempDir(), "b"), found, specs)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
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
