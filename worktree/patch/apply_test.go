package patch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestApplyIsGit: what git says is the difference of two texts makes the one of
// the other.
func TestApplyIsGit(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", " d", "-e", "+f", "\\g", "é\r"}), 0, 30).Draw(t, "lines")
			return strings.Join(lines, "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
		})
		old, want := text.Draw(t, "old"), text.Draw(t, "new")
		for name, s := range map[string]string{"a": old, "b": want} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("git", "diff", "--no-index", "--no-color", "--full-index", "--text", "a", "b")
		cmd.Dir = dir
		diff, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		body := strings.ReplaceAll(strings.ReplaceAll(string(diff), "a/a b/b", "a/x b/x"), "+++ b/b", "+++ b/x")
		files, err := Read([]byte(strings.ReplaceAll(body, "--- a/a", "--- a/x")))
		if err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
		got := []byte(old)
		for _, f := range files {
			if got, err = Apply(got, f); err != nil {
				t.Fatalf("%v\n%s", err, diff)
			}
		}
		if string(got) != want {
			t.Fatalf("%q\nwant %q\n%s", got, want, diff)
		}
	})
}

func TestApplyRefuses(t *testing.T) {
	const patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -2 +2 @@\n-b\n+c\n"
	files, err := Read([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{
		"a\nx\n": "line 2 is not what the patch says",
		"a\nb":   "line 2 is not what the patch says",
		"":       "begins at line 2, and there are 0",
		"a\n":    "line 2 is not",
	} {
		if got, err := Apply([]byte(old), files[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", old, got, err)
		}
	}
	if _, err := Apply(nil, File{Binary: &Binary{}}); !errors.Is(err, ErrBinary) {
		t.Errorf("binary: %v", err)
	}
}
