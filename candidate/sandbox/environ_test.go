package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// environment is that of a candidate's program, by name.
func environment(s sandbox.Spec) map[string]string {
	named := map[string]string{}
	for _, kv := range (sandbox.Options{Environ: []string{"EDITOR=vi", "BROWSER=firefox", "COMPOSE_PROJECT_NAME=mine", "SECRET=s"}}).Environment(s, nil) {
		name, v, _ := strings.Cut(kv, "=")
		named[name] = v
	}
	return named
}

// TestHazardCandidatesDoNotMeet: candidates that see their shadows at the same
// place have different projects of compose, homes and ports all the same.
func TestHazardCandidatesDoNotMeet(t *testing.T) {
	spec := func(name string, port int) sandbox.Spec {
		return sandbox.Spec{Root: "/scratch/" + name + "/root", Home: "/scratch/" + name + "/home", Ports: sandbox.PortBlock{Base: port, Count: 10}, Timeout: time.Minute}
	}
	a, b := spec("c1", 20000), spec("c2", 20010)
	for _, name := range []string{"HOME", "TMPDIR", "XDG_CACHE_HOME", "COMPOSE_PROJECT_NAME", "BESTOF_PORT_BASE"} {
		if x, y := environment(a)[name], environment(b)[name]; x == y || x == "" {
			t.Errorf("%s is %q and %q", name, x, y)
		}
	}
	a.Seen = sandbox.Place{Root: "/workspace/x", Home: "/home/candidate"}
	b.Seen = a.Seen
	x, y := environment(a)["COMPOSE_PROJECT_NAME"], environment(b)["COMPOSE_PROJECT_NAME"]
	if x == y || !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`).MatchString(x) {
		t.Errorf("projects %q and %q", x, y)
	}
}

// TestHazardNobodyIsAsked: what programs call when they want a person ends at
// once, whatever the operator has.
func TestHazardNobodyIsAsked(t *testing.T) {
	env := environment(sandbox.Spec{Root: "/r", Home: "/h", Timeout: time.Minute})
	for name, want := range map[string]string{
		"EDITOR": "true", "VISUAL": "true", "GIT_EDITOR": "true", "BROWSER": "true", "PAGER": "cat", "GIT_PAGER": "cat",
		"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false", "SSH_ASKPASS": "false", "SSH_ASKPASS_REQUIRE": "force", "PIP_NO_INPUT": "1", "SECRET": "",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
}

// TestPathLeavesOutWhatIsHidden: by name, below it, and through links on either
// side, with what is not there yet.
func TestPathLeavesOutWhatIsHidden(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.MkdirAll(at("secret/bin"), 0o755), os.Mkdir(at("bin"), 0o755), os.Symlink(at("secret"), at("way")), os.Symlink(at("gone/x"), at("dangling"))); err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{at("secret"), at("way")} {
		o := sandbox.Options{Hidden: []string{at("other"), hidden}, Environ: []string{"PATH=" + strings.Join([]string{at("secret/bin"), "relative", at("way/bin"), at("bin"), at("secret"), at("bin"), at("way/later"), at("dangling"), at("secretly")}, ":")}}
		if got, want := o.Path(), []string{at("bin"), at("dangling"), at("secretly")}; !slices.Equal(got, want) {
			t.Errorf("hidden %s: %q, want %q", hidden, got, want)
		}
	}
}
