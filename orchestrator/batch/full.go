package batch

import (
	"errors"
	"strings"
	"syscall"

	"github.com/bestof-dev/bestof/internal/sqlitefile"
)

// Full reports whether an error says that a disk is full, or a quota used up.
func Full(err error) bool {
	return sqlitefile.Full(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// saysFull is Full of a record's reason. What an engine answers, which has a
// disk of its own, has no number.
func saysFull(reason string) bool {
	return strings.Contains(reason, syscall.ENOSPC.Error()) || strings.Contains(reason, syscall.EDQUOT.Error())
}

// noRoom says what to do about it.
func (b *batch) noRoom() string {
	return "the disk is full where shadows are made (" + b.Scratch + "): make room there, or choose another place with --work-dir"
}

// oneLine is an error's text in one line. What several errors say in the same
// words is in it once.
func oneLine(err error) string {
	var out []string
	seen := map[string]bool{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !seen[line] {
			seen[line] = true
			out = append(out, line)
		}
	}
	return strings.Join(out, "; ")
}
