package orchestrator

import (
	"maps"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

// maxCompared is how many files a record lists of those that a tamper finding
// compared; it counts all of them.
const maxCompared = 64

// A witness is a protected file as the base has it.
type witness struct{ path, id string }

// witnesses lists the protected files of the base. The list is made once, after
// everybody has said what is protected.
func (t *turn) witnesses() []witness {
	t.watching.Do(func() {
		for _, path := range t.base.Paths() {
			if t.isGuard(path) {
				t.watched = append(t.watched, witness{path, t.base.ID(path)})
			}
		}
	})
	return t.watched
}

// compared says which files a finding rests on: every protected one, with its
// digest in the base and what it was after the candidate and after its test.
// traces maps the paths that the test changed to their new blob ids, "" for one
// that is gone. Files that differ come first, then by path.
func compared(watched []witness, isGuard func(string) bool, change []worktree.FileChange, traces map[string]string) *record.Compared {
	after := maps.Clone(traces)
	if after == nil {
		after = map[string]string{}
	}
	for _, f := range change {
		if isGuard(f.Path) {
			after[f.Path] = f.New
		}
	}
	var files []record.ComparedFile
	for _, w := range watched {
		f := record.ComparedFile{Path: bytestring.String(w.path), Before: w.id, After: w.id}
		if id, ok := after[w.path]; ok {
			f.After, f.Differs = id, true // perhaps in its mode alone
			delete(after, w.path)
		}
		files = append(files, f)
	}
	for path, id := range after { // new ones
		files = append(files, record.ComparedFile{Path: bytestring.String(path), After: id, Differs: true})
	}
	slices.SortFunc(files, func(a, b record.ComparedFile) int {
		if a.Differs != b.Differs {
			if a.Differs {
				return -1
			}
			return 1
		}
		return strings.Compare(string(a.Path), string(b.Path))
	})
	return &record.Compared{Count: len(files), Files: files[:min(len(files), maxCompared)]}
}
