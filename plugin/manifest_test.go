package plugin_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/internal/stricttoml"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/wire"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t testing.TB, text string) *plugin.Manifest {
	t.Helper()
	m, err := plugin.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// TestSeedManifest is the complete manifest of the documentation, word for word.
func TestSeedManifest(t *testing.T) {
	m := parse(t, string(read(t, "testdata/seed-verify.toml")))
	if m.Name != "verify" || m.Driven() != "verify" || m.Loop.Level != plugin.Arbiter || m.Runtime.Timeout() != 300*time.Second || m.Runtime.Protocol != 1 {
		t.Errorf("%+v", m)
	}
	two := 2
	if diff := cmp.Diff(&two, m.Holds()); diff != "" {
		t.Error(diff)
	}
	want := judge.Rule{
		Requirements: []judge.Requirement{
			{Name: "tests-flip", Statement: "the test the grant names failed before this turn and passes after it"},
			{Name: "tests-pass", Statement: "the test the grant names exits zero"},
		},
		Oracle: &judge.Oracle{
			Flip: judge.FlipRequired, Measurements: []string{"test-command-exit-code"},
			Checks: []judge.Check{{Requirement: "tests-pass", Text: "test-command-exit-code <= 0"}},
		},
	}
	if diff := cmp.Diff(want, m.Rule()); diff != "" {
		t.Error(diff)
	}
	if len(m.Unoffered(plugin.Host{Hooks: plugin.Hooks()})) > 0 {
		t.Errorf("asks for what is not offered: %q", m.Unoffered(plugin.Host{}))
	}
}

// TestForeignManifests: the shapes that packages of that ecosystem have.
func TestForeignManifests(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"content bundle": {`name = "x"`, ""},
		"least arbiter":  {"name = 'x'\n[loop]\nparticipation = 'arbiter'\nhooks = ['Stop']\n[requirements]\na = 'b'", ""},
		"witness": {`name = "witness"
[loop]
participation = "arbiter"
hooks = ["Stop"]
points = ["before_turn", "after_turn"]
max_holds = 4
[requirements]
witness-flips = "it flips"
witness-stable = "it flips again"
[oracle]
flip = "required"
measurements = ["flip-unstable"]
checks = [ { requirement = "witness-stable", check = "flip-unstable <= 0" } ]
[runtime]
argv = ["${plugin_dir}/witness"]
timeout_secs = 3600`, ""},
		"goal": {`name = "goal"
[loop]
participation = "arbiter"
hooks = ["Stop"]
points = ["after_turn"]
[requirements]
fast = "fast enough"
[oracle]
flip = "not-applicable"
tamper = "artifact-identity"
measurements = ["p50-ms", "unused"]
command = { argv = ["bench"], timeout_secs = 9 }
[[oracle.checks]]
requirement = "fast"
check = "p50-ms <= +105"
[[oracle.checks]]
requirement = "fast"
check = "p50-ms != 0"`, ""},
		"candidates": {`name = "candidates"
[loop]
participation = "arbiter"
hooks = ["Stop"]
points = ["after_turn"]
calls = ["candidate_fanout", "adopt_candidate", "run_test"]
max_calls = 8
max_fanout_width = 4
[requirements]
a-candidate-was-adopted = "one was"
[oracle]
flip = "not-applicable"
measurements = ["candidate-adopted"]
[[oracle.checks]]
requirement = "a-candidate-was-adopted"
check = "candidate-adopted >= 1"
[subloop]
stages = ["fan"]
[roles.worker]
tier = "worker"
[wrapper]
id = "candidates-v1"
[[wrapper.stages]]
name = "triage"
[[wrapper.stages]]
name = "execute"
if = "no-conversational"
[[wrapper.stages]]
name = "my-own"
if = "questions >= 1"
[runtime]
argv = ["python3", "${plugin_dir}/main.py"]
timeout_secs = 600
env = ["PATH", "SSH_AUTH_SOCK"]
protocol = 2`, ""},
		"driver": {"name='d'\n[driver]\ncalls=['backlog_next','work_start','curate_accept']\nmax_calls=128", ""},
		"bundle": {`name = "bundle"
description = "tools"
[[tools]]
name = "push"
description = "pushes"
[[skills]]
slug = "careful"
description = "care"
[[records]]
lineage = "r1"
statement = "be careful"
enforcement = "advisory"
[[capabilities]]
tool = "git"
risk = "spicy"
purpose = "push"
scope = ["origin only"]
[[configure]]
key = "a.b-c_d"
value = ["x", 1, 1.5, true, 2020-01-01]
purpose = "why"`, ""},
		"another language key":  {"name='x'\n[runtime]\nargv=['a']\ntimeout_secs=1\nlanguage='python'", `plugin.toml:5: unknown key "runtime.language"`},
		"a version":             {"name='x'\nversion='1'", `plugin.toml:2: unknown key "version"`},
		"a later version's key": {"name='x'\n[loop]\nparticipation='steering'\npoints=['before_turn']\nbefore_turn_stages=['execute']", `plugin.toml:5: unknown key "loop.before_turn_stages"`},
		"a role alone":          {"name='x'\n[loop]\nparticipation='steering'\n[roles.verifier]\ntier='verifier'", `plugin.toml:4: [roles.verifier] needs a [subloop]`},
		"an mcp server":         {"name='x'\n[[mcp]]\nname='y'", `plugin.toml:2: unknown key "mcp"`},
	} {
		_, err := plugin.Parse([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestParsed(t *testing.T) {
	m := parse(t, `name = "x"
[loop]
participation = "steering"
points = ["before_turn"]
[wrapper]
candidates = 3
[[capabilities]]
tool = " git "
risk = "spicy"
purpose = "push"
[[capabilities]]
tool = "ls"
risk = "low"
purpose = "look"
[[configure]]
key = "a.b"
value = ["x\n", 1, 1.5, true, 2020-01-01, 10:00:00, 2020-01-01T10:00:00Z, 2020-01-01T10:00:00]
purpose = "why"
[runtime]
argv = ["x"]
timeout_secs = 9223372036854775807
`)
	if m.Wrapper.Candidates != 3 || m.Driven() != "x" || m.Capabilities[0].Risk != plugin.Destructive || m.Capabilities[0].Tool != "git" ||
		m.Capabilities[1].Risk != plugin.Low || m.Runtime.Timeout() != 600*time.Second || m.Holds() != nil {
		t.Errorf("%+v", m)
	}
	if want := `["x\n", 1, 1.5, true, 2020-01-01, 10:00:00, 2020-01-01T10:00:00Z, 2020-01-01T10:00:00]`; m.Configure[0].Value != want {
		t.Errorf("%s", m.Configure[0].Value)
	}
	if m = parse(t, "name='x'\n[loop]\nparticipation='steering'\n[wrapper]\nid='w'\nstages=[{name='triage'}]"); m.Driven() != "w" {
		t.Errorf("driven by %q", m.Driven())
	}
	if none := parse(t, "name='x'"); none.Loop.Level != plugin.None || none.Rule().Oracle != nil {
		t.Errorf("%+v", none)
	}
}

const (
	steering = "name = 'x'\n[loop]\nparticipation = 'steering'\n"
	observer = "name = 'x'\n[loop]\nparticipation = 'observer'\n"
	arbiter  = "name = 'x'\n[loop]\nparticipation = 'arbiter'\nhooks = ['Stop']\npoints = ['after_turn']\n"
	process  = "[runtime]\nargv = ['p']\ntimeout_secs = 1\n"
	require  = "[requirements]\nr = 's'\n"
	oracle   = arbiter + require + process + "[oracle]\nflip = 'required'\nmeasurements = ['m']\n"
	wrapper  = steering + "[wrapper]\nid = 'w'\n"
)

// TestRefusals has a row for every rule of the format, with line, rule and key.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		// What is not TOML, or not this table.
		{"", "name is missing"},
		{"name = ", "plugin.toml:1: "},
		{"name = 'x'\nname = 'y'", "plugin.toml:2: "},
		{"name = 3", "1: name is not a string"},
		{"Name = 'x'", `1: unknown key "Name" (keys are case-sensitive: did you mean "name"?)`},
		{"name = 'x'\nlicense = 'y'", `2: unknown key "license"`},
		{"name = 'x'\n[loop]\nParticipation = 'none'", `3: unknown key "loop.Participation"`},
		{"name = 'x'\nloop = 'arbiter'", "2: loop is not a table"},
		{oracle + "[[oracle.checks]]\nrequirement = 'r'\ncheck = 'm > 0'\n[[oracle.checks]]\nrequirement = 'r'\ncheck = 'm > 0'\nnote = 1", `20: unknown key "oracle.checks.note"`},
		{oracle + "tampr = 'x'", `14: unknown key "oracle.tampr"`},
		{arbiter + require + process + "[oracle]\nflip = 'required'\ncommand = { argv = ['x'], timeout_secs = 1, shell = true }", `13: unknown key "oracle.command.shell"`},
		{"name='x'\n[driver]\ncall=[]", `3: unknown key "driver.call"`},
		{"name='x'\n[subloop]\nx=1", `3: unknown key "subloop.x"`},
		{"name='x'\n[roles.a]\nx=1", `3: unknown key "roles.a.x"`},
		{wrapper + "x = 1", `6: unknown key "wrapper.x"`},
		{wrapper + "[[wrapper.stages]]\nname='triage'\nwhen='x'", `8: unknown key "wrapper.stages.when"`},
		{observer + process + "cwd = 'x'", `7: unknown key "runtime.cwd"`},
		{"name='x'\n[[capabilities]]\nlevel=1", `3: unknown key "capabilities.level"`},
		{"name='x'\n[[tools]]\npath=1", `3: unknown key "tools.path"`},
		{"name='x'\n[[skills]]\nname=1", `3: unknown key "skills.name"`},
		{"name='x'\n[[records]]\nid=1", `3: unknown key "records.id"`},
		{"name='x'\n[[configure]]\nfile=1", `3: unknown key "configure.file"`},
		{observer + "[runtime]\nargv = 'python3 main.py'\ntimeout_secs = 1", "5: runtime.argv is not a list"},
		{observer + "[runtime]\nargv = ['x']\ntimeout_secs = -1", "6: runtime.timeout_secs is not an integer from 0"},
		{observer + "[runtime]\nargv = ['x']\ntimeout_secs = 1.5", "6: runtime.timeout_secs is not an integer"},
		{observer + "[runtime]\nargv = ['x']\ntimeout_secs = '1'", "6: runtime.timeout_secs is not an integer"},
		{"name='x'\n[requirements]\na = 1", "3: requirements.a is not a string"},
		{"name = 'x'\n[loop]\nmax_holds = 4294967296", "3: loop.max_holds is not an integer from 0 to 4294967295"},

		// Missing keys.
		{arbiter + require + process + "[oracle]", "11: [oracle] flip"},
		{arbiter + require + "[oracle]\nflip = 'required'\ncommand = {timeout_secs = 1}", "10: [oracle] command.argv is missing"},
		{arbiter + require + "[oracle]\nflip = 'required'\ncommand = {argv = ['x']}", "10: [oracle] command.timeout_secs is missing"},
		{oracle + "[[oracle.checks]]\ncheck = 'm > 0'", "14: [[oracle.checks]] requirement is missing"},
		{oracle + "[[oracle.checks]]\nrequirement = 'r'", "14: [[oracle.checks]] check is missing"},
		{steering + "[subloop]", "4: [subloop] stages is missing"},
		{steering + "[subloop]\nstages=['a']\n[roles.b]", "6: [roles.b] tier is missing"},
		{steering + "[wrapper]", "4: [wrapper] id is missing"},
		{wrapper + "[[wrapper.stages]]\nif = 'x'", "6: [[wrapper.stages]] name is missing"},
		{observer + "[runtime]\ntimeout_secs = 1", "4: [runtime] argv is missing"},
		{observer + "[runtime]\nargv = ['x']", "4: [runtime] timeout_secs is missing"},
		{"name='x'\n[[capabilities]]\nrisk='low'\npurpose='p'", "2: [[capabilities]] tool is missing"},
		{"name='x'\n[[capabilities]]\ntool='t'\npurpose='p'", "2: [[capabilities]] risk is missing"},
		{"name='x'\n[[capabilities]]\ntool='t'\nrisk='low'", "2: [[capabilities]] purpose is missing"},
		{"name='x'\n[[tools]]\nname='t'", "2: [[tools]] description is missing"},
		{"name='x'\n[[tools]]\ndescription='t'", "2: [[tools]] name is missing"},
		{"name='x'\n[[skills]]\nslug='t'", "2: [[skills]] description is missing"},
		{"name='x'\n[[skills]]\ndescription='t'", "2: [[skills]] slug is missing"},
		{"name='x'\n[[records]]\nlineage='t'", "2: [[records]] statement is missing"},
		{"name='x'\n[[records]]\nstatement='t'", "2: [[records]] lineage is missing"},
		{"name='x'\n[[configure]]\nvalue=1\npurpose='p'", "2: [[configure]] key is missing"},
		{"name='x'\n[[configure]]\nkey='a.b'\npurpose='p'", "2: [[configure]] value is missing"},
		{"name='x'\n[[configure]]\nkey='a.b'\nvalue=1", "2: [[configure]] purpose is missing"},

		// Closed sets of words.
		{"name = 'x'\n[loop]\nparticipation = 'Arbiter'", `3: [loop] participation: "Arbiter" is not one of none, observer, steering, arbiter`},
		{steering + "hooks = ['SessionStart', 'stop']", `4: [loop] hooks: "stop" is not one of`},
		{steering + "points = ['judge']", `4: [loop] points: "judge" is not one of before_turn, after_turn`},
		{steering + "points = ['again']", `4: [loop] points: "again"`},
		{steering + "calls = ['exec']", `4: [loop] calls: "exec"`},
		{"name='x'\n[driver]\ncalls=['backlog_drop']", `3: [driver] calls: "backlog_drop"`},
		{arbiter + require + process + "[oracle]\nflip = 'maybe'", `12: [oracle] flip: "maybe" is not one of required, not-applicable`},
		{oracle + "tamper = 'none'", `14: [oracle] tamper: "none" is not one of artifact-identity`},
		{"name='x'\n[[records]]\nlineage='a'\nstatement='b'\nenforcement='strict'", `5: [[records]] enforcement: "strict"`},

		// The rules, in their order.
		{"name = ' '", "1: name is blank"},
		{steering + "hooks = ['PreToolUse', 'PreToolUse']", `4: [loop] hooks: "PreToolUse" is there twice`},
		{steering + "hooks = ['PreIssueWork']", "4: [loop] hooks: PreIssueWork belongs"},
		{steering + "hooks = ['PostIssueWork']", "4: [loop] hooks: PostIssueWork belongs"},
		{observer + "hooks = ['PreToolUse']", `4: [loop] hooks needs [loop] participation = "steering" or above; this manifest says "observer"`},
		{"name='x'\n[loop]\nhooks = ['PreToolUse']", `3: [loop] hooks needs [loop] participation = "steering" or above; this manifest says "none"`},
		{steering + "points = ['after_turn', 'after_turn']", `4: [loop] points: "after_turn" is there twice`},
		{observer + "points = ['after_turn']", "4: [loop] points needs"},
		{steering + "points = ['after_turn']\ncalls = ['recall', 'recall']", `5: [loop] calls: "recall" is there twice`},
		{observer + "calls = ['recall']", "4: [loop] calls needs [loop] participation"},
		{steering + "calls = ['recall']", "4: [loop] calls needs a point"},
		{steering + "max_calls = 0", "4: [loop] max_calls must be 1 or more"},
		{steering + "max_calls = 1", "4: [loop] max_calls needs calls"},
		{steering + "max_fanout_width = 0", "4: [loop] max_fanout_width must be 1 or more"},
		{steering + "points = ['after_turn']\ncalls = ['recall']\nmax_fanout_width = 2", `6: [loop] max_fanout_width needs "candidate_fanout"`},
		{"name='x'\n[driver]\ncalls=['work_start','work_start']", `3: [driver] calls: "work_start" is there twice`},
		{"name='x'\n[driver]\ncalls=['work_start']\nmax_calls=0", "4: [driver] max_calls must be"},
		{"name='x'\n[driver]\nmax_calls=1", "3: [driver] max_calls needs"},
		{steering + "hooks = [\n 'PreToolUse',\n 'Stop',\n]", `6: the hook "Stop" needs [loop] participation = "arbiter"; this manifest says "steering"`},
		{"name = 'x'\n[loop]\nparticipation = 'arbiter'\n" + require, `3: [loop] participation = "arbiter" needs "Stop"`},
		{arbiter + "max_holds = 0\n" + require, "6: [loop] max_holds must be 1 or more"},
		{steering + "max_holds = 1", "4: [loop] max_holds needs"},
		{steering + "[requirements]", "4: [requirements] needs"},
		{steering + require, "4: [requirements] needs"},
		{arbiter, `3: [loop] participation = "arbiter" needs at least one entry in [requirements]`},
		{arbiter + "[requirements]", "needs at least one entry in [requirements]"},
		{arbiter + "[requirements]\na = 'x'\n\"b c\" = \" \\t\"", `8: [requirements] "b c": the statement is blank`},
		{steering + process + "[oracle]\nflip='required'", "7: [oracle] needs [loop] participation = \"arbiter\""},
		{strings.Replace(oracle, "points = ['after_turn']", "points = ['before_turn']", 1), `11: [oracle] needs "after_turn"`},
		{arbiter + require + "[oracle]\nflip='required'", "8: [oracle] needs a process"},
		{arbiter + require + "[oracle]\nflip='required'\ncommand={argv=[], timeout_secs=1}", "10: [oracle] command.argv is empty"},
		{arbiter + require + "[oracle]\nflip='required'\ncommand={argv=['x'], timeout_secs=0}", "10: [oracle] command.timeout_secs must be"},
		{arbiter + require + process + "[oracle]\nflip='required'\nmeasurements=['a','a']", `13: [oracle] measurements: "a" is there twice`},
		{arbiter + require + process + "[oracle]\nflip='required'\nmeasurements=['a',' ']", `13: [oracle] measurements: an entry is blank`},
		{oracle + "[[oracle.checks]]\nrequirement = 'q'\ncheck = 'm > 0'", `15: [[oracle.checks]] requirement: "q" is not in [requirements]`},
		{oracle + "[[oracle.checks]]\nrequirement = 'r'\ncheck = 'm>0'", "16: [[oracle.checks]] check \"m>0\""},
		{oracle + "[[oracle.checks]]\nrequirement = 'r'\ncheck = 'm = 0'", `16: [[oracle.checks]] check "m = 0"`},
		{oracle + "[[oracle.checks]]\nrequirement = 'r'\ncheck = 'm <= -1'", `16: [[oracle.checks]] check "m <= -1"`},
		{oracle + "[[oracle.checks]]\nrequirement = 'r'\ncheck = 'n > 0'", `16: [[oracle.checks]] check "n > 0": "n" is not in [oracle] measurements`},
		{arbiter + require + "b = 'x'\n" + process + "[oracle]\nflip='not-applicable'\nmeasurements=['m']\nchecks=[{requirement='r',check='m > 0'}]", `8: [requirements] "b" can never be decided`},
		{observer + "[subloop]\nstages=['a']", "4: [subloop] needs"},
		{steering + "[subloop]\nstages=[]", "5: [subloop] stages is empty"},
		{steering + "[subloop]\nstages=['a','a']", `5: [subloop] stages: "a" is there twice`},
		{steering + "[subloop]\nstages=['a','']", "5: [subloop] stages: an entry is blank"},
		{observer + "[wrapper]\nid='w'\nstages=[{name='triage'}]", "4: [wrapper] needs"},
		{steering + "[wrapper]\nid=''\nstages=[{name='triage'}]", "5: [wrapper] id is blank"},
		{steering + "[wrapper]\ncandidates=0", "5: [wrapper] candidates must be 1 or more"},
		{steering + "[wrapper]\nid='w'", "4: [wrapper] needs at least one"},
		{wrapper + "stages=[{name='triage'},{name='triage'}]", `6: [[wrapper.stages]] name: "triage" is there twice`},
		{wrapper + "stages=[{name='judge'}]", `"judge" is a boundary`},
		{wrapper + "stages=[{name='context_recall'}]", "boundary"},
		{wrapper + "stages=[{name='My'}]", `"My" is neither a stage`},
		{wrapper + "stages=[{name='a123456789012345678901234567890123'}]", "is neither a stage"},
		{wrapper + "stages=[{name='a',if='zeal'}]", `if = "zeal": "zeal" is no signal`},
		{wrapper + "stages=[{name='a',if='candidates'}]", `"candidates" is a number`},
		{wrapper + "stages=[{name='a',if='test-command > 1'}]", `"test-command" is true or false`},
		{wrapper + "stages=[{name='a',if='candidates = 1'}]", `"=" is not one of`},
		{wrapper + "stages=[{name='a',if='candidates > -1'}]", `"-1" is not a whole number`},
		{wrapper + "stages=[{name='a',if='candidates >1'}]", "write a signal"},
		{wrapper + "stages=[{name='a',if='plans'},{name='triage'}]", `published by the stage "triage", which is not declared before`},
		{wrapper + "stages=[{name='triage',if='test-command'},{name='a',if='plans'}]", "which itself may not run"},
		{"name='x'\n" + process, "2: [runtime] needs [loop] participation = \"observer\" or above"},
		{observer + "[runtime]\nargv=[]\ntimeout_secs=1", "5: [runtime] argv is empty"},
		{observer + "[runtime]\nargv=['x',' ']\ntimeout_secs=1", "5: [runtime] argv: an element is blank"},
		{observer + "[runtime]\nargv=['x',\"a\\u0000\"]\ntimeout_secs=1", "5: [runtime] argv: an element holds a NUL"},
		{observer + "[runtime]\nargv=['x']\ntimeout_secs=0", "6: [runtime] timeout_secs must be 1 or more"},
		{observer + process + "env=['A','']", `7: [runtime] env: "" is no name`},
		{observer + process + "env=['A=b']", `7: [runtime] env: "A=b" is no name`},
		{observer + process + "env=[' A']", `7: [runtime] env: " A" is no name`},
		{observer + process + "env=[\"A\\u0000\"]", `7: [runtime] env: "A\x00" is no name`},
		{observer + process + "env=['A','A']", `7: [runtime] env: "A" is there twice`},
		{observer + process + "protocol=3", "7: [runtime] protocol = 3: this host speaks 1 and 2"},
		{observer + process + "protocol=0", "7: [runtime] protocol = 0"},
		{observer + "[roles.a]\ntier='worker'", "4: [roles.a] needs [loop]"},
		{steering + "[roles.a]\ntier='worker'", "4: [roles.a] needs a [subloop]"},
		{steering + "[subloop]\nstages=['a']\n[roles.a]\ntier=''", "7: [roles.a] tier is blank"},
		{"name='x'\n[[capabilities]]\ntool=' '\nrisk='low'\npurpose='p'", "3: [[capabilities]] tool is blank"},
		{"name='x'\n[[capabilities]]\ntool='a'\nrisk='low'\npurpose='p'\n[[capabilities]]\ntool='a '\nrisk='low'\npurpose='p'", `7: [[capabilities]] tool: "a" is there twice`},
		{"name='x'\n[[capabilities]]\ntool='a'\nrisk='low'\npurpose=''", "5: [[capabilities]] \"a\": the purpose is blank"},
		{"name='x'\n[[capabilities]]\ntool='a'\nrisk='low'\npurpose='p'\nscope=['x','']", "6: [[capabilities]] \"a\": an entry of scope is blank"},
		{"name='x'\n[[tools]]\nname=''\ndescription='d'", "3: [[tools]] name is blank"},
		{"name='x'\n[[tools]]\nname='a'\ndescription=''", "4: [[tools]] \"a\": the description is blank"},
		{"name='x'\n[[tools]]\nname='a'\ndescription='d'\n[[tools]]\nname='a'\ndescription='d'", `6: [[tools]] name: "a" is there twice`},
		{"name='x'\n[[skills]]\nslug=''\ndescription='d'", "3: [[skills]] slug is blank"},
		{"name='x'\n[[records]]\nlineage='a'\nstatement='s'\nenforcement='blocking'", "5: [[records]] \"a\": a plugin's rule is advice"},
		{"name='x'\n[[configure]]\nkey=''\nvalue=1\npurpose='p'", "3: [[configure]] key is blank"},
		{"name='x'\n[[configure]]\nkey='a.b'\nvalue=1\npurpose=''", "5: [[configure]] \"a.b\": the purpose is blank"},
		{"name='x'\n[[configure]]\nkey='a'\nvalue=1\npurpose='p'", `3: [[configure]] key: "a" is not two`},
		{"name='x'\n[[configure]]\nkey='a. b'\nvalue=1\npurpose='p'", "is not two or more plain words"},
		{"name='x'\n[[configure]]\nkey='providers.x'\nvalue=1\npurpose='p'", "no plugin may change [providers]"},
		{"name='x'\n[[configure]]\nkey='mcp.x'\nvalue=1\npurpose='p'", "no plugin may change [mcp]"},
		{"name='x'\n[[configure]]\nkey='a.b'\nvalue={c=1}\npurpose='p'", "4: [[configure]] \"a.b\": the value is neither"},
		{"name='x'\n[[configure]]\nkey='a.b'\nvalue=[[1]]\npurpose='p'", "the value is neither"},
		{"name='x'\n[[configure]]\nkey='a.b'\nvalue=1\npurpose='p'\n[[configure]]\nkey='a.b'\nvalue=1\npurpose='p'", `7: [[configure]] key: "a.b" is there twice`},

		// Of two mistakes the earlier rule is named.
		{observer + "hooks = ['Stop']\n" + "points = ['after_turn']", "[loop] hooks needs"},
		{steering + "max_holds = 0\n[runtime]\nargv=[]\ntimeout_secs=0", "[loop] max_holds must be"},
	} {
		_, err := plugin.Parse([]byte(c.text))
		var e *stricttoml.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %q\nfor\n%s", err, c.want, c.text)
		}
	}
}

func TestParticipation(t *testing.T) {
	everything := plugin.Loop{Hooks: plugin.Hooks(), Points: []wire.Point{wire.BeforeTurn, wire.AfterTurn}, Calls: []plugin.Call{plugin.Recall}}
	for level, want := range map[plugin.Level]string{
		plugin.None:     "hooks [] points false false call false hold false",
		plugin.Observer: "hooks [] points false false call false hold false",
		plugin.Steering: "hooks [SessionStart PreToolUse PostToolUse PreCompact] points true true call true hold false",
		plugin.Arbiter:  "hooks [SessionStart PreToolUse PostToolUse Stop PreCompact] points true true call true hold true",
	} {
		l := everything
		l.Level = level
		var hooks []plugin.Hook
		for _, h := range plugin.Hooks() {
			if l.RunsHook(h) {
				hooks = append(hooks, h)
			}
		}
		got := fmt.Sprintf("hooks %v points %v %v call %v hold %v", hooks, l.Answers(wire.BeforeTurn), l.Answers(wire.AfterTurn), l.MayCall(plugin.Recall), l.MayHold())
		if got != want {
			t.Errorf("%v: %s, want %s", level, got, want)
		}
		undeclared := plugin.Loop{Level: level}
		for _, h := range plugin.Hooks() {
			if undeclared.RunsHook(h) {
				t.Errorf("%v runs the undeclared hook %s", level, h)
			}
		}
		if undeclared.Answers(wire.AfterTurn) || undeclared.MayCall(plugin.Recall) {
			t.Errorf("%v does what it did not declare", level)
		}
	}
}

func TestUnoffered(t *testing.T) {
	m := parse(t, `name = "all"
[loop]
participation = "steering"
hooks = ["PreCompact", "PreToolUse", "SessionStart"]
points = ["before_turn"]
calls = ["recall"]
[[capabilities]]
tool = "web_search"
risk = "low"
purpose = "p"
[driver]
[subloop]
stages = ["a"]
[roles.r]
tier = "worker"
[wrapper]
id = "w"
stages = [{name = "triage"}]
[[tools]]
name = "t"
description = "d"
[[configure]]
key = "a.b"
value = 1
purpose = "p"
`)
	got := strings.Join(m.Unoffered(plugin.Host{Hooks: []plugin.Hook{plugin.PreToolUse, plugin.SessionStart}}), "\n")
	for _, want := range []string{"PreCompact", "PreToolUse for tools that an agent brings itself", "recall", "driver", "[subloop]", "roles", "[wrapper]", "setting", "tools", "does not get web_search"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not mentioned in\n%s", want, got)
		}
	}
	if strings.Contains(got, "SessionStart") || strings.Count(got, "\n") != 9 {
		t.Errorf("%s", got)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[plugin.Name]bool{
		"verify": true, "a b": true, "é": true, "": false, ".": false, "..": false, ".x": false, "a/b": false, `a\b`: false, "a\x00": false,
		" a": false, "a\n": false, "a\x1b[2J": false, "a\u202eb": false, "a\u200bb": false, plugin.Name(strings.Repeat("x", 101)): false,
	} {
		if err := name.Check(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzParse: any text is refused with a line of it or parsed into a manifest
// whose parts keep the rules.
func FuzzParse(f *testing.F) {
	f.Add(string(read(f, "testdata/seed-verify.toml")))
	f.Add(wrapper + "stages=[{name='triage'},{name='a',if='questions > 1'}]")
	f.Add("name='x'\n[[configure]]\nkey='a.b'\nvalue=[1]\npurpose='p'\n[[records]]\nlineage='l'\nstatement='s'")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := plugin.Parse([]byte(text))
		if err != nil {
			var e *stricttoml.Error
			if !errors.As(err, &e) || e.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("%v", err)
			}
			return
		}
		if m.Loop.Level < plugin.Arbiter && (len(m.Requirements) > 0 || m.Oracle != nil || m.Loop.MaxHolds != nil) ||
			m.Loop.Level == plugin.Arbiter && len(m.Requirements) == 0 ||
			m.Loop.Level < plugin.Steering && len(m.Loop.Points)+len(m.Loop.Hooks)+len(m.Loop.Calls) > 0 {
			t.Fatalf("%+v", m)
		}
		for _, c := range m.Rule().Requirements {
			if strings.TrimSpace(c.Statement) == "" {
				t.Fatalf("%+v", m)
			}
		}
	})
}
