// Package ledger keeps jobs, their fires and their runs in one SQLite file:
// $BESTOF_HOME/jobs/jobs.db. Whatever a method returned is on the disk.
package ledger

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/internal/sqlitefile"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// What the methods refuse.
var (
	ErrNewer   = sqlitefile.ErrNewer
	ErrNone    = errors.New("there are no jobs yet")
	ErrDamaged = errors.New("the file is damaged")
	ErrFull    = errors.New("the disk is full")
	ErrExists  = errors.New("there is a job of this name already")
	ErrNoJob   = errors.New("there is no such job")
	ErrNoRun   = errors.New("there is no such run")
	ErrOver    = errors.New("the run is over already")
	ErrChanged = errors.New("somebody else edited it meanwhile")
	ErrRunning = errors.New("a run of it is not over")
	ErrTaken   = errors.New("the fire does not wait any more")
	ErrBusy    = errors.New("another process runs the jobs")
)

// busy is how long a method waits for another process.
const busy = 10 * time.Second

// Folder is where jobs are kept: $BESTOF_HOME/jobs.
func Folder(home string) string { return filepath.Join(home, "jobs") }

// File is the file that holds them.
func File(home string) string { return filepath.Join(Folder(home), "jobs.db") }

// A Ledger is the file, opened. Its methods may be called concurrently, and
// several processes may have it open: each method is one transaction.
type Ledger struct {
	db   *sql.DB
	path string

	mu    sync.Mutex
	known map[string]known // jobs that were read
}

// known is a job that was read, with its trigger compiled.
type known struct {
	revision, created int64
	job               schedule.Job
	when              *schedule.When
}

// Open opens the file below home for writing, makes it if it is missing, and
// brings it up to date; before that it is copied to jobs.db.v<n>-backup.
func Open(home string) (*Ledger, error) {
	path := File(home)
	if err := Guard(home); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(Folder(home), 0o700); err != nil {
		return nil, fmt.Errorf("open the jobs: %w", err)
	}
	// SQLite would make it readable for others.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("open the jobs: %w", err)
	}
	l, err := open(path, sqlitefile.Write)
	if err != nil {
		return nil, explain(path, err)
	}
	return l, nil
}

// View opens the file for reading; an older one is brought up to date first.
// The error is ErrNone if there is none.
func View(home string) (*Ledger, error) {
	path := File(home)
	if err := Guard(home); err != nil {
		return nil, err
	}
	v, err := peek(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && v == 0:
		return nil, ErrNone
	case err == nil && v < schema:
		var l *Ledger
		if l, err = Open(home); err == nil {
			err = l.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	var l *Ledger
	if err == nil {
		l, err = open(path, sqlitefile.Read)
	}
	if err != nil {
		return nil, explain(path, err)
	}
	return l, nil
}

func open(path, mode string) (*Ledger, error) {
	v, err := peek(path)
	if err != nil {
		return nil, err
	}
	if v > schema {
		return nil, sqlitefile.Newer(v, schema) // SQLite has not touched it
	}
	db, err := sqlitefile.Connect(path, mode, busy, "journal_mode(wal)", "synchronous(full)", "foreign_keys(on)")
	if err != nil {
		return nil, err
	}
	if mode == sqlitefile.Write && v < schema {
		if v > 0 {
			err = backup(db, path+".v"+strconv.Itoa(v)+"-backup")
		}
		if err == nil {
			err = sqlitefile.Migrate(db, migrations)
		}
	}
	if err == nil {
		_, err = sqlitefile.Version(db, schema)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Ledger{db: db, path: path, known: map[string]known{}}, nil
}

// The header of a file, as sqlite.org/fileformat2.html describes it.
const (
	magic     = "SQLite format 3\x00"
	versionAt = 60 // user_version, big endian
	headerLen = 100
)

// peek is the version of a file, of which nothing is changed by looking.
func peek(path string) (int, error) {
	v, err := header(path)
	if log, there := os.Stat(path + "-wal"); err != nil || there != nil || log.Size() == 0 {
		return v, err
	}
	// What is in the log counts, and only SQLite can say it.
	db, err := sqlitefile.Connect(path, sqlitefile.Read, busy)
	if err != nil {
		return 0, err
	}
	v, err = sqlitefile.Version(db, schema)
	return v, errors.Join(err, db.Close())
}

// header reads the version in the file itself.
func header(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var b [headerLen]byte
	n, err := io.ReadFull(f, b[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return 0, nil // made just now
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return 0, err
	case err != nil || string(b[:len(magic)]) != magic:
		return 0, fmt.Errorf("%w: it is no SQLite file", ErrDamaged)
	}
	return int(int32(binary.BigEndian.Uint32(b[versionAt:]))), nil
}

// backup copies the file as SQLite sees it. A copy has its name when it is
// whole.
func backup(db *sql.DB, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "backup-*") // for nobody else
	if err != nil {
		return fmt.Errorf("keep a copy of the older file: %w", err)
	}
	made := f.Name()
	defer os.Remove(made) // nothing once it has its name
	_, err = db.Exec(`VACUUM INTO ?`, made)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return fmt.Errorf("keep a copy of the older file: %w", err)
	}
	return nil
}

// explain says what is wrong with a file in one line, and what to do.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("%s: %w: use that bestof", path, err)
	case errors.Is(err, ErrDamaged) || sqlitefile.Damaged(err):
		return fmt.Errorf("%s: %w: put a copy of it back, or move it away to begin without jobs", path, ErrDamaged)
	case sqlitefile.Full(err):
		return fmt.Errorf("%s: %w: make room on it and try again: nothing of this was kept, and nothing else was lost", path, ErrFull)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Close closes it.
func (l *Ledger) Close() error { return l.db.Close() }

// Version changes when another process, or another Ledger, wrote to the file.
func (l *Ledger) Version() (v int64, err error) {
	if err = l.db.QueryRow(`PRAGMA data_version`).Scan(&v); err != nil {
		return 0, explain(l.path, err)
	}
	return v, nil
}

// refusals are errors that say nothing of the file.
var refusals = []error{ErrExists, ErrNoJob, ErrNoRun, ErrOver, ErrChanged, ErrRunning, ErrTaken, schedule.ErrNever}

// do is one transaction.
func (l *Ledger) do(f func(*sql.Tx) error) error {
	tx, err := l.db.Begin()
	if err != nil {
		return explain(l.path, err)
	}
	defer tx.Rollback() // nothing after a commit
	if err = f(tx); err == nil {
		err = tx.Commit()
	}
	if err == nil {
		return nil
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return err
		}
	}
	return explain(l.path, err)
}

func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
