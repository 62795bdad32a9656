package plugin_test

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/wire"
)

const seedTool = `name = "lint-fix"
description = "Run the package's linter over the workspace and apply what it can fix."
command = ["${plugin_dir}/scripts/lint-fix.sh"]

[env]
RULESET = "${plugin_dir}/rules/strict.yaml"
`

const bundle = `name = "bundle"
[[tools]]
name = "lint-fix"
description = "d"
[[skills]]
slug = "review-database"
description = "How to review migrations of the database"
[[records]]
lineage = "ctx.pnpm"
statement = "use pnpm"
[[records]]
lineage = "ctx.old"
statement = "use npm"
`

func files(changes map[string]string) map[string]string {
	all := map[string]string{
		"plugin.toml":                     bundle,
		"tools/lint.toml":                 seedTool,
		"tools/README.md":                 "no tool",
		"tools/deep/x.toml":               "no tool",
		"skills/review-database/SKILL.md": "---\nname: review\ndescription: \"Reviewing database migrations\"\n---\n\nLook twice.\n",
		"skills/empty/notes.md":           "no skill",
		"rules/r.toml":                    "schema = 'context-record/v0.1'\n[defaults]\nstatus = 'active'\n[[record]]\nlineage_id = 'ctx.pnpm'\nstatement = 'Use pnpm.'\n[record.steering]\nforce = 'must'\n[[record]]\nlineage_id = 'ctx.old'\nstatement = 'Use npm.'\nstatus = 'retired'\n",
	}
	for name, text := range changes {
		if text == "" {
			delete(all, name)
		} else {
			all[name] = text
		}
	}
	return all
}

func TestPackageContents(t *testing.T) {
	p := mustPack(t, files(nil))
	tool := p.PackageTools[0]
	if tool.Name != "lint-fix" || tool.Timeout != 30*time.Second || tool.Command[0] != "${plugin_dir}/scripts/lint-fix.sh" {
		t.Errorf("%+v", tool)
	}
	// In every element and value, each occurrence, and nothing else.
	tool.Command = append(tool.Command, "a${plugin_dir}b${plugin_dir}", "${HOME}", "$plugin_dir")
	in := tool.In("/p $x")
	if diff := cmp.Diff([]string{"/p $x/scripts/lint-fix.sh", "a/p $xb/p $x", "${HOME}", "$plugin_dir"}, in.Command); diff != "" {
		t.Error(diff)
	}
	if in.Env["RULESET"] != "/p $x/rules/strict.yaml" || tool.Env["RULESET"] != "${plugin_dir}/rules/strict.yaml" {
		t.Errorf("%q %q", in.Env, tool.Env)
	}
	// A user's own manifest is left as it is written: only In expands.
	own, err := plugin.ParseTool("own.toml", []byte(seedTool))
	if err != nil || own.Command[0] != "${plugin_dir}/scripts/lint-fix.sh" {
		t.Errorf("%+v, %v", own, err)
	}
	want := []wire.Context{
		{Label: "skill review-database of the plugin bundle", Text: "Look twice.\n"},
		{Label: "advice ctx.pnpm of the plugin bundle", Text: "Use pnpm."},
	}
	if diff := cmp.Diff(want, p.Context("please review the database migration")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[1:], p.Context("paint it green")); diff != "" {
		t.Error(diff)
	}
}

// TestReconcile: what is there and what is declared must be the same, in both
// directions, for all three kinds.
func TestReconcile(t *testing.T) {
	without := func(table string) string {
		before, rest, _ := strings.Cut(bundle, "[["+table+"]]")
		_, after, more := strings.Cut(rest, "[[")
		if more {
			after = "[[" + after
		}
		return before + after
	}
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"undeclared tool":   {map[string]string{"plugin.toml": without("tools")}, `tools/lint.toml holds "lint-fix", which no [[tools]] of plugin.toml declares`},
		"undeclared skill":  {map[string]string{"plugin.toml": without("skills")}, `skills/review-database/SKILL.md holds "review-database", which no [[skills]]`},
		"undeclared record": {map[string]string{"plugin.toml": without("records")}, `rules/r.toml holds "ctx.pnpm", which no [[records]]`},
		"absent tool":       {map[string]string{"tools/lint.toml": ""}, `[[tools]] of plugin.toml declares "lint-fix", which is not in tools/`},
		"absent skill":      {map[string]string{"skills/review-database/SKILL.md": ""}, `[[skills]] of plugin.toml declares "review-database", which is not in skills/`},
		"absent record":     {map[string]string{"rules/r.toml": ""}, `[[records]] of plugin.toml declares "ctx.pnpm", which is not in rules/`},
		"one more tool":     {map[string]string{"tools/x.toml": "name = 'x'\ndescription = 'd'\ncommand = ['x']"}, `tools/x.toml holds "x"`},
		"the same twice":    {map[string]string{"tools/x.toml": seedTool}, `tools/lint.toml and tools/x.toml both hold "lint-fix"`},
		"tool not TOML":     {map[string]string{"tools/lint.toml": "name ="}, "tools/lint.toml:1: "},
		"tool key":          {map[string]string{"tools/lint.toml": seedTool + "SHELL = 1"}, "tools/lint.toml:7: env.SHELL is not a string"},
		"tool unknown key":  {map[string]string{"tools/lint.toml": "shell = true\n" + seedTool}, `tools/lint.toml:1: unknown key "shell"`},
		"tool name":         {map[string]string{"tools/lint.toml": strings.Replace(seedTool, "lint-fix", "Lint", 1)}, "tools/lint.toml: name must be"},
		"tool command":      {map[string]string{"tools/lint.toml": "name='lint-fix'\ndescription='d'\ncommand=[]"}, "command is missing"},
		"tool blank":        {map[string]string{"tools/lint.toml": "name='lint-fix'\ndescription='d'\ncommand=['a','']"}, "command is missing, or has a blank"},
		"tool time":         {map[string]string{"tools/lint.toml": "name='lint-fix'\ndescription='d'\ncommand=['a']\ntimeout_ms=0"}, "timeout_ms must be"},
		"tool description":  {map[string]string{"tools/lint.toml": "name='lint-fix'\ncommand=['a']"}, "description is missing"},
		"rule not TOML":     {map[string]string{"rules/r.toml": "x"}, "rules/r.toml:1: "},
		"rule empty":        {map[string]string{"rules/r.toml": "schema='x'"}, "rules/r.toml: it holds no [[record]]"},
		"rule nameless":     {map[string]string{"rules/r.toml": "[[record]]\nstatement='x'"}, "lacks a lineage_id"},
		"skill not UTF-8":   {map[string]string{"skills/review-database/SKILL.md": "\xff"}, "is not UTF-8"},
		"large tool":        {map[string]string{"tools/lint.toml": seedTool + strings.Repeat("#", plugin.MaxContent)}, "tools/lint.toml is larger than"},
		"large manifest":    {map[string]string{"plugin.toml": bundle + strings.Repeat("#", plugin.MaxManifest)}, "plugin.toml is larger than"},
		"no manifest":       {map[string]string{"plugin.toml": ""}, "it has no plugin.toml: not a plugin"},
	} {
		if _, err := pack(t, files(c.change)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	links := fstest.MapFS{"plugin.toml": {Data: []byte("name='x'"), Mode: fs.ModeSymlink | 0o777}}
	if _, err := plugin.Read(links); err == nil {
		t.Error("a manifest that is a link is read")
	}
}

func TestInputEnvironment(t *testing.T) {
	d := json.NewDecoder(strings.NewReader(`{"path":"a b","dry-run":true,"n":12345678901234567890,"x":[1],"o":{},"none":null,"é":"x","nul":"a\u0000"}`))
	d.UseNumber()
	var input map[string]any
	if err := d.Decode(&input); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"BESTOF_INPUT_PATH": "a b", "BESTOF_INPUT_DRY_RUN": "true", "BESTOF_INPUT_N": "12345678901234567890",
		"STELLA_INPUT_PATH": "a b", "STELLA_INPUT_DRY_RUN": "true", "STELLA_INPUT_N": "12345678901234567890",
	}
	if diff := cmp.Diff(want, plugin.InputEnvironment(input)); diff != "" {
		t.Error(diff)
	}
}

func TestWithheld(t *testing.T) {
	r := plugin.Runtime{Env: []string{"PATH", "OPENAI_API_KEY", "aws_region", "SSH_AUTH_SOCK", "DOCKER_HOST", "HOME", "MY_PAT", "TOKENS"}}
	given, withheld := r.Environment()
	if diff := cmp.Diff([]string{"PATH", "HOME", "TOKENS"}, given); diff != "" {
		t.Error(diff)
	}
	if len(withheld) != 5 {
		t.Errorf("%q", withheld)
	}
}
