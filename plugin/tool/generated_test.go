package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A writer of Python: it writes one value in one of the many ways in which
// Python can say it.
type pythonWriter struct {
	*rand.Rand
	odd bool // somewhere a part was written that is no literal
}

func (w *pythonWriter) one(of ...string) string { return of[w.IntN(len(of))] }

// gap is what may stand between tokens within brackets.
func (w *pythonWriter) gap() string {
	return w.one("", "", "", " ", "\n", "\n  # DESCRIPTION = 'no' )]}\n", "\t", " \\\n ")
}

func (w *pythonWriter) letters() string {
	alphabet := []rune("ab \"'\\{}#\n\té•😀\x01%")
	b := make([]rune, w.IntN(8))
	for i := range b {
		b[i] = alphabet[w.IntN(len(alphabet))]
	}
	return string(b)
}

// text writes a string, perhaps as several adjacent ones in parentheses.
func (w *pythonWriter) text(s string) string {
	if r := []rune(s); len(r) > 1 && w.IntN(3) == 0 {
		cut := w.IntN(len(r))
		return "(" + w.gap() + w.plain(string(r[:cut])) + " " + w.gap() + w.plain(string(r[cut:])) + w.gap() + ")"
	}
	return w.plain(s)
}

func (w *pythonWriter) plain(s string) string {
	q := w.one(`"`, `'`, `"""`, `'''`)
	if w.IntN(3) == 0 && !strings.ContainsAny(s, "\\\"'\n\x01") {
		return w.one("r", "R") + q + s + q
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\' || r == rune(q[0]):
			b.WriteString(`\` + string(r))
		case r == '\n' && len(q) == 3 && w.IntN(2) == 0:
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(w.one(`\n`, `\x0a`, `\012`))
		case r < ' ' || w.IntN(4) == 0:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return w.one("", "", "u", "U") + q + b.String() + q
}

func (w *pythonWriter) list(parts []string, open, end string) string {
	var b strings.Builder
	b.WriteString(open + w.gap())
	for i, p := range parts {
		b.WriteString(p + w.gap())
		if i < len(parts)-1 || w.IntN(2) == 0 || open == "(" {
			b.WriteString("," + w.gap())
		}
	}
	return b.String() + end
}

// value writes a random value of JSON, and now and then what is none.
func (w *pythonWriter) value(depth int) string {
	if w.IntN(60) == 0 {
		w.odd = true
		return w.one("make()", "NAME", "a.b", "[x for x in ()]", "f'{1}'", "(lambda: 1)", "1 if 1 else 2", "not 1", "1 + 1", "'a' % 1", "{**{}}", "[*()]", "-'a'",
			"{1, 2}", "b'a'", "...", "1j", "{1: 2}", "1e999", `"\ud800"`)
	}
	kind := w.IntN(8)
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		return w.one("True", "False", "None", "(True)")
	case 1:
		return w.one("0", "7", "-3", "+4", "0x1F", "0b101", "0o17", "1_000", "-0", "123456789012345678901234567890")
	case 2:
		return w.one("1.5", "-.5", "1e3", "1_0.0_1", "5.", "1E-7")
	case 3, 4:
		return w.text(w.letters())
	case 5:
		var parts []string
		for range w.IntN(4) {
			parts = append(parts, w.value(depth-1))
		}
		if w.IntN(2) == 0 && len(parts) > 0 {
			return w.list(parts, "(", ")")
		}
		return w.list(parts, "[", "]")
	}
	return w.object(depth)
}

func (w *pythonWriter) object(depth int) string {
	var parts []string
	for range w.IntN(4) {
		parts = append(parts, w.text("k"+w.letters())+w.gap()+":"+w.gap()+w.value(depth-1))
	}
	return w.list(parts, "{", "}")
}

// file writes a whole tool in which everything may stand in any order among
// other statements.
func (w *pythonWriter) file() string {
	// Below "const" any value is a JSON Schema.
	schema := "{" + w.gap() + `"const"` + ":" + w.gap() + w.value(4) + w.gap() + "}"
	parts := []string{
		w.one("DESCRIPTION = ", "DESCRIPTION: str = ", "OTHER = DESCRIPTION = ", "(DESCRIPTION) = ") + w.text(w.letters()),
		w.one("SCHEMA = ", "SCHEMA: 'dict' = ", "SCHEMA=\\\n") + schema,
		w.one("def run(args): return args", "run = lambda args: args", "def run(args, *, more=None):\n    SCHEMA = DESCRIPTION = 1\n    return SCHEMA",
			"class Runner:\n    DESCRIPTION = 1\n    def __call__(self, args): return args\nrun = Runner()"),
		w.one("", "import json", "x = {'SCHEMA': 1}", "'''DESCRIPTION = 1'''", "def f():\n    SCHEMA = 2", "# SCHEMA = {", "[SCHEMAS for SCHEMAS in ()]", "if True:\n    pass\nelse:\n    y = 1"),
	}
	w.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return strings.Join(parts, "\n") + "\n"
}

// oracle executes files, which the reader must not, and tells with Python's own
// ast whether the values are literals that JSON can say.
const oracle = `
import ast, json, sys
out = []
for source in json.load(sys.stdin):
    values = {}
    for s in ast.parse(source).body:
        targets = s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, ast.AnnAssign) else []
        for t in targets:
            if isinstance(t, ast.Name) and t.id in ("DESCRIPTION", "SCHEMA"):
                values[t.id] = s.value
    try:
        literal = {k: ast.literal_eval(v) for k, v in values.items()}
    except (ValueError, TypeError, SyntaxError):
        out.append(None)
        continue
    executed = {}
    exec(source, executed)
    assert all(repr(executed[k]) == repr(literal[k]) for k in literal), source
    try:
        schema = json.dumps(literal["SCHEMA"], allow_nan=False)
        (literal["DESCRIPTION"] + json.dumps(literal["SCHEMA"], ensure_ascii=False)).encode()
        out.append([literal["DESCRIPTION"], schema])
    except (ValueError, TypeError):
        out.append(None)
print(json.dumps(out))
`

// FuzzGenerated holds the reader against Python's own ast and against what the
// files really define when they are executed.
func FuzzGenerated(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		var sources []string
		var odd []bool
		for range 2 * readerBatch {
			w := &pythonWriter{Rand: random}
			sources = append(sources, w.file())
			odd = append(odd, w.odd)
		}
		readings := readAll(t, Callable, sources...)
		values := ask(t, sources)
		for i, r := range readings {
			switch v := values[i]; {
			case v == nil && !odd[i]:
				t.Errorf("the oracle takes no literal of ours:\n%s", sources[i])
			case v == nil && r.Skip == nil && !strings.Contains(sources[i], "{1: 2}"):
				t.Errorf("read what is no literal:\n%s", sources[i])
			case v != nil && r.Skip != nil && !odd[i]:
				t.Errorf("%s:\n%s", r.Skip, sources[i])
			case v != nil && r.Skip == nil && (r.Contract.Description != v[0] || !sameJSON(t, string(r.Contract.Schema), v[1])):
				t.Errorf("read %q %s, but it is %q:\n%s", r.Contract.Description, r.Contract.Schema, v, sources[i])
			}
		}
		if seed == 1 && (!slices.Contains(odd, true) || !slices.Contains(odd, false)) {
			t.Error("the generator writes only one sort of files")
		}
	})
}

func ask(t *testing.T, sources []string) [][]string {
	t.Helper()
	in, err := json.Marshal(sources)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-I", "-c", oracle)
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	var values [][]string
	if err := json.Unmarshal(out, &values); err != nil || len(values) != len(sources) {
		t.Fatalf("%d values: %v", len(values), err)
	}
	return values
}

// sameJSON compares two documents, with their numbers as written.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var canonical [2]string
	for i, s := range []string{a, b} {
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		c, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		canonical[i] = string(c)
	}
	return canonical[0] == canonical[1]
}
