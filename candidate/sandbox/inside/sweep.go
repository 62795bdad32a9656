package inside

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// SweepArgs are the arguments with which an executable that calls Main removes
// the directory "work" in each of the directories that follow, and nothing
// else. In a container it may do that where its user could not.
func SweepArgs() []string { return []string{"internal", "sweep"} }

// sweepMain does not return in a process that was started so.
func sweepMain(args []string) {
	if len(args) < 3 || args[1] != "internal" || args[2] != "sweep" {
		return
	}
	var failed error
	for _, dir := range args[3:] {
		failed = errors.Join(failed, sweep(dir))
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, failed)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

// sweep removes dir/work, through no link.
func sweep(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll("work")
}
