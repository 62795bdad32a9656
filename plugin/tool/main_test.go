package tool

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// Each move of the model is on the disk before it counts, so a few walks are
	// many seconds; -rapid.checks on the command line asks for more.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// python is the interpreter of the tests.
func python() Python { return Python{Env: []string{"PATH=" + os.Getenv("PATH")}} }
