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
