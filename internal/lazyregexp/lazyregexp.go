// Package lazyregexp compiles regular expressions of packages when they are first
// used. This program starts again for each verification, and to compile an
// expression that counts to hundreds takes a tenth of a millisecond.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that gives the expression, compiled at its first call. It
// may be called by many goroutines, and panics on what is no expression: each
// expression needs a test that uses it.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
