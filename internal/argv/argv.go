// Package argv splits a command line into words as a shell does, without a
// shell: whatever a shell would do beyond that is refused.
package argv

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Split splits s into the words of one simple command, honouring quotes and
// backslashes. It refuses what only a shell could do, with a sentence that
// names it.
func Split(s string) ([]string, error) {
	if strings.ContainsAny(s, "\x00\r") {
		return nil, refused("a control character")
	}
	if !utf8.ValidString(s) {
		return nil, errors.New("the command is not UTF-8")
	}
	file, err := syntax.NewParser(syntax.KeepComments(true), syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(s), "")
	if err != nil {
		var perr syntax.ParseError
		if errors.As(err, &perr) {
			return nil, fmt.Errorf("the command cannot be split into words: %s", perr.Text)
		}
		return nil, fmt.Errorf("the command cannot be split into words: %w", err)
	}
	comment := len(file.Last) > 0
	syntax.Walk(file, func(n syntax.Node) bool {
		if _, ok := n.(*syntax.Comment); ok {
			comment = true
		}
		return true
	})
	switch {
	case comment:
		return nil, refused("a comment (#)")
	case len(file.Stmts) == 0:
		return nil, errors.New("the command is empty")
	case len(file.Stmts) > 1 && strings.Contains(strings.TrimSpace(s), "\n"):
		return nil, refused("several lines")
	case len(file.Stmts) > 1:
		return nil, refused("several commands")
	}
	stmt := file.Stmts[0]
	switch {
	case stmt.Negated:
		return nil, refused("a negation (!)")
	case stmt.Background, stmt.Coprocess, stmt.Disown:
		return nil, refused("a command in the background (&)")
	case len(stmt.Redirs) > 0:
		return nil, refused("a redirection (" + stmt.Redirs[0].Op.String() + ")")
	case stmt.Semicolon.IsValid():
		return nil, refused("a semicolon")
	}
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok {
		return nil, refused(construct(stmt.Cmd))
	}
	if len(call.Assigns) > 0 {
		return nil, refused("an assignment (begin with \"env\" to set a variable)")
	}
	argv := make([]string, len(call.Args))
	for i, w := range call.Args {
		if argv[i], err = word(w); err != nil {
			return nil, err
		}
	}
	if argv[0] == "" {
		return nil, errors.New("the command names no program")
	}
	return argv, nil
}

func refused(what string) error {
	return fmt.Errorf("the command is run without a shell, which %s would need: put it in a script file and name that", what)
}

func construct(c syntax.Command) string {
	switch c := c.(type) {
	case *syntax.BinaryCmd:
		return "an operator (" + c.Op.String() + ")"
	case *syntax.DeclClause:
		return c.Variant.Value
	case *syntax.TimeClause:
		return "time"
	case *syntax.Subshell:
		return "a subshell"
	case *syntax.FuncDecl:
		return "a function"
	default:
		return "a compound command"
	}
}

// word is the text of w, which must not depend on anything but itself.
func word(w *syntax.Word) (string, error) {
	var out strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if i == 0 && strings.HasPrefix(p.Value, "~") {
				return "", refused("a home directory (~)")
			}
			if err := unquoted(&out, p.Value); err != nil {
				return "", err
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", refused("an expansion ($'…')")
			}
			out.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", refused(`an expansion ($"…")`)
			}
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok {
					return "", refused(expansion(q))
				}
				doubleQuoted(&out, lit.Value)
			}
		default:
			return "", refused(expansion(part))
		}
	}
	return out.String(), nil
}

func expansion(p syntax.WordPart) string {
	switch p.(type) {
	case *syntax.ParamExp:
		return "a variable ($)"
	case *syntax.CmdSubst:
		return "a command substitution"
	case *syntax.ArithmExp:
		return "an arithmetic expansion"
	case *syntax.ProcSubst:
		return "a process substitution"
	case *syntax.ExtGlob:
		return "a file name pattern"
	default:
		return "an expansion"
	}
}

// unquoted resolves the backslashes of text outside quotes.
func unquoted(out *strings.Builder, s string) error {
	brace := -1
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				out.WriteByte(s[i])
			}
			continue
		case c == '*' || c == '?' || c == '[':
			return refused("a file name pattern (" + string(c) + "; quote it if it is meant as it stands)")
		case c == '{':
			brace = i
		case c == '}' && brace >= 0 && (strings.Contains(s[brace:i], ",") || strings.Contains(s[brace:i], "..")):
			return refused("a brace expansion ({…}; quote it if it is meant as it stands)")
		}
		out.WriteByte(s[i])
	}
	return nil
}

// doubleQuoted resolves the backslashes of text in double quotes, where they
// escape only what is special there.
func doubleQuoted(out *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		out.WriteByte(s[i])
	}
}

// Join writes argv as a command line for people and for Split, which gives
// argv back when its first word is not empty and all are UTF-8 without a NUL or
// a carriage return.
func Join(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || !plain(a, i == 0) {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

func plain(s string, first bool) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("_@%+:,./-", c) < 0 && (first || c != '=') {
			return false
		}
	}
	return !first || !syntax.IsKeyword(s) && !declaration[s]
}

// declaration lists the words that are parsed as more than a program's name.
var declaration = map[string]bool{"declare": true, "local": true, "export": true, "readonly": true, "typeset": true, "nameref": true, "let": true, "time": true, "coproc": true, "select": true, "function": true}
