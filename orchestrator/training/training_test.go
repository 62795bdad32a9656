package training

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/tiebreak"
	"github.com/bestof-dev/bestof/plugin/tool"
	"github.com/bestof-dev/bestof/plugin/tool/kernel"
	"github.com/bestof-dev/bestof/plugin/tool/train"
)

// host runs trainers that are given as source by their name.
func host(t *testing.T, trainers map[tool.Name]string) Host {
	return Host{
		Python: "python3", Start: kernel.Host(os.Environ(), t.TempDir()), Limit: time.Minute, Now: time.Now, Step: func(s string) { t.Log(s) },
		Find: func(n tool.Name) (tool.File, error) {
			source, ok := trainers[n]
			if !ok {
				return tool.File{}, fs.ErrNotExist
			}
			return tool.File{Name: n, Path: "/trainers/" + n.File(), Bytes: []byte(source), SHA256: tool.HashOf([]byte(source))}, nil
		},
	}
}

func (h Host) file(t *testing.T, n tool.Name) tool.File {
	t.Helper()
	f, err := h.Find(n)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// document is a run of two candidates, of whom the one that took longer was
// kept, whatever its size.
func document(i int) record.Document {
	d := record.Document{
		Run: fmt.Sprintf("run%07d", i), Task: fmt.Sprint("task ", i), Base: record.Base{Tree: fmt.Sprint("base ", i)},
		Repo: record.Repo{Root: bytestring.String("/repo")}, Adopted: &record.Adoption{Candidate: 1 + i%2},
	}
	for n := 1; n <= 2; n++ {
		took := int64(1000 + i)
		if n == d.Adopted.Candidate {
			took *= 50
		}
		d.Candidates = append(d.Candidates, record.Candidate{
			Number: n, Agent: "a", Rounds: 1, DurationMS: took,
			Change: &record.Change{Tree: fmt.Sprint(i, " ", n), Added: 1 + (i+n)%3, Files: make([]record.FileChange, 1)},
		})
	}
	return d
}

func rows(n int) []tiebreak.Row {
	var choices []tiebreak.Choice
	for i := range n {
		choices = append(choices, tiebreak.Choice{Document: document(i), Equal: [][]int{{1, 2}}, Fate: tiebreak.Kept})
	}
	return tiebreak.Rows(choices)
}

// TestReferenceTrainer learns what decides, is promoted, advises, and is not
// promoted a second time, since it ties with itself.
func TestReferenceTrainer(t *testing.T) {
	s, h := Open(t.TempDir()), host(t, map[tool.Name]string{"pairs": train.Reference})
	plan := Prepare(rows(100), "seed")
	out, err := s.Train(t.Context(), h, h.file(t, "pairs"), plan)
	if err != nil || !out.Model.Promotion.Promote || out.Model.Promotion.Score.Accuracy() < 0.9 {
		t.Fatalf("%v: %+v", err, out.Model)
	}
	for _, name := range []string{"train.jsonl", "out/model.json", "training.json"} {
		if info, err := os.Stat(filepath.Join(out.Directory, name)); err != nil || info.Mode().Perm()&0o077 != 0 && name != "out/model.json" {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := document(1000)
	advice := s.Advise(t.Context(), h, d, [][]int{{1, 2}})
	if advice == nil || advice.Fault != "" || len(advice.Pairs) != 1 || advice.Pairs[0].Better != d.Adopted.Candidate || advice.Trainer != "pairs" {
		t.Errorf("advice %+v, want %d", advice, d.Adopted.Candidate)
	}
	if advice := s.Advise(t.Context(), h, d, [][]int{{1}, {2}}); advice != nil {
		t.Errorf("nobody was equal, and there is advice: %+v", advice)
	}
	again, err := s.Train(t.Context(), h, h.file(t, "pairs"), plan)
	if err != nil || again.Model.Promotion.Promote || len(again.Model.Promotion.Against) != 3 || !strings.Contains(again.Model.Promotion.Reason, "advises now") {
		t.Errorf("%v: %+v", err, again.Model.Promotion)
	}
	if m, ok, err := s.Promoted(); err != nil || !ok || m.SHA256 != out.Model.SHA256 || !m.Trained.Equal(out.Model.Trained) {
		t.Errorf("%v, %v: %+v", ok, err, m)
	}

	changed := host(t, map[tool.Name]string{"pairs": train.Reference + "\n"})
	if a := s.Advise(t.Context(), changed, d, [][]int{{1, 2}}); a == nil || !strings.Contains(a.Fault, "changed since") || a.Pairs != nil {
		t.Errorf("a trainer that changed advises: %+v", a)
	}
	if a := s.Advise(t.Context(), host(t, nil), d, [][]int{{1, 2}}); a == nil || a.Fault == "" || a.Pairs != nil {
		t.Errorf("a trainer that is gone advises: %+v", a)
	}
	if err := os.WriteFile(out.Model.Checkpoint, []byte(`{"weights":{"duration_ms":-9},"scale":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := s.Advise(t.Context(), h, d, [][]int{{1, 2}}); a == nil || !strings.Contains(a.Fault, "changed since") || a.Pairs != nil {
		t.Errorf("a checkpoint that changed advises: %+v", a)
	}
	if was, err := s.Forget(); err != nil || !was {
		t.Errorf("forget: %v, %v", was, err)
	}
	if a := s.Advise(t.Context(), h, d, [][]int{{1, 2}}); a == nil || !strings.Contains(a.Fault, "no model") {
		t.Errorf("what was forgotten advises: %+v", a)
	}
}

// TestBadTrainers are refused or not promoted, and never leave a promotion.
func TestBadTrainers(t *testing.T) {
	const keep = `
import json, os
def train(rows_path, out_dir):
    path = os.path.join(out_dir, "m")
    open(path, "w").write("m")
    return {"checkpoint": path, "questions": {}}
def answer(checkpoint, rows_path, right):
    rows = [json.loads(l) for l in open(rows_path)]
    n = len(rows)
    c = sum(right(r) for r in rows)
    return {"checkpoint": checkpoint, "questions": {"better": {"n": n, "correct": c, "accuracy": c / n}}}
`
	for name, test := range map[string]struct{ source, want string }{
		"reads what is expected": {keep + "def evaluate(c, p): return answer(c, p, lambda r: 1)", "answers a pair with 1 and 1 right"},
		"always first":           {keep + "def evaluate(c, p): return answer(c, p, lambda r: r['expected']['better'] == 'first')", "not surely better"},
		"says more than it was asked": {keep + `
def evaluate(c, p):
    return {"checkpoint": c, "questions": {"better": {"n": 100000, "correct": 100000}}}`, "answered 100000 of 1 rows"},
		"another question": {keep + `
def evaluate(c, p):
    return {"checkpoint": c, "questions": {"other": {"n": 1, "correct": 1}}}`, "answered 0 of 1 rows"},
		"remembers what was expected first": {keep + `
seen = {}
def evaluate(c, p): return answer(c, p, lambda r: seen.setdefault(r["state"], r["expected"]["better"]) == r["expected"]["better"])`, "not surely better"},
		"changes its checkpoint": {keep + `
def evaluate(c, p):
    open(c, "a").write("x")
    return answer(c, p, lambda r: r["expected"]["better"] == "first")`, "changed its checkpoint"},
		"no checkpoint":       {"def train(r, o): return {'checkpoint': o + '/none', 'questions': {}}\ndef evaluate(c, p): pass", "no such file"},
		"a relative path":     {"def train(r, o): return {'checkpoint': 'm', 'questions': {}}\ndef evaluate(c, p): pass", "absolute path"},
		"no dict":             {"def train(r, o): return 7\ndef evaluate(c, p): pass", "must return a dict"},
		"raises":              {"def train(r, o): raise ValueError('broken inside')\ndef evaluate(c, p): pass", "broken inside"},
		"ends the process":    {"import os\ndef train(r, o): os._exit(3)\ndef evaluate(c, p): pass", "exited with status 3"},
		"fails when imported": {"raise ValueError('early')", "early"},
		"no function":         {"def train(r, o): pass\nevaluate = 7", "no function evaluate"},
		"no Python":           {"def", "invalid syntax"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, h := Open(t.TempDir()), host(t, map[tool.Name]string{"bad": test.source})
			out, err := s.Train(t.Context(), h, h.file(t, "bad"), Prepare(rows(60), "seed"))
			if text := fmt.Sprint(err, out.Model.Promotion.Reason); !strings.Contains(text, test.want) {
				t.Errorf("%s; want %s", text, test.want)
			}
			if _, ok, err := s.Promoted(); ok || err != nil {
				t.Errorf("promoted: %v, %v", ok, err)
			}
		})
	}
}

func TestTooFewChoices(t *testing.T) {
	s, h := Open(t.TempDir()), host(t, map[tool.Name]string{"pairs": train.Reference})
	if _, err := s.Train(t.Context(), h, h.file(t, "pairs"), Prepare(nil, "seed")); !errors.Is(err, ErrTooFew) {
		t.Errorf("%v", err)
	}
}

func TestOneTrainingAtATime(t *testing.T) {
	s, h := Open(t.TempDir()), host(t, map[tool.Name]string{"pairs": train.Reference})
	h.Step = func(string) {
		h2 := h
		h2.Step = nil
		if _, err := s.Train(t.Context(), h2, h.file(t, "pairs"), Prepare(rows(60), "seed")); err == nil || !strings.Contains(err.Error(), "another training") {
			t.Errorf("a second training: %v", err)
		}
	}
	if _, err := s.Train(t.Context(), h, h.file(t, "pairs"), Prepare(rows(60), "seed")); err != nil {
		t.Error(err)
	}
}

func TestCancelledTraining(t *testing.T) {
	s, h := Open(t.TempDir()), host(t, map[tool.Name]string{"slow": "import time\ndef train(r, o): time.sleep(600)\ndef evaluate(c, p): pass"})
	ctx, cancel := context.WithCancelCause(t.Context())
	h.Step = func(string) { cancel(errors.New("interrupted by the test")) }
	if _, err := s.Train(ctx, h, h.file(t, "slow"), Prepare(rows(60), "seed")); err == nil {
		t.Error("a cancelled training ended well")
	}
}

func TestCheckpointDirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := hashCheckpoint(dir); err == nil {
		t.Error("an empty checkpoint has a hash")
	}
	write("a", "b")
	first, err := hashCheckpoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	write("c", "")
	if second, err := hashCheckpoint(dir); err != nil || second == first {
		t.Errorf("%v: another file changes nothing", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	if _, err := hashCheckpoint(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a link: %v", err)
	}
}

// TestNothingHeldOutIsLeftToRead: a trainer that reads every file of this and of
// earlier trainings finds no row that is held out.
func TestNothingHeldOutIsLeftToRead(t *testing.T) {
	const looks = `
import json, os
def train(rows_path, out_dir):
    top, known = os.path.dirname(os.path.dirname(os.path.dirname(out_dir))), {}
    for directory, _, names in os.walk(top):
        for name in names:
            for line in open(os.path.join(directory, name), errors="replace"):
                try:
                    row = json.loads(line)
                    known[row["state"]] = row["expected"]["better"]
                except (ValueError, KeyError, TypeError):
                    pass
    path = os.path.join(out_dir, "m")
    json.dump(known, open(path, "w"))
    return {"checkpoint": path, "questions": {}}
def evaluate(checkpoint, rows_path):
    known, (row,) = json.load(open(checkpoint)), [json.loads(l) for l in open(rows_path)]
    return {"checkpoint": checkpoint, "questions": {"better": {"n": 1, "correct": int(known.get(row["state"], "first") == row["expected"]["better"])}}}
`
	s, h := Open(t.TempDir()), host(t, map[tool.Name]string{"looks": looks})
	plan := Prepare(rows(60), "seed")
	for range 2 {
		out, err := s.Train(t.Context(), h, h.file(t, "looks"), plan)
		if err != nil || out.Model.Promotion.Promote {
			t.Fatalf("%v: %+v", err, out.Model.Promotion)
		}
		known, err := os.ReadFile(out.Model.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		var found map[string]string
		if err := json.Unmarshal(known, &found); err != nil || len(found) != plan.Train {
			t.Errorf("%v: it found %d rows, and %d are its own", err, len(found), plan.Train)
		}
	}
}
