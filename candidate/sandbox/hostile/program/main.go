// Command program is one hostile candidate: see package hostile.
package main

import (
	"os"

	"github.com/bestof-dev/bestof/candidate/sandbox/hostile"
)

func main() { os.Exit(hostile.Main(os.Args)) }
