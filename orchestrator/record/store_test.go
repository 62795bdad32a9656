package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

func open(t *testing.T, top string) *Store {
	t.Helper()
	s, err := Open(top, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func self(t *testing.T) Owner {
	t.Helper()
	id, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func create(t *testing.T, s *Store, id string, owner Owner) *Writer {
	t.Helper()
	w, err := s.Create(owner, func() string { return id })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func TestRecordsIgnoreThemselves(t *testing.T) {
	top := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", top).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := create(t, open(t, top), "2nn43hjw3t", self(t))
	if err := w.Document(Document{Schema: Schema, Run: w.ID()}, true); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", top, "status", "--porcelain", "--untracked-files=all").Output()
	if err != nil || len(out) > 0 {
		t.Errorf("git status shows %q, %v", out, err)
	}
}

func TestDocumentRoundTrip(t *testing.T) {
	top := t.TempDir()
	s := open(t, top)
	w := create(t, s, "2nn43hjw3t", self(t))
	doc := Document{Schema: Schema, Run: w.ID(), Phase: Finished, Candidates: []Candidate{{Number: 1, Change: &Change{Files: []FileChange{{Path: "bad\xffname"}}}}}}
	if err := w.Finish(doc); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"2nn43hjw3t", "2nn4", "2NN4", "last"} {
		got, err := s.Load(name)
		if err != nil || got.Candidates[0].Change.Files[0].Path != "bad\xffname" {
			t.Errorf("Load(%q) = %+v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "nope", "2nn43hjw3tx", "../../etc"} {
		if _, err := s.Load(name); !errors.Is(err, ErrNoRun) {
			t.Errorf("Load(%q): %v", name, err)
		}
	}
	create(t, s, "2nn43zzzzz", self(t))
	if _, err := s.Load("2nn43"); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("an ambiguous beginning: %v", err)
	}
}

// TestADocumentThatIsTheSameIsNotWritten: only a durable one is, whatever became
// of the file.
func TestADocumentThatIsTheSameIsNotWritten(t *testing.T) {
	w := create(t, open(t, t.TempDir()), "2nn43hjw3t", self(t))
	at := filepath.Join(w.Path(), "run.json")
	doc := Document{Schema: Schema, Run: w.ID()}
	written := func(durable bool, want bool) {
		t.Helper()
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := w.Document(doc, durable); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(at); (err == nil) != want {
			t.Errorf("written: %v, want %v", err == nil, want)
		}
	}
	written(false, true)
	written(false, false)
	written(true, true)
	doc.Task = "other"
	written(false, true)
}

func TestLoadRefusesWhatIsNotARecord(t *testing.T) {
	tests := map[string]string{
		"not JSON":       "{",
		"another schema": `{"schema":"bestof.run/9","run":"2nn43hjw3t"}`,
		"another run":    `{"schema":"bestof.run/1","run":"2nn43hjw3u"}`,
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			s := open(t, top)
			create(t, s, "2nn43hjw3t", self(t))
			if err := os.WriteFile(filepath.Join(s.Path("2nn43hjw3t"), "run.json"), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Load("last"); err == nil {
				t.Error("accepted")
			}
			docs, notices, err := s.List(0)
			if err != nil || len(docs) != 0 || len(notices) != 1 {
				t.Errorf("List: %v, %v, %v", docs, notices, err)
			}
		})
	}
}

// Hazard: the repository decides where .bestof points.
func TestHazardRecordDirectoryIsALink(t *testing.T) {
	for _, link := range []string{".bestof", ".bestof/runs"} {
		top, elsewhere := t.TempDir(), t.TempDir()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{elsewhere, "src"} {
			os.Remove(filepath.Join(top, link))
			if err := os.Symlink(target, filepath.Join(top, link)); err != nil {
				t.Fatal(err)
			}
			if s, err := Open(top, t.TempDir()); err == nil {
				s.Close()
				t.Errorf("%s -> %s was followed", link, target)
			}
		}
		if left, _ := os.ReadDir(elsewhere); len(left) > 0 {
			t.Errorf("something was written through %s: %v", link, left)
		}
	}
}

// Hazard: two runs start in the same moment.
func TestHazardTwoRunsOfOneMoment(t *testing.T) {
	s := open(t, t.TempDir())
	owner := self(t)
	at := time.Now()
	ids := make([]string, 40)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			random := uint32(0)
			w, err := s.Create(owner, func() string { random++; return NewID(at, random) })
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			ids[i] = w.ID()
		})
	}
	wg.Wait()
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 40 {
		t.Errorf("40 runs got %d ids", len(slices.Compact(ids)))
	}
}

func TestAbandonedRunsAreThoseWhoseOwnerIsDead(t *testing.T) {
	s := open(t, t.TempDir())
	alive := self(t)
	dead := alive
	dead.StartTime++ // the pid was given to another process since
	create(t, s, "2nn4000001", alive)
	create(t, s, "2nn4000002", dead)
	finished := create(t, s, "2nn4000003", dead)
	if err := finished.Finish(Document{Schema: Schema, Run: finished.ID(), Phase: Finished}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Abandoned()
	if err != nil || len(got) != 1 || got[0].Run != "2nn4000002" {
		t.Fatalf("Abandoned() = %+v, %v", got, err)
	}
	if err := s.Update(got[0]); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Abandoned(); err != nil || len(again) != 0 {
		t.Errorf("after Update: %+v, %v", again, err)
	}
}

func TestEventsAreLinesInOrder(t *testing.T) {
	s := open(t, t.TempDir())
	w := create(t, s, "2nn43hjw3t", self(t))
	for i := range 3 {
		if err := w.Event(event.Event{Seq: int64(i + 1), Body: event.Notice{Text: "a\nb"}}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := s.ReadFile(w.ID(), "events.jsonl", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i, line := range lines {
		var e struct {
			Seq  int64
			Type string
			Body map[string]any
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != int64(i+1) || e.Type != "notice" || e.Body["text"] != "a\nb" {
			t.Errorf("line %d: %s: %+v, %v", i, line, e, err)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestReadFileIsBounded(t *testing.T) {
	s := open(t, t.TempDir())
	w := create(t, s, "2nn43hjw3t", self(t))
	if err := w.File("c1", "big", make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadFile(w.ID(), "candidates/c1/big", 99); err == nil {
		t.Error("100 bytes passed a limit of 99")
	}
	if b, err := s.ReadFile(w.ID(), "candidates/c1/big", 100); err != nil || len(b) != 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := s.ReadFile(w.ID(), "candidates/c1", 100); err == nil {
		t.Error("a directory was read")
	}
	if err := unix.Mkfifo(filepath.Join(s.Path(w.ID()), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadFile(w.ID(), "pipe", 100); err == nil { // and it does not wait for somebody who writes
		t.Error("a pipe was read")
	}
}

func TestWorkingIsWhoHasNotEnded(t *testing.T) {
	s := open(t, t.TempDir())
	if _, ok := s.Working("2nn43hjw3t"); ok {
		t.Error("a run that is not there works")
	}
	w := create(t, s, "2nn43hjw3t", self(t))
	if owner, ok := s.Working(w.ID()); !ok || owner != self(t) {
		t.Errorf("Working: %v, %v", owner, ok)
	}
	if err := w.Finish(Document{Schema: Schema, Run: w.ID(), Phase: Finished}); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Working(w.ID()); ok {
		t.Error("a run that ended works")
	}
}

func TestIDs(t *testing.T) {
	at := time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC)
	last := ""
	for i := range 1000 {
		id := NewID(at.Add(time.Duration(i)*time.Millisecond), uint32(i*7919))
		if !ValidID(id) || id <= last {
			t.Fatalf("id %d is %q after %q", i, id, last)
		}
		last = id
	}
	for _, bad := range []string{"", "2nn43hjw3", "2nn43hjw3tt", "2nn43hjw3u!", "../../../..", "2NN43HJW3T", "adopting"} {
		if ValidID(bad) {
			t.Errorf("%q is valid", bad)
		}
	}
}

// Hazard: a clone brings records of its own.
func TestHazardForeignRecords(t *testing.T) {
	top := t.TempDir()
	theirs := open(t, top)
	dead := self(t)
	dead.StartTime++
	w := create(t, theirs, "2nn43hjw3t", dead)
	if err := w.Document(Document{Schema: Schema, Run: w.ID(), Phase: Running}, false); err != nil {
		t.Fatal(err)
	}
	mine := open(t, top)
	if !theirs.Own(w.ID()) || mine.Own(w.ID()) {
		t.Errorf("own for its maker: %v, for others: %v", theirs.Own(w.ID()), mine.Own(w.ID()))
	}
	if a, err := mine.Abandoned(); err != nil || len(a) != 0 {
		t.Errorf("a foreign run is reaped: %v, %v", a, err)
	}
	if _, err := mine.Load(w.ID()); err != nil {
		t.Errorf("it can still be looked at: %v", err)
	}
}

// Hazard: 200 old runs are no burden.
func TestHazardManyRuns(t *testing.T) {
	s := open(t, t.TempDir())
	dead := self(t)
	dead.PID++
	for i := range 200 {
		w := create(t, s, NewID(idEpoch.Add(time.Duration(i)*time.Hour), 0), dead)
		if err := w.Finish(Document{Schema: Schema, Run: w.ID(), Phase: Finished, Task: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	docs, notices, err := s.List(5)
	if err != nil || len(notices) > 0 || len(docs) != 5 || docs[4].Task != "199" {
		t.Errorf("List(5): %d docs, %v, %v", len(docs), notices, err)
	}
	if a, err := s.Abandoned(); err != nil || len(a) > 0 {
		t.Errorf("Abandoned: %v, %v", a, err)
	}
}

// TestOpenIn: records of runs on many repositories lie in a directory of the
// operator's, beside nothing else of theirs.
func TestOpenIn(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Create(Owner{}, func() string { return NewID(time.Now(), 1) })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if w.Path() != filepath.Join(dir, "runs", w.ID()) || !s.Own(w.ID()) {
		t.Errorf("path %s, own %v", w.Path(), s.Own(w.ID()))
	}
	if _, err := os.Lstat(filepath.Join(dir, ".bestof")); !os.IsNotExist(err) {
		t.Errorf(".bestof: %v", err)
	}
	again, err := OpenIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if names, err := again.Names(); err != nil || len(names) != 1 || names[0] != w.ID() {
		t.Errorf("names %v, %v", names, err)
	}
}
