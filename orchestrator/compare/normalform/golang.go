package normalform

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

// What comments of Go mean something to its tools.
var (
	goDirective = regexp.MustCompile(`^(?://[a-z0-9]+:[a-z0-9]|//export |//extern |// ?\+build|//line |/\*line )`)
	goOutput    = regexp.MustCompile(`(?i)^(?://|/\*)\s*(?:unordered )?output:`)
	goCgo       = regexp.MustCompile(`import\s*(?:\(|"C")`)
)

// scanGo reads Go as its own scanner does, which also knows where the end of a
// line ends a statement. Comments are kept where the go tool reads them:
// directives, what is before import "C", and the output of examples.
func scanGo(t *tokens) {
	file := token.NewFileSet().AddFile(t.name, -1, len(t.src))
	var s scanner.Scanner
	s.Init(file, []byte(t.src), func(token.Position, string) { t.lost = true }, scanner.ScanComments)
	cgo := strings.Contains(t.src, `"C"`) && goCgo.MatchString(t.src)
	output, pending := false, false
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return
		case token.COMMENT:
			output = output || strings.HasSuffix(t.name, "_test.go") && goOutput.MatchString(lit)
			if output || cgo || goDirective.MatchString(lit) {
				t.emit(strings.TrimRight(lit, " \t\r"))
			}
			continue
		case token.SEMICOLON:
			pending = true // none is needed before what closes
			continue
		}
		if pending && tok != token.RBRACE && tok != token.RPAREN {
			t.emit(";")
		}
		pending = false
		if tok == token.RBRACE {
			output = false
		}
		if lit == "" {
			lit = tok.String()
		}
		t.emit(lit)
	}
}
