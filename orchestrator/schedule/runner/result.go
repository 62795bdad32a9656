package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
)

// ResultSchema names the version of Result. Fields are only ever added to it.
const ResultSchema = "bestof.job-result/1"

// A Result is what a run of a job leaves, and what its program and its webhooks
// are told.
type Result struct {
	Schema     string          `json:"schema"`
	Job        string          `json:"job"`
	Run        int64           `json:"run"`
	Key        string          `json:"key"` // job, instant and attempt: names a run for good
	Attempt    int             `json:"attempt"`
	Manual     bool            `json:"manual"`
	Repository string          `json:"repository"`
	Command    []string        `json:"command"`
	Started    time.Time       `json:"started"`
	Ended      time.Time       `json:"ended"`
	Outcome    string          `json:"outcome"`
	ExitCode   int             `json:"exit_code"` // -1 without one
	Reason     string          `json:"reason"`
	Adopt      string          `json:"adopt"`
	Branch     string          `json:"branch,omitempty"`
	Commit     string          `json:"commit,omitempty"`
	Patches    []string        `json:"patches,omitempty"` // files
	Record     string          `json:"record"`
	MicroUSD   int64           `json:"micro_usd"`
	Tokens     int64           `json:"tokens"`
	Reported   bool            `json:"reported"` // whether an agent said what it used
	Notices    []string        `json:"notices,omitempty"`
	Document   json.RawMessage `json:"document,omitempty"` // of the run or of the batch
}

func (a *attempt) resultOf(inv Invocation, p Produced, now time.Time) Result {
	return Result{
		Schema: ResultSchema, Job: a.job.Name, Run: a.run.ID, Key: a.run.Key(), Attempt: a.run.Attempt, Manual: a.run.Manual,
		Repository: a.job.Repository, Command: a.job.Command, Started: a.run.Started, Ended: now,
		Outcome: string(a.end.Outcome), ExitCode: a.end.Status, Reason: a.end.Reason,
		Adopt: string(a.job.Result.Adopt), Branch: p.Branch, Commit: p.Commit, Record: a.end.Record,
		MicroUSD: p.Used.MicroUSD, Tokens: p.Used.Tokens, Reported: p.Reported, Notices: inv.Notices, Document: p.Document,
	}
}

// write puts the result where it stays, and before that who is to be told.
// After a crash the ledger's end is taken from it.
func (a *attempt) write() (err error) {
	defer func() {
		// Without the names of files that are other ones each time: it is logged once.
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%s: %w: make room on it: the result of run %d waits for that", ledger.Folder(a.r.Home), ledger.ErrFull, a.run.ID)
		}
	}()
	b, err := json.Marshal(a.result)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return err
	}
	if steps := stepsOf(a.job.Result); len(steps) > 0 {
		if err := writeTold(a.r.Home, Told{Run: a.run.ID, Job: a.job, Steps: steps}); err != nil {
			return fmt.Errorf("keep who is to be told: %w", err)
		}
	}
	if err := atomicfile.Write(filepath.Join(a.dir, ResultFile), b, 0o600); err != nil {
		return fmt.Errorf("keep the result: %w", err)
	}
	return nil
}

// maxResult bounds a result's file, in bytes.
const maxResult = maxStdout + 1<<20

// LoadResult reads the result of a run; the error is fs.ErrNotExist before it
// has one.
func LoadResult(home string, run int64) (Result, error) {
	b, err := readBelow(runsDir(home), filepath.Join(strconv.FormatInt(run, 10), ResultFile), maxResult)
	if err != nil {
		return Result{}, err
	}
	return parseResult(b, run)
}

// parseResult reads a result of this program.
func parseResult(b []byte, run int64) (res Result, err error) {
	if err = json.Unmarshal(b, &res); err == nil && res.Schema != ResultSchema {
		err = fmt.Errorf("run %d: its result has the schema %q", run, res.Schema)
	}
	return res, err
}

// readBelow reads a file of at most so many bytes.
func readBelow(dir, name string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return b, err
}

// A planned is what a run was about to be, kept before it is spawned: whoever
// settles it looks there for what it left.
type planned struct {
	Key        string       `json:"key"`
	Job        schedule.Job `json:"job"` // as it was
	Invocation Invocation   `json:"invocation"`
}

// keepPlan keeps what the run is about to be, but for its task.
func (a *attempt) keepPlan(inv Invocation) error {
	inv.Stdin = nil
	b, err := json.Marshal(planned{a.run.Key(), a.job, inv})
	if err == nil {
		err = atomicfile.Write(filepath.Join(a.dir, PlanFile), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what the run is: %w", err)
	}
	return nil
}

// loadPlan reads what a run was about to be.
func loadPlan(home string, run schedule.Run) (planned, error) {
	b, err := readBelow(runsDir(home), filepath.Join(strconv.FormatInt(run.ID, 10), PlanFile), maxResult)
	if err != nil {
		return planned{}, err
	}
	return parsePlan(b, run)
}

// parsePlan reads a plan that is of this run.
func parsePlan(b []byte, run schedule.Run) (p planned, err error) {
	if err = json.Unmarshal(b, &p); err == nil && p.Key != run.Key() {
		err = fmt.Errorf("run %d: its plan is that of %q", run.ID, p.Key)
	}
	return p, err
}

// settle ends what a runner that died left running, and writes down what is
// known of how those runs ended: their result, or what their invocation left if
// that came to its end.
func (r *Runner) settle(ctx context.Context) error {
	lost, err := r.Ledger.Reap(
		func(p schedule.Process) bool { return proc.Identity(p).Alive() },
		func(run schedule.Run) (ledger.End, error) {
			if run.Child != (schedule.Process{}) {
				if _, err := proc.Reap(proc.Identity(run.Child)); err != nil {
					return ledger.End{}, fmt.Errorf("end what run %d left running: %w", run.ID, err)
				}
			}
			return r.lostEnd(ctx, run)
		}, r.Clock.Now())
	for _, run := range lost {
		r.Log.Warn("run settled", "job", run.Job, "run", run.ID)
	}
	return err
}

// lostEnd is how a run ended whose runner died.
func (r *Runner) lostEnd(ctx context.Context, run schedule.Run) (ledger.End, error) {
	if res, err := LoadResult(r.Home, run.ID); err == nil && res.Key == run.Key() {
		return ledger.End{
			Outcome: schedule.Outcome(res.Outcome), Status: res.ExitCode, Reason: res.Reason, Record: res.Record,
			Used: schedule.Budget{MicroUSD: res.MicroUSD, Tokens: res.Tokens}, Reported: res.Reported, At: res.Ended,
		}, nil
	}
	lost := ledger.End{Outcome: schedule.Lost, Status: -1, Reason: "the runner of jobs died while it ran: nobody saw how it ended", At: r.lastSign(run)}
	p, err := loadPlan(r.Home, run)
	if err != nil {
		return lost, nil // it was never spawned
	}
	if used, reported := r.Program.Used(p.Job, p.Invocation); reported {
		lost.Used = used // what the month keeps for it stays: more may have been used
	}
	ctx, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	produced, status, ended, err := r.Program.Recover(ctx, p.Job, p.Invocation)
	if err != nil {
		r.Log.Warn("what a run left was not read", "job", run.Job, "run", run.ID, "error", err.Error())
	}
	if err != nil || !ended {
		return lost, nil
	}
	p.Invocation.Notices = append(p.Invocation.Notices, "the runner of jobs died at its end: this is what its record says")
	a := newAttempt(ctx, r, p.Job, run)
	a.over = r.lastSign(run)
	a.conclude(p.Invocation, produced, status, nil)
	a.cancel(nil)
	return a.end, a.kept
}

// lastSign is when a run whose runner died last printed something: how long the
// machine was off after that is not a time that it took.
func (r *Runner) lastSign(run schedule.Run) time.Time {
	info, err := os.Lstat(filepath.Join(Dir(r.Home, run.ID), LogFile))
	if err != nil {
		return run.Started
	}
	return info.ModTime()
}

// recoverLimit is the time to find out what one run left.
const recoverLimit = 2 * time.Minute

// Kept are the ids of the runs that have a directory, the latest first.
func Kept(home string) ([]int64, error) {
	return numbered(runsDir(home), "")
}

// Untold reports whether somebody is still to be told of a run.
func Untold(home string, run int64) bool {
	_, err := os.Lstat(filepath.Join(outbox(home), toldName(run)))
	return !errors.Is(err, os.ErrNotExist)
}

// Removed reports whether the directory of a run is gone.
func Removed(home string, run int64) bool {
	_, err := os.Lstat(Dir(home, run))
	return errors.Is(err, os.ErrNotExist)
}

// Remove removes what a run that is over kept besides its line in the history: its
// log, its result and its batch.
func Remove(home string, run int64) error {
	root, err := os.OpenRoot(runsDir(home))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(strconv.FormatInt(run, 10))
}

// numbered are the numbers that the entries of a directory are named after, with
// what follows them, the greatest first. There may be no directory.
func numbered(dir, follows string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var all []int64
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), follows)
		if n, err := strconv.ParseInt(name, 10, 64); err == nil && strconv.FormatInt(n, 10)+follows == e.Name() {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b int64) int { return cmp.Compare(b, a) })
	return all, err
}
