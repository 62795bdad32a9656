package tool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPropose: a proposal lands in pending once, and never over another file.
func TestPropose(t *testing.T) {
	z, first := zones(t, Settings{}), []byte(described("first"))
	p, err := z.Propose(t.Context(), "x", first)
	if err != nil || p.Already || p.Tool.Path != z.Path(Pending, "x") {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err := z.Propose(t.Context(), "x", first); err != nil || !p.Already {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := z.Propose(t.Context(), "x", []byte(described("second"))); err == nil || !strings.Contains(err.Error(), "another file waits") {
		t.Errorf("%v", err)
	}
	if f, err := z.Find(Pending, "x"); err != nil || string(f.Bytes) != string(first) {
		t.Errorf("%q, %v", f.Bytes, err)
	}
	for name, b := range map[Name]string{"../x": described("a"), "tool": described("a"), "y": "import os"} {
		if _, err := z.Propose(t.Context(), name, []byte(b)); err == nil {
			t.Errorf("%s was proposed", name)
		}
	}
	if set, err := z.Live(t.Context()); err != nil || len(set.Tools) > 0 {
		t.Errorf("%+v, %v", set, err)
	}
}

// TestProposalsDoNotFlood: where much waits already nothing more is proposed, but
// for what is there.
func TestProposalsDoNotFlood(t *testing.T) {
	z, b := zones(t, Settings{}), []byte(described("a"))
	for i := range maxProposed {
		put(t, z.Path(Pending, Name(fmt.Sprint("t", i))), string(b))
	}
	var refusal *Refusal
	if _, err := z.Propose(t.Context(), "more", b); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "64 files wait") {
		t.Error(err)
	}
	if p, err := z.Propose(t.Context(), "t7", b); err != nil || !p.Already {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestProposeThroughLinks: where a link leads from pending, nothing is written.
func TestProposeThroughLinks(t *testing.T) {
	z, elsewhere := zones(t, Settings{}), t.TempDir()
	pending := filepath.Join(z.Dir(), "pending")
	if err := os.Remove(pending); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{elsewhere, z.Dir()} {
		if err := os.Symlink(to, pending); err != nil {
			t.Fatal(err)
		}
		if _, err := z.Propose(t.Context(), "x", []byte(described("a"))); err == nil {
			t.Errorf("written through a link to %s", to)
		}
		if _, err := os.Lstat(filepath.Join(to, "x.py")); err == nil {
			t.Error("the file is there")
		}
		os.Remove(pending)
	}
}
