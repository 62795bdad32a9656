package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/hook"
)

// prints is a hook's program that prints what say returns for a payload.
func prints(say func(hook.Payload, *fake.Process) string) fake.Program {
	return func(_ context.Context, p *fake.Process) fake.Exit {
		var payload hook.Payload
		if err := json.NewDecoder(p.Stdin).Decode(&payload); err != nil {
			return fake.Exit{Code: 9}
		}
		fmt.Fprintln(p.Stdout, say(payload, p))
		return fake.Exit{}
	}
}

func at(e hook.Event, program string) Hook {
	return Hook{Event: e, From: program, Files: []string{program}, Run: call.Command{Argv: []string{program}, Timeout: time.Second}.Hook}
}

// prompts is an agent that keeps what it is told and writes text.
func prompts(kept *[]string, text string) fake.Program {
	return func(ctx context.Context, p *fake.Process) fake.Exit {
		b, err := io.ReadAll(p.Stdin)
		if err != nil {
			return fake.Exit{Code: 1}
		}
		*kept = append(*kept, string(b))
		fmt.Fprintln(p.Stdout, "I am done: the-secret-value")
		return writes(text)(ctx, p)
	}
}

func hookStage(t *testing.T, programs map[string]fake.Program, hooks ...Hook) *stage {
	t.Helper()
	programs["check"], programs[self] = check, plugin
	s := newStage(t, fake.New(sandbox.Options{}, programs), "agent")
	s.cfg.Seats[0].Agent.Prompt = agent.PromptStdin
	s.cfg.Hooks, s.cfg.Settings.MaxBlocks = hooks, hook.DefaultBlocks
	return s
}

func said(hooks []record.Hook) string {
	var lines []string
	for _, h := range hooks {
		fault := ""
		if h.Fault != "" {
			fault = "!"
		}
		lines = append(lines, fmt.Sprintf("%s %s %d %s%s", h.Event, h.From, h.Round, h.Action, fault))
	}
	return strings.Join(lines, "; ")
}

const allow, deny = `{"action":"allow"}`, `{"action":"deny","reason":"say please"}`

// A candidate that a Stop hook sends back gets another round with the reason,
// and the hook looks at a tree of its own.
func TestStopSendsBack(t *testing.T) {
	var told []string
	var seen []hook.Payload
	stop := prints(func(p hook.Payload, at *fake.Process) string {
		seen = append(seen, p)
		b, err := os.ReadFile(filepath.Join(at.Dir, "value"))
		if err != nil || string(b) != "right\n" || p.Cwd != at.Spec.Root {
			return `{"action":"deny","reason":"this is not the candidate's tree"}`
		}
		// What a hook does to its shadow reaches nobody.
		if err := os.WriteFile(filepath.Join(at.Dir, "value"), []byte("spoilt"), 0o644); err != nil {
			return deny
		}
		if len(seen) == 1 {
			return deny
		}
		return allow
	})
	s := hookStage(t, map[string]fake.Program{"agent": prompts(&told, "right\n"), "stop": stop}, at(hook.Stop, "stop"))
	doc := s.run(t)
	c := doc.Candidates[0]
	if c.Outcome != candidate.Met || c.Rounds != 2 || said(c.Hooks) != "Stop stop 0 deny; Stop stop 1 allow" || c.Hooks[0].Reason != "say please" {
		t.Errorf("%s after %d rounds: %s", c.Outcome, c.Rounds, said(c.Hooks))
	}
	if len(told) != 2 || strings.Contains(told[0], "stop-hook") || !strings.Contains(told[1], "[stop-hook feedback from stop] say please") {
		t.Errorf("the agent was told %q", told)
	}
	if seen[0].Event != hook.Stop || !strings.Contains(seen[0].FinalText, "I am done") || strings.Contains(seen[0].FinalText, "the-secret-value") {
		t.Errorf("payload %+v", seen[0])
	}
	s.checkEvents(t)
	if m := s.cfg.Sandbox.(*fake.Sandbox).Misuse(); len(m) > 0 {
		t.Errorf("the sandbox was misused: %v", m)
	}
}

// Blocked stops have a limit of their own: they take none of the holds, and the
// holds none of them.
func TestStopsAndHoldsAreCountedApart(t *testing.T) {
	for name, c := range map[string]struct {
		writes        string
		answers       []string // after them: allow
		blocks, holds int
		rounds        int
		outcome       candidate.Outcome
	}{
		"always denied":          {"right\n", []string{deny, deny, deny, deny, deny}, 3, 0, 4, candidate.Met},
		"fewer":                  {"right\n", []string{deny, deny, deny, deny, deny}, 1, 0, 2, candidate.Met},
		"approval is not given":  {"right\n", []string{`{"action":"require_approval","reason":"ask"}`}, 3, 0, 2, candidate.Met},
		"holds are left":         {"worse\n", []string{deny, deny}, 3, 2, 5, candidate.Unmet},
		"stops are left":         {"worse\n", []string{allow, deny, allow, deny}, 2, 2, 5, candidate.Unmet},
		"allowing costs nothing": {"worse\n", []string{allow, allow, allow, deny}, 1, 3, 5, candidate.Unmet},
	} {
		t.Run(name, func(t *testing.T) {
			i := 0
			stop := prints(func(hook.Payload, *fake.Process) string {
				if i++; i <= len(c.answers) {
					return c.answers[i-1]
				}
				return allow
			})
			s := hookStage(t, map[string]fake.Program{"agent": writes(c.writes), "stop": stop}, at(hook.Stop, "stop"))
			s.cfg.Settings.MaxBlocks, s.cfg.Settings.MaxHolds = c.blocks, c.holds
			got := s.run(t).Candidates[0]
			if got.Rounds != c.rounds || got.Outcome != c.outcome {
				t.Errorf("%s after %d rounds, want %s after %d: %s", got.Outcome, got.Rounds, c.outcome, c.rounds, said(got.Hooks))
			}
		})
	}
}

// A hook that fails holds nothing up. It is told once, and does not keep
// another from sending the candidate back.
func TestFailingHooks(t *testing.T) {
	programs := map[string]fake.Program{
		"agent": writes("right\n"), "late": fake.Hang,
		"dies":     func(context.Context, *fake.Process) fake.Exit { return fake.Exit{Code: 2} },
		"nonsense": fake.Say(`{"action":"maybe"}`, 0),
		"denies": func(_ context.Context, p *fake.Process) fake.Exit { // a decision counts only with status 0
			fmt.Fprint(p.Stdout, deny)
			return fake.Exit{Code: 1}
		},
		"no": fake.Say(deny, 0),
	}
	s := hookStage(t, programs, at(hook.SessionStart, "dies"), at(hook.SessionStart, "no"), at(hook.Stop, "dies"), at(hook.Stop, "nonsense"), at(hook.Stop, "late"), at(hook.Stop, "denies"), at(hook.Stop, "absent"))
	s.cfg.Hooks[3].Point = true
	doc := s.run(t)
	c := doc.Candidates[0]
	want := "SessionStart dies 0 !; SessionStart no 0 ; Stop dies 0 !; Stop nonsense 0 !; Stop late 0 !; Stop denies 0 !; Stop absent 0 !"
	if c.Outcome != candidate.Met || c.Rounds != 1 || said(c.Hooks) != want {
		t.Errorf("%s after %d rounds: %s", c.Outcome, c.Rounds, said(c.Hooks))
	}
	if len(doc.Notices) != 6 || !strings.Contains(strings.Join(doc.Notices, "\n"), "nonsense says nothing at Stop") {
		t.Errorf("notices %q", doc.Notices)
	}

	s = hookStage(t, programs, at(hook.Stop, "dies"), at(hook.Stop, "no"))
	doc = s.run(t)
	if c := doc.Candidates[0]; c.Rounds != 4 || c.Outcome != candidate.Met {
		t.Errorf("%s after %d rounds: %s", c.Outcome, c.Rounds, said(c.Hooks))
	}
	if len(doc.Notices) != 2 {
		t.Errorf("notices %q", doc.Notices)
	}
}

// SessionStart hooks speak to their candidate alone, once, from the base; what
// they print is clean and stays for later rounds.
func TestSessionStart(t *testing.T) {
	var told []string
	starts := 0
	start := prints(func(p hook.Payload, at *fake.Process) string {
		starts++
		b, err := os.ReadFile(filepath.Join(at.Dir, "value"))
		if err != nil || string(b) != "wrong\n" || p.Event != hook.SessionStart {
			return "this is not the base"
		}
		return fmt.Sprintf("hello %d \x1b[2J the-secret-value", starts)
	})
	s := hookStage(t, map[string]fake.Program{"agent": prompts(&told, "right\n"), "start": start, "once": once(deny, allow)}, at(hook.SessionStart, "start"), at(hook.Stop, "once"))
	s.cfg.Seats = append(s.cfg.Seats, s.cfg.Seats[0])
	s.cfg.Seats[1].Number = 2
	s.cfg.Settings.Jobs = 1
	doc := s.run(t)
	if starts != 2 || len(told) != 3 {
		t.Fatalf("%d starts, %d rounds", starts, len(told))
	}
	for i, n := range []int{1, 1, 2} {
		if want := fmt.Sprintf("# Context: from start at SessionStart\n\nhello %d \\u{1b}[2J ", n); !strings.Contains(told[i], want) {
			t.Errorf("round %d was told %q", i, told[i])
		}
		if strings.Contains(told[i], "the-secret-value") || strings.Contains(told[i], fmt.Sprintf("hello %d", 3-n)) {
			t.Errorf("round %d was told %q", i, told[i])
		}
	}
	if h := doc.Candidates[1].Hooks[0]; !strings.HasPrefix(h.Text, "hello 2") || h.Round != 0 {
		t.Errorf("%+v", h)
	}
}

// once answers with first and then with rest.
func once(first, rest string) fake.Program {
	asked := false
	return prints(func(hook.Payload, *fake.Process) string {
		if asked {
			return rest
		}
		asked = true
		return first
	})
}

// Nothing is asked about a candidate that changed nothing or that ran out of
// time: it does not claim to be finished.
func TestStopIsNotAskedInVain(t *testing.T) {
	asked := false
	stop := prints(func(hook.Payload, *fake.Process) string { asked = true; return deny })
	s := hookStage(t, map[string]fake.Program{"agent": func(context.Context, *fake.Process) fake.Exit { return fake.Exit{} }, "stop": stop}, at(hook.Stop, "stop"))
	if c := s.run(t).Candidates[0]; c.Outcome != candidate.Empty || asked {
		t.Errorf("%s, asked %v", c.Outcome, asked)
	}
	s = hookStage(t, map[string]fake.Program{"agent": func(ctx context.Context, p *fake.Process) fake.Exit {
		writes("right\n")(ctx, p)
		<-ctx.Done()
		return fake.Exit{Signal: 15}
	}, "stop": stop}, at(hook.Stop, "stop"))
	s.cfg.Timeout, s.cfg.VerifyTimeouts = time.Second, true
	if c := s.run(t).Candidates[0]; c.Outcome != candidate.Met || asked {
		t.Errorf("%s, asked %v", c.Outcome, asked)
	}
}

// A candidate must not edit the hook that judges it, where the hook is a file
// of the repository.
func TestHooksOfTheRepositoryAreProtected(t *testing.T) {
	s := hookStage(t, map[string]fake.Program{
		"agent": func(ctx context.Context, p *fake.Process) fake.Exit {
			if err := os.WriteFile(filepath.Join(p.Dir, "check"), []byte("exit 0\n"), 0o644); err != nil {
				return fake.Exit{Code: 1}
			}
			return writes("right\n")(ctx, p)
		},
		"sh": func(_ context.Context, p *fake.Process) fake.Exit {
			b, err := os.ReadFile(filepath.Join(p.Dir, "check"))
			if err != nil || !bytes.Equal(b, []byte("#\n")) {
				fmt.Fprint(p.Stdout, deny)
			}
			return fake.Exit{}
		},
	}, Hook{Event: hook.Stop, From: "sh", Files: []string{"sh", "./check"}, Run: call.Command{Argv: []string{"sh", "./check"}}.Hook})
	s.cfg.Settings.Test = nil
	s.cfg.Settings.AllowUndecided = true
	doc := s.run(t)
	if c := doc.Candidates[0]; c.Outcome != candidate.Tampered || c.Rounds != 1 || !slices.Contains(doc.Settings.Witness, "check") {
		t.Errorf("%s after %d rounds, witness %v: %s", c.Outcome, c.Rounds, doc.Settings.Witness, said(c.Hooks))
	}
}
