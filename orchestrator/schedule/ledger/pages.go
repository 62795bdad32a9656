package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// A Query chooses runs or fires, the latest first.
type Query struct {
	Job    string    // "" for all
	Before int64     // id of the last one of the page before; 0 for the first page
	Since  time.Time // that began, or were decided, then or later
	Limit  int       // at most; 0 for 100
}

// page is the part of a statement that a query says.
func (q Query) page(table, at string) (string, []any) {
	if q.Before <= 0 {
		q.Before = math.MaxInt64
	}
	if q.Limit <= 0 {
		q.Limit = 100
	}
	where, args := " WHERE "+table+".id < ?", []any{q.Before}
	if q.Job != "" {
		where, args = where+" AND "+table+".job = ?", append(args, q.Job)
	}
	if !q.Since.IsZero() {
		// Ids follow time but for a clock that was set back: nothing before the
		// first id is looked at.
		where += fmt.Sprintf(" AND %[1]s.id >= (SELECT MIN(id) FROM %[1]s WHERE %[2]s >= ?) AND %[1]s.%[2]s >= ?", table, at)
		args = append(args, milli(q.Since), milli(q.Since))
	}
	return where + " ORDER BY " + table + ".id DESC LIMIT ?", append(args, q.Limit)
}

// Runs is a page of runs.
func (l *Ledger) Runs(q Query) (all []schedule.Run, err error) {
	where, args := q.page("runs", "started")
	err = l.do(func(tx *sql.Tx) error {
		rows, err := tx.Query(`SELECT `+runColumns+where, args...)
		all, err = list(rows, err, scanRun)
		return err
	})
	return all, err
}

// Run is one run; ErrNoRun if there is none.
func (l *Ledger) Run(id int64) (r schedule.Run, err error) {
	err = l.do(func(tx *sql.Tx) error {
		r, err = scanRun(tx.QueryRow(`SELECT `+runColumns+` WHERE runs.id = ?`, id))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("run %d: %w", id, ErrNoRun)
		}
		return err
	})
	return r, err
}

// Waiting are the fires of a job, of all for "", that wait, those that may begin first at the
// head.
func (l *Ledger) Waiting(job string) (all []schedule.Fire, err error) {
	err = l.do(func(tx *sql.Tx) error {
		rows, err := tx.Query(`SELECT `+fireColumns+` FROM fires WHERE ? IN ('', job) AND state = 'waiting' ORDER BY after, instant`, job)
		all, err = list(rows, err, scanFire)
		return err
	})
	return all, err
}

// Fires is a page of fires.
func (l *Ledger) Fires(q Query) (all []schedule.Fire, err error) {
	where, args := q.page("fires", "decided")
	err = l.do(func(tx *sql.Tx) error {
		rows, err := tx.Query(`SELECT `+fireColumns+` FROM fires`+where, args...)
		all, err = list(rows, err, scanFire)
		return err
	})
	return all, err
}
