package view

import (
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/chroma/v2"

	"github.com/bestof-dev/bestof/cmd/bestof/view/grammar"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/compare"
)

// Limits of showing code. Beyond them text is shown plain or cut, and a cut is
// said.
const (
	maxHighlighted = 1 << 20                // bytes of a file
	maxColoured    = 1 << 20                // bytes of all files together: a grammar reads some 300 kB a second
	maxTokenTime   = 300 * time.Millisecond // of a file: grammars can be slow on hostile text
	maxCodeLine    = 4096                   // bytes of a line
	maxCodeName    = 255                    // bytes of a file's name without its folders
	tabWidth       = 4
)

// A token is what a piece of code is, as far as colours care. It is also the
// class of a span in HTML.
type token string

const (
	tokText    token = ""
	tokKeyword token = "k"
	tokName    token = "n"
	tokString  token = "s"
	tokNumber  token = "m"
	tokComment token = "c"
)

var tokenStyles = map[token]style{
	tokKeyword: purple, tokName: blue, tokString: yellow, tokNumber: cyan, tokComment: dim,
}

// A colouring says of every byte range of every line what token it is.
type colouring [][]coloured

type coloured struct {
	start, end int
	token      token
}

// line is the colouring of a line by its number from 1.
func (c colouring) line(number int) []coloured {
	if number < 1 || number > len(c) {
		return nil
	}
	return c[number-1]
}

// A painter colours code. Its zero value is ready.
type painter struct {
	spent int // bytes that were coloured
}

// colour finds the tokens of text. It returns nil when no grammar goes with the
// file's name, or when the grammar is too slow, fails, or does not give back the
// text it was given.
func (p *painter) colour(name, text string) (out colouring) {
	if text == "" || len(text) > maxHighlighted || !utf8.ValidString(text) || p.spent >= maxColoured {
		return nil
	}
	p.spent += len(text)
	base := path.Base(name)
	if len(base) > maxCodeName {
		return nil
	}
	lexer := grammar.Find(base)
	if lexer == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // a grammar is not worth a crash
			out = nil
		}
	}()
	next, err := lexer.Tokenise(&chroma.TokeniseOptions{State: "root"}, text)
	if err != nil {
		return nil
	}
	deadline := time.Now().Add(maxTokenTime)
	var line []coloured
	at, column := 0, 0
	for {
		t := next()
		if t == chroma.EOF {
			break
		}
		if time.Now().After(deadline) || !strings.HasPrefix(text[at:], t.Value) {
			return nil
		}
		at += len(t.Value)
		kind := tokenOf(t.Type)
		for part := range strings.SplitAfterSeq(t.Value, "\n") {
			if kind != tokText && part != "" {
				line = append(line, coloured{column, column + len(part), kind})
			}
			column += len(part)
			if strings.HasSuffix(part, "\n") {
				out, line, column = append(out, line), nil, 0
			}
		}
	}
	if at != len(text) {
		return nil
	}
	return append(out, line)
}

func tokenOf(t chroma.TokenType) token {
	switch {
	case t.InCategory(chroma.Comment):
		return tokComment
	case t.InCategory(chroma.Keyword), t == chroma.OperatorWord:
		return tokKeyword
	case t.InSubCategory(chroma.LiteralString):
		return tokString
	case t.InSubCategory(chroma.LiteralNumber):
		return tokNumber
	case t.InSubCategory(chroma.NameFunction), t.InSubCategory(chroma.NameBuiltin), t == chroma.NameClass, t == chroma.NameTag, t == chroma.NameDecorator:
		return tokName
	default:
		return tokText
	}
}

// A piece is a part of a line of code that looks the same throughout.
type piece struct {
	text    term.Safe
	token   token
	changed bool // differs from the line beside it
}

// pieces divides a line at the borders of its tokens and marks. Tabs become
// spaces; what else does not print becomes an escape.
func pieces(l compare.Line, tokens []coloured) []piece {
	text, cut := l.Text, 0
	if len(text) > maxCodeLine {
		n := maxCodeLine
		for n > maxCodeLine-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		text, cut = text[:n], len(text)-n
	}
	borders := []int{0, len(text)}
	for _, t := range tokens {
		borders = append(borders, t.start, t.end)
	}
	for _, m := range l.Marks {
		borders = append(borders, m.Start, m.End)
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	var out []piece
	column := 0
	for i, from := range borders[:len(borders)-1] {
		to := borders[i+1]
		if to > len(text) {
			break
		}
		p := piece{}
		for len(tokens) > 0 && tokens[0].end <= from {
			tokens = tokens[1:]
		}
		if len(tokens) > 0 && tokens[0].start <= from {
			p.token = tokens[0].token
		}
		for _, m := range l.Marks {
			p.changed = p.changed || m.Start <= from && to <= m.End
		}
		p.text, column = untab(text[from:to], column)
		out = append(out, p)
	}
	if cut > 0 {
		out = append(out, piece{text: term.Clean(" ["+size(cut)+" more on this line]", 0), token: tokComment})
	}
	if l.NoEOL {
		out = append(out, piece{text: term.Clean(" [no newline at the end]", 0), token: tokComment})
	}
	return out
}

// untab cleans s, which begins at a column, with its tabs as spaces.
func untab(s string, column int) (term.Safe, int) {
	if !strings.Contains(s, "\t") {
		t := term.Clean(s, 0)
		return t, column + t.Width()
	}
	var b strings.Builder
	for part := range strings.SplitAfterSeq(s, "\t") {
		body, tab := strings.CutSuffix(part, "\t")
		b.WriteString(body)
		column += term.Clean(body, 0).Width()
		if tab {
			n := tabWidth - column%tabWidth
			b.WriteString(strings.Repeat(" ", n))
			column += n
		}
	}
	return term.Clean(b.String(), 0), column
}
