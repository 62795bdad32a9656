package mutate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// everywhere proposes the edits of a text as if all of it were suspicious.
func everywhere(name, src string) (*file, []edit) {
	f := parseFile(name, src, languageOf(name))
	suspicion := make([]float64, strings.Count(src, "\n")+2)
	for i := range suspicion {
		suspicion[i] = 1
	}
	return f, propose([]place{{f, suspicion}}, nil)
}

// What the catalogue can do, one line for each kind of fault.
func TestCatalogue(t *testing.T) {
	py := func(body string) string { return "def f(a, b, xs):\n    " + body + "\n    return a\n" }
	for _, c := range []struct{ name, src, want string }{
		{"x.py", py("while a < b:\n        a += 1"), "while a <= b:"},
		{"x.py", py("a ^= b"), "a &= b"},
		{"x.py", py("if a and b:\n        a = 1"), "if a or b:"},
		{"x.py", py("a = f(b, a, xs)"), "a = f(a, b, xs)"},
		{"x.py", py("a = f(a, b, xs[1:])"), "a = f(a, b, xs)"},
		{"x.py", py("a = f(a, b - 1, xs[1:])"), "a = f(a, b, xs[1:])"},
		{"x.py", py("a = f(a, b, xs)\n    b = xs[1:]"), "a = f(a, b, xs[1:])"},
		{"x.py", py("a = f(a, b, xs)"), "a = f(a + 1, b, xs)"},
		{"x.py", py("a = f(a, b, xs)"), "a = f(a - b, b, xs)"},
		{"x.py", py("for x in range(0, a):\n        b += x"), "range(0, a + 1)"},
		{"x.py", py("for x in xs:\n        b += x"), "for x in xs[a:]:"},
		{"x.py", py("a = b + a"), "a = a + b"},
		{"x.py", py("a = b + a"), "a = max(a, b + a)"},
		{"x.py", py("a = b + a"), "a = max(0, b + a)"},
		{"x.py", py("if any(x > 0 for x in xs):\n        a = 1"), "if all(x > 0 for x in xs):"},
		{"x.py", py("if a.left is None:\n        b = 1"), "if a is None or a.left is None:"},
		{"x.py", py("if a < 0:\n        b = 1"), "if not b or a < 0:"},
		{"x.py", py("if len(xs) == 0:\n        b = 1"), "if len(xs) <= 1:"},
		{"x.py", py("while True:\n        xs.pop()"), "while xs:"},
		{"x.py", "def f(a, xs):\n    a += 1\n    return True\n", "return a == 0"},
		{"x.py", "def f(a, xs):\n    a += 1\n    return []\n", "return [[]]"},
		{"x.py", "def f(a, xs):\n    a += 1\n    return []\n", "return [a]"},
		{"x.py", "def f(a, xs):\n    return f(a, xs[1:])\n", "return a + f(a, xs[1:])"},
		{"x.py", "def f(a, b):\n    return f(a // 2, b)\n", "if a == 0:\n        return b\n    return f(a // 2, b)"},
		{"x.py", py("a = b\n    b = a"), "b = a\n    a = b"},
		{"x.py", py("for x in xs:\n        b = x\n    a = b"), "        b = x\n        a = b"},
		{"x.py", py("for x in xs:\n        b = x\n        a = b"), "        b = x\n    a = b"},
		{"x.py", py("xs.append(a)"), "xs.append(a)\n    xs.append(b)"},
		{"x.py", py("for x in xs:\n        if x in a:\n            continue\n        b = x"), "a.add(x)"},
		{"x.py", py("b = xs[a, b]"), "b = xs[b, a]"},
		{"x.py", py("b = xs.left\n    a.right = b"), "b = xs.right"},
		{"x.py", py("a = list(f(b))"), "a = f(b)"},
		{"x.py", py("xs = a"), "b = xs"},
		{"x.go", "package x\n\nfunc f(n int) int {\n\treturn n * f(n-1)\n}\n", "if n == 0 {\n\t\treturn 1\n\t}\n\treturn n * f(n-1)"},
		{"x.go", "package x\n\nfunc f(m [][]int, i, j int) int {\n\treturn m[i][j]\n}\n", "return m[j][i]"},
		{"x.js", "function f(xs) {\n  let open = [];\n  xs.forEach(x => open.push(x));\n  return true;\n}\n", "return open.length === 0;"},
		{"x.js", "const f = (a, b) => {\n  for (let i = 0; i < a; i++) {\n    b += i;\n  }\n  return b;\n};\n", "i <= a"},
		{"X.java", "class X {\n    int f(int a, int b) {\n        if (a < b) {\n            return a;\n        }\n        return b;\n    }\n}\n", "if (a > b)"},
		{"x.c", "int f(struct n *a, struct n *b) {\n    while (a->next) {\n        b = a->next;\n    }\n    return 0;\n}\n", "while (a != NULL && a->next)"},
		{"x.c", "int f(int a, int b) {\n    b = a - 1;\n    return b;\n}\n", "b = (b > a - 1 ? b : a - 1);"},
	} {
		_, edits := everywhere(c.name, c.src)
		if !slices.ContainsFunc(edits, func(e edit) bool { return strings.Contains(e.apply(), c.want) }) {
			t.Errorf("no edit of\n%sgives %q", c.src, c.want)
		}
	}
}

// mangled draws a bug's source with some of its bytes cut or doubled.
func mangled(t *rapid.T, all []bug) (name, src string) {
	b := all[rapid.IntRange(0, len(all)-1).Draw(t, "bug")]
	var names []string
	for p := range b.files {
		if languageOf(p) != nil {
			names = append(names, p)
		}
	}
	slices.Sort(names)
	name = rapid.SampledFrom(names).Draw(t, "file")
	src = b.files[name]
	for range rapid.IntRange(0, 4).Draw(t, "cuts") {
		i := rapid.IntRange(0, len(src)).Draw(t, "from")
		j := min(len(src), i+rapid.IntRange(0, 30).Draw(t, "length"))
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			src = src[:i] + src[j:]
		case 1:
			src = src[:j] + src[i:]
		default:
			src = src[:i] + rapid.StringN(0, 5, 8).Draw(t, "text") + src[i:]
		}
	}
	return name, src
}

func TestEditsOfAnyTextAreInOrderAndDistinct(t *testing.T) {
	all := bugs(t)
	rapid.Check(t, func(t *rapid.T) {
		name, src := mangled(t, all)
		f, edits := everywhere(name, src)
		end := 0
		for _, tok := range f.toks {
			if tok.start < end || tok.end <= tok.start || src[tok.start:tok.end] != tok.text {
				t.Fatalf("token %+v after %d in %q", tok, end, src)
			}
			if want := 1 + strings.Count(src[:tok.start], "\n"); tok.line != want {
				t.Fatalf("token %+v is on line %d", tok, want)
			}
			end = tok.end
		}
		texts := map[string]bool{}
		for i, e := range edits {
			if i > 0 && e.score > edits[i-1].score {
				t.Fatalf("edit %d is better than the one before", i)
			}
			text := e.apply()
			if text == src || texts[text] {
				t.Fatalf("edit %+v changes nothing or what another does", e.change())
			}
			texts[text] = true
			e.before()
			e.after()
		}
		_, again := everywhere(name, src)
		if len(again) != len(edits) {
			t.Fatalf("%d edits, then %d", len(edits), len(again))
		}
		for i := range edits {
			if edits[i].apply() != again[i].apply() {
				t.Fatalf("edit %d differs the second time", i)
			}
		}
	})
}

func TestSharesAreAPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edits := make([]edit, rapid.IntRange(0, 60).Draw(t, "edits"))
		for i := range edits {
			edits[i].line = i
			edits[i].start, edits[i].end = 10*i, 10*i+1
			edits[i].file = &file{}
		}
		n := rapid.IntRange(1, 9).Draw(t, "n")
		seen := map[int]int{}
		both := map[[2]int]int{}
		for c := 1; c <= n; c++ {
			mine := share(edits, c, n)
			if len(mine) > 0 && mine[0].line != c-1 {
				t.Fatalf("candidate %d begins with edit %d", c, mine[0].line)
			}
			for _, e := range mine {
				seen[e.line]++
			}
			for p := range pairs(edits, c, n) {
				both[[2]int{p[0].line, p[1].line}]++
			}
		}
		for i := range edits {
			if seen[i] != 1 {
				t.Fatalf("edit %d is tried %d times", i, seen[i])
			}
			for j := i + 1; j < len(edits) && i+j < 2*len(edits)-3; j++ {
				if both[[2]int{i, j}] != 1 {
					t.Fatalf("pair %d, %d is tried %d times by %d candidates", i, j, both[[2]int{i, j}], n)
				}
			}
		}
	})
}

func TestPairsDoNotOverlap(t *testing.T) {
	_, edits := everywhere("x.py", "def f(a, b):\n    a = b + 1\n    return a\n")
	n := 0
	for p := range pairs(edits, 1, 1) {
		text := combine(p[:])[p[0].file]
		if !strings.Contains(text, p[0].text) || !strings.Contains(text, p[1].text) {
			t.Fatalf("%q and %q give %q", p[0].text, p[1].text, text)
		}
		if n++; n == 500 {
			return
		}
	}
	t.Fatalf("only %d pairs", n)
}

func TestPositions(t *testing.T) {
	out := "  File \"/tmp/x/lib/a.py\", line 12, in f\n\tat run (file:///r/src/b.js:3:9)\n\tat Queue.put(Queue.java:7)\n    c_test.go:44: bad\n#1 0x4 in main /r/d.c:5:1\n"
	want := []position{{"/tmp/x/lib/a.py", 12}, {"/r/src/b.js", 3}, {"Queue.java", 7}, {"c_test.go", 44}, {"/r/d.c", 5}}
	got := positions(out)
	for i := range got {
		got[i].path = strings.TrimPrefix(got[i].path, "//")
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, want := range map[string]string{"/tmp/x/lib/a.py": "lib/a.py", "a.py": "", "Queue.java": "src/Queue.java", "none.c": ""} {
		got, ok := resolve(name, []string{"lib/a.py", "src/Queue.java", "other/a.py"})
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s resolves to %q, %v, want %q", name, got, ok, want)
		}
	}
}

func TestSuspicionFollowsTheTestAndCoverage(t *testing.T) {
	src := "def used(a):\n    if a:\n        return 1\n    return 2\n\ndef unused(a):\n    return a\n"
	f := parseFile("m.py", src, languageOf("m.py"))
	test := parseFile("test_m.py", "import m\nm.used(0)\n", languageOf("test_m.py"))
	sc := &scene{files: map[string]*file{"m.py": f}, tests: map[string]*file{"test_m.py": test}, order: []string{"m.py"}, command: []string{"python3", "test_m.py"}}
	s := sc.locate()[0].suspicion
	if s[2] == 0 || s[7] != 0 {
		t.Errorf("by name: %v", s)
	}
	sc.cover = newSpectrum()
	sc.cover.failed, sc.cover.passed = 1, 1
	sc.cover.add(true, "m.py", 2)
	sc.cover.add(true, "m.py", 4)
	sc.cover.add(false, "m.py", 2)
	sc.cover.add(false, "m.py", 3)
	s = sc.locate()[0].suspicion
	if !(s[4] > s[2] && s[2] > s[3] && s[3] > 0 && s[7] == 0) {
		t.Errorf("by coverage: %v", s)
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*_test.go", "a/b/x_test.go", true}, {"tests", "a/tests/x.py", true}, {"tests/", "tests/x.py", true}, {"tests/**", "tests/a/b.py", true},
		{"tests/*.py", "a/tests/x.py", false}, {"/Makefile", "Makefile", true}, {"/Makefile", "sub/Makefile", false}, {"**/conf.py", "conf.py", true},
		{"a/**/z.c", "a/z.c", true}, {"a/**/z.c", "a/b/c/z.c", true}, {"a/**/z.c", "b/z.c", false}, {"*.py", "x.pyc", false}, {"[", "[", false},
	} {
		if got := matchGlob(c.pattern, c.name); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestDeadline(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	for _, c := range []struct {
		timeout string
		env     []string
		want    time.Duration
	}{
		{"60s", nil, 58 * time.Second},
		{"10s", nil, 9 * time.Second},
		{"0s", nil, unlimited - 2*time.Second},
		{"60s", []string{"BESTOF_DEADLINE=1800000030"}, 28 * time.Second},
		{"60s", []string{"BESTOF_DEADLINE=" + now.Add(30*time.Second).Format(time.RFC3339)}, 28 * time.Second},
		{"60s", []string{"BESTOF_DEADLINE=soon"}, 58 * time.Second},
	} {
		if got := deadline(now, c.timeout, c.env).Sub(now); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestQuickCommands(t *testing.T) {
	out := "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/sub\n--- FAIL: TestB (0.00s)\n"
	got := quickCommand([]string{"go", "test", "./..."}, out, "/")
	if want := []string{"go", "test", "-vet=off", "-failfast", "-ldflags=-w", "-run", "^(TestA|TestB)$", "./..."}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := quickCommand([]string{"go", "test", "-run=X"}, out, "/"); slices.Contains(got, "-run") {
		t.Errorf("the user's -run is lost: %q", got)
	}
	for _, c := range []struct {
		argv string
		ok   bool
	}{
		{"python3 -m unittest -q", true}, {"python3 -B check.py x", true}, {"pytest -q tests", true}, {"python3 -c pass", false},
		{"python3", false}, {"python3 -m", false}, {"python3 -W error x.py", false}, {"make test", false},
	} {
		if _, _, ok := pythonCommand(strings.Fields(c.argv)); ok != c.ok {
			t.Errorf("%s: %v", c.argv, ok)
		}
	}
}

func TestGoBlocks(t *testing.T) {
	got := goBlocks("mode: set\nexample.com/x/a.go:3.24,5.2 1 1\nexample.com/x/a.go:7.1,8.2 1 0\nbroken\nx.go:a.b,c.d 1 1\n")
	if want := []block{{"example.com/x/a.go", 3, 5}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCappedKeepsBothEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &capped{max: 16}
		var all string
		for _, s := range rapid.SliceOf(rapid.StringMatching(`[a-z]{0,9}`)).Draw(t, "writes") {
			if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
				t.Fatal(n, err)
			}
			all += s
		}
		want := all
		if len(all) > 16 {
			want = all[:8] + all[len(all)-8:]
		}
		if c.String() != want {
			t.Fatalf("%q, want %q", c.String(), want)
		}
	})
}

func FuzzParseFile(f *testing.F) {
	for _, b := range bugs(f) {
		for name, src := range b.files {
			f.Add(name, src)
		}
	}
	f.Fuzz(func(t *testing.T, name, src string) {
		if languageOf(name) == nil || len(src) > 4096 {
			return
		}
		_, edits := everywhere(name, src)
		for _, e := range edits[:min(len(edits), 200)] {
			_ = e.apply()
		}
	})
}
