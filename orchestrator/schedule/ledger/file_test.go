package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/sqlitefile"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// older makes the file as version v of this program left it, with one row of
// each kind.
func older(t *testing.T, home string, v int) {
	t.Helper()
	if err := os.MkdirAll(Folder(home), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(File(home), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqlitefile.Connect(File(home), sqlitefile.Write, busy, "journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := sqlitefile.Migrate(db, migrations[:v]); err != nil {
		t.Fatal(err)
	}
	j := someJob("old")
	j.Created, j.Revision = noon, 3
	document, err := schedule.Encode(j)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO jobs (name, document, revision, paused, created, seen) VALUES ('old', ?, 3, 0, ?, ?)`, []any{string(document), milli(noon), milli(noon.Add(2 * time.Hour))}},
		{`INSERT INTO fires (id, job, manual, instant, made, after, attempt, state, code, detail, decided) VALUES (1, 'old', 0, ?1, 0, ?1, 1, 'done', '', '', ?1), (2, 'old', 0, ?2, 0, ?2, 0, 'skipped', 'overlap', 'why', ?2)`, []any{milli(noon.Add(time.Hour)), milli(noon.Add(2 * time.Hour))}},
		{`INSERT INTO runs (fire, job, attempt, revision, started, ended, spawner_pid, spawner_start, spawner_boot, places, outcome, status, reason) VALUES (1, 'old', 1, 3, ?, ?, 7, 8, 'b', 1, 'won', 0, 'r')`, []any{milli(noon.Add(time.Hour)), milli(noon.Add(90 * time.Minute))}},
	} {
		if _, err := db.Exec(s.text, s.args...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUpgradesFromEveryVersion(t *testing.T) {
	for v := 1; v < schema; v++ {
		for name, open := range map[string]func(string) (*Ledger, error){"Open": Open, "View": View} {
			home := t.TempDir()
			older(t, home, v)
			l, err := open(home)
			if err != nil {
				t.Fatalf("version %d: %s: %v", v, name, err)
			}
			defer l.Close()
			j, err := l.Job("old")
			if err != nil || j.Revision != 3 {
				t.Errorf("version %d: %+v, %v", v, j, err)
			}
			runs, err := l.Runs(Query{})
			want := schedule.Budget{}
			if v == 1 {
				want.Wall = 30 * time.Minute
			}
			if err != nil || len(runs) != 1 || runs[0].Outcome != schedule.Won || runs[0].Used != want {
				t.Errorf("version %d: %+v, %v", v, runs, err)
			}
			if lines := fires(t, l, "old"); !slices.Equal(lines, []string{"13:00 done ", "14:00 skipped overlap"}) {
				t.Errorf("version %d: %q", v, lines)
			}
			// The copy is the file as it was.
			info, err := os.Stat(File(home) + fmt.Sprintf(".v%d-backup", v))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("version %d: its copy: %v, %v", v, info, err)
			}
			db, err := sqlitefile.Connect(File(home)+fmt.Sprintf(".v%d-backup", v), sqlitefile.Read, busy)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := sqlitefile.Version(db, schema); err != nil || got != v {
				t.Errorf("version %d: its copy is of version %d, %v", v, got, err)
			}
			var n int
			if err := db.QueryRow(`SELECT COUNT(*) FROM fires`).Scan(&n); err != nil || n != 2 {
				t.Errorf("version %d: its copy has %d fires, %v", v, n, err)
			}
			db.Close()
			if left, _ := filepath.Glob(filepath.Join(Folder(home), "backup-*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if name == "Open" {
				if began := step(t, l, noon.Add(3*time.Hour)); len(began) != 1 {
					t.Errorf("version %d: it does not go on: %q", v, fires(t, l, "old"))
				}
			}
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-shm") {
			continue // the index of the log, which is made anew
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func TestANewerFileIsLeftAsItIs(t *testing.T) {
	for name, leave := range map[string]bool{"closed": true, "with a log": false} {
		home := t.TempDir()
		l := opened(t, home)
		added(t, l, someJob("a"))
		if _, err := l.db.Exec(`PRAGMA wal_checkpoint(truncate)`); err != nil {
			t.Fatal(err)
		}
		if _, err := l.db.Exec(`PRAGMA user_version = 99`); err != nil {
			t.Fatal(err)
		}
		if leave {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		copied := t.TempDir() // the log is left as by a kill
		if err := os.CopyFS(copied, os.DirFS(home)); err != nil {
			t.Fatal(err)
		}
		if !leave {
			if err := os.Remove(File(copied) + "-shm"); err != nil {
				t.Fatal(err)
			}
		}
		before := contents(t, Folder(copied))
		for which, open := range map[string]func(string) (*Ledger, error){"Open": Open, "View": View} {
			if _, err := open(copied); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "version 99") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v", name, which, err)
			}
		}
		if after := contents(t, Folder(copied)); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: it was changed: %d files, then %d", name, len(before), len(after))
		}
	}
}

func TestADamagedFileIsOneLine(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"another kind": func(b []byte) []byte { return []byte(strings.Repeat("not SQLite\n", 100)) },
		"short":        func(b []byte) []byte { return b[:60] },
		"cut off":      func(b []byte) []byte { return b[:len(b)/2] },
		"overwritten": func(b []byte) []byte {
			for i := 4096; i < len(b); i++ {
				b[i] = 0xa5
			}
			return b
		},
	} {
		home := t.TempDir()
		l := opened(t, home)
		added(t, l, someJob("a"))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(File(home))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(File(home), damage(b), 0o600); err != nil {
			t.Fatal(err)
		}
		for which, open := range map[string]func(string) (*Ledger, error){"Open": Open, "View": View} {
			l, err := open(home)
			if err == nil {
				_, err = l.State(noon)
				if err == nil {
					_, err = l.Runs(Query{})
				}
				l.Close()
			}
			if !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), File(home)) || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("%s, %s: %v", name, which, err)
			}
		}
	}
}

// TestAFullDiskLosesNothing: what does not fit is refused in one line, and what
// was kept is there.
func TestAFullDiskLosesNothing(t *testing.T) {
	home := t.TempDir()
	l := opened(t, home)
	added(t, l, someJob("a"))
	var pages int
	if err := l.db.QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := l.db.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+4)); err != nil {
		t.Fatal(err)
	}
	kept := 0
	var full error
	for h := 1; full == nil && h < 2000; h++ {
		if _, full = l.Ask("a", noon.Add(time.Duration(h)*time.Hour)); full == nil {
			kept++
		}
	}
	if !errors.Is(full, ErrFull) || strings.Contains(full.Error(), "\n") || kept == 0 {
		t.Fatalf("after %d: %v", kept, full)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = opened(t, home)
	all, err := l.Fires(Query{Limit: 5000})
	if err != nil || len(all) != kept {
		t.Errorf("%d are there, want %d: %v", len(all), kept, err)
	}
	var ok string
	if err := l.db.QueryRow(`PRAGMA integrity_check`).Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("%s, %v", ok, err)
	}
}

func fill(b *testing.B, l *Ledger, n int) {
	b.Helper()
	added(b, l, someJob("a"))
	err := l.do(func(tx *sql.Tx) error {
		for i := range n {
			at := milli(noon) + int64(i)*60_000
			if _, err := tx.Exec(`INSERT INTO fires (job, manual, instant, made, after, attempt, state, code, detail, through, decided) VALUES ('a', 0, ?1, 0, ?1, 1, 'done', '', '', ?1, ?1)`, at); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO runs (fire, job, attempt, revision, started, ended, spawner_pid, spawner_start, spawner_boot, places, outcome, status, reason) VALUES (?, 'a', 1, 1, ?2, ?2, 7, 8, 'b', 1, 'won', 0, 'r')`, i+1, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkLastPageOf100000Runs(b *testing.B) {
	l := opened(b, b.TempDir())
	fill(b, l, 100_000)
	for _, q := range []Query{{Before: 101}, {Job: "a", Before: 101}, {Job: "a", Since: noon.Add(99_950 * time.Minute)}} {
		b.Run(fmt.Sprintf("job=%s,since=%v", q.Job, !q.Since.IsZero()), func(b *testing.B) {
			for b.Loop() {
				if page, err := l.Runs(q); err != nil || len(page) < 50 {
					b.Fatal(len(page), err)
				}
			}
		})
	}
}

func BenchmarkStateOf10000Jobs(b *testing.B) {
	l := opened(b, b.TempDir())
	j := someJob("x")
	j.Created, j.Revision = noon, 1
	err := l.do(func(tx *sql.Tx) error {
		for i := range 10_000 {
			j.Name = fmt.Sprintf("j%d", i)
			document, err := schedule.Encode(j)
			if err == nil {
				_, err = tx.Exec(`INSERT INTO jobs (name, document, revision, paused, created, seen) VALUES (?, ?, 1, 0, ?, ?)`, j.Name, string(document), milli(noon), milli(noon))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := l.State(noon); err != nil { // jobs are read once
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := l.State(noon)
		if err != nil || len(schedule.Decide(s, noon)) != 1 {
			b.Fatal(err)
		}
	}
}
