package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/lazyregexp"
	"github.com/bestof-dev/bestof/worktree/patch"
)

// A part is one thing that an input says about a task, whatever the form
// calls it.
type part uint8

const (
	partID part = iota + 1
	partRepo
	partCommit
	partStatement
	partTestPatch
	partTest
	partFailToPass
	partPassToPass
	partImage
)

// A vocabulary is how a form spells the parts.
type vocabulary struct {
	parts    map[string]part
	ignored  []string // known, and of no use here
	required []string
	strict   bool // a key that is not known is refused, not only told of
}

// official is what SWE-bench and the data sets of its kind have. The reference
// solution is never read: nobody here may see it.
var official = vocabulary{
	parts: map[string]part{
		"instance_id": partID, "repo": partRepo, "base_commit": partCommit, "problem_statement": partStatement, "test_patch": partTestPatch,
		"FAIL_TO_PASS": partFailToPass, "PASS_TO_PASS": partPassToPass, "image": partImage, "image_name": partImage, "docker_image": partImage, "test": partTest,
	},
	ignored: []string{
		"patch", "hints_text", "created_at", "version", "environment_setup_commit", "difficulty", "pull_number", "issue_numbers", "image_assets", "language",
	},
	required: []string{"instance_id", "problem_statement"},
}

// ours is what TOML and the task.toml of folders have.
var ours = vocabulary{
	parts: map[string]part{
		"id": partID, "repo": partRepo, "base_commit": partCommit, "statement": partStatement, "test_patch": partTestPatch,
		"fail_to_pass": partFailToPass, "pass_to_pass": partPassToPass, "image": partImage, "test": partTest,
	},
	required: []string{"id", "statement"},
	strict:   true,
}

// A value is a text or a list of texts.
type value struct {
	text   string
	list   []string
	isList bool
	bad    bool // a problem was told already
	line   int  // 0: that of the record
}

// A record is one task as a form has it, before anything is made of it.
type record struct {
	line   int
	where  string // "" : the input's name and line
	order  []string
	values map[string]value
	files  []File
}

func (r *record) set(key string, v value) {
	if r.values == nil {
		r.values = map[string]value{}
	}
	r.order = append(r.order, key)
	r.values[key] = v
}

// A builder makes tasks of the records of one input, and finds what is wrong
// with them.
type builder struct {
	problems
	name     string
	words    vocabulary
	tasks    []Task
	warnings problems
	unknown  map[string]int    // keys of no use, and how many records have them
	ids      map[string]string // of each ID, where it was first
	folded   map[string]string // the same without case
	full     bool
}

func newBuilder(name string, words vocabulary) *builder {
	return &builder{name: name, words: words, unknown: map[string]int{}, ids: map[string]string{}, folded: map[string]string{}}
}

// add makes a task of a record. It is false when there are too many.
func (b *builder) add(r record) bool {
	if len(b.tasks) >= MaxTasks {
		if !b.full {
			b.problems.add(b.name, "more than %d tasks", MaxTasks)
		}
		b.full = true
		return false
	}
	where := r.where
	if where == "" {
		where = at(b.name, r.line)
	}
	t := Task{Line: r.line, Where: where, TestFiles: r.files}
	set := map[part]string{}
	for _, key := range r.order {
		v := r.values[key]
		spot := where
		if v.line > 0 {
			spot = at(b.name, v.line)
		}
		p, known := b.words.parts[key]
		if !known {
			b.foreign(spot, key)
			continue
		}
		if other, twice := set[p]; twice {
			b.problems.add(spot, "%s and %s name the same thing: keep one", other, key)
			continue
		}
		set[p] = key
		if v.bad {
			continue
		}
		b.part(&t, p, key, v, spot)
	}
	for _, key := range b.words.required {
		if _, ok := set[b.words.parts[key]]; !ok {
			b.problems.add(where, "%s is missing", key)
		}
	}
	b.both(t, where)
	b.claim(&t, where)
	b.tasks = append(b.tasks, t)
	return true
}

// part takes one value into the task.
func (b *builder) part(t *Task, p part, key string, v value, where string) {
	switch p {
	case partFailToPass:
		t.FailToPass = b.testIDs(key, v, where)
		return
	case partPassToPass:
		t.PassToPass = b.testIDs(key, v, where)
		return
	case partTest:
		t.Test = b.command(key, v, where)
		return
	}
	if v.isList {
		b.problems.add(where, "%s is a list, not a text", key)
		return
	}
	if p != partTestPatch && strings.ContainsRune(v.text, 0) {
		b.problems.add(where, "%s holds a NUL character", key)
		return
	}
	switch p {
	case partID:
		if t.ID = v.text; v.text == "" {
			b.say(where, key, "is empty")
		}
	case partRepo:
		t.Repo = v.text
		b.say(where, key, repoFault(v.text))
	case partCommit:
		t.BaseCommit = v.text
		b.say(where, key, commitFault(v.text))
	case partStatement:
		t.Statement = v.text
		if strings.TrimSpace(v.text) == "" {
			b.say(where, key, "is empty: candidates must be told something")
		}
	case partTestPatch:
		t.TestPatch = b.patch(key, v.text, where)
	case partImage:
		t.Image = v.text
		if v.text != "" && !imageForm().MatchString(v.text) {
			b.say(where, key, fmt.Sprintf("%s is no image reference", quote(v.text)))
		}
	}
}

func (b *builder) say(where, key, fault string) {
	if fault != "" {
		b.problems.add(where, "%s %s", key, fault)
	}
}

var (
	imageForm  = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$`)
	commitForm = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_./@^~{}+-]{0,254}$`)
)

// commitFault says why a text is no revision that git could be asked for.
func commitFault(rev string) string {
	if rev != "" && (!commitForm().MatchString(rev) || strings.Contains(rev, "..")) {
		return quote(rev) + " is no commit"
	}
	return ""
}

// patch takes a patch as it is; a last line without its end gets one, since
// git refuses such a patch as corrupt.
func (b *builder) patch(key, text, where string) []byte {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if !strings.HasPrefix(text, "diff --git ") && !strings.Contains(text, "\ndiff --git ") {
		b.problems.add(where, "%s is no patch: it has no \"diff --git\" line", key)
		return nil
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	b.say(where, key, patchFault(text))
	return []byte(text)
}

// patchFault says why a patch cannot be laid over any base.
func patchFault(text string) string {
	files, err := patch.Read([]byte(text))
	var at *patch.Error
	switch {
	case errors.As(err, &at):
		return fmt.Sprintf("is not understood in its line %d (%v): it must be as `git diff` writes it", at.Line, at.Err)
	case err != nil:
		return "is not understood: " + err.Error()
	}
	for _, f := range files {
		if f.Binary != nil {
			return fmt.Sprintf("changes the binary file %s, which is not applied: leave it out, or put the file into the tests/ of a task folder", quote(f.Path()))
		}
	}
	return ""
}

// command reads the command that decides: a list is taken word by word, a text
// is split like --test.
func (b *builder) command(key string, v value, where string) []string {
	words := v.list
	if !v.isList {
		if strings.TrimSpace(v.text) == "" {
			return nil
		}
		var err error
		if words, err = argv.Split(v.text); err != nil {
			b.problems.add(where, "%s: %v", key, err)
			return []string{v.text} // it has one, if no good one
		}
	}
	if len(words) > 0 && words[0] == "" {
		b.problems.add(where, "%s names no program", key)
	}
	if slices.ContainsFunc(words, func(w string) bool { return strings.ContainsRune(w, 0) }) {
		b.problems.add(where, "%s holds a NUL character", key)
	}
	return words
}

// testIDs reads a list of test ids: a list, or a text that holds a JSON list
// as the official data sets have it. Repeated ids count once.
func (b *builder) testIDs(key string, v value, where string) []string {
	list := v.list
	if !v.isList {
		if strings.TrimSpace(v.text) == "" {
			return nil
		}
		got, err := textList(json.RawMessage(v.text))
		if err != nil {
			b.problems.add(where, "%s is neither a list of texts nor a text that holds a JSON one: %v", key, err)
			return nil
		}
		list = got
	}
	if len(list) > MaxTestIDs {
		b.problems.add(where, "%s names %d tests; at most %d", key, len(list), MaxTestIDs)
		return nil
	}
	seen := make(map[string]bool, len(list))
	var out []string
	for _, id := range list {
		if id == "" || strings.ContainsAny(id, "\x00\n") {
			b.problems.add(where, "%s: %s is no test id", key, quote(id))
			continue
		}
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// both refuses a test that is to fail and to pass on the base.
func (b *builder) both(t Task, where string) {
	must := make(map[string]bool, len(t.FailToPass))
	for _, id := range t.FailToPass {
		must[id] = true
	}
	for _, id := range t.PassToPass {
		if must[id] {
			b.problems.add(where, "the test %s is in both lists: on the base it cannot fail and pass", quote(id))
			return
		}
	}
}

// claim maps the task's id and refuses one that is taken.
func (b *builder) claim(t *Task, where string) {
	given := t.ID
	if given == "" {
		return
	}
	if t.ID = MapID(given); t.ID != given {
		t.Given = given
		b.warnings.add(where, "the id %s is used as %s", quote(given), t.ID)
	}
	if first, taken := b.ids[t.ID]; taken {
		b.problems.add(where, "the id %s is that of %s already", quote(given), first)
		return
	}
	b.ids[t.ID] = where
	fold := strings.ToLower(t.ID)
	if first, near := b.folded[fold]; near {
		b.warnings.add(where, "the id %s differs from that of %s only in case", t.ID, first)
		return
	}
	b.folded[fold] = where
}

// foreign deals with a key that is no part: a near miss of one is refused.
func (b *builder) foreign(where, key string) {
	if slices.Contains(b.words.ignored, key) {
		return
	}
	for _, known := range slices.Sorted(maps.Keys(b.words.parts)) {
		if near(key, known) {
			b.problems.add(where, "unknown key %s: did you mean %s?", quote(key), known)
			return
		}
	}
	switch {
	case b.words.strict:
		b.problems.add(where, "unknown key %s", quote(key))
	case len(b.unknown) < maxProblems || b.unknown[key] > 0:
		b.unknown[key]++
	}
}

// near tells whether two keys are the same but for case, or for up to two
// characters in one place.
func near(a, b string) bool {
	if a == b {
		return false
	}
	if strings.EqualFold(a, b) {
		return true
	}
	if min(len(a), len(b)) < 6 || max(len(a), len(b))-min(len(a), len(b)) > 2 {
		return false
	}
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return max(len(a), len(b))-head-tail <= 2
}

// input is what the builder made.
func (b *builder) input() (Input, []Problem) {
	for _, key := range slices.Sorted(maps.Keys(b.unknown)) {
		b.warnings.add(b.name, "the key %s is not used (tasks that have it: %d)", quote(key), b.unknown[key])
	}
	if len(b.tasks) == 0 && len(b.list) == 0 {
		b.problems.add(b.name, "there is no task in it")
	}
	return Input{Tasks: b.tasks, Warnings: b.warnings.all()}, b.problems.all()
}

// quote shows a text of an input in a message: cut, and with escapes for what
// a terminal would act on.
func quote(s string) string {
	const most = 120
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if !utf8.ValidString(s) {
		return fmt.Sprintf("%+q", s)
	}
	return fmt.Sprintf("%q", s)
}
