package ledger

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func someJob(name string) schedule.Job {
	return schedule.Job{
		Name: name, Trigger: schedule.Trigger{Kind: schedule.Every, Every: time.Hour, From: noon}, Command: []string{"run", "mend it"},
		Repository: "/r/" + name, Policy: schedule.DefaultPolicy(), Result: schedule.DefaultResult(),
	}
}

func opened(t testing.TB, home string) *Ledger {
	t.Helper()
	l, err := Open(home)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func added(t testing.TB, l *Ledger, j schedule.Job) schedule.Job {
	t.Helper()
	j, err := l.Add(j, noon)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

var self = func() schedule.Process {
	id, err := proc.Self()
	if err != nil {
		panic(err)
	}
	return schedule.Process(id)
}()

func alive(p schedule.Process) bool { return proc.Identity(p).Alive() }

// step is what a runner does once: it decides, keeps, and starts. It returns
// the runs that began.
func step(t testing.TB, l *Ledger, now time.Time) (began []schedule.Run) {
	t.Helper()
	s, err := l.State(now)
	if err != nil {
		t.Fatal(err)
	}
	decisions := schedule.Decide(s, now)
	if err := l.Apply(decisions, now); err != nil {
		t.Fatal(err)
	}
	for _, d := range decisions {
		if d.Act == schedule.Start {
			r, err := l.Start(d, self, now)
			if err != nil {
				t.Fatal(err)
			}
			began = append(began, r)
		}
	}
	return began
}

func fires(t testing.TB, l *Ledger, job string) (lines []string) {
	t.Helper()
	all, err := l.Fires(Query{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	for _, f := range all {
		line := f.Instant.Format("15:04") + " " + string(f.State)
		if f.Count > 1 {
			line += fmt.Sprintf(" %d to %s", f.Count, f.Through.Format("15:04"))
		}
		lines = append(lines, line+" "+string(f.Reason.Code))
	}
	return lines
}

func TestAJobAndItsRunsAreKept(t *testing.T) {
	home := t.TempDir()
	if _, err := View(home); !errors.Is(err, ErrNone) {
		t.Errorf("nothing there: %v", err)
	}
	l := opened(t, home)
	j := added(t, l, someJob("a"))
	if _, err := l.Add(j, noon); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "job a") {
		t.Errorf("twice: %v", err)
	}
	past := someJob("past")
	past.Trigger = schedule.Trigger{Kind: schedule.At, At: noon}
	if _, err := l.Add(past, noon); !errors.Is(err, schedule.ErrNever) || strings.Contains(err.Error(), home) {
		t.Errorf("a time that passed: %v", err)
	}
	past.Name, past.Revision, past.Created = "a", j.Revision, j.Created
	if _, err := l.Edit(past, noon); !errors.Is(err, schedule.ErrNever) || strings.Contains(err.Error(), home) {
		t.Errorf("edited to a time that passed: %v", err)
	}
	began := step(t, l, noon.Add(time.Hour))
	if len(began) != 1 || began[0].Attempt != 1 || began[0].Revision != 1 || !began[0].Instant.Equal(noon.Add(time.Hour)) {
		t.Fatalf("began %+v", began)
	}
	id := began[0].ID
	child := schedule.Process{PID: 42, StartTime: 1 << 40, BootID: "b"}
	if err := errors.Join(l.Spawned(id, child, "/rec"), l.Use(id, schedule.Budget{MicroUSD: 5, Tokens: 7}, true), l.Use(id, schedule.Budget{MicroUSD: 3}, false)); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove("a", noon); !errors.Is(err, ErrRunning) {
		t.Errorf("removed while it runs: %v", err)
	}
	// Whoever looks sees it.
	v, err := View(home)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	got, err := v.Run(id)
	if err != nil || got.Child != child || got.Spawner != self || got.Record != "/rec" || got.Used.MicroUSD != 5 || got.Used.Tokens != 7 || !got.Reported || got.Outcome != "" || got.Status != -1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := v.Add(someJob("b"), noon); err == nil {
		t.Error("who only looks can write")
	}
	if err := l.End(id, End{Outcome: schedule.Won, Used: schedule.Budget{Tokens: 9}, Reason: "r"}, noon.Add(61*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := l.End(id, End{Outcome: schedule.Lost}, noon); !errors.Is(err, ErrOver) {
		t.Errorf("ended twice: %v", err)
	}
	if err := l.Use(id, schedule.Budget{}, false); !errors.Is(err, ErrOver) {
		t.Errorf("used when over: %v", err)
	}
	if err := l.Use(99, schedule.Budget{}, false); !errors.Is(err, ErrNoRun) {
		t.Errorf("no such run: %v", err)
	}
	if got, err = v.Run(id); err != nil || got.Outcome != schedule.Won || got.Used != (schedule.Budget{MicroUSD: 5, Tokens: 9, Wall: time.Minute}) || got.Record != "/rec" || got.Status != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if lines := fires(t, l, "a"); !slices.Equal(lines, []string{"13:00 done "}) {
		t.Errorf("%q", lines)
	}
	if err := l.Remove("a", noon); err != nil {
		t.Error(err)
	}
	if _, err := l.Job("a"); !errors.Is(err, ErrNoJob) {
		t.Errorf("removed: %v", err)
	}
	if runs, err := l.Runs(Query{Job: "a"}); err != nil || len(runs) != 1 {
		t.Errorf("its history: %+v, %v", runs, err)
	}
}

func TestEditsAreSeen(t *testing.T) {
	home := t.TempDir()
	l, other := opened(t, home), opened(t, home)
	j := added(t, l, someJob("a"))
	before, err := l.Version()
	if err != nil {
		t.Fatal(err)
	}
	if s, err := l.State(noon); err != nil || len(s.Jobs) != 1 { // it is known now
		t.Fatal(s, err)
	}
	j.Command = []string{"run", "another"}
	edited, err := other.Edit(j, noon.Add(3*time.Hour))
	if err != nil || edited.Revision != 2 {
		t.Fatal(edited, err)
	}
	if _, err := l.Edit(j, noon); !errors.Is(err, ErrChanged) {
		t.Errorf("an older one: %v", err)
	}
	if after, err := l.Version(); err != nil || after == before {
		t.Errorf("version %d, then %d, %v", before, after, err)
	}
	s, err := l.State(noon)
	if err != nil || s.Jobs[0].Job.Command[1] != "another" || !s.Jobs[0].Seen.Equal(noon) {
		t.Errorf("%+v, %v", s, err)
	}
	edited.Trigger.Every = 2 * time.Hour
	if _, err := other.Edit(edited, noon.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s, err = l.State(noon); err != nil || !s.Jobs[0].Seen.Equal(noon.Add(3*time.Hour)) {
		t.Errorf("another trigger: %+v, %v", s, err)
	}
	all, err := l.Jobs()
	if err != nil || len(all) != 1 || all[0].Revision != 3 {
		t.Errorf("%+v, %v", all, err)
	}
	// One that was removed and added again is another one.
	if err := other.Remove("a", noon); err != nil {
		t.Fatal(err)
	}
	again := someJob("a")
	again.Command = []string{"batch"}
	if _, err := other.Add(again, noon.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Job("a"); err != nil || got.Command[0] != "batch" {
		t.Errorf("%+v, %v", got, err)
	}
	if s, err = l.State(noon); err != nil || s.Jobs[0].Job.Command[0] != "batch" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAPauseIsOneLine(t *testing.T) {
	l := opened(t, t.TempDir())
	added(t, l, someJob("a"))
	if err := l.Pause("a", true, noon); err != nil {
		t.Fatal(err)
	}
	for h := 1; h <= 4; h++ {
		if began := step(t, l, noon.Add(time.Duration(h)*time.Hour)); began != nil {
			t.Fatalf("it began: %+v", began)
		}
	}
	asked, err := l.Ask("a", noon.Add(5*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Ask("a", noon.Add(5*time.Hour)); err != nil || again.Instant.Equal(asked.Instant) || again.ID == asked.ID {
		t.Errorf("asked twice: %+v, %v", again, err)
	}
	if began := step(t, l, noon.Add(5*time.Hour)); len(began) != 1 || !began[0].Manual {
		t.Errorf("by hand: %+v", began)
	}
	if err := l.Pause("a", false, noon.Add(389*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if began := step(t, l, noon.Add(390*time.Minute)); len(began) != 0 {
		t.Errorf("what passed in the pause ran: %+v", began)
	}
	if lines := fires(t, l, "a"); !slices.Equal(lines, []string{"13:00 skipped 4 to 16:00 pause", "17:00 running hand", "17:00 waiting overlap", "17:00 skipped 2 to 18:00 pause"}) {
		t.Errorf("%q", lines)
	}
	if err := l.Pause("b", true, noon); !errors.Is(err, ErrNoJob) {
		t.Errorf("no such job: %v", err)
	}
}

func TestNoFireIsBegunTwice(t *testing.T) {
	home := t.TempDir()
	l, other := opened(t, home), opened(t, home)
	added(t, l, someJob("a"))
	now := noon.Add(time.Hour)
	s, err := l.State(now)
	if err != nil {
		t.Fatal(err)
	}
	decisions := schedule.Decide(s, now)
	if err := errors.Join(l.Apply(decisions, now), other.Apply(decisions, now)); err != nil {
		t.Fatal(err)
	}
	start := decisions[slices.IndexFunc(decisions, func(d schedule.Decision) bool { return d.Act == schedule.Start })]
	results := make(chan error)
	for _, one := range []*Ledger{l, other, l, other} {
		go func() {
			_, err := one.Start(start, self, now)
			results <- err
		}()
	}
	won := 0
	for range 4 {
		if err := <-results; err == nil {
			won++
		} else if !errors.Is(err, ErrTaken) {
			t.Error(err)
		}
	}
	if lines := fires(t, l, "a"); won != 1 || len(lines) != 1 {
		t.Errorf("%d began it; %q", won, lines)
	}
	// The clock goes back by a day and comes again.
	runs, err := l.Runs(Query{})
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	if err := l.End(runs[0].ID, End{Outcome: schedule.Won}, now); err != nil {
		t.Fatal(err)
	}
	step(t, l, noon.Add(-24*time.Hour))
	if began := step(t, l, now.Add(time.Minute)); len(began) != 0 && began[0].Instant.Equal(now) {
		t.Errorf("again: %+v", began)
	}
	for _, started := range []bool{true, false} {
		if err := l.Remove("a", now); err != nil && !errors.Is(err, ErrRunning) && started {
			t.Fatal(err)
		}
		if runs, err = l.Runs(Query{Limit: 1}); err == nil && runs[0].Outcome == "" {
			err = l.End(runs[0].ID, End{Outcome: schedule.Won}, now)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatADeadRunnerLeftIsReaped(t *testing.T) {
	l := opened(t, t.TempDir())
	for _, name := range []string{"a", "b"} {
		added(t, l, someJob(name))
	}
	began := step(t, l, noon.Add(time.Hour))
	if len(began) != 2 {
		t.Fatal(began)
	}
	dead := self
	dead.StartTime++ // somebody else has its pid now
	if _, err := l.db.Exec(`UPDATE runs SET spawner_start = ? WHERE job = 'a'`, int64(dead.StartTime)); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("it does not end")
	if _, err := l.Reap(alive, func(schedule.Run) (End, error) { return End{}, broken }, noon); !errors.Is(err, broken) {
		t.Errorf("what does not end is let go: %v", err)
	}
	at := noon.Add(2 * time.Hour)
	// The machine was off for a while: that is no time of the run.
	heard := began[0].Started.Add(time.Minute)
	reaped, err := l.Reap(alive, func(r schedule.Run) (End, error) { return End{Used: schedule.Budget{Tokens: 3}, At: heard}, nil }, at)
	if err != nil || len(reaped) != 1 || reaped[0].Job != "a" || reaped[0].Spawner != dead {
		t.Fatalf("%+v, %v", reaped, err)
	}
	r, err := l.Run(reaped[0].ID)
	if err != nil || r.Outcome != schedule.Lost || !strings.Contains(r.Reason, fmt.Sprintf("process %d", self.PID)) || r.Used.Tokens != 3 || !r.Ended.Equal(heard) || r.Used.Wall != time.Minute {
		t.Errorf("%+v, %v", r, err)
	}
	if lines := fires(t, l, "a"); !slices.Equal(lines, []string{"13:00 waiting retry"}) {
		t.Errorf("%q", lines)
	}
	if lines := fires(t, l, "b"); !slices.Equal(lines, []string{"13:00 running time"}) {
		t.Errorf("%q", lines)
	}
	for said, want := range map[time.Time]time.Time{r.Started.Add(-time.Hour): r.Started, at.Add(time.Hour): at, {}: at} {
		if got := (End{At: said}).ended(r, at); !got.Equal(want) {
			t.Errorf("an end at %v is at %v, want %v", said, got, want)
		}
	}
	if again, err := l.Reap(alive, nil, at); err != nil || len(again) != 0 {
		t.Errorf("twice: %+v, %v", again, err)
	}
}

func TestTheMonthIsCounted(t *testing.T) {
	l := opened(t, t.TempDir())
	j := someJob("a")
	j.Policy.PerMonth, j.Policy.PerRun = schedule.Budget{Tokens: 1000, Wall: 10 * time.Hour}, schedule.Budget{Tokens: 400}
	added(t, l, j)
	at := noon
	run := func(outcome schedule.Outcome, used int64, reported bool) {
		t.Helper()
		at = at.Add(time.Hour)
		began := step(t, l, at)
		if len(began) != 1 {
			t.Fatalf("%q", fires(t, l, "a"))
		}
		if err := l.End(began[0].ID, End{Outcome: outcome, Used: schedule.Budget{Tokens: used}, Reported: reported}, at.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	run(schedule.Won, 100, true)
	run(schedule.NoWinner, 0, false) // nobody knows: what was kept for it counts
	run(schedule.Won, 300, true)
	next := at.Add(time.Hour)
	s, err := l.State(next)
	if err != nil || s.Jobs[0].Spent != (schedule.Budget{Tokens: 800, Wall: 3 * time.Minute}) {
		t.Fatalf("%+v, %v", s.Jobs[0].Spent, err)
	}
	run(schedule.Won, 200, true)
	if began := step(t, l, at.Add(time.Hour)); len(began) != 0 {
		t.Errorf("over the month's budget: %+v", began)
	}
	if lines := fires(t, l, "a"); lines[len(lines)-1] != "17:00 skipped month" {
		t.Errorf("%q", lines)
	}
	if began := step(t, l, noon.Add(20*time.Hour)); len(began) != 1 || began[0].Allowed.Tokens != 400 {
		t.Errorf("in another month: %+v", began)
	}
}

func TestPagesOfRuns(t *testing.T) {
	l := opened(t, t.TempDir())
	added(t, l, someJob("a"))
	added(t, l, someJob("b"))
	for h := 1; h <= 5; h++ {
		for _, r := range step(t, l, noon.Add(time.Duration(h)*time.Hour)) {
			if err := l.End(r.ID, End{Outcome: schedule.Won}, noon.Add(time.Duration(h)*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []int64
	for q := (Query{Job: "b", Limit: 2}); ; {
		page, err := l.Runs(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			got = append(got, r.ID)
		}
		q.Before = page[len(page)-1].ID
	}
	if !slices.Equal(got, []int64{10, 8, 6, 4, 2}) {
		t.Errorf("%v", got)
	}
	if late, err := l.Runs(Query{Since: noon.Add(4 * time.Hour)}); err != nil || len(late) != 4 {
		t.Errorf("%+v, %v", late, err)
	}
}

func TestOneRunner(t *testing.T) {
	home := t.TempDir()
	if _, _, ok := Claimed(home); ok {
		t.Error("somebody runs nothing")
	}
	c, err := TakeClaim(home, Daemon)
	if err != nil {
		t.Fatal(err)
	}
	if mode, owner, ok := Claimed(home); !ok || mode != Daemon || owner != self {
		t.Errorf("%s %+v %v", mode, owner, ok)
	}
	for _, mode := range []Mode{Tick, Daemon} {
		if _, err := TakeClaim(home, mode); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("daemon of process %d", os.Getpid())) {
			t.Errorf("%s beside it: %v", mode, err)
		}
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := Claimed(home); ok {
		t.Error("it is claimed after its release")
	}
	if c, err = TakeClaim(home, Tick); err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := os.WriteFile(claimFile(home), []byte("{\"as\":\"\\u001b[2J\",\"pid\":1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeClaim(home, Daemon); !errors.Is(err, ErrBusy) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("a forged owner: %q", err)
	}
}
