package stricttoml

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

const located = `# a document
name = "x" # [not.a.table]
text = """
[not.a.table]
k = 1"""
raw = '''a''b
'''''
[loop]
hooks = [
  "a", # "b]"
  'c',
]
[a.b."c d"]
x.y = { p = [1, { q = 2 }], "r\u0041" = '}' }
[[check]]
m = 1
[[check]]
m = 2
  [[check.inner]]
  z = 1
  [check.sub]
  w = 1
last = 2020-01-01 10:00:00
`

func TestLocate(t *testing.T) {
	p := Locate([]byte(located))
	for _, c := range []struct {
		line int
		path []any
	}{
		{2, []any{"name"}}, {3, []any{"text"}}, {6, []any{"raw"}}, {8, []any{"loop"}}, {9, []any{"loop", "hooks"}},
		{10, []any{"loop", "hooks", 0}}, {11, []any{"loop", "hooks", 1}}, {9, []any{"loop", "hooks", 2}},
		{13, []any{"a", "b", "c d"}}, {14, []any{"a", "b", "c d", "x", "y"}}, {14, []any{"a", "b", "c d", "x", "y", "p", 1, "q"}},
		{14, []any{"a", "b", "c d", "x", "y", "rA"}},
		{15, []any{"check", 0}}, {16, []any{"check", 0, "m"}}, {17, []any{"check", 1}}, {18, []any{"check", 1, "m"}},
		{20, []any{"check", 1, "inner", 0, "z"}}, {22, []any{"check", 1, "sub", "w"}}, {23, []any{"check", 1, "sub", "last"}},
		{8, []any{"loop", "points"}}, {0, []any{"nothing"}}, {0, nil},
	} {
		if got := p.Line(c.path...); got != c.line {
			t.Errorf("%v is in line %d, want %d", c.path, got, c.line)
		}
	}
}

func TestDecodeLocatesTypes(t *testing.T) {
	type doc struct {
		N    *uint32  `toml:"n"`
		B    bool     `toml:"b"`
		L    []string `toml:"l"`
		Rows []struct {
			A string `toml:"a"`
			I int8   `toml:"i"`
		} `toml:"rows"`
		Any any `toml:"any"`
	}
	for text, want := range map[string]string{
		"n = -1":          "t:1: n is not an integer from 0 to 4294967295",
		"n = 1.0":         "t:1: n is not an integer",
		"n = 4294967296":  "t:1: n is not an integer",
		"b = 1":           "t:1: b is not true or false",
		"l = 'x'":         "t:1: l is not a list",
		"l = [\n'x',\n1]": "t:3: l is not a string",
		"rows = 1":        "t:1: rows is not a list",
		"rows = [1]":      "t:1: rows is not a table",
		"[rows]":          "t:1: rows is not a list",
		"[[rows]]\na='x'\n[[rows]]\na=1\n[[rows]]\na='z'": "t:4: rows.a is not a string",
		"[[rows]]\na='x'\n[[rows]]\nA='y'":                `t:4: unknown key "rows.A" (keys are case-sensitive: did you mean "a"?)`,
		"rows = [\n{a='x'},\n{b='x'}]":                    `t:3: unknown key "rows.b"`,
		"[[rows]]\ni = 128":                               "t:2: rows.i is not an integer of 8 bits",
		"any = {x = [{y = 1}]}":                           "",
	} {
		var d doc
		err := Decode("t", []byte(text), &d)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzLocate: whatever toml can read, every key and element has a line of the
// document.
func FuzzLocate(f *testing.F) {
	f.Add(located)
	f.Add("a.'b'.\"c\" = [[], [{}], \"\"\"\"\"\"]\r\n[x]\r\n")
	f.Add("'' = '''\n'''\n[''.\"\"]")
	f.Fuzz(func(t *testing.T, text string) {
		p := Locate([]byte(text))
		var raw map[string]any
		if _, err := toml.Decode(text, &raw); err != nil || len(text) > 10000 {
			return
		}
		var walk func(v any, path []any)
		walk = func(v any, path []any) {
			if line := p.lines[join("", path...)]; len(path) > 0 && (line < 1 || line > strings.Count(text, "\n")+1) {
				t.Fatalf("%q: %q is in line %d", text, path, line)
			}
			switch v := reflect.ValueOf(v); v.Kind() {
			case reflect.Map:
				for _, k := range v.MapKeys() {
					walk(v.MapIndex(k).Interface(), append(path[:len(path):len(path)], k.String()))
				}
			case reflect.Slice:
				for i := range v.Len() {
					walk(v.Index(i).Interface(), append(path[:len(path):len(path)], i))
				}
			}
		}
		walk(raw, nil)
	})
}

// TestLargeRefusalIsQuick: the line of a mistake costs one pass, whatever the
// document.
func TestLargeRefusalIsQuick(t *testing.T) {
	text := strings.Repeat("#\n", MaxSize/2-10) + "zap = 1\n"
	var v target
	var e *Error
	if err := Decode("c", []byte(text), &v); !errors.As(err, &e) || e.Line != MaxSize/2-9 {
		t.Errorf("%v", err)
	}
}
