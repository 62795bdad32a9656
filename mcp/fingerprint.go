package mcp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/redact"
)

// A Print is what a grant is given to: where a server is and what it declared.
// Values of headers, and of variables that are named as credentials are, are
// no part of it, so that a new token needs no new review.
type Print struct {
	Endpoint map[string]string    `json:"endpoint"` // digest of each key of the entry that says where the server is
	Shown    string               `json:"shown"`    // the endpoint as people may see it
	Tools    map[string]ToolPrint `json:"tools"`    // by name
}

// A ToolPrint is one tool as it was declared; the JSON in it is canonical.
type ToolPrint struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Input       string `json:"input_schema"`
	Output      string `json:"output_schema,omitempty"`
	Annotations string `json:"annotations,omitempty"`
}

// A Record is the operator's answer, kept where no repository can write.
type Record struct {
	Print
	Agreed  time.Time `json:"agreed,omitzero"`
	Revoked bool      `json:"revoked,omitempty"` // the answer is no, whatever the repository's file says
}

// Fingerprint is the print of a server that declared tools. Of two tools of
// one name the first counts, as it does when they are called.
func Fingerprint(s Server, tools []Tool) Print {
	p := Print{Endpoint: endpointPrint(s), Shown: s.Endpoint(), Tools: map[string]ToolPrint{}}
	for _, t := range tools {
		if _, twice := p.Tools[t.Name]; !twice {
			p.Tools[t.Name] = toolPrint(t)
		}
	}
	return p
}

// Digest is the sha256 of the whole print, in hex.
func (p Print) Digest() string { return digest([]any{p.Endpoint, p.Tools}) }

func endpointPrint(s Server) map[string]string {
	parts := map[string]string{"transport": digest(s.Transport)}
	if s.Transport == HTTP {
		names := map[string]bool{}
		for name := range s.Headers {
			names[strings.ToLower(name)] = true
		}
		parts["url"] = digest(s.URL)
		parts["headers"] = digest(slices.Sorted(maps.Keys(names)))
		return parts
	}
	// A variable such as PATH or NODE_OPTIONS decides which code runs, so its
	// value counts; a credential decides nothing of the kind.
	var env [][]string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if env = append(env, []string{name}); !redact.CredentialName(name) {
			env[len(env)-1] = []string{name, s.Env[name]}
		}
	}
	parts["cmd"] = digest(s.Cmd)
	parts["args"] = digest(append([]string{}, s.Args...))
	parts["env"] = digest(env)
	return parts
}

func toolPrint(t Tool) ToolPrint {
	p := ToolPrint{
		Title: bounded(t.Title), Description: bounded(t.Description),
		Input: bounded(canonical(t.InputSchema)), Output: bounded(canonical(t.OutputSchema)),
	}
	if t.Replaced {
		p.Input = "too big to be kept"
	}
	if t.Annotations != nil {
		b, _ := json.Marshal(t.Annotations) // strings and booleans only
		p.Annotations = string(b)
	}
	return p
}

// bounded keeps a record small and JSON, whatever a server says.
func bounded(s string) string {
	if len(s) <= MaxSchema && utf8.ValidString(s) {
		return s
	}
	return "sha256:" + digest(s)
}

func digest(v any) string {
	b, err := json.Marshal(v)
	if s, ok := v.(string); ok && (err != nil || !utf8.ValidString(s)) {
		b = []byte(s)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonical writes JSON with sorted keys and without blanks. What has no
// single meaning, such as a key that stands twice, is left as it is.
func canonical(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if !utf8.Valid(raw) || repeats(raw) || d.Decode(&v) != nil {
		return string(raw)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return string(raw)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil || bytes.ContainsRune(b.Bytes(), utf8.RuneError) {
		return string(raw)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// repeats reports whether an object of a JSON text has a key twice, or the
// text is no JSON.
func repeats(raw []byte) bool {
	_, err := strictJSON(raw)
	return err != nil
}

// Changes is how a server differs from what was reviewed.
type Changes struct {
	Endpoint      []string // keys of the entry, sorted
	Before, After string   // both endpoints, as people may see them, if Endpoint has any
	Added         []string // tools, sorted
	Removed       []string // tools, sorted; a tool that is gone withholds nothing
	Changed       []ToolChange
}

// A ToolChange is a tool that is no more what was reviewed.
type ToolChange struct {
	Name  string
	Parts []PartChange
}

// A PartChange is one part of a tool, before and after.
type PartChange struct{ Part, Before, After string }

// Any reports whether anything differs.
func (c Changes) Any() bool {
	return len(c.Endpoint)+len(c.Added)+len(c.Removed)+len(c.Changed) > 0
}

// Review holds what a server is now against what was reviewed.
func Review(recorded, now Print) Changes {
	var c Changes
	keys := maps.Clone(recorded.Endpoint)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, now.Endpoint)
	for key := range keys {
		if recorded.Endpoint[key] != now.Endpoint[key] {
			c.Endpoint = append(c.Endpoint, key)
			c.Before, c.After = recorded.Shown, now.Shown
		}
	}
	for name, t := range now.Tools {
		before, known := recorded.Tools[name]
		if parts := before.compare(t); !known {
			c.Added = append(c.Added, name)
		} else if len(parts) > 0 {
			c.Changed = append(c.Changed, ToolChange{name, parts})
		}
	}
	for name := range recorded.Tools {
		if _, still := now.Tools[name]; !still {
			c.Removed = append(c.Removed, name)
		}
	}
	slices.Sort(c.Endpoint)
	slices.Sort(c.Added)
	slices.Sort(c.Removed)
	slices.SortFunc(c.Changed, func(a, b ToolChange) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

func (t ToolPrint) compare(now ToolPrint) (parts []PartChange) {
	for _, p := range []PartChange{
		{"title", t.Title, now.Title}, {"description", t.Description, now.Description}, {"input schema", t.Input, now.Input},
		{"output schema", t.Output, now.Output}, {"claims", t.Annotations, now.Annotations},
	} {
		if p.Before != p.After {
			parts = append(parts, p)
		}
	}
	return parts
}

// Withheld says why no tool of an entry may be called, "" if some may be. It
// can be asked before anything is connected.
//
// An entry without granted was written by hand and is usable. A granted = true
// in a repository's file counts with the operator's own record only: a grant is
// the operator's answer, not the repository's. In the operator's file it
// counts by itself. Where there is a record, it counts whatever the file says.
func (e Entry) Withheld() string {
	switch {
	case !e.Usable():
		return "it is not granted: " + e.remedy()
	case e.Record == nil && e.Scope == Project && e.Granted != nil:
		return "the repository's file says that it is granted, and you did not review it on this machine: " + e.remedy()
	case e.Record == nil:
		return ""
	case e.Record.Revoked:
		return "you withdrew its grant: " + e.remedy()
	}
	if c := Review(e.Record.Print, Fingerprint(e.Server, nil)); len(c.Endpoint) > 0 {
		return fmt.Sprintf("its %s changed since you reviewed it: %s", strings.Join(c.Endpoint, ", "), e.remedy())
	}
	return ""
}

func (e Entry) remedy() string {
	return fmt.Sprintf("`bestof mcp grant %s` shows it", QuotedWord(e.Name))
}

// A WithheldTool is one that may not be called, and why.
type WithheldTool struct{ Name, Reason string }

// Admit tells the tools of a connected server that may be called from those
// that are withheld: all of them if the entry is, and otherwise those that are
// new or changed since the review.
func (e Entry) Admit(tools []Tool) (admitted []Tool, withheld []WithheldTool) {
	reason := e.Withheld()
	if reason == "" && e.Record == nil {
		return tools, nil
	}
	why := map[string]string{}
	if reason == "" {
		c := Review(e.Record.Print, Fingerprint(e.Server, tools))
		for _, name := range c.Added {
			why[name] = "it is new since you reviewed the server: " + e.remedy()
		}
		for _, t := range c.Changed {
			why[t.Name] = fmt.Sprintf("its %s changed since you reviewed the server: %s", t.parts(), e.remedy())
		}
	}
	for _, t := range tools {
		if r := cmp.Or(reason, why[t.Name]); r != "" {
			withheld = append(withheld, WithheldTool{t.Name, r})
			continue
		}
		admitted = append(admitted, t)
	}
	return admitted, withheld
}

func (t ToolChange) parts() string {
	names := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		names[i] = p.Part
	}
	return strings.Join(names, " and ")
}
