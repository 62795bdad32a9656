package agent

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/candidate"
)

func brief() candidate.Brief {
	return candidate.Brief{
		Task: "  Fix the clock.  ", Test: []string{"go", "test", "-run", "Test A", "./..."}, Protected: []string{"*_test.go"},
		Context: []candidate.Context{{Label: "witness\npaths", Text: "clock.go"}, {Label: "empty", Text: " \n"}}, Number: 2, Candidates: 3,
	}
}

var at = PlanContext{Home: "/h", Root: "/r", Self: "/opt/bestof"}

func TestPresetsAreValidSortedAndPlannable(t *testing.T) {
	var names []string
	for _, d := range Presets() {
		names = append(names, d.Name)
		if err := d.Validate(); err != nil {
			t.Error(err)
		}
		if d.Description == "" {
			t.Errorf("%s has no description", d.Name)
		}
		inv, err := d.Plan(brief(), at)
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
			continue
		}
		everything := strings.Join(inv.Argv, "\n") + string(inv.Stdin)
		if !d.Builtin && strings.Count(everything, "Fix the clock.") != 1 {
			t.Errorf("%s is not told its task exactly once: %q", d.Name, everything)
		}
		if strings.Contains(everything, "{prompt") {
			t.Errorf("%s: a mark is left in %q", d.Name, inv.Argv)
		}
		if want := map[bool]Network{true: NetworkNone, false: NetworkGateway}[d.Builtin]; d.Needs() != want {
			t.Errorf("%s needs network %q, want %q", d.Name, d.Needs(), want)
		}
		for _, name := range inv.PassEnv {
			if _, set := inv.Env[name]; set {
				t.Errorf("%s both sets and passes %s", d.Name, name)
			}
		}
		for p, content := range d.Files {
			if strings.HasSuffix(p, ".json") && !json.Valid([]byte(content)) {
				t.Errorf("%s: %s is not JSON", d.Name, p)
			}
		}
	}
	if want := []string{"claude", "codex", "copilot", "gemini", "mutate", "opencode", "pi", "qwen"}; !slices.Equal(names, want) {
		t.Errorf("presets are %v, want %v", names, want)
	}
}

func TestPresetsDoNotShareState(t *testing.T) {
	Presets()[0].Env["IS_SANDBOX"] = "0"
	Presets()[0].Command[0] = "other"
	if d := Presets()[0]; d.Env["IS_SANDBOX"] != "1" || d.Command[0] != "claude" {
		t.Error("a caller changed a preset for all")
	}
}

func TestValidateNamesTheAgentAndTheKey(t *testing.T) {
	good := Definition{Name: "mine", Command: []string{"my-agent"}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for key, change := range map[string][]func(*Definition){
		"name": {
			func(d *Definition) { d.Name = "" },
			func(d *Definition) { d.Name = "../x" },
			func(d *Definition) { d.Name = "Big" },
			func(d *Definition) { d.Name = strings.Repeat("a", 33) },
		},
		"command": {
			func(d *Definition) { d.Command = nil },
			func(d *Definition) { d.Command = []string{""} },
			func(d *Definition) { d.Command = []string{"{prompt}"}; d.Prompt = PromptArgument },
			func(d *Definition) { d.Command = []string{"a", "{prompt}"} },
			func(d *Definition) { d.Prompt = PromptArgument },
			func(d *Definition) { d.Command = []string{"a", "{prompt}", "x{prompt}"}; d.Prompt = PromptArgument },
			func(d *Definition) { d.Prompt = PromptFile },
			func(d *Definition) { d.Command = []string{"a", "{prompt_file}", "{prompt}"}; d.Prompt = PromptFile },
			func(d *Definition) { d.Command = []string{"a\x00b"} },
		},
		"prompt": {func(d *Definition) { d.Prompt = "socket" }},
		"network": {
			func(d *Definition) { d.Network = "some" },
			func(d *Definition) { d.Network = NetworkGateway },
		},
		"forward": {
			func(d *Definition) { d.Forward = map[string]string{"HOME": "https://api.example.com"} },
			func(d *Definition) { d.Forward = map[string]string{"MY_URL": "api.example.com"} },
			func(d *Definition) { d.Forward = map[string]string{"MY_URL": "https://api.example.com/?a=b"} },
		},
		"hosts": {
			func(d *Definition) { d.Models = []Model{{Host: "https://api.example.com"}} },
			func(d *Definition) { d.Models = []Model{{Host: "api.example.com", BaseURL: "A B"}} },
		},
		"pass_env": {
			func(d *Definition) { d.PassEnv = []string{"A=B"} },
			func(d *Definition) { d.PassEnv = []string{"HOME"} },
			func(d *Definition) { d.PassEnv = []string{""} },
		},
		"env": {
			func(d *Definition) { d.Env = map[string]string{"TMPDIR": "/tmp"} },
			func(d *Definition) { d.Env = map[string]string{"BESTOF_DEADLINE": "0"} },
			func(d *Definition) { d.Env = map[string]string{"A": "\x00"} },
		},
		"files": {
			func(d *Definition) { d.Files = map[string]string{"/etc/passwd": ""} },
			func(d *Definition) { d.Files = map[string]string{"../up": ""} },
			func(d *Definition) { d.Files = map[string]string{"..": ""} },
			func(d *Definition) { d.Files = map[string]string{"a//b": ""} },
			func(d *Definition) { d.Files = map[string]string{"a": "", "a/b": ""} },
			func(d *Definition) { d.Files = map[string]string{promptFileName: ""} },
		},
	} {
		for i, c := range change {
			d := good
			c(&d)
			err := d.Validate()
			if err == nil || !strings.Contains(err.Error(), key+": ") || !strings.HasPrefix(err.Error(), `agent "`) {
				t.Errorf("%s %d: %v", key, i, err)
			}
			if _, err := d.Plan(brief(), at); err == nil {
				t.Errorf("%s %d: planned all the same", key, i)
			}
		}
	}
}

func TestPlanGivesThePrompt(t *testing.T) {
	d := Definition{Name: "mine", Command: []string{"a", "--x"}, Env: map[string]string{"TERM": "xterm"}, PassEnv: []string{"KEY"}, Files: map[string]string{".a/b": "c"}}
	inv, err := d.Plan(brief(), at)
	if err != nil {
		t.Fatal(err)
	}
	want := Invocation{
		Argv: []string{"a", "--x"}, Stdin: []byte(Prompt(brief())), Env: map[string]string{"CI": "1", "NO_COLOR": "1", "TERM": "xterm"},
		PassEnv: []string{"KEY"}, Files: map[string][]byte{".a/b": []byte("c")},
	}
	if !reflect.DeepEqual(inv, want) {
		t.Errorf("got  %+v\nwant %+v", inv, want)
	}

	d.Prompt, d.Command = PromptFile, []string{"a", "--from={prompt_file}"}
	inv, err = d.Plan(brief(), at)
	if err != nil || inv.Argv[1] != "--from=/h/"+inv.PromptFile || string(inv.Files[inv.PromptFile]) != Prompt(brief()) || len(inv.Stdin) != 0 {
		t.Errorf("by file: %v, %q, %q", err, inv.Argv, inv.PromptFile)
	}
}

func TestLongPromptIsNotAnArgument(t *testing.T) {
	d := Definition{Name: "mine", Command: []string{"a", "{prompt}"}, Prompt: PromptArgument}
	b := brief()
	b.Task = strings.Repeat("x {prompt} ", MaxArgument/11)
	inv, err := d.Plan(b, at)
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Argv[1]) > 1000 || !strings.Contains(inv.Argv[1], "/h/"+inv.PromptFile) || string(inv.Files[inv.PromptFile]) != Prompt(b) {
		t.Errorf("argument of %d bytes, file %q of %d", len(inv.Argv[1]), inv.PromptFile, len(inv.Files[inv.PromptFile]))
	}
	b.Task = "a\x00b"
	if _, err := d.Plan(b, at); err == nil {
		t.Error("a zero byte passed as an argument")
	}
}

func TestMutateIsGivenAJob(t *testing.T) {
	i := slices.IndexFunc(Presets(), func(d Definition) bool { return d.Builtin })
	inv, err := Presets()[i].Plan(brief(), PlanContext{Self: "/opt/bestof", Root: "/r", Timeout: 90e9})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/opt/bestof", "internal", "agent", "mutate"}; !slices.Equal(inv.Argv, want) {
		t.Errorf("argv %q, want %q", inv.Argv, want)
	}
	job, err := ParseJob(inv.Stdin)
	want := Job{Candidate: 2, Candidates: 3, Root: "/r", Test: brief().Test, Protected: []string{"*_test.go"}, Timeout: "1m30s"}
	if err != nil || !reflect.DeepEqual(job, want) {
		t.Errorf("job %+v, %v\nwant %+v", job, err, want)
	}
	b := brief()
	b.Test = nil
	if _, err := Presets()[i].Plan(b, at); err == nil || !strings.Contains(err.Error(), "test") {
		t.Errorf("without a test: %v", err)
	}
	if _, err := Presets()[i].Plan(brief(), PlanContext{Root: "/r"}); err == nil {
		t.Error("planned without knowing this program's path")
	}
}

func TestPromptSaysWhatCounts(t *testing.T) {
	b := brief()
	p := Prompt(b)
	for _, want := range []string{"Fix the clock.\n", "# Context: witness paths\n\nclock.go", "    go test -run 'Test A' ./...\n", `- "*_test.go"`, "network"} {
		if !strings.Contains(p, want) {
			t.Errorf("lacks %q:\n%s", want, p)
		}
	}
	if strings.Contains(p, "Correction") || strings.Contains(p, "Context: empty") {
		t.Errorf("says too much:\n%s", p)
	}
	b.Round, b.Correction = 1, "The clock still runs backwards.\n"
	if p := Prompt(b); !strings.HasSuffix(p, "The clock still runs backwards.\n") || !strings.Contains(p, "round 2") {
		t.Errorf("the correction is not last:\n%s", p)
	}
	b.Number = 3
	if a := brief(); Prompt(a) != p {
		t.Error("candidates of a round are told different things")
	}
}

func TestParseCounts(t *testing.T) {
	got, err := ParseCounts("claude:3, codex,my-agent:1")
	if want := []Count{{"claude", 3}, {"codex", 1}, {"my-agent", 1}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for in, part := range map[string]string{
		"": "empty", "a:1,": "empty", "a:0": `"a:0"`, "a:": `"a:"`, "a:-1": `"a:-1"`, "a:+1": `"a:+1"`, "a:01": `"a:01"`, "b:1,a:x": `"a:x"`,
		"a:1,a:2": "twice", "A:1": `"A"`, "a b:1": `"a b"`, "a:1:2": `"1:2"`, "a:1001": "1001", "a:600,b:600": "together",
	} {
		if got, err := ParseCounts(in); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

func TestAssignTakesTurns(t *testing.T) {
	got := Assign([]Count{{"a", 3}, {"b", 1}}, 6)
	if want := []string{"a", "b", "a", "a", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		var counts []Count
		total := 0
		for i, n := range rapid.SliceOfN(rapid.IntRange(1, 9), 1, 5).Draw(t, "counts") {
			counts = append(counts, Count{string(rune('a' + i)), n})
			total += n
		}
		all := Assign(counts, total)
		for _, c := range counts {
			n := 0
			for _, name := range all {
				if name == c.Agent {
					n++
				}
			}
			if n != c.N {
				t.Fatalf("%s assigned %d times, want %d", c.Agent, n, c.N)
			}
		}
		if n := rapid.IntRange(0, 20).Draw(t, "n"); len(Assign(counts, n)) != n {
			t.Fatalf("%d agents for %d candidates", len(Assign(counts, n)), n)
		}
	})
	if len(Assign(nil, 3)) != 0 {
		t.Error("agents from nothing")
	}
}

func FuzzParseCounts(f *testing.F) {
	f.Add("claude:3,codex:1")
	f.Fuzz(func(t *testing.T, s string) {
		counts, err := ParseCounts(s)
		if err != nil {
			return
		}
		var parts []string
		for _, c := range counts {
			b, err := json.Marshal(c.N)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, c.Agent+":"+string(b))
		}
		again, err := ParseCounts(strings.Join(parts, ","))
		if err != nil || !slices.Equal(again, counts) {
			t.Errorf("%q → %v → %v, %v", s, counts, again, err)
		}
	})
}

func FuzzParseJob(f *testing.F) {
	f.Add([]byte(`{"candidate":1,"candidates":2,"round":0,"root":"/r","test":["a"],"protected":null,"timeout":"1s","tries":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := ParseJob(b)
		if err == nil && (j.Candidate < 1 || j.Candidate > j.Candidates || j.Root == "" || j.Root[0] != '/') {
			t.Errorf("accepted %+v", j)
		}
	})
}

func TestReaches(t *testing.T) {
	preset := func(name string) Definition {
		for _, d := range Presets() {
			if d.Name == name {
				return d
			}
		}
		t.Fatalf("no preset %s", name)
		return Definition{}
	}
	own := Definition{Name: "own", PassEnv: []string{"MY_BASE_URL", "MY_KEY"}, Env: map[string]string{"SET_BASE_URL": "https://set.example.com:8443/v1"}, Models: []Model{{Host: "*.example.com"}}}
	for _, c := range []struct {
		d    Definition
		env  map[string]string
		want string
	}{
		{preset("claude"), nil, "api.anthropic.com"},
		{preset("claude"), map[string]string{"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080/x"}, "127.0.0.1:8080"},
		{preset("claude"), map[string]string{"ANTHROPIC_BASE_URL": "https://Models.Example.com"}, "models.example.com:443"},
		{preset("claude"), map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:8080"}, "api.anthropic.com"}, // it is not given that
		{preset("copilot"), map[string]string{"COPILOT_PROVIDER_BASE_URL": "http://localhost:1"}, "127.0.0.1:1 api.github.com"},
		{preset("opencode"), map[string]string{"OPENAI_BASE_URL": "http://a.example.com/v1"}, "a.example.com:80 api.anthropic.com generativelanguage.googleapis.com openrouter.ai"},
		{preset("mutate"), map[string]string{"OPENAI_BASE_URL": "http://a.example.com/v1"}, ""},
		{own, nil, "set.example.com:8443 *.example.com"},
		{own, map[string]string{"MY_BASE_URL": "http://[::1]:80", "MY_KEY": "http://key.example.org"}, "[::1]:80 set.example.com:8443 *.example.com"},
		{Definition{Name: "forwarded", Forward: map[string]string{"MY_URL": "https://api.example.com/v1"}}, nil, "api.example.com:443"},
	} {
		rules, err := c.d.Reaches(func(name string) string { return c.env[name] })
		var got []string
		for _, r := range rules {
			got = append(got, r.String())
		}
		if text := strings.Join(got, " "); text != c.want || err != nil {
			t.Errorf("%s with %v reaches %q, %v, want %q", c.d.Name, c.env, text, err, c.want)
		}
	}
	for _, bad := range []string{"api.example.com", "ftp://api.example.com", "http://", "http://a b", "http://u:p@a..b/secret"} {
		_, err := preset("claude").Reaches(func(string) string { return bad })
		if err == nil || !strings.Contains(err.Error(), "ANTHROPIC_BASE_URL") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
