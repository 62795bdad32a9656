package tool

import (
	"os"
	"testing"

	"github.com/bestof-dev/bestof/internal/proc"
)

func TestMain(m *testing.M) {
	if code, ok := proc.Supervise(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// python is the interpreter of the tests.
func python() Python { return Python{Env: []string{"PATH=" + os.Getenv("PATH")}} }
