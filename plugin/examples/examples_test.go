package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/process"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/conform"
	"github.com/bestof-dev/bestof/plugin/examples"
	"github.com/bestof-dev/bestof/plugin/run"
	"github.com/bestof-dev/bestof/plugin/wire"
)

var dirs = map[string]string{"python": "verify-py", "node": "verify-node", "go": "verify-go"}

// TestManifestsDifferInArgvOnly: one template, three languages.
func TestManifestsDifferInArgvOnly(t *testing.T) {
	for _, language := range examples.Languages() {
		want, err := examples.Manifest(language)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dirs[language], "plugin.toml")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
		first, err := examples.Manifest("python")
		if err != nil {
			t.Fatal(err)
		}
		a, b := strings.Split(first, "\n"), strings.Split(string(got), "\n")
		if len(a) != len(b) {
			t.Fatalf("%d lines and %d", len(a), len(b))
		}
		for i := range a {
			if a[i] != b[i] && !strings.HasPrefix(a[i], "argv = ") {
				t.Errorf("line %d differs: %q, %q", i+1, a[i], b[i])
			}
		}
	}
}

// TestTypeScript: what Node runs is the TypeScript source without its types,
// and nothing else.
func TestTypeScript(t *testing.T) {
	source, err := os.ReadFile("verify-node/main.ts")
	if err != nil {
		t.Fatal(err)
	}
	want := erase(string(source))
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("verify-node/main.mjs", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("verify-node/main.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if out, err := exec.Command("node", "--check", "verify-node/main.mjs").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

const typeName = `(?:value is Table|Promise<\w+>|Table|Run|Evidence|Uint8Array|unknown|string|boolean|number|void)(?:\[\])*(?: \| null)?`

var (
	typeLine   = regexp.MustCompile(`(?m)^type .*;\n`)
	annotation = regexp.MustCompile(`([\w)]): ` + typeName + `([,)]| [={])`)
	cast       = regexp.MustCompile(` as ` + typeName)
)

// erase takes away the few forms of types that the source uses.
func erase(source string) string {
	s := typeLine.ReplaceAllString(source, "")
	for old := ""; s != old; {
		old, s = s, annotation.ReplaceAllString(s, "$1$2")
	}
	s = cast.ReplaceAllString(s, "")
	s = strings.Replace(s, "main.mjs is this file without its types.", "This is main.ts without its types.", 1)
	return strings.Replace(s, "\n\n\n", "\n\n", 1)
}

// place copies an example to where it can run: Go needs to be built.
func place(t *testing.T, dir string) call.Plugin {
	t.Helper()
	to := filepath.Join(t.TempDir(), "plugin")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "main.go")); err == nil {
		cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(to, "verify"), "./"+dir)
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	p := call.Plugin{Dir: to}
	var err error
	if p.Package, err = plugin.Read(os.DirFS(to)); err != nil {
		t.Fatal(err)
	}
	return p
}

// starter runs the plugin's process once.
func starter(t *testing.T, p call.Plugin) conform.Process {
	t.Helper()
	o := sandbox.Options{Environ: os.Environ()}
	sb := process.New(o)
	return func(ctx context.Context, stdin []byte) (sandbox.Result, error) {
		at := call.Place{Root: t.TempDir(), Home: t.TempDir()}
		spec, err := p.Spec(o, at)
		if err != nil {
			return sandbox.Result{}, err
		}
		spec.Stdin = stdin
		return sb.Run(ctx, spec)
	}
}

func check(t *testing.T, p call.Plugin) ([]conform.Finding, error) {
	t.Helper()
	return conform.Check(t.Context(), p.Manifest, t.TempDir(), starter(t, p))
}

func conforms(t *testing.T, p call.Plugin, atLeast int) {
	t.Helper()
	findings, err := check(t, p)
	if err != nil || len(findings) < atLeast {
		t.Fatalf("%d cases, %v", len(findings), err)
	}
	for _, f := range findings {
		if !f.OK { // our own keep the advice as well
			t.Errorf("%s: %s", f.Case, f.Detail)
		}
	}
}

// TestConformance: the 17 vectors and more, in every language.
func TestConformance(t *testing.T) {
	for language, dir := range dirs {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			p := place(t, dir)
			if !conform.RunsTests(p.Manifest) {
				t.Fatal("its evidence is not held against the vectors")
			}
			conforms(t, p, 17+20)
		})
	}
	t.Run("size-budget", func(t *testing.T) {
		t.Parallel()
		conforms(t, place(t, "size-budget"), 20)
	})
	// The Python plugin speaks protocol 2 by changing one line and the manifest.
	t.Run("python in protocol 2", func(t *testing.T) {
		t.Parallel()
		p := place(t, "verify-py")
		main := filepath.Join(p.Dir, "main.py")
		b, err := os.ReadFile(main)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(main, bytes.Replace(b, []byte("SPEAKS = 1"), []byte("SPEAKS = 2"), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		p.Runtime.Protocol = 2
		conforms(t, p, 24)
	})
}

// TestNew: what a new plugin begins with is a package whose process runs under
// its own name, whatever its language.
func TestNew(t *testing.T) {
	for _, language := range examples.Languages() {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			files, err := examples.New("my-check", language)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "my-check")
			for name, text := range files {
				if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			if language == "go" {
				cmd := exec.Command("go", "build", "-trimpath", "-o", "plugin", ".")
				cmd.Dir = dir
				cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			p := call.Plugin{Dir: dir}
			if p.Package, err = plugin.Read(os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if p.Name != "my-check" {
				t.Errorf("it is called %q", p.Name)
			}
			// That it conforms, the example's own test and plugin_new.txtar show.
			r, err := starter(t, p)(t.Context(), nil)
			if err != nil || !strings.HasPrefix(string(r.Stderr.Head), "my-check: ") {
				t.Errorf("%q, %v", r.Stderr.Head, err)
			}
		})
	}
	if _, err := examples.New("x", "perl"); err == nil || !strings.Contains(err.Error(), "python, node, go") {
		t.Errorf("%v", err)
	}
}

// TestSizeBudget: the rule is data. The plugin measures, the judge compares,
// and no test is run by anyone.
func TestSizeBudget(t *testing.T) {
	p := place(t, "size-budget")
	o := sandbox.Options{Environ: os.Environ()}
	sb := process.New(o)
	for name, c := range map[string]struct {
		files map[string]int
		want  judge.Decision
		cause judge.Cause
	}{
		"small":     {map[string]int{"dist/app.js": 100, "dist/lib/x.js": 50}, judge.Met, ""},
		"at budget": {map[string]int{"dist/app.js": 51200}, judge.Met, ""},
		"too large": {map[string]int{"dist/app.js": 100, "dist/y": 51101}, judge.Unmet, judge.CauseBudget},
		"not built": {map[string]int{"src/app.js": 1}, judge.Unmet, judge.CauseBudget},
	} {
		at := call.Place{Root: t.TempDir(), Home: t.TempDir()}
		for file, size := range c.files {
			path := filepath.Join(at.Root, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, size), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		r, _, err := p.Exchange(t.Context(), sb, o, at, wire.Request{After: &wire.AfterRequest{
			ProtocolVersion: 1, Wrapper: p.Driven(), Goal: "g", Turn: wire.Turn{Completed: true}, Candidate: &wire.Grant{Handle: "c", Root: at.Root},
		}})
		if err != nil {
			t.Fatal(err)
		}
		v := judge.Decide(p.Rule(), run.Evidence(r, err))
		b, _ := json.Marshal(v)
		if v.Decision != c.want || c.cause != "" && !strings.Contains(string(b), string(c.cause)) {
			t.Errorf("%s: %s", name, b)
		}
	}
}
