package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/store"
	"github.com/bestof-dev/bestof/orchestrator"
)

// A handshake asks one server what it declares, and ends it again. The error
// is one line with the remedy.
type handshake func(context.Context, mcp.Server) (mcp.Declared, error)

type grantOptions struct {
	scope  string
	revoke bool
}

func (a *app) mcpGrantCommand() *cobra.Command {
	var o grantOptions
	c := &cobra.Command{
		Use:   "grant NAME",
		Short: "Show what an MCP server declares, and let its tools be called if you agree",
		Long: `Connects to this one server, shows where it is and every tool that it declares,
and asks. Your answer is written into mcp.toml as granted, and what you saw is
recorded in $BESTOF_HOME: when the server is somewhere else later, all of it is
withheld; when it has new or changed tools, those are. Granting it again shows
the difference. For a server of a repository that you do not trust you are asked
before its program is started or its address contacted.

What a server says of its tools is its own word.`,
		Example: "  bestof mcp grant docs\n  bestof mcp grant docs --revoke",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runMCPGrant(c.Context(), args[0], o, a.mcpHandshake)
		},
	}
	c.Flags().BoolVar(&o.revoke, "revoke", false, "take the grant back, without connecting")
	scopeFlag(c, &o.scope, "the file that has it, if both have the name")
	return c
}

func (a *app) runMCPGrant(ctx context.Context, name string, o grantOptions, connect handshake) error {
	scope, err := checkScope(o.scope)
	if err != nil {
		return err
	}
	s, err := a.mcpStore(ctx)
	if err != nil {
		return err
	}
	e, err := s.Find(scope, name)
	if err != nil {
		return mcpError(err)
	}
	if o.revoke {
		return a.revoke(s, e)
	}
	if err := a.askToConnect(s, e, "learn what the server offers"); err != nil {
		return err
	}
	d, err := connect(ctx, e.Server)
	switch {
	case err != nil && ctx.Err() != nil: // the server is not to blame
		return fmt.Errorf("the MCP server %q was not asked to its end, and nothing was changed: %w", name, context.Cause(ctx))
	case err != nil:
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("the MCP server %q did not say what it offers, and nothing was changed: %w", name, err)}
	}
	return a.decideGrant(s, e, d)
}

func (a *app) revoke(s *store.Store, e mcp.Entry) error {
	if err := s.Revoke(e.Scope, e.Name, time.Now()); err != nil {
		return mcpError(err)
	}
	if a.json {
		return a.printJSON(map[string]any{"schema": "bestof.mcp-grant/1", "name": e.Name, "scope": e.Scope, "granted": false})
	}
	fmt.Fprintf(a.Out, "%s is withheld from the next run on; runs that are going keep it\n", term.Clean(e.Name, 0))
	return nil
}

// askToConnect asks before anything of an untrusted repository is started.
func (a *app) askToConnect(s *store.Store, e mcp.Entry, why string) error {
	if e.Scope != mcp.Project || s.Trusted() {
		return nil
	}
	verb := "start"
	if e.Transport == mcp.HTTP {
		verb = "contact"
	}
	a.tell("You did not trust this repository (BESTOF_TRUST_PROJECT). To %s, bestof has to %s what the repository names:\n  %s\n",
		why, verb, term.Clean(e.Endpoint(), 0))
	if names := e.Credentials(); len(names) > 0 {
		a.tell("  with: %s\n", term.Clean(strings.Join(names, ", "), 0))
	}
	yes, err := a.ask(strings.ToUpper(verb[:1])+verb[1:]+" it?", "--yes")
	if err != nil {
		return err
	}
	if !yes {
		return refusedf("the server was not asked, and nothing was changed")
	}
	return nil
}

// decideGrant shows what the server declared, asks, and records the answer.
func (a *app) decideGrant(s *store.Store, e mcp.Entry, d mcp.Declared) error {
	print := mcp.Fingerprint(e.Server, d.Tools)
	changes := changesSince(e, print)
	if !a.json || !a.yes {
		a.tell("%s", handshakeText(e, d, changes))
	}
	doc := grantJSON(e, d, print, changes)
	already := changes != nil && !changes.Any() && e.Withheld() == "" && e.Granted != nil
	if !already {
		if err := a.askToGrant(); err != nil {
			if doc.Granted = false; !a.json {
				return err
			}
			doc.Reason = err.Error()
			return errors.Join(a.printJSON(doc), statusError{code: exitStatus(err)})
		}
		now, yes := time.Now(), true
		if err := s.Grant(e.Scope, e.Name, print, now); err != nil {
			return mcpError(err)
		}
		e.Granted, e.Record = &yes, &mcp.Record{Print: print, Agreed: now}
		doc.Server = jsonMCP(e)
	}
	if a.json {
		return a.printJSON(doc)
	}
	if already {
		fmt.Fprintf(a.Out, "%s is granted already, and nothing changed since you reviewed it\n", term.Clean(e.Name, 0))
		return nil
	}
	fmt.Fprintf(a.Out, "granted %s: %s may be called from the next run on\n", term.Clean(e.Name, 0), count(len(d.Tools), "tool"))
	if e.Scope == mcp.Project && !s.Trusted() {
		a.warn("it is not connected before you trust this repository: BESTOF_TRUST_PROJECT=1")
	}
	return nil
}

func (a *app) askToGrant() error {
	yes, err := a.ask("Let its tools be called?", "--yes")
	if err == nil && !yes {
		err = refusedf("not granted: nothing was changed")
	}
	return err
}

// changesSince is the difference to what was reviewed, nil if nothing was.
func changesSince(e mcp.Entry, now mcp.Print) *mcp.Changes {
	if e.Record == nil || e.Record.Revoked || e.Record.Agreed.IsZero() {
		return nil
	}
	c := mcp.Review(e.Record.Print, now)
	return &c
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// handshakeText is what a person decides on. All that others wrote is cleaned,
// and has none of the entry's secrets.
func handshakeText(e mcp.Entry, d mcp.Declared, changes *mcp.Changes) string {
	d, changes = withoutSecrets(e.Server, d, changes)
	var b strings.Builder
	fmt.Fprintf(&b, "MCP server %q of %s\n", term.Clean(e.Name, 0), store.Shown(e.Scope))
	fmt.Fprintf(&b, "  %s: %s\n", e.Transport, term.Clean(e.Endpoint(), 0))
	if names := e.Credentials(); len(names) > 0 {
		fmt.Fprintf(&b, "  is given: %s\n", term.Clean(strings.Join(names, ", "), 0))
	}
	fmt.Fprintf(&b, "  calls itself: %s %s (protocol %s)\n", term.Clean(d.Name, 100), term.Clean(d.Version, 40), term.Clean(d.Protocol, 20))
	if len(d.Tools) == 0 {
		b.WriteString("  declares no tools\n")
	} else {
		fmt.Fprintf(&b, "  declares %s, every one of which may be called once granted:\n", count(len(d.Tools), "tool"))
	}
	for _, t := range d.Tools {
		b.WriteString(toolLine(t))
	}
	if d.Dropped.Any() {
		n := d.Dropped.OverCount + d.Dropped.Duplicate + d.Dropped.Invalid + len(d.Dropped.OverBudget)
		fmt.Fprintf(&b, "  at least %d more that it listed cannot be called: too many, too long, twice the same name, or no tool\n", n)
	}
	if changes != nil {
		b.WriteString(changesText(*changes, e.Record.Agreed))
	}
	return b.String()
}

// withoutSecrets is what a server declared, and how it changed, without what
// its entry hides, which it may repeat. It is for showing: fingerprints are of
// what was declared.
func withoutSecrets(server mcp.Server, d mcp.Declared, changes *mcp.Changes) (mcp.Declared, *mcp.Changes) {
	known := redact.New(server.Secrets())
	hide := known.String
	hideAll := func(names []string) (out []string) {
		for _, n := range names {
			out = append(out, hide(n))
		}
		return out
	}
	d.Name, d.Version, d.Protocol = hide(d.Name), hide(d.Version), hide(d.Protocol)
	d.Tools = slices.Clone(d.Tools)
	for i, t := range d.Tools {
		t.Name, t.Title, t.Description = hide(t.Name), hide(t.Title), hide(t.Description)
		t.InputSchema, t.OutputSchema = hideInJSON(known, t.InputSchema), hideInJSON(known, t.OutputSchema)
		if t.Annotations != nil {
			claims := *t.Annotations
			claims.Title = hide(claims.Title)
			t.Annotations = &claims
		}
		d.Tools[i] = t
	}
	if changes == nil {
		return d, nil
	}
	hidePart := func(text string) string {
		if raw := json.RawMessage(text); json.Valid(raw) { // a schema, or claims
			text = string(hideInJSON(known, raw))
		}
		return hide(text)
	}
	c := *changes
	c.Before, c.After, c.Added, c.Removed = hide(c.Before), hide(c.After), hideAll(c.Added), hideAll(c.Removed)
	c.Changed = slices.Clone(c.Changed)
	for i, t := range c.Changed {
		t.Name, t.Parts = hide(t.Name), slices.Clone(t.Parts)
		for j, p := range t.Parts {
			t.Parts[j].Before, t.Parts[j].After = hidePart(p.Before), hidePart(p.After)
		}
		c.Changed[i] = t
	}
	return d, &c
}

// jsonWord is a string or a number in a JSON text.
var jsonWord = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*`)

// hideInJSON replaces secrets in the strings and numbers of a JSON text, which
// stays one.
func hideInJSON(known *redact.Redactor, raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	return jsonWord.ReplaceAllFunc(raw, func(word []byte) []byte {
		text := string(word)
		if word[0] == '"' && json.Unmarshal(word, &text) != nil {
			return word
		}
		shown := known.String(text)
		if shown == text {
			return word
		}
		b, err := json.Marshal(shown)
		if err != nil {
			return []byte(`""`)
		}
		return b
	})
}

// toolLine is a tool by its name, the first line of what it says, and what it
// claims.
func toolLine(t mcp.Tool) string {
	line := "    " + toolWord(t.Name)
	text := strings.TrimSpace(t.Description)
	first, rest, _ := strings.Cut(text, "\n")
	if shown := term.Clean(strings.TrimSpace(first), 100); shown.String() != "" {
		line += " — " + shown.String()
		if strings.TrimSpace(rest) != "" || strings.HasSuffix(shown.String(), "…") {
			line += fmt.Sprintf(" (of %d characters; --json shows all)", len([]rune(text)))
		}
	}
	if claims := claimsOf(t.Annotations); len(claims) > 0 {
		line += "\n        claims: " + strings.Join(claims, ", ")
	}
	return line + "\n"
}

// plainTool is a name that cannot be taken for anything else on its line.
var plainTool = regexp.MustCompile(`^[A-Za-z0-9_./:-]{1,128}$`)

// toolWord is a tool's name, in quotes where it could be taken for more.
func toolWord(name string) string {
	if plainTool.MatchString(name) {
		return name
	}
	return term.Clean(strconv.Quote(name), 140).String()
}

// claimsOf are a server's own words about a tool.
func claimsOf(a *mcp.Annotations) (claims []string) {
	if a == nil {
		return nil
	}
	for _, c := range []struct {
		hint    *bool
		yes, no string
	}{
		{a.ReadOnly, "only reads", "changes things"}, {a.Destructive, "destroys", "destroys nothing"},
		{a.Idempotent, "can be repeated", "not to be repeated"}, {a.OpenWorld, "reaches the outside", "stays inside"},
	} {
		switch {
		case c.hint == nil:
		case *c.hint:
			claims = append(claims, c.yes)
		default:
			claims = append(claims, c.no)
		}
	}
	return claims
}

// changesText shows what differs from what was reviewed.
func changesText(c mcp.Changes, reviewed time.Time) string {
	day := reviewed.Local().Format("2006-01-02 15:04")
	if !c.Any() {
		return "  nothing changed since you reviewed it on " + day + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  CHANGED since you reviewed it on %s:\n", day)
	pair := func(before, after string) {
		before, after = difference(before, after)
		fmt.Fprintf(&b, "        before: %s\n        now:    %s\n", term.Clean(before, 2000), term.Clean(after, 2000))
	}
	if len(c.Endpoint) > 0 {
		fmt.Fprintf(&b, "    where it is: %s\n", strings.Join(c.Endpoint, ", "))
		fmt.Fprintf(&b, "        before: %s\n        now:    %s\n", term.Clean(c.Before, 2000), term.Clean(c.After, 2000))
	}
	for _, name := range c.Added {
		fmt.Fprintf(&b, "    + %s is new\n", toolWord(name))
	}
	for _, name := range c.Removed {
		fmt.Fprintf(&b, "    - %s is gone\n", toolWord(name))
	}
	for _, t := range c.Changed {
		for _, p := range t.Parts {
			fmt.Fprintf(&b, "    ~ %s: its %s\n", toolWord(t.Name), p.Part)
			pair(p.Before, p.After)
		}
	}
	return b.String()
}

// difference leaves out what two texts begin and end with, but for a few
// characters around what differs.
func difference(before, after string) (string, string) {
	const around = 30
	x, y := []rune(before), []rune(after)
	head := 0
	for head < min(len(x), len(y)) && x[head] == y[head] {
		head++
	}
	tail := 0
	for tail < min(len(x), len(y))-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	cut := func(r []rune) string {
		from, to := max(0, head-around), min(len(r), len(r)-tail+around)
		text := string(r[from:to])
		if from > 0 {
			text = "…" + text
		}
		if to < len(r) {
			text += "…"
		}
		return text
	}
	return cut(x), cut(y)
}

// A grantDocument is a review in JSON, with everything that the server said but
// for the secrets of its entry.
type grantDocument struct {
	Schema      string         `json:"schema"`
	Granted     bool           `json:"granted"`
	Reason      string         `json:"reason,omitempty"` // why not
	Server      mcpDocument    `json:"server"`
	Announced   announced      `json:"announced"`
	Tools       []mcp.Tool     `json:"tools"`
	Fingerprint string         `json:"fingerprint"`
	Changes     *changesObject `json:"changes"` // null when nothing was reviewed before
}

type announced struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Protocol string `json:"protocol"`
}

type changesObject struct {
	Endpoint []string                          `json:"endpoint"`
	Where    *beforeAfter                      `json:"where"` // both endpoints, as people may see them; null if none changed
	Added    []string                          `json:"added"`
	Removed  []string                          `json:"removed"`
	Changed  map[string][]string               `json:"changed"` // parts by tool
	Texts    map[string]map[string]beforeAfter `json:"texts"`   // by tool and part
}

type beforeAfter struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// grantJSON is the document of a review that ends with a yes, without the
// entry's secrets.
func grantJSON(e mcp.Entry, d mcp.Declared, print mcp.Print, c *mcp.Changes) grantDocument {
	d, c = withoutSecrets(e.Server, d, c)
	doc := grantDocument{
		Schema: "bestof.mcp-grant/1", Granted: true, Server: jsonMCP(e), Announced: announced{d.Name, d.Version, d.Protocol},
		Tools: append([]mcp.Tool{}, d.Tools...), Fingerprint: print.Digest(),
	}
	if c != nil {
		doc.Changes = changesJSON(*c)
	}
	return doc
}

func changesJSON(c mcp.Changes) *changesObject {
	o := &changesObject{
		Endpoint: append([]string{}, c.Endpoint...), Added: append([]string{}, c.Added...), Removed: append([]string{}, c.Removed...),
		Changed: map[string][]string{}, Texts: map[string]map[string]beforeAfter{},
	}
	if len(c.Endpoint) > 0 {
		o.Where = &beforeAfter{c.Before, c.After}
	}
	for _, t := range c.Changed {
		o.Texts[t.Name] = map[string]beforeAfter{}
		for _, p := range t.Parts {
			o.Changed[t.Name] = append(o.Changed[t.Name], p.Part)
			o.Texts[t.Name][p.Part] = beforeAfter{p.Before, p.After}
		}
	}
	return o
}
