package usage

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/mcp"
)

// writerMark makes the test's program a process that records.
const writerMark = "BESTOF_TEST_USAGE"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerMark); path != "" {
		r := NewRecorder(path, func(s string) { fmt.Println(s) })
		for i := range 200 {
			r.Record(use("p", 1, "s", fmt.Sprint("t", i%3), time.Millisecond, "ok"))
		}
		if lost := r.Close(); lost != 0 {
			fmt.Println(lost, "lost")
		}
		return
	}
	goleak.VerifyTestMain(m)
}

var start = time.UnixMilli(1_800_000_000_000)

func use(run string, candidate int, server, tool string, took time.Duration, outcome string) mcp.Use {
	return mcp.Use{Run: run, Candidate: candidate, Server: server, Tool: tool, Started: start, Took: took, Sent: 10, Received: 100, Outcome: outcome}
}

// record keeps uses in a file and fails on any notice.
func record(t *testing.T, path string, list ...mcp.Use) {
	t.Helper()
	r := NewRecorder(path, func(s string) { t.Error(s) })
	for _, u := range list {
		r.Record(u)
	}
	if lost := r.Close(); lost != 0 {
		t.Errorf("%d uses are lost", lost)
	}
}

func ask(t *testing.T, path string, f Filter) []Line {
	t.Helper()
	lines, err := Query(context.Background(), path, f)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestUsesAreSummedUp(t *testing.T) {
	path := File(t.TempDir())
	late := use("r2", 1, "docs", "search", time.Second, "ok")
	late.Started = start.Add(time.Hour)
	record(t, path,
		use("r1", 0, "docs", "list", 20*time.Millisecond, "ok"),
		use("r1", 1, "docs", "search", 10*time.Millisecond, "ok"),
		use("r1", 2, "docs", "search", 30*time.Millisecond, "error"),
		use("r1", 2, "docs", "search", 50*time.Millisecond, "timed-out"),
		use("r1", 2, "docs", "search", time.Hour, "withheld"),
		use("r1", 2, "deploy", "ship", 0, "withheld"))
	record(t, path, late)
	zero, one, two := 0, 1, 2
	for _, c := range []struct {
		name string
		f    Filter
		want []Line
	}{
		{"all", Filter{}, []Line{
			{Server: "docs", Tool: "search", Calls: 4, Errors: 2, Refused: 1, Sent: 50, Received: 500, MeanMS: 273, MaxMS: 1000, Outcomes: map[string]int64{"ok": 2, "error": 1, "timed-out": 1, "withheld": 1}},
			{Server: "docs", Tool: "list", Calls: 1, Sent: 10, Received: 100, MeanMS: 20, MaxMS: 20, Outcomes: map[string]int64{"ok": 1}},
			{Server: "deploy", Tool: "ship", Refused: 1, Sent: 10, Received: 100, Outcomes: map[string]int64{"withheld": 1}},
		}},
		{"one run", Filter{Run: "r1", Server: "docs"}, []Line{
			{Candidate: &zero, Server: "docs", Tool: "list", Calls: 1, Sent: 10, Received: 100, MeanMS: 20, MaxMS: 20, Outcomes: map[string]int64{"ok": 1}},
			{Candidate: &one, Server: "docs", Tool: "search", Calls: 1, Sent: 10, Received: 100, MeanMS: 10, MaxMS: 10, Outcomes: map[string]int64{"ok": 1}},
			{Candidate: &two, Server: "docs", Tool: "search", Calls: 2, Errors: 2, Refused: 1, Sent: 30, Received: 300, MeanMS: 40, MaxMS: 50, Outcomes: map[string]int64{"error": 1, "timed-out": 1, "withheld": 1}},
		}},
		{"of late", Filter{Since: start.Add(time.Minute)}, []Line{{Server: "docs", Tool: "search", Calls: 1, Sent: 10, Received: 100, MeanMS: 1000, MaxMS: 1000, Outcomes: map[string]int64{"ok": 1}}}},
		{"nothing", Filter{Server: "x' OR 1=1 --"}, nil},
	} {
		if got := ask(t, path, c.f); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", c.name, got, c.want)
		}
	}
}

func TestTheFileIsTheOwnersOnly(t *testing.T) {
	path := File(filepath.Join(t.TempDir(), "home"))
	record(t, path, use("", 0, "s", "t", 0, "ok"))
	for p, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", p, info.Mode(), err)
		}
	}
}

func TestAFileThatOthersCouldReadIsClosedToThem(t *testing.T) {
	path := File(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	record(t, path, use("", 0, "s", "t", 0, "ok"))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestReadingMakesNoFile(t *testing.T) {
	home := t.TempDir()
	if lines := ask(t, File(home), Filter{}); lines != nil {
		t.Errorf("%v", lines)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
}

func TestNothingRecordedMakesNoFile(t *testing.T) {
	path := File(t.TempDir())
	record(t, path)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// hazards: whatever is in the file's place, calls go on and one notice is
// given.
func TestABrokenFileIsToldOnce(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"garbage":     func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte("garbage "), 1000), 0o600) },
		"a directory": func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		path := File(t.TempDir())
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		var notices []string
		r := NewRecorder(path, func(s string) { notices = append(notices, s) })
		for range 3 * batchMax {
			r.Record(use("r", 1, "s", "t", 0, "ok"))
		}
		lost := r.Close()
		if len(notices) != 1 || !strings.Contains(notices[0], path) || lost != 3*batchMax {
			t.Errorf("%s: %d lost, %q", name, lost, notices)
		}
		if _, err := Query(context.Background(), path, Filter{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFileOfANewerVersionIsLeftAsItIs(t *testing.T) {
	path := File(t.TempDir())
	record(t, path, use("r", 1, "s", "t", 0, "ok"))
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99; PRAGMA journal_mode = delete"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var notices []string
	r := NewRecorder(path, func(s string) { notices = append(notices, s) })
	r.Record(use("r", 1, "s", "t", 0, "ok"))
	if lost := r.Close(); lost != 1 || len(notices) != 1 || !strings.Contains(notices[0], "written by a newer bestof") {
		t.Errorf("%d lost, %q", lost, notices)
	}
	if _, err := Query(context.Background(), path, Filter{}); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed: %v", err)
	}
}

func TestSeveralProcessesKeepEveryUse(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := File(t.TempDir())
	const processes = 8
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), writerMark+"="+path)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) != 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
	var calls int64
	for _, l := range ask(t, path, Filter{Run: "p"}) {
		calls += l.Calls
	}
	if calls != processes*200 {
		t.Errorf("%d calls", calls)
	}
}

// Reading works while somebody writes, and sees what was written.
func TestReadingBesideAWriter(t *testing.T) {
	path := File(t.TempDir())
	r := NewRecorder(path, func(s string) { t.Error(s) })
	defer r.Close()
	for range batchMax {
		r.Record(use("r", 1, "s", "t", 0, "ok"))
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if lines, err := Query(context.Background(), path, Filter{}); err == nil && len(lines) == 1 && lines[0].Calls == batchMax {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("what was recorded cannot be read")
		}
	}
}

func TestAfterTheEndNothingIsKept(t *testing.T) {
	path := File(t.TempDir())
	r := NewRecorder(path, func(s string) { t.Error(s) })
	r.Record(use("r", 1, "s", "t", 0, "ok"))
	r.Close()
	r.Record(use("r", 1, "s", "t", 0, "ok"))
	if lost := r.Close(); lost != 1 || ask(t, path, Filter{})[0].Calls != 1 {
		t.Errorf("%d lost", lost)
	}
}
