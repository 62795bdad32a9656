package proc_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/bestof-dev/bestof/internal/proc"
)

// TestEnter: what enters is started before the supervisor, and its failure is
// neither the program's nor the supervisor's.
func TestEnter(t *testing.T) {
	c := shell("echo out; cat; kill -9 $$")
	c.Enter, c.Stdin = []string{"/usr/bin/env"}, []byte("given")
	c.Files, c.Report = [][]byte{[]byte("file")}, true
	if res := run(t, c); res.End != proc.Exited || res.Signal != int(syscall.SIGKILL) || string(res.Stdout.Head) != "out\ngiven" {
		t.Errorf("%+v", res)
	}
	for script, want := range map[string]string{
		"exit 3":                            "enter its namespaces: ",
		"echo cannot be; echo more; exit 1": "enter its namespaces: cannot be",
		"head -c1 <&3 >/dev/null; echo late; exit 1": "enter its namespaces: late", // after it was told to go
	} {
		c := shell("true")
		c.Enter = []string{"/bin/sh", "-c", "exec >&2; " + script, "sh"}
		_, err := proc.Run(t.Context(), c)
		if err == nil || !strings.HasSuffix(err.Error(), want) || errors.Is(err, proc.ErrSupervisorLost) {
			t.Errorf("%s: %v", script, err)
		}
	}
	c = shell("kill -9 $PPID; sleep 10")
	c.Enter = []string{"/usr/bin/env"}
	if _, err := proc.Run(t.Context(), c); !errors.Is(err, proc.ErrSupervisorLost) {
		t.Errorf("a supervisor that is killed: %v", err)
	}
	for _, bad := range [][]string{{"env"}, {"/usr/bin/env", "\x00"}} {
		c := shell("true")
		c.Enter = bad
		if _, err := proc.Run(t.Context(), c); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	c = shell("true")
	c.Enter, c.Offline = []string{"/usr/bin/env"}, true
	if _, err := proc.Run(t.Context(), c); err == nil {
		t.Error("both Enter and Offline are accepted")
	}
}
