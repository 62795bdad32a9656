// Command bestof lets N candidates try one task on a git repository and picks
// the winner by evidence.
package main

import (
	"context"
	"os"

	"github.com/bestof-dev/bestof/cmd/bestof/app"
	"github.com/bestof-dev/bestof/worktree"
)

func main() {
	if worktree.HoldMounts() {
		return
	}
	os.Exit(app.Main(context.Background(), os.Args, app.Process{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}))
}
