package batch

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bestof-dev/bestof/internal/ownedlock"
	"github.com/bestof-dev/bestof/internal/sqlitefile"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
)

// stateFile is where a batch's state is, below its directory.
const stateFile = "batch.db"

// schema is the version that this program writes, in user_version.
const schema = 1

// migrations[n] brings a file from version n to n+1.
var migrations = []string{
	`CREATE TABLE settings (
		name  TEXT PRIMARY KEY,
		value TEXT NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE TABLE tasks (
		seq      INTEGER PRIMARY KEY, -- from 0, in the order of the batch
		id       TEXT    NOT NULL UNIQUE,
		spec     TEXT    NOT NULL,    -- Spec as JSON
		state    TEXT    NOT NULL,
		tries    INTEGER NOT NULL,    -- attempts that were begun
		failures INTEGER NOT NULL,    -- of those in a row, how many the host failed
		after    INTEGER NOT NULL,    -- milliseconds since 1970 before which it is not tried again
		run      TEXT    NOT NULL,    -- the last attempt's record
		winner   INTEGER,
		reason   TEXT    NOT NULL,
		ended    INTEGER              -- milliseconds since 1970
	) STRICT;
	CREATE TABLE attempts (
		run     TEXT    PRIMARY KEY,  -- id of its record
		task    INTEGER NOT NULL REFERENCES tasks (seq),
		started INTEGER NOT NULL,     -- milliseconds since 1970
		ended   INTEGER,
		end     TEXT    NOT NULL,     -- '' while it runs
		reason  TEXT    NOT NULL,
		status  INTEGER               -- the run's exit code
	) STRICT, WITHOUT ROWID;
	CREATE INDEX attempts_task ON attempts (task);
	CREATE TABLE spend (
		run       TEXT    NOT NULL,
		candidate INTEGER NOT NULL,
		task      INTEGER NOT NULL REFERENCES tasks (seq),
		agent     TEXT    NOT NULL,
		outcome   TEXT    NOT NULL,   -- '' while it runs
		input     INTEGER NOT NULL,   -- tokens
		output    INTEGER NOT NULL,
		micro_usd INTEGER NOT NULL,
		reported  INTEGER NOT NULL,   -- 0 or 1
		took      INTEGER NOT NULL,   -- milliseconds
		PRIMARY KEY (run, candidate)
	) STRICT, WITHOUT ROWID;`,
}

// What Create and Open refuse.
var (
	ErrNewer  = sqlitefile.ErrNewer
	ErrExists = errors.New("there is a batch already: resume it, or choose another directory")
	ErrNone   = errors.New("there is no batch in this directory")
)

// The states of a task.
const (
	Pending = "pending" // to be tried
	Running = "running" // an attempt was begun
	Done    = "done"    // judged: with a winner or without
	Invalid = "invalid" // nothing can decide about it: not tried again
	Failed  = "failed"  // the host failed it as often as it may: tried again when somebody asks
)

// A Spec is a task with where it runs.
type Spec struct {
	Task   task.Task
	Dir    string // the repository
	Commit string // the base, a full id
}

// A Row is what is known of a task.
type Row struct {
	Seq      int
	ID       string
	State    string
	Tries    int
	Failures int
	After    time.Time
	Run      string
	Winner   int // 0 for none
	Reason   string
	Ended    time.Time
}

// A State is the state of a batch on disk. Its methods may be called
// concurrently. Whatever returned is on the disk.
type State struct {
	db   *sql.DB
	dir  string
	lock *ownedlock.Lock // nil for one that only reads
}

// Dir is the batch's directory.
func (s *State) Dir() string { return s.dir }

// Create makes a batch of tasks in dir, which may exist if there is none in it.
// settings are kept as they are. The caller is the one who runs it, until
// Close.
func Create(dir string, settings map[string]string, specs []Spec) (*State, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the batch: %w", err)
	}
	l, err := take(dir)
	if err != nil {
		return nil, err
	}
	s, err := create(dir, settings, specs)
	if err != nil {
		return nil, errors.Join(err, l.Release())
	}
	s.lock = l
	return s, nil
}

func create(dir string, settings map[string]string, specs []Spec) (*State, error) {
	path := filepath.Join(dir, stateFile)
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrExists)
	}
	// A batch has its name when it is whole: there is no half one after a crash.
	made := path + ".new"
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(made + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("make the batch: %w", err)
		}
	}
	f, err := os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the batch: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("make the batch: %w", err)
	}
	db, err := connect(made, "rw")
	if err == nil {
		err = errors.Join(fill(db, settings, specs), db.Close())
	}
	if err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, fmt.Errorf("make the batch: %w", err)
	}
	return openFile(dir, "rw")
}

func fill(db *sql.DB, settings map[string]string, specs []Spec) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	for _, m := range migrations {
		if _, err := tx.Exec(m); err != nil {
			return err
		}
	}
	for name, value := range settings {
		if _, err := tx.Exec(`INSERT INTO settings VALUES (?, ?)`, name, value); err != nil {
			return err
		}
	}
	insert, err := tx.Prepare(`INSERT INTO tasks VALUES (?, ?, ?, ?, 0, 0, 0, '', NULL, '', NULL)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for i, spec := range specs {
		b, err := json.Marshal(spec)
		if err != nil {
			return err
		}
		if _, err := insert.Exec(i, spec.Task.ID, string(b), Pending); err != nil {
			return fmt.Errorf("task %s: %w", spec.Task.ID, err)
		}
	}
	if _, err := tx.Exec("PRAGMA user_version = " + strconv.Itoa(schema)); err != nil {
		return err
	}
	return tx.Commit()
}

// Open opens the batch in dir for whoever runs it. Of several processes that
// try, one gets it, and the error of the others names that one.
func Open(dir string) (*State, error) {
	if _, err := os.Lstat(filepath.Join(dir, stateFile)); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	l, err := take(dir)
	if err != nil {
		return nil, err
	}
	s, err := openFile(dir, "rw")
	if err != nil {
		return nil, errors.Join(err, l.Release())
	}
	s.lock = l
	return s, nil
}

// View opens the batch in dir for reading, whoever runs it.
func View(dir string) (*State, error) { return openFile(dir, "ro") }

func openFile(dir, mode string) (*State, error) {
	path := filepath.Join(dir, stateFile)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	db, err := connect(path, mode)
	if err == nil {
		if err = migrate(db, mode); err != nil {
			db.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the batch in %s: %w", dir, err)
	}
	return &State{db: db, dir: dir}, nil
}

func connect(path, mode string) (*sql.DB, error) {
	// Full: what was paid is not paid again after a power failure.
	return sqlitefile.Connect(path, mode, 10*time.Second, "journal_mode(wal)", "synchronous(full)", "foreign_keys(on)")
}

// migrate does what is missing.
func migrate(db *sql.DB, mode string) error {
	v, err := sqlitefile.Version(db, schema)
	switch {
	case err != nil:
		return err
	case v == 0:
		return ErrNone
	case v < schema && mode != "rw":
		return fmt.Errorf("its version is %d, this program's %d: `bestof batch resume` brings it up to date", v, schema)
	}
	return sqlitefile.Migrate(db, migrations)
}

// Close releases the batch.
func (s *State) Close() error {
	err := s.db.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Release())
	}
	return err
}

// Settings are those that the batch was made with.
func (s *State) Settings() (map[string]string, error) {
	rows, err := s.db.Query(`SELECT name, value FROM settings`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, rows.Err()
}

// SetSettings replaces some of the settings, which somebody agreed to, and removes
// those that are gone, all or nothing.
func (s *State) SetSettings(settings map[string]string, gone ...string) error {
	return s.do(func(tx *sql.Tx) error {
		for _, name := range gone {
			if _, err := tx.Exec(`DELETE FROM settings WHERE name = ?`, name); err != nil {
				return err
			}
		}
		for name, value := range settings {
			if _, err := tx.Exec(`INSERT INTO settings VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value`, name, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// Rows are all tasks in their order.
func (s *State) Rows() ([]Row, error) {
	rows, err := s.db.Query(`SELECT seq, id, state, tries, failures, after, run, COALESCE(winner, 0), reason, COALESCE(ended, 0) FROM tasks ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Row
	for rows.Next() {
		var r Row
		var after, ended int64
		if err := rows.Scan(&r.Seq, &r.ID, &r.State, &r.Tries, &r.Failures, &after, &r.Run, &r.Winner, &r.Reason, &ended); err != nil {
			return nil, err
		}
		r.After, r.Ended = milliseconds(after), milliseconds(ended)
		all = append(all, r)
	}
	return all, rows.Err()
}

func milliseconds(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Spec reads one task whole.
func (s *State) Spec(seq int) (Spec, error) {
	var text string
	var spec Spec
	err := s.db.QueryRow(`SELECT spec FROM tasks WHERE seq = ?`, seq).Scan(&text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &spec)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("task %d of the batch: %w", seq, err)
	}
	return spec, nil
}

// do is one transaction.
func (s *State) do(f func(*sql.Tx) error) error {
	tx, err := s.db.Begin()
	if err != nil {
		return fmt.Errorf("keep the batch's state: %w", err)
	}
	defer tx.Rollback() // nothing after a commit
	if err := f(tx); err != nil {
		return fmt.Errorf("keep the batch's state: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("keep the batch's state: %w", err)
	}
	return nil
}
