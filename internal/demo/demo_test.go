package demo

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPickPrefersTheFirstThatCanRun(t *testing.T) {
	for want, programs := range map[string][]string{
		"python": {"go", "python3", "node"}, "node": {"node", "go"}, "go": {"go", "cc"}, "c": {"cc", "make"},
	} {
		d, err := Pick(func(p string) bool { return slices.Contains(programs, p) })
		if err != nil || d.Name != want {
			t.Errorf("with %v: %q, %v; want %s", programs, d.Name, err, want)
		}
	}
	if _, err := Pick(func(p string) bool { return p == "cc" }); !errors.Is(err, ErrNoToolchain) {
		t.Errorf("with cc but not make: %v", err)
	}
}

// Every demo's test fails as it is, and passes with its bug mended by hand.
func TestDemosFailUntilMended(t *testing.T) {
	mended := map[string][3]string{
		"python": {"parking.py", "rest >= 0", "rest > 0"},
		"node":   {"playlist.js", "seconds < seconds", "seconds <= seconds"},
		"go":     {"ledger.go", "<= -a.Limit", "< -a.Limit"},
		"c":      {"ring.c", "count > RING", "count >= RING"},
	}
	for name, programs := range map[string][]string{"python": {"python3"}, "node": {"node"}, "go": {"go"}, "c": {"cc", "make"}} {
		t.Run(name, func(t *testing.T) {
			d, err := Pick(func(p string) bool { return slices.Contains(programs, p) })
			if err != nil || d.Name != name || d.Task == "" {
				t.Fatalf("%+v, %v", d, err)
			}
			dir := t.TempDir()
			for p, content := range d.Files {
				full := filepath.Join(dir, filepath.FromSlash(p))
				if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(full, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run := func() error {
				cmd := exec.Command(d.Test[0], d.Test[1:]...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
				return cmd.Run()
			}
			if run() == nil {
				t.Fatal("the test passes before the bug is mended")
			}
			m := mended[name]
			full := filepath.Join(dir, m[0])
			b, err := os.ReadFile(full)
			if err != nil {
				t.Fatal(err)
			}
			before, after, ok := strings.Cut(string(b), m[1])
			if !ok {
				t.Fatalf("%s does not hold %q", m[0], m[1])
			}
			if err := os.WriteFile(full, []byte(before+m[2]+after), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := run(); err != nil {
				t.Errorf("mended, and the test still fails: %v", err)
			}
		})
	}
}
