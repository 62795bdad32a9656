package plugin

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (p *parser) subloop() {
	s := p.f.Subloop
	if s == nil {
		return
	}
	p.least(true, Steering, "[subloop]", "subloop")
	if len(s.Stages) == 0 {
		p.fail(at{"subloop", "stages"}, "[subloop] stages is empty")
	}
	p.unique(s.Stages, true, "[subloop] stages", "subloop", "stages")
	p.m.Subloop = s.Stages
}

func (p *parser) roles() {
	for _, name := range slices.Sorted(maps.Keys(p.f.Roles)) {
		key := fmt.Sprintf("[roles.%s]", name)
		tier := *p.f.Roles[name].Tier
		p.least(true, Steering, key, "roles", name)
		if p.f.Subloop == nil {
			p.fail(at{"roles", name}, "%s needs a [subloop]", key)
		}
		if blank(tier) {
			p.fail(at{"roles", name, "tier"}, "%s tier is blank", key)
		}
		p.m.Roles = append(p.m.Roles, Role{name, tier})
	}
}

func (p *parser) capabilities() {
	var seen []string
	for i, c := range p.f.Capabilities {
		tool := strings.TrimSpace(*c.Tool)
		switch {
		case tool == "":
			p.fail(at{"capabilities", i, "tool"}, "[[capabilities]] tool is blank")
		case slices.Contains(seen, tool):
			p.fail(at{"capabilities", i, "tool"}, "[[capabilities]] tool: %q is there twice", tool)
		case blank(*c.Purpose):
			p.fail(at{"capabilities", i, "purpose"}, "[[capabilities]] %q: the purpose is blank", tool)
		}
		for j, s := range c.Scope {
			if blank(s) {
				p.fail(at{"capabilities", i, "scope", j}, "[[capabilities]] %q: an entry of scope is blank", tool)
			}
		}
		seen = append(seen, tool)
		p.m.Capabilities = append(p.m.Capabilities, Capability{Tool: tool, Risk: riskOf(*c.Risk), Said: *c.Risk, Purpose: *c.Purpose, Scope: c.Scope})
	}
}

// contents reads [[tools]], [[skills]] and [[records]].
func (p *parser) contents() {
	for i, t := range p.f.Tools {
		p.declare(&p.m.Tools, Declared{*t.Name, *t.Description}, "tools", "name", "description", i)
	}
	for i, s := range p.f.Skills {
		p.declare(&p.m.Skills, Declared{*s.Slug, *s.Description}, "skills", "slug", "description", i)
	}
	for i, r := range p.f.Records {
		p.declare(&p.m.Records, Declared{*r.Lineage, *r.Statement}, "records", "lineage", "statement", i)
		if r.Enforcement != nil && *r.Enforcement == "blocking" {
			p.fail(at{"records", i, "enforcement"}, "[[records]] %q: a plugin's rule is advice; only you can make one blocking, in your own workspace", *r.Lineage)
		}
	}
}

func (p *parser) declare(list *[]Declared, d Declared, table, name, text string, i int) {
	switch {
	case blank(d.Name):
		p.fail(at{table, i, name}, "[[%s]] %s is blank", table, name)
	case blank(d.Description):
		p.fail(at{table, i, text}, "[[%s]] %q: the %s is blank", table, d.Name, text)
	case slices.ContainsFunc(*list, func(other Declared) bool { return other.Name == d.Name }):
		p.fail(at{table, i, name}, "[[%s]] %s: %q is there twice", table, name, d.Name)
	}
	*list = append(*list, d)
}

// guarded sections of a configuration are nobody's to change but the user's.
var guarded = []string{"providers", "authority", "hooks", "plugins", "mcp", "meta"}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (p *parser) configure() {
	for i, c := range p.f.Configure {
		where := at{"configure", i, "key"}
		parts := strings.Split(*c.Key, ".")
		value, ok := literal(c.Value)
		switch {
		case blank(*c.Key):
			p.fail(where, "[[configure]] key is blank")
		case blank(*c.Purpose):
			p.fail(at{"configure", i, "purpose"}, "[[configure]] %q: the purpose is blank", *c.Key)
		case len(parts) < 2 || slices.ContainsFunc(parts, func(s string) bool { return !bareKey.MatchString(s) }):
			p.fail(where, "[[configure]] key: %q is not two or more plain words with dots between", *c.Key)
		case slices.Contains(guarded, parts[0]):
			p.fail(where, "[[configure]] key: no plugin may change [%s]", parts[0])
		case !ok:
			p.fail(at{"configure", i, "value"}, "[[configure]] %q: the value is neither a string, number, boolean or date nor a list of these", *c.Key)
		case slices.ContainsFunc(p.m.Configure, func(s Setting) bool { return s.Key == *c.Key }):
			p.fail(where, "[[configure]] key: %q is there twice", *c.Key)
		}
		p.m.Configure = append(p.m.Configure, Setting{*c.Key, value, *c.Purpose})
	}
}

// literal is a value as TOML writes it; ok is false for one with tables or
// lists inside.
func literal(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	case time.Time:
		layout := time.RFC3339Nano
		switch v.Location().String() { // how the parser marks what has no offset
		case "datetime-local":
			layout = "2006-01-02T15:04:05.999999999"
		case "date-local":
			layout = time.DateOnly
		case "time-local":
			layout = "15:04:05.999999999"
		}
		return v.Format(layout), true
	case []any:
		elements := make([]string, len(v))
		for i, e := range v {
			if _, nested := e.([]any); nested {
				return "", false
			}
			if elements[i], ok = literal(e); !ok {
				return "", false
			}
		}
		return "[" + strings.Join(elements, ", ") + "]", true
	}
	return "", false
}

// hostStages are the steps of a turn that the format knows.
var hostStages = []string{
	"triage", "recall", "research", "plan", "scope", "execute", "witness", "verify", "verdict", "reflect", "contextwrite", "complete",
}

// reserved spellings belong to boundaries of the host.
var reserved = []string{"context_recall", "scope_review", "context_write", "judge", "verifier"}

var ownStage = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// A signal can be read by conditions after the stage that publishes it; "" is
// the host, before all of them.
type signal struct {
	count     bool
	publisher string
}

var signals = map[string]signal{
	"test-command": {false, ""}, "candidates": {true, ""}, "budget-metered": {false, ""},
	"conversational": {false, "triage"}, "questions": {true, "triage"}, "plans": {false, "triage"}, "verifies": {false, "triage"},
	"wants-witness": {false, "triage"}, "wants-verifier": {false, "triage"},
	"mutating-actions": {true, "execute"}, "diff-lines": {true, "execute"},
	"witness-authored": {false, "witness"},
	"flip-achieved":    {false, "verify"}, "tests-red": {false, "verify"}, "tests-green": {false, "verify"},
}

func (p *parser) wrapper() {
	w := p.f.Wrapper
	if w == nil {
		return
	}
	p.least(true, Steering, "[wrapper]", "wrapper")
	out := &Wrapper{}
	if w.ID != nil {
		if out.ID = *w.ID; blank(*w.ID) {
			p.fail(at{"wrapper", "id"}, "[wrapper] id is blank")
		}
	}
	p.positive(w.Candidates, "[wrapper] candidates", "wrapper", "candidates")
	if w.Candidates != nil {
		out.Candidates = int(*w.Candidates)
	} else if len(w.Stages) == 0 {
		p.fail(at{"wrapper"}, "[wrapper] needs at least one [[wrapper.stages]]")
	}
	for i, s := range w.Stages {
		name := *s.Name
		host := slices.Contains(hostStages, name)
		switch {
		case slices.Contains(reserved, name):
			p.fail(at{"wrapper", "stages", i, "name"}, "[[wrapper.stages]] name: %q is a boundary of the host's", name)
		case !host && !ownStage.MatchString(name):
			p.fail(at{"wrapper", "stages", i, "name"}, "[[wrapper.stages]] name: %q is neither a stage of the host's nor at most 32 of a-z, 0-9 and -", name)
		case slices.ContainsFunc(out.Stages, func(o Stage) bool { return o.Name == name }):
			p.fail(at{"wrapper", "stages", i, "name"}, "[[wrapper.stages]] name: %q is there twice", name)
		}
		stage := Stage{Name: name, Own: !host}
		if s.If != nil {
			stage.If = *s.If
			if err := condition(*s.If, out.Stages); err != nil {
				p.fail(at{"wrapper", "stages", i, "if"}, "[[wrapper.stages]] %q: if = %q: %v", name, *s.If, err)
			}
		}
		out.Stages = append(out.Stages, stage)
	}
	p.m.Wrapper = out
}

// condition checks "[no-]<signal>" or "<signal> <op> <integer>", which may
// read what the host and earlier unconditional stages publish.
func condition(text string, earlier []Stage) error {
	words := strings.Fields(text)
	var name string
	var counts bool
	switch len(words) {
	case 1:
		name = strings.TrimPrefix(words[0], "no-")
	case 3:
		name, counts = words[0], true
		if err := operation(words[1], words[2]); err != nil {
			return err
		}
	default:
		return fmt.Errorf("write a signal, no-<signal>, or <signal> <op> <integer>")
	}
	s, known := signals[name]
	if !known {
		return fmt.Errorf("%q is no signal", name)
	}
	if s.count != counts {
		kind := map[bool]string{true: "a number", false: "true or false"}
		return fmt.Errorf("%q is %s", name, kind[s.count])
	}
	if s.publisher == "" {
		return nil
	}
	i := slices.IndexFunc(earlier, func(e Stage) bool { return e.Name == s.publisher })
	if i < 0 {
		return fmt.Errorf("%q is published by the stage %q, which is not declared before this one", name, s.publisher)
	}
	if earlier[i].If != "" {
		return fmt.Errorf("%q is published by the stage %q, which itself may not run", name, s.publisher)
	}
	return nil
}

func operation(op, value string) error {
	if !slices.Contains([]string{">", ">=", "<", "<=", "==", "!="}, op) {
		return fmt.Errorf("%q is not one of > >= < <= == !=", op)
	}
	if _, err := strconv.ParseUint(strings.TrimPrefix(value, "+"), 10, 64); err != nil {
		return fmt.Errorf("%q is not a whole number from 0", value)
	}
	return nil
}
