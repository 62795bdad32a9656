package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// TestMain is a runner in a process of its own when it is asked to be one.
func TestMain(m *testing.M) {
	home := os.Getenv("LEDGER_TEST_HOME")
	if home == "" {
		os.Exit(m.Run())
	}
	if err := runner(home, os.Getenv("LEDGER_TEST_WAIT") != ""); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

const hours = 6

// runner goes through some hours and says each step; if it is to wait, it goes
// on when it reads a line.
func runner(home string, wait bool) error {
	in := bufio.NewReader(os.Stdin)
	said := func(what string) {
		fmt.Println(what)
		if wait {
			in.ReadString('\n')
		}
	}
	l, err := Open(home)
	if err != nil {
		return err
	}
	defer l.Close()
	for h := 1; h <= hours; h++ {
		now := noon.Add(time.Duration(h) * time.Hour)
		s, err := l.State(now)
		if err != nil {
			return err
		}
		decisions := schedule.Decide(s, now)
		if err := l.Apply(decisions, now); err != nil {
			return err
		}
		said("applied")
		for _, d := range decisions {
			if d.Act != schedule.Start {
				continue
			}
			r, err := l.Start(d, self, now)
			if errors.Is(err, ErrTaken) {
				continue
			} else if err != nil {
				return err
			}
			said("started")
			if err := l.Spawned(r.ID, self, "/rec"); err != nil {
				return err
			}
			said("spawned")
			if err := l.End(r.ID, End{Outcome: schedule.Won}, now.Add(time.Minute)); err != nil {
				return err
			}
			said("ended")
		}
	}
	return nil
}

func process(t *testing.T, home, wait string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LEDGER_TEST_HOME="+home, "LEDGER_TEST_WAIT="+wait)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewReader(out)
}

// TestKilledAfterEachStep: whenever a runner is killed, the next one finds an
// honest history and goes on, and every instant runs to its end.
func TestKilledAfterEachStep(t *testing.T) {
	for steps := 1; steps <= 5; steps++ {
		home := t.TempDir()
		l := opened(t, home)
		added(t, l, someJob("a"))
		cmd, in, out := process(t, home, "yes")
		last := ""
		for i := range steps {
			if i > 0 {
				io.WriteString(in, "\n")
			}
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatalf("after %d steps: %v", i, err)
			}
			last = strings.TrimSpace(line)
		}
		open, err := l.Runs(Query{})
		if err != nil {
			t.Fatal(err)
		}
		if last == "started" && (len(open) == 0 || !alive(open[0].Spawner)) {
			t.Error("a run that began does not say who lives")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		in.Close()
		reaped, err := l.Reap(alive, func(schedule.Run) (End, error) { return End{}, nil }, noon.Add(2*time.Hour))
		if want := map[string]int{"started": 1, "spawned": 1}[last]; err != nil || len(reaped) != want {
			t.Errorf("killed when it had %s: %d reaped, %v", last, len(reaped), err)
		}
		// Another goes on, after the back-off.
		for h := 3; h <= 5; h++ {
			for _, r := range step(t, l, noon.Add(time.Duration(h)*time.Hour)) {
				if err := l.End(r.ID, End{Outcome: schedule.Won}, noon.Add(time.Duration(h)*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
		}
		all, err := l.Fires(Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.State != schedule.FireDone && f.State != schedule.FireSkipped {
				t.Errorf("killed when it had %s: %+v", last, f)
			}
		}
		if n := len(all); n < 4 {
			t.Errorf("killed when it had %s: %d fires", last, n)
		}
		var ok string
		if err := l.db.QueryRow(`PRAGMA integrity_check`).Scan(&ok); err != nil || ok != "ok" {
			t.Errorf("killed when it had %s: %s, %v", last, ok, err)
		}
	}
}

// TestTwoProcessesRace: although nothing but the file is between them, each
// instant is begun once.
func TestTwoProcessesRace(t *testing.T) {
	home := t.TempDir()
	l := opened(t, home)
	for _, name := range []string{"a", "b", "c"} {
		added(t, l, someJob(name))
	}
	var both []*exec.Cmd
	var said []*bufio.Reader
	for range 2 {
		cmd, in, out := process(t, home, "")
		defer in.Close()
		both, said = append(both, cmd), append(said, out)
	}
	for i, cmd := range both {
		text, err := io.ReadAll(said[i])
		if err = errors.Join(err, cmd.Wait()); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	}
	runs, err := l.Runs(Query{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range runs {
		if seen[r.Key()] || r.Outcome != schedule.Won {
			t.Errorf("%+v", r)
		}
		seen[r.Key()] = true
	}
	if len(runs) == 0 || len(runs) > 3*hours {
		t.Errorf("%d runs", len(runs))
	}
}
