package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

// A bench is a repository, a home and the real program.
type bench struct {
	t    *testing.T
	repo string
	home string
}

func newBench(t *testing.T, files, config string) *bench {
	t.Helper()
	b := &bench{t: t, repo: filepath.Join(t.TempDir(), "repo"), home: t.TempDir()}
	if err := os.MkdirAll(b.repo, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(b.repo, "value"): "wrong\n", filepath.Join(b.repo, "other"): "wrong\n",
		filepath.Join(b.repo, "check.sh"):    files,
		filepath.Join(b.home, "config.toml"): config,
		filepath.Join(b.home, ".gitconfig"):  "[user]\n\tname = Ada\n\temail = ada@example.org\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "First"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = b.repo, b.environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return b
}

func (b *bench) environ() []string {
	return append(os.Environ(), "HOME="+b.home, "BESTOF_HOME="+b.home, "NO_COLOR=1")
}

// command is bestof, as the script tests install it on PATH.
func (b *bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command("bestof", args...)
	cmd.Dir, cmd.Env = b.repo, b.environ()
	return cmd
}

// run runs bestof to its end and returns its outputs and status.
func (b *bench) run(args ...string) (stdout, stderr string, status int) {
	b.t.Helper()
	cmd := b.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.String(), errs.String(), exit.ExitCode()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return out.String(), errs.String(), 0
}

// runs are the documents of all runs.
func (b *bench) runs() []record.Document {
	b.t.Helper()
	out, errs, status := b.run("runs", "--json")
	if status != 0 {
		b.t.Fatalf("runs: status %d: %s", status, errs)
	}
	var list struct{ Runs []struct{ Run string } }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		b.t.Fatal(err)
	}
	var docs []record.Document
	for _, r := range list.Runs {
		out, errs, status := b.run("show", r.Run, "--json")
		if status != 0 {
			b.t.Fatalf("show: status %d: %s", status, errs)
		}
		var doc record.Document
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			b.t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	return docs
}

// left is what a run left behind on the machine, besides its record.
func (b *bench) left(word string) []string {
	var left []string
	entries, err := os.ReadDir(filepath.Join(b.home, "scratch", "runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, "scratch "+e.Name())
	}
	if found := unmounted(b.home); len(found) > 0 {
		left = append(left, fmt.Sprintf("a mount below %s, for the processes %v", b.home, found))
	}
	for _, pid := range processesWith(word) {
		left = append(left, fmt.Sprint("process ", pid))
	}
	return left
}

const killConfig = `[agents.fix]
command = ["sh", "-c", "sleep 0.0654321 & echo right > value; echo right > other; wait"]
[agents.bad]
command = ["sh", "-c", "echo worse > value"]
`

// P7: the orchestrator is killed at each of its events in turn. The next
// command gives the same verdict or says "run it again", the tree is the old
// one or the new one, the record says which, and nothing is left.
func TestKillAtEveryEvent(t *testing.T) {
	for _, shadow := range []string{"auto", "userns"} {
		t.Run(shadow, func(t *testing.T) { killAtEveryEvent(t, shadow) })
	}
}

func killAtEveryEvent(t *testing.T, shadow string) {
	for at := 1; ; at++ {
		b := newBench(t, "grep -qx right value && grep -qx right other\n", killConfig)
		ended := b.killAt(at, "--shadow", shadow)
		docs := b.runs()
		if len(docs) > 1 {
			t.Fatalf("event %d: %d runs", at, len(docs))
		}
		b.checkAfterKill(at, docs)
		out, errs, status := b.run("gc")
		if status != 0 {
			t.Fatalf("event %d: gc: %d: %s%s", at, status, out, errs)
		}
		if left := b.left("0.0654321"); len(left) > 0 {
			t.Errorf("event %d: left after gc: %v", at, left)
		}
		if ended {
			if at < 10 {
				t.Fatalf("the run had only %d events", at)
			}
			return
		}
	}
}

// killAt kills a run when its at-th line of progress appears, and reports
// whether it ended before.
func (b *bench) killAt(at int, flags ...string) (ended bool) {
	args := append([]string{"run", "--agents", "fix:1,bad:1", "-j", "1", "--holds", "0", "--adopt", "apply", "--yes", "--test", "sh check.sh", "mend it"}, flags...)
	cmd := b.command(args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for n := 0; lines.Scan(); {
		if n++; n == at {
			if err := cmd.Process.Kill(); err != nil {
				b.t.Fatal(err)
			}
			break
		}
	}
	for lines.Scan() { // until everything that holds the pipe is dead
	}
	return cmd.Wait() == nil
}

func (b *bench) checkAfterKill(at int, docs []record.Document) {
	t := b.t
	value, err := os.ReadFile(filepath.Join(b.repo, "value"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(b.repo, "other"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(value, other) {
		t.Errorf("event %d: half of the change is in the tree", at)
	}
	adopted := string(value) == "right\n"
	if len(docs) == 0 {
		if adopted {
			t.Errorf("event %d: adopted without a record", at)
		}
		return
	}
	doc := docs[0]
	switch {
	case doc.Phase == record.Finished && (doc.Winner == nil || *doc.Winner != 1):
		t.Errorf("event %d: finished with another verdict: %s", at, doc.Reason)
	case doc.Phase == record.Interrupted && !strings.Contains(doc.Reason, "run it again"):
		t.Errorf("event %d: interrupted, and nobody says what to do: %s", at, doc.Reason)
	case doc.Phase == record.Running:
		t.Errorf("event %d: still said to be running", at)
	case adopted != (doc.Adopted != nil):
		t.Errorf("event %d: the tree has the change: %v, the record says so: %v", at, adopted, doc.Adopted != nil)
	}
}

// Hazard: the disk is full while the record is written. The error is clear, no
// earlier run is lost, and the user's tree is untouched.
func TestHazardDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts a small file system: run it as root")
	}
	b := newBench(t, "grep -qx right value\n", "[agents.fill]\ncommand = [\"sh\", \"-c\", \"echo right > value; head -c 4000000 /dev/urandom > big\"]\n")
	for _, place := range []string{".bestof", "scratch"} {
		dir := filepath.Join(b.repo, place)
		if place == "scratch" {
			dir = filepath.Join(b.home, place)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
			t.Fatal(err)
		}
		unmounted := false
		unmount := func() {
			if !unmounted {
				unmounted = true
				if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			}
		}
		t.Cleanup(unmount)
		if _, errs, status := b.run("run", "--agents", "fill:1", "--allow", "undecided", "x"); place == ".bestof" && status == 0 {
			t.Errorf("%s full: the run succeeded: %s", place, errs)
		} else if place == ".bestof" && !strings.Contains(errs, "no space left") {
			t.Errorf("%s full: status %d without saying why: %s", place, status, errs)
		}
		if _, errs, status := b.run("runs"); status != 0 {
			t.Errorf("%s full: runs: %d: %s", place, status, errs)
		}
		if value, err := os.ReadFile(filepath.Join(b.repo, "value")); err != nil || string(value) != "wrong\n" {
			t.Errorf("%s full: value is %q, %v", place, value, err)
		}
		unmount()
	}
}
