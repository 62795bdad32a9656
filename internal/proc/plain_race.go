//go:build race

package proc

import (
	"os"
	"path/filepath"
)

// plainProgram is this program as it is shipped, when BESTOF_TEST_PLAIN names the
// directory with it, for tests: the race detector alone takes a tenth of a second
// of processor time to be ready, and there are two processes of this program for
// each that is run. It only exists in tests with the race detector.
func plainProgram() string {
	if dir := os.Getenv("BESTOF_TEST_PLAIN"); dir != "" {
		return filepath.Join(dir, "bestof")
	}
	return ""
}
