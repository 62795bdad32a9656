package app

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/sqlitefile"
)

// BenchmarkBatch runs a batch of 100 tasks with four candidates that do nothing
// on a repository of 5,000 files, without a sandbox, with two at once. It
// reports the program's own share of two processors and its largest memory, and
// how long it takes to find that nothing is left.
func BenchmarkBatch(b *testing.B) {
	for range b.N {
		dir := b.TempDir()
		repo, home := filepath.Join(dir, "repo"), filepath.Join(dir, "home")
		files := map[string]string{filepath.Join(home, "config.toml"): "[agents.idle]\ncommand = [\"true\"]\n", filepath.Join(home, ".gitconfig"): "[user]\n\tname = Ada\n\temail = ada@example.org\n"}
		for i := range 5000 {
			files[filepath.Join(repo, fmt.Sprintf("d%d/e%d/f%d.txt", i%20, i%100, i))] = fmt.Sprintf("file %d\n", i)
		}
		var tasks bytes.Buffer
		tasks.WriteString("instance_id,repo,base_commit,problem_statement,test\n")
		for i := range 100 {
			fmt.Fprintf(&tasks, "t%d,r,,do nothing,false\n", i)
		}
		files[filepath.Join(dir, "tasks.csv")] = tasks.String()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		environ := append(os.Environ(), "HOME="+home, "BESTOF_HOME="+home)
		run := func(name string, args ...string) time.Duration {
			cmd := exec.Command(name, args...)
			cmd.Dir, cmd.Env = repo, environ
			began := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%s %v: %v\n%s", name, args, err, out)
			}
			return time.Since(began)
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "First"}} {
			run("git", args...)
		}
		out := filepath.Join(dir, "out")
		cmd := exec.Command("bestof", "batch", "run", filepath.Join(dir, "tasks.csv"), "--repo", repo, "--sandbox", "process", "--agents", "idle:4", "-j", "2", "--out", out, "-q")
		cmd.Dir, cmd.Env = repo, environ
		began := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- cmd.Wait() }()
		own := ownTime(cmd.Process.Pid)
		for tick := time.NewTicker(50 * time.Millisecond); own != nil; {
			select {
			case err := <-ended:
				if err != nil {
					b.Fatal(err)
				}
				wall := time.Since(began).Seconds()
				all := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				b.ReportMetric(wall, "s/batch")
				b.ReportMetric(100*own.Seconds()/(2*wall), "%cpu")
				b.ReportMetric(100*all.Seconds()/(2*wall), "%cpu-with-children")
				b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MB")
				own = nil
			case <-tick.C:
				if now := ownTime(cmd.Process.Pid); now != nil && *now > *own {
					own = now
				}
			}
		}
		resumed := run("bestof", "batch", "resume", out, "-q")
		b.ReportMetric(resumed.Seconds(), "s/resume")
	}
}

// ownTime is the processor time of a process without its children, nil when it
// is gone.
func ownTime(pid int) *time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var ticks int
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(string(f))
		if err != nil {
			return nil
		}
		ticks += n
	}
	own := time.Duration(ticks) * time.Second / 100
	return &own
}

// BenchmarkFinishedBatch makes a batch of 2,000 tasks with four candidates each
// that is finished, all but one of its records being copies of one that was
// run, and measures what `batch resume` and `batch report` take of it.
func BenchmarkFinishedBatch(b *testing.B) {
	const many = 2000
	dir := b.TempDir()
	repo, home, out := filepath.Join(dir, "repo"), filepath.Join(dir, "home"), filepath.Join(dir, "out")
	tasks := "instance_id,repo,base_commit,problem_statement,test\n"
	for i := range many {
		tasks += fmt.Sprintf("t%d,r,,mend it,sh check.sh\n", i)
	}
	for name, text := range map[string]string{
		filepath.Join(home, "config.toml"): "[agents.fix]\ncommand = [\"sh\", \"-c\", \"echo right > value\"]\n",
		filepath.Join(home, ".gitconfig"):  "[user]\n\tname = Ada\n\temail = ada@example.org\n",
		filepath.Join(repo, "value"):       "wrong\n", filepath.Join(repo, "check.sh"): "grep -qx right value\n",
		filepath.Join(dir, "tasks.csv"): tasks,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	run := func(name string, args ...string) (*os.ProcessState, string) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = repo, append(os.Environ(), "HOME="+home, "BESTOF_HOME="+home)
		text, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%s %v: %v\n%s", name, args, err, text)
		}
		return cmd.ProcessState, string(text)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "First"}} {
		run("git", args...)
	}
	run("bestof", "batch", "run", filepath.Join(dir, "tasks.csv"), "--select", "t0", "--repo", repo, "--sandbox", "process", "--holds", "0", "--agents", "fix:4", "--out", out, "-q")
	multiply(b, out, many)
	if _, text := run("bestof", "batch", "resume", out); !strings.Contains(text, "2000 tasks: 2000 solved") {
		b.Fatal(text)
	}
	if _, text := run("bestof", "batch", "export", "--format", "csv", out); strings.Count(text, ",fix,met,right,") != 4*many {
		b.Fatalf("%d candidates are recorded", strings.Count(text, ",fix,met,right,"))
	}
	for _, command := range []string{"resume", "report"} {
		b.Run(command, func(b *testing.B) {
			var spent time.Duration
			for range b.N {
				state, _ := run("bestof", "batch", command, out, "-q")
				spent += state.UserTime() + state.SystemTime()
			}
			b.ReportMetric(spent.Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

// multiply gives a batch of one task that is done many of them, each with a
// record of its own.
func multiply(b *testing.B, out string, many int) {
	b.Helper()
	db, err := sqlitefile.Connect(filepath.Join(out, "batch.db"), sqlitefile.Write, time.Second)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var run string
	if err := db.QueryRow(`SELECT run FROM tasks`).Scan(&run); err != nil {
		b.Fatal(err)
	}
	from := filepath.Join(out, "runs", run)
	text, err := os.ReadFile(filepath.Join(from, "run.json"))
	if err != nil {
		b.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	for i := 1; i < many; i++ {
		id := run[:len(run)-4] + string([]byte{letter(i / 32 / 32), letter(i / 32), letter(i), 'a'})
		to := filepath.Join(out, "runs", id)
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, "run.json"), bytes.ReplaceAll(text, []byte(run), []byte(id)), 0o644); err != nil {
			b.Fatal(err)
		}
		for _, statement := range []string{
			`INSERT INTO tasks SELECT ?1, 't' || ?1, json_set(spec, '$.Task.ID', 't' || ?1), state, tries, failures, after, ?2, winner, reason, ended FROM tasks WHERE seq = 0`,
			`INSERT INTO attempts SELECT ?2, ?1, started, ended, end, reason, status FROM attempts WHERE task = 0`,
			`INSERT INTO spend SELECT ?2, candidate, ?1, agent, outcome, input, output, micro_usd, reported, took FROM spend WHERE task = 0`,
		} {
			if _, err := tx.Exec(statement, i, id); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

// letter is one that ids of runs are made of.
func letter(i int) byte { return "0123456789abcdefghjkmnpqrstvwxyz"[i%32] }
