package tool

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// file is one that is not on the disk.
func file(name Name, source string) File {
	return File{Name: name, Bytes: []byte(source), SHA256: HashOf([]byte(source))}
}

// good has the given lines instead of its own DESCRIPTION, SCHEMA or run.
func source(description, schema, run string) string {
	return description + "\n" + schema + "\n" + run + "\n"
}

const (
	okDescription = `DESCRIPTION = "current weather for a city"`
	okSchema      = `SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}`
	okRun         = "def run(args):\n    return args"
)

func readAll(t *testing.T, kind Kind, sources ...string) []Reading {
	t.Helper()
	var files []File
	for _, s := range sources {
		files = append(files, file("weather", s))
	}
	readings, err := python().Read(t.Context(), kind, files)
	if err != nil {
		t.Fatal(err)
	}
	if len(readings) != len(sources) {
		t.Fatalf("%d readings of %d files", len(readings), len(sources))
	}
	return readings
}

// TestLiterals: every form in which a literal can be written.
func TestLiterals(t *testing.T) {
	cases := []struct{ name, source, description, schema string }{
		{"plain", source(okDescription, okSchema, okRun), "current weather for a city", `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`},
		{"single quotes", source(`DESCRIPTION = 'a "b"'`, `SCHEMA = {}`, okRun), `a "b"`, `{}`},
		{"triple quotes", source("DESCRIPTION = \"\"\"a\n  b\"\"\"", `SCHEMA = {}`, okRun), "a\n  b", `{}`},
		{"adjacent in parentheses", source("DESCRIPTION = (\n  \"a \"  # first\n  'b '\n  \"\"\"c\"\"\"\n)", `SCHEMA = {}`, okRun), "a b c", `{}`},
		{"raw", source(`DESCRIPTION = r"\d"`, `SCHEMA = {"pattern": r"^\d+$"}`, okRun), `\d`, `{"pattern":"^\\d+$"}`},
		{"u prefix", source(`DESCRIPTION = u"x"`, `SCHEMA = {}`, okRun), "x", `{}`},
		{"escapes", source(`DESCRIPTION = "\x41\u00e9\N{BULLET}\U0001f600\t"`, `SCHEMA = {}`, okRun), "Aé•😀\t", `{}`},
		{"continued line", source("DESCRIPTION = \"a\" \\\n \"b\"", `SCHEMA = {}`, okRun), "ab", `{}`},
		{"annotated", source(`DESCRIPTION: str = "x"`, `SCHEMA: dict = {"a": [1, -2, 1.5, True, None]}`, okRun), "x", `{"a":[1,-2,1.5,true,null]}`},
		{"tuple as a list", source(`DESCRIPTION = "x"`, `SCHEMA = {"enum": ("a", "b")}`, okRun), "x", `{"enum":["a","b"]}`},
		{"two names", source(`D = DESCRIPTION = "x"`, `SCHEMA = {}`, okRun), "x", `{}`},
		{"unpacked", source(`DESCRIPTION, SCHEMA = "x", {"type": "object"}`, "", okRun), "x", `{"type":"object"}`},
		{"one line", `DESCRIPTION = "x"; SCHEMA = {}; run = lambda args: args`, "x", `{}`},
		{"the word elsewhere first", source("# DESCRIPTION = 'no'\n\"\"\"DESCRIPTION = 'no'\"\"\"\ndef f():\n  DESCRIPTION = 1\n"+`DESCRIPTION = "x"`, `SCHEMA = {}`, okRun), "x", `{}`},
		{"byte order mark", "\ufeff" + source(okDescription, `SCHEMA = {}`, okRun), "current weather for a city", `{}`},
		{"declared UTF-8", "# coding: utf8\n" + source(`DESCRIPTION = "é"`, `SCHEMA = {}`, okRun), "é", `{}`},
		{"CRLF", strings.ReplaceAll(source(okDescription, `SCHEMA = {}`, okRun), "\n", "\r\n"), "current weather for a city", `{}`},
		{"key order", source(okDescription, `SCHEMA = {"b": 1, "a": 2, "b": 3}`, okRun), "current weather for a city", `{"b":3,"a":2}`},
		{"run imported", source(okDescription, `SCHEMA = {}`, "from x import run"), "current weather for a city", `{}`},
		{"run from a star", source(okDescription, `SCHEMA = {}`, "from x import *"), "current weather for a city", `{}`},
		{"run in a branch", source(okDescription, `SCHEMA = {}`, "try:\n    from x import run\nexcept ImportError:\n    def run(args): return 1"), "current weather for a city", `{}`},
		{"run decorated", source(okDescription, `SCHEMA = {}`, "@f\ndef run(): pass"), "current weather for a city", `{}`},
		{"run made by a function", source(okDescription, `SCHEMA = {}`, "def make():\n  global run\n  run = print\nmake()"), "current weather for a city", `{}`},
		{"form feeds", "\f" + source(okDescription, "\fSCHEMA = {}", okRun), "current weather for a city", `{}`},
		{"lines that go on", source("DESCRIPTION \\\n = 'x'", `SCHEMA = {}`, okRun), "x", `{}`},
		{"lines of CR", strings.ReplaceAll(source(okDescription, `SCHEMA = {}`, okRun), "\n", "\r"), "current weather for a city", `{}`},
		{"a literal of a megabyte beside it", source(okDescription, `SCHEMA = {}`, "X = '"+strings.Repeat("y", 1_000_000)+"'\n"+okRun), "current weather for a city", `{}`},
		{"names in wide letters", source(`ＤＥＳＣＲＩＰＴＩＯＮ = "x"`, `SCHEMA = {}`, okRun), "x", `{}`},
		{"run with defaults", source(okDescription, `SCHEMA = {}`, "def run(args, *more, x=1, **kw): pass"), "current weather for a city", `{}`},
		{"run assigned", source(okDescription, `SCHEMA = {}`, "class A:\n  def go(self, args): pass\nrun = A().go"), "current weather for a city", `{}`},
	}
	var sources []string
	for _, c := range cases {
		sources = append(sources, c.source)
	}
	readings := readAll(t, Callable, sources...)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := readings[i]
			if r.Skip != nil {
				t.Fatal(r.Skip)
			}
			if r.Contract.Description != c.description || string(r.Contract.Schema) != c.schema {
				t.Errorf("%q %s, want %q %s", r.Contract.Description, r.Contract.Schema, c.description, c.schema)
			}
		})
	}
}

// TestNotLiterals: what is no literal is refused with the field and the line
// of the very part, and what is missing or of another type by its name.
func TestNotLiterals(t *testing.T) {
	deep := strings.Repeat("[", 80) + strings.Repeat("]", 80)
	cases := []struct{ name, source, want string }{
		{"f-string", source(`DESCRIPTION = f"a"`, okSchema, okRun), "weather.py:1: DESCRIPTION: it is not a literal"},
		{"call", source(okDescription, "SCHEMA = {\n  'a': 1,\n  'b': make(),\n}", okRun), "weather.py:4: SCHEMA: it is not a literal"},
		{"name", source(okDescription, "SCHEMA = {\n  'enum': CITIES}", okRun), "weather.py:3: SCHEMA: it is not a literal"},
		{"operator", source(`DESCRIPTION = "a" + "b"`, okSchema, okRun), "weather.py:1: DESCRIPTION: it is not a literal"},
		{"comprehension", source(okDescription, "SCHEMA = {k: 1 for k in 'ab'}", okRun), "weather.py:2: SCHEMA: it is not a literal"},
		{"spread", source(okDescription, "SCHEMA = {\n 'a': 1,\n **other}", okRun), "weather.py:4: SCHEMA: it is not a literal"},
		{"ternary", source(okDescription, "SCHEMA = {} if 1 else {}", okRun), "SCHEMA: it is not a literal"},
		{"a method", source("DESCRIPTION = '''a'''.strip()", okSchema, okRun), "DESCRIPTION: it is not a literal"},
		{"no DESCRIPTION", source("", okSchema, okRun), "weather.py: DESCRIPTION: it is missing"},
		{"no SCHEMA", source(okDescription, "", okRun), "weather.py: SCHEMA: it is missing"},
		{"no run", source(okDescription, okSchema, ""), "weather.py: run: it is missing"},
		{"run in a class only", source(okDescription, okSchema, "class A:\n  def run(self): pass"), "run: it is missing"},
		{"names in a comment", "# DESCRIPTION SCHEMA def run(", "DESCRIPTION: it is missing"},
		{"bytes", source(`DESCRIPTION = b"a"`, okSchema, okRun), "DESCRIPTION: it must be a str and is a bytes"},
		{"a number", source(`DESCRIPTION = 1`, okSchema, okRun), "DESCRIPTION: it must be a str and is a int"},
		{"a list", source(okDescription, `SCHEMA = []`, okRun), "weather.py:2: SCHEMA: it must be a dict and is a list"},
		{"a set", source(okDescription, `SCHEMA = {"enum": {1, 2}}`, okRun), "SCHEMA: it holds a set, so it is not JSON"},
		{"an empty set", source(okDescription, `SCHEMA = {"enum": set()}`, okRun), "SCHEMA: it "},
		{"bytes inside", source(okDescription, `SCHEMA = {"const": b"a"}`, okRun), "SCHEMA: it holds a bytes"},
		{"an ellipsis", source(okDescription, `SCHEMA = {"const": ...}`, okRun), "SCHEMA: it holds a ellipsis"},
		{"a complex number", source(okDescription, `SCHEMA = {"const": 1+2j}`, okRun), "SCHEMA: it holds a complex"},
		{"an infinity", source(okDescription, `SCHEMA = {"const": 1e999}`, okRun), "SCHEMA: it holds a number that is not finite"},
		{"a key that is none", source(okDescription, `SCHEMA = {1: 2}`, okRun), "SCHEMA: the key 1 is not a string"},
		{"an unhashable key", source(okDescription, `SCHEMA = {[]: 2}`, okRun), "SCHEMA: it is not a literal"},
		{"a lone surrogate", source(`DESCRIPTION = "\ud800"`, okSchema, okRun), "DESCRIPTION: it holds half of a surrogate pair"},
		{"a lone surrogate inside", source(okDescription, `SCHEMA = {"\ud800": 1}`, okRun), "SCHEMA: it holds half of a surrogate pair"},
		{"too deep", source(okDescription, `SCHEMA = {"const": `+deep+`}`, okRun), "SCHEMA: it is nested deeper than 64"},
		{"long description", source(`DESCRIPTION = "`+strings.Repeat("x", 1<<16+1)+`"`, okSchema, okRun), "DESCRIPTION: it is longer than 65536 bytes"},
		{"long schema", source(okDescription, `SCHEMA = {"a": "`+strings.Repeat("x", 1<<18)+`"}`, okRun), "SCHEMA: it is longer than 262144 bytes"},
		{"assigned again", source(okDescription, okSchema, okRun+"\nDESCRIPTION += 'x'"), "weather.py:5: DESCRIPTION: it is bound a second time"},
		{"assigned again in a branch", source(okDescription, okSchema, okRun+"\nif x:\n  SCHEMA = {}"), "weather.py:6: SCHEMA: it is bound a second time"},
		{"assigned by a walrus", source(okDescription, okSchema, okRun+"\nprint(SCHEMA := {})"), "SCHEMA: it is bound a second time"},
		{"assigned by a walrus in a comprehension", source(okDescription, okSchema, okRun+"\n[SCHEMA := {} for _ in 'a']"), "SCHEMA: it is bound a second time"},
		{"a loop variable", source(okDescription, okSchema, okRun+"\nfor SCHEMA in []: pass"), "SCHEMA: it is bound a second time"},
		{"as an exception", source(okDescription, okSchema, okRun+"\ntry: pass\nexcept E as SCHEMA: pass"), "SCHEMA: it is bound a second time"},
		{"a match", source(okDescription, okSchema, okRun+"\nmatch x:\n  case {**SCHEMA}: pass"), "SCHEMA: it is bound a second time"},
		{"deleted", source(okDescription, okSchema, okRun+"\ndel SCHEMA"), "SCHEMA: it is bound a second time"},
		{"a function's global", source(okDescription, okSchema, okRun+"\ndef f():\n  global SCHEMA\n  SCHEMA = {}\nf()"), "weather.py:6: SCHEMA: it is bound a second time"},
		{"a class's global", source(okDescription, okSchema, okRun+"\nclass A:\n  global DESCRIPTION\n  DESCRIPTION = 1"), "weather.py:6: DESCRIPTION: it is bound a second time"},
		{"imported", source("from x import DESCRIPTION", okSchema, okRun), "DESCRIPTION: it is not a plain assignment"},
		{"again in wide letters", source(okDescription, okSchema, okRun+"\nＳＣＨＥＭＡ = {}"), "weather.py:5: SCHEMA: it is bound a second time"},
		{"a huge number", source(okDescription, `SCHEMA = {"const": 0x`+strings.Repeat("f", 200_000)+`}`, okRun), "weather.py: it cannot be read"},
		{"a power", source(okDescription, `SCHEMA = {"const": 9**9**9}`, okRun), "SCHEMA: it is not a literal"},
		{"UTF-16", "\xff\xfeD\x00E\x00", "weather.py: it is not Python"},
		{"another declared encoding", "# -*- coding: latin-1 -*-\n" + source(okDescription, okSchema, okRun), "weather.py: it is encoded as iso-8859-1"},
		{"only in a branch", source("if 1:\n  DESCRIPTION = 'x'", okSchema, okRun), "weather.py:2: DESCRIPTION: it is not a plain assignment at the top"},
		{"starred", source("DESCRIPTION, *SCHEMA = 'a', {}", "", okRun), "DESCRIPTION: it is not a plain assignment"},
		{"async run", source(okDescription, okSchema, "async def run(args): pass"), "weather.py:3: run: it is async"},
		{"run without a parameter", source(okDescription, okSchema, "def run(): pass"), "run: it cannot be called with one argument: define it as run(args)"},
		{"run with two", source(okDescription, okSchema, "def run(a, b): pass"), "run: it cannot be called with one argument"},
		{"run with a keyword", source(okDescription, okSchema, "def run(a, *, b): pass"), "run: it cannot be called with one argument"},
		{"run is a string", source(okDescription, okSchema, "run = 'x'"), "run: it is a str and not a function"},
		{"syntax", source(okDescription, "SCHEMA = {", okRun), "weather.py:2: it is not Python 3."},
		{"an old print", source(okDescription, okSchema, okRun+"\nprint 1"), "weather.py:5: it is not Python 3."},
		{"a NUL byte", okDescription + "\x00", "weather.py: it is not Python"},
		{"an encoding that hides code", "# coding: utf-7\n" + source(okDescription, okSchema, okRun), "weather.py: it is encoded as utf-7"},
		{"an unknown encoding", "# coding: x\n" + source(okDescription, okSchema, okRun), "it is not Python"},
		{"not UTF-8", source(okDescription, okSchema, okRun) + "# \xff", "weather.py:5: it is not UTF-8"},
		{"empty", "", "DESCRIPTION: it is missing"},
		{"no schema", source(okDescription, `SCHEMA = {"type": "str"}`, okRun), "weather.py:2: SCHEMA: it is no JSON Schema: at /type"},
		{"a remote reference", source(okDescription, `SCHEMA = {"$ref": "http://example.org/x"}`, okRun), "SCHEMA: it is no JSON Schema"},
		{"a reference to a file", source(okDescription, `SCHEMA = {"$ref": "file:///etc/passwd"}`, okRun), "SCHEMA: it is no JSON Schema"},
	}
	var sources []string
	for _, c := range cases {
		sources = append(sources, c.source)
	}
	readings := readAll(t, Callable, sources...)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := readings[i]
			if r.Skip == nil {
				t.Fatalf("read: %+v", r.Contract)
			}
			if !strings.HasPrefix(r.Skip.String(), c.want) && !strings.Contains(r.Skip.String(), ": "+c.want) {
				t.Errorf("%s, want %s", r.Skip, c.want)
			}
		})
	}
}

// TestBadFilesAreAlone: files that break a parser, flood it or make it wait
// skip only themselves, and none of them is executed.
func TestBadFilesAreAlone(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "executed")
	good := source(okDescription, okSchema, okRun)
	executing := good + "open(" + "'" + mark + "', 'w')\nimport sys; sys.exit(3)\n"
	bad := []string{
		strings.Repeat("(", 100_000),
		"x = " + strings.Repeat("-", 500_000) + "1",
		"x = " + strings.Repeat("a.", 400_000) + "b",
		"DESCRIPTION = " + strings.Repeat("1+", 200_000) + "1",
		"SCHEMA = " + strings.Repeat("{1:", 90) + "1" + strings.Repeat("}", 90) + "\n" + okDescription,
		strings.Repeat("if x:\n ", 1),
		"x = [" + strings.Repeat("1,", 500_000) + "]",
		"x = '''" + strings.Repeat("é", 1<<18),
		strings.Repeat("\x00", 1000),
		"x = 9" + strings.Repeat("9", 100_000),
		strings.Repeat("x", 2<<20),
	}
	sources := []string{good}
	for _, b := range bad {
		sources = append(sources, b, executing)
	}
	for i, r := range readAll(t, Callable, sources...) {
		if i%2 == 1 {
			if r.Skip == nil {
				t.Errorf("file %d was read", i)
			} else if !utf8.ValidString(r.Skip.Reason) || len(r.Skip.Reason) > 400 {
				t.Errorf("file %d: %q", i, r.Skip.Reason)
			}
		} else if r.Skip != nil {
			t.Errorf("file %d, a good one: %s", i, r.Skip)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a file was executed")
	}
}

// TestTrainers: the other contract of the same reader.
func TestTrainers(t *testing.T) {
	const train, evaluate = "def train(rows_path, out_dir):\n  pass\n", "def evaluate(checkpoint, rows_path):\n  pass\n"
	cases := map[string]string{
		train + evaluate:                         "",
		"DESCRIPTION = 'x'\n" + train + evaluate: "",
		train:                                    "weather.py: evaluate: it is missing: define a function evaluate(checkpoint, rows_path)",
		evaluate:                                 "weather.py: train: it is missing",
		train + "def evaluate(x): pass":          "weather.py:3: evaluate: it cannot be called with 2 arguments",
		"DESCRIPTION = x()\n" + train + evaluate: "weather.py:1: DESCRIPTION: it is not a literal",
		train + "async def evaluate(a, b):\n    pass\n": "weather.py:3: evaluate: it is async",
	}
	sources := slices.Sorted(maps.Keys(cases))
	for i, r := range readAll(t, Trainer, sources...) {
		source, want := sources[i], cases[sources[i]]
		switch {
		case want == "" && r.Skip != nil:
			t.Errorf("%q: %s", source, r.Skip)
		case want != "" && (r.Skip == nil || !strings.HasPrefix(r.Skip.String(), want)):
			t.Errorf("%q: %v, want %s", source, r.Skip, want)
		}
	}
}

func TestNoPython(t *testing.T) {
	p := Python{Program: "/nowhere/python"}
	if r, err := p.Read(t.Context(), Callable, nil); err != nil || len(r) != 0 {
		t.Errorf("nothing to read: %v %v", r, err)
	}
	_, err := p.Read(t.Context(), Callable, []File{file("a", "")})
	if err == nil || !strings.Contains(err.Error(), "[tools] python") {
		t.Errorf("no interpreter: %v", err)
	}
	p = Python{Program: "/bin/false"}
	if _, err := p.Read(t.Context(), Callable, []File{file("a", "")}); err == nil || !strings.Contains(err.Error(), "status 1") {
		t.Errorf("another program: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := python().Read(ctx, Callable, []File{file("a", "")}); err == nil {
		t.Error("read after its context ended")
	}
}

func FuzzParseFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x02{}\x00\x00\x00\x01\x00\x00\x00\x00"), uint8(2))
	f.Add([]byte(nil), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		frames, _ := parseFrames(b, int(n))
		if len(frames) != int(n) {
			t.Fatalf("%d frames of %d files", len(frames), n)
		}
		for _, fr := range frames {
			for _, kind := range []Kind{Callable, Trainer} {
				r := parseFrame("x.py", kind, fr)
				if kind == Callable && r.Skip == nil && len(r.Contract.Schema) == 0 {
					t.Errorf("a tool without a schema from %q", fr)
				}
			}
		}
	})
}
