package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiskUse(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"a/one": strings.Repeat("x", 100<<10), "b/two": strings.Repeat("x", 300<<10)})
	outside := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(outside, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	sparse, err := os.Create(filepath.Join(dir, "a/sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sparse.Truncate(5<<30), sparse.Close(), os.Link(filepath.Join(dir, "b/two"), filepath.Join(dir, "b/again")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "b/link"))); err != nil {
		t.Fatal(err)
	}
	used, err := DiskUse(t.Context(), dir, func(rel string) string {
		top, _, _ := strings.Cut(rel, "/")
		return top
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, atLeast := range map[string]int64{"a": 100 << 10, "b": 300 << 10} {
		if got := used[name]; got < atLeast || got > atLeast+64<<10 {
			t.Errorf("%s takes %d bytes, not some more than %d", name, got, atLeast)
		}
	}
	if used, err := DiskUse(t.Context(), filepath.Join(dir, "nothing"), func(string) string { return "" }); err != nil || used[""] != 0 {
		t.Errorf("nothing takes %v, %v", used, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DiskUse(ctx, dir, func(string) string { return "" }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestUsageNamesTheRuns with the records they belong to.
func TestUsageNamesTheRuns(t *testing.T) {
	s := newStore(t)
	r := newRun(t, s)
	if err := os.Mkdir(s.path("runs", "foreign"), 0o700); err != nil {
		t.Fatal(err)
	}
	u, err := s.Usage(t.Context())
	if err != nil || len(u.Shadows) != 2 || u.Runs != 2 {
		t.Fatalf("%+v, %v", u, err)
	}
	if got := u.Shadows[0]; got.Run != "foreign" || got.Record != "" {
		t.Errorf("%+v", got)
	}
	if got := u.Shadows[1]; s.RunDir(got.Run) != r.dir || got.Record == "" || got.Bytes == 0 {
		t.Errorf("%+v", got)
	}
}
