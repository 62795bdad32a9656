package compare

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// looked is the model of candidates that each leave some files with a text, the
// base having others.
func looked(base map[string]string, leave ...map[string]string) (Model, record.Document) {
	blobs := map[string]string{}
	blob := func(text string) string {
		id := sum(text)
		blobs[id] = text
		return id
	}
	doc := record.Document{Run: "r"}
	for i, files := range leave {
		c := record.Candidate{Number: i + 1, Change: &record.Change{Tree: sum(fmt.Sprint(files)), Normalised: sum(strings.Join(strings.Fields(fmt.Sprint(files)), " "))}}
		for path, text := range files {
			f := record.FileChange{Path: bytestring.String(path), Status: "modified", OldMode: "100644", NewMode: "100644", Old: blob(base[path]), New: blob(text)}
			if _, ok := base[path]; !ok {
				f.OldMode, f.Old = "", ""
			}
			c.Change.Files = append(c.Change.Files, f)
		}
		doc.Candidates = append(doc.Candidates, c)
	}
	m := Build(doc)
	Look(&m, doc, func(id string) ([]byte, error) {
		if text, ok := blobs[id]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("gone")
	})
	return m, doc
}

func sum(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

func TestLookClusters(t *testing.T) {
	base := map[string]string{"a.go": "package a\nvar x = 1\n", "b.go": "package a\nvar y = 1\n", "c.txt": "one two\n"}
	m, _ := looked(base,
		map[string]string{"a.go": "package a\nvar x = 2\n"},
		map[string]string{"a.go": "package a\n\nvar  x = 2\n"},
		map[string]string{"a.go": "package a\n// Two.\nvar x = 2\n", "b.go": "package a\nvar y=1 // one\n"}, // b is but formatted
		map[string]string{"a.go": "package a\nvar x = 3\n"},
		map[string]string{"b.go": "package a\nvar   y = 1\n"},                        // nothing but formatting
		map[string]string{"a.go": "package a\nvar x = 2\n", "c.txt": "one    two\n"}, // no known language: it counts
		map[string]string{"a.go": "package a\nvar x = 2\n"},
	)
	want := []Cluster{
		{Candidates: []int{1, 2, 3, 7}, Exact: [][]int{{1, 7}, {2}, {3}}, Basis: ByFormatting},
		{Candidates: []int{4}, Exact: [][]int{{4}}, Basis: ByBytes},
		{Candidates: []int{5}, Exact: [][]int{{5}}, Basis: ByBytes},
		{Candidates: []int{6}, Exact: [][]int{{6}}, Basis: ByBytes},
	}
	if d := cmp.Diff(want, m.Clusters); d != "" {
		t.Error(d)
	}
	if m.Candidates[2].Cluster != 0 || m.Candidates[5].Cluster != 3 || !m.Looked.Done || m.Looked.Left != 0 {
		t.Errorf("%+v %+v", m.Candidates, m.Looked)
	}
}

func TestLookRegions(t *testing.T) {
	base := map[string]string{"f": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "bin": "\x00"}
	m, _ := looked(base,
		map[string]string{"f": "1\nX\n3\n4\n5\n6\n7\n8\n9\n"},
		map[string]string{"f": "1\nX\n3\n4\n5\n6\n7\nY\n9\n"},
		map[string]string{"f": "1\nZ\nZ\n4\n5\nnew\n6\n7\n8\n9\n"},
		map[string]string{"f": "1\n2\n3\n4\n5\nnew\n6\n7\n8\n9\n", "bin": "\x01\x00", "added": "a\n"},
		map[string]string{"bin": "\x01\x00"},
	)
	want := []Region{
		{Path: "f", Start: 2, End: 4, Variant: []int{1, 1, 2, 0, 0}, By: 3, Variants: 2},
		{Path: "bin", Variant: []int{0, 0, 0, 1, 1}, By: 2, Variants: 1},
		{Path: "f", Start: 6, End: 6, Variant: []int{0, 0, 1, 1, 0}, By: 2, Variants: 1},
		{Path: "added", Variant: []int{0, 0, 0, 1, 0}, By: 1, Variants: 1},
		{Path: "f", Start: 8, End: 9, Variant: []int{0, 1, 0, 0, 0}, By: 1, Variants: 1},
	}
	if d := cmp.Diff(want, m.Regions); d != "" {
		t.Error(d)
	}
	o := m.Overlaps()
	if o[0][1] != (Overlap{Shared: 1, Either: 1, SharedRegions: 1, SameRegions: 1, EitherRegions: 2}) || o[0][2].SameRegions != 0 || o[0][2].SharedRegions != 1 {
		t.Errorf("%+v", o[0])
	}
}

// Lines that are put in between two changed ones join them.
func TestRegionsThatTouchAreOne(t *testing.T) {
	got := joined([]regionEdit{{start: 0, end: 5}, {start: 5, end: 7}, {start: 9, end: 9}, {start: 8, end: 9}, {start: 9, end: 9}, {whole: true}})
	if d := cmp.Diff([]regionEdit{{whole: true}, {end: 5}, {start: 5, end: 7}, {start: 8, end: 9}}, got, cmp.AllowUnexported(regionEdit{})); d != "" {
		t.Error(d)
	}
	got = joined([]regionEdit{{start: 0, end: 5}, {start: 5, end: 5}, {start: 5, end: 7}})
	if d := cmp.Diff([]regionEdit{{end: 7}}, got, cmp.AllowUnexported(regionEdit{})); d != "" {
		t.Error(d)
	}
}

func TestLookSaysWhatItDidNotSee(t *testing.T) {
	big := strings.Repeat("x\n", MaxLines+1)
	m, doc := looked(map[string]string{"f": "1\n", "big": "1\n"}, map[string]string{"f": "2\n", "big": big}, map[string]string{"f": "3\n", "big": big})
	if m.Looked.Left != 1 || m.Regions[1].Path != "f" || m.Regions[0].Start != 0 {
		t.Errorf("%+v %+v", m.Looked, m.Regions)
	}
	m = Build(doc)
	Look(&m, doc, func(string) ([]byte, error) { return nil, errors.New("gone") })
	if m.Looked.Left == 0 || !strings.Contains(m.Looked.Fault, "gone") || len(m.Clusters) != 2 {
		t.Errorf("%+v %+v", m.Looked, m.Clusters)
	}
	all := make([]map[string]string, 40)
	for i := range all {
		all[i] = map[string]string{"f": fmt.Sprint(i) + strings.Repeat("x", MaxBytes-10)}
	}
	if m, _ = looked(map[string]string{"f": ""}, all...); m.Looked.Left == 0 || len(m.Clusters) != 40 {
		t.Errorf("%+v", m.Looked)
	}
}

func TestSteps(t *testing.T) {
	rank := func(place, n, agreement int, ties bool) record.Rank {
		return record.Rank{Place: place, Candidate: n, Agreement: agreement, Ties: ties}
	}
	measured := func(n, lines int, size ...uint64) record.Candidate {
		c := record.Candidate{Number: n, Rounds: 1, Change: &record.Change{Tree: fmt.Sprint(n), Added: lines, Files: []record.FileChange{{}}}}
		for _, s := range size {
			c.Evidence = []record.Evidence{{Evidence: judge.Evidence{Measurements: map[string]uint64{"size": s}}}}
		}
		return c
	}
	doc := record.Document{
		Settings:   record.Settings{Rank: []judge.Goal{{Measurement: "size"}}},
		Candidates: []record.Candidate{measured(1, 5, 10), measured(2, 4, 20), measured(3, 4), measured(4, 9, 10), measured(5, 9, 10), measured(6, 1)},
		Ranking:    []record.Rank{rank(1, 1, 2, false), rank(2, 4, 2, false), rank(3, 5, 2, true), rank(4, 2, 1, false), rank(5, 3, 1, false)},
	}
	var got []string
	for _, s := range Build(doc).Steps {
		got = append(got, fmt.Sprint(s.By, s.Measurement, s.Decided))
	}
	if d := cmp.Diff([]string{"agreement[2]", "measurementsize[3]", "lines[4]", "files[]", "number[]"}, got); d != "" {
		t.Error(d)
	}
	doc.Ranking = nil
	if Build(doc).Steps != nil {
		t.Error("steps without a ranking")
	}
}

func TestTests(t *testing.T) {
	seen := func(pairs ...string) *record.Tests {
		all := map[string]record.TestStatus{}
		for p := range slices.Chunk(pairs, 2) {
			all[p[0]] = record.TestStatus(p[1])
		}
		return record.ListTests(all)
	}
	doc := record.Document{
		Baseline: record.Baseline{Tests: seen("a", "passed", "b", "failed", "c", "failed")},
		Candidates: []record.Candidate{
			{Number: 1, Rounds: 2, Evidence: []record.Evidence{{Round: 0, Tests: seen("a", "failed")}, {Round: 1, Tests: seen("a", "passed", "b", "passed", "c", "failed")}}},
			{Number: 2, Rounds: 1, Evidence: []record.Evidence{{Tests: seen("a", "passed", "b", "missing", "c", "failed")}, {Tests: seen("a", "skipped")}}},
			{Number: 3},
		},
	}
	doc.Candidates[1].Evidence[0].Tests.More = 4
	want := Tests{Unread: []int{3}, Cut: []int{2}, Rows: []Test{
		{Name: "a", Base: "passed", Status: []record.TestStatus{"passed", "skipped", ""}},
		{Name: "b", Base: "failed", Status: []record.TestStatus{"passed", "missing", ""}},
		{Name: "c", Base: "failed", Status: []record.TestStatus{"failed", "failed", ""}},
	}}
	if d := cmp.Diff(want, Build(doc).Tests); d != "" {
		t.Error(d)
	}
}
