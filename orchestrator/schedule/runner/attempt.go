package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
)

// The files of a run's directory.
const (
	LogFile      = "log"           // what it printed, cleaned
	PlanFile     = "plan.json"     // planned
	ResultFile   = "result.json"   // Result
	ToldFile     = "told.json"     // what became of telling
	OnFinishFile = "on-finish.log" // what the job's own program printed
)

const (
	maxStdout = 32 << 20         // of an invocation's document
	grace     = 30 * time.Second // for an invocation to write its record when it is told to end
)

// stopped is why a run was stopped.
type stopped struct {
	outcome schedule.Outcome
	reason  schedule.Reason
}

func (s *stopped) Error() string { return s.reason.Detail }

// An attempt is a run that goes on in this process.
type attempt struct {
	r        *Runner
	job      schedule.Job
	run      schedule.Run
	dir      string
	ctx      context.Context // of this run alone; a field, since the deciding goroutine ends it
	cancel   context.CancelCauseFunc
	stopping bool         // of the deciding goroutine
	output   atomic.Int64 // unix nanoseconds
	trace    string       // what the program has as TRACEPARENT, "" for what the environment has

	// When it is over.
	over   time.Time // when that was, zero for now: a runner that died did not see it
	end    ledger.End
	result Result
	kept   error // its result could not be written
}

func newAttempt(ctx context.Context, r *Runner, j schedule.Job, run schedule.Run) *attempt {
	a := &attempt{r: r, job: j, run: run, dir: Dir(r.Home, run.ID)}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	return a
}

func (a *attempt) lastOutput() time.Time {
	if n := a.output.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// live is the whole run: what the job asks for as things are now, the program,
// and what it left. It writes the result; only the ledger is left to be told.
func (a *attempt) live() {
	defer a.cancel(nil)
	inv, produced, status, err := a.invoke()
	a.conclude(inv, produced, status, err)
}

// conclude says how the run ended, from what its invocation left, and keeps it.
func (a *attempt) conclude(inv Invocation, produced Produced, status int, err error) {
	now := a.r.Clock.Now()
	if !a.over.IsZero() {
		now = a.over
	}
	a.end = a.ending(produced, status, err)
	a.result = a.resultOf(inv, produced, now)
	if err := a.deliver(produced); err != nil {
		a.result.Notices = append(a.result.Notices, err.Error())
		if a.end.Outcome == schedule.Won {
			// The winner is safe in its record; what the job promised is not kept.
			a.end.Outcome, a.end.Reason = schedule.Refused, err.Error()
			a.result.Outcome, a.result.Reason = string(a.end.Outcome), a.end.Reason
		}
	}
	a.kept = a.write()
}

// invoke plans and runs the program.
func (a *attempt) invoke() (inv Invocation, produced Produced, status int, err error) {
	status = -1
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return inv, produced, status, err
	}
	file, err := os.OpenFile(filepath.Join(a.dir, LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return inv, produced, status, err
	}
	log := newLog(file, a.r.Redactor, maxLog)
	defer func() {
		if lost := log.Close(); lost != nil {
			// What the invocation did stands: it is not done again for its log.
			inv.Notices = append(inv.Notices, "its log was not kept whole: "+oneLine(lost.Error()))
		}
	}()
	before, err := a.before()
	if err != nil {
		return inv, produced, status, err
	}
	if inv, err = a.r.Program.Plan(a.ctx, a.job, a.run, before, a.dir, log); err != nil {
		return inv, produced, status, err
	}
	for _, n := range inv.Notices {
		fmt.Fprintf(log, "bestof: %s\n", n)
	}
	if err := a.keepPlan(inv); err != nil {
		return inv, produced, status, err
	}
	a.r.Log.Info("invocation begins", "job", a.job.Name, "run", a.run.ID)
	stdout, status, err := a.spawn(inv, log)
	if err != nil {
		return inv, produced, status, err
	}
	a.r.Log.Info("invocation ended", "job", a.job.Name, "run", a.run.ID, "status", status)
	read, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), time.Minute)
	defer cancel()
	if produced, err = a.r.Program.Read(read, a.job, inv, stdout); err != nil {
		fmt.Fprintf(log, "bestof: read what came of it: %v\n", err)
		produced.Reason, err = err.Error(), nil
	}
	return inv, produced, status, err
}

// before is the last attempt at the same fire that came to be planned, nil for
// none.
func (a *attempt) before() (*Attempted, error) {
	if a.run.Attempt < 2 {
		return nil, nil
	}
	runs, err := a.r.Ledger.Runs(ledger.Query{Job: a.job.Name, Before: a.run.ID})
	for _, r := range runs {
		if r.Manual != a.run.Manual || !r.Instant.Equal(a.run.Instant) {
			continue
		}
		if p, err := loadPlan(a.r.Home, r); err == nil {
			return &Attempted{r.ID, p.Job, p.Invocation}, nil
		}
	}
	return nil, err
}

// spawn runs the program in a process tree of its own. Its document is on
// stdout, and what it says for people on stderr.
func (a *attempt) spawn(inv Invocation, log io.Writer) (stdout []byte, status int, err error) {
	var unkept error
	p, err := proc.Start(proc.Command{
		Argv: inv.Argv, Dir: inv.Dir, Env: a.environ(), Grace: grace,
		Started: func(id proc.Identity) {
			unkept = a.r.Ledger.Spawned(a.run.ID, schedule.Process(id), a.dir)
		},
	})
	if err != nil {
		return nil, -1, err
	}
	defer p.Close()
	if unkept != nil {
		return nil, -1, unkept // a tree that nobody knows of is not let go on; Close ends it
	}
	counting, counted := context.WithCancel(context.Background())
	var streams sync.WaitGroup
	streams.Go(func() { a.count(counting, inv) })
	document := &bounded{most: maxStdout}
	streams.Go(func() {
		_, _ = p.Stdin.Write(inv.Stdin) // who does not read it does not want it
		_ = p.Stdin.Close()
	})
	streams.Go(func() { _, _ = io.Copy(a.heard(document), p.Stdout) })
	streams.Go(func() { _, _ = io.Copy(a.heard(log), p.Stderr) })
	select {
	case <-p.Done():
	case <-a.ctx.Done():
		if err := p.Stop(); err != nil {
			counted()
			return nil, -1, err
		}
		<-p.Done()
	}
	counted()
	streams.Wait()
	res, err := p.Wait()
	switch {
	case err != nil:
		return nil, -1, err
	case res.End == proc.NotRun:
		return nil, -1, errors.New(res.Reason)
	case res.Signal != 0:
		return document.Bytes(), -1, nil
	}
	return document.Bytes(), res.Code, nil
}

// environ is what the program has: its spans are part of the run's.
func (a *attempt) environ() []string {
	if a.trace == "" {
		return a.r.Environ
	}
	others := slices.DeleteFunc(slices.Clone(a.r.Environ), func(kv string) bool { return strings.HasPrefix(kv, "TRACEPARENT=") })
	return append(others, "TRACEPARENT="+a.trace)
}

// countWait is how often it is looked at what a run used so far.
const countWait = 30 * time.Second

// count keeps what the run used so far, until ctx ends: a run that uses more than
// its job may is stopped, and one whose runner dies has it counted in its month.
func (a *attempt) count(ctx context.Context, inv Invocation) {
	tick := time.NewTicker(countWait)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.countOnce(inv)
		}
	}
}

func (a *attempt) countOnce(inv Invocation) {
	used, reported := a.r.Program.Used(a.job, inv)
	if !reported {
		return
	}
	// What the month keeps for it stays until the end: more may come.
	if err := a.r.Ledger.Use(a.run.ID, used, false); err != nil {
		a.r.Log.Warn("what a run uses was not kept", "job", a.job.Name, "run", a.run.ID, "error", err.Error())
		return
	}
	if most := a.run.Allowed; most.Tokens > 0 && used.Tokens > most.Tokens || most.MicroUSD > 0 && used.MicroUSD > most.MicroUSD {
		a.cancel(&stopped{schedule.OverBudget, schedule.Reason{Code: schedule.ByBudget, Detail: "it used more than its job may"}})
	}
}

// heard passes on to w what an invocation prints, and keeps when it did.
func (a *attempt) heard(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		a.output.Store(a.r.Clock.Now().UnixNano())
		if _, err := w.Write(p); err != nil {
			return len(p), nil // a full disk keeps no program waiting; Close says it
		}
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A bounded keeps the beginning of a stream, up to most bytes; a longer one is
// no document.
type bounded struct {
	most int
	bytes.Buffer
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.over = b.over || b.Len()+len(p) > b.most; b.over {
		b.Reset()
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// ending says how a run ended.
func (a *attempt) ending(p Produced, status int, err error) ledger.End {
	e := ledger.End{Status: status, Reason: p.Reason, Record: p.Record, Used: p.Used, Reported: p.Reported, At: a.over}
	if e.Record == "" {
		e.Record = a.dir
	}
	var known *StatusError
	switch {
	case errors.As(err, &known):
		e.Status, e.Outcome, e.Reason = known.Status, schedule.OutcomeOf(known.Status), known.Error()
	case err != nil:
		e.Outcome, e.Reason = schedule.Infrastructure, err.Error()
	case status < 0:
		e.Outcome, e.Reason = schedule.Broken, "a signal ended it"
	case status == 0 && p.Fruitless:
		e.Outcome = schedule.NoWinner
	default:
		e.Outcome = schedule.OutcomeOf(status)
	}
	if e.Outcome != schedule.Won && a.ctx.Err() != nil {
		var s *stopped
		if errors.As(context.Cause(a.ctx), &s) {
			e.Outcome, e.Reason = s.outcome, s.reason.Detail
		} else {
			e.Outcome, e.Reason = schedule.Interrupted, "the runner of jobs was stopped"
		}
	}
	e.Reason = oneLine(a.r.Redactor.String(e.Reason))
	return e
}

// oneLine is text as it may stand in a list.
func oneLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return term.Clean(line, 1000).String()
}

// deliver writes the patches of winners to the job's folder.
func (a *attempt) deliver(p Produced) error {
	if a.job.Result.Adopt != schedule.AdoptPatch || len(p.Patches) == 0 {
		return nil
	}
	folder := a.job.Result.Folder
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("write the patch: %w", err)
	}
	defer root.Close()
	for _, patch := range p.Patches {
		name := fmt.Sprintf("%s-%s-%d-%s.patch", a.job.Name, a.run.Instant.UTC().Format("20060102T150405Z"), a.run.Attempt, patch.Name)
		if err := writeNew(root, name, patch.Data); err != nil {
			return fmt.Errorf("write the patch: %w", err)
		}
		a.result.Patches = append(a.result.Patches, filepath.Join(folder, name))
	}
	return nil
}

// writeNew writes a file whole or not at all, under a name that nobody has.
func writeNew(root *os.Root, name string, data []byte) error {
	part := "." + name + ".part"
	if err := root.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Link(part, name) // not Rename: another file of that name stays
	}
	if errors.Is(err, os.ErrExist) && holds(root, name, data) {
		err = nil // a runner that died wrote it
	}
	return errors.Join(err, root.Remove(part))
}

// holds reports whether a file has exactly this content.
func holds(root *os.Root, name string, data []byte) bool {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(data)) {
		return false
	}
	b, err := root.ReadFile(name)
	return err == nil && bytes.Equal(b, data)
}
