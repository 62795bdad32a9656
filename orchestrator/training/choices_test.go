package training

import (
	"crypto/sha1"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/tiebreak"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func blob(content string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content)))
}

// TestChoices: own runs with an adoption are choices; what became of them is
// told by the work tree, and for a branch by whether it was merged.
func TestChoices(t *testing.T) {
	top, ledger := t.TempDir(), filepath.Join(t.TempDir(), "runs")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, top, "init", "-qb", "main")
	write("kept", "new")
	write("back", "old")
	git(t, top, "add", ".")
	git(t, top, "commit", "-qm", "one")
	merged := git(t, top, "rev-parse", "HEAD")
	elsewhere := git(t, top, "commit-tree", "-m", "other", merged+"^{tree}")

	s, err := record.Open(top, ledger)
	if err != nil {
		t.Fatal(err)
	}
	n := uint32(0)
	save := func(file string, a *record.Adoption) {
		w, err := s.Create(record.Owner{}, func() string { n++; return record.NewID(time.Now(), n) })
		if err != nil {
			t.Fatal(err)
		}
		d := record.Document{Schema: record.Schema, Run: w.ID(), Phase: record.Finished, Task: file, Adopted: a}
		for i := 1; i <= 2; i++ {
			d.Candidates = append(d.Candidates, record.Candidate{Number: i, Outcome: candidate.Met, Change: &record.Change{
				Tree: fmt.Sprint(i), Patch: "candidates/p", Added: i, Files: []record.FileChange{{Path: bytestring.String(file), Old: blob("old"), New: blob("new")}},
			}})
		}
		if err := w.File("x", "../p", []byte("+new\n")); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(d); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	apply := func() *record.Adoption { return &record.Adoption{Candidate: 1, Mode: "apply"} }
	branch := func(commit string) *record.Adoption {
		return &record.Adoption{Candidate: 1, Mode: "branch", Commit: commit}
	}
	save("kept", apply())
	save("back", apply())
	save("kept", nil)
	save("kept", branch(elsewhere))
	save("back", branch(elsewhere))
	save("back", branch(merged))
	save("kept", &record.Adoption{Candidate: 9, Mode: "apply"})
	foreign := record.NewID(time.Now(), 999)
	if err := os.CopyFS(filepath.Join(top, record.Directory, foreign), os.DirFS(filepath.Join(top, record.Directory, mustList(t, s)[0]))); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	choices, notices, err := Choices(t.Context(), ledger, true)
	if err != nil || len(notices) != 0 {
		t.Fatal(err, notices)
	}
	var got []tiebreak.Fate
	for _, c := range choices {
		got = append(got, c.Fate)
		if diff := cmp.Diff([][]int{{1, 2}}, c.Equal); diff != "" || c.Document.Run == foreign {
			t.Errorf("%s: %s", c.Document.Run, diff)
		}
		if !strings.Contains(c.Patches[1], "+new") {
			t.Errorf("patches %v", c.Patches)
		}
	}
	want := []tiebreak.Fate{tiebreak.Kept, tiebreak.Reverted, tiebreak.Kept, tiebreak.Unknown, tiebreak.Reverted, tiebreak.Unknown}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if choices, _, err = Choices(t.Context(), ledger, false); err != nil || choices[0].Patches != nil {
		t.Errorf("patches that nobody asked for: %v %v", choices[0].Patches, err)
	}
}

func mustList(t *testing.T, s *record.Store) []string {
	t.Helper()
	names, err := s.Names()
	if err != nil || len(names) == 0 {
		t.Fatal(err, names)
	}
	return names
}
