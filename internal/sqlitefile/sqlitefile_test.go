package sqlitefile

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func connected(t *testing.T, path, mode string) *sql.DB {
	t.Helper()
	db, err := Connect(path, mode, 10*time.Second, "journal_mode(wal)", "synchronous(normal)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "odd ?#%20name.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var steps = []string{
	`CREATE TABLE a (x INTEGER) STRICT`,
	`INSERT INTO a VALUES (1); -- and a note`,
	`ALTER TABLE a ADD COLUMN y INTEGER; INSERT INTO a VALUES (2, 2)`,
}

func TestMigrationsAreDoneOnce(t *testing.T) {
	path := made(t)
	var all sync.WaitGroup
	for range 4 {
		db := connected(t, path, Write)
		all.Go(func() {
			if err := Migrate(db, steps); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	db := connected(t, path, Read)
	var n int
	if err := db.QueryRow(`SELECT COUNT(*) FROM a`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
	if v, err := Version(db, len(steps)); err != nil || v != 3 {
		t.Errorf("version %d, %v", v, err)
	}
	if v, err := Version(db, 2); !errors.Is(err, ErrNewer) || v != 3 || !strings.Contains(err.Error(), "version 3; this one knows 2") {
		t.Errorf("version %d, %v", v, err)
	}
	if err := Migrate(connected(t, path, Write), steps[:2]); !errors.Is(err, ErrNewer) {
		t.Errorf("backwards: %v", err)
	}
}

// TestAMigrationIsWholeOrNot: one that fails leaves what was before it.
func TestAMigrationIsWholeOrNot(t *testing.T) {
	db := connected(t, made(t), Write)
	err := Migrate(db, append(append([]string{}, steps[:2]...), `INSERT INTO a VALUES (7); INSERT INTO nothing VALUES (1)`))
	if err == nil || !strings.Contains(err.Error(), "from version 2 to 3") {
		t.Error(err)
	}
	var n int
	if err := db.QueryRow(`SELECT COUNT(*) FROM a`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
	if v, err := Version(db, 3); err != nil || v != 2 {
		t.Errorf("version %d, %v", v, err)
	}
	if err := Migrate(db, steps); err != nil {
		t.Error(err)
	}
}

func TestWhoReadsDoesNotWrite(t *testing.T) {
	path := made(t)
	if err := Migrate(connected(t, path, Write), steps); err != nil {
		t.Fatal(err)
	}
	if _, err := connected(t, path, Read).Exec(`INSERT INTO a VALUES (1, 1)`); err == nil {
		t.Error("it wrote")
	}
}

func TestErrorsAreTold(t *testing.T) {
	path := made(t)
	db := connected(t, path, Write)
	if err := Migrate(db, steps); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`PRAGMA max_page_count = 3`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE big (x TEXT); INSERT INTO big VALUES (zeroblob(100000))`); !Full(err) || Damaged(err) {
		t.Errorf("full: %v", err)
	}
	other := made(t)
	if err := os.WriteFile(other, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Version(connected(t, other, Read), 1); !Damaged(fmt.Errorf("wrapped: %w", err)) || Full(err) {
		t.Errorf("damaged: %v", err)
	}
	if Full(nil) || Damaged(errors.New("database disk image is malformed")) {
		t.Error("the text decides")
	}
}
