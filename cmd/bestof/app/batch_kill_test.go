package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/orchestrator/batch"
)

const batchKillConfig = `[agents.fix]
command = ["sh", "-c", "echo fix >> $COUNT; echo right > value; echo '{\"type\":\"bestof.usage\",\"input_tokens\":10}'"]
env = ["COUNT"]
[agents.bad]
command = ["sh", "-c", "echo bad >> $COUNT; echo worse > value; sleep 0.0754321"]
env = ["COUNT"]
`

const batchKillTasks = "instance_id,repo,base_commit,problem_statement,test\none,r,,mend it,sh check.sh\ntwo,r,,mend it,sh check.sh\n"

// TestKillBatchAtEveryEvent: a batch is killed at each of its events in turn.
// Resuming it gives the same results, runs at most the candidate again that ran
// when it was killed, and leaves nothing behind.
func TestKillBatchAtEveryEvent(t *testing.T) {
	for at := 1; ; at++ {
		b := newBench(t, "grep -qx right value\n", batchKillConfig)
		dir := t.TempDir()
		count, out := filepath.Join(dir, "count"), filepath.Join(dir, "out")
		if err := os.WriteFile(filepath.Join(dir, "tasks.csv"), []byte(batchKillTasks), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("COUNT", count)
		ended := b.killBatchAt(at, filepath.Join(dir, "tasks.csv"), out)
		if _, err := os.Stat(filepath.Join(out, "batch.db")); err != nil {
			t.Fatalf("event %d: a batch that began is not there: %v", at, err)
		}
		stdout, stderr, status := b.run("batch", "resume", out, "-j", "1")
		if status != 0 || !strings.Contains(stdout, "2 tasks: 2 solved") {
			t.Fatalf("event %d: resume: %d: %s%s", at, status, stdout, stderr)
		}
		starts, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(starts, []byte("\n")); n < 4 || n > 5 || ended && n != 4 {
			t.Errorf("event %d: %d candidates were run for 4:\n%s%s", at, n, starts, stderr)
		}
		var now struct {
			Solved, Running, Pending, Process int
			Tokens                            int64
		}
		stdout, _, _ = b.run("batch", "status", out, "--json")
		if err := json.Unmarshal([]byte(stdout), &now); err != nil || now.Solved != 2 || now.Running+now.Pending+now.Process != 0 {
			t.Errorf("event %d: %s, %v", at, stdout, err)
		}
		if fixes := int64(bytes.Count(starts, []byte("fix"))); now.Tokens < 20 || now.Tokens > 10*fixes {
			t.Errorf("event %d: %d tokens for %d runs of the agent that reports them", at, now.Tokens, fixes)
		}
		if stdout, stderr, status = b.run("gc"); status != 0 {
			t.Fatalf("event %d: gc: %d: %s%s", at, status, stdout, stderr)
		}
		if left := b.left("0.0754321"); len(left) > 0 {
			t.Errorf("event %d: left after gc: %v", at, left)
		}
		if ended {
			if at < 10 {
				t.Fatalf("the batch had only %d events", at)
			}
			return
		}
	}
}

// changesState matches the events of which something is written down.
var changesState = regexp.MustCompile(`"type":"(started|task|finished)"|"state":"(preparing|done)"`)

// killBatchAt kills a batch when its at-th event appears, and reports whether
// it ended before.
func (b *bench) killBatchAt(at int, tasks, out string) (ended bool) {
	b.t.Helper()
	cmd := b.command("batch", "run", tasks, "--repo", b.repo, "--sandbox", "process", "--holds", "0", "--agents", "fix:1,bad:1", "-j", "1", "--json", "--out", out)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for n := 0; lines.Scan(); {
		if !changesState.MatchString(lines.Text()) {
			continue
		}
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

// TestResumeByAnotherVersion: a batch that another bestof began says so, and
// goes on when somebody agrees, once and for all.
func TestResumeByAnotherVersion(t *testing.T) {
	b := newBench(t, "grep -qx right value\n", batchKillConfig)
	dir := t.TempDir()
	count, out, tasks := filepath.Join(dir, "count"), filepath.Join(dir, "out"), filepath.Join(dir, "tasks.csv")
	t.Setenv("COUNT", count)
	if err := os.WriteFile(tasks, []byte(batchKillTasks), 0o644); err != nil {
		t.Fatal(err)
	}
	if b.killBatchAt(1, tasks, out) {
		t.Fatal("the batch ended before it was killed")
	}
	state, err := batch.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(state.SetSettings(map[string]string{foundSetting + "the version of bestof": "v0.0.1"}), state.Close()); err != nil {
		t.Fatal(err)
	}
	_, errs, status := b.run("batch", "resume", out)
	if status != 2 || !strings.Contains(errs, "changed since the batch began: the version of bestof: put it back, or go on with --accept-changes") {
		t.Errorf("status %d: %s", status, errs)
	}
	if stdout, errs, status := b.run("batch", "resume", out, "--accept-changes"); status != 0 || !strings.Contains(errs, "goes on although this changed: the version of bestof") || !strings.Contains(stdout, "2 tasks: 2 solved") {
		t.Errorf("agreed: status %d: %s%s", status, stdout, errs)
	}
	if _, errs, status := b.run("batch", "resume", out); status != 0 || strings.Contains(errs, "changed") {
		t.Errorf("afterwards: status %d: %s", status, errs)
	}
}

// TestTwoProcessesRaceForABatch: of several that resume a batch at once, one
// does, and the others say who.
func TestTwoProcessesRaceForABatch(t *testing.T) {
	b := newBench(t, "grep -qx right value\n", batchKillConfig)
	dir := t.TempDir()
	t.Setenv("COUNT", filepath.Join(dir, "count"))
	if err := os.WriteFile(filepath.Join(dir, "tasks.csv"), []byte(batchKillTasks), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if ended := b.killBatchAt(2, filepath.Join(dir, "tasks.csv"), out); ended {
		t.Fatal("the batch ended before it was killed")
	}
	type answer struct {
		stderr string
		status int
	}
	answers := make(chan answer)
	for range 4 {
		go func() {
			cmd := b.command("batch", "resume", out, "-j", "1")
			var errs bytes.Buffer
			cmd.Stderr = &errs
			_ = cmd.Run() // its status says it
			answers <- answer{errs.String(), cmd.ProcessState.ExitCode()}
		}()
	}
	ran := 0
	for range 4 {
		switch a := <-answers; {
		case a.status == 0:
			ran++
		case a.status != 6 || !strings.Contains(a.stderr, "another process runs this batch"):
			t.Errorf("status %d: %s", a.status, a.stderr)
		}
	}
	starts, err := os.ReadFile(filepath.Join(dir, "count"))
	if n := bytes.Count(starts, []byte("\n")); ran == 0 || err != nil || n != 4 {
		t.Errorf("%d resumed, %d candidates were run for 4, %v", ran, n, err)
	}
}
