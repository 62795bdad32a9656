package app

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/ownedlock"
)

func TestToolCommand(t *testing.T) {
	own := func(settings map[string]string) func(string) (string, error) {
		return func(key string) (string, error) { return settings[key], nil }
	}
	for _, c := range []struct {
		name, difftool string
		settings       map[string]string
		want, fault    string
		shell          bool
	}{
		{ownChoice, "meld --newtab", nil, "meld --newtab", "", false},
		{ownChoice, "meld; rm x", nil, "", "$DIFFTOOL", false},
		{ownChoice, "", nil, "", "no diff tool is chosen", false},
		{ownChoice, "", map[string]string{"diff.tool": "meld"}, "meld", "", false},
		{"vimdiff", "meld", nil, "vim -R --cmd set nomodeline secure -d", "", false},
		{"mine", "", map[string]string{"difftool.mine.cmd": `x "$LOCAL" "$REMOTE"`}, `/bin/sh -c x "$LOCAL" "$REMOTE"`, "", true},
		{"meld", "", map[string]string{"difftool.meld.path": "/opt/meld"}, "/opt/meld", "", false},
		{"other", "", nil, "other", "", false},
		{"../evil", "", nil, "", "not the name", false},
		{"-x", "", nil, "", "not the name", false},
		{"a b", "", nil, "", "not the name", false},
		{ownChoice, "", map[string]string{"diff.tool": "/bin/evil"}, "", "not the name", false},
	} {
		got, shell, err := toolCommand(c.name, c.difftool, own(c.settings))
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s %s: %v, want %s", c.name, c.difftool, err, c.fault)
			}
			continue
		}
		if err != nil || strings.Join(got, " ") != c.want || shell != c.shell {
			t.Errorf("%s %s: %q %t %v", c.name, c.difftool, got, shell, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := toolCommand("x", "", func(string) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestPlainName(t *testing.T) {
	for in, want := range map[string]string{
		"a/b.go": "b.go", ".exrc": "file.exrc", "-rf": "file-rf", "x y'$(z).py": "x_y_z_.py", "\x1b[2J": "file_2J", "...": "file...", "": "file.",
		strings.Repeat("n", 300) + ".c": strings.Repeat("n", 80) + ".c", "a." + strings.Repeat("e", 300): "a." + strings.Repeat("e", 78),
	} {
		if got := plainName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestRemoveCopiesThatCannotBeWrittenTo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copies")
	deep := filepath.Join(dir, "1", "base")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, "f"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(deep, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := removeCopies(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("the copies are there")
	}
}

func TestCandidateLogs(t *testing.T) {
	run := t.TempDir()
	dir := filepath.Join(run, "candidates", "c1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"test-0-0.log": "FAIL", "agent.log": strings.Repeat("x", logHead) + "MIDDLE" + strings.Repeat("y", logTail), "change.patch": "no"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Symlink(secret, filepath.Join(dir, "link.log"))); err != nil {
		t.Fatal(err)
	}
	logs := candidateLogs(run, "c1")
	if len(logs) != 2 || logs[0].Name != "agent.log" || logs[1].Text != "FAIL" || logs[1].Left != "" {
		t.Fatalf("%+v", logs)
	}
	if l := logs[0]; strings.Contains(l.Text, "MIDDLE") || !strings.Contains(l.Text, "[6 bytes left out here]") || !strings.Contains(l.Left, "candidates/c1/agent.log") {
		t.Errorf("%d bytes, %s", len(l.Text), l.Left)
	}
	if candidateLogs(run, "c2") != nil || candidateLogs(run+"/none", "c1") != nil {
		t.Error("logs of nobody")
	}
}

// TestSweepCopies: copies go when nobody has them open any more, and nothing
// else in the temporary folder does.
func TestSweepCopies(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	place := func() (string, *ownedlock.Lock) {
		dir, lock, err := placeForCopies()
		if err != nil {
			t.Fatal(err)
		}
		sub := filepath.Join(dir, "1", "base")
		if err := errors.Join(os.MkdirAll(sub, 0o700), os.WriteFile(filepath.Join(sub, "x"), nil, 0o400), os.Chmod(sub, 0o500)); err != nil {
			t.Fatal(err)
		}
		return dir, lock
	}
	held, lock := place()
	defer lock.Release()
	dead, lock := place()
	tool := exec.Command("cat") // as a tool that outlives the one who started it
	tool.ExtraFiles = []*os.File{lock.File()}
	in, err := tool.StdinPipe()
	if err == nil {
		err = errors.Join(tool.Start(), lock.File().Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	other, outside := filepath.Join(tmp, copiesPrefix+"other"), t.TempDir()
	if err := errors.Join(os.Mkdir(other, 0o700), os.Symlink(outside, filepath.Join(tmp, copiesPrefix+"link")), os.WriteFile(filepath.Join(outside, copiesLock), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	fresh, lock := place()
	before := time.Now().Add(-2 * copiesFresh)
	if err := errors.Join(lock.Release(), os.Chtimes(held, before, before), os.Chtimes(dead, before, before), os.Chtimes(other, before, before)); err != nil {
		t.Fatal(err)
	}
	if gone := sweepCopies(time.Now(), false); len(gone) != 0 {
		t.Errorf("while the tool runs %q go", gone)
	}
	if err := errors.Join(in.Close(), tool.Wait()); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if gone := sweepCopies(time.Now(), dry); !slices.Equal(gone, []string{dead}) {
			t.Errorf("%q go, want %q", gone, dead)
		}
	}
	for dir, want := range map[string]bool{held: true, fresh: true, dead: false, other: true, outside: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
