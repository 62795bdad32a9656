// Package tiebreak learns from what became of earlier choices which of two
// candidates that the judge ranks equal people keep. It makes the rows that a
// trainer learns from, splits and scores them, decides whether a trained model
// is any better than what needs no model, and turns its answers into advice.
// It is pure: the trainer's process, the records and the files live elsewhere.
package tiebreak

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

// Question is the id of the one question that rows ask.
const Question = "better"

// The labels of Question: which of the pair is the better one.
const (
	First  = "first"
	Second = "second"
)

// A Row is one pair of candidates that the judge ranked equal, as a trainer
// reads it: one JSON object on a line. State is JSON text of a State, so that
// a model of text can take it as it is.
type Row struct {
	ID        string            `json:"id"`
	State     string            `json:"state"`
	Questions map[string]Asked  `json:"questions"`
	Expected  map[string]string `json:"expected"`

	group string // equal for rows that tell of the same piece of work
	fewer string // the label that the smaller change has
	twin  string // the state with the pair the other way round
}

// Asked is one question of a row.
type Asked struct {
	Type         string            `json:"type"` // choice
	Instructions string            `json:"instructions"`
	Criteria     map[string]string `json:"criteria"` // label → what it means
}

var asked = map[string]Asked{Question: {
	Type: "choice", Instructions: "Two changes do what was asked, and nothing that was measured sets them apart. Which one is kept?",
	Criteria: map[string]string{First: "the first change is kept", Second: "the second change is kept"},
}}

// A State is what is known of a pair.
type State struct {
	BaseFiles int      `json:"base_files"`
	First     Features `json:"first"`
	Second    Features `json:"second"`
}

// Features is what is known of a candidate: numbers and its agent's name.
type Features struct {
	Agent        string `json:"agent"`
	LinesAdded   int    `json:"lines_added"`
	LinesDeleted int    `json:"lines_deleted"`
	Files        int    `json:"files"`
	FilesAdded   int    `json:"files_added"`
	FilesDeleted int    `json:"files_deleted"`
	FilesBinary  int    `json:"files_binary"`
	ModeChanges  int    `json:"mode_changes"`
	Directories  int    `json:"directories"` // in which files changed
	Rounds       int    `json:"rounds"`
	DurationMS   int64  `json:"duration_ms"`
	ToolCalls    int    `json:"tool_calls"`
	Notes        int    `json:"notes"`           // about the change: nested repositories, capped files
	Patch        string `json:"patch,omitempty"` // only where it was asked for
}

// FeaturesOf reads them from a candidate's record.
func FeaturesOf(c record.Candidate) Features {
	f := Features{Agent: c.Agent, Rounds: c.Rounds, DurationMS: c.DurationMS}
	for _, use := range c.Tools {
		f.ToolCalls += use.Calls
	}
	if c.Change == nil {
		return f
	}
	f.LinesAdded, f.LinesDeleted, f.Files, f.Notes = c.Change.Added, c.Change.Deleted, len(c.Change.Files), len(c.Change.Notes)
	directories := map[string]bool{}
	for _, file := range c.Change.Files {
		path := string(file.Path)
		directories[path[:strings.LastIndexByte(path, '/')+1]] = true
		switch file.Status {
		case "added":
			f.FilesAdded++
		case "deleted":
			f.FilesDeleted++
		case "mode", "type":
			f.ModeChanges++
		}
		if file.Binary {
			f.FilesBinary++
		}
	}
	f.Directories = len(directories)
	return f
}

// A Fate is what became of an adopted change.
type Fate string

// The fates of an adopted change.
const (
	Unknown  Fate = ""         // not adopted, or nobody can tell
	Kept     Fate = "kept"     // it is in the user's tree, perhaps edited since
	Reverted Fate = "reverted" // its files are again as they were before it
)

// A Choice is one finished run and what is known of it.
type Choice struct {
	Document record.Document
	Equal    [][]int // candidates whom the rule ranks equal: judge.Equals of the run
	Fate     Fate
	Patches  map[int]string // by candidate's number; nil: rows hold no content of files
}

// Rows are the pairs of which a later decision says which one was better, in
// the order of the choices: whom somebody adopted is better than those who were
// equal to it, and one whose change was taken back is worse. Candidates with
// the very same tree are one, and make no pair.
func Rows(choices []Choice) []Row {
	groups := grouped(choices)
	var rows []Row
	for i, c := range choices {
		adopted := c.Document.Adopted
		if adopted == nil || c.Fate == Unknown {
			continue
		}
		chosen, ok := find(c.Document, adopted.Candidate)
		if !ok {
			continue
		}
		for _, equal := range c.Equal {
			if !slices.Contains(equal, chosen.Number) {
				continue
			}
			for _, number := range equal {
				other, ok := find(c.Document, number)
				if !ok || other.Change.Tree == chosen.Change.Tree {
					continue
				}
				better, worse := chosen, other
				if c.Fate == Reverted {
					better, worse = other, chosen
				}
				rows = append(rows, row(c, better, worse, groups[i]))
			}
		}
	}
	return rows
}

func find(doc record.Document, number int) (record.Candidate, bool) {
	for _, c := range doc.Candidates {
		if c.Number == number && c.Change != nil {
			return c, true
		}
	}
	return record.Candidate{}, false
}

// row puts a pair in an order that tells nothing: by the run's id, and so that
// about half of all rows expect the first.
func row(c Choice, better, worse record.Candidate, group string) Row {
	id := fmt.Sprintf("%s-%d-%d", c.Document.Run, min(better.Number, worse.Number), max(better.Number, worse.Number))
	label := First
	first, second := better, worse
	if sum := sha256.Sum256([]byte(id + c.Document.Base.Tree)); sum[0]&1 == 1 {
		label, first, second = Second, worse, better
	}
	r := Pair(c.Document, first, second, c.Patches)
	r.ID, r.Expected, r.group = id, map[string]string{Question: label}, group
	return r
}

// Pair is the row of two candidates of which nobody knows the better one. Its
// Expected is empty.
func Pair(doc record.Document, first, second record.Candidate, patches map[int]string) Row {
	a, b := FeaturesOf(first), FeaturesOf(second)
	a.Patch, b.Patch = patches[first.Number], patches[second.Number]
	r := Row{
		ID: fmt.Sprintf("%s-%d-%d", doc.Run, first.Number, second.Number), Questions: asked,
		State: text(State{doc.Base.Files, a, b}), twin: text(State{doc.Base.Files, b, a}), fewer: First,
	}
	if cmp.Or(cmp.Compare(size(first), size(second)), cmp.Compare(len(first.Change.Files), len(second.Change.Files)), cmp.Compare(first.Number, second.Number)) > 0 {
		r.fewer = Second
	}
	return r
}

func size(c record.Candidate) int { return c.Change.Added + c.Change.Deleted }

func text(s State) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and strings
	}
	return string(b)
}

// grouped names, for each choice, the piece of work that it is about: runs of
// one repository with one task, of one base or commit with one task, and runs
// that revise one another, are the same piece.
func grouped(choices []Choice) []string {
	parent := make([]int, len(choices))
	for i := range parent {
		parent[i] = i
	}
	var root func(int) int
	root = func(i int) int {
		if parent[i] != i {
			parent[i] = root(parent[i])
		}
		return parent[i]
	}
	first := map[string]int{}
	join := func(i int, key string) {
		if j, seen := first[key]; seen {
			parent[root(i)] = root(j)
			return
		}
		first[key] = i
	}
	for i, c := range choices {
		d := c.Document
		task := strings.Join(strings.Fields(d.Task), " ")
		join(i, "repository\x00"+string(d.Repo.Root)+"\x00"+task)
		join(i, "base\x00"+d.Base.Tree+"\x00"+task)
		if d.Base.Commit != "" { // also where the repository was moved since
			join(i, "commit\x00"+d.Base.Commit+"\x00"+task)
		}
		join(i, "run\x00"+d.Run)
		if d.RevisionOf != "" {
			join(i, "run\x00"+d.RevisionOf)
		}
	}
	least := map[int]string{}
	for i := range choices {
		if r := root(i); least[r] == "" || key(choices[i]) < least[r] {
			least[r] = key(choices[i])
		}
	}
	names := make([]string, len(choices))
	for i := range choices {
		names[i] = hash(least[root(i)])
	}
	return names
}

func key(c Choice) string { return string(c.Document.Repo.Root) + "\x00" + c.Document.Run }

func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}
