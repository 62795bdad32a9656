package hook_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/hook"
)

func TestParse(t *testing.T) {
	const deny = `{"action":"deny","reason":"no"}`
	denied := hook.Decision{Action: hook.Deny, Reason: "no"}
	for _, c := range []struct {
		name, stdout string
		want         hook.Decision
		err          string
	}{
		{"nothing", "", hook.Decision{}, ""},
		{"white space", " \n\t\n", hook.Decision{}, ""},
		{"text", "all is well\nreally", hook.Decision{}, ""},
		{"no object", "42", hook.Decision{}, ""},
		{"a list", `["deny"]`, hook.Decision{}, ""},
		{"a word", `"deny"`, hook.Decision{}, ""},
		{"information", `{"checked":3}`, hook.Decision{}, ""},
		{"allow", `{"action":"allow"}`, hook.Decision{Action: hook.Allow}, ""},
		{"deny", deny, denied, ""},
		{"after text", "looking\nfound\n" + deny + "\n\n", denied, ""},
		{"CRLF", "looking\r\n" + deny + "\r\n", denied, ""},
		{"over lines", "{\n \"action\": \"deny\",\n \"reason\": \"no\"\n}\n", denied, ""},
		{"the last line counts", deny + "\n" + `{"action":"allow"}`, hook.Decision{Action: hook.Allow}, ""},
		{"a last line without decision", deny + "\ndone", hook.Decision{}, ""},
		{"evidence", `{"action":"deny","reason":"no","evidence":"line 3"}`, hook.Decision{Action: hook.Deny, Reason: "no", Evidence: "line 3"}, ""},
		{"evidence that is no text", `{"action":"deny","reason":"no","evidence":{"line":3}}`, hook.Decision{Action: hook.Deny, Reason: "no", Evidence: `{"line":3}`}, ""},
		{"null evidence", `{"action":"deny","reason":"no","evidence":null}`, denied, ""},
		{"approval", `{"action":"require_approval","reason":"ask"}`, hook.Decision{Action: hook.RequireApproval, Reason: "ask"}, ""},
		{"more keys", `{"action":"deny","reason":"no","suppress":true}`, denied, ""},
		{"control characters", `{"action":"deny","reason":"a\u001b[2Jb\r\nc"}`, hook.Decision{Action: hook.Deny, Reason: "a\\u{1b}[2Jb\nc"}, ""},

		{"no reason", `{"action":"deny"}`, hook.Decision{}, "to deny: reason is not a string"},
		{"blank reason", `{"action":"require_approval","reason":" \n"}`, hook.Decision{}, "to require_approval: reason is empty"},
		{"number as reason", `{"action":"deny","reason":3}`, hook.Decision{}, "reason is not a string"},
		{"null action", `{"action":null}`, hook.Decision{}, "action is not a string"},
		{"unknown action", `{"action":"block","reason":"x"}`, hook.Decision{}, `"block" is not one of allow, deny, require_approval`},
		{"case", `{"action":"Deny","reason":"x"}`, hook.Decision{}, "not one of"},
		{"case of the key is another key", `{"Action":"deny","reason":"x"}`, hook.Decision{}, ""},
		{"modify", `{"action":"modify","payload":{"input":{}}}`, hook.Decision{}, "there is none here"},
		{"twice", `{"action":"allow","action":"deny","reason":"x"}`, hook.Decision{}, `"action" twice`},
		{"broken", `{"action":"deny","reason":"x"`, hook.Decision{}, "not well-formed"},
		{"broken after text", "hm\n{action: deny}", hook.Decision{}, "not well-formed"},
		{"over lines after text", "hm\n{\n\"action\":\"deny\",\"reason\":\"x\"\n}", hook.Decision{}, "not well-formed"},
		{"two on a line", deny + deny, hook.Decision{}, "not well-formed"},
		{"not UTF-8", "{\"action\":\"deny\",\"reason\":\"\xff\"}", hook.Decision{}, "not UTF-8"},
	} {
		got, err := hook.Parse(hook.Stop, []byte(c.stdout))
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", c.name, got, err, c.want, c.err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "x", `{"action":"deny","reason":"r","evidence":[1]}`, "a\n{\"action\":\"allow\"}", `{"action":"\u0061llow"}`, "{\"action\":\"deny\",\"reason\":\"\\ud800\u202e\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stdout []byte) {
		d, err := hook.Parse(hook.Stop, stdout)
		if err != nil && d != (hook.Decision{}) {
			t.Fatalf("a decision and %v", err)
		}
		if err == nil && d.Action.Blocks() == (d.Reason == "") {
			t.Fatalf("%+v: who blocks has a reason, and nobody else", d)
		}
		if !slices.Contains([]hook.Action{"", hook.Allow, hook.Deny, hook.RequireApproval}, d.Action) {
			t.Fatalf("action %q", d.Action)
		}
		for _, s := range []string{d.Reason, d.Evidence, hook.Context(stdout)} {
			if !harmless(s) {
				t.Fatalf("%q", s)
			}
		}
	})
}

// harmless text moves no cursor and hides nothing.
func harmless(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

func TestContext(t *testing.T) {
	for stdout, want := range map[string]string{
		"":                                "",
		"  use tabs\n\there \n\n":         "use tabs\n\there",
		"\x1b[31mred\x07":                 `\u{1b}[31mred\u{7}`,
		`{"note":"x"}`:                    `{"note":"x"}`,
		`{"action":"allow"}`:              "",
		`{"action":"deny","reason":"no"}`: "",
		"{not json":                       "",
	} {
		if got := hook.Context([]byte(stdout)); got != want {
			t.Errorf("%q: %q, want %q", stdout, got, want)
		}
	}
	long := hook.Context([]byte(strings.Repeat("ä", hook.MaxContext)))
	if len(long) > hook.MaxContext+10 || !strings.HasSuffix(long, "ä\n[cut]") {
		t.Errorf("%d bytes, ends %q", len(long), long[len(long)-10:])
	}
}

// TestCombine: the worst answer counts, in whichever order they come, and the
// correction has every reason of those that block and nothing of the others.
func TestCombine(t *testing.T) {
	order := []hook.Action{"", hook.Allow, hook.RequireApproval, hook.Deny}
	rapid.Check(t, func(t *rapid.T) {
		picks := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 6).Draw(t, "answers")
		var answers []hook.Answer
		worst := 0
		for i, p := range picks {
			worst = max(worst, p)
			answers = append(answers, hook.Answer{From: "h" + string(rune('a'+i)), Decision: hook.Decision{Action: order[p], Reason: "because-" + string(rune('a'+i))}})
		}
		if got := hook.Combine(answers); got != order[worst] {
			t.Fatalf("%v come to %q, want %q", picks, got, order[worst])
		}
		text := hook.Correction(answers)
		if (text != "") != hook.Combine(answers).Blocks() {
			t.Fatalf("%v: correction %q", picks, text)
		}
		for i, a := range answers {
			mark := "[stop-hook feedback from " + a.From + "] because-" + string(rune('a'+i))
			if strings.Contains(text, mark) != a.Action.Blocks() {
				t.Fatalf("%v: correction %q", picks, text)
			}
		}
	})
	text := hook.Correction([]hook.Answer{{From: "a\nb", Decision: hook.Decision{Action: hook.RequireApproval, Reason: "r"}}, {From: "c", Decision: hook.Decision{Action: hook.Deny, Reason: "s", Evidence: "e"}}})
	if want := "[stop-hook feedback from a\\u{a}b] r (this needs a person's approval, and nobody can be asked during a run)\n[stop-hook feedback from c] s\nEvidence: e\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

func TestPayload(t *testing.T) {
	b, err := hook.Payload{Event: hook.Stop, Cwd: "/w", FinalText: "done\n\"yes\""}.Encode()
	if want := `{"event":"Stop","cwd":"/w","finalText":"done\n\"yes\""}` + "\n"; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	b, err = hook.Payload{Event: hook.SessionStart, Cwd: "/w"}.Encode()
	var keys map[string]any
	if err != nil || json.Unmarshal(b, &keys) != nil || len(keys) != 2 {
		t.Errorf("%s, %v", b, err)
	}
	for _, e := range hook.Seen() {
		if !slices.Contains(plugin.Hooks(), e) {
			t.Errorf("%s is no hook", e)
		}
	}
}
