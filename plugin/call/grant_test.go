package call_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// TestEnvironmentOfTheTest: protocol 2 is told the whole environment that a test
// has in the very place, and it is the one that a program of that place has;
// protocol 1 has no room for it.
func TestEnvironmentOfTheTest(t *testing.T) {
	for box, sb := range sandboxes(t) {
		for version, text := range map[uint32]string{1: "", 2: "protocol = 2\n"} {
			p, at := load(t, map[string]string{
				"plugin.toml": head + "[runtime]\nargv = ['${plugin_dir}/main.sh']\ntimeout_secs = 9\nenv = ['PATH', 'TMPDIR']\n" + text,
				"main.sh":     "#!/bin/sh\ncat > \"$TMPDIR/request\"\nexit 1\n",
			})
			at.Env = map[string]string{"GOFLAGS": "-v"}
			if _, _, err := p.Exchange(t.Context(), sb, options(), at, request(at.Root)); !errors.Is(err, wire.ErrExit) {
				t.Fatalf("%s: %v", box, err)
			}
			var told struct {
				Body struct {
					Candidate struct{ Test map[string]json.RawMessage }
				}
			}
			b, err := os.ReadFile(filepath.Join(at.Home, "tmp/request"))
			if err != nil || json.Unmarshal(b, &told) != nil {
				t.Fatalf("%s: %q, %v", box, b, err)
			}
			raw, ok := told.Body.Candidate.Test["env"]
			if version == 1 {
				if ok {
					t.Errorf("%s: protocol 1 is told %s", box, raw)
				}
				continue
			}
			var env map[string]string
			if err := json.Unmarshal(raw, &env); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"GOFLAGS": "-v", "HOME": at.Home, "TMPDIR": filepath.Join(at.Home, "tmp"), "X_API_KEY": "", "MINE": "", "SSH_AUTH_SOCK": ""} {
				if env[name] != want {
					t.Errorf("%s: %s is %q, want %q", box, name, env[name], want)
				}
			}
			res, err := sb.Run(t.Context(), sandbox.Spec{Argv: []string{"env", "-0"}, Root: at.Root, Home: at.Home, Env: at.Env, Network: sandbox.NetworkNone, Timeout: 9e9})
			if err != nil || !res.OK() {
				t.Fatalf("%s: %+v, %v", box, res, err)
			}
			for kv := range strings.SplitSeq(strings.TrimSuffix(string(res.Stdout.Head), "\x00"), "\x00") {
				name, value, _ := strings.Cut(kv, "=")
				if name != "BESTOF_DEADLINE" && name != "BESTOF_TIMEOUT_SECONDS" && name != "PWD" && env[name] != value {
					t.Errorf("%s: %s is %q where a test runs, and the plugin is told %q", box, name, value, env[name])
				}
			}
		}
	}
}

const online = `test "$(readlink /proc/self/ns/net)" = `

// TestNothingThatWasNotAgreedTo: at every level, for hooks and for tools, the
// network and a tool's risk are those that the manifest asked for.
func TestNothingThatWasNotAgreedTo(t *testing.T) {
	host := online + "'" + netns(t) + "'"
	asks := "[[capabilities]]\ntool = 'network'\nrisk = 'high'\npurpose = 'p'\n"
	for box, sb := range sandboxes(t) {
		for _, network := range []bool{false, true} {
			files := map[string]string{
				"plugin.toml":  arbiter + "[runtime]\nargv = ['${plugin_dir}/main.sh']\ntimeout_secs = 9\nenv = ['PATH']\n[[tools]]\nname = 'reach'\ndescription = 'd'\n[[tools]]\nname = 'push'\ndescription = 'd'\n[[capabilities]]\ntool = 'push'\nrisk = 'medium'\npurpose = 'p'\n",
				"main.sh":      "#!/bin/sh\ncat > /dev/null\n" + host + " && echo yes || echo no\n",
				"tools/r.toml": "name = 'reach'\ndescription = 'd'\ncommand = ['${plugin_dir}/main.sh']\nrisk = 'destructive'\n",
				"tools/p.toml": "name = 'push'\ndescription = 'd'\ncommand = ['sh', '-c', 'echo > pushed']\nrisk = 'high'\n",
			}
			want := "no\n"
			if network {
				files["plugin.toml"] += asks
				want = "yes\n"
			}
			p, at := load(t, files)
			if out, _, err := p.Hook(t.Context(), sb, options(), at, hook.Payload{Event: hook.Stop, Cwd: "/w"}); err != nil || string(out) != want {
				t.Errorf("%s: the hook reaches the network: %q, want %q, %v", box, out, want, err)
			}
			if r, err := p.Tool(t.Context(), sb, at, "reach", []byte(`{}`)); err != nil || string(r.Stdout.Head) != want {
				t.Errorf("%s: the tool reaches the network: %q, want %q, %v", box, r.Stdout.Head, want, err)
			}
			if _, err := p.Tool(t.Context(), sb, at, "push", []byte(`{}`)); !errors.Is(err, call.ErrRefused) || !strings.Contains(err.Error(), "asks for it as medium") {
				t.Errorf("%s: %v", box, err)
			}
			if _, err := os.Stat(filepath.Join(at.Root, "pushed")); err == nil {
				t.Errorf("%s: it ran", box)
			}
			own := call.Command{Argv: []string{"sh", "-c", "cat > /dev/null; " + host + " && echo yes || echo no"}, Network: network}
			if out, _, err := own.Hook(t.Context(), sb, at, hook.Payload{Event: hook.Stop, Cwd: "/w"}); err != nil || string(out) != want {
				t.Errorf("%s: the operator's hook reaches the network: %q, want %q, %v", box, out, want, err)
			}
		}
	}
}
