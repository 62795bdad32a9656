package orchestrator

import (
	"bytes"
	"errors"
	"fmt"
	"path"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/wire"
	"github.com/bestof-dev/bestof/worktree"
)

// maxReports bounds what is read of the report files of one test, in bytes.
const maxReports = 64 << 20

// reportPath is where, below the top, the test leaves its report; "" when it
// prints it.
func (t *turn) reportPath() string {
	if t.Named == nil || t.Named.File == "" {
		return ""
	}
	return path.Join(t.Repo.Prefix(), t.Named.File)
}

// clearReports sees to it that what is where the test leaves its report can
// only be the test's: the base has nothing there, and what a candidate has
// there is neither a reason to accuse it nor ever read.
func (t *turn) clearReports() *ending {
	pattern := t.reportPath()
	if pattern == "" {
		return nil
	}
	if err := worktree.CheckLeft(pattern); err != nil {
		return ended(ExitUsage, "the test's report: %v", err)
	}
	for _, name := range t.base.Paths() {
		if worktree.MatchLeft(pattern, name) {
			return ended(ExitUsage, "the base has %s, where the test is to leave its report: name a file that only the test makes", wire.Line(name, 400))
		}
	}
	others := t.isGuard
	t.isGuard = func(path string) bool { return !worktree.MatchLeft(pattern, path) && others(path) }
	return nil
}

// report puts the files that a test left in the place of what it printed, one
// after the other with a NUL between them, and what it printed before what it
// wrote to stderr. Of files that cannot be read nothing counts, and stderr ends
// in the reason.
func (n *Named) report(res sandbox.Result, left func() ([][]byte, error)) sandbox.Result {
	printed := append(res.Stdout.Bytes(), res.Stderr.Bytes()...)
	files, err := left()
	for i, f := range files {
		if bytes.IndexByte(f, 0) >= 0 {
			err = fmt.Errorf("file %d of %d has a NUL in it", i+1, len(files))
		}
	}
	if err == nil && len(files) == 0 {
		err = errors.New("the test left none")
	}
	if err != nil {
		files, printed = nil, append(printed, fmt.Sprintf("\n%s: no report is read from %s: %s\n", named, wire.Line(n.File, 400), wire.Line(err.Error(), 400))...)
	}
	res.Stdout, res.Stderr = sandbox.Output{Head: bytes.Join(files, []byte{0})}, sandbox.Output{Head: printed}
	return res
}

// leftIn reads the reports that a test left in a shadow.
func (t *turn) leftIn(sh *worktree.Shadow) func() ([][]byte, error) {
	return func() ([][]byte, error) { return sh.Left(t.reportPath(), maxReports) }
}
