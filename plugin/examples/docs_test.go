package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/process"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/run"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// block is the text of the first code block of a language on a page.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n```"+language+"\n")
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !ok || !closed {
		t.Fatalf("the page has no block of %s", language)
	}
	return text + "\n"
}

// TestDocumentedPlugin: the two files that the documentation shows are a plugin
// that conforms and decides.
func TestDocumentedPlugin(t *testing.T) {
	page, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	p := call.Plugin{Dir: t.TempDir()}
	for name, language := range map[string]string{"plugin.toml": "toml", "main.py": "python"} {
		if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(block(t, string(page), language)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if p.Package, err = plugin.Read(os.DirFS(p.Dir)); err != nil {
		t.Fatal(err)
	}
	findings, err := check(t, p)
	if err != nil || len(findings) < 37 {
		t.Fatalf("%d cases, %v", len(findings), err)
	}
	for _, f := range findings {
		if !f.OK && !f.Advice {
			t.Errorf("%s: %s", f.Case, f.Detail)
		}
	}
	o := sandbox.Options{Environ: os.Environ()}
	for source, want := range map[string]judge.Decision{"a = 1\n": judge.Met, "a = 1\n# TODO: b\n": judge.Unmet} {
		at := call.Place{Root: t.TempDir(), Home: t.TempDir()}
		if err := os.WriteFile(filepath.Join(at.Root, "a.py"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		r, _, err := p.Exchange(t.Context(), process.New(o), o, at, wire.Request{After: &wire.AfterRequest{
			ProtocolVersion: 1, Wrapper: p.Driven(), Goal: "g", Turn: wire.Turn{Completed: true}, Candidate: &wire.Grant{Handle: "c", Root: at.Root},
		}})
		if v := judge.Decide(p.Rule(), run.Evidence(r, err)); err != nil || v.Decision != want {
			t.Errorf("%q: %+v, %v", source, v, err)
		}
	}
}
