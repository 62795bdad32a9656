package call_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/bwrap"
	"github.com/bestof-dev/bestof/candidate/sandbox/process"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/wire"
)

const head = "name = 'p'\n[loop]\nparticipation = 'steering'\npoints = ['after_turn']\n"

// answer prints evidence whose flip is achieved if the condition holds.
func answer(condition string) string {
	return "#!/bin/sh\ncat > /dev/null\nflip=not-achieved\nif " + condition + "; then flip=achieved; fi\n" +
		`printf '{"point":"after_turn","body":{"protocol_version":1,"evidence":{"flip":"%s"}}}' $flip` + "\n"
}

func options() sandbox.Options {
	return sandbox.Options{Environ: append(os.Environ(), "MINE=1", "OTHER=2", "X_API_KEY=secret", "SSH_AUTH_SOCK=/x")}
}

func sandboxes(t *testing.T) map[string]sandbox.Sandbox {
	t.Helper()
	b, err := bwrap.New(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]sandbox.Sandbox{"process": process.New(options()), "bwrap": b}
}

func load(t *testing.T, files map[string]string) (call.Plugin, call.Place) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, "plugin dir", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	at := call.Place{Root: filepath.Join(dir, "root"), Home: filepath.Join(dir, "home")}
	if err := errors.Join(os.Mkdir(at.Root, 0o755), os.Mkdir(at.Home, 0o755)); err != nil {
		t.Fatal(err)
	}
	p := call.Plugin{Dir: filepath.Join(dir, "plugin dir")}
	var err error
	if p.Package, err = plugin.Read(os.DirFS(p.Dir)); err != nil {
		t.Fatal(err)
	}
	return p, at
}

func request(root string) wire.Request {
	return wire.Request{After: &wire.AfterRequest{ProtocolVersion: 2, Wrapper: "p", Goal: "g", Turn: wire.Turn{Completed: true},
		Candidate: &wire.Grant{Handle: "c", Root: root, Test: &wire.TestPlan{Program: "true", Baseline: wire.Failed, Cwd: "sub", TimeoutMS: 5}}}}
}

func TestExchange(t *testing.T) {
	for box, sb := range sandboxes(t) {
		for name, c := range map[string]struct{ runtime, script, more string }{
			"its directory":       {"argv = ['${plugin_dir}/main.sh', '${plugin_dir}']\ntimeout_secs = 9\nenv = ['PATH']", answer(`test "$1/main.sh" = "$0" -a -r "$1/plugin.toml"`), ""},
			"its directory is ro": {"argv = ['${plugin_dir}/main.sh', '` + box + `']\ntimeout_secs = 9\nenv = ['PATH']", answer(`test ! -d /proc/1/root/nowhere && { test "` + box + `" = process || ! touch "$(dirname "$0")/x" 2> /dev/null; }`), ""},
			"a program on PATH":   {"argv = ['sh', '${plugin_dir}/main.sh']\ntimeout_secs = 9\nenv = ['PATH']", answer("true"), ""},
			// Exactly what was named, never a credential; _ and the like are the shell's own.
			"its variables": {"argv = ['${plugin_dir}/main.sh']\ntimeout_secs = 9\nenv = ['PATH', 'MINE', 'NOT_SET', 'X_API_KEY', 'SSH_AUTH_SOCK', 'HOME']",
				answer(`test "$(env | sed 's/=.*//' | grep -vx -e PWD -e OLDPWD -e SHLVL -e _ | sort | tr '\n' ' ')" = "HOME MINE PATH " -a "$HOME" != "` + os.Getenv("HOME") + `"`), ""},
			"no variable at all": {"argv = ['/bin/sh', '${plugin_dir}/main.sh']\ntimeout_secs = 9", answer(`test -z "$HOME$MINE$LANG$TMPDIR"`), ""},
			"no network":         {"argv = ['${plugin_dir}/main.sh']\ntimeout_secs = 9\nenv = ['PATH']", answer(`test $(grep -c : /proc/net/dev) -le 1`), ""},
			"the network": {"argv = ['${plugin_dir}/main.sh']\ntimeout_secs = 9\nenv = ['PATH']", answer(`test "$(readlink /proc/self/ns/net)" = "` + netns(t) + `"`),
				"[[capabilities]]\ntool = 'network'\nrisk = 'high'\npurpose = 'p'\n"},
			"version 1": {"argv = ['${plugin_dir}/main.sh']\ntimeout_secs = 9\nenv = ['PATH']", strings.Replace(answer(`test "$v1" = 1`), "cat > /dev/null", `v1=$(grep -c '"protocol_version":1.*"program":"true","baseline":"failed"}')`, 1), ""},
			"version 2": {"argv = ['${plugin_dir}/main.sh']\ntimeout_secs = 9\nenv = ['PATH']\nprotocol = 2",
				strings.ReplaceAll(strings.Replace(answer(`test "$v2" = 1`), "cat > /dev/null", `v2=$(grep -c '"protocol_version":2.*"cwd":"sub","timeout_ms":5}')`, 1), `version":1`, `version":2`), ""},
		} {
			t.Run(box+"/"+name, func(t *testing.T) {
				t.Parallel()
				p, at := load(t, map[string]string{"plugin.toml": head + "[runtime]\n" + c.runtime + "\n" + c.more, "main.sh": c.script})
				r, result, err := p.Exchange(t.Context(), sb, options(), at, request(at.Root))
				if err != nil || r.After.Evidence.Flip != "achieved" {
					t.Errorf("%+v, %v\n%s", r.After, err, result.Stderr.Head)
				}
			})
		}
		t.Run(box+"/not there", func(t *testing.T) {
			t.Parallel()
			p, at := load(t, map[string]string{"plugin.toml": head + "[runtime]\nargv = ['no-such-program']\ntimeout_secs = 9\nenv = ['PATH']\n"})
			if _, _, err := p.Exchange(t.Context(), sb, options(), at, request(at.Root)); !errors.Is(err, wire.ErrSpawn) || !strings.Contains(err.Error(), "no-such-program") {
				t.Errorf("%v", err)
			}
		})
	}
}

func netns(t *testing.T) string {
	t.Helper()
	ns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// TestNeverAsked: what was not declared is refused before anything starts.
func TestNeverAsked(t *testing.T) {
	before := wire.Request{Before: &wire.BeforeRequest{ProtocolVersion: 1, Wrapper: "p", Stage: "execute", Goal: "g"}}
	p, at := load(t, map[string]string{"plugin.toml": head + "[runtime]\nargv = ['${plugin_dir}/main.sh']\ntimeout_secs = 9\n", "main.sh": "#!/bin/sh\necho > \"$(dirname \"$0\")/ran\"\n"})
	sb := process.New(options())
	if _, _, err := p.Exchange(t.Context(), sb, options(), at, before); !errors.Is(err, call.ErrNotAsked) {
		t.Errorf("%v", err)
	}
	p.Loop.Level = plugin.Observer
	if _, _, err := p.Exchange(t.Context(), sb, options(), at, request(at.Root)); !errors.Is(err, call.ErrNotAsked) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "ran")); err == nil {
		t.Error("it ran")
	}
	p, at = load(t, map[string]string{"plugin.toml": head})
	if _, _, err := p.Exchange(t.Context(), sb, options(), at, request(at.Root)); !errors.Is(err, call.ErrNoProcess) {
		t.Errorf("%v", err)
	}
	p, at = load(t, map[string]string{"plugin.toml": head + "[runtime]\nargv = ['a=b']\ntimeout_secs = 9\n"})
	if _, _, err := p.Exchange(t.Context(), sb, options(), at, request(at.Root)); !errors.Is(err, wire.ErrSpawn) {
		t.Errorf("%v", err)
	}
	// A before_turn response that the manifest does not allow is a fault.
	p, at = load(t, map[string]string{"plugin.toml": strings.Replace(head, "after", "before", 1) + "[runtime]\nargv = ['sh', '-c', '''echo '{\"point\":\"before_turn\",\"body\":{\"protocol_version\":1,\"role\":\"boss\"}}' ''']\ntimeout_secs = 9\nenv = ['PATH']"})
	if r, _, err := p.Exchange(t.Context(), sb, options(), at, before); !errors.Is(err, wire.ErrUndeclaredRole) || r.Before != nil {
		t.Errorf("%v", err)
	}
}

func TestTool(t *testing.T) {
	files := map[string]string{
		"plugin.toml":  "name = 'p'\n[[tools]]\nname = 'lint-fix'\ndescription = 'd'\n[[tools]]\nname = 'slow'\ndescription = 'd'\n",
		"tools/t.toml": "name = 'lint-fix'\ndescription = 'd'\ncommand = ['${plugin_dir}/fix.sh', 'a b']\n[env]\nRULESET = '${plugin_dir}/strict'\nMY_TOKEN = 'x'\n",
		"tools/s.toml": "name = 'slow'\ndescription = 'd'\ncommand = ['sh', '-c', 'while :; do sleep 1; done']\ntimeout_ms = 200\n",
		"fix.sh":       "#!/bin/sh\necho \"$1|$RULESET|$BESTOF_INPUT_PATH|$STELLA_INPUT_PATH|$MY_TOKEN|$MINE|$X_API_KEY|$(pwd)|$(cat)\"; exit 3\n",
	}
	for box, sb := range sandboxes(t) {
		t.Run(box, func(t *testing.T) {
			p, at := load(t, files)
			r, err := p.Tool(t.Context(), sb, at, "lint-fix", []byte(`{"path":"x y"}`))
			want := "a b|" + p.Dir + "/strict|x y|x y||||" + at.Root + `|{"path":"x y"}` + "\n"
			if err != nil || r.Code != 3 || string(r.Stdout.Head) != want {
				t.Errorf("%+v, %v: %q, want %q", r, err, r.Stdout.Head, want)
			}
			if r, err = p.Tool(t.Context(), sb, at, "slow", []byte(`{}`)); err != nil || r.End != sandbox.Deadline {
				t.Errorf("%+v, %v", r, err)
			}
			if _, err = p.Tool(t.Context(), sb, at, "other", []byte(`{}`)); !errors.Is(err, call.ErrNotAsked) {
				t.Errorf("%v", err)
			}
			for _, input := range []string{"", "[]", "null", "{}{}", `{"a":`} {
				if _, err = p.Tool(t.Context(), sb, at, "lint-fix", []byte(input)); err == nil {
					t.Errorf("%q is an input", input)
				}
			}
		})
	}
}
