package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if HoldMounts() {
		return
	}
	if os.Getenv("BESTOF_TEST_ADOPT") != "" {
		adoptAndDie()
	}
	goleak.VerifyTestMain(m)
}

// adoptAndDie is the other process of TestHazardKillDuringAdopt.
func adoptAndDie() {
	ctx := context.Background()
	after, err := strconv.Atoi(os.Getenv("BESTOF_TEST_ADOPT"))
	if err != nil {
		panic(err)
	}
	r, err := Open(ctx, os.Getenv("BESTOF_TEST_REPO"))
	if err != nil {
		panic(err)
	}
	o, err := OpenObjects(os.Getenv("BESTOF_TEST_KEPT"))
	if err != nil {
		panic(err)
	}
	c, err := o.Diff(ctx, TreeID(os.Getenv("BESTOF_TEST_FROM")), TreeID(os.Getenv("BESTOF_TEST_TO")))
	if err != nil {
		panic(err)
	}
	n := 0
	_, err = r.Adopt(ctx, o, c, AdoptOptions{Mode: AdoptApply, RunID: "r1", JournalDir: os.Getenv("BESTOF_TEST_JOURNAL"), step: func() {
		if n++; n == after {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	panic(fmt.Sprint("still alive: ", err))
}

// A made change is one between two forests, with the first in a repository.
type madeChange struct {
	*fixture
	repo     *Repository
	objects  *Objects
	change   Change
	kept     string
	from, to forest
}

func makeChange(t *testing.T, from, to forest) *madeChange {
	t.Helper()
	m := &madeChange{fixture: newFixture(t), from: from, to: to, kept: filepath.Join(t.TempDir(), "kept")}
	from.write(t, m.dir)
	m.commit("base")
	m.repo = m.open()
	o, store := &Objects{}, t.TempDir()
	a, b := from.plant(t, o, store), to.plant(t, o, store)
	c, err := o.Diff(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Keep(t.Context(), m.kept, c); err != nil {
		t.Fatal(err)
	}
	if m.objects, err = OpenObjects(m.kept); err != nil {
		t.Fatal(err)
	}
	m.change = c
	return m
}

func (m *madeChange) adopt(journal string) error {
	_, err := m.repo.Adopt(m.t.Context(), m.objects, m.change, AdoptOptions{Mode: AdoptApply, RunID: "r1", JournalDir: journal})
	return err
}

var manyKinds = struct{ from, to forest }{
	forest{"mod": {ModeFile, "1\n"}, "gone": {ModeFile, "x"}, "d/only": {ModeFile, "x"}, "exec": {ModeFile, "x"}, "type": {ModeFile, "x"}, "tofile/a": {ModeFile, "a"}, "todir": {ModeFile, "t"}, "same": {ModeFile, "s"}},
	forest{"mod": {ModeFile, "2\n"}, "new/deep/file": {ModeExec, "n"}, "exec": {ModeExec, "x"}, "type": {ModeLink, "mod"}, "tofile": {ModeFile, "f"}, "todir/b": {ModeFile, "b"}, "same": {ModeFile, "s"}},
}

// TestHazardKillDuringAdopt kills another process after every single step: the
// next command finds the old tree again, and can adopt.
func TestHazardKillDuringAdopt(t *testing.T) {
	m := makeChange(t, manyKinds.from, manyKinds.to)
	before := files(t, m.dir)
	state := m.userState()
	for after := 1; after <= len(m.change.Files); after++ {
		journal := filepath.Join(t.TempDir(), "journal")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "BESTOF_TEST_ADOPT="+strconv.Itoa(after), "BESTOF_TEST_REPO="+m.dir, "BESTOF_TEST_KEPT="+m.kept,
			"BESTOF_TEST_FROM="+string(m.change.Base), "BESTOF_TEST_TO="+string(m.change.Tree), "BESTOF_TEST_JOURNAL="+journal)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the process was not killed: %v\n%s", err, out)
		}
		if cmp.Equal(before, files(t, m.dir)) {
			t.Fatal("the kill came before anything was written")
		}
		if err := m.adopt(journal); err == nil {
			t.Fatal("an interrupted adoption was overwritten")
		}
		undone, err := m.repo.Recover(t.Context(), journal)
		if err != nil || len(undone.Done) != 1 || undone.Run != "r1" {
			t.Fatalf("recover: %q, %v", undone, err)
		}
		if diff := cmp.Diff(before, files(t, m.dir)); diff != "" {
			t.Fatalf("killed after step %d:\n%s", after, diff)
		}
		if undone, err := m.repo.Recover(t.Context(), journal); err != nil || len(undone.Done) != 0 || undone.Run != "" {
			t.Errorf("recover again: %q, %v", undone, err)
		}
	}
	if diff := cmp.Diff(state, m.userState()); diff != "" {
		t.Errorf("git sees a difference:\n%s", diff)
	}
	if err := m.adopt(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if got := gitTree(t, m.dir); got != m.change.Tree {
		t.Errorf("the tree is %s, not %s", got, m.change.Tree)
	}
}

// TestHazardRecoverDuringAdopt leaves an adoption alone that is under way.
func TestHazardRecoverDuringAdopt(t *testing.T) {
	m := makeChange(t, manyKinds.from, manyKinds.to)
	journal := filepath.Join(t.TempDir(), "journal")
	steps := 0
	_, err := m.repo.Adopt(t.Context(), m.objects, m.change, AdoptOptions{Mode: AdoptApply, RunID: "r1", JournalDir: journal, step: func() {
		steps++
		if undone, err := m.repo.Recover(t.Context(), journal); err != nil || undone.Run != "" || len(undone.Done) > 0 {
			t.Errorf("recover at step %d: %+v, %v", steps, undone, err)
		}
	}})
	if err != nil || steps == 0 {
		t.Fatalf("%d steps, %v", steps, err)
	}
	if got := gitTree(t, m.dir); got != m.change.Tree {
		t.Errorf("the tree is %s, not %s", got, m.change.Tree)
	}
}

// TestHazardAdoptionThatCannotBeRecorded undoes what is in place already.
func TestHazardAdoptionThatCannotBeRecorded(t *testing.T) {
	m := makeChange(t, manyKinds.from, manyKinds.to)
	before := files(t, m.dir)
	full := errors.New("no space left")
	called := false
	_, err := m.repo.Adopt(t.Context(), m.objects, m.change, AdoptOptions{Mode: AdoptApply, RunID: "r1", JournalDir: t.TempDir(), Done: func(a Adopted) error {
		called = a.Tree == m.change.Tree && !cmp.Equal(before, files(t, m.dir))
		return full
	}})
	if !errors.Is(err, full) || !called {
		t.Errorf("err %v, told of the change in place: %v", err, called)
	}
	if diff := cmp.Diff(before, files(t, m.dir)); diff != "" {
		t.Error(diff)
	}
}

// TestHazardRecoverSparesLaterEdits leaves what the user wrote after the crash.
func TestHazardRecoverSparesLaterEdits(t *testing.T) {
	m := makeChange(t, forest{"a": {ModeFile, "1"}, "b": {ModeFile, "1"}}, forest{"a": {ModeFile, "2"}, "b": {ModeFile, "2"}, "c": {ModeFile, "2"}})
	journal := t.TempDir()
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	j, err := plan(root, m.change, AdoptOptions{RunID: "r1", JournalDir: journal})
	if err == nil {
		err = j.write(m.objects)
	}
	if err == nil {
		err = j.apply(t.Context(), root, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.write(map[string]string{"b": "mine", "c": "mine"})
	undone, err := m.repo.Recover(t.Context(), journal)
	if err != nil || len(undone.Done) != 3 {
		t.Errorf("recover: %q, %v", undone, err)
	}
	if diff := cmp.Diff(map[string]string{"a": "0 1", "b": "0 mine", "c": "0 mine"}, files(t, m.dir)); diff != "" {
		t.Error(diff)
	}
}

// TestHazardUserEditedMeanwhile refuses the whole change and names the paths.
func TestHazardUserEditedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(dir string) error
		path string
	}{
		"content":       {func(d string) error { return os.WriteFile(filepath.Join(d, "mod"), []byte("mine"), 0o644) }, "mod"},
		"mode":          {func(d string) error { return os.Chmod(filepath.Join(d, "mod"), 0o755) }, "mod"},
		"deleted":       {func(d string) error { return os.Remove(filepath.Join(d, "exec")) }, "exec"},
		"to be deleted": {func(d string) error { return os.WriteFile(filepath.Join(d, "gone"), []byte("mine"), 0o644) }, "gone"},
		"in the way":    {func(d string) error { return os.Mkdir(filepath.Join(d, "new"), 0o755) }, ""},
		"new file": {func(d string) error {
			return errors.Join(os.MkdirAll(filepath.Join(d, "new/deep"), 0o755), os.WriteFile(filepath.Join(d, "new/deep/file"), nil, 0o644))
		}, "new/deep/file"},
		"ignored file in a directory that goes": {func(d string) error { return os.WriteFile(filepath.Join(d, "tofile/ignored.tmp"), nil, 0o644) }, "tofile"},
		"became a link": {func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, "mod")), os.Symlink("same", filepath.Join(d, "mod")))
		}, "mod"},
		"became a directory": {func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, "mod")), os.Mkdir(filepath.Join(d, "mod"), 0o755))
		}, "mod"},
		"parent became a file": {func(d string) error { return os.WriteFile(filepath.Join(d, "new"), nil, 0o644) }, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			m := makeChange(t, manyKinds.from, manyKinds.to)
			if err := c.edit(m.dir); err != nil {
				t.Fatal(err)
			}
			before := files(t, m.dir)
			tried := m.repo.TryAdopt(t.Context(), m.change)
			if diff := cmp.Diff(before, files(t, m.dir)); diff != "" {
				t.Errorf("trying wrote:\n%s", diff)
			}
			err := m.adopt(t.TempDir())
			if fmt.Sprint(tried) != fmt.Sprint(err) {
				t.Errorf("tried: %v, done: %v", tried, err)
			}
			if c.path == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var moved *MovedError
			if !errors.As(err, &moved) || len(moved.Paths) != 1 || moved.Paths[0] != c.path {
				t.Errorf("error %v, want %q moved", err, c.path)
			}
			if diff := cmp.Diff(before, files(t, m.dir)); diff != "" {
				t.Errorf("half applied:\n%s", diff)
			}
		})
	}
}

// TestHazardRefusedPaths names what is never adopted.
func TestHazardRefusedPaths(t *testing.T) {
	outside := t.TempDir()
	base := forest{"a": {ModeFile, "a"}, "d/x": {ModeFile, "x"}}
	for name, c := range map[string]struct {
		path  string
		build func(m *madeChange)
	}{
		"git directory":       {".git/config", nil},
		"git in another case": {".GIT/hooks/post-checkout", nil},
		"git nested":          {"d/.git/config", nil},
		"ours":                {".bestof/config.toml", nil},
		"submodule file":      {".gitmodules", nil},
		"through a link": {"d/x", func(m *madeChange) {
			if err := errors.Join(os.RemoveAll(filepath.Join(m.dir, "d")), os.Symlink(outside, filepath.Join(m.dir, "d"))); err != nil {
				m.t.Fatal(err)
			}
		}},
		"in a submodule": {"sub/file", func(m *madeChange) {
			m.git("update-index", "--add", "--cacheinfo", "160000,"+m.git("rev-parse", "HEAD")+",sub")
		}},
		"a submodule's pointer": {"sub", func(m *madeChange) {
			m.git("update-index", "--add", "--cacheinfo", "160000,"+m.git("rev-parse", "HEAD")+",sub")
		}},
	} {
		for _, mode := range []AdoptMode{AdoptApply, AdoptBranch} {
			if name == "through a link" && mode == AdoptBranch {
				continue // a branch is made beside the work tree
			}
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				to := forest{"a": {ModeFile, "b"}, "d/x": {ModeFile, "x"}, c.path: {ModeFile, "evil"}}
				m := makeChange(t, base, to)
				if c.build != nil {
					c.build(m)
				}
				tried := m.repo.TryAdopt(t.Context(), m.change)
				_, err := m.repo.Adopt(t.Context(), m.objects, m.change, AdoptOptions{Mode: mode, Branch: "b", RunID: "r1", JournalDir: t.TempDir(), BaseCommit: m.repo.Head()})
				if fmt.Sprint(tried) != fmt.Sprint(err) {
					t.Errorf("tried: %v, done: %v", tried, err)
				}
				var refused *RefusedError
				if !errors.As(err, &refused) || refused.Path != c.path {
					t.Errorf("error %v, want %q refused", err, c.path)
				}
				if b, err := os.ReadFile(filepath.Join(m.dir, "a")); err != nil || string(b) != "a" {
					t.Errorf("half applied: %q, %v", b, err)
				}
			})
		}
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("written outside: %v, %v", names, err)
	}
}

// TestHazardAdoptFailsWhole puts everything back when a step cannot be taken.
func TestHazardAdoptFailsWhole(t *testing.T) {
	m := makeChange(t, manyKinds.from, manyKinds.to)
	before := files(t, m.dir)
	n := 0
	_, err := m.repo.Adopt(t.Context(), m.objects, m.change, AdoptOptions{Mode: AdoptApply, RunID: "r1", JournalDir: t.TempDir(), step: func() {
		if n++; n == len(m.change.Files)-1 {
			m.write(map[string]string{"todir/b": "mine"})
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "edited") {
		t.Fatalf("error: %v", err)
	}
	after := files(t, m.dir)
	delete(after, "todir/b")
	delete(before, "todir")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("not put back:\n%s", diff)
	}
}

// TestHazardHooksDoNotRun adopts with everything configured that git could
// execute.
func TestHazardHooksDoNotRun(t *testing.T) {
	m := makeChange(t, forest{"a.txt": {ModeFile, "1\n"}, ".gitattributes": {ModeFile, "*.md filter=z\n*.txt diff=z\n"}}, forest{"a.txt": {ModeFile, "2\n"}, ".gitattributes": {ModeFile, "*.md filter=z\n*.txt diff=z\n"}})
	executed := filepath.Join(t.TempDir(), "executed")
	script := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >> "+executed+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction", "commit-msg", "pre-auto-gc", "post-rewrite"} {
		if err := os.Symlink(script, filepath.Join(m.dir, ".git/hooks", h)); err != nil {
			t.Fatal(err)
		}
	}
	for k, v := range map[string]string{
		"core.fsmonitor": script, "core.pager": script, "core.editor": script, "diff.external": script, "diff.z.textconv": script, "diff.z.command": script,
		"filter.z.clean": script, "filter.z.smudge": script, "filter.z.required": "true", "commit.gpgSign": "true", "gpg.program": script,
		"credential.helper": script, "core.sshCommand": script, "core.askPass": script, "log.showSignature": "true", "alias.status": "!" + script,
	} {
		m.git("config", k, v)
	}
	for k, v := range map[string]string{
		"GIT_DIR": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent", "GIT_WORK_TREE": "/nonexistent", "GIT_EXTERNAL_DIFF": script, "GIT_PAGER": script,
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": script, "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=" + script + "'",
		"GIT_SSH_COMMAND": script, "GIT_EDITOR": script, "GIT_TRACE": executed, "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_NAMESPACE": "x",
	} {
		t.Setenv(k, v)
	}
	r, err := Open(t.Context(), m.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fingerprint(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	for _, spec := range []BaseSpec{{Kind: BaseSnapshot, History: 0}, {Kind: BaseHead, History: 1}} {
		newBase(t, s, r, spec)
	}
	for _, mode := range []AdoptMode{AdoptBranch, AdoptApply} {
		if _, err := r.Adopt(t.Context(), m.objects, m.change, AdoptOptions{Mode: mode, Branch: "won", Message: "m", RunID: "r1", JournalDir: t.TempDir(), BaseCommit: r.Head(), BaseKind: BaseHead}); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(executed); err == nil {
		t.Errorf("executed:\n%s", b)
	}
}

// TestHazardBranchIsNeverMoved also covers names that are none.
func TestHazardBranchIsNeverMoved(t *testing.T) {
	m := makeChange(t, forest{"a": {ModeFile, "1"}}, forest{"a": {ModeFile, "2"}})
	m.git("branch", "taken")
	m.git("branch", "dir/x")
	refs := m.git("for-each-ref")
	for _, name := range []string{"taken", "main", "", "-d", "a..b", "a b", "dir", "taken/x", "HEAD", "x.lock", "@{-1}", "refs/../x"} {
		if _, err := m.repo.Adopt(t.Context(), m.objects, m.change, AdoptOptions{Mode: AdoptBranch, Branch: name, RunID: "r1", JournalDir: t.TempDir(), BaseCommit: m.repo.Head(), BaseKind: BaseHead}); err == nil {
			t.Errorf("%q was made", name)
		}
	}
	if got := m.git("for-each-ref"); got != refs {
		t.Errorf("refs changed:\n%s\n%s", refs, got)
	}
}

// TestHazardFilteredBranch: what a filter program should have seen is not
// committed without it.
func TestHazardFilteredBranch(t *testing.T) {
	m := makeChange(t, forest{".gitattributes": {ModeFile, "*.bin filter=lfs\n"}}, forest{".gitattributes": {ModeFile, "*.bin filter=lfs\n"}, "x.bin": {ModeFile, "content"}})
	m.git("config", "filter.lfs.clean", "cat")
	r := m.open()
	_, err := r.Adopt(t.Context(), m.objects, m.change, AdoptOptions{Mode: AdoptBranch, Branch: "b", RunID: "r1", JournalDir: t.TempDir(), BaseCommit: r.Head(), BaseKind: BaseHead})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Path != "x.bin" {
		t.Errorf("error: %v", err)
	}
}

// TestHazardDirectoryBecomesALink: what was in it is gone, although a path
// through the link leads to something.
func TestHazardDirectoryBecomesALink(t *testing.T) {
	for _, target := range []string{"a", "other", "../other"} {
		m := makeChange(t, forest{"a/b": {ModeFile, "1"}, "other/b": {ModeFile, "1"}, "z": {ModeFile, "1"}}, forest{"a": {ModeLink, target}, "other/b": {ModeFile, "1"}, "z": {ModeFile, "2"}})
		before := files(t, m.dir)
		n := 0
		_, err := m.repo.Adopt(t.Context(), m.objects, m.change, AdoptOptions{Mode: AdoptApply, RunID: "r1", JournalDir: t.TempDir(), step: func() {
			if n++; n == len(m.change.Files) {
				m.write(map[string]string{"z": "1"})
			}
		}})
		if err == nil {
			t.Error("an edit in the middle went unnoticed")
		}
		if diff := cmp.Diff(before, files(t, m.dir)); diff != "" {
			t.Errorf("link to %s: not put back:\n%s", target, diff)
		}
		if err := m.adopt(t.TempDir()); err != nil {
			t.Errorf("link to %s: %v", target, err)
		}
		if got := gitTree(t, m.dir); got != m.change.Tree {
			t.Errorf("link to %s: the tree is %s, not %s", target, got, m.change.Tree)
		}
	}
}

// TestAdoptFromASubdirectory writes at the top level.
func TestAdoptFromASubdirectory(t *testing.T) {
	m := makeChange(t, forest{"sub/a": {ModeFile, "1"}}, forest{"sub/a": {ModeFile, "2"}, "b": {ModeFile, "b"}})
	var err error
	if m.repo, err = Open(t.Context(), filepath.Join(m.dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := m.adopt(filepath.Join(m.dir, ".bestof/runs/r1/adopt")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"sub/a": "0 2", "b": "0 b"}, files(t, m.dir)); diff != "" {
		t.Error(diff)
	}
}

// TestFingerprintSees every kind of change.
func TestFingerprintSees(t *testing.T) {
	f := newFixture(t).write(map[string]string{"a": "a", ".gitignore": "*.tmp\n"})
	f.commit("x")
	r := f.open()
	take := func() Fingerprint {
		p, err := r.Fingerprint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		want string
		do   func()
	}{
		{"", func() { f.write(map[string]string{"x.tmp": "ignored", ".bestof/runs/1": "ours"}) }},
		{"work tree: a", func() { f.write(map[string]string{"a": "b"}) }},
		{"work tree: new", func() { f.write(map[string]string{"new": "b"}) }},
		{"refs/heads/evil", func() { f.git("branch", "evil") }},
		{"refs/heads/broken", func() { f.write(map[string]string{".git/refs/heads/broken": "no commit"}) }},
		{"", func() { f.git("pack-refs", "--all") }},
		{"HEAD", func() { f.git("symbolic-ref", "HEAD", "refs/heads/evil") }},
		{"config", func() { f.git("config", "core.fsmonitor", "evil") }},
		{"hooks/pre-commit", func() { f.write(map[string]string{".git/hooks/pre-commit": "evil"}) }},
		{"info/exclude", func() { f.write(map[string]string{".git/info/exclude": "evil"}) }},
		{"refs/stash", func() { f.git("stash", "store", "-m", "x", f.git("stash", "create")) }},
		{"index", func() { f.git("add", "new") }},
	} {
		before := take()
		c.do()
		got := strings.Join(before.Diff(take()), ", ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("want %q, got %q", c.want, got)
		}
	}
}

func TestPatchOfManyKindsIsReadable(t *testing.T) {
	m := makeChange(t, manyKinds.from, manyKinds.to)
	var b bytes.Buffer
	if err := m.objects.Patch(t.Context(), &b, m.change); err != nil {
		t.Fatal(err)
	}
	run(t, m.dir, b.Bytes(), "git", "apply", "--whitespace=nowarn")
	if got := gitTree(t, m.dir); got != m.change.Tree {
		t.Errorf("the tree is %s, not %s", got, m.change.Tree)
	}
}
