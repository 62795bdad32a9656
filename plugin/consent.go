package plugin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/judge"
)

// A Tree is what a package consists of, as it will be installed.
type Tree struct {
	Digest string // of names, modes and bytes
	Files  []File // sorted by path
	Bytes  int64
}

// A File is one regular file of a package.
type File struct {
	Path       string `json:"path"` // slash path in the package
	Executable bool   `json:"executable,omitempty"`
	Size       int64  `json:"size"`
	Digest     string `json:"digest"` // SHA-256 of the bytes, hex
}

// maxProse is how many cells of an author's sentence are shown.
const maxProse = 400

// prose puts an author's text on one line that shows every character of it.
func prose(s string) string { return line(s, maxProse) }

func line(s string, max int) string {
	return term.Clean(strings.Join(strings.Fields(s), " "), max).String()
}

// code is text that stands between backticks: never cut, and nothing in it is
// made to look like something else.
func code(s string) string { return strings.ReplaceAll(term.Clean(s, 0).String(), "`", `\u{60}`) }

// command shows an argv as it will be started; no word of it can look like two.
func command(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = code(a)
		if a == "" || strings.ContainsAny(a, " \"'\\") {
			words[i] = fmt.Sprintf("%q", words[i])
		}
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@+./][A-Za-z0-9_@+./-]*$`)

// word is a name at the beginning of a line; unless it is plain it is quoted,
// so that it does not look like a line of ours.
func word(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return `"` + strings.ReplaceAll(term.Clean(s, 0).String(), `"`, `\u{22}`) + `"`
}

var levels = [...]string{
	None: "none — it is never part of a turn",
	Observer: `observer — it may watch your turn, and changes nothing
in it`,
	Steering: `steering — it may add context to your turn, and rewrite or
refuse tool calls`,
	Arbiter: `arbiter, the strongest grant — everything steering may
do, and it also decides whether your turn is finished`,
}

var risks = [...]string{
	Low:         "it only looks",
	Medium:      "it changes things within bounds, which a `git checkout`\ncan undo",
	High:        "it reaches outside your\nworkspace, or costs something a `git checkout` cannot undo",
	Destructive: "what it does cannot\nbe undone",
}

// Consent is the text that a person agrees to or not before a package is
// installed. The same package gives the same text. Each line of it begins with
// words of ours, and what an author wrote is one line's rest at most.
func Consent(p *Package, tree Tree, h Host) string {
	c := &consent{p: p, name: code(string(p.Name))}
	c.say("Install `%s`?", c.name)
	c.say("%s", Describe(p, tree, h))
	c.say("Every tool call `%s` makes is attributed to it, not to you.", c.name)
	c.say("Nothing above is granted until you accept.")
	return c.b.String()
}

// Describe is what Consent says about the package itself.
func Describe(p *Package, tree Tree, h Host) string {
	c := &consent{p: p, name: code(string(p.Name))}
	if !blank(p.Description) {
		c.say("Its author says: %s", prose(p.Description))
	}
	c.say("")
	c.loop()
	c.process()
	c.driver()
	c.disclosure()
	c.say("")
	c.capabilities()
	c.ships(tree)
	c.settings()
	c.unoffered(h)
	return c.b.String()
}

var uses = [...]string{
	NotHere: "refused, there is no such tool for plugins",
	Reaches: "its process, its hooks and its tools reach the network",
	Inside:  "what it starts is in its own sandbox, and ends with it",
	OwnTool: "its own tool, which is refused where it says of itself that it risks more",
}

type consent struct {
	p    *Package
	name string
	b    strings.Builder
}

func (c *consent) say(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

func (c *consent) loop() {
	l := c.p.Loop
	c.say("Say in your turn loop: %s", levels[l.Level])
	if len(l.Hooks) > 0 {
		c.say("  - runs at these hook points: %s", strings.Join(texts(l.Hooks), ", "))
	} else {
		c.say("  - runs at no hook point")
	}
	if len(l.Points) > 0 {
		c.say("  - is asked at these points of a turn: %s", strings.Join(texts(l.Points), ", "))
	}
	if l.MayHold() {
		switch {
		case l.MaxHolds == nil:
			c.say("  - may refuse to let a finished turn end, as often as the host allows")
		case *l.MaxHolds == 1:
			c.say("  - may refuse to let a finished turn end, once per turn")
		default:
			c.say("  - may refuse to let a finished turn end, up to %d times per turn", *l.MaxHolds)
		}
		c.say("  - holds a turn open until it can say each of these is met:")
		c.requirements()
	}
}

func (c *consent) requirements() {
	for _, r := range c.p.Requirements {
		c.say("      %s: %s", word(r.Name), prose(r.Statement))
		if c.p.Oracle == nil {
			continue
		}
		for _, check := range c.p.Oracle.Checks {
			if check.Requirement == r.Name {
				c.say("          decided by: %s", line(check.Text, 0))
			}
		}
	}
}

// process is what would run, and with what.
func (c *consent) process() {
	if o := c.p.Oracle; o != nil {
		if o.Command != nil {
			c.say("  - decides by a program of its own: `%s` (killed after %ds)", command(o.Command.Argv), o.Command.Seconds)
		} else {
			c.say("  - decides by its own process, the one below")
		}
		if o.Flip == judge.FlipRequired {
			c.say("  - counts a turn only if it saw a test go from failing to passing")
		}
	}
	if r := c.p.Runtime; r != nil {
		c.say("  - runs as a process on your machine: `%s` (killed after %ds)", command(r.Argv), int64(r.Timeout().Seconds()))
		given, withheld := r.Environment()
		if len(given) > 0 {
			c.say("      it inherits these environment variables and no others: %s", names(given))
		} else {
			c.say("      it inherits NO environment variables")
		}
		if len(withheld) > 0 {
			c.say("      it asks for these too, and they are withheld since they lead to credentials: %s", names(withheld))
		}
		if c.p.Network() {
			c.say("      it can reach the network")
		} else {
			c.say("      it cannot reach the network, where the sandbox can keep it away")
		}
		if r.Protocol != 1 {
			c.say("      it speaks protocol %d", r.Protocol)
		}
	} else {
		c.say("  - ships no process")
	}
	l := c.p.Loop
	if len(l.Calls) > 0 {
		c.say("  - wants to call the host while it answers: %s", strings.Join(texts(l.Calls), ", "))
		if l.MaxCalls != nil {
			c.say("      up to %d times each time it is asked", *l.MaxCalls)
		}
	}
	if slices.Contains(l.Calls, CandidateFanout) {
		width := "as many as the host allows"
		if l.MaxFanoutWidth != nil {
			width = fmt.Sprintf("up to %d", *l.MaxFanoutWidth)
		}
		c.say("  - wants to start candidates of its own, %s at once; each costs what a turn costs", width)
	}
	if slices.Contains(l.Calls, AdoptCandidate) {
		c.say("  - wants to put a candidate's change into your tree by itself")
	}
	if len(c.p.Subloop) > 0 {
		c.say("  - wants a loop of its own with these stages: %s", names(c.p.Subloop))
	}
	for _, r := range c.p.Roles {
		c.say("  - wants a model for the role %s: %s", line(r.Name, 100), line(r.Tier, 100))
	}
	if w := c.p.Wrapper; w != nil {
		if w.Candidates > 0 {
			c.say("  - wants %d candidates for each task; -n and your limit win", w.Candidates)
		}
		if w.ID != "" {
			c.say("  - wraps turns as `%s`", code(w.ID))
		}
		for _, s := range w.Stages {
			text := "      stage " + line(s.Name, 100)
			if s.Own {
				text += " (this plugin's own stage)"
			}
			if s.If != "" {
				text += " if " + line(s.If, 100)
			}
			c.say("%s", text)
		}
	}
}

func names(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = line(s, 100)
	}
	return strings.Join(out, ", ")
}

func (c *consent) driver() {
	d := c.p.Driver
	if d == nil {
		return
	}
	c.say("")
	c.say("It wants to drive work that spans turns, through these calls: %s", names(d.Calls))
}

func (c *consent) disclosure() {
	if c.p.Oracle == nil {
		return
	}
	c.say("")
	c.say("`%s` decides when your turn is done, and it reports its own evidence for", c.name)
	c.say("that. bestof does not run the oracle itself and does not check what comes")
	c.say("back: whether a test went fail→pass, and every number a declared check")
	c.say("compares against a budget, are what `%s`'s own process said happened.", c.name)
	c.say("")
	c.say("Installing it means trusting it to report what it actually saw, as you trust")
	c.say("a test runner or a CI check that you did not write. What bestof keeps in its own")
	c.say("hands is the rule that is applied to the evidence, and whether the files")
	c.say("that decide were tampered with.")
}

func (c *consent) capabilities() {
	list := c.p.Capabilities
	if len(list) == 0 {
		c.say("It asks for no tool capabilities, and gets none: no network, and no tool of")
		c.say("this host.")
		return
	}
	widest, scoped := Low, false
	for _, k := range list {
		widest, scoped = max(widest, k.Risk), scoped || len(k.Scope) > 0
	}
	c.say("The widest thing it asks for is graded %s — %s.", strings.ToUpper(widest.String()), risks[widest])
	for _, k := range list {
		grade := k.Risk.String()
		if k.Said != grade {
			grade += ", for the manifest says " + line(fmt.Sprintf("%q", k.Said), 60)
		}
		c.say("  - `%s` (%s) — %s", code(k.Tool), grade, prose(k.Purpose))
		for _, s := range k.Scope {
			c.say("      claimed limit: %s", prose(s))
		}
		c.say("      here: %s", uses[c.p.UseOf(k)])
	}
	if scoped {
		c.say("  Claimed limits are what its author says. Nothing holds it to them.")
	}
}

// ships names every file: first those that other parts of the host read, then
// the rest.
func (c *consent) ships(tree Tree) {
	for _, t := range c.p.PackageTools {
		c.say("  - ships the tool `%s`, which runs `%s` as the plugin: %s", code(t.Name), command(t.Command), prose(t.Description))
		c.say("      its risk is graded %s, and it runs in the sandbox of the candidate that calls it", c.p.RiskOf(t))
	}
	for _, s := range c.p.PackageSkills {
		c.say("  - ships the skill %s, added to tasks that it matches: %s", line(s.Slug, 100), prose(s.Description))
	}
	for _, r := range c.p.PackageRecords {
		c.say("  - ships the advice %s: %s", line(r.Lineage, 100), prose(r.Statement))
	}
	c.say("  - installs %d files, %d bytes, sha256 %s:", len(tree.Files), tree.Bytes, tree.Digest)
	for _, f := range tree.Files {
		mark := ""
		if f.Executable {
			mark = " (executable)"
		}
		c.say("      %s%s", word(f.Path), mark)
	}
}

func (c *consent) settings() {
	for _, s := range c.p.Configure {
		c.say("  - wants the setting %s = %s: %s", line(s.Key, 200), line(s.Value, 200), prose(s.Purpose))
	}
}

func (c *consent) unoffered(h Host) {
	lines := c.p.Unoffered(h)
	if len(lines) == 0 {
		return
	}
	c.say("")
	c.say("Of this, bestof does not do the following:")
	for _, l := range lines {
		c.say("  - %s", l)
	}
}
