package mutate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	candidateagent "github.com/bestof-dev/bestof/candidate/agent"
)

// The test binary is the agent when asked to be: the search needs a process
// whose working directory and signals are its own.
func TestMain(m *testing.M) {
	if os.Getenv("MUTATE_TEST_AGENT") == "1" {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
	}
	os.Exit(m.Run())
}

// A bug is a small repository with a failing test. Its archive begins with the
// test command and has a line "-- NAME --" before each file.
type bug struct {
	name  string
	test  []string
	files map[string]string
}

func bugs(t testing.TB) []bug {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no bugs: %v", err)
	}
	var all []bug
	for _, n := range names {
		text, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(text), "\n-- ")
		b := bug{strings.TrimSuffix(filepath.Base(n), ".txtar"), strings.Fields(parts[0]), map[string]string{}}
		for _, part := range parts[1:] {
			name, content, ok := strings.Cut(part, " --\n")
			if !ok {
				t.Fatalf("%s: %q", n, part)
			}
			b.files[name] = content + "\n"
		}
		all = append(all, b)
	}
	return all
}

func (b bug) unpack(t testing.TB) string {
	dir := t.TempDir()
	for f, content := range b.files {
		name := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// command prepares the agent as a child process in dir.
func command(t testing.TB, dir string, job candidateagent.Job) (*exec.Cmd, *bytes.Buffer) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	job.Root = dir
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MUTATE_TEST_AGENT=1", "TMPDIR="+t.TempDir())
	cmd.Stdin = bytes.NewReader(in)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// repair lets one candidate work and reports whether it found an edit.
func repair(t testing.TB, b bug, dir string, candidate, of int, limit time.Duration) (bool, string) {
	cmd, out := command(t, dir, candidateagent.Job{Candidate: candidate, Candidates: of, Test: b.test, Timeout: limit.String()})
	err := cmd.Run()
	return err == nil, out.String()
}

func TestMeasure(t *testing.T) {
	if os.Getenv("MUTATE_MEASURE") == "" {
		return
	}
	for _, b := range bugs(t) {
		if ok, err := regexp.MatchString(os.Getenv("MUTATE_MEASURE"), b.name); !ok || err != nil {
			continue
		}
		began := time.Now()
		dir := b.unpack(t)
		ok, out := repair(t, b, dir, 1, 1, 60*time.Second)
		fmt.Printf("%-24s %v %.1fs\n%s\n", b.name, ok, time.Since(began).Seconds(), out)
	}
}
