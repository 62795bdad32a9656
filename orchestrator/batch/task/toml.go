package task

import (
	"errors"
	"maps"
	"slices"

	"github.com/bestof-dev/bestof/internal/stricttoml"
)

// A document is our own form: one [[task]] for each task, and what all of them
// share in [defaults]. Keys are looked at by the builder, which finds every
// mistake and not only the first.
type document struct {
	Defaults map[string]any   `toml:"defaults"`
	Task     []map[string]any `toml:"task"`
}

// defaultable are the keys that [defaults] may have.
var defaultable = []string{"base_commit", "image", "repo", "test"}

func readTOML(name string, data []byte) (Input, []Problem) {
	b := newBuilder(name, ours)
	var doc document
	if err := stricttoml.Decode(name, data, &doc); err != nil {
		b.tomlFault(err)
		return b.input()
	}
	positions := stricttoml.Locate(data)
	for _, key := range slices.Sorted(maps.Keys(doc.Defaults)) {
		if !slices.Contains(defaultable, key) {
			b.problems.add(at(name, positions.Line("defaults", key)), "[defaults] has no key %s: it may have %v", quote(key), defaultable)
		}
	}
	for i, table := range doc.Task {
		r := record{line: positions.Line("task", i)}
		b.table(&r, table, func(key string) int { return positions.Line("task", i, key) })
		for _, key := range defaultable {
			if v, ok := doc.Defaults[key]; ok {
				if _, own := table[key]; !own {
					b.entry(&r, key, v, positions.Line("defaults", key))
				}
			}
		}
		if !b.add(r) {
			break
		}
	}
	return b.input()
}

func (b *builder) tomlFault(err error) {
	var e *stricttoml.Error
	if errors.As(err, &e) {
		b.problems.add(at(e.Name, e.Line), "%s", e.Problem)
		return
	}
	b.problems.add(b.name, "%v", err)
}

// table takes the entries of one table in the order of its lines.
func (b *builder) table(r *record, table map[string]any, line func(key string) int) {
	keys := slices.SortedFunc(maps.Keys(table), func(x, y string) int {
		if d := line(x) - line(y); d != 0 {
			return d
		}
		if x < y {
			return -1
		}
		return 1
	})
	for _, key := range keys {
		b.entry(r, key, table[key], line(key))
	}
}

func (b *builder) entry(r *record, key string, v any, line int) {
	switch v := v.(type) {
	case string:
		r.set(key, value{text: v, line: line})
		return
	case []any:
		list := make([]string, len(v))
		good := true
		for i, e := range v {
			s, ok := e.(string)
			list[i], good = s, good && ok
		}
		if good {
			r.set(key, value{list: list, isList: true, line: line})
			return
		}
	}
	if _, known := b.words.parts[key]; !known {
		r.set(key, value{line: line})
		return
	}
	b.problems.add(at(b.name, line), "%s is neither a text nor a list of texts", key)
	r.set(key, value{bad: true, line: line})
}

// ReadMap reads a map of repositories: a TOML file whose [repos] leads from
// what tasks call a repository to its path or URL. name is for messages.
func ReadMap(name string, data []byte) (map[string]string, []Problem) {
	var doc struct {
		Repos map[string]string `toml:"repos"`
	}
	b := newBuilder(name, ours)
	if err := stricttoml.Decode(name, data, &doc); err != nil {
		b.tomlFault(err)
		return nil, b.problems.all()
	}
	positions := stricttoml.Locate(data)
	for _, from := range slices.Sorted(maps.Keys(doc.Repos)) {
		fault := repoFault(doc.Repos[from])
		if doc.Repos[from] == "" {
			fault = "leads nowhere"
		}
		if fault != "" {
			b.problems.add(at(name, positions.Line("repos", from)), "%s: %s", quote(from), fault)
		}
	}
	if len(doc.Repos) == 0 && len(b.list) == 0 {
		b.problems.add(name, "it has no [repos]: write %s", `"owner/name" = "path or URL"`)
	}
	return doc.Repos, b.problems.all()
}
