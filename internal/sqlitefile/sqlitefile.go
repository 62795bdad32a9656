// Package sqlitefile opens SQLite files as this program keeps its state in
// them: one connection for each process, and a version that only grows.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"modernc.org/sqlite" // also the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrNewer is a file of a later version of this program. It is left as it is.
var ErrNewer = errors.New("it was written by a newer bestof")

// The modes in which a file is opened.
const (
	Read  = "ro"
	Write = "rw"
)

// Connect opens the file at path. It waits for other processes as long as busy
// says. Transactions of Write are immediate; pragmas are for Write alone.
func Connect(path, mode string, busy time.Duration, pragmas ...string) (*sql.DB, error) {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}}
	q.Add("_pragma", "busy_timeout("+strconv.Itoa(int(busy.Milliseconds()))+")")
	if mode == Write {
		for _, p := range pragmas {
			q.Add("_pragma", p)
		}
	} else {
		q.Set("_txlock", "deferred")
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// Version is the file's version, 0 for a new one. A version above schema is
// ErrNewer.
func Version(db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, schema int) (int, error) {
	var v int
	if err := db.QueryRowContext(context.Background(), "PRAGMA user_version").Scan(&v); err != nil {
		return 0, err
	}
	if v > schema {
		return v, Newer(v, schema)
	}
	return v, nil
}

// Newer is ErrNewer with both versions.
func Newer(v, schema int) error {
	return fmt.Errorf("%w (version %d; this one knows %d)", ErrNewer, v, schema)
}

// Migrate does what is missing: migrations[n] brings a file from version n to
// n+1, in a transaction of its own. Several processes may do it at once.
func Migrate(db *sql.DB, migrations []string) error {
	for {
		v, err := step(db, migrations)
		if err != nil || v == len(migrations) {
			return err
		}
	}
}

// step does the first thing that is missing and returns the version then.
func step(db *sql.DB, migrations []string) (int, error) {
	// A file that is up to date is not locked.
	if v, err := Version(db, len(migrations)); err != nil || v == len(migrations) {
		return v, err
	}
	tx, err := db.Begin()
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // nothing after a commit
	v, err := Version(tx, len(migrations))
	if err != nil || v == len(migrations) {
		return v, err
	}
	if _, err := tx.Exec(migrations[v] + ";\nPRAGMA user_version = " + strconv.Itoa(v+1)); err != nil {
		return v, fmt.Errorf("bring it from version %d to %d: %w", v, v+1, err)
	}
	return v + 1, tx.Commit()
}

// Damaged reports whether an error says that the file is not what SQLite wrote.
func Damaged(err error) bool { return is(err, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) }

// Full reports whether an error says that nothing more could be written, also
// not the index of the WAL that whoever opens a file needs beside it.
func Full(err error) bool {
	var e *sqlite.Error
	return is(err, sqlite3.SQLITE_FULL) || errors.As(err, &e) && e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE
}

func is(err error, codes ...int) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.Code()&0xff == code { // the rest of a code says more of the same
			return true
		}
	}
	return false
}
