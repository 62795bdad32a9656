package wordform

import (
	"fmt"
	"strings"
	"testing"
)

func form(name, text string) string {
	var b strings.Builder
	Put(name, []byte(text), func(p []byte) { fmt.Fprintf(&b, "%q", p) })
	return b.String()
}

// TestPut: distances are nothing, but for those from the left in languages
// where they decide what a line belongs to.
func TestPut(t *testing.T) {
	const inside, outside = "if a:\n    b = 1\n    c = 2\n", "if a:\n    b = 1\nc = 2\n"
	for _, name := range []string{"a.py", "dir/A.PY", "a.yaml", "Makefile", "makefile.inc", "rules.mk", "a.hs", "a.nim", "a.coffee", "b.sass", "x/BUILD", "q.scala"} {
		if form(name, inside) == form(name, outside) {
			t.Errorf("%s: indentation makes no difference", name)
		}
		if form(name, inside) != form(name, "if  a:\r\n    b\t=  1 \r\n\r\n \t\n    c = 2") {
			t.Errorf("%s: other white space makes a difference", name)
		}
	}
	for _, name := range []string{"a.go", "a.c", "a.txt", "README", "a.py.txt", "makefiles"} {
		if form(name, inside) != form(name, outside) || form(name, inside) == form(name, strings.ReplaceAll(inside, " = ", "=")) {
			t.Errorf("%s: it is not its words", name)
		}
	}
	for first, want := range map[string]bool{"#!/usr/bin/env python3": true, "#!/usr/bin/python": true, "#!/usr/bin/env -S python3 -u": true, "#!/bin/sh": false, "#!/usr/bin/pythonista": false, "": false} {
		if got := Indented("bin/tool", []byte(first+"\nx\n")); got != want {
			t.Errorf("%q: %v", first, got)
		}
	}
}
