package conform_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/conform"
)

const text = `name = "p"
[loop]
participation = "arbiter"
hooks = ["Stop"]
points = ["after_turn"]
[requirements]
r = "s"
[oracle]
flip = "not-applicable"
measurements = ["m"]
checks = [{requirement = "r", check = "m > 0"}]
[runtime]
argv = ["x"]
timeout_secs = 1
`

const good = `{"point":"after_turn","body":{"protocol_version":1,"evidence":{"flip":"not-attempted","measurements":{"m":1}}}}`

func exited(code int, stdout, stderr string) sandbox.Result {
	return sandbox.Result{End: sandbox.Exited, Code: code, Stdout: sandbox.Output{Head: []byte(stdout)}, Stderr: sandbox.Output{Head: []byte(stderr)}}
}

// TestFindsWhatIsWrong: each way to break the contract is found in a case of
// its kind, with what is wrong.
func TestFindsWhatIsWrong(t *testing.T) {
	m, err := plugin.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		result   sandbox.Result
		answered string // what is found where an answer is due, "" for nothing
		refused  string // and where a refusal is
	}{
		"always answers":      {exited(0, good, ""), "", "it has to refuse this, and ended with status 0"},
		"always refuses":      {exited(1, "", "p: no\n"), "ended with status 1, signal 0: p: no", ""},
		"is silent":           {exited(1, "", ""), "ended with status 1", "one line on stderr; it wrote 0"},
		"explains at length":  {exited(1, "", "p: no\nbecause\n"), "ended with status 1", "one line on stderr; it wrote 2"},
		"refuses and talks":   {exited(1, "{}", "p: no"), "ended with status 1", "wrote to stdout as well"},
		"greets":              {exited(0, "hello "+good, ""), "not a single JSON object", "status 0"},
		"answers twice":       {exited(0, good+good, ""), "not a single JSON object", "status 0"},
		"uses a policy word":  {exited(0, strings.Replace(good, "not-attempted", "not-applicable", 1), ""), "flip is one of", "status 0"},
		"reports tampering":   {exited(0, strings.Replace(good, `"flip"`, `"tamper":"clean","flip"`, 1), ""), "tamper", "status 0"},
		"has no whole number": {exited(0, strings.Replace(good, `:1}}`, `:1.0}}`, 1), ""), "integer", "status 0"},
		"is killed":           {sandbox.Result{End: sandbox.Exited, Signal: 11}, "signal 11", "killed by signal 11"},
		"hangs":               {sandbox.Result{End: sandbox.Deadline}, "did not end in its time", "did not end in its time"},
		"is not there":        {sandbox.Result{End: sandbox.NotRun, Reason: "no x"}, "could not be started: no x", "could not be started: no x"},
		"floods":              {sandbox.Result{End: sandbox.Exited, Stdout: sandbox.Output{Dropped: 1}}, "wrote far too much", "wrote far too much"},
	} {
		findings, err := conform.Check(t.Context(), m, "/empty", func(_ context.Context, in []byte) (sandbox.Result, error) {
			if strings.Contains(string(in), `"/tmp"`) {
				t.Errorf("%s: it is shown the directory for temporary files: %s", name, in)
			}
			return c.result, nil
		})
		if err != nil || len(findings) < 37 {
			t.Fatalf("%s: %d cases, %v", name, len(findings), err)
		}
		seen := map[string]bool{}
		for _, f := range findings {
			want, kind := c.refused, "refused"
			switch f.Case {
			case "vector 01-flip", "vector 04-no-test-in-grant", "a plain request", "null for the candidate", "a later round":
				want, kind = c.answered, "answered"
			case "hook Stop":
				if !f.Advice {
					t.Errorf("%s: %+v", name, f)
				}
				continue
			case "vector 06-bad-version", "vector 10-malformed", "two requests", "an unknown field of the turn", "nothing", "a key twice":
			default:
				continue
			}
			seen[kind] = true
			if f.OK != (want == "") || !strings.Contains(f.Detail, want) {
				t.Errorf("%s: %s: %+v, want %q", name, f.Case, f, want)
			}
		}
		if len(seen) != 2 || conform.Conforms(findings) {
			t.Errorf("%s: it conforms", name)
		}
	}
}

// TestAdviceIsNoFailure, and a host's failure is no finding.
func TestAdviceIsNoFailure(t *testing.T) {
	if !conform.Conforms([]conform.Finding{{OK: true}, {Advice: true}}) || conform.Conforms([]conform.Finding{{OK: true}, {}}) {
		t.Error("what conforms is not told from what does not")
	}
	m, err := plugin.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no sandbox")
	if _, err := conform.Check(t.Context(), m, "/empty", func(context.Context, []byte) (sandbox.Result, error) { return sandbox.Result{}, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	// What is not asked anything has nothing to keep.
	m, err = plugin.Parse([]byte("name='x'\n[loop]\nparticipation='observer'\n[runtime]\nargv=['x']\ntimeout_secs=1"))
	if err != nil {
		t.Fatal(err)
	}
	if cases, err := conform.Cases(m); err != nil || len(cases) > 0 {
		t.Errorf("%d cases, %v", len(cases), err)
	}
	m, err = plugin.Parse([]byte("name='x'\n[loop]\nparticipation='steering'\npoints=['before_turn']\n[runtime]\nargv=['x']\ntimeout_secs=1"))
	if err != nil {
		t.Fatal(err)
	}
	findings, err := conform.Check(t.Context(), m, "/empty", func(_ context.Context, in []byte) (sandbox.Result, error) {
		if strings.Contains(string(in), "zeal") || strings.Contains(string(in), ":9,") {
			return exited(1, "", "x: no"), nil
		}
		return exited(0, `{"point":"before_turn","body":{"protocol_version":1}}`, ""), nil
	})
	if err != nil || len(findings) != 4 || !conform.Conforms(findings) {
		t.Errorf("%+v, %v", findings, err)
	}
}

// TestHooks: each declared hook gets one well-formed payload, and what is wrong
// with the answer counts as it does in a run.
func TestHooks(t *testing.T) {
	m, err := plugin.Parse([]byte(strings.Replace(text, `["Stop"]`, `["Stop", "PreToolUse", "PostToolUse", "SessionStart"]`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		result sandbox.Result
		wrong  string // the hooks at which it is
	}{
		"quiet":           {exited(0, "", ""), ""},
		"text":            {exited(0, "fine\n", ""), ""},
		"allow":           {exited(0, `{"action":"allow"}`, ""), ""},
		"modify":          {exited(0, `{"action":"modify","payload":{"input":{}}}`, ""), "Stop"},
		"deny, no reason": {exited(0, `{"action":"deny"}`, ""), "PreToolUse Stop"},
		"garbage":         {exited(0, `{"action":`, ""), "PreToolUse Stop"},
		"refuses":         {exited(1, "", "p: what is this"), "SessionStart PreToolUse PostToolUse Stop"},
		"dies":            {sandbox.Result{End: sandbox.Exited, Signal: 9}, "SessionStart PreToolUse PostToolUse Stop"},
		"hangs":           {sandbox.Result{End: sandbox.Deadline}, "SessionStart PreToolUse PostToolUse Stop"},
	} {
		var payloads []string
		findings, err := conform.Check(t.Context(), m, "/empty", func(_ context.Context, in []byte) (sandbox.Result, error) {
			if strings.HasPrefix(string(in), `{"event"`) {
				payloads = append(payloads, strings.TrimSpace(string(in)))
				return c.result, nil
			}
			return exited(0, good, ""), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var wrong []string
		for _, f := range findings {
			hook, ok := strings.CutPrefix(f.Case, "hook ")
			if ok && f.Advice != (hook != "PreToolUse") {
				t.Errorf("%s: %+v", name, f)
			}
			if ok && !f.OK {
				wrong = append(wrong, hook)
			}
		}
		if got := strings.Join(wrong, " "); got != c.wrong {
			t.Errorf("%s: wrong at %s, want %s", name, got, c.wrong)
		}
		want := []string{
			`{"event":"SessionStart","cwd":"/empty"}`,
			`{"event":"PreToolUse","cwd":"/empty","tool":{"name":"mcp__server__tool","input":{"path":"a"},"read_only":false}}`,
			`{"event":"PostToolUse","cwd":"/empty","tool":{"name":"mcp__server__tool","input":{"path":"a"},"read_only":false},"toolResult":"the content of a"}`,
			`{"event":"Stop","cwd":"/empty","finalText":"done"}`,
		}
		if !slices.Equal(payloads, want) {
			t.Errorf("%s: payloads\n%s", name, strings.Join(payloads, "\n"))
		}
	}
}
