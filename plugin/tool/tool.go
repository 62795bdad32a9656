// Package tool is one-file tools: a Python file with a DESCRIPTION, a SCHEMA
// and a function run is one tool, and the folder that it lies in says how far
// it is trusted. Trainers are files of the same kind with the functions train
// and evaluate, in folders of their own.
//
// Rules, selection, the door's codec and the provenance of writes are pure.
// Zones is the store, Read the reader, which parses files in an isolated Python
// and executes none of them.
package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Kind is what a file is for.
type Kind string

// Kinds.
const (
	Callable Kind = "tool"    // DESCRIPTION, SCHEMA, run(args)
	Trainer  Kind = "trainer" // train(rows_path, out_dir), evaluate(checkpoint, rows_path)
)

// A Zone is a folder as a level of trust.
type Zone string

// Zones of each kind. A file's presence in Live is the operator's approval.
const (
	Live     Zone = "live"
	Pending  Zone = "pending"  // written by a model, invisible until it is approved
	Disabled Zone = "disabled" // switched off; nothing in it is ever deleted
)

// A Name is the stem of a tool's file: weather.py is the tool weather.
type Name string

// NameRule is what a Name matches.
const NameRule = `^[a-z][a-z0-9_]{0,63}$`

var nameRule = regexp.MustCompile(NameRule)

// ParseName refuses what is no name of a tool.
func ParseName(s string) (Name, error) {
	if !nameRule.MatchString(s) || strings.HasSuffix(s, "\n") {
		return "", fmt.Errorf("%q is no name of a tool: a lowercase letter, then at most 63 lowercase letters, digits and underscores", s)
	}
	return Name(s), nil
}

// File is the name of the tool's file in its zone.
func (n Name) File() string { return string(n) + suffix }

const suffix = ".py"

// A Hash is the SHA-256 of a file's bytes in lowercase hexadecimal digits. It
// is what is shown, approved and pinned.
type Hash string

// HashOf is the hash of bytes.
func HashOf(b []byte) Hash {
	sum := sha256.Sum256(b)
	return Hash(hex.EncodeToString(sum[:]))
}

var hashRule = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ParseHash reads a hash with or without "sha256:" before it.
func ParseHash(s string) (Hash, error) {
	h := strings.TrimPrefix(s, "sha256:")
	if !hashRule.MatchString(h) || strings.HasSuffix(h, "\n") {
		return "", fmt.Errorf("%q is no hash: write sha256: and 64 lowercase hexadecimal digits", s)
	}
	return Hash(h), nil
}

// Short is enough of the hash for people to tell two apart.
func (h Hash) Short() string { return string(h[:min(12, len(h))]) }

// A File is what a zone holds under a name, with the very bytes that the hash
// is of.
type File struct {
	Name   Name
	Path   string // absolute
	Bytes  []byte
	SHA256 Hash
}

// A Contract is what a file declares, read without executing it.
type Contract struct {
	Description string          // verbatim; a trainer may have none
	Schema      json.RawMessage // a JSON object; nil for a trainer
}

// A Tool is a file whose contract holds.
type Tool struct {
	File
	Contract
}

// A Skip is a file that is not callable, and why: loud, and no other file's
// concern.
type Skip struct {
	File   string `json:"file"`            // its name in the zone
	Field  string `json:"field,omitempty"` // DESCRIPTION, SCHEMA, run, …; "" when it is about the file
	Line   int    `json:"line,omitempty"`  // from 1; 0 when there is none
	Reason string `json:"reason"`
}

func (s Skip) String() string {
	where := s.File
	if s.Line > 0 {
		where = fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	if s.Field != "" {
		where += ": " + s.Field
	}
	return where + ": " + s.Reason
}

// words are the skip for where its file is named already.
func (s Skip) words() string {
	words := s.Reason
	if s.Field != "" {
		words = s.Field + ": " + words
	}
	if s.Line > 0 {
		words = fmt.Sprintf("line %d: %s", s.Line, words)
	}
	return words
}

// OverCap is the reason of a tool beyond the configured number.
const OverCap = "disabled: over the config.toml tools.max cap"

// A Set is what a zone holds: tools in the order of their files' names, and
// what is skipped, in the same order. It is never changed once made.
type Set struct {
	Tools   []Tool
	Skipped []Skip
}

// Find returns the tool of a name.
func (s Set) Find(name Name) (Tool, bool) {
	i := slices.IndexFunc(s.Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return s.Tools[i], true
}

// Names lists the tools, sorted.
func (s Set) Names() []Name {
	names := make([]Name, len(s.Tools))
	for i, t := range s.Tools {
		names[i] = t.Name
	}
	slices.Sort(names)
	return names
}

// Skip returns the set without a tool that turned out not to be callable, for
// example since it cannot be imported.
func (s Set) Skip(name Name, reason string) Set {
	out := Set{Skipped: slices.Clone(s.Skipped)}
	for _, t := range s.Tools {
		if t.Name == name {
			out.Skipped = append(out.Skipped, Skip{File: name.File(), Reason: reason})
		} else {
			out.Tools = append(out.Tools, t)
		}
	}
	slices.SortStableFunc(out.Skipped, func(a, b Skip) int { return strings.Compare(a.File, b.File) })
	return out
}

// Natives are the names that no tool may take: the door's own, the one that it
// has where the format comes from, and every name that the caller's other tools
// have on the wire.
func Natives(others ...string) []string {
	return append([]string{DoorName, "plugin"}, others...)
}

// DoorName is the one wire tool behind which all tools are.
const DoorName = "tool"

// A CollisionError refuses a whole load: a tool has the name of a native one,
// and letting either win in silence would be shadowing.
type CollisionError struct{ File, Name string }

func (e *CollisionError) Error() string {
	return fmt.Sprintf("%s: %q is the name of a built-in tool: nothing was loaded and nothing executed; give the file another name", e.File, e.Name)
}

// Collision finds the first of names that is a native tool's.
func Collision(names []Name, natives []string) error {
	for _, n := range names {
		if slices.Contains(natives, string(n)) {
			return &CollisionError{File: n.File(), Name: string(n)}
		}
	}
	return nil
}

// Select puts the contracts that were read together with their files: the
// first max tools by name are live, the rest is skipped without being imported.
// A max of 0 is no cap.
func Select(files []File, readings []Reading, skipped []Skip, max int) Set {
	set := Set{Skipped: slices.Clone(skipped)}
	for i, f := range files {
		switch r := readings[i]; {
		case r.Skip != nil:
			set.Skipped = append(set.Skipped, *r.Skip)
		case max > 0 && len(set.Tools) == max:
			set.Skipped = append(set.Skipped, Skip{File: f.Name.File(), Reason: OverCap})
		default:
			set.Tools = append(set.Tools, Tool{File: f, Contract: r.Contract})
		}
	}
	slices.SortStableFunc(set.Skipped, func(a, b Skip) int { return strings.Compare(a.File, b.File) })
	return set
}

// A Reading is what the reader found in one file: a contract, or why there is
// none.
type Reading struct {
	Contract Contract
	Skip     *Skip
}
