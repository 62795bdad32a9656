package call_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox/process"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/wire"
)

const arbiter = "name = 'p'\n[loop]\nparticipation = 'arbiter'\nhooks = ['Stop']\n[requirements]\na = 'b'\n"

// TestHook: a hook is started with its payload, its variables and no more, and
// what goes wrong with it is a fault of its kind.
func TestHook(t *testing.T) {
	payload := hook.Payload{Event: hook.Stop, Cwd: "/w", FinalText: "done"}
	for box, sb := range sandboxes(t) {
		for name, c := range map[string]struct {
			script, want string
			fault        error
		}{
			"the payload":   {"cat", `{"event":"Stop","cwd":"/w","finalText":"done"}` + "\n", nil},
			"its variables": {`echo "$MINE|$OTHER|$X_API_KEY|$HOME"`, "1|||\n", nil},
			"no network":    {`grep -c : /proc/net/dev`, "1\n", nil},
			"a status":      {"echo no; echo because >&2; exit 3", "", wire.ErrExit},
			"a signal":      {"kill -9 $$", "", wire.ErrExit},
			"late":          {"while :; do sleep 1; done", "", wire.ErrTimeout},
			"too much":      {"head -c 9000000 /dev/zero", "", wire.ErrOutputCap},
		} {
			if box == "process" && name == "no network" {
				c.script = "echo 1" // it has none to take away
			}
			t.Run(box+"/"+name, func(t *testing.T) {
				t.Parallel()
				p, at := load(t, map[string]string{
					"plugin.toml": arbiter + "[runtime]\nargv = ['${plugin_dir}/main.sh']\ntimeout_secs = 8\nenv = ['PATH', 'MINE', 'X_API_KEY']\n",
					"main.sh":     "#!/bin/sh\n" + c.script + "\n",
				})
				out, r, err := p.Hook(t.Context(), sb, options(), at, payload)
				if string(out) != c.want || !errors.Is(err, c.fault) {
					t.Errorf("%q, %v, %s", out, err, r.Stderr.Head)
				}
				if name == "a status" && !strings.HasSuffix(err.Error(), "status 3: because") {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// TestHookNotDeclared: the process that would answer is not even started.
func TestHookNotDeclared(t *testing.T) {
	p, at := load(t, map[string]string{"plugin.toml": arbiter + "[runtime]\nargv = ['${plugin_dir}/main.sh']\ntimeout_secs = 2\n", "main.sh": "#!/bin/sh\necho > \"$(dirname \"$0\")/ran\"\n"})
	sb := process.New(options())
	for _, e := range []hook.Event{hook.SessionStart, "PreToolUse"} {
		if _, _, err := p.Hook(t.Context(), sb, options(), at, hook.Payload{Event: e}); !errors.Is(err, call.ErrNotAsked) {
			t.Errorf("%s: %v", e, err)
		}
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestOperatorsCommand(t *testing.T) {
	script := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(script, []byte("echo \"$MINE|$X_API_KEY\"; cat\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for box, sb := range sandboxes(t) {
		_, at := load(t, map[string]string{"plugin.toml": "name = 'p'"})
		out, r, err := call.Command{Argv: []string{"/bin/sh", script}}.Hook(t.Context(), sb, at, hook.Payload{Event: hook.Stop, Cwd: "/w"})
		if want := "|\n" + `{"event":"Stop","cwd":"/w"}` + "\n"; err != nil || string(out) != want {
			t.Errorf("%s: %q, %v, %s", box, out, err, r.Stderr.Head)
		}
		if _, _, err = (call.Command{Argv: []string{"no-such-program"}}).Hook(t.Context(), sb, at, hook.Payload{}); !errors.Is(err, wire.ErrSpawn) {
			t.Errorf("%s: %v", box, err)
		}
		late := call.Command{Argv: []string{"sh", "-c", "while :; do sleep 1; done"}, Timeout: 200 * time.Millisecond}
		if _, _, err = late.Hook(t.Context(), sb, at, hook.Payload{}); !errors.Is(err, wire.ErrTimeout) {
			t.Errorf("%s: %v", box, err)
		}
	}
}
