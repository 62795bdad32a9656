package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const jobConfig = `[agents.fix]
command = ["sh", "-c", "sleep 0.0854321; echo right > value"]
[agents.slow]
command = ["sh", "-c", "touch $MARK; while ! test -e $MARK.go; do sleep 0.0954321; done; echo right > value"]
env = ["MARK"]
`

// addJob adds a job whose program counts how often it was told of which run.
func (b *bench) addJob(name, agent string, flags ...string) {
	b.t.Helper()
	args := append([]string{"job", "add", name, "--every", "24h", "--result", "branch", "--retries", "0", "--on-finish", `sh told.sh`}, flags...)
	args = append(args, "--", "run", "-n", "1", "--agents", agent, "--sandbox", "process", "--holds", "0", "--test", "sh check.sh", "mend it")
	if err := os.WriteFile(filepath.Join(b.repo, "told.sh"), []byte(`echo "$BESTOF_JOB_KEY $BESTOF_OUTCOME" >> $HOME/told`), 0o644); err != nil {
		b.t.Fatal(err)
	}
	if out, errs, status := b.run(args...); status != 0 {
		b.t.Fatalf("job add: %d: %s%s", status, out, errs)
	}
}

type jobRuns struct {
	Runs []struct {
		Run     int64
		Job     string
		Key     string
		Ended   *time.Time
		Outcome string
		Reason  string
		Branch  string
	}
}

func (b *bench) jobRuns() jobRuns {
	b.t.Helper()
	out, errs, status := b.run("job", "runs", "--json")
	var runs jobRuns
	if err := json.Unmarshal([]byte(out), &runs); err != nil || status != 0 {
		b.t.Fatalf("job runs: %d: %s%s, %v", status, out, errs, err)
	}
	return runs
}

func (b *bench) branches() int {
	b.t.Helper()
	cmd := exec.Command("git", "branch", "--list", "bestof/*")
	cmd.Dir, cmd.Env = b.repo, b.environ()
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatal(err)
	}
	return bytes.Count(out, []byte("\n"))
}

// TestKillJobAtEveryStep: whoever runs a job is killed at each of its steps in
// turn. The next one settles it: every run has an end, what won has its branch,
// who is to be told was told, and nothing goes on.
func TestKillJobAtEveryStep(t *testing.T) {
	for at := 1; ; at++ {
		b := newBench(t, "grep -qx right value\n", jobConfig)
		b.addJob("mend", "fix")
		ended := b.killJobAt(at)
		if out, errs, status := b.run("job", "tick"); status != 0 {
			t.Fatalf("step %d: tick: %d: %s%s", at, status, out, errs)
		}
		runs := b.jobRuns().Runs
		if len(runs) != 1 || runs[0].Ended == nil {
			t.Fatalf("step %d: runs %+v", at, runs)
		}
		told, err := os.ReadFile(filepath.Join(b.home, "told"))
		n := strings.Count(string(told), runs[0].Key)
		switch r := runs[0]; {
		case r.Outcome == "won" && (n < 1 || n > 2 || b.branches() != 1 || r.Branch == ""):
			t.Errorf("step %d: won, told %d times (%v), %d branches, %q", at, n, err, b.branches(), r.Branch)
		case r.Outcome == "lost" && (n != 0 || !strings.Contains(r.Reason, "nobody saw")):
			t.Errorf("step %d: lost, told %d times: %s", at, n, r.Reason)
		case r.Outcome != "won" && r.Outcome != "lost", ended && r.Outcome != "won":
			t.Errorf("step %d: %s: %s", at, r.Outcome, r.Reason)
		}
		if out, errs, status := b.run("gc"); status != 0 {
			t.Fatalf("step %d: gc: %d: %s%s", at, status, out, errs)
		}
		if left := b.left("0.0854321"); len(left) > 0 {
			t.Errorf("step %d: left after gc: %v", at, left)
		}
		if ended {
			if at < 6 {
				t.Fatalf("the job had only %d steps", at)
			}
			return
		}
	}
}

// killJobAt kills who runs the job when its at-th step is logged, and reports
// whether it ended before.
func (b *bench) killJobAt(at int) (ended bool) {
	b.t.Helper()
	cmd := b.command("job", "run", "mend")
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

// A managed daemon is one that a service manager started.
type managed struct {
	cmd    *exec.Cmd
	socket *net.UnixConn
	stderr bytes.Buffer
	done   chan error
}

func (b *bench) daemon(socket string) *managed {
	b.t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		b.t.Fatal(err)
	}
	m := &managed{cmd: b.command("daemon", "--log", "json"), socket: conn, done: make(chan error, 1)}
	m.cmd.Env = append(m.cmd.Env, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=100000")
	m.cmd.Stderr = &m.stderr
	if err := m.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() { m.done <- m.cmd.Wait() }()
	b.t.Cleanup(func() { _ = m.cmd.Process.Kill(); conn.Close() })
	return m
}

// says waits until the daemon told its manager a line.
func (m *managed) says(t *testing.T, line string) {
	t.Helper()
	if err := m.socket.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		n, err := m.socket.Read(buf)
		if err != nil {
			t.Fatalf("the daemon never said %s: %v: %s", line, err, m.stderr.String())
		}
		for l := range strings.SplitSeq(string(buf[:n]), "\n") {
			if l == line {
				return
			}
		}
	}
}

func (m *managed) term(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what another process does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s never came", what)
		}
	}
}

// TestDaemon: a daemon under a service manager, in a home whose path is longer
// than that of a socket may be. It says when it is ready and that it is alive,
// the first TERM lets finish what runs, and the second ends it.
func TestDaemon(t *testing.T) {
	b := newBench(t, "grep -qx right value\n", jobConfig)
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Rename(b.home, long); err != nil {
		t.Fatal(err)
	}
	b.home = long
	mark := filepath.Join(t.TempDir(), "mark")
	t.Setenv("MARK", mark)
	b.addJob("mend", "slow")

	m := b.daemon(fmt.Sprintf("@bestof-daemon-%d-a", os.Getpid()))
	m.says(t, "READY=1")
	m.says(t, "WATCHDOG=1")
	if out, errs, status := b.run("daemon"); status != 6 || !strings.Contains(errs, "another process runs the jobs: daemon of process") {
		t.Errorf("a second daemon: %d: %s%s", status, out, errs)
	}
	if out, errs, status := b.run("job", "tick"); status != 6 {
		t.Errorf("a tick beside a daemon: %d: %s%s", status, out, errs)
	}
	if out, errs, status := b.run("job", "run", "--detach", "mend"); status != 0 {
		t.Fatalf("job run: %d: %s%s", status, out, errs)
	}
	eventually(t, "the agent", func() bool { _, err := os.Stat(mark); return err == nil })
	out, errs, status := b.run("daemon", "--health", "--json")
	var health struct {
		State   string
		Jobs    int
		Running []struct{ Job string }
	}
	if err := json.Unmarshal([]byte(out), &health); err != nil || status != 0 || health.State != "running" || health.Jobs != 1 || len(health.Running) != 1 {
		t.Errorf("health: %d: %s%s, %v", status, out, errs, err)
	}
	m.term(t)
	m.says(t, "STOPPING=1")
	if runs := b.jobRuns().Runs; len(runs) != 1 || runs[0].Ended != nil {
		t.Errorf("the first TERM ended what runs: %+v", runs)
	}
	if err := os.WriteFile(mark+".go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := <-m.done; err != nil {
		t.Errorf("the daemon ended with %v: %s", err, m.stderr.String())
	}
	if runs := b.jobRuns().Runs; len(runs) != 1 || runs[0].Outcome != "won" || b.branches() != 1 {
		t.Errorf("after draining: %+v, %d branches", runs, b.branches())
	}
	if _, errs, status := b.run("daemon", "--health"); status != 7 {
		t.Errorf("health of no daemon: %d: %s", status, errs)
	}

	for _, f := range []string{mark, mark + ".go"} {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	m = b.daemon(fmt.Sprintf("@bestof-daemon-%d-b", os.Getpid()))
	m.says(t, "READY=1")
	if out, errs, status := b.run("job", "run", "--detach", "mend"); status != 0 {
		t.Fatalf("job run: %d: %s%s", status, out, errs)
	}
	eventually(t, "the agent", func() bool { _, err := os.Stat(mark); return err == nil })
	m.term(t)
	m.says(t, "STOPPING=1")
	m.term(t)
	if err := <-m.done; err != nil {
		t.Errorf("the daemon ended with %v: %s", err, m.stderr.String())
	}
	if runs := b.jobRuns().Runs; len(runs) != 2 || runs[0].Outcome != "interrupted" {
		t.Errorf("after the second TERM: %+v", runs)
	}
	if left := b.left("0.0954321"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestHazardRunnerDiesAfterAdoption: who runs the jobs is killed after a run has
// adopted its winner and before it has read that. The next one takes the run's
// record: it is won, told of, and there is no second branch.
func TestHazardRunnerDiesAfterAdoption(t *testing.T) {
	for _, noted := range []bool{true, false} {
		b := newBench(t, "grep -qx right value\n", jobConfig)
		mark := filepath.Join(t.TempDir(), "mark")
		t.Setenv("MARK", mark)
		b.addJob("mend", "slow", "--retries", "3", "--retry-wait", "1s")
		cmd := b.command("job", "run", "mend")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the agent", func() bool { _, err := os.Stat(mark); return err == nil })
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(mark+".go", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		var record string
		eventually(t, "the adoption", func() bool {
			found, _ := filepath.Glob(filepath.Join(b.repo, ".bestof", "runs", "*", "run.json"))
			if len(found) != 1 {
				return false
			}
			record = found[0]
			text, err := os.ReadFile(record)
			return err == nil && bytes.Contains(text, []byte(`"mode": "branch"`))
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if !noted {
			b.forgetAdoption(record)
		}
		if out, errs, status := b.run("job", "tick"); status != 0 {
			t.Fatalf("tick: %d: %s%s", status, out, errs)
		}
		runs := b.jobRuns().Runs
		if len(runs) != 1 || runs[0].Outcome != "won" || runs[0].Branch == "" || b.branches() != 1 {
			t.Errorf("noted %v: %+v, %d branches", noted, runs, b.branches())
		}
		if told, err := os.ReadFile(filepath.Join(b.home, "told")); err != nil || string(told) != runs[0].Key+" won\n" {
			t.Errorf("told %q, %v", told, err)
		}
	}
}

// forgetAdoption makes a record as it is between the branch and its note.
func (b *bench) forgetAdoption(record string) {
	b.t.Helper()
	var doc map[string]any
	text, err := os.ReadFile(record)
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err == nil {
		doc["adopted"] = nil
		text, err = json.Marshal(doc)
	}
	if err == nil {
		err = os.WriteFile(record, text, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestRepositoryOfSomebodyElse: a job does not begin while somebody's run is to
// adopt into its repository, whatever its home, and says what it waits for.
func TestRepositoryOfSomebodyElse(t *testing.T) {
	b := newBench(t, "grep -qx right value\n", jobConfig)
	mark := filepath.Join(t.TempDir(), "mark")
	t.Setenv("MARK", mark)
	b.addJob("mend", "fix")
	other := *b
	other.home = t.TempDir()
	for _, name := range []string{"config.toml", ".gitconfig"} {
		text, err := os.ReadFile(filepath.Join(b.home, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(other.home, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	person := other.command("run", "-n", "1", "--agents", "slow", "--sandbox", "process", "--holds", "0", "--test", "sh check.sh", "--adopt", "branch", "mend it")
	if err := person.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent", func() bool { _, err := os.Stat(mark); return err == nil })
	job := b.command("job", "run", "mend")
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that the job waits", func() bool {
		out, _, _ := b.run("job", "runs", "--skipped")
		return strings.Contains(out, "another process works on the repository")
	})
	if runs := b.jobRuns().Runs; len(runs) != 0 {
		t.Errorf("it began: %+v", runs)
	}
	if err := os.WriteFile(mark+".go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := person.Wait(); err != nil {
		t.Error(err)
	}
	if err := job.Wait(); err != nil || b.branches() != 2 {
		t.Errorf("%v, %d branches", err, b.branches())
	}
}

// TestTwoDaemonsRace: of several that start at once on one home, one runs the
// jobs, and the others say who.
func TestTwoDaemonsRace(t *testing.T) {
	b := newBench(t, "grep -qx right value\n", jobConfig)
	ends := make(chan *exec.Cmd)
	var all []*exec.Cmd
	for range 4 {
		cmd := b.command("daemon")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
		go func() {
			_ = cmd.Wait() // its status says it
			ends <- cmd
		}()
	}
	for range 3 {
		cmd := <-ends
		if errs := cmd.Stderr.(*bytes.Buffer).String(); cmd.ProcessState.ExitCode() != 6 || !strings.Contains(errs, "another process runs the jobs") {
			t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), errs)
		}
	}
	for _, cmd := range all {
		_ = cmd.Process.Signal(syscall.SIGTERM) // three are gone
	}
	if cmd := <-ends; cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the one that ran ended with %d: %s", cmd.ProcessState.ExitCode(), cmd.Stderr)
	}
}
