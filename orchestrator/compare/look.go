package compare

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/orchestrator/compare/normalform"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// Limits of what Look reads and keeps. What is beyond them counts as changed as
// a whole, and Looked says how much that is.
const (
	MaxLooked  = 24 << 20 // bytes of all contents
	MaxRegions = 2_000
)

// Looked says how far Look came.
type Looked struct {
	Done    bool
	Left    int    // contents that were not looked into: too large, too many, or unreadable
	Fault   string // why the first unreadable one could not be read
	Regions int    // all that there are, of which the model has the most shared
}

// A Region is a place of the base that at least one candidate changed: lines
// next to each other, as far as changes of several candidates touch.
type Region struct {
	Path       string
	Start, End int   // lines of the base from 1, End not included; both equal where lines were only put in before Start, and 0 for all of a file that is new or not text
	Variant    []int // one for each of Model.Candidates: 0 untouched, else equal numbers left equal text there
	By         int   // how many changed it
	Variants   int   // how many different texts they left
}

// Look reads the contents of what the candidates changed, and fills in what only
// they tell: who made the same change but for formatting and comments, and
// which lines of the base each changed. Each content is read once for each
// file.
func Look(m *Model, doc record.Document, read Blobs) {
	l := &looker{read: read, left: MaxLooked, keys: make([]map[string]string, len(m.Candidates))}
	for i := range l.keys {
		l.keys[i] = map[string]string{}
	}
	for _, f := range m.Files {
		l.file(f)
	}
	slices.SortFunc(l.regions, func(a, b Region) int {
		return cmp.Or(cmp.Compare(b.By, a.By), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Start, b.Start))
	})
	l.Looked.Done, l.Looked.Regions = true, len(l.regions)
	m.Looked, m.Regions = l.Looked, l.regions[:min(len(l.regions), MaxRegions)]
	m.Clusters = formClusters(*m, doc, l.keys)
	for i := range m.Candidates {
		c := &m.Candidates[i]
		c.Cluster = slices.IndexFunc(m.Clusters, func(cl Cluster) bool { return slices.Contains(cl.Candidates, c.Number) })
	}
}

type looker struct {
	Looked
	read    Blobs
	left    int                 // bytes of MaxLooked
	keys    []map[string]string // for each candidate the form of each file that it changed
	regions []Region
}

// content is one blob of one file, as far as it was read.
type content struct {
	text []byte
	form normalform.Form
	ok   bool // text and form are known
}

func (l *looker) content(s Side) content {
	if s.Mode == "" {
		return content{ok: true}
	}
	if s.Mode == linkMode || !strings.HasPrefix(s.Mode, "100") || l.left <= 0 {
		if l.left <= 0 {
			l.Left++
		}
		return content{}
	}
	text, err := l.read(s.Blob)
	l.left -= len(text)
	switch {
	case err != nil:
		if l.Fault == "" {
			l.Fault = fmt.Sprintf("%s: %v", s.Path, err)
		}
		l.Left++
		return content{}
	case len(text) > MaxBytes || bytes.Count(text, []byte("\n")) > MaxLines:
		l.Left++
		return content{}
	case bytes.IndexByte(text, 0) >= 0:
		return content{}
	}
	return content{text: text, form: normalform.Of(s.Path, text), ok: true}
}

func (l *looker) file(f File) {
	known := map[Side]content{}
	of := func(s Side) content {
		s.Path = f.Path
		c, ok := known[s]
		if !ok {
			c = l.content(s)
			known[s] = c
		}
		return c
	}
	edits := make([][]regionEdit, len(f.Touch))
	for i, t := range f.Touch {
		if t == nil {
			continue
		}
		old, new := oldSide(*t), newSide(*t)
		a, b := content{}, content{}
		if !t.Binary {
			a, b = of(old), of(new)
		}
		if key, changed := formKey(old, new, a, b); changed {
			l.keys[i][f.Path] = key
		}
		switch {
		case old.Blob == new.Blob:
		case !a.ok || !b.ok || old.Mode == "":
			edits[i] = []regionEdit{{whole: true, text: new.Blob + " " + new.Mode}}
		default:
			edits[i] = regionEdits(string(a.text), string(b.text))
		}
	}
	l.regions = append(l.regions, regionsOf(f.Path, edits)...)
}

// formKey is what the change of a file comes to; changed is false where it is
// known that nothing but formatting and comments changed.
func formKey(old, new Side, a, b content) (key string, changed bool) {
	switch {
	case new.Mode == "":
		return "gone", true
	case !b.ok:
		return "blob " + new.Mode + " " + new.Blob, true
	case a.ok && old.Mode == new.Mode && a.form == b.form && b.form.Known:
		return "", false
	}
	return fmt.Sprintf("form %s %x", new.Mode, b.form.Sum), true
}

// formClusters groups the candidates whose changes come to the same.
func formClusters(m Model, doc record.Document, keys []map[string]string) []Cluster {
	trees := map[int]string{}
	for _, c := range doc.Candidates {
		if c.Change != nil && len(c.Change.Files) > 0 {
			trees[c.Number] = c.Change.Tree
		}
	}
	words := map[int]int{} // the cluster by white space of each
	for i, c := range m.Clusters {
		for _, n := range c.Candidates {
			words[n] = i
		}
	}
	groups := map[[sha256.Size]byte]map[string][]int{}
	for i, c := range m.Candidates {
		tree, ok := trees[c.Number]
		if !ok {
			continue
		}
		h := sha256.New()
		for _, path := range slices.Sorted(maps.Keys(keys[i])) {
			fmt.Fprintf(h, "%q %s\n", path, keys[i][path])
		}
		key := [sha256.Size]byte(h.Sum(nil))
		if groups[key] == nil {
			groups[key] = map[string][]int{}
		}
		groups[key][tree] = append(groups[key][tree], c.Number)
	}
	var out []Cluster
	for _, exact := range groups {
		var c Cluster
		for _, numbers := range exact {
			slices.Sort(numbers)
			c.Exact, c.Candidates = append(c.Exact, numbers), append(c.Candidates, numbers...)
		}
		basis := ByWhiteSpace
		for _, n := range c.Candidates {
			if words[n] != words[c.Candidates[0]] {
				basis = ByFormatting
			}
		}
		out = append(out, c.sorted(basis))
	}
	slices.SortFunc(out, Cluster.before)
	return out
}

// A regionEdit is lines of the base, from 0, that became a text; whole is the
// file as one, without lines.
type regionEdit struct {
	start, end int
	whole      bool
	text       string
}

func (e regionEdit) empty() bool { return e.start == e.end }

func regionEdits(a, b string) []regionEdit {
	as, bs := splitLines(a), splitLines(b)
	var out []regionEdit
	for _, e := range lineEdits(as, bs) {
		out = append(out, regionEdit{start: e.Start, end: e.End, text: strings.Join(bs[e.ReplStart:e.ReplEnd], "")})
	}
	return out
}

// regionsOf joins the edits of all candidates that touch each other, and says
// who left which text where.
func regionsOf(path string, edits [][]regionEdit) []Region {
	spans := joined(slices.Concat(edits...))
	out := make([]Region, len(spans))
	for i, s := range spans {
		out[i] = Region{Path: path, Start: s.start + 1, End: s.end + 1, Variant: make([]int, len(edits))}
		if s.whole {
			out[i].Start, out[i].End = 0, 0
		}
	}
	variants := make([]map[string]int, len(spans))
	for c, es := range edits {
		texts := map[int]string{}
		for _, e := range es {
			i, _ := slices.BinarySearchFunc(spans, e, func(s, e regionEdit) int {
				if s.holds(e) {
					return 0
				}
				return cmp.Or(first(s.whole, e.whole), cmp.Compare(s.start, e.start), -1)
			})
			texts[i] += fmt.Sprintf("%d %d %q\n", e.start, e.end, e.text)
		}
		for i, text := range texts {
			if variants[i] == nil {
				variants[i] = map[string]int{}
			}
			if variants[i][text] == 0 {
				variants[i][text] = len(variants[i]) + 1
			}
			out[i].Variant[c] = variants[i][text]
			out[i].By++
			out[i].Variants = len(variants[i])
		}
	}
	return out
}

// holds reports whether an edit is one of those that s was joined of.
func (e regionEdit) holds(other regionEdit) bool {
	return e.whole == other.whole && e.start <= other.start && other.end <= e.end
}

// joined are the edits with those that touch made one, in order: files as a
// whole first, then by lines. Lines put in between two touch what is done to
// either of them.
func joined(all []regionEdit) []regionEdit {
	slices.SortFunc(all, func(a, b regionEdit) int {
		return cmp.Or(first(a.whole, b.whole), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	var out []regionEdit
	open := false // an insertion is at the end of the last one
	for _, e := range all {
		n := len(out) - 1
		if n >= 0 && out[n].whole == e.whole && (e.start < out[n].end || e.start == out[n].end && (e.empty() || open)) {
			if e.end > out[n].end || e.empty() && e.end == out[n].end {
				open = e.empty()
			}
			out[n].end = max(out[n].end, e.end)
			continue
		}
		out, open = append(out, regionEdit{start: e.start, end: e.end, whole: e.whole}), e.empty()
	}
	return out
}
