package app

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
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
