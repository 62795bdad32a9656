package argv

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		"go test ./...":              {"go", "test", "./..."},
		"  go\ttest  \n":             {"go", "test"},
		`go test -run 'A|B' "./x y"`: {"go", "test", "-run", "A|B", "./x y"},
		`a\ b c\"d e\\f`:             {"a b", `c"d`, `e\f`},
		`a'b'"c"d`:                   {"abcd"},
		`x ''`:                       {"x", ""},
		`x "\$HOME \a \"q\" \\"`:     {"x", `$HOME \a "q" \`},
		`x '\n' '"' "'"`:             {"x", `\n`, `"`, `'`},
		`x \* "[a]" '{a,b}' \?`:      {"x", "*", "[a]", "{a,b}", "?"},
		`x {} {a} a{b,c a} a}`:       {"x", "{}", "{a}", "a{b,c", "a}", "a}"},
		`x a#b '#c'`:                 {"x", "a#b", "#c"},
		`x a=b --c=d`:                {"x", "a=b", "--c=d"},
		`x a~ '~' \~`:                {"x", "a~", "~", "~"},
		"x 'a\nb'":                   {"x", "a\nb"},
		"x a\\\nb":                   {"x", "ab"},
		"x \"a\\\nb\"":               {"x", "ab"},
		"x é":                        {"x", "é"},
		"env A=1 go":                 {"env", "A=1", "go"},
		"./x %1 a:b @c +d ^e":        {"./x", "%1", "a:b", "@c", "+d", "^e"},
		`x \ `:                       {"x", " "},
		`x \`:                        {"x", `\`},
		"'if' x":                     {"if", "x"},
	} {
		got, err := Split(in)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Split(%q) = %q, %v", in, got, err)
		}
	}
}

// TestSplitAgreesWithTheShell asks bash for the words of the same line.
func TestSplitAgreesWithTheShell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "B", " ", "  ", "'", `"`, `\`, "=", "{", "}", ",", "#", "~", "x ", "!", "-", "é", "\t"}), 0, 8).Draw(t, "pieces")
		line := "p " + strings.Join(pieces, "")
		got, err := Split(line)
		if err != nil {
			return
		}
		cmd := exec.Command("bash", "--norc", "-c", `p() { printf '%s\0' "$@"; }; `+line)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("bash on %q: %v", line, err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if len(got) == 1 {
			want = want[:0]
		}
		if !slices.Equal(got[1:], want) {
			t.Fatalf("%q: %q, bash says %q", line, got[1:], want)
		}
	})
}

func TestRefuses(t *testing.T) {
	for in, word := range map[string]string{
		"":                    "empty",
		"  \n":                "empty",
		"''":                  "no program",
		"a | b":               "operator (|)",
		"a && b":              "operator (&&)",
		"a || b":              "operator (||)",
		"a; b":                "several commands",
		"a;":                  "semicolon",
		"a &":                 "background",
		"a\nb":                "several lines",
		"a > f":               "redirection (>)",
		"a 2>&1":              "redirection",
		"a < f":               "redirection (<)",
		"a <<E\nx\nE":         "redirection",
		"a $X":                "variable",
		`a "${X}"`:            "variable",
		"a $(b)":              "command substitution",
		"a `b`":               "command substitution",
		`a "$(b)"`:            "command substitution",
		"a $((1))":            "arithmetic",
		"a <(b)":              "process substitution",
		"a $'x'":              "expansion",
		`a $"x"`:              "expansion",
		"a *.go":              "pattern (*",
		"a b?":                "pattern (?",
		"a x[1]":              "pattern ([",
		"a @(x|y)":            "pattern",
		"a {x,y}":             "brace expansion",
		"a {1..3}":            "brace expansion",
		"a ~/x":               "home directory",
		"~/x":                 "home directory",
		"X=1 a":               "assignment",
		"X=1":                 "assignment",
		"! a":                 "negation",
		"(a)":                 "subshell",
		"{ a; }":              "compound",
		"if a; then b; fi":    "compound",
		"while a; do b; done": "compound",
		"f() { a; }":          "function",
		"[[ a ]]":             "compound",
		"export A=b":          "export",
		"time a":              "time",
		"a # b":               "comment",
		"# b":                 "comment",
		"a 'b":                "split",
		`a "b`:                "split",
		"a )":                 "split",
		"a\x00b":              "control character",
		"a\r\nb":              "control character",
		"a\xff":               "UTF-8",
	} {
		got, err := Split(in)
		if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Split(%q) = %q, %v; want a refusal about %s", in, got, err, word)
		}
	}
}

// TestJoin: Split undoes Join.
func TestJoin(t *testing.T) {
	if got := Join([]string{"go", "test", "./...", "a b", "", "it's", "--x=y"}); got != `go test ./... 'a b' '' 'it'\''s' --x=y` {
		t.Error(got)
	}
	special := rapid.StringOfN(rapid.RuneFrom([]rune("ab '\"\\$`*?[]{}~#!&|;<>()=\n\té^%@+-.,:/")), 0, 6, -1)
	words := rapid.SampledFrom([]string{"if", "time", "export", "!", "{", "}", "[[", "a=b", "-", "--", "~", "coproc", "let", "function", "declare", "in", "do", "@(a)", "let", "select", "case", "]]", "-n"})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.OneOf(special, words), 1, 4).Draw(t, "argv")
		if want[0] == "" {
			return
		}
		line := Join(want)
		got, err := Split(line)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q joins as %s and splits as %q, %v", want, line, got, err)
		}
	})
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"go test ./...", `a 'b' "c\$" d\ e`, "a $(b", "a {x,y}", "a\xff 'b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Split(s)
		if err != nil {
			return
		}
		again, err := Split(Join(got))
		if err != nil || !slices.Equal(got, again) {
			t.Fatalf("%q splits as %q, which joins as %q and splits as %q, %v", s, got, Join(got), again, err)
		}
	})
}
