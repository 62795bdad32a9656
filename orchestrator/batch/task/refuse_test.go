package task

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Each value that could do harm, or cannot mean what it says, is refused by
// name.
func TestRefusedValues(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"repo", `"` + strings.Repeat("x", 5000) + `"`, "repo is too long for a repository"},
		{"repo", `"a\nb"`, "repo holds a control character"},
		{"repo", `"-x"`, `repo "-x" begins with a dash`},
		{"repo", `"ftp://h/x"`, `repo "ftp://h/x" is no URL that is understood: https, http, ssh, git and file are, and user@host:path`},
		{"repo", `["x"]`, "repo is a list, not a text"},
		{"base_commit", `"a..b"`, `base_commit "a..b" is no commit`},
		{"base_commit", `"` + strings.Repeat("é", 200) + `"`, `base_commit "` + strings.Repeat("é", 60) + `…" is no commit`},
		{"test", `["", "x"]`, "test names no program"},
		{"test", `["a\u0000"]`, "test holds a NUL character"},
		{"test_patch", `"make it so"`, "test_patch is no patch: it has no \"diff --git\" line"},
		{"test_patch", `"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"`, "test_patch is no patch: it has no \"diff --git\" line"},
		{"test_patch", `"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n"`, "test_patch is not understood in its line 6 (it ends in the middle of a line): it must be as `git diff` writes it"},
		{"test_patch", `"diff --git a/x b/x\nindex 1234567..89abcde 100644\nBinary files a/x and b/x differ\n"`, `test_patch changes the binary file "x", which is not applied: leave it out, or put the file into the tests/ of a task folder`},
		{"FAIL_TO_PASS", `["a", "", "b\nc"]`, `FAIL_TO_PASS: "" is no test id|in:1: FAIL_TO_PASS: "b\nc" is no test id`},
		{"FAIL_TO_PASS", `"{}"`, "FAIL_TO_PASS is neither a list of texts nor a text that holds a JSON one: is not a list of texts"},
		{"FAIL_TO_PASS", `"[null]"`, "FAIL_TO_PASS is neither a list of texts nor a text that holds a JSON one: is not a list of texts"},
		{"FAIL_TO_PASS", `[["a"]]`, "FAIL_TO_PASS is not a list of texts"},
		{"FAIL_TO_PASS", `{"a":[1]}`, "FAIL_TO_PASS is neither a text nor a list of texts"},
		{"PASS_TO_PASS", "[" + strings.TrimSuffix(strings.Repeat(`"a",`, MaxTestIDs+1), ",") + "]", "PASS_TO_PASS names 100001 tests; at most 100000"},
	} {
		_, problems := read(t, JSONLines, `{"instance_id":"a","problem_statement":"s","`+c.key+`":`+c.value+"}\n")
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if strings.Join(got, "|") != "in:1: "+c.want {
			t.Errorf("%s %.60s: %q", c.key, c.value, got)
		}
	}
}

func TestAcceptedSpellings(t *testing.T) {
	in := good(t, JSONLines, `{"instance_id":"a","problem_statement":"s","base_commit":"v1.2^{}","image":"ghcr.io/x/y@sha256:aa","test":["a b","c"],"FAIL_TO_PASS":["x","x","y"],"test_patch":"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"}`)
	got := in.Tasks[0]
	if fmt.Sprintf("%q %q %q", got.Test, got.FailToPass, got.TestPatch) != `["a b" "c"] ["x" "y"] "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"` || got.Instance() != "a" {
		t.Errorf("%+v", got)
	}
}

// faulty is a file system in which one name cannot be opened.
type faulty struct {
	fstest.MapFS
	name string
}

func (f faulty) Open(name string) (fs.File, error) {
	if name == f.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
	}
	return f.MapFS.Open(name)
}

func (f faulty) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == f.name {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.ErrUnsupported}
	}
	return f.MapFS.ReadDir(name)
}

// What cannot be read is told, wherever it is.
func TestFoldersThatCannotBeRead(t *testing.T) {
	tree := fstest.MapFS{"a/task.md": {Data: []byte("s")}, "a/task.toml": {Data: []byte("")}, "a/tests/d/x": {Data: []byte("x")}}
	for _, name := range []string{".", "a", "a/task.md", "a/task.toml", "a/tests/d", "a/tests/d/x"} {
		_, problems := Read(Source{Name: "in", Form: Folders, Dir: faulty{tree, name}})
		if len(problems) == 0 || !strings.Contains(problems[0].Text, errors.ErrUnsupported.Error()) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	if _, problems := Read(Source{Name: "in", Form: Folders, Dir: tree}); len(problems) > 0 {
		t.Error(problems)
	}
}

// TestInOrder: a list that several checks made is read from the top of the
// input to its end.
func TestInOrder(t *testing.T) {
	var got []string
	for _, p := range InOrder([]Problem{{"", "and 2 more"}, {"in:10", "a"}, {"in:2", "b"}, {"in:10", "c"}, {"--shard", "d"}, {"in", "e"}, {"", "f"}}) {
		got = append(got, p.String())
	}
	if want := []string{"--shard: d", "in: e", "in:2: b", "in:10: a", "in:10: c", "and 2 more", "f"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
