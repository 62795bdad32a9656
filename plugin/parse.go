package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/stricttoml"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// file is plugin.toml as it is written. Pointers tell what is missing.
type file struct {
	Name        *string `toml:"name"`
	Description string  `toml:"description"`
	Loop        struct {
		Participation  *string  `toml:"participation"`
		Hooks          []string `toml:"hooks"`
		Points         []string `toml:"points"`
		Calls          []string `toml:"calls"`
		MaxCalls       *uint32  `toml:"max_calls"`
		MaxFanoutWidth *uint32  `toml:"max_fanout_width"`
		MaxHolds       *uint32  `toml:"max_holds"`
	} `toml:"loop"`
	Driver *struct {
		Calls    []string `toml:"calls"`
		MaxCalls *uint32  `toml:"max_calls"`
	} `toml:"driver"`
	Requirements *map[string]string `toml:"requirements"`
	Oracle       *struct {
		Command *struct {
			Argv    []string `toml:"argv"`
			Seconds *uint64  `toml:"timeout_secs"`
		} `toml:"command"`
		Flip         *string  `toml:"flip"`
		Tamper       *string  `toml:"tamper"`
		Measurements []string `toml:"measurements"`
		Checks       []struct {
			Requirement *string `toml:"requirement"`
			Check       *string `toml:"check"`
		} `toml:"checks"`
	} `toml:"oracle"`
	Subloop *struct {
		Stages []string `toml:"stages"`
	} `toml:"subloop"`
	Roles map[string]struct {
		Tier *string `toml:"tier"`
	} `toml:"roles"`
	Wrapper *struct {
		ID         *string `toml:"id"`
		Candidates *uint32 `toml:"candidates"`
		Stages     []struct {
			Name *string `toml:"name"`
			If   *string `toml:"if"`
		} `toml:"stages"`
	} `toml:"wrapper"`
	Runtime *struct {
		Argv     []string `toml:"argv"`
		Seconds  *uint64  `toml:"timeout_secs"`
		Env      []string `toml:"env"`
		Protocol *uint32  `toml:"protocol"`
	} `toml:"runtime"`
	Capabilities []struct {
		Tool    *string  `toml:"tool"`
		Risk    *string  `toml:"risk"`
		Purpose *string  `toml:"purpose"`
		Scope   []string `toml:"scope"`
	} `toml:"capabilities"`
	Tools []struct {
		Name        *string `toml:"name"`
		Description *string `toml:"description"`
	} `toml:"tools"`
	Skills []struct {
		Slug        *string `toml:"slug"`
		Description *string `toml:"description"`
	} `toml:"skills"`
	Records []struct {
		Lineage     *string `toml:"lineage"`
		Statement   *string `toml:"statement"`
		Enforcement *string `toml:"enforcement"`
	} `toml:"records"`
	Configure []struct {
		Key     *string `toml:"key"`
		Value   any     `toml:"value"`
		Purpose *string `toml:"purpose"`
	} `toml:"configure"`
}

// Parse reads a manifest. The error names the first rule that is broken, the
// key, and its line; it is a *stricttoml.Error. Keys that no host of this kind
// acts on are checked like all others.
func Parse(data []byte) (*Manifest, error) {
	p := &parser{positions: stricttoml.Locate(data), m: &Manifest{}}
	if err := stricttoml.Decode(ManifestName, data, &p.f); err != nil {
		return nil, err
	}
	for _, check := range []func(){
		p.missing, p.words, p.name, p.hooks, p.points, p.calls, p.driver, p.stop, p.requirements, p.oracle,
		p.subloop, p.wrapper, p.runtime, p.roles, p.capabilities, p.contents, p.configure,
	} {
		if check(); p.err != nil {
			return nil, p.err
		}
	}
	return p.m, nil
}

// Check refuses a name that cannot be a directory's, or that shows
// something other than it is. Only installing needs it.
func (n Name) Check() error {
	s := string(n)
	switch {
	case s == "" || s != strings.TrimSpace(s) || strings.HasPrefix(s, ".") || strings.ContainsAny(s, "/\\\x00"):
		return fmt.Errorf("the name %q cannot be a directory's name: no slash, no leading dot, no white space around it", s)
	case len(s) > 100:
		return fmt.Errorf("the name is longer than 100 bytes")
	case term.Clean(s, 0).String() != s:
		return fmt.Errorf("the name %q holds characters that do not show", s)
	}
	return nil
}

// A parser holds the first refusal. Its checks go on after one, so each must
// bear whatever stands in the file.
type parser struct {
	f         file
	m         *Manifest
	positions stricttoml.Positions
	err       error
}

type at []any

func (p *parser) fail(where at, format string, args ...any) {
	if p.err == nil {
		p.err = &stricttoml.Error{Name: ManifestName, Line: p.positions.Line(where...), Problem: fmt.Sprintf(format, args...)}
	}
}

// missing refuses tables that lack a key they must have.
func (p *parser) missing() {
	need := func(present bool, key string, where ...any) {
		if !present {
			p.fail(where, "%s is missing", key)
		}
	}
	f := p.f
	need(f.Name != nil, "name")
	if o := f.Oracle; o != nil {
		need(o.Flip != nil, `[oracle] flip ("required" or "not-applicable")`, "oracle")
		if o.Command != nil {
			need(o.Command.Argv != nil, "[oracle] command.argv", "oracle", "command")
			need(o.Command.Seconds != nil, "[oracle] command.timeout_secs", "oracle", "command")
		}
		for i, c := range o.Checks {
			need(c.Requirement != nil, "[[oracle.checks]] requirement", "oracle", "checks", i)
			need(c.Check != nil, "[[oracle.checks]] check", "oracle", "checks", i)
		}
	}
	if f.Subloop != nil {
		need(f.Subloop.Stages != nil, "[subloop] stages", "subloop")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Roles)) {
		need(f.Roles[name].Tier != nil, fmt.Sprintf("[roles.%s] tier", name), "roles", name)
	}
	if w := f.Wrapper; w != nil {
		need(w.ID != nil || w.Candidates != nil, "[wrapper] id", "wrapper")
		for i, s := range w.Stages {
			need(s.Name != nil, "[[wrapper.stages]] name", "wrapper", "stages", i)
		}
	}
	if r := f.Runtime; r != nil {
		need(r.Argv != nil, "[runtime] argv", "runtime")
		need(r.Seconds != nil, "[runtime] timeout_secs", "runtime")
	}
	for i, c := range f.Capabilities {
		need(c.Tool != nil, "[[capabilities]] tool", "capabilities", i)
		need(c.Risk != nil, "[[capabilities]] risk", "capabilities", i)
		need(c.Purpose != nil, "[[capabilities]] purpose", "capabilities", i)
	}
	for i, t := range f.Tools {
		need(t.Name != nil, "[[tools]] name", "tools", i)
		need(t.Description != nil, "[[tools]] description", "tools", i)
	}
	for i, s := range f.Skills {
		need(s.Slug != nil, "[[skills]] slug", "skills", i)
		need(s.Description != nil, "[[skills]] description", "skills", i)
	}
	for i, r := range f.Records {
		need(r.Lineage != nil, "[[records]] lineage", "records", i)
		need(r.Statement != nil, "[[records]] statement", "records", i)
	}
	for i, c := range f.Configure {
		need(c.Key != nil, "[[configure]] key", "configure", i)
		need(c.Value != nil, "[[configure]] value", "configure", i)
		need(c.Purpose != nil, "[[configure]] purpose", "configure", i)
	}
}

// words refuses what a closed set of words does not hold. Only risk is open.
func (p *parser) words() {
	word := func(w string, set []string, key string, where ...any) {
		if !slices.Contains(set, w) {
			p.fail(where, "%s: %q is not one of %s", key, w, strings.Join(set, ", "))
		}
	}
	l := p.f.Loop
	if l.Participation != nil {
		word(*l.Participation, []string{"none", "observer", "steering", "arbiter"}, "[loop] participation", "loop", "participation")
		p.m.Loop.Level, _ = levelOf(*l.Participation)
	}
	for i, h := range l.Hooks {
		word(h, append(texts(Hooks()), lifecycle...), "[loop] hooks", "loop", "hooks", i)
		p.m.Loop.Hooks = append(p.m.Loop.Hooks, Hook(h))
	}
	for i, point := range l.Points {
		word(point, []string{string(wire.BeforeTurn), string(wire.AfterTurn)}, "[loop] points", "loop", "points", i)
		p.m.Loop.Points = append(p.m.Loop.Points, wire.Point(point))
	}
	for i, c := range l.Calls {
		word(c, texts(calls), "[loop] calls", "loop", "calls", i)
		p.m.Loop.Calls = append(p.m.Loop.Calls, Call(c))
	}
	if d := p.f.Driver; d != nil {
		for i, c := range d.Calls {
			word(c, driverCalls, "[driver] calls", "driver", "calls", i)
		}
	}
	if o := p.f.Oracle; o != nil {
		word(*o.Flip, []string{string(judge.FlipRequired), string(judge.FlipNotApplicable)}, "[oracle] flip", "oracle", "flip")
		if o.Tamper != nil {
			word(*o.Tamper, []string{"artifact-identity"}, "[oracle] tamper", "oracle", "tamper")
		}
	}
	for i, r := range p.f.Records {
		if r.Enforcement != nil {
			word(*r.Enforcement, []string{"advisory", "blocking"}, "[[records]] enforcement", "records", i, "enforcement")
		}
	}
}

var driverCalls = []string{
	"backlog_next", "backlog_claim", "backlog_file", "backlog_close", "backlog_link",
	"work_start", "work_status", "work_abandon",
	"deliver_open", "deliver_observe", "deliver_next", "deliver_merge",
	"sweep_audit", "sweep_regress", "sweep_meta",
	"curate_propose", "curate_list", "curate_accept",
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// unique refuses blanks, if asked to, and what is there twice.
func (p *parser) unique(list []string, noBlank bool, key string, where ...any) {
	for i, v := range list {
		at := append(slices.Clip(where), i)
		if noBlank && blank(v) {
			p.fail(at, "%s: an entry is blank", key)
		}
		if slices.Contains(list[:i], v) {
			p.fail(at, "%s: %q is there twice", key, v)
		}
	}
}

// least refuses a declaration that the plugin's level does not allow.
func (p *parser) least(declared bool, level Level, key string, where ...any) {
	if declared && p.m.Loop.Level < level {
		or := " or above"
		if level == Arbiter {
			or = ""
		}
		p.fail(where, "%s needs [loop] participation = %q%s; this manifest says %q", key, level, or, p.m.Loop.Level)
	}
}

// positive refuses a number that is there and is zero.
func (p *parser) positive(n *uint32, key string, where ...any) {
	if n != nil && *n == 0 {
		p.fail(where, "%s must be 1 or more", key)
	}
}

func (p *parser) name() {
	if blank(*p.f.Name) {
		p.fail(at{"name"}, "name is blank")
	}
	p.m.Name, p.m.Description = Name(*p.f.Name), p.f.Description
}

func (p *parser) hooks() {
	hooks := p.f.Loop.Hooks
	p.unique(hooks, false, "[loop] hooks", "loop", "hooks")
	for i, h := range hooks {
		if slices.Contains(lifecycle, h) {
			p.fail(at{"loop", "hooks", i}, "[loop] hooks: %s belongs to a loop outside any turn, which no plugin can join", h)
		}
	}
	p.least(len(hooks) > 0, Steering, "[loop] hooks", "loop", "hooks")
}

func (p *parser) points() {
	p.unique(p.f.Loop.Points, false, "[loop] points", "loop", "points")
	p.least(len(p.f.Loop.Points) > 0, Steering, "[loop] points", "loop", "points")
}

func (p *parser) calls() {
	l := p.f.Loop
	p.unique(l.Calls, false, "[loop] calls", "loop", "calls")
	p.least(len(l.Calls) > 0, Steering, "[loop] calls", "loop", "calls")
	if len(l.Calls) > 0 && len(l.Points) == 0 {
		p.fail(at{"loop", "calls"}, "[loop] calls needs a point in [loop] points to be made from")
	}
	p.positive(l.MaxCalls, "[loop] max_calls", "loop", "max_calls")
	if l.MaxCalls != nil && len(l.Calls) == 0 {
		p.fail(at{"loop", "max_calls"}, "[loop] max_calls needs calls in [loop] calls to limit")
	}
	p.positive(l.MaxFanoutWidth, "[loop] max_fanout_width", "loop", "max_fanout_width")
	if l.MaxFanoutWidth != nil && !slices.Contains(p.m.Loop.Calls, CandidateFanout) {
		p.fail(at{"loop", "max_fanout_width"}, "[loop] max_fanout_width needs %q in [loop] calls", CandidateFanout)
	}
	p.m.Loop.MaxCalls, p.m.Loop.MaxFanoutWidth = l.MaxCalls, l.MaxFanoutWidth
}

func (p *parser) driver() {
	d := p.f.Driver
	if d == nil {
		return
	}
	p.unique(d.Calls, false, "[driver] calls", "driver", "calls")
	p.positive(d.MaxCalls, "[driver] max_calls", "driver", "max_calls")
	if d.MaxCalls != nil && len(d.Calls) == 0 {
		p.fail(at{"driver", "max_calls"}, "[driver] max_calls needs calls in [driver] calls to limit")
	}
	p.m.Driver = &Driver{d.Calls, d.MaxCalls}
}

func (p *parser) stop() {
	l := p.f.Loop
	stop := slices.Index(p.m.Loop.Hooks, Stop)
	p.least(stop >= 0, Arbiter, `the hook "Stop"`, "loop", "hooks", stop)
	if p.m.Loop.Level == Arbiter && stop < 0 {
		p.fail(at{"loop", "participation"}, `[loop] participation = "arbiter" needs "Stop" in [loop] hooks`)
	}
	p.positive(l.MaxHolds, "[loop] max_holds", "loop", "max_holds")
	p.least(l.MaxHolds != nil, Arbiter, "[loop] max_holds", "loop", "max_holds")
	p.m.Loop.MaxHolds = l.MaxHolds
}

func (p *parser) requirements() {
	r := p.f.Requirements
	p.least(r != nil, Arbiter, "[requirements]", "requirements")
	if p.m.Loop.Level == Arbiter && (r == nil || len(*r) == 0) {
		p.fail(at{"loop", "participation"}, `[loop] participation = "arbiter" needs at least one entry in [requirements]`)
	}
	if r == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(*r)) {
		if blank((*r)[name]) {
			p.fail(at{"requirements", name}, "[requirements] %q: the statement is blank", name)
		}
		p.m.Requirements = append(p.m.Requirements, judge.Requirement{Name: name, Statement: (*r)[name]})
	}
}

func (p *parser) oracle() {
	o := p.f.Oracle
	if o == nil {
		return
	}
	p.least(true, Arbiter, "[oracle]", "oracle")
	if !slices.Contains(p.m.Loop.Points, wire.AfterTurn) {
		p.fail(at{"oracle"}, `[oracle] needs "after_turn" in [loop] points: its evidence arrives nowhere else`)
	}
	out := &Oracle{Flip: judge.FlipPolicy(*o.Flip), Measurements: o.Measurements}
	switch {
	case o.Command != nil:
		p.argv(o.Command.Argv, "[oracle] command.argv", "oracle", "command", "argv")
		if *o.Command.Seconds == 0 {
			p.fail(at{"oracle", "command", "timeout_secs"}, "[oracle] command.timeout_secs must be 1 or more")
		}
		out.Command = &Command{o.Command.Argv, *o.Command.Seconds}
	case p.f.Runtime == nil:
		p.fail(at{"oracle"}, "[oracle] needs a process: give it a command, or the manifest a [runtime]")
	}
	p.unique(o.Measurements, true, "[oracle] measurements", "oracle", "measurements")
	checked := map[string]bool{}
	for i, c := range o.Checks {
		if !slices.ContainsFunc(p.m.Requirements, func(r judge.Requirement) bool { return r.Name == *c.Requirement }) {
			p.fail(at{"oracle", "checks", i, "requirement"}, "[[oracle.checks]] requirement: %q is not in [requirements]", *c.Requirement)
		}
		parsed, err := judge.ParseCheck(*c.Check)
		if err != nil {
			p.fail(at{"oracle", "checks", i, "check"}, "[[oracle.checks]] check %q: %v", *c.Check, err)
		}
		if err == nil && !slices.Contains(o.Measurements, parsed.Measurement) {
			p.fail(at{"oracle", "checks", i, "check"}, "[[oracle.checks]] check %q: %q is not in [oracle] measurements", *c.Check, parsed.Measurement)
		}
		checked[*c.Requirement] = true
		out.Checks = append(out.Checks, judge.Check{Requirement: *c.Requirement, Text: *c.Check})
	}
	if out.Flip == judge.FlipNotApplicable {
		for _, r := range p.m.Requirements {
			if !checked[r.Name] {
				p.fail(at{"requirements", r.Name}, `[requirements] %q can never be decided: with [oracle] flip = "not-applicable" it needs an [[oracle.checks]]`, r.Name)
			}
		}
	}
	p.m.Oracle = out
}

// argv refuses a command that cannot be started.
func (p *parser) argv(argv []string, key string, where ...any) {
	if len(argv) == 0 {
		p.fail(where, "%s is empty", key)
	}
	for i, a := range argv {
		if blank(a) {
			p.fail(append(slices.Clip(where), i), "%s: an element is blank", key)
		}
		if strings.Contains(a, "\x00") {
			p.fail(append(slices.Clip(where), i), "%s: an element holds a NUL character", key)
		}
	}
}

func (p *parser) runtime() {
	r := p.f.Runtime
	if r == nil {
		return
	}
	p.least(true, Observer, "[runtime]", "runtime")
	p.argv(r.Argv, "[runtime] argv", "runtime", "argv")
	if *r.Seconds == 0 {
		p.fail(at{"runtime", "timeout_secs"}, "[runtime] timeout_secs must be 1 or more")
	}
	for i, name := range r.Env {
		if name == "" || name != strings.TrimSpace(name) || strings.ContainsAny(name, "=\x00") {
			p.fail(at{"runtime", "env", i}, "[runtime] env: %q is no name of an environment variable", name)
		}
	}
	p.unique(r.Env, false, "[runtime] env", "runtime", "env")
	p.m.Runtime = &Runtime{Argv: r.Argv, Seconds: *r.Seconds, Env: r.Env, Protocol: 1}
	if r.Protocol != nil {
		if *r.Protocol != 1 && *r.Protocol != 2 {
			p.fail(at{"runtime", "protocol"}, "[runtime] protocol = %d: this host speaks 1 and 2", *r.Protocol)
		}
		p.m.Runtime.Protocol = *r.Protocol
	}
}
