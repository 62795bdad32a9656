package patch

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBinary means that a patch carries a file as data, which is not applied.
var ErrBinary = errors.New("it changes a binary file")

// Apply makes the new content of a file of its old one. Every line that the
// patch shows of the old content must be there, at the place that it says.
func Apply(old []byte, f File) ([]byte, error) {
	if f.Binary != nil {
		return nil, ErrBinary
	}
	lines := strings.SplitAfter(string(old), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var out strings.Builder
	at := 0
	for i, h := range f.Hunks {
		from := h.OldStart - 1
		if h.OldLines == 0 {
			from = h.OldStart
		}
		if from < at || from > len(lines) {
			return nil, fmt.Errorf("hunk %d begins at line %d, and there are %d", i+1, h.OldStart, len(lines))
		}
		for _, l := range lines[at:from] {
			out.WriteString(l)
		}
		var err error
		if at, err = h.apply(&out, lines, from); err != nil {
			return nil, fmt.Errorf("hunk %d: %w", i+1, err)
		}
	}
	for _, l := range lines[at:] {
		out.WriteString(l)
	}
	return []byte(out.String()), nil
}

// apply writes the new lines of a hunk and returns the number of the old line
// after it.
func (h Hunk) apply(out *strings.Builder, lines []string, at int) (int, error) {
	body := strings.SplitAfter(h.Body, "\n")
	for i, l := range body {
		if l == "" || l[0] == '\\' {
			continue
		}
		sign, text := l[0], l[1:]
		if i+1 < len(body) && strings.HasPrefix(body[i+1], `\`) {
			text = strings.TrimSuffix(text, "\n")
		}
		if sign != '+' {
			if at >= len(lines) || lines[at] != text {
				return 0, fmt.Errorf("line %d is not what the patch says it is", at+1)
			}
			at++
		}
		if sign != '-' {
			out.WriteString(text)
		}
	}
	return at, nil
}
