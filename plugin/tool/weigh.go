package tool

import (
	"errors"
	"math"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A weigher counts how many schemas a validation will evaluate at most, before
// it does: references can make that exponential in the size of a SCHEMA.
type weigher struct {
	known map[weighed]int
	sizes map[string]int // of programs, by their patterns
	next  int            // the number of the next place
}

// weighed is one schema at one place of the document.
type weighed struct {
	schema *jsonschema.Schema
	place  int
}

// A place is a value in a document. Values have no identity, so they get a
// number.
type place struct {
	id      int
	text    string
	names   []string
	members []*place // in the order of names, or of the array
}

func (w *weigher) place(v any) *place {
	p := &place{id: w.next}
	w.next++
	switch v := v.(type) {
	case string:
		p.text = v
	case map[string]any:
		for name, e := range v {
			p.names, p.members = append(p.names, name), append(p.members, w.place(e))
		}
	case []any:
		for _, e := range v {
			p.members = append(p.members, w.place(e))
		}
	}
	return p
}

// weigh is the number of evaluations of v against s, or more than maxSteps.
func weigh(s *jsonschema.Schema, v any) int {
	w := weigher{known: map[weighed]int{}, sizes: map[string]int{}}
	return w.at(s, w.place(v))
}

func (w *weigher) at(s *jsonschema.Schema, p *place) int {
	key := weighed{s, p.id}
	if n, ok := w.known[key]; ok {
		return n
	}
	if len(w.known) > maxSteps/10 {
		return maxSteps + 1
	}
	n := 1
	for pattern := range s.PatternProperties {
		for _, name := range p.names {
			n = sum(n, 1+w.match(pattern, name))
		}
	}
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	if s.Pattern != nil {
		n = sum(n, w.match(s.Pattern, p.text))
	}
	if s.Format != nil {
		n += len(p.text) / 64
	}
	for _, sub := range inPlace(s) {
		n = sum(n, w.at(sub, p))
	}
	for i, m := range p.members {
		subs := ofItem(s, i)
		if p.names != nil {
			subs = ofMember(s, p.names[i])
		}
		for _, sub := range subs {
			n = sum(n, w.at(sub, m))
		}
		if p.names != nil && s.PropertyNames != nil {
			n = sum(n, w.at(s.PropertyNames, w.place(p.names[i])))
		}
	}
	w.known[key] = n
	return n
}

// match is what holding a text against a pattern takes: a step of the program
// for each instruction and byte at worst, and some 64 of them are one of ours.
func (w *weigher) match(pattern jsonschema.Regexp, text string) int {
	size, ok := w.sizes[pattern.String()]
	if !ok {
		size = programSize(pattern.String())
		w.sizes[pattern.String()] = size
	}
	return len(text) * size / 64
}

// programSize is how many instructions a regular expression compiles to.
func programSize(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return maxSteps // it has been compiled before
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return maxSteps
	}
	return len(program.Inst)
}

func sum(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// inPlace are the schemas within s that are about the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}
	for _, more := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		list = append(list, more...)
	}
	for _, d := range s.DependentSchemas {
		list = append(list, d)
	}
	for _, d := range s.Dependencies {
		if d, ok := d.(*jsonschema.Schema); ok {
			list = append(list, d)
		}
	}
	return present(list)
}

// ofMember are the schemas within s that a member of an object may be held
// against.
func ofMember(s *jsonschema.Schema, name string) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.Properties[name], s.UnevaluatedProperties}
	for _, p := range s.PatternProperties {
		list = append(list, p)
	}
	if a, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		list = append(list, a)
	}
	return present(list)
}

// ofItem are those of the i-th element of an array.
func ofItem(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.Items2020, s.UnevaluatedItems, s.Contains}
	tuple := s.PrefixItems
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		list = append(list, items)
	case []*jsonschema.Schema:
		tuple = items
	}
	if i < len(tuple) {
		list = append(list, tuple[i])
	}
	if a, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
		list = append(list, a)
	}
	return present(list)
}

// within are all schemas within s.
func within(s *jsonschema.Schema) []*jsonschema.Schema {
	list := append(inPlace(s), s.PropertyNames, s.ContentSchema)
	list = append(list, ofMember(s, "")...)
	for _, p := range s.Properties {
		list = append(list, p)
	}
	list = append(append(list, ofItem(s, math.MaxInt)...), s.PrefixItems...)
	if tuple, ok := s.Items.([]*jsonschema.Schema); ok {
		list = append(list, tuple...)
	}
	return present(list)
}

func present(list []*jsonschema.Schema) []*jsonschema.Schema {
	kept := list[:0]
	for _, s := range list {
		if s != nil {
			kept = append(kept, s)
		}
	}
	return kept
}

// checkReferences refuses what cannot be weighed: references that depend on
// how a schema was come to, and those that lead back without a step into the
// value, which would never end.
func checkReferences(s *jsonschema.Schema) error {
	const (
		open = iota + 1
		done
	)
	state := map[*jsonschema.Schema]int{}
	var visit func(*jsonschema.Schema) error
	visit = func(s *jsonschema.Schema) error {
		switch state[s] {
		case open:
			return errors.New("a reference in it leads back to itself")
		case done:
			return nil
		}
		state[s] = open
		for _, sub := range inPlace(s) {
			if err := visit(sub); err != nil {
				return err
			}
		}
		state[s] = done
		return nil
	}
	seen := map[*jsonschema.Schema]bool{}
	for todo := []*jsonschema.Schema{s}; len(todo) > 0; {
		last := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[last] {
			continue
		}
		seen[last] = true
		if last.DynamicRef != nil || last.RecursiveRef != nil {
			return errors.New("it uses $dynamicRef or $recursiveRef, which is not supported: write $ref")
		}
		if err := visit(last); err != nil {
			return err
		}
		todo = append(todo, within(last)...)
	}
	return nil
}
