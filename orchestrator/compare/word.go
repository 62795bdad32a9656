package compare

import (
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// maxMarkedLine is how long a line may be, in bytes, to have its words
// compared.
const maxMarkedLine = 4096

// words says which parts of two lines differ, in whole words. It says nothing
// when the lines have so little in common that marks would cover both.
func words(a, b string) (old, new []Span) {
	if len(a) > maxMarkedLine || len(b) > maxMarkedLine {
		return nil, nil
	}
	as, bs := tokens(a), tokens(b)
	common := len(a)
	ao, bo := offsets(as), offsets(bs)
	for _, d := range lcs.DiffLines(as, bs) {
		common -= ao[d.End] - ao[d.Start]
		old = appendSpan(old, Span{ao[d.Start], ao[d.End]})
		new = appendSpan(new, Span{bo[d.ReplStart], bo[d.ReplEnd]})
	}
	if 3*common < max(len(a), len(b)) {
		return nil, nil
	}
	return old, new
}

func appendSpan(spans []Span, s Span) []Span {
	if s.Start == s.End {
		return spans
	}
	return append(spans, s)
}

func offsets(tokens []string) []int {
	out := make([]int, len(tokens)+1)
	for i, t := range tokens {
		out[i+1] = out[i] + len(t)
	}
	return out
}

// tokens divides s into words, runs of white space and single other
// characters.
func tokens(s string) []string {
	var out []string
	for start := 0; start < len(s); {
		r, size := utf8.DecodeRuneInString(s[start:])
		end, class := start+size, classOf(r)
		for class != other && end < len(s) {
			r, size := utf8.DecodeRuneInString(s[end:])
			if classOf(r) != class {
				break
			}
			end += size
		}
		out = append(out, s[start:end])
		start = end
	}
	return out
}

const (
	other = iota
	word
	space
)

func classOf(r rune) int {
	switch {
	case r == '_' || unicode.In(r, unicode.L, unicode.N, unicode.M):
		return word
	case unicode.IsSpace(r):
		return space
	default:
		return other
	}
}
