package proc_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/proc"
)

func TestMain(m *testing.M) {
	if code, ok := proc.Supervise(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func command(argv ...string) proc.Command {
	return proc.Command{Argv: argv, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Timeout: time.Minute}
}

func run(t *testing.T, c proc.Command) proc.Result {
	t.Helper()
	res, err := proc.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestRun(t *testing.T) {
	c := command("sh", "-c", "echo out; echo err >&2; env; cat; exit 3")
	c.Stdin = []byte("given")
	res := run(t, c)
	if res.End != proc.Exited || res.Code != 3 || res.Signal != 0 {
		t.Errorf("ended %+v", res)
	}
	if got := string(res.Stderr.Head); got != "err\n" {
		t.Errorf("stderr %q", got)
	}
	if got := string(res.Stdout.Head); !strings.HasPrefix(got, "out\n") || !strings.HasSuffix(got, "given") {
		t.Errorf("stdout %q", got)
	}
}
