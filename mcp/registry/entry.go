// Package registry finds servers in an MCP registry (API v0.1) and works out
// what installing one would write. Everything that a registry says was written
// by a stranger: it is bounded when read, checked when planned, and is never a
// reason to run anything.
package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/lazyregexp"
)

// An Entry is one version of one server, as a registry lists it.
type Entry struct {
	Server    Server
	Status    Status // Active where the registry says nothing
	Message   string // why it is deprecated or deleted
	Published time.Time
	Latest    bool
}

// A Status is what the registry says about a version.
type Status string

// The states of a version. Any other word is kept as it is and taken for
// Deprecated.
const (
	Active     Status = "active"
	Deprecated Status = "deprecated"
	Deleted    Status = "deleted"
)

// A Server is a server.json (schema 2025-12-11), as far as it is used.
type Server struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Repository  struct {
		URL string `json:"url"`
	} `json:"repository"`
	WebsiteURL string    `json:"websiteUrl"`
	Packages   []Package `json:"packages"`
	Remotes    []Remote  `json:"remotes"`
}

// A Package is something that a runner downloads and starts.
type Package struct {
	Type        string     `json:"registryType"` // npm | pypi | oci | nuget | mcpb | cargo
	BaseURL     string     `json:"registryBaseUrl"`
	Identifier  string     `json:"identifier"`
	Version     string     `json:"version"`
	RuntimeHint string     `json:"runtimeHint"`
	Transport   Remote     `json:"transport"`
	Runtime     []Argument `json:"runtimeArguments"` // for the runner, before the identifier
	Arguments   []Argument `json:"packageArguments"` // for the server, after it
	Environment []Named    `json:"environmentVariables"`
}

// A Remote is a server that runs already.
type Remote struct {
	Type      string           `json:"type"` // streamable-http | sse; of a package also stdio
	URL       string           `json:"url"`
	Headers   []Named          `json:"headers"`
	Variables map[string]Value `json:"variables"`
}

// An Argument is one word of a command line, or a flag with its value.
type Argument struct {
	Type       string `json:"type"` // positional | named
	Name       string `json:"name"` // of a named one, with its dashes
	ValueHint  string `json:"valueHint"`
	IsRepeated bool   `json:"isRepeated"`
	Value
}

// A Named is an environment variable or a header.
type Named struct {
	Name string `json:"name"`
	Value
}

// A Value is a text that is given by the publisher or asked of the user.
// Braces in Text name Variables.
type Value struct {
	Description string           `json:"description"`
	IsRequired  bool             `json:"isRequired"`
	IsSecret    bool             `json:"isSecret"`
	Format      string           `json:"format"` // string | number | boolean | filepath
	Text        scalar           `json:"value"`
	Default     scalar           `json:"default"`
	Placeholder string           `json:"placeholder"`
	Choices     []scalar         `json:"choices"`
	Variables   map[string]Value `json:"variables"`
}

// scalar is a string that publishers sometimes write as a number or a bool.
type scalar string

func (s *scalar) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err == nil {
		*s = scalar(text)
		return nil
	}
	switch b = bytes.TrimSpace(b); {
	case bytes.Equal(b, []byte("null")):
		*s = ""
	case len(b) > 0 && b[0] != '{' && b[0] != '[':
		*s = scalar(b)
	default:
		return errors.New("a value is neither a text nor a number")
	}
	return nil
}

// The limits on one entry. What is over them cannot be installed.
const (
	maxBody   = 8 << 20 // bytes of one answer
	maxList   = 64      // packages, remotes, arguments, variables: each
	maxText   = 4096    // bytes of one value
	maxPerRow = 100     // entries of one page, as the API promises
)

// maxName is more than any registry takes.
const maxName = 400

var nameForm = lazyregexp.New(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

// CheckName says why a text cannot be the name of a server in a registry.
func CheckName(name string) error {
	if len(name) > maxName || !nameForm().MatchString(name) {
		return fmt.Errorf("%q is not a name of a registry: write for example io.github.someone/server (see `bestof mcp search`)", name)
	}
	return nil
}

const official = "io.modelcontextprotocol.registry/official"

// decodeEntry reads one element of a list, or the one answer of a lookup.
func decodeEntry(b []byte) (Entry, error) {
	var wire struct {
		Server Server                     `json:"server"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(b, &wire); err != nil {
		return Entry{}, fmt.Errorf("an entry cannot be read: %w", err)
	}
	if err := CheckName(wire.Server.Name); err != nil {
		return Entry{}, fmt.Errorf("an entry has no usable name: %w", err)
	}
	e := Entry{Server: wire.Server, Status: Active}
	var meta struct {
		Status        Status `json:"status"`
		StatusMessage string `json:"statusMessage"`
		PublishedAt   string `json:"publishedAt"`
		IsLatest      bool   `json:"isLatest"`
	}
	if raw, ok := wire.Meta[official]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return Entry{}, fmt.Errorf("the state of %s cannot be read: %w", e.Server.Name, err)
		}
		if meta.Status != "" {
			e.Status = Status(strings.ToLower(string(meta.Status)))
		}
		e.Message, e.Latest = meta.StatusMessage, meta.IsLatest
		e.Published, _ = time.Parse(time.RFC3339, meta.PublishedAt)
	}
	return e, nil
}

// A page is one answer to a search.
type page struct {
	entries []Entry
	unread  int // entries that are none
	next    string
}

func decodePage(b []byte) (page, error) {
	var wire struct {
		Servers  []json.RawMessage `json:"servers"`
		Metadata struct {
			NextCursor *string `json:"nextCursor"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(b, &wire); err != nil {
		return page{}, fmt.Errorf("the answer cannot be read: %w", err)
	}
	var p page
	for _, raw := range wire.Servers {
		e, err := decodeEntry(raw)
		if err != nil {
			p.unread++
			continue
		}
		p.entries = append(p.entries, e)
	}
	if wire.Metadata.NextCursor != nil {
		p.next = *wire.Metadata.NextCursor
	}
	return p, nil
}
