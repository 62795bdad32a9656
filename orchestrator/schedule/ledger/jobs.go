package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// Add keeps a new job and returns it as it is kept: its Created is now, its
// Revision 1. The error is schedule.ErrNever if its time has passed.
func (l *Ledger) Add(j schedule.Job, now time.Time) (schedule.Job, error) {
	j.Created, j.Revision = now.UTC().Truncate(time.Millisecond), 1
	b, err := schedule.Encode(j)
	if err == nil {
		err = j.CheckNew(now)
	}
	if err != nil {
		return j, err
	}
	return j, l.do(func(tx *sql.Tx) error {
		done, err := changed(tx.Exec(`INSERT INTO jobs (name, document, revision, paused, created, seen, top)
			VALUES (?, ?, ?, ?, ?, ?, COALESCE((SELECT MAX(instant) FROM fires WHERE job = ? AND manual = 0 AND state <> 'skipped'), 0)) ON CONFLICT DO NOTHING`,
			j.Name, string(b), j.Revision, j.Paused, milli(j.Created), milli(j.Created), j.Name))
		if err == nil && !done {
			err = fmt.Errorf("job %s: %w: choose another, or edit it", j.Name, ErrExists)
		}
		return err
	})
}

// Edit replaces a job whose revision is still that of j, and returns it as it
// is kept. If its trigger is another one, instants up to now count as decided.
func (l *Ledger) Edit(j schedule.Job, now time.Time) (schedule.Job, error) {
	is := j.Revision
	j.Revision++
	b, err := schedule.Encode(j)
	if err != nil {
		return j, err
	}
	return j, l.do(func(tx *sql.Tx) error {
		old, seen, err := read(tx, j.Name)
		if err != nil {
			return err
		}
		if old.Revision != is {
			return fmt.Errorf("job %s: %w: look at it again", j.Name, ErrChanged)
		}
		if !same(old.Trigger, j.Trigger) {
			if err := j.CheckNew(now); err != nil {
				return err
			}
			seen = later(seen, now)
		}
		_, err = tx.Exec(`UPDATE jobs SET document = ?, revision = ?, paused = ?, seen = ? WHERE name = ?`, string(b), j.Revision, j.Paused, milli(seen), j.Name)
		return err
	})
}

func same(a, b schedule.Trigger) bool {
	return a.Kind == b.Kind && a.Cron == b.Cron && a.Zone == b.Zone && a.At.Equal(b.At) && a.Every == b.Every && a.From.Equal(b.From)
}

// Remove forgets a job; its history stays. The error is ErrRunning while a run
// of it is not over.
func (l *Ledger) Remove(name string, now time.Time) error {
	return l.do(func(tx *sql.Tx) error {
		if _, _, err := read(tx, name); err != nil {
			return err
		}
		var open int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM runs WHERE job = ? AND ended IS NULL`, name).Scan(&open); err != nil {
			return err
		}
		if open > 0 {
			return fmt.Errorf("job %s: %w: wait for it, or stop it", name, ErrRunning)
		}
		if _, err := tx.Exec(`UPDATE fires SET state = ?, code = ?, detail = 'the job was removed', decided = ? WHERE job = ? AND state = 'waiting'`,
			schedule.FireSkipped, schedule.ByRemoval, milli(now), name); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM jobs WHERE name = ?`, name)
		return err
	})
}

// Pause pauses a job or resumes it. What passed while it was paused is skipped.
func (l *Ledger) Pause(name string, paused bool, now time.Time) error {
	return l.do(func(tx *sql.Tx) error {
		j, seen, err := read(tx, name)
		if err != nil || j.Paused == paused {
			return err
		}
		if !paused {
			when, err := schedule.Compile(j.Trigger)
			if err != nil {
				return err
			}
			one := schedule.JobState{Job: j, When: when, Seen: seen}
			if one.Ahead, err = ahead(tx, name, earlier(seen, now)); err != nil {
				return err
			}
			for _, d := range schedule.Decide(schedule.State{Jobs: []schedule.JobState{one}}, now) {
				if err := apply(tx, d, now); err != nil {
					return err
				}
			}
		}
		_, err = tx.Exec(`UPDATE jobs SET paused = ? WHERE name = ?`, paused, name)
		return err
	})
}

// Ask keeps a fire by hand.
func (l *Ledger) Ask(name string, now time.Time) (f schedule.Fire, err error) {
	at := now.UTC().Truncate(time.Millisecond)
	err = l.do(func(tx *sql.Tx) error {
		if _, _, err := read(tx, name); err != nil {
			return err
		}
		// Two who ask in one millisecond, or with the clock set back, get two.
		var last sql.NullInt64
		if err := tx.QueryRow(`SELECT MAX(instant) FROM fires WHERE job = ? AND manual = 1 AND instant BETWEEN ? AND ?`, name, milli(at), milli(at)+int64(time.Minute/time.Millisecond)).Scan(&last); err != nil {
			return err
		}
		if last.Valid {
			at = instant(last.Int64 + 1)
		}
		f = schedule.Fire{
			Job: name, Manual: true, Instant: at, Through: at, Count: 1, After: now.UTC().Truncate(time.Millisecond), State: schedule.FireWaiting, Decided: now,
			Reason: schedule.Reason{Code: schedule.ByHand, Detail: "somebody asked for it"},
		}
		f.ID, err = insert(tx, f)
		return err
	})
	return f, err
}

// Job is one job; ErrNoJob if there is none.
func (l *Ledger) Job(name string) (j schedule.Job, err error) {
	err = l.do(func(tx *sql.Tx) error {
		j, _, err = read(tx, name)
		return err
	})
	return j, err
}

// Jobs are all jobs by name.
func (l *Ledger) Jobs() (all []schedule.Job, err error) {
	err = l.do(func(tx *sql.Tx) error {
		states, _, err := l.jobs(tx)
		for _, s := range states {
			all = append(all, s.Job)
		}
		return err
	})
	return all, err
}

func read(tx *sql.Tx, name string) (j schedule.Job, seen time.Time, err error) {
	var document string
	var ms int64
	var paused bool
	err = tx.QueryRow(`SELECT document, paused, seen FROM jobs WHERE name = ?`, name).Scan(&document, &paused, &ms)
	if errors.Is(err, sql.ErrNoRows) {
		return j, seen, fmt.Errorf("job %q: %w", name, ErrNoJob)
	}
	if err != nil {
		return j, seen, err
	}
	if j, err = schedule.Decode([]byte(document)); err != nil {
		return j, seen, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	j.Paused = paused
	return j, instant(ms), nil
}

// jobs are all jobs by name, with what was seen of them. A job that was read
// before is not read again. tops are the latest instants that ever were decided.
func (l *Ledger) jobs(tx *sql.Tx) (all []schedule.JobState, tops []time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, err := tx.Query(`SELECT name, revision, created, paused, seen, top FROM jobs ORDER BY name`)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var unread []int
	all, tops = make([]schedule.JobState, 0, len(l.known)+1), make([]time.Time, 0, len(l.known)+1)
	fresh := make(map[string]known, len(l.known))
	for rows.Next() {
		var name string
		var k known
		var seen, top int64
		var paused bool
		if err := rows.Scan(&name, &k.revision, &k.created, &paused, &seen, &top); err != nil {
			return nil, nil, err
		}
		s := schedule.JobState{Seen: instant(seen)}
		if before, ok := l.known[name]; ok && before.revision == k.revision && before.created == k.created {
			s.Job, s.When = before.job, before.when
			fresh[name] = before
		} else {
			unread = append(unread, len(all))
			fresh[name] = k
			s.Job.Name = name
		}
		s.Job.Paused = paused
		all, tops = append(all, s), append(tops, instant(top))
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	for _, i := range unread {
		s := &all[i]
		k := fresh[s.Job.Name]
		if k.job, _, err = read(tx, s.Job.Name); err != nil {
			return nil, nil, err
		}
		if k.when, err = schedule.Compile(k.job.Trigger); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		fresh[s.Job.Name] = k
		s.Job, s.When = k.job, k.when
	}
	l.known = fresh
	return all, tops, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// changed reports whether a statement changed anything.
func changed(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
