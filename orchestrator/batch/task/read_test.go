package task

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
)

const (
	patchA = "diff --git a/t_test.py b/t_test.py\n--- a/t_test.py\n+++ b/t_test.py\n@@ -1 +1 @@\n-a\n+b\n"
	sweRow = `{"instance_id":"own__repo-1","repo":"own/repo","base_commit":"abc1234","problem_statement":"It breaks.\nMend it.","patch":"the answer",` +
		`"test_patch":"diff --git a/t_test.py b/t_test.py\n--- a/t_test.py\n+++ b/t_test.py\n@@ -1 +1 @@\n-a\n+b\n",` +
		`"FAIL_TO_PASS":"[\"t_test.py::a\", \"t_test.py::b[x, \\\"y\\\"]\"]","PASS_TO_PASS":["t_test.py::c"],"image":"img:1","test":"pytest -q 't_test.py'","hints_text":"","version":"1.0"}`
)

func read(t *testing.T, form Form, text string) (Input, []Problem) {
	t.Helper()
	return Read(Source{Name: "in", Form: form, Reader: iotest.HalfReader(strings.NewReader(text))})
}

// good is read, and there must be no problem.
func good(t *testing.T, form Form, text string) Input {
	t.Helper()
	in, problems := read(t, form, text)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return in
}

func wantTask(line int) Task {
	return Task{
		ID: "own__repo-1", Repo: "own/repo", BaseCommit: "abc1234", Statement: "It breaks.\nMend it.", TestPatch: []byte(patchA),
		Test: []string{"pytest", "-q", "t_test.py"}, FailToPass: []string{"t_test.py::a", `t_test.py::b[x, "y"]`}, PassToPass: []string{"t_test.py::c"},
		Image: "img:1", Line: line, Where: fmt.Sprintf("in:%d", line),
	}
}

// Each form says the same task, and nobody gets the reference solution.
func TestEveryFormReadsTheSameTask(t *testing.T) {
	csvText := "\xef\xbb\xbfinstance_id,repo,base_commit,problem_statement,test,test_patch,FAIL_TO_PASS,PASS_TO_PASS,image\r\n" +
		"own__repo-1,own/repo,abc1234,\"It breaks.\nMend it.\",pytest -q 't_test.py',\"" + patchA + `","[""t_test.py::a"", ""t_test.py::b[x, \""y\""]""]","[""t_test.py::c""]",img:1` + "\r\n"
	tomlText := "[defaults]\nrepo = \"own/repo\"\nimage = \"img:1\"\ntest = \"pytest -q 't_test.py'\"\n\n[[task]]\nid = \"own__repo-1\"\nbase_commit = \"abc1234\"\nstatement = \"It breaks.\\nMend it.\"\n" +
		"test_patch = '''\n" + patchA + "'''\nfail_to_pass = [\"t_test.py::a\", 't_test.py::b[x, \"y\"]']\npass_to_pass = [\"t_test.py::c\"]\n"
	for _, c := range []struct {
		form Form
		text string
		line int
	}{
		{JSONLines, "\n" + sweRow + "\n", 2},
		{JSONLines, "\xef\xbb\xbf" + sweRow, 1},
		{JSON, "[\n\n" + sweRow + "\n]\n", 3},
		{JSON, "\n" + sweRow, 2},
		{CSV, csvText, 2},
		{TOML, tomlText, 6},
	} {
		in := good(t, c.form, c.text)
		if want := []Task{wantTask(c.line)}; !reflect.DeepEqual(in.Tasks, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.form, in.Tasks, want)
		}
		if len(in.Warnings) > 0 {
			t.Errorf("%s: warnings %v", c.form, in.Warnings)
		}
	}
}

func TestFoldersReadTheSameTask(t *testing.T) {
	dir := fstest.MapFS{
		"own__repo-1/task.md":             {Data: []byte("It breaks.\nMend it.")},
		"own__repo-1/task.toml":           {Data: []byte("repo = 'own/repo'\nbase_commit = 'abc1234'\ntest = ['pytest', '-q', 't_test.py']\nimage = 'img:1'\nfail_to_pass = ['t_test.py::a', 't_test.py::b[x, \"y\"]']\npass_to_pass = ['t_test.py::c']\n")},
		"own__repo-1/test.patch":          {Data: []byte(patchA)},
		"own__repo-1/tests/sub/a_test.py": {Data: []byte("x\xff"), Mode: 0o644},
		"own__repo-1/tests/run":           {Data: []byte("y"), Mode: 0o755},
		"own__repo-1/notes.txt":           {Data: []byte("anything")},
		".git/config":                     {Data: []byte("anything")},
		"README.md":                       {Data: []byte("anything")},
	}
	in, problems := Read(Source{Name: "in", Form: Folders, Dir: dir})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := wantTask(0)
	want.Where = "in/own__repo-1"
	want.TestFiles = []File{{Path: "run", Data: []byte("y"), Exec: true}, {Path: "sub/a_test.py", Data: []byte("x\xff")}}
	if !reflect.DeepEqual(in.Tasks, []Task{want}) {
		t.Errorf(" got %+v\nwant %+v", in.Tasks, want)
	}
	if got := fmt.Sprint(in.Warnings); got != "[in/README.md: it is no task folder: it is left out]" {
		t.Errorf("warnings %s", got)
	}
}

func row(pairs ...string) string {
	m := map[string]string{"instance_id": "a", "problem_statement": "s"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	b, _ := json.Marshal(m)
	return string(b)
}

// Every problem of an input is told at once, each with its line.
func TestHazardsAllProblemsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		form Form
		text string
		want string
	}{
		{"jsonl", JSONLines, strings.Join([]string{
			`{"instance_id":"a","problem_statement":"s"}`,
			`{"instance_id":"b","problem_statement":}`,
			`{"instance_id":"c","problem_statement":"s"} x`,
			`{"instance_id":"d","problem_statement":"s","instance_id":"e"}`,
			`{"instance_id":"f"}`,
			`{"instance_id":"g","problem_statement":3,"FAIL_TO_PASS":[1],"PASS_TO_PASS":"['x']"}`,
			`[]`,
			`{"instance_id":"a","problem_statement":" "}`,
			`{"instance_id":"h","problem_statement":"s","FAIL_TO_PAS":"[]"}`,
			`{"instance_id":"i","problem_statement":"s","fail_to_pass":"[]"}`,
			"{\"instance_id\":\"j\",\"problem_statement\":\"\xff\"}",
			`{"instance_id":"k","problem_statement":"s","repo":"ext::sh -c x","base_commit":"--upload-pack=x","image":"-v /:/x","test":"a | b"}`,
			`{"instance_id":"l","problem_statement":"s","FAIL_TO_PASS":["x"],"PASS_TO_PASS":["x"],"test_patch":"no patch"}`,
			`{"instance_id":"","problem_statement":"s\u0000"}`,
			`{"instance_id":"m","problem_statement":"s","image":"a","docker_image":"b"}`,
		}, "\n") + "\n", `in:2: malformed JSON: invalid character '}' looking for beginning of value
in:3: there is more after the JSON object
in:4: the key "instance_id" is there twice
in:5: problem_statement is missing
in:7: it is not a JSON object
in:6: problem_statement is neither a text nor a list of texts
in:6: FAIL_TO_PASS is not a list of texts
in:6: PASS_TO_PASS is neither a list of texts nor a text that holds a JSON one: malformed JSON: invalid character '\'' looking for beginning of value
in:8: problem_statement is empty: candidates must be told something
in:8: the id "a" is that of in:1 already
in:9: unknown key "FAIL_TO_PAS": did you mean FAIL_TO_PASS?
in:10: unknown key "fail_to_pass": did you mean FAIL_TO_PASS?
in:11: the task is not UTF-8
in:12: repo "ext::sh -c x" is no URL that is understood: https, http, ssh, git and file are, and user@host:path
in:12: base_commit "--upload-pack=x" is no commit
in:12: image "-v /:/x" is no image reference
in:12: test: …
in:13: test_patch is no patch: it has no "diff --git" line
in:13: the test "x" is in both lists: on the base it cannot fail and pass
in:14: instance_id is empty
in:14: problem_statement holds a NUL character
in:15: image and docker_image name the same thing: keep one`},
		{"array", JSON, "[\n" + row("instance_id", "a") + ",\n{\"instance_id\":},\n" + row("instance_id", "a") + ",\n7\n,\"x,]\"]", `in:3: malformed JSON: invalid character '}' looking for beginning of value
in:4: the id "a" is that of in:2 already
in:5: it is not a JSON object
in:6: it is not a JSON object`},
		{"array without end", JSON, "[" + row(), "in:1: the JSON list has no end"},
		{"array cut", JSON, "[\n{\"instance_id", "in:2: the JSON stops in the middle"},
		{"array without comma", JSON, "[" + row() + "\n" + row("instance_id", "b") + "]", "in:2: a comma or the end of the list is missing before '{'"},
		{"array with a last comma", JSON, "[" + row() + ",]", "in:1: there is no task after the comma"},
		{"array with more", JSON, "[" + row() + "]\n{}", "in:2: there is more after the JSON list"},
		{"array of nothing", JSON, "[]", "in: there is no task in it"},
		{"no array", JSON, "hello", "in:1: it holds neither a JSON list nor JSON objects"},
		{"empty", JSON, " ", "in:1: there is nothing in it"},
		{"empty jsonl", JSONLines, "\n", "in: there is no task in it"},
		{"csv", CSV, "instance_id,repo,base_commit,problem_statement,test\na,r,,s,\nb,r,,\"two\nlines\",t,more\nc,r,,,t\na,r,,s,t\n", `in:3: the row has not as many fields as the header has columns
in:5: problem_statement is missing
in:6: the id "a" is that of in:2 already`},
		{"csv header", CSV, "instance_id,instance_id,,test\n", `in:1: the column "instance_id" has no name of its own
in:1: the column "" has no name of its own
in:1: the column repo is missing in the header
in:1: the column base_commit is missing in the header
in:1: the column problem_statement is missing in the header`},
		{"csv short header", CSV, "instance_id,problem_statement,base_commit\na,s,--x\na,s,\nb,s\n", `in:1: the column repo is missing in the header
in:1: the column test is missing in the header
in:2: base_commit "--x" is no commit
in:3: the id "a" is that of in:2 already
in:4: the row has not as many fields as the header has columns`},
		{"csv header without ids", CSV, "repo,base_commit,problem_statement,test\nr,--x,,\n", "in:1: the column instance_id is missing in the header"},
		{"csv quote", CSV, "instance_id,repo,base_commit,problem_statement,test\na,r,,s\"s,t\n", `in:2: malformed CSV: bare " in non-quoted-field`},
		{"csv empty", CSV, "", "in: there is no header line: the first line names the columns, [instance_id repo base_commit problem_statement test] at least"},
		{"toml", TOML, "[defaults]\nid = 'x'\n[[task]]\nid = 'a'\nstatment = 's'\n[[task]]\nid = 'a'\nstatement = 's'\ntest = 3\n", `in:2: [defaults] has no key "id": it may have [base_commit image repo test]
in:5: unknown key "statment": did you mean statement?
in:3: statement is missing
in:9: test is neither a text nor a list of texts
in:6: the id "a" is that of in:3 already`},
		{"toml syntax", TOML, "[[task]]\nid = \n", "in:2: …"},
		{"toml key", TOML, "[[tasks]]\n", `in:1: unknown key "tasks"`},
	} {
		_, problems := read(t, c.form, c.text)
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		want := strings.Split(c.want, "\n")
		if !sameLines(got, want) {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), c.want)
		}
	}
}

// sameLines compares lists in any order of the lines; a line that ends in "…"
// stands for what begins so.
func sameLines(got, want []string) bool {
	left := append([]string{}, got...)
	for _, w := range want {
		found := false
		for i, g := range left {
			if prefix, open := strings.CutSuffix(w, "…"); g == w || open && strings.HasPrefix(g, prefix) {
				left, found = append(left[:i], left[i+1:]...), true
				break
			}
		}
		if !found {
			return false
		}
	}
	return len(left) == 0
}

func TestFolderProblems(t *testing.T) {
	dir := fstest.MapFS{
		"a/task.toml":          {Data: []byte("nme = 1\nrepo = 2\n")},
		"b/task.md":            {Data: []byte("s")},
		"b/task.toml":          {Data: []byte("statement = 's'\nid = 'a'\n")},
		"b/tests/.git/hooks/x": {Data: []byte("x")},
		"b/tests/.BESTOF/x":    {Data: []byte("x")},
		"b/tests/link":         {Data: []byte("/etc/passwd"), Mode: fs.ModeSymlink},
		"c/task.md":            {Data: []byte("/etc/passwd"), Mode: fs.ModeSymlink},
		"d/task.md":            {Data: []byte("\xff")},
		"e":                    {Data: []byte("a"), Mode: fs.ModeSymlink},
		"f/task.md":            {Data: []byte("s")},
		"f/test.patch":         {Data: make([]byte, MaxRecord)},
		"g/task.md":            {Data: []byte("s")},
		"g/task.toml":          {Data: []byte("x =")},
	}
	_, problems := Read(Source{Name: "in", Form: Folders, Dir: dir})
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		"in/a: task.md is missing",
		`in/a/task.toml:1: unknown key "nme"`,
		"in/a/task.toml:2: repo is neither a text nor a list of texts",
		`in/b/task.toml:1: there is a file for "statement" too: keep one`,
		"in/b/tests/.git: tests cannot be laid there",
		"in/b/tests/.BESTOF: tests cannot be laid there",
		"in/b/tests/link: it is no regular file",
		`in/b: the id "a" is that of in/a already`,
		"in/c/task.md: it is no regular file",
		"in/d/task.md: it is not UTF-8",
		"in/e: it is neither a folder nor a file",
		"in/f/test.patch: the task folder is larger than 16 MiB",
		"in/g/task.toml:1: …",
	}
	if !sameLines(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// On a real file system a link out of a task folder is not followed either.
func TestFoldersOnDisk(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	for name, text := range map[string]string{secret: "secret", filepath.Join(dir, "a", "task.md"): "s", filepath.Join(dir, "a", "tests", "x"): "x"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(dir, "a", "tests", "y")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	in, problems := Read(Source{Name: "in", Form: Folders, Dir: root.FS()})
	if got := fmt.Sprint(problems); got != "[in/a/tests/y: it is no regular file]" {
		t.Errorf("problems %s", got)
	}
	if len(in.Tasks) != 1 || len(in.Tasks[0].TestFiles) != 1 || in.Tasks[0].TestFiles[0].Path != "x" {
		t.Errorf("tasks %+v", in.Tasks)
	}
}

// hazards: a torn last line is dropped with a warning; a malformed line in the
// middle is an error, and so is a last line that is whole and malformed.
func TestHazardsTornLastLine(t *testing.T) {
	whole := row()
	for cut := 1; cut < len(whole); cut++ {
		in, problems := read(t, JSONLines, row("instance_id", "first")+"\n"+whole[:cut])
		if len(problems) > 0 || len(in.Tasks) != 1 || fmt.Sprint(in.Warnings) != "[in:2: the last line is cut off: it is left out]" {
			t.Fatalf("cut at %d: %d tasks, problems %v, warnings %v", cut, len(in.Tasks), problems, in.Warnings)
		}
	}
	for _, text := range []string{whole[:20] + "\n", whole[:20] + "\n" + row("instance_id", "b"), "nonsense", `{"instance_id":]`} {
		if in, problems := read(t, JSONLines, text); len(problems) == 0 {
			t.Errorf("%q: accepted, %+v", text, in)
		}
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	for _, key := range []string{"PASS_TO_PASS", "other"} {
		_, problems := read(t, JSONLines, `{"instance_id":"a","problem_statement":"s","`+key+`":`+strings.Repeat("[", 100_000)+"\n")
		if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), "in:1: malformed JSON: ") {
			t.Errorf("%s: %v", key, problems)
		}
	}
}

func TestUnknownKeysOfOfficialFormsAreToldOnce(t *testing.T) {
	in := good(t, JSONLines, row("instance_id", "a", "stars", "1", "hints_text", "h")+"\n"+row("instance_id", "b", "stars", "2")+"\n")
	if got := fmt.Sprint(in.Warnings); got != `[in: the key "stars" is not used (tasks that have it: 2)]` {
		t.Errorf("warnings %s", got)
	}
}

// Brackets, quotes and commas in texts end no element.
func TestSplitterKnowsTexts(t *testing.T) {
	statements := []string{`say "}`, `\\"]`, `},{`, `\`, "[\n{", `"`}
	var rows []string
	for i, s := range statements {
		rows = append(rows, row("instance_id", fmt.Sprint("t", i), "problem_statement", s))
	}
	for _, text := range []string{"[" + strings.Join(rows, ",") + "]", strings.Join(rows, " ")} {
		in := good(t, JSON, text)
		for i, s := range statements {
			if len(in.Tasks) != len(statements) || in.Tasks[i].Statement != s {
				t.Fatalf("%q: %+v", s, in.Tasks)
			}
		}
	}
}

func TestNullSaysNothing(t *testing.T) {
	in := good(t, JSONLines, `{"instance_id":"a","problem_statement":"s","repo":null,"FAIL_TO_PASS":null,"PASS_TO_PASS":"","image":null}`)
	if want := (Task{ID: "a", Statement: "s", Line: 1, Where: "in:1"}); !reflect.DeepEqual(in.Tasks[0], want) {
		t.Errorf("got %+v", in.Tasks[0])
	}
	if _, problems := read(t, JSONLines, `{"instance_id":"a","problem_statement":null}`); fmt.Sprint(problems) != "[in:1: problem_statement is missing]" {
		t.Errorf("problems %v", problems)
	}
}

func TestIDsThatDifferInCaseAreReported(t *testing.T) {
	in := good(t, JSONLines, row("instance_id", "Task")+"\n"+row("instance_id", "task"))
	if got := fmt.Sprint(in.Warnings); got != "[in:2: the id task differs from that of in:1 only in case]" {
		t.Errorf("warnings %s", got)
	}
}

// An id that is mapped keeps its own spelling for the official harness, and
// two ids that are mapped to one are refused.
func TestMappedIDs(t *testing.T) {
	in := good(t, JSONLines, row("instance_id", "own/repo:1"))
	if got := in.Tasks[0]; got.ID != "own__repo-1" || got.Given != "own/repo:1" || got.Instance() != "own/repo:1" {
		t.Errorf("got %+v", got)
	}
	if _, problems := read(t, JSONLines, row("instance_id", "own/repo")+"\n"+row("instance_id", "own__repo")); len(problems) != 1 {
		t.Errorf("problems %v", problems)
	}
	for given, want := range map[string]string{"": "", "a": "a", "../../etc/passwd": "t..__..__etc__passwd", "-rf": "t-rf", "ä b": "t--b", "a\n": "a-"} {
		if got := MapID(given); got != want {
			t.Errorf("MapID(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestBounds(t *testing.T) {
	big := strings.Repeat("x", MaxRecord)
	for _, c := range []struct {
		form Form
		text string
		want string
	}{
		{JSONLines, row("problem_statement", big) + "\n" + row("instance_id", "b") + "\n", "[in:1: the line is longer than 16 MiB]"},
		{JSON, "[" + row("problem_statement", big) + ",\n" + row("instance_id", "b") + "]", "[in:1: the task is larger than 16 MiB]"},
		{CSV, "instance_id,repo,base_commit,problem_statement,test\na,,,\"" + big + big + "\",\n", "[in: a task is larger than 16 MiB]"},
		{TOML, "# " + big, "[in: larger than 1048576 bytes]"},
	} {
		in, problems := Read(Source{Name: "in", Form: c.form, Reader: strings.NewReader(c.text)})
		if fmt.Sprint(problems) != c.want {
			t.Errorf("%s: %.300v", c.form, problems)
		}
		if c.form == JSON || c.form == JSONLines {
			if len(in.Tasks) != 1 || in.Tasks[0].ID != "b" {
				t.Errorf("%s: the next task is lost", c.form)
			}
		}
	}
	many := strings.Repeat("{}\n", 3000)
	_, problems := read(t, JSONLines, many)
	if last := problems[len(problems)-1].Text; len(problems) != maxProblems+1 || last != "and 5000 more problems" {
		t.Errorf("%d problems, the last is %q", len(problems), last)
	}
}

func TestTooManyTasks(t *testing.T) {
	var b strings.Builder
	for i := range MaxTasks + 5 {
		fmt.Fprintf(&b, "{\"instance_id\":\"t%d\",\"problem_statement\":\"s\"}\n", i)
	}
	in, problems := Read(Source{Name: "in", Form: JSONLines, Reader: strings.NewReader(b.String())})
	if len(in.Tasks) != MaxTasks || fmt.Sprint(problems) != "[in: more than 100000 tasks]" {
		t.Errorf("%d tasks, %v", len(in.Tasks), problems)
	}
}

// A file that is too large is refused while it is read, not after.
func TestCapped(t *testing.T) {
	c := &capped{r: strings.NewReader("abcdef"), left: 4}
	if got, err := io.ReadAll(c); string(got) != "abcd" || err == nil {
		t.Errorf("%q, %v", got, err)
	}
	c = &capped{r: strings.NewReader("abcd"), left: 4}
	if got, err := io.ReadAll(c); string(got) != "abcd" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReadErrorsAreTold(t *testing.T) {
	for _, form := range []Form{JSONLines, JSON, CSV, TOML, "xml"} {
		_, problems := Read(Source{Name: "in", Form: form, Reader: iotest.ErrReader(io.ErrClosedPipe)})
		if len(problems) == 0 {
			t.Errorf("%s: no problem", form)
		}
	}
}

func TestFormOf(t *testing.T) {
	for name, want := range map[string]Form{"a.jsonl": JSONLines, "A.JSON": JSON, "x/b.csv": CSV, "c.toml": TOML, "d.txt": "", "e": ""} {
		got, err := FormOf(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("FormOf(%s) = %q, %v", name, got, err)
		}
	}
}

// The examples of the documentation are inputs.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../../docs/batch.md")
	if err != nil {
		t.Fatal(err)
	}
	read := map[Form]int{}
	for i, block := range strings.Split(string(page), "\n```") {
		kind, text, _ := strings.Cut(block, "\n")
		form := map[bool]Form{true: TOML}[kind == "toml"]
		if strings.HasPrefix(text, "instance_id,") {
			form = CSV
		}
		if i%2 == 0 || form == "" {
			continue
		}
		in := good(t, form, text+"\n")
		read[form] += len(in.Tasks)
	}
	if read[CSV] != 1 || read[TOML] != 1 {
		t.Errorf("read %v", read)
	}
}

// sound is what every reader promises whatever it reads.
func sound(t *testing.T, in Input, problems []Problem) {
	t.Helper()
	if len(in.Tasks) == 0 && len(problems) == 0 {
		t.Error("neither a task nor a problem")
	}
	if len(problems) > 0 {
		return
	}
	seen := map[string]bool{}
	for _, k := range in.Tasks {
		if !idForm().MatchString(k.ID) || seen[k.ID] || strings.TrimSpace(k.Statement) == "" {
			t.Errorf("task %+v", k)
		}
		seen[k.ID] = true
		for _, id := range append(k.FailToPass, k.PassToPass...) {
			if id == "" || strings.ContainsRune(id, '\n') {
				t.Errorf("test id %q", id)
			}
		}
		if strings.HasPrefix(k.BaseCommit, "-") || strings.HasPrefix(k.Repo, "-") || strings.HasPrefix(k.Image, "-") {
			t.Errorf("an argument that looks like a flag: %+v", k)
		}
	}
}

func fuzzForm(f *testing.F, form Form, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in, problems := Read(Source{Name: "in", Form: form, Reader: strings.NewReader(text)})
		sound(t, in, problems)
		again, _ := Read(Source{Name: "in", Form: form, Reader: iotest.OneByteReader(strings.NewReader(text))})
		if !reflect.DeepEqual(in, again) {
			t.Error("reading in pieces gives something else")
		}
	})
}

func FuzzJSONLines(f *testing.F) {
	fuzzForm(f, JSONLines, sweRow, "\n\n{}", row()+"\n{", "\xef\xbb\xbf[]")
}

// FuzzJSON also holds the splitter against encoding/json: a list that is JSON
// has as many elements as the splitter finds.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{"[" + sweRow + "]", "[1,2,\"],\"]", sweRow + sweRow, "[{}, {\"a\":[\"]\"]}]", "[[],{}]", "[,]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		in, problems := Read(Source{Name: "in", Form: JSON, Reader: strings.NewReader(text)})
		sound(t, in, problems)
		var list []json.RawMessage
		if json.Unmarshal([]byte(text), &list) == nil && list != nil && len(list) > 0 && len(in.Tasks)+len(problems) < len(list) {
			t.Errorf("%d elements, %d tasks and %v", len(list), len(in.Tasks), problems)
		}
	})
}

func FuzzCSV(f *testing.F) {
	head := "instance_id,repo,base_commit,problem_statement,test\n"
	fuzzForm(f, CSV, head+"a,r,,s,t\n", head+"a,r,,\"s\n\"\"\",t\r\n", head+"a,\"", "a,b\n", head+"a,r,,s,t,u\n")
}

func FuzzTOML(f *testing.F) {
	fuzzForm(f, TOML, "[[task]]\nid='a'\nstatement='s'\n", "[defaults]\nrepo='x'\n", "task=[{id='a',statement='s',test=['a','b']}]", "[[task]]\nid=1\n")
}

func FuzzFolder(f *testing.F) {
	f.Add("task", "say", "repo = 'a/b'\n", "x")
	f.Add("a b", "", "id = ''\n", ".git/x")
	f.Fuzz(func(t *testing.T, folder, statement, settings, test string) {
		dir := fstest.MapFS{folder + "/task.md": {Data: []byte(statement)}, folder + "/task.toml": {Data: []byte(settings)}, folder + "/tests/" + test: {Data: []byte("x")}}
		if !fs.ValidPath(folder) || strings.Contains(folder, "/") || folder == "." || !fs.ValidPath(folder+"/tests/"+test) {
			return
		}
		in, problems := Read(Source{Name: "in", Form: Folders, Dir: dir})
		if strings.HasPrefix(folder, ".") {
			return
		}
		sound(t, in, problems)
	})
}

func FuzzMapID(f *testing.F) {
	for _, s := range []string{"a", "", "a/b", "ä", strings.Repeat("x", 300), "..", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id := MapID(s)
		if (s == "") != (id == "") || id != "" && !idForm().MatchString(id) {
			t.Errorf("MapID(%q) = %q", s, id)
		}
		if MapID(id) != id {
			t.Errorf("MapID(%q) is not stable", s)
		}
	})
}

// What encoding/csv wrote is read back.
func TestCSVRoundTrip(t *testing.T) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	for _, r := range [][]string{csvColumns, {"a", "r/x", "", "one\n\"two\", three\n", "go test ./..."}, {"b", "", "HEAD~1", "s", ""}} {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	in := good(t, CSV, b.String())
	if len(in.Tasks) != 2 || in.Tasks[0].Statement != "one\n\"two\", three\n" || in.Tasks[1].Line != 5 || in.Tasks[1].BaseCommit != "HEAD~1" {
		t.Errorf("got %+v", in.Tasks)
	}
}
