package normalform

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Each case is texts of one form, and texts of other forms than that.
var cases = []struct {
	name, file  string
	same, other []string
}{
	{"go", "a.go", []string{
		"package a\n\nfunc f(a, b int) int { return a + b }\n",
		"package a\n// f adds.\nfunc f(a, b int) int {\n\treturn a+b /* sum */\n}\n",
		"package a;func f(a,b int)int{return a+b;}",
		"package a\r\n\r\nfunc f(a, b int) int { return a + b }\r\n",
	}, []string{
		"package a\n\nfunc f(a, b int) int { return a - b }\n",
		"package a\n\nfunc f(a, b int) int { return\na + b }\n", // a semicolon is put in
		"package a\n\nfunc f(a, b int) int { return a + +b }\n",
		"package a\n\nfunc f(a, b int) int { return a ++ b }\n",
	}},
	{"go strings", "a.go", []string{"package a\nvar s = \"// no comment\" // one\n", "package a\nvar s =  \"// no comment\"\n"},
		[]string{"package a\nvar s = \"//  no comment\"\n", "package a\nvar s = `// no comment`\n", "package a\nvar s = \"\"\n"}},
	{"go directives", "a.go", []string{"//go:build linux\n\npackage a\n", "// A.\n\n//go:build linux\n\npackage  a"},
		[]string{"package a\n", "//go:build !linux\n\npackage a\n", "// go:build linux\n\npackage a\n"}},
	{"go cgo", "a.go", []string{"package a\n// int x;\nimport \"C\"\n", "package a\n\n// int x;\nimport  \"C\"\n"},
		[]string{"package a\n// int y;\nimport \"C\"\n", "package a\nimport \"C\"\n"}},
	{"go examples", "a_test.go", []string{"package a\nfunc ExampleF() {\n\tf()\n\t// Output: 1\n}\n", "package a\nfunc ExampleF() {\n f() // calls\n // Output: 1\n}\n"},
		[]string{"package a\nfunc ExampleF() {\n\tf()\n\t// Output: 2\n}\n", "package a\nfunc ExampleF() {\n\tf()\n}\n"}},
	{"python", "a.py", []string{
		"def f(a, b):\n    if a:\n        return b\n    return (a +\n        b)\n",
		"def f(a,b): # adds\n  if a:\n\n      # deep\n     return b\n  return (a+ # sum\nb)",
		"def f(a, b):\r\n\tif a:\r\n\t\treturn b\r\n\treturn (a + b)\r\n",
		"def f(a, b):\n    if a:\n        return b\n    return (a \\\n  + b)\n",
	}, []string{
		"def f(a, b):\n    if a:\n        return b\n        return (a + b)\n",
		"def f(a, b):\n    if a:\n        return b\nreturn (a + b)\n",
		"def f(a, b):\n    if a: return b\n    return (a + b)\n",
		"def f(a, b):\n    if a:\n        return b\n    return (a - b)\n",
	}},
	{"python strings", "a.py", []string{"x = '# no comment' # one\ny = '''a\n  # b\n'''\n", "x='# no comment'\ny='''a\n  # b\n'''\n"},
		[]string{"x = '#  no comment'\ny = '''a\n  # b\n'''\n", "x = '# no comment'\ny = '''a\n# b\n'''\n", "x = r'# no comment'\ny = '''a\n  # b\n'''\n", "x = '# no comment'\ny = '''a\n'''\n"}},
	{"python operators", "a.py", []string{"a = b // c\n", "a=b//c\n"}, []string{"a = b / c\n", "a = b / / c\n", "a = b\n"}},
	{"python numbers", "a.py", []string{"a = 1.e5 - 1\n", "a=1.e5-1\n"}, []string{"a = 1 .e5 - 1\n", "a = 1.e5-1 .real\n", "a = 1. - 1\n"}},
	{"python coding", "a.py", []string{"#!/usr/bin/python3\n# -*- coding: utf-8 -*-\nx = 1\n", "#!/usr/bin/python3\n# -*- coding: utf-8 -*-\n# c\nx=1\n"},
		[]string{"# -*- coding: latin-1 -*-\nx = 1\n", "x = 1\n"}},
	{"javascript", "a.js", []string{
		"function f(a, b) {\n  // adds\n  return a + b;\n}\n",
		"function f(a,b){return a+b;}",
		"function f(\n  a,\n  b\n) { /* adds */ return a +\n b;\n}\n",
	}, []string{
		"function f(a, b) {\n  return\n a + b;\n}\n",
		"function f(a, b) {\n  return a + b\n}\n",
		"function f(a, b) { return a ++ b; }\n",
		"function f(a, b) { return a + +b; }\n",
	}},
	{"javascript lines", "a.js", []string{"a = b\nc()\n", "a=b // x\n\nc()"}, []string{"a = b c()", "a = b; c()"}},
	{"javascript increments", "a.js", []string{"a\n++b\n"}, []string{"a ++b\n", "a++\nb\n"}},
	{"javascript literals", "a.js", []string{
		"x = a / b / c; // d\ny = /[/'\"] \\/* x/g.test(`a  ${ f(`//`) } // b`)\n",
		"x=a/b/c\n;y=/[/'\"] \\/* x/g.test(`a  ${f(`//`)} // b`)",
	}, []string{
		"x = a / b / c;\ny = /[/'\"]  \\/* x/g.test(`a  ${ f(`//`) } // b`)\n",
		"x = a / b / c;\ny = /[/'\"] \\/* x/g.test(`a ${ f(`//`) } // b`)\n",
		"x = a / b / c;\ny = /[/'\"] \\/* x/g.test(`a  ${ f(``) } // b`)\n",
	}},
	{"javascript regular expression after a condition", "a.js", []string{"if (x) /'/.test(y) // '\n", "if(x)/'/.test(y)\n"}, []string{"if (x) /''/.test(y)\n", "if (x)\n"}},
	{"typescript", "a.ts", []string{"const f = <T>(x: T[]): T => x[0]!; // first\n", "const f=<T>(\n  x: T[]\n): T => x[0]!;", "const f =  <T>(x:T[]):T=>x[0]!;"},
		[]string{"const f = <U>(x: T[]): T => x[0]!;", "const f = <T>(x: T[]): T => x[0];"}},
	{"typescript lines", "a.ts", []string{"type A =\n  | 'a' // one\n  | 'b'\nlet x: A\n", "type A = | 'a' | 'b'\nlet x: A"}, []string{"type A = | 'a' | 'b' let x: A", "type A = | 'a'\nlet x: A"}},
	{"rust", "a.rs", []string{
		"fn f<'a>(x: &'a str) -> char { /* a /* b */ c */ 'x' }\n",
		"fn f<'a>(\n    x: &'a str\n) -> char {\n    'x' // '\n}\n",
		"fn f<'a>(x:&'a str)->char{'x'}",
	}, []string{
		"fn f<'a>(x: &'a str) -> char { 'y' }", "fn f<'a>(x: &'b str) -> char { 'x' }", "fn f<'a>(x: & &'a str) -> char { 'x' }",
	}},
	{"rust strings", "a.rs", []string{"let s = r#\"// \"quoted\"\"#; // \"\nlet t = b\"a\\\"//\";\n", "let s=r#\"// \"quoted\"\"#;let t=b\"a\\\"//\";"},
		[]string{"let s = r#\"//  \"quoted\"\"#; let t = b\"a\\\"//\";", "let s = r#\"// \"quoted\"\"#; let t = \"a\\\"//\";", "let s = r#\"\"#;"}},
	{"rust documentation", "a.rs", []string{"/// Help.\n// c\nstruct A;", "/// Help.\nstruct A ;"}, []string{"/// Other.\nstruct A;", "struct A;"}},
	{"rust ranges", "a.rs", []string{"for i in 0..10 { x.0.max(1.0e-3) }", "for i in 0 .. 10\n{ x.0.max( 1.0e-3 ) }"}, []string{"for i in 0. .10 { x.0.max(1.0e-3) }", "for i in 0..10 { x.0.max(1.0e - 3) }", "for i in 0..=10 { x.0.max(1.0e-3) }"}},
	{"java", "A.java", []string{
		"class A { String s = \"/* no */\"; char c = '\"'; // \"\n int f(int a) { return a >>> 1; } }",
		"/** Doc. */\nclass A {\n\tString s = \"/* no */\";\n\tchar c = '\"';\n\tint f(int a) {\n\t\treturn a>>>1;\n\t}\n}\n",
	}, []string{
		"class A { String s = \"/*  no */\"; char c = '\"'; int f(int a) { return a >>> 1; } }",
		"class A { String s = \"/* no */\"; char c = '\"'; int f(int a) { return a >> > 1; } }",
		"class A { String s = \"\"; char c = '\"'; int f(int a) { return a >>> 1; } }",
	}},
	{"java blocks", "A.java", []string{"String s = \"\"\"\n  a // b \\\"\"\"\n  \"\"\"; // c\n", "String s=\"\"\"\n  a // b \\\"\"\"\n  \"\"\";"}, []string{"String s = \"\"\"\n a // b \\\"\"\"\n  \"\"\";"}},
	{"c", "a.c", []string{
		"#include <sys//x.h>\n#define F(x) ((x) + 1) // one\nint f(int *p) { return *p / 2; /* ' */ }\n",
		"#include <sys//x.h>\n# define F(x) \\\n  ((x)+1)\nint f(int*p){\n  return *p/2; // \\\n still a comment\n}\n",
	}, []string{
		"#include <sys//y.h>\n#define F(x) ((x) + 1)\nint f(int *p) { return *p / 2; }\n",
		"#include <sys//x.h>\n#define F (x) ((x) + 1)\nint f(int *p) { return *p / 2; }\n",
		"#include <sys//x.h>\n#define F(x) ((x) + 1) int f(int *p) { return *p / 2; }\n",
		"#include <sys//x.h>\n#define F(x) ((x) + 1)\nint f(int *p) { return *p /* 2; */; }\n",
	}},
	{"c++", "a.cpp", []string{"auto s = R\"x(// )\" \")x\"; // 1\nint n = 1'000'000;\n", "auto s=R\"x(// )\" \")x\";\nint n=1'000'000;"},
		[]string{"auto s = R\"x(//  )\" \")x\"; int n = 1'000'000;", "auto s = R\"x(// )\" \")x\"; int n = 1'000;", "auto s = L\"x(// )\" \")x\";"}},
	{"shell", "a.sh", []string{
		"#!/bin/sh\n# says\nif [ \"$#\" -gt 0 ]; then\n\techo \"a # b $(echo \"x  y\")\"  # c\nfi\n",
		"#!/bin/sh\n\nif [ \"$#\" -gt 0 ]; then\n  echo   \"a # b $(echo \"x  y\")\"\nfi",
	}, []string{
		"#!/bin/sh\nif [ \"$#\" -gt 0 ]; then\necho \"a #  b $(echo \"x  y\")\"\nfi\n",
		"#!/bin/sh\nif [ \"$#\" -gt 0 ]; then\necho \"a # b $(echo \"x y\")\"\nfi\n",
		"#!/bin/sh\nif [ \"$#\" -gt 0 ]; then\necho \"a\"\nfi\n",
		"#!/bin/bash\nif [ \"$#\" -gt 0 ]; then\necho \"a # b $(echo \"x  y\")\"\nfi\n",
		"#!/bin/sh\nif [\"$#\" -gt 0 ]; then\necho \"a # b $(echo \"x  y\")\"\nfi\n",
	}},
	{"shell words", "a.sh", []string{"a=${x#y} b=$# c=x#y # d\n", "  a=${x#y}  b=$#  c=x#y\n"}, []string{"a=${x#y} b=$# c=x #y\n", "a=${x} b=$# c=x#y\n", "a= ${x#y} b=$# c=x#y\n"}},
	{"shell documents", "a.sh", []string{"cat <<'E' # to\n  # kept  as it is\nE\necho x\n", "cat  <<'E'\n  # kept  as it is\nE\n# c\necho  x\n"}, []string{"cat <<'E'\n # kept  as it is\nE\necho x\n", "cat <<'E'\nE\necho x\n"}},
	{"ruby", "a.rb", []string{
		"# frozen_string_literal: true\n# doc\ndef f(a)\n  # two\n  puts \"a # #{a[\"x # y\"]}\"  # c\nend\n=begin\nlong\n=end\n",
		"# frozen_string_literal: true\ndef f(a)\n    puts   \"a # #{a[\"x # y\"]}\"\nend\n",
	}, []string{
		"# frozen_string_literal: false\ndef f(a)\n  puts \"a # #{a[\"x # y\"]}\"\nend\n",
		"# frozen_string_literal: true\ndef f(a)\n  puts \"a #  #{a[\"x # y\"]}\"\nend\n",
		"# frozen_string_literal: true\ndef f(a)\n  puts \"a \"\nend\n",
		"# frozen_string_literal: true\ndef f (a)\n  puts \"a # #{a[\"x # y\"]}\"\nend\n",
	}},
	{"ruby arguments", "a.rb", []string{"foo - 1 # one\nx = y / 2\nz =~ /a # b/\n", "  foo  -  1\nx = y / 2\nz =~ /a # b/\n"}, []string{"foo -1\nx = y / 2\nz =~ /a # b/\n", "foo - 1\nx = y / 2\nz =~ /a /\n"}},
	{"ruby documents", "a.rb", []string{"x = <<~E.strip # to\n  # kept  as it is\nE\ny\n", "x =  <<~E.strip\n  # kept  as it is\nE\n\ny"}, []string{"x = <<~E.strip\nE\ny\n", "x = <<~E.strip\n  # kept as it is\nE\ny\n"}},
	{"json", "a.json", []string{"{\"a\": [1, 2e-3], \"b // c\": \"d  e\"}", "{\n\t\"a\":[1,2e-3],\n\t\"b // c\":\"d  e\"\n}\n"}, []string{"{\"a\": [1, 2e-3], \"b // c\": \"d e\"}", "{\"a\": [12e-3], \"b // c\": \"d  e\"}"}},
}

// What cannot be read for certain has its words for a form, and so has what is
// no known language: a comment counts there.
var unread = []struct{ name, file, text string }{
	{"jsx", "a.jsx", "x = <p>it's // text</p>\n"}, {"jsx in js", "a.js", "return <p>it's // text</p>\n"},
	{"a slash after a brace", "a.js", "if (x) {} /'/.test(y)\n"}, {"html comment", "a.js", "x <!-- y\n"}, {"escaped name", "a.js", "\\u0061 = 1\n"}, {"open template", "a.js", "`${a"},
	{"f-string", "a.py", "x = f\"{y[\"a # b\"]}\"\n"}, {"open string", "a.py", "x = 'a\n"}, {"depth", "a.py", "if a:\n    b\n  c\n"}, {"open bracket", "a.py", "x = (1\n"},
	{"case in a substitution", "a.sh", "echo \"$(case $x in a) echo \"# b\";; esac)\"\n"}, {"open document", "a.sh", "cat <<E\nx\n"}, {"shift", "a.sh", "echo $((1<<2))\n"},
	{"percent literal", "a.rb", "x = %q(# a)\n"}, {"bare document", "a.rb", "x = <<E\n# a\nE\n"}, {"character", "a.rb", "x = ?#\n"},
	{"escape of a quote", "A.java", "String s = \"\\u0022 + // \";\n"}, {"apostrophe", "a.c", "#if 0\ndon't\n#endif\n"}, {"open comment", "a.rs", "/* /* */ x"}, {"trigraph", "a.c", "// a ??/\nb\n"},
	{"broken go", "a.go", "package a; var s = \"x\n"}, {"not UTF-8", "a.go", "package a // \xff\n"}, {"unknown", "a.xyz", "a // b\n"}, {"text", "README", "a # b\n"},
}

func TestForms(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := Of(c.file, []byte(c.same[0]))
			for _, s := range append(c.same, c.other...) {
				if f := Of(c.file, []byte(s)); !f.Known && !(strings.HasPrefix(c.name, "go") && f != want) {
					t.Errorf("%q is not read as code", s)
				}
			}
			for _, s := range c.same[1:] {
				if Of(c.file, []byte(s)) != want {
					t.Errorf("%q has another form than %q", s, c.same[0])
				}
			}
			for _, s := range c.other {
				if Of(c.file, []byte(s)) == want {
					t.Errorf("%q has the form of %q", s, c.same[0])
				}
			}
		})
	}
}

func TestWhatIsNotReadHasItsWords(t *testing.T) {
	for _, c := range unread {
		f := Of(c.file, []byte(c.text))
		if f.Known {
			t.Errorf("%s: it is read as code", c.name)
		}
		if g := Of(c.file, []byte(strings.TrimSuffix(c.text, "\n")+"  \n")); g != f {
			t.Errorf("%s: a blank at the end of a line counts", c.name)
		}
		if g := Of(c.file, []byte(c.text+"word\n")); g == f {
			t.Errorf("%s: a word does not count", c.name)
		}
	}
}

func TestLanguageOfTheFirstLine(t *testing.T) {
	for line, read := range map[string]bool{"#!/bin/sh": true, "#!/usr/bin/env python3": true, "#! /usr/bin/env ruby -w": true, "#!/usr/bin/env node": true, "#!/usr/bin/perl": false, "sh": false} {
		if f := Of("bin/tool", []byte(line+"\nx = 1\n")); f.Known != read {
			t.Errorf("%s: read as code is %t", line, f.Known)
		}
	}
	indented, not := []byte("a:\n  b:\n    c\n"), []byte("a:\n  b:\n  c\n")
	if Of("a.yaml", indented) == Of("a.yaml", not) || Of("a.txt", indented) != Of("a.txt", not) {
		t.Error("the depth of lines counts in YAML, and not in a text")
	}
}

// A dialect is enough of a language to write programs in it that hold the same
// tokens and look different.
type dialect struct {
	file        string
	tokens      []string // that may stand next to each other with a blank between; ~ is a blank in one
	line        string   // what begins a comment to the end of the line
	block       [2]string
	lines       bool // line ends are tokens: only their blanks vary
	significant bool // and blanks are: only how many varies
}

var dialects = []dialect{
	{file: "a.py", tokens: strings.Fields(`a b1 if not ( ) [ ] 1 2.5 1e-3 + - * // ** == != := . , : "s#t" 'u' f"{a}" r'\n' """v"""`), line: "#", lines: true},
	{file: "a.js", tokens: strings.Fields("a b1 typeof , ; + - * == === && ?? ?. . 1 2.5 1e-3 \"s//t\" 'u' `v//`"), line: "//", block: [2]string{"/*", "*/"}, lines: true},
	{file: "a.ts", tokens: strings.Fields("a b1 as , ; : + - * == === && ?? < > 1 2.5 \"s//t\" 'u' `v//`"), line: "//", block: [2]string{"/*", "*/"}, lines: true},
	{file: "a.rs", tokens: strings.Fields(`a b1 let 'c' 'd ; , :: -> + - && | . .. ..= 1 2.5 1e-3 "s//t" r#"u"v"# b"w" { } ( )`), line: "// ", block: [2]string{"/* ", " */"}},
	{file: "A.java", tokens: strings.Fields(`a b1 int 'c' ; , :: -> + ++ - && >>> > . 1 2.5 1e-3 "s//t" { } ( )`), line: "//", block: [2]string{"/*", "*/"}},
	{file: "a.c", tokens: strings.Fields(`a b1 int 'c' ; , -> + ++ - && >> > . 1 2.5 1e-3 "s//t" { } ( )`), line: "//", block: [2]string{"/*", "*/"}},
	{file: "a.sh", tokens: strings.Fields(`a b1 if ; & | && ( ) "s~#~t" 'u#' $x ${y#z} $# a#b`), line: "#", lines: true, significant: true},
	{file: "a.rb", tokens: strings.Fields(`a b1 if ; && . , == + "s#t" 'u' :v 1 2.5 @w [ ] ( )`), line: "#", lines: true, significant: true},
}

// write puts tokens into lines; looks are how it varies, and must not matter.
func (d dialect) write(t *rapid.T, lines [][]string, label string) string {
	var b strings.Builder
	pick := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label+what) }
	blanks := []string{" ", "  ", "\t"}
	for _, tokens := range lines {
		if d.lines && rapid.Bool().Draw(t, label+"blank") {
			b.WriteString(pick("between", "\n", "   \n", "  "+d.line+" it's \"a\n"))
		}
		if d.file != "a.py" {
			b.WriteString(pick("indent", "", "  ", "\t"))
		}
		for i, token := range tokens {
			if i > 0 {
				between := blanks
				if !d.lines {
					between = append(between, "\n", " "+d.line+"it's \"a\n")
				}
				if d.block[0] != "" {
					between = append(between, " "+d.block[0]+"it's \"a"+d.block[1]+" ")
				}
				b.WriteString(pick("between", between...))
			}
			b.WriteString(strings.ReplaceAll(token, "~", " "))
		}
		b.WriteString(pick("end", "", "  ", "\t", " "+d.line+" it's \"a") + pick("newline", "\n", "\r\n"))
	}
	return b.String()
}

// However tokens are put, they have one form; other tokens have another.
func TestFormIsThatOfTheTokens(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.file, func(t *testing.T) {
			read := 0
			rapid.Check(t, func(t *rapid.T) {
				lines := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(d.tokens), 1, 8), 1, 4).Draw(t, "lines")
				one, two := d.write(t, lines, "one"), d.write(t, lines, "two")
				a, b := Of(d.file, []byte(one)), Of(d.file, []byte(two))
				if a.Known != b.Known {
					t.Fatalf("%q is read: %t, and %q: %t", one, a.Known, two, b.Known)
				}
				if !a.Known {
					return
				}
				read++
				if a != b {
					t.Fatalf("%q and %q have other forms", one, two)
				}
				i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
				j := rapid.IntRange(0, len(lines[i])-1).Draw(t, "token")
				other := rapid.SampledFrom(d.tokens).Draw(t, "other")
				if other == lines[i][j] {
					other = "zz"
				}
				lines[i][j] = other
				if three := d.write(t, lines, "three"); Of(d.file, []byte(three)) == a {
					t.Fatalf("%q has the form of %q", three, one)
				}
			})
			if read < 20 {
				t.Errorf("only %d programs were read as code", read)
			}
		})
	}
}

func FuzzOf(f *testing.F) {
	for _, c := range cases {
		for _, s := range append(c.same, c.other...) {
			f.Add(c.file, s)
		}
	}
	for _, c := range unread {
		f.Add(c.file, c.text)
	}
	f.Fuzz(func(t *testing.T, file, text string) {
		a := Of(file, []byte(text))
		if b := Of(file, []byte(text)); a != b {
			t.Fatal("two forms of one text")
		}
		if a.Known && Of(file, []byte(text+"\n\nzz\n")) == a && !strings.Contains(text, "__END__") {
			t.Fatalf("a word at the end of %q does not count", text)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	for _, d := range dialects {
		text := []byte(strings.Repeat(strings.Join(d.tokens[:4], " ")+"\n", 20_000))
		b.Run(d.file, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Of(d.file, text)
			}
		})
	}
}
