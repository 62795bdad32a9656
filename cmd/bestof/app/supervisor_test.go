package app

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSupervisorStartsSmall: there is a supervisor for each program that is run,
// so nothing that it does not need is made ready before it begins.
func TestSupervisorStartsSmall(t *testing.T) {
	prepared := func(word string) string {
		cmd := exec.Command(os.Getenv(staticVariable), word)
		cmd.Env = []string{"GODEBUG=inittrace=1"}
		trace, _ := cmd.CombinedOutput() // to supervise nothing is an error
		return string(trace)
	}
	supervisor, other := prepared("supervise-one-program-for-bestof"), prepared("--help")
	if !strings.HasSuffix(supervisor, "nothing to supervise\n") {
		t.Fatalf("not a supervisor:\n%s", supervisor)
	}
	for _, name := range []string{"net/http", "html/template", "github.com/santhosh-tekuri/jsonschema/v6", "modernc.org/sqlite", "github.com/bestof-dev/bestof/worktree"} {
		line := "init " + name + " @"
		if !strings.Contains(other, line) {
			t.Errorf("the program itself does not prepare %s any more: name another", name)
		}
		if strings.Contains(supervisor, line) {
			t.Errorf("a supervisor waits for %s", name)
		}
	}
}
