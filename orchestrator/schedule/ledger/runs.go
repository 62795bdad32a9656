package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

const runColumns = `runs.id, runs.job, fires.manual, fires.instant, runs.attempt, runs.revision, runs.started, COALESCE(runs.ended, 0),
	spawner_pid, spawner_start, spawner_boot, child_pid, child_start, child_boot, places,
	allowed_usd, allowed_tokens, allowed_wall, reserved_usd, reserved_tokens, reserved_wall, used_usd, used_tokens, used_wall, reported,
	outcome, status, reason, record FROM runs JOIN fires ON fires.id = runs.fire`

func scanRun(r row) (u schedule.Run, err error) {
	var at, started, ended, allowed, reserved, used, spawner, child int64
	err = r.Scan(&u.ID, &u.Job, &u.Manual, &at, &u.Attempt, &u.Revision, &started, &ended,
		&u.Spawner.PID, &spawner, &u.Spawner.BootID, &u.Child.PID, &child, &u.Child.BootID, &u.Places,
		&u.Allowed.MicroUSD, &u.Allowed.Tokens, &allowed, &u.Reserved.MicroUSD, &u.Reserved.Tokens, &reserved, &u.Used.MicroUSD, &u.Used.Tokens, &used, &u.Reported,
		&u.Outcome, &u.Status, &u.Reason, &u.Record)
	u.Instant, u.Started, u.Ended = instant(at), instant(started), instant(ended)
	u.Spawner.StartTime, u.Child.StartTime = uint64(spawner), uint64(child)
	u.Allowed.Wall, u.Reserved.Wall, u.Used.Wall = time.Duration(allowed)*time.Millisecond, time.Duration(reserved)*time.Millisecond, time.Duration(used)*time.Millisecond
	return u, err
}

// Start keeps, before anything is spawned, that an attempt of a fire begins, as
// a decision of the act Start says. The error is ErrTaken if the fire does not
// wait any more: it was begun, or its job was paused, removed or has a run.
func (l *Ledger) Start(d schedule.Decision, spawner schedule.Process, now time.Time) (r schedule.Run, err error) {
	f := d.Fire
	err = l.do(func(tx *sql.Tx) error {
		taken := fmt.Errorf("job %s: the fire of %s: %w", f.Job, f.Instant.UTC().Format(time.RFC3339), ErrTaken)
		j, _, err := read(tx, f.Job)
		switch {
		case errors.Is(err, ErrNoJob) || err == nil && j.Paused && !f.Manual:
			return taken
		case err != nil:
			return err
		}
		var open int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM runs WHERE job = ? AND ended IS NULL`, f.Job).Scan(&open); err != nil {
			return err
		}
		var fire int64
		if open == 0 {
			err = tx.QueryRow(`UPDATE fires SET state = ?, attempt = attempt + 1, code = ?, detail = ?, decided = ?
				WHERE job = ? AND manual = ? AND instant = ? AND state = 'waiting' RETURNING id, attempt`,
				schedule.FireRunning, d.Reason.Code, d.Reason.Detail, milli(now), f.Job, f.Manual, milli(f.Instant)).Scan(&fire, &f.Attempt)
		}
		if open > 0 || errors.Is(err, sql.ErrNoRows) {
			return taken
		}
		if err != nil {
			return err
		}
		r = schedule.Run{
			Job: f.Job, Manual: f.Manual, Instant: f.Instant, Attempt: f.Attempt, Revision: j.Revision, Started: now, Spawner: spawner,
			Places: d.Places, Allowed: d.Allowed, Reserved: d.Reserve, Status: -1,
		}
		return tx.QueryRow(`INSERT INTO runs (fire, job, attempt, revision, started, spawner_pid, spawner_start, spawner_boot, places,
				allowed_usd, allowed_tokens, allowed_wall, reserved_usd, reserved_tokens, reserved_wall)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			fire, f.Job, r.Attempt, r.Revision, milli(now), spawner.PID, int64(spawner.StartTime), spawner.BootID, d.Places,
			d.Allowed.MicroUSD, d.Allowed.Tokens, d.Allowed.Wall.Milliseconds(), d.Reserve.MicroUSD, d.Reserve.Tokens, d.Reserve.Wall.Milliseconds()).Scan(&r.ID)
	})
	return r, err
}

// Spawned keeps what process a run is, and where its record is.
func (l *Ledger) Spawned(run int64, child schedule.Process, record string) error {
	return l.open(run, `UPDATE runs SET child_pid = ?, child_start = ?, child_boot = ?, record = ? WHERE id = ? AND ended IS NULL`,
		child.PID, int64(child.StartTime), child.BootID, record, run)
}

// Use keeps what a run used so far; less than before is passed over.
func (l *Ledger) Use(run int64, used schedule.Budget, reported bool) error {
	return l.open(run, `UPDATE runs SET used_usd = MAX(used_usd, ?), used_tokens = MAX(used_tokens, ?), used_wall = MAX(used_wall, ?), reported = MAX(reported, ?) WHERE id = ? AND ended IS NULL`,
		used.MicroUSD, used.Tokens, used.Wall.Milliseconds(), reported, run)
}

// open changes a run that is not over.
func (l *Ledger) open(run int64, statement string, args ...any) error {
	return l.do(func(tx *sql.Tx) error {
		ok, err := changed(tx.Exec(statement, args...))
		if err != nil || ok {
			return err
		}
		_, err = openRun(tx, run)
		return err
	})
}

// openRun reads a run that is not over.
func openRun(tx *sql.Tx, id int64) (schedule.Run, error) {
	r, err := scanRun(tx.QueryRow(`SELECT `+runColumns+` WHERE runs.id = ?`, id))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, fmt.Errorf("run %d: %w", id, ErrNoRun)
	case err == nil && !r.Ended.IsZero():
		return r, fmt.Errorf("run %d: %w", id, ErrOver)
	}
	return r, err
}

// An End is how a run ended.
type End struct {
	Outcome  schedule.Outcome
	Status   int // exit status; -1 without one
	Reason   string
	Record   string          // "" leaves what Spawned said
	Used     schedule.Budget // Wall is counted here
	Reported bool
	At       time.Time // when it ended, if that was not now; zero for now
}

// ended is when a run ended: not before it began, and not after now.
func (e End) ended(r schedule.Run, now time.Time) time.Time {
	if !e.At.IsZero() && e.At.Before(now) {
		now = e.At
	}
	if now.Before(r.Started) {
		return r.Started
	}
	return now
}

// End keeps how a run ended. Its fire is done, or waits for a retry if the
// outcome and the job's policy say so.
func (l *Ledger) End(run int64, e End, now time.Time) error {
	return l.do(func(tx *sql.Tx) error {
		r, err := openRun(tx, run)
		if err != nil {
			return err
		}
		at := e.ended(r, now)
		if _, err := tx.Exec(`UPDATE runs SET ended = ?, outcome = ?, status = ?, reason = ?, record = CASE ? WHEN '' THEN record ELSE ? END,
				used_usd = MAX(used_usd, ?), used_tokens = MAX(used_tokens, ?), used_wall = MAX(used_wall, ?), reported = MAX(reported, ?) WHERE id = ?`,
			milli(at), e.Outcome, e.Status, e.Reason, e.Record, e.Record,
			e.Used.MicroUSD, e.Used.Tokens, at.Sub(r.Started).Milliseconds(), e.Reported, run); err != nil {
			return err
		}
		j, _, err := read(tx, r.Job)
		if err != nil {
			return err // a job with a run cannot be removed
		}
		f, err := scanFire(tx.QueryRow(`SELECT `+fireColumns+` FROM fires WHERE id = (SELECT fire FROM runs WHERE id = ?)`, run))
		if err != nil {
			return err
		}
		f = schedule.Settle(j.Policy, f, e.Outcome, now)
		_, err = tx.Exec(`UPDATE fires SET state = ?, after = ?, code = ?, detail = ?, decided = ? WHERE id = ?`,
			f.State, milli(f.After), f.Reason.Code, f.Reason.Detail, milli(f.Decided), f.ID)
		return err
	})
}

// Reap ends every run whose spawner is not alive, and returns them as they
// were. end is called for each without a transaction: it ends what is left of
// the run's processes, and says how the run ended as far as can be seen; an
// Outcome of "" becomes Lost.
func (l *Ledger) Reap(alive func(schedule.Process) bool, end func(schedule.Run) (End, error), now time.Time) (reaped []schedule.Run, err error) {
	var open []schedule.Run
	err = l.do(func(tx *sql.Tx) error {
		rows, err := tx.Query(`SELECT ` + runColumns + ` WHERE runs.ended IS NULL ORDER BY runs.id`)
		open, err = list(rows, err, scanRun)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, r := range open {
		if alive(r.Spawner) {
			continue
		}
		e, err := end(r)
		if err != nil {
			return reaped, fmt.Errorf("run %d of job %s: %w", r.ID, r.Job, err)
		}
		if e.Outcome == "" {
			e.Outcome, e.Status = schedule.Lost, -1
		}
		if e.Reason == "" {
			e.Reason = fmt.Sprintf("its runner, process %d, ended before it", r.Spawner.PID)
		}
		if err := l.End(r.ID, e, now); err != nil && !errors.Is(err, ErrOver) {
			return reaped, err
		}
		reaped = append(reaped, r)
	}
	return reaped, nil
}
