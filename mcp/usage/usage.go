// Package usage keeps every call of an MCP tool in one SQLite file, for
// `bestof mcp usage`. It is for people to look at: whatever is wrong with the
// file, calls go on.
package usage

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/internal/sqlitefile"
	"github.com/bestof-dev/bestof/mcp"
)

// File is where the calls are kept: $BESTOF_HOME/mcp/usage.db.
func File(home string) string { return filepath.Join(home, "mcp", "usage.db") }

// schema is the version that this program writes, in user_version.
const schema = 1

// migrations[n] brings a file from version n to n+1.
var migrations = []string{
	`CREATE TABLE uses (
		id        INTEGER PRIMARY KEY,
		run       TEXT    NOT NULL,
		candidate INTEGER NOT NULL,
		server    TEXT    NOT NULL,
		tool      TEXT    NOT NULL,
		started   INTEGER NOT NULL, -- milliseconds since 1970
		took      INTEGER NOT NULL, -- microseconds
		sent      INTEGER NOT NULL,
		received  INTEGER NOT NULL,
		outcome   TEXT    NOT NULL
	) STRICT;
	CREATE INDEX uses_run ON uses (run);
	CREATE INDEX uses_started ON uses (started);`,
}

// ErrNewer is a file of a later version of this program. It is left as it is.
var ErrNewer = sqlitefile.ErrNewer

const (
	busy      = 5 * time.Second // to wait for another process
	batchMax  = 500             // uses that are written at once at the latest
	batchTime = time.Second     // after which a use is written at the latest
	queueMax  = 100_000         // uses that wait; over that they are counted only
)

// A Recorder keeps uses. Record never waits: a goroutine writes what has
// gathered, and Close the rest.
type Recorder struct {
	path   string
	notice func(string)

	mu      sync.Mutex
	waiting []mcp.Use
	lost    int
	closed  bool
	wake    chan struct{}
	quit    chan struct{}
	done    chan struct{}
}

// NewRecorder starts a recorder for the file at path, which is made with the
// first use. What is wrong with it is told to notice, once, and later uses are
// dropped.
func NewRecorder(path string, notice func(string)) *Recorder {
	r := &Recorder{path: path, notice: notice, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go r.write()
	return r
}

// Record takes one use.
func (r *Recorder) Record(u mcp.Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.waiting) >= queueMax {
		r.lost++
		return
	}
	r.waiting = append(r.waiting, u)
	if len(r.waiting) >= batchMax {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Close writes what is left and says how many uses could not be kept.
func (r *Recorder) Close() (lost int) {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if first {
		close(r.quit)
	}
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

func (r *Recorder) take() []mcp.Use {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := r.waiting
	r.waiting = nil
	return batch
}

func (r *Recorder) write() {
	defer close(r.done)
	var db *sql.DB
	defer func() {
		if db != nil {
			db.Close() // everything was committed
		}
	}()
	tick := time.NewTicker(batchTime)
	defer tick.Stop()
	broken := false
	for last := false; !last; {
		select {
		case <-r.quit:
			last = true
		case <-r.wake:
		case <-tick.C:
		}
		batch := r.take()
		if len(batch) == 0 {
			continue
		}
		if !broken {
			var err error
			if db, err = r.store(db, batch); err == nil {
				continue
			}
			broken = true
			r.notice(fmt.Sprintf("calls of MCP tools are not counted: %s: %v", r.path, err))
		}
		r.mu.Lock()
		r.lost += len(batch)
		r.mu.Unlock()
	}
}

func (r *Recorder) store(db *sql.DB, batch []mcp.Use) (*sql.DB, error) {
	if db == nil {
		var err error
		if db, err = create(r.path); err != nil {
			return nil, err
		}
	}
	return db, insert(db, batch)
}

func insert(db *sql.DB, batch []mcp.Use) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	stmt, err := tx.Prepare(`INSERT INTO uses (run, candidate, server, tool, started, took, sent, received, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for _, u := range batch {
		if _, err := stmt.Exec(u.Run, u.Candidate, u.Server, u.Tool, u.Started.UnixMilli(), u.Took.Microseconds(), u.Sent, u.Received, u.Outcome); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// create opens the file for writing, makes it if it is missing, and brings it
// up to our version.
func create(path string) (*sql.DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// SQLite would make it readable for others.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, err
	}
	db, err := open(path, "rw")
	if err != nil {
		return nil, err
	}
	if err := migrate(db); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

func open(path, mode string) (*sql.DB, error) {
	return sqlitefile.Connect(path, mode, busy, "synchronous(normal)")
}

// migrate does what is missing. Several processes may start at once.
func migrate(db *sql.DB) error {
	if v, err := sqlitefile.Version(db, schema); err != nil || v == schema {
		return err
	}
	if _, err := db.Exec("PRAGMA journal_mode = wal"); err != nil {
		return err
	}
	return sqlitefile.Migrate(db, migrations)
}
