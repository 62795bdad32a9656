// Package examples holds plugins to read and to begin from: one that runs a
// test, in three languages from one manifest, and one that runs none.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed verify.toml verify-py verify-node verify-go/main.go
var files embed.FS

// Languages lists those that New knows.
func Languages() []string { return []string{"python", "node", "go"} }

// Argv is how the verify plugin is started in a language, as TOML writes it.
func Argv(language string) string {
	switch language {
	case "python":
		return `["python3", "${plugin_dir}/main.py"]`
	case "node":
		return `["node", "${plugin_dir}/main.mjs"]`
	case "go":
		return `["${plugin_dir}/verify"]`
	}
	return ""
}

// Manifest is the verify plugin's in a language.
func Manifest(language string) (string, error) {
	b, err := files.ReadFile("verify.toml")
	if err != nil {
		return "", err
	}
	return strings.Replace(string(b), "@ARGV@", Argv(language), 1), nil
}

// New is a plugin to begin with: the verify plugin under a name of its own. It
// maps paths to contents.
func New(name, language string) (map[string]string, error) {
	if !slices.Contains(Languages(), language) {
		return nil, fmt.Errorf("there is no %q to begin with: choose one of %s", language, strings.Join(Languages(), ", "))
	}
	manifest, err := Manifest(language)
	if err != nil {
		return nil, err
	}
	quoted := fmt.Sprintf("name = %q", name)
	manifest = strings.Replace(manifest, `name = "verify"`, quoted, 1)
	out := map[string]string{"plugin.toml": strings.Replace(manifest, "${plugin_dir}/verify", "${plugin_dir}/plugin", 1)}
	dir := map[string]string{"python": "verify-py", "node": "verify-node", "go": "verify-go"}[language]
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == "plugin.toml" || e.Name() == "main.ts" && language == "node" {
			continue
		}
		b, err := files.ReadFile(dir + "/" + e.Name())
		if err != nil {
			return nil, err
		}
		text := string(b)
		for _, line := range []string{`NAME = "verify"`, `name   = "verify"`} {
			text = strings.Replace(text, line, strings.Replace(line, `"verify"`, fmt.Sprintf("%q", name), 1), 1)
		}
		out[e.Name()] = text
	}
	if language == "go" {
		out["main.go"] = strings.Replace(out["main.go"], "// Verify runs", "// The program runs", 1)
		out["go.mod"] = "module example.org/plugin\n\ngo 1.24\n"
	}
	return out, nil
}
