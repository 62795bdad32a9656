// Package task is what a task of a batch is, and the readers of every form in
// which tasks come. It is pure: readers take bytes, and what has to be looked
// up in the world is a plan that somebody else carries out.
package task

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/internal/lazyregexp"
)

// A Task is one problem for candidates, with what decides it.
type Task struct {
	ID         string   // instance_id: ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$ after a stated mapping, unique in a batch
	Repo       string   // as the input spells it: owner/name, a path, or a URL
	BaseCommit string   // "" means the repository's HEAD
	Statement  string   // what candidates are told
	TestPatch  []byte   // applied to verification shadows only, never shown to candidates
	Test       []string // the command that decides, split like --test
	FailToPass []string // test ids that fail on the base and must pass
	PassToPass []string // test ids that pass on the base and must still pass
	Image      string
	Line       int // where the input has it, for messages; 0 unknown

	Given     string // the input's own instance_id where ID is not the same, else ""
	Where     string // the input, and its line where that is known: "tasks.csv:7"
	TestFiles []File // laid over verification shadows after TestPatch, never shown to candidates
}

// Instance is the id by which the input, and its official harness, know the
// task.
func (t Task) Instance() string {
	if t.Given != "" {
		return t.Given
	}
	return t.ID
}

// A File is one regular file of a task folder's tests.
type File struct {
	Path string // below the repository's top, with slashes
	Data []byte
	Exec bool
}

// A Problem is one refusal, or one warning, about an input. Where is the
// input's name, with a line where one is known.
type Problem struct {
	Where string
	Text  string
}

func (p Problem) String() string {
	if p.Where == "" {
		return p.Text
	}
	return p.Where + ": " + p.Text
}

// What an input may hold at most.
const (
	MaxInput   = 1 << 30  // bytes of one file
	MaxRecord  = 16 << 20 // bytes of one task, with its test patch
	MaxTasks   = 100_000
	MaxTestIDs = 100_000 // in one list of one task
	MaxFiles   = 10_000  // of one task folder's tests

	maxID = 128 // bytes

	// maxProblems is how many problems are listed; the last one says how many
	// more there are.
	maxProblems = 1000
)

// An Input is what a reader made of one file or directory. Warnings are about
// what was left out or read in another way than it is spelled; none of them is
// a reason to stop.
type Input struct {
	Tasks    []Task
	Warnings []Problem
}

// idForm is what an ID may be: a file name on every system, and safe as an
// argument, a branch's part and a container's label.
var idForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// MapID makes an ID of what an input calls a task. What is an ID already stays
// as it is. Else a slash becomes "__", as the official data sets spell
// owner/name, any other foreign character becomes "-", a first character that
// is neither letter nor digit gets a "t" before it, and what is too long is cut
// and ends in "-" and twelve hex digits of its SHA-256. It is "" for "".
func MapID(given string) string {
	if given == "" || idForm().MatchString(given) {
		return given
	}
	var b strings.Builder
	for _, r := range given {
		switch {
		case r == '/':
			b.WriteString("__")
		case r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)):
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	id := b.String()
	if c := id[0]; c == '.' || c == '_' || c == '-' {
		id = "t" + id
	}
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(given))
		id = id[:maxID-13] + "-" + hex.EncodeToString(sum[:6])
	}
	return id
}

// problems collects refusals, the first maxProblems of them.
type problems struct {
	list []Problem
	more int
}

func (p *problems) add(where, format string, args ...any) {
	if len(p.list) >= maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, Problem{Where: where, Text: fmt.Sprintf(format, args...)})
}

// InOrder sorts problems by their places: each input by its lines, and last what
// has no place.
func InOrder(list []Problem) []Problem {
	place := func(p Problem) (string, int) {
		if i := strings.LastIndexByte(p.Where, ':'); i >= 0 {
			if n, err := strconv.Atoi(p.Where[i+1:]); err == nil {
				return p.Where[:i], n
			}
		}
		return p.Where, 0
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Problem) int {
		fileA, lineA := place(a)
		fileB, lineB := place(b)
		if (fileA == "") != (fileB == "") {
			return cmp.Compare(fileB, fileA)
		}
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB))
	})
	return list
}

// all is the list, with a last line for what did not fit.
func (p *problems) all() []Problem {
	if p.more > 0 {
		return append(p.list, Problem{Text: fmt.Sprintf("and %d more problems", p.more)})
	}
	return p.list
}

// at names a line of an input.
func at(name string, line int) string {
	if line == 0 {
		return name
	}
	return fmt.Sprintf("%s:%d", name, line)
}
