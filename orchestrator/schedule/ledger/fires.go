package ledger

import (
	"database/sql"
	"errors"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

const fireColumns = `id, job, manual, instant, made, after, attempt, state, code, detail, through, count, decided`

type row interface{ Scan(...any) error }

func scanFire(r row) (f schedule.Fire, err error) {
	var at, after, through, decided int64
	err = r.Scan(&f.ID, &f.Job, &f.Manual, &at, &f.Made, &after, &f.Attempt, &f.State, &f.Reason.Code, &f.Reason.Detail, &through, &f.Count, &decided)
	f.Instant, f.After, f.Through, f.Decided = instant(at), instant(after), instant(through), instant(decided)
	return f, err
}

func list[T any](rows *sql.Rows, err error, scan func(row) (T, error)) (all []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// State is what schedule.Decide reads of the file. Spent is filled in for jobs
// that have a budget of the month and could begin a run. Limit, Taken, Locked
// and Draining are the caller's, and so are Output and Stopping of runs.
func (l *Ledger) State(now time.Time) (s schedule.State, err error) {
	err = l.do(func(tx *sql.Tx) error {
		var tops []time.Time
		if s.Jobs, tops, err = l.jobs(tx); err != nil {
			return err
		}
		at := make(map[string]*schedule.JobState, len(s.Jobs))
		for i := range s.Jobs {
			at[s.Jobs[i].Job.Name] = &s.Jobs[i]
		}
		waiting, err := tx.Query(`SELECT ` + fireColumns + ` FROM fires WHERE state = 'waiting' ORDER BY job, instant`)
		fires, err := list(waiting, err, scanFire)
		if err != nil {
			return err
		}
		for _, f := range fires {
			if j := at[f.Job]; j != nil {
				j.Waiting = append(j.Waiting, f)
			}
		}
		open, err := tx.Query(`SELECT ` + runColumns + ` WHERE runs.ended IS NULL ORDER BY runs.id`)
		runs, err := list(open, err, scanRun)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if j := at[r.Job]; j != nil {
				j.Running = append(j.Running, r)
			}
		}
		for i := range s.Jobs {
			j := &s.Jobs[i]
			if since := earlier(j.Seen, now); tops[i].After(since) {
				if j.Ahead, err = ahead(tx, j.Job.Name, since); err != nil {
					return err
				}
			}
			if err := month(tx, j, now); err != nil {
				return err
			}
		}
		return nil
	})
	return s, err
}

// ahead are the instants of a job after one that have a fire.
func ahead(tx *sql.Tx, job string, after time.Time) ([]time.Time, error) {
	rows, err := tx.Query(`SELECT instant FROM fires WHERE job = ? AND manual = 0 AND instant > ? AND state <> 'skipped'`, job, milli(after))
	return list(rows, err, func(r row) (time.Time, error) {
		var ms int64
		err := r.Scan(&ms)
		return instant(ms), err
	})
}

// month fills in what a job spent in the month of now.
func month(tx *sql.Tx, j *schedule.JobState, now time.Time) error {
	if j.Job.Policy.PerMonth == (schedule.Budget{}) {
		return nil
	}
	if next, ok := j.When.Next(j.Seen); len(j.Waiting) == 0 && (!ok || next.After(now)) {
		return nil
	}
	from, to := schedule.Month(now, j.When.Zone())
	var wall int64
	// What nobody reported counts as what was kept for it.
	err := tx.QueryRow(`SELECT
			COALESCE(SUM(CASE WHEN reported THEN used_usd ELSE MAX(used_usd, reserved_usd) END), 0),
			COALESCE(SUM(CASE WHEN reported THEN used_tokens ELSE MAX(used_tokens, reserved_tokens) END), 0),
			COALESCE(SUM(used_wall), 0)
		FROM runs WHERE job = ? AND started >= ? AND started < ? AND ended IS NOT NULL`,
		j.Job.Name, milli(from), milli(to)).Scan(&j.Spent.MicroUSD, &j.Spent.Tokens, &wall)
	j.Spent.Wall = time.Duration(wall) * time.Millisecond
	return err
}

// Apply keeps decisions of the acts Enqueue, Skip, Hold and Rewind in one
// transaction, and passes over others.
func (l *Ledger) Apply(decisions []schedule.Decision, now time.Time) error {
	return l.do(func(tx *sql.Tx) error {
		for _, d := range decisions {
			if err := apply(tx, d, now); err != nil {
				return err
			}
		}
		return nil
	})
}

func apply(tx *sql.Tx, d schedule.Decision, now time.Time) error {
	f := d.Fire
	f.Reason, f.Decided = d.Reason, now
	switch d.Act {
	case schedule.Rewind:
		_, err := tx.Exec(`UPDATE jobs SET seen = ? WHERE name = ?`, milli(d.Until), d.Job)
		return err
	case schedule.Hold:
		_, err := tx.Exec(`UPDATE fires SET code = ?, detail = ? WHERE job = ? AND manual = ? AND instant = ? AND state = 'waiting'`,
			f.Reason.Code, f.Reason.Detail, f.Job, f.Manual, milli(f.Instant))
		return err
	case schedule.Enqueue, schedule.Skip:
	default:
		return nil
	}
	// A job that was removed since fires no more.
	ok, err := changed(tx.Exec(`UPDATE jobs SET seen = MAX(seen, ?), top = MAX(top, ?) WHERE name = ?`, seenBy(f), seenBy(f), f.Job))
	if err != nil || !ok {
		return err
	}
	if d.Act == schedule.Enqueue {
		_, err = insert(tx, f)
		return err
	}
	return skip(tx, f)
}

// seenBy is up to when a fire says that instants were decided; what somebody
// asked for says nothing.
func seenBy(f schedule.Fire) int64 {
	if f.Manual {
		return 0
	}
	return max(milli(f.Instant), milli(f.Through))
}

// insert keeps a fire unless there is one of its name, and returns its id; 0
// if there is.
func insert(tx *sql.Tx, f schedule.Fire) (int64, error) {
	var id int64
	err := tx.QueryRow(`INSERT INTO fires (job, manual, instant, made, after, attempt, state, code, detail, through, count, decided)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
		f.Job, f.Manual, milli(f.Instant), f.Made, milli(f.After), f.Attempt, f.State, f.Reason.Code, f.Reason.Detail,
		max(milli(f.Instant), milli(f.Through)), max(1, f.Count), milli(f.Decided)).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// skip keeps that a fire does not run: one that waits, or a new one. Pauses
// that follow one another are one.
func skip(tx *sql.Tx, f schedule.Fire) error {
	ok, err := changed(tx.Exec(`UPDATE fires SET state = ?, code = ?, detail = ?, decided = ? WHERE job = ? AND manual = ? AND instant = ? AND state = 'waiting'`,
		schedule.FireSkipped, f.Reason.Code, f.Reason.Detail, milli(f.Decided), f.Job, f.Manual, milli(f.Instant)))
	if err != nil || ok {
		return err
	}
	if f.Reason.Code == schedule.ByPause && !f.Manual {
		ok, err = changed(tx.Exec(`UPDATE fires SET through = ?, count = count + ?, decided = ?
			WHERE id = (SELECT MAX(id) FROM fires WHERE job = ?) AND NOT manual AND state = ? AND code = ? AND through < ?`,
			max(milli(f.Instant), milli(f.Through)), max(1, f.Count), milli(f.Decided), f.Job, schedule.FireSkipped, schedule.ByPause, milli(f.Instant)))
		if err != nil || ok {
			return err
		}
	}
	_, err = insert(tx, f)
	return err
}
