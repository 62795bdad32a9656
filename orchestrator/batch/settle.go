package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

// Settle puts right what a killed start of the batch left: its processes are
// ended, its shadows removed, its unfinished attempts closed. A run that had
// finished counts, although nobody had written that down. It returns a line for
// each thing that it did.
func Settle(ctx context.Context, s *State, records *record.Store, store *worktree.Store, now time.Time) (done []string, err error) {
	open, err := s.Attempts(true)
	if err != nil {
		return nil, err
	}
	rows, err := s.Rows()
	if err != nil {
		return nil, err
	}
	for _, a := range open {
		doc, err := records.Load(a.Run)
		if err != nil && !errors.Is(err, record.ErrNoRun) && !errors.Is(err, record.ErrUnreadable) {
			return done, err
		}
		e := ending{endInterrupted, Pending, 0, "it was killed before it began"}
		if err == nil {
			if e, err = s.close(a, doc, records, store); err != nil {
				return done, err
			}
		}
		if e.end == endInfrastructure {
			e.state = Pending
		}
		if err := s.end(a.Task, a.Run, e, doc.ExitCode, now, time.Time{}); err != nil {
			return done, err
		}
		done = append(done, fmt.Sprintf("task %s: its run %s was %s", rows[a.Task].ID, a.Run, endWords(e)))
	}
	if err := s.forget(records, store); err != nil {
		return done, err
	}
	if len(open) > 0 {
		if _, err := store.GC(ctx, worktree.GCOptions{Now: now}); err != nil {
			done = append(done, fmt.Sprintf("clean-up was not finished (`bestof gc` finishes it): %v", err))
		}
	}
	return done, nil
}

func endWords(e ending) string {
	if e.end == endInterrupted {
		return "interrupted; what was done of it is kept"
	}
	return "over"
}

// close ends what an attempt left running, and its record.
func (s *State) close(a Attempt, doc record.Document, records *record.Store, store *worktree.Store) (ending, error) {
	for _, c := range doc.Candidates {
		for _, p := range c.Processes {
			if _, err := proc.Reap(p); err != nil {
				return ending{}, fmt.Errorf("end what run %s left running: %w", a.Run, err)
			}
		}
	}
	if _, err := proc.ReapBelow(store.RunDir(a.Run)); err != nil {
		return ending{}, fmt.Errorf("end what run %s left running: %w", a.Run, err)
	}
	var costs []Cost
	for _, c := range doc.Candidates {
		if c.Detail == record.NotStarted || c.Outcome == "" || doc.Phase == record.Interrupted && c.Outcome == candidate.Cancelled && !began(c) {
			continue
		}
		costs = append(costs, Cost{Task: a.Task, Candidate: c.Number, Run: a.Run, Agent: c.Agent, Outcome: string(c.Outcome), Usage: orchestrator.UsageOf(c.Usage), Took: time.Duration(c.DurationMS) * time.Millisecond})
	}
	before, err := s.before(a)
	if err != nil {
		return ending{}, err
	}
	costs = slices.DeleteFunc(costs, func(c Cost) bool { return before[c.Candidate] })
	if err := s.pay(costs...); err != nil {
		return ending{}, err
	}
	if doc.Phase != record.Finished {
		for i := range doc.Candidates {
			doc.Candidates[i].Processes = nil
		}
		if err := records.Update(doc); err != nil {
			return ending{}, fmt.Errorf("close the record of run %s: %w", a.Run, err)
		}
	}
	return endingOf(doc), nil
}

// began reports whether a candidate of whose run the end was not written down has
// left a trace. One that still waited for its turn used nothing, and is none of
// those whose agents do not say what they used.
func began(c record.Candidate) bool {
	return len(c.Processes) > 0 || c.Rounds > 0 || c.AgentEnd != nil || orchestrator.UsageOf(c.Usage).Reported
}

// before are the candidates of the attempt's task that an earlier attempt let
// live and paid for.
func (s *State) before(a Attempt) (map[int]bool, error) {
	rows, err := s.db.Query(`SELECT candidate FROM spend WHERE task = ? AND run <> ? AND outcome NOT IN ('', ?, ?)`, a.Task, a.Run, string(candidate.Cancelled), string(candidate.Infrastructure))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[int]bool{}
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all[n] = true
	}
	return all, rows.Err()
}

// forget removes records that were made for attempts which never began.
func (s *State) forget(records *record.Store, store *worktree.Store) error {
	names, err := records.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		known, err := s.hasRun(name)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		if _, err := proc.ReapBelow(store.RunDir(name)); err != nil {
			return err
		}
		if err := records.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// keep takes over from the latest record of a task's attempts the candidates that
// lived to their end, with their files. An attempt that was killed as it began has
// no record; then it is that of the one before.
func (b *batch) keep(row Row, w *record.Writer) ([]record.Candidate, error) {
	runs, err := b.State.runs(row)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		doc, err := b.Records.Load(run)
		if errors.Is(err, record.ErrNoRun) || errors.Is(err, record.ErrUnreadable) {
			continue // it never came so far
		}
		if err != nil {
			return nil, err
		}
		return b.takeOver(run, doc, w)
	}
	return nil, nil
}

// takeOver makes what a run kept part of another record.
func (b *batch) takeOver(run string, doc record.Document, w *record.Writer) ([]record.Candidate, error) {
	all := kept(doc)
	from := b.Records.Path(run)
	for _, c := range all {
		id := filepath.Join("candidates", candidate.Number(c.Number).ID())
		if err := link(filepath.Join(from, id), filepath.Join(w.Path(), id)); err != nil {
			return nil, fmt.Errorf("keep what run %s did: %w", run, err)
		}
	}
	if len(all) > 0 {
		if err := link(orchestrator.ObjectsDir(from), orchestrator.ObjectsDir(w.Path())); err != nil {
			return nil, fmt.Errorf("keep what run %s did: %w", run, err)
		}
	}
	return all, nil
}

// link makes a tree of hard links of the regular files of another one, which
// need not exist. Files of records are only ever replaced, never written again.
func link(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == from {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch at := filepath.Join(to, rel); {
		case d.IsDir():
			return os.MkdirAll(at, 0o755)
		case d.Type().IsRegular():
			return os.Link(path, at)
		}
		return nil
	})
}
