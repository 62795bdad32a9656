// Probes are the programs of the suite without the rest of a test, for tests with
// the race detector, under which all that begins is slow to.
package main

import (
	"os"

	"github.com/bestof-dev/bestof/candidate/sandbox/sandboxtest"
)

func main() { os.Exit(sandboxtest.Probes(os.Args)) }
