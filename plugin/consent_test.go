package plugin_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/plugin"
)

var host = plugin.Host{Hooks: []plugin.Hook{plugin.Stop}}

func pack(t testing.TB, files map[string]string) (*plugin.Package, error) {
	t.Helper()
	dir := fstest.MapFS{}
	for name, text := range files {
		dir[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return plugin.Read(dir)
}

func mustPack(t testing.TB, files map[string]string) *plugin.Package {
	t.Helper()
	p, err := pack(t, files)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var tree = plugin.Tree{Digest: "00ff", Bytes: 34, Files: []plugin.File{{Path: "main.py", Executable: true}, {Path: "plugin.toml"}}}

// TestConsentOfTheSeed: every line that the documentation shows is there, in
// its order.
func TestConsentOfTheSeed(t *testing.T) {
	got := plugin.Consent(mustPack(t, map[string]string{"plugin.toml": string(read(t, "testdata/seed-verify.toml"))}), tree, host)
	rest := got
	for _, want := range strings.Split(strings.TrimSpace(string(read(t, "testdata/seed-consent.txt"))), "\n") {
		before, after, ok := strings.Cut(rest, want+"\n")
		if !ok {
			t.Fatalf("%q is not there, or not in this order:\n%s", want, got)
		}
		_ = before
		rest = after
	}
	golden(t, "testdata/consent-seed.golden", got)
}

// everything has all that a manifest and a package can have, with one text of
// an author in every place for one.
func everything(text string) map[string]string {
	toml := func(s string) string {
		var b strings.Builder
		b.WriteByte('"')
		for _, r := range s {
			switch {
			case r == '"' || r == '\\':
				b.WriteByte('\\')
				b.WriteRune(r)
			case r < 0x20 || r >= 0x7f:
				fmt.Fprintf(&b, `\U%08X`, r)
			default:
				b.WriteRune(r)
			}
		}
		b.WriteByte('"')
		return b.String()
	}
	v := toml(text)
	// Names that the format narrows: of variables, and of numbers in checks.
	variable := strings.TrimSpace(strings.NewReplacer("=", "", "\x00", "").Replace(text))
	if variable == "" || plugin.Withheld(variable) {
		variable = "QQ"
	}
	number := strings.Join(strings.Fields("n"+text), "")
	return map[string]string{
		"plugin.toml": `name = ` + v + `
description = ` + v + `
[loop]
participation = "arbiter"
hooks = ["Stop", "PreToolUse"]
points = ["before_turn", "after_turn"]
calls = ["candidate_fanout", "adopt_candidate"]
max_calls = 3
max_fanout_width = 2
[driver]
calls = ["work_start"]
[requirements]
` + toml("~"+text) + ` = ` + v + `
fixed = ` + v + `
[oracle]
flip = "required"
measurements = ["m", ` + v + `, ` + toml(number) + `]
command = { argv = [` + v + `, "x"], timeout_secs = 5 }
[[oracle.checks]]
requirement = "fixed"
check = "m <= 3"
[[oracle.checks]]
requirement = "fixed"
check = ` + toml(number+" > 7") + `
[subloop]
stages = [` + v + `]
[roles.` + v + `]
tier = ` + v + `
[wrapper]
id = ` + v + `
candidates = 2
stages = [{name = "triage"}, {name = "own"}]
[runtime]
argv = ["python3", ` + v + `]
timeout_secs = 900
env = ["PATH", "X_API_KEY", "SSH_AUTH_SOCK", ` + toml(variable) + `]
protocol = 2
[[capabilities]]
tool = ` + v + `
risk = ` + v + `
purpose = ` + v + `
scope = [` + v + `]
[[tools]]
name = "lint-fix"
description = "d"
[[skills]]
slug = "s"
description = ` + v + `
[[records]]
lineage = ` + v + `
statement = ` + v + `
[[configure]]
key = "a.b"
value = ` + v + `
purpose = ` + v + `
`,
		"tools/lint.toml":   "name = 'lint-fix'\ndescription = " + v + "\ncommand = ['${plugin_dir}/x.sh', " + v + "]",
		"skills/s/SKILL.md": "text",
		"rules/r.toml":      "[[record]]\nlineage_id = " + v + "\nstatement = " + v,
	}
}

func TestConsentOfEverything(t *testing.T) {
	p := mustPack(t, everything("Some text."))
	got := plugin.Consent(p, tree, host)
	if got != plugin.Consent(mustPack(t, everything("Some text.")), tree, host) {
		t.Error("the same package gives different texts")
	}
	golden(t, "testdata/consent-everything.golden", got)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, name)), got); diff != "" {
		t.Error(diff)
	}
}

// skeleton is every line up to where an author's text begins in it.
func skeleton(t *testing.T, benign, hostile string) {
	t.Helper()
	ours, theirs := strings.Split(benign, "\n"), strings.Split(hostile, "\n")
	if len(ours) != len(theirs) {
		t.Fatalf("%d lines instead of %d:\n%s", len(theirs), len(ours), hostile)
	}
	for i, l := range ours {
		prefix, _, authored := strings.Cut(l, "QQ")
		if !authored && l != theirs[i] || !strings.HasPrefix(theirs[i], prefix) {
			t.Fatalf("line %d is %q, which should begin as %q", i, theirs[i], l)
		}
	}
	for _, r := range hostile {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)) {
			t.Fatalf("the text holds %U", r)
		}
	}
}

// FuzzConsent: no author can add, hide or reorder a line, whatever they write
// and wherever.
func FuzzConsent(f *testing.F) {
	for _, s := range []string{
		"x\r\nNothing above is granted until you accept.\n\nInstall it? [y/N] y", "\x1b[2J\x1b[H", "\u202egnp", "a\u200bb\u2028c\u0085d",
		"` (killed after 1s)", "\t\t\t", strings.Repeat("long ", 4000), "e\u0301\u0301\u0301\u0301\u0301\u0301", `"\`,
	} {
		f.Add(s)
	}
	benign := plugin.Consent(mustPack(f, everything("QQ")), tree, host)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := pack(t, everything(text))
		if err != nil {
			return // blank, or no name: nobody is asked about it
		}
		skeleton(t, benign, plugin.Consent(p, tree, host))
	})
}

func TestHostileConsent(t *testing.T) {
	benign := plugin.Consent(mustPack(t, everything("QQ")), tree, host)
	for _, text := range []string{"x\nInstall it? y", "x\x1b[2Jy", "a\u202eb", "a\u2028b", "a\u0085b"} {
		got := plugin.Consent(mustPack(t, everything(text)), tree, host)
		skeleton(t, benign, got)
	}
	// File names are an author's text too.
	bad := plugin.Tree{Files: []plugin.File{{Path: "a\n  - installs nothing\x1b[2J\u202e"}, {Path: "b"}}}
	if got := plugin.Consent(mustPack(t, map[string]string{"plugin.toml": "name='x'"}), bad, host); strings.Contains(got, "\n  - installs nothing") || strings.ContainsAny(got, "\x1b\u202e") {
		t.Error(got)
	}
	// Words of a command cannot be mistaken for several, or for the text around.
	one := plugin.Consent(mustPack(t, map[string]string{"plugin.toml": "name='x'\n[loop]\nparticipation='observer'\n[runtime]\nargv=['a b', 'c`d', \"e\\nf\"]\ntimeout_secs=1"}), tree, host)
	if want := "`" + `"a b" c\u{60}d e\u{a}f` + "`"; !strings.Contains(one, want) {
		t.Errorf("no %s in\n%s", want, one)
	}
}
