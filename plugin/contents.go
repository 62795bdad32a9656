package plugin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/stricttoml"
)

// Limits of what is read from a package. A manifest is for people to agree to,
// so it must not be longer than people read.
const (
	MaxManifest = 64 << 10
	MaxContent  = 256 << 10 // each tool, skill and rule file
)

// A Package is a manifest with the content that it declares.
type Package struct {
	*Manifest
	PackageTools   []Tool
	PackageSkills  []Skill
	PackageRecords []Record
}

// ReadManifest reads the manifest of a package.
func ReadManifest(dir fs.FS) (*Manifest, error) {
	data, err := readFile(dir, ManifestName, MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it has no %s: not a plugin", ManifestName)
	}
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// Read reads a package. It refuses content that the manifest does not declare,
// declared content that is not there, and content that could not be used.
func Read(dir fs.FS) (*Package, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	p := &Package{Manifest: m}
	if err := p.readTools(dir); err != nil {
		return nil, err
	}
	if err := p.readSkills(dir); err != nil {
		return nil, err
	}
	return p, p.readRecords(dir)
}

func readFile(dir fs.FS, name string, limit int64) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return b, nil
}

// files lists the regular files dir/*.toml.
func tomlFiles(fsys fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".toml") {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names, err
}

// reconcile compares what a table declares with what a directory holds: found
// maps names to files.
func reconcile(table, dir string, declared []Declared, names, files []string) error {
	for i, name := range names {
		if j := slices.Index(names[:i], name); j >= 0 {
			return fmt.Errorf("%s and %s both hold %q", files[j], files[i], name)
		}
		if !slices.ContainsFunc(declared, func(d Declared) bool { return d.Name == name }) {
			return fmt.Errorf("%s holds %q, which no [[%s]] of %s declares", files[i], name, table, ManifestName)
		}
	}
	for _, d := range declared {
		if !slices.Contains(names, d.Name) {
			return fmt.Errorf("[[%s]] of %s declares %q, which is not in %s/", table, ManifestName, d.Name, dir)
		}
	}
	return nil
}

// A Tool is a program that a package offers to agents.
type Tool struct {
	Name        string
	Description string
	Command     []string // in a package with ${plugin_dir}; see In
	Env         map[string]string
	Timeout     time.Duration
	InputSchema map[string]any // JSON Schema; nil for none
	Risk        Risk           // what it says of itself; see Said
	Said        string         // that as it is written; "" when it says nothing
	File        string         // in the package
}

// The time that a tool may take.
const (
	DefaultToolTimeout = 30 * time.Second
	MaxToolTimeout     = 600 * time.Second
)

type toolFile struct {
	Name         *string           `toml:"name"`
	Description  *string           `toml:"description"`
	Command      []string          `toml:"command"`
	TimeoutMS    *uint64           `toml:"timeout_ms"`
	Env          map[string]string `toml:"env"`
	InputSchema  map[string]any    `toml:"input_schema"`
	OutputSchema map[string]any    `toml:"output_schema"`
	Risk         string            `toml:"risk"`
	// Claims about itself, which make nobody less careful.
	ReadOnly   bool `toml:"read_only"`
	Idempotent bool `toml:"idempotent"`
	Foundry    any  `toml:"foundry"`
}

// toolName is what models can call. The format's own rule has no hyphen, and
// its documentation's example has one.
var toolName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// ParseTool reads one file of tools/. The placeholder in it stays.
func ParseTool(name string, data []byte) (Tool, error) {
	var f toolFile
	if err := stricttoml.Decode(name, data, &f); err != nil {
		return Tool{}, err
	}
	switch {
	case f.Name == nil || !toolName.MatchString(*f.Name):
		return Tool{}, fmt.Errorf("%s: name must be 1 to 64 of a-z, 0-9, _ and -, and begin with a letter", name)
	case f.Description == nil || blank(*f.Description):
		return Tool{}, fmt.Errorf("%s: description is missing", name)
	case len(f.Command) == 0 || slices.ContainsFunc(f.Command, func(a string) bool { return blank(a) || strings.Contains(a, "\x00") }):
		return Tool{}, fmt.Errorf("%s: command is missing, or has a blank element", name)
	}
	for k, v := range f.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return Tool{}, fmt.Errorf("%s: [env] %q is no environment variable", name, k)
		}
	}
	t := Tool{Name: *f.Name, Description: *f.Description, Command: f.Command, Env: f.Env, Timeout: DefaultToolTimeout, InputSchema: f.InputSchema, Said: f.Risk, Risk: riskOf(f.Risk), File: name}
	if f.TimeoutMS != nil {
		if *f.TimeoutMS == 0 {
			return Tool{}, fmt.Errorf("%s: timeout_ms must be 1 or more", name)
		}
		t.Timeout = MaxToolTimeout
		if *f.TimeoutMS < uint64(MaxToolTimeout/time.Millisecond) {
			t.Timeout = time.Duration(*f.TimeoutMS) * time.Millisecond
		}
	}
	return t, nil
}

func (p *Package) readTools(dir fs.FS) error {
	files, err := tomlFiles(dir, "tools")
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		data, err := readFile(dir, file, MaxContent)
		if err != nil {
			return err
		}
		t, err := ParseTool(file, data)
		if err != nil {
			return err
		}
		p.PackageTools = append(p.PackageTools, t)
		names = append(names, t.Name)
	}
	return reconcile("tools", "tools", p.Tools, names, files)
}

// A Record is one piece of advice from rules/. It can hold nothing up.
type Record struct {
	Lineage   string
	Statement string
	Kind      string
	Active    bool
	File      string
}

func (p *Package) readRecords(dir fs.FS) error {
	files, err := tomlFiles(dir, "rules")
	if err != nil {
		return err
	}
	var names, in []string
	for _, file := range files {
		data, err := readFile(dir, file, MaxContent)
		if err != nil {
			return err
		}
		records, err := parseRecords(file, data)
		if err != nil {
			return err
		}
		for _, r := range records {
			p.PackageRecords = append(p.PackageRecords, r)
			names, in = append(names, r.Lineage), append(in, file)
		}
	}
	return reconcile("records", "rules", p.Records, names, in)
}

// parseRecords reads what matters here of a file of context records. The rest
// of that format is not this program's, so it is let be.
func parseRecords(file string, data []byte) ([]Record, error) {
	var raw map[string]any
	if err := stricttoml.Decode(file, data, &raw); err != nil {
		return nil, err
	}
	list := tables(raw["record"])
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: it holds no [[record]]", file)
	}
	defaults, _ := raw["defaults"].(map[string]any)
	var records []Record
	for i, r := range list {
		text := func(key string) string {
			s, ok := r[key].(string)
			if !ok {
				s, _ = defaults[key].(string)
			}
			return s
		}
		rec := Record{Lineage: text("lineage_id"), Statement: text("statement"), Kind: text("kind"), File: file}
		if blank(rec.Lineage) || blank(rec.Statement) {
			return nil, fmt.Errorf("%s: record %d lacks a lineage_id or a statement", file, i+1)
		}
		status := text("status")
		rec.Active = status == "" || status == "active"
		records = append(records, rec)
	}
	return records, nil
}

// tables is a list of tables, in either of the ways to write one.
func tables(v any) []map[string]any {
	switch v := v.(type) {
	case []map[string]any:
		return v
	case []any:
		var out []map[string]any
		for _, e := range v {
			t, _ := e.(map[string]any) // what is no table lacks its keys
			out = append(out, t)
		}
		return out
	}
	return nil
}

// placeholder stands for the package's own directory.
const placeholder = "${plugin_dir}"

// Expand puts the package's directory in the place of ${plugin_dir}.
func Expand(s, dir string) string { return strings.ReplaceAll(s, placeholder, dir) }

func expandAll(list []string, dir string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Expand(s, dir)
	}
	return out
}

// Command is the argv to start for a package in dir.
func (r *Runtime) Command(dir string) []string { return expandAll(r.Argv, dir) }

// In is the tool of a package in dir: ${plugin_dir} is expanded in every
// element of the command and every value of the environment. It is for tools
// of packages only: a tool that a user wrote has no package, and is used as it
// is written.
func (t Tool) In(dir string) Tool {
	t.Command = expandAll(t.Command, dir)
	env := make(map[string]string, len(t.Env))
	for k, v := range t.Env {
		env[k] = Expand(v, dir)
	}
	t.Env = env
	return t
}
