// Package compare puts the candidates of a finished run side by side: who made
// the same change, who touched which file, what the judge said in words, and
// the difference between any two trees. It is pure; renderers live elsewhere.
package compare

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// A Model is one run, ready to be shown. Its strings are as the record has
// them: renderers clean them.
type Model struct {
	Run        string
	Flags      string `json:",omitempty"` // that commands about this run need, as "--batch DIR"
	Task       string
	Phase      record.Phase
	Winner     int // 0 is none
	Tie        []int
	Reason     string
	Candidates []Candidate // in the order of the ranking, then by number
	Clusters   []Cluster   // largest first, then by their first candidate
	Files      []File      // most shared first, then by path
	Steps      []Step      // what the judge ranked by, in its order
	Tests      Tests       // what single tests said

	// What only the contents of files tell: nothing before Look.
	Regions []Region // of the base that candidates changed, most shared first
	Looked  Looked
}

// A Candidate is one column of the comparison.
type Candidate struct {
	Number       int
	Agent        string
	Outcome      candidate.Outcome
	Detail       string
	Place        int    // in the ranking, 0 when not ranked
	Ties         bool   // with the place above
	Because      string // what put it below the place above
	Cluster      int    // index into Model.Clusters, -1 without a change
	Files        int
	Added        int
	Deleted      int
	Requirements []Requirement
	Tampered     []string // protected paths that it changed
	Notes        []string // about its change: nested repositories, capped files
}

// A Requirement is one line of the definition of done with the decision.
type Requirement struct {
	Name      string
	Statement string
	Decision  judge.Decision
	Words     []string // why, one clause for each finding
}

// A Basis is what changes are equal but for.
type Basis string

// The bases of clusters.
const (
	ByBytes      Basis = "bytes"       // equal trees
	ByWhiteSpace Basis = "white space" // equal words, by the record
	ByFormatting Basis = "formatting"  // equal code: comments and formatting aside
)

// A Cluster is the candidates that arrived at the same normalised change.
type Cluster struct {
	Candidates []int   // ascending
	Exact      [][]int // the same candidates, grouped by equal trees
	Basis      Basis   // on which they are equal
}

// A File is one row of the overlap matrix.
type File struct {
	Path  string
	Touch []*record.FileChange // one for each of Model.Candidates, nil where untouched
	By    int                  // how many touched it
	Same  bool                 // all who touched it left the same content and mode
}

// Build makes the model. It never fails: what the record lacks is absent.
func Build(doc record.Document) Model {
	m := Model{Run: doc.Run, Task: doc.Task, Phase: doc.Phase, Tie: slices.Clone(doc.Tie), Reason: doc.Reason}
	if doc.Winner != nil {
		m.Winner = *doc.Winner
	}
	ranks := map[int]record.Rank{}
	for _, r := range doc.Ranking {
		ranks[r.Candidate] = r
	}
	sorted := slices.Clone(doc.Candidates)
	slices.SortStableFunc(sorted, func(a, b record.Candidate) int {
		return cmp.Or(cmp.Compare(placeOrLast(ranks, a.Number), placeOrLast(ranks, b.Number)), cmp.Compare(a.Number, b.Number))
	})
	m.Clusters = clusters(sorted)
	for _, c := range sorted {
		r := ranks[c.Number]
		k := Candidate{
			Number: c.Number, Agent: c.Agent, Outcome: c.Outcome, Detail: c.Detail,
			Place: r.Place, Ties: r.Ties, Because: r.Because,
			Cluster: slices.IndexFunc(m.Clusters, func(cl Cluster) bool { return slices.Contains(cl.Candidates, c.Number) }),
		}
		if c.Change != nil {
			k.Files, k.Added, k.Deleted, k.Notes = len(c.Change.Files), c.Change.Added, c.Change.Deleted, c.Change.Notes
		}
		for _, t := range c.Tampered {
			k.Tampered = append(k.Tampered, string(t))
		}
		if c.Verdict != nil {
			k.Requirements = Requirements(*c.Verdict)
		}
		m.Candidates = append(m.Candidates, k)
	}
	m.Files = files(sorted)
	m.Steps = steps(doc, m)
	m.Tests = tests(doc, sorted)
	return m
}

func placeOrLast(ranks map[int]record.Rank, n int) int {
	if r, ok := ranks[n]; ok && r.Place > 0 {
		return r.Place
	}
	return int(^uint(0) >> 1)
}

// clusters groups the candidates that changed something. A record without a
// normalised id falls back on the tree.
func clusters(cs []record.Candidate) []Cluster {
	type key struct{ normalised, tree string }
	groups := map[key]map[string][]int{}
	for _, c := range cs {
		if c.Change == nil || len(c.Change.Files) == 0 {
			continue
		}
		k := key{normalised: c.Change.Normalised}
		if k.normalised == "" {
			k.tree = c.Change.Tree
		}
		if groups[k] == nil {
			groups[k] = map[string][]int{}
		}
		groups[k][c.Change.Tree] = append(groups[k][c.Change.Tree], c.Number)
	}
	out := make([]Cluster, 0, len(groups))
	for _, trees := range groups {
		var cl Cluster
		for _, numbers := range trees {
			slices.Sort(numbers)
			cl.Exact = append(cl.Exact, numbers)
			cl.Candidates = append(cl.Candidates, numbers...)
		}
		out = append(out, cl.sorted(ByWhiteSpace))
	}
	slices.SortFunc(out, Cluster.before)
	return out
}

// sorted puts a cluster in order; basis is what it was made by.
func (c Cluster) sorted(basis Basis) Cluster {
	slices.Sort(c.Candidates)
	slices.SortFunc(c.Exact, slices.Compare)
	if c.Basis = basis; len(c.Exact) == 1 {
		c.Basis = ByBytes
	}
	return c
}

func (c Cluster) before(other Cluster) int {
	return cmp.Or(cmp.Compare(len(other.Candidates), len(c.Candidates)), slices.Compare(c.Candidates, other.Candidates))
}

func files(cs []record.Candidate) []File {
	rows := map[string][]*record.FileChange{}
	for i, c := range cs {
		if c.Change == nil {
			continue
		}
		for j := range c.Change.Files {
			f := &c.Change.Files[j]
			if rows[string(f.Path)] == nil {
				rows[string(f.Path)] = make([]*record.FileChange, len(cs))
			}
			rows[string(f.Path)][i] = f
		}
	}
	out := make([]File, 0, len(rows))
	for path, touch := range rows {
		f := File{Path: path, Touch: touch, Same: true}
		var first *record.FileChange
		for _, t := range touch {
			switch {
			case t == nil:
				continue
			case first == nil:
				first = t
			case t.New != first.New || t.NewMode != first.NewMode:
				f.Same = false
			}
			f.By++
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b File) int {
		return cmp.Or(cmp.Compare(b.By, a.By), cmp.Compare(a.Path, b.Path))
	})
	return out
}

// Overlap is what two candidates have in common.
type Overlap struct {
	Shared int // files that both touched
	Same   int // of these, left with the same content and mode by both
	Either int // files that at least one touched

	// Places of the base, after Look.
	SharedRegions int // that both changed
	SameRegions   int // of these, to the same text by both
	EitherRegions int // that at least one changed
}

// Overlaps is the matrix of the candidates by their index in m.Candidates; the
// diagonal is each candidate with itself.
func (m Model) Overlaps() [][]Overlap {
	n := len(m.Candidates)
	out := make([][]Overlap, n)
	for i := range out {
		out[i] = make([]Overlap, n)
	}
	for _, f := range m.Files {
		for i, a := range f.Touch {
			for j, b := range f.Touch {
				o := &out[i][j]
				if a != nil || b != nil {
					o.Either++
				}
				if a != nil && b != nil {
					o.Shared++
					if a.New == b.New && a.NewMode == b.NewMode {
						o.Same++
					}
				}
			}
		}
	}
	for _, r := range m.Regions {
		for i, a := range r.Variant {
			for j, b := range r.Variant {
				o := &out[i][j]
				if a > 0 || b > 0 {
					o.EitherRegions++
				}
				if a > 0 && b > 0 {
					o.SharedRegions++
					if a == b {
						o.SameRegions++
					}
				}
			}
		}
	}
	return out
}

// RequirementNames is the union of the names that the candidates were judged
// by, sorted.
func (m Model) RequirementNames() []string {
	names := map[string]bool{}
	for _, c := range m.Candidates {
		for _, r := range c.Requirements {
			names[r.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Requirements puts a verdict into words.
func Requirements(v judge.Verdict) []Requirement {
	out := make([]Requirement, 0, len(v.Requirements))
	for _, r := range v.Requirements {
		k := Requirement{Name: r.Name, Statement: r.Statement, Decision: r.Decision}
		for _, f := range r.Findings {
			k.Words = append(k.Words, Words(f))
		}
		out = append(out, k)
	}
	return out
}
