package batch

import (
	"database/sql"
	"time"

	"github.com/bestof-dev/bestof/orchestrator"
)

// begin notes, before anything of it is spawned, that an attempt of a task
// begins.
func (s *State) begin(seq int, run string, at time.Time) error {
	return s.do(func(tx *sql.Tx) error {
		if _, err := tx.Exec(`INSERT INTO attempts VALUES (?, ?, ?, NULL, '', '', NULL)`, run, seq, at.UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE tasks SET state = ?, tries = tries + 1, run = ?, winner = NULL, reason = '', ended = NULL WHERE seq = ?`, Running, run, seq)
		return err
	})
}

// end notes how an attempt ended and what that makes of its task.
func (s *State) end(seq int, run string, e ending, status int, at, after time.Time) error {
	return s.do(func(tx *sql.Tx) error {
		if _, err := tx.Exec(`UPDATE attempts SET ended = ?, end = ?, reason = ?, status = ? WHERE run = ?`, at.UnixMilli(), e.end, e.reason, status, run); err != nil {
			return err
		}
		var winner, ended any
		if e.winner > 0 {
			winner = e.winner
		}
		if e.state != Pending {
			ended = at.UnixMilli()
		}
		failures := 0
		if !after.IsZero() {
			failures = int(after.UnixMilli())
		}
		_, err := tx.Exec(`UPDATE tasks SET state = ?, failures = CASE WHEN ? THEN failures + 1 ELSE 0 END, after = ?, winner = ?, reason = ?, ended = ? WHERE seq = ?`,
			e.state, e.end == endInfrastructure, failures, winner, e.reason, ended, seq)
		return err
	})
}

// A Cost is what a candidate of a run used.
type Cost struct {
	Task, Candidate int
	Run             string
	Agent           string
	Outcome         string // "" while it runs
	Usage           orchestrator.Usage
	Took            time.Duration
}

// pay notes what a candidate used so far. Later words about the same candidate
// of the same run replace earlier ones.
func (s *State) pay(costs ...Cost) error {
	return s.do(func(tx *sql.Tx) error {
		for _, c := range costs {
			if _, err := tx.Exec(`INSERT INTO spend VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
				outcome = excluded.outcome, input = MAX(input, excluded.input), output = MAX(output, excluded.output), micro_usd = MAX(micro_usd, excluded.micro_usd),
				reported = MAX(reported, excluded.reported), took = MAX(took, excluded.took)`,
				c.Run, c.Candidate, c.Task, c.Agent, c.Outcome, c.Usage.Input, c.Usage.Output, c.Usage.MicroUSD, c.Usage.Reported, c.Took.Milliseconds()); err != nil {
				return err
			}
		}
		return nil
	})
}

// Costs are what all candidates used, in no order.
func (s *State) Costs() ([]Cost, error) {
	rows, err := s.db.Query(`SELECT run, candidate, task, agent, outcome, input, output, micro_usd, reported, took FROM spend`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Cost
	for rows.Next() {
		var c Cost
		var took int64
		if err := rows.Scan(&c.Run, &c.Candidate, &c.Task, &c.Agent, &c.Outcome, &c.Usage.Input, &c.Usage.Output, &c.Usage.MicroUSD, &c.Usage.Reported, &took); err != nil {
			return nil, err
		}
		c.Took = time.Duration(took) * time.Millisecond
		all = append(all, c)
	}
	return all, rows.Err()
}

// An Attempt is one run of a task.
type Attempt struct {
	Run     string
	Task    int
	Started time.Time
	Ended   time.Time
	End     string // "" while it runs, or when it was killed
	Reason  string
}

// Attempts are those of all tasks, by run; unfinished ones only if asked.
func (s *State) Attempts(unfinished bool) ([]Attempt, error) {
	rows, err := s.db.Query(`SELECT run, task, started, COALESCE(ended, 0), end, reason FROM attempts WHERE end = '' OR NOT ? ORDER BY run`, unfinished)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Attempt
	for rows.Next() {
		var a Attempt
		var started, ended int64
		if err := rows.Scan(&a.Run, &a.Task, &started, &ended, &a.End, &a.Reason); err != nil {
			return nil, err
		}
		a.Started, a.Ended = milliseconds(started), milliseconds(ended)
		all = append(all, a)
	}
	return all, rows.Err()
}

// runs are the attempts of a task, the latest first.
func (s *State) runs(row Row) ([]string, error) {
	rows, err := s.db.Query(`SELECT run FROM attempts WHERE task = ? ORDER BY run = ? DESC, started DESC, run DESC`, row.Seq, row.Run)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var run string
		if err := rows.Scan(&run); err != nil {
			return nil, err
		}
		all = append(all, run)
	}
	return all, rows.Err()
}

// hasRun reports whether a run is an attempt of the batch.
func (s *State) hasRun(run string) (bool, error) {
	var n int
	err := s.db.QueryRow(`SELECT COUNT(*) FROM attempts WHERE run = ?`, run).Scan(&n)
	return n > 0, err
}

// Retry makes tasks that the host failed pending again, and returns how many.
func (s *State) Retry() (n int, err error) {
	err = s.do(func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE tasks SET state = ?, failures = 0, after = 0, ended = NULL WHERE state = ?`, Pending, Failed)
		if err != nil {
			return err
		}
		many, err := res.RowsAffected()
		n = int(many)
		return err
	})
	return n, err
}

// Choose notes another winner, after the candidates were judged again.
func (s *State) Choose(seq, winner int, reason string) error {
	return s.do(func(tx *sql.Tx) error {
		var w any
		if winner > 0 {
			w = winner
		}
		_, err := tx.Exec(`UPDATE tasks SET winner = ?, reason = ? WHERE seq = ?`, w, reason, seq)
		return err
	})
}

// Given are the input's own ids of tasks, by their ids here, where they differ.
func (s *State) Given() (map[string]string, error) { return s.words("$.Task.Given") }

// Images are the images that tasks name, by their ids.
func (s *State) Images() (map[string]string, error) { return s.words("$.Task.Image") }

// words are what tasks have at a path of their specs, where they have it.
func (s *State) words(path string) (map[string]string, error) {
	rows, err := s.db.Query(`SELECT id, json_extract(spec, ?1) FROM tasks WHERE json_extract(spec, ?1) <> ''`, path)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var id, word string
		if err := rows.Scan(&id, &word); err != nil {
			return nil, err
		}
		all[id] = word
	}
	return all, rows.Err()
}
