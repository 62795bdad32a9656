package judge

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// ErrCheck is what ParseCheck's errors wrap.
var ErrCheck = errors.New("unreadable check")

// A ParsedCheck is a check that can be evaluated.
type ParsedCheck struct {
	Measurement string
	Op          string // one of > >= < <= == !=
	Value       uint64
}

var operators = []string{">", ">=", "<", "<=", "==", "!="}

// ParseCheck reads "<measurement> <op> <integer>": exactly three words. The
// integer is decimal, unsigned, at most 64 bits wide, and may begin with "+".
func ParseCheck(text string) (ParsedCheck, error) {
	words := strings.Fields(text)
	if len(words) != 3 {
		return ParsedCheck{}, checkError("write <measurement> <op> <integer>, three words with spaces between")
	}
	if !slices.Contains(operators, words[1]) {
		return ParsedCheck{}, checkError(strconv.Quote(words[1]) + " is not one of " + strings.Join(operators, " "))
	}
	value, err := strconv.ParseUint(strings.TrimPrefix(words[2], "+"), 10, 64)
	if err != nil {
		return ParsedCheck{}, checkError(strconv.Quote(words[2]) + " is not a decimal integer from 0 to 18446744073709551615")
	}
	return ParsedCheck{Measurement: words[0], Op: words[1], Value: value}, nil
}

type checkError string

func (e checkError) Error() string { return ErrCheck.Error() + ": " + string(e) }
func (e checkError) Unwrap() error { return ErrCheck }

// Holds reports whether the check is true of a reported value.
func (c ParsedCheck) Holds(reported uint64) bool {
	switch c.Op {
	case ">":
		return reported > c.Value
	case ">=":
		return reported >= c.Value
	case "<":
		return reported < c.Value
	case "<=":
		return reported <= c.Value
	case "==":
		return reported == c.Value
	case "!=":
		return reported != c.Value
	}
	return false
}
