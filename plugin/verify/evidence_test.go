package verify

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRunner(t *testing.T) {
	for argv, want := range map[string]string{
		"go test ./...": "go test",
		"go test -json -run TestX -tags a,b ./x -args": "go test",
		"env GOFLAGS=-mod=mod go test":                 "go test",
		"/usr/local/go/bin/go test -count 3 .":         "go test",
		"go vet ./...":                                 "",
		"go test -c":                                   "",
		"go test -exec wrap .":                         "",
		"go test -overlay=x .":                         "",
		"go test -run":                                 "",
		"go test x_test.go":                            "",
		"gotestsum ./...":                              "",
		"python3 -m unittest -q test_x":                "unittest",
		"python3.11 -B -W error -m unittest":           "unittest",
		"python3 -m unittest.main":                     "",
		"python3 test.py":                              "",
		"python -I -m pytest tests/test_x.py::test_a":  "pytest",
		"pytest -q":                                    "pytest",
		"uv run pytest -q":                             "pytest",
		"poetry run python -m pytest":                  "pytest",
		"nice pytest":                                  "",
		"node --test":                                  "node --test",
		"node --import tsx --test 'x'":                 "",
		"node --test --test-name-pattern=x":            "",
		"node x.js --test":                             "",
		"node --test --watch":                          "",
		"npm test":                                     "",
		"cargo test --release -p x -- --nocapture":     "cargo test",
		"cargo +nightly t":                             "cargo test",
		"cargo test --no-run":                          "",
		"cargo build":                                  "",
		"npx vitest run":                               "vitest",
		"vitest":                                       "",
		"vitest run --reporter=json":                   "",
		"mvn -q test":                                  "junit",
		"./mvnw verify":                                "junit",
		"mvn -Dtest=X test":                            "",
		"gradle :x:test":                               "junit",
		"gradle test --tests X":                        "",
		"make check":                                   "",
		"sh -c 'go test'":                              "",
		"env":                                          "",
		"":                                             "",
	} {
		if got := Runner(strings.Fields(argv)); got != want {
			t.Errorf("%s: %q, want %q", argv, got, want)
		}
	}
}

func TestGoCommandIsKept(t *testing.T) {
	_, a := recognise(strings.Fields("env A=b go test -run=A|B -race -tags x -v ./a ./b -args -run C"))
	want := &goTests{prefix: []string{"env", "A=b"}, program: "go", flags: []string{"-race", "-tags", "x", "-v"}, packages: []string{"./a", "./b"}, args: []string{"-args", "-run", "C"}, filter: "A|B"}
	if diff := cmp.Diff(want, a, cmp.AllowUnexported(goTests{})); diff != "" {
		t.Error(diff)
	}
	_, a = recognise(strings.Fields("cargo test --test it name --features f -- --ignored --test-threads 1"))
	cargo := &cargoTests{program: "cargo", build: []string{"test", "--test", "it", "--features", "f"}, run: []string{"name", "--ignored", "--test-threads", "1"}}
	if diff := cmp.Diff(cargo, a, cmp.AllowUnexported(cargoTests{})); diff != "" {
		t.Error(diff)
	}
}

func ok(unit string, ids ...string) SeenUnit {
	u := SeenUnit{Name: unit, Canary: true}
	for _, id := range ids {
		u.add(id, TestPassed)
	}
	return u
}

func TestCompare(t *testing.T) {
	base := Expected{Runner: "r", Units: []Unit{{Name: "u", Tests: []string{"a", "b"}}, {Name: "v", Alike: []string{"m::c"}}}}
	good := func() Seen {
		return Seen{Code: 1, Tells: true, Units: []SeenUnit{ok("u", "a", "b", "new"), ok("v", "m::c[1]", "m::c[2]")}}
	}
	for name, c := range map[string]struct {
		change func(*Seen)
		want   string
	}{
		"all":                         {func(*Seen) {}, "pass 3"},
		"a failure":                   {func(s *Seen) { s.Units[0].add("a", TestFailed) }, "failed: a"},
		"a failure of a new one":      {func(s *Seen) { s.Units[0].add("new", TestFailed) }, "failed: new"},
		"a failure elsewhere":         {func(s *Seen) { s.unit("w").add("z", TestFailed) }, "failed: z"},
		"forged after a failure":      {func(s *Seen) { s.Units[0].add("a", TestFailed); s.Units[0].add("a", TestPassed) }, "failed: a"},
		"skipped after a pass":        {func(s *Seen) { s.Units[0].add("a", TestSkipped) }, "fewer-tests"},
		"one missing":                 {func(s *Seen) { delete(s.Units[0].Results, "b") }, "fewer-tests"},
		"one of its parameters fails": {func(s *Seen) { s.Units[1].Results["m::c[1]"] = TestSkipped }, "fewer-tests"},
		"no canary":                   {func(s *Seen) { s.Units[1].Canary = false }, "forgeable"},
		"no unit, a failed exit":      {func(s *Seen) { s.Units = s.Units[:1] }, "the tests of v did not come to run"},
		"no unit, a good exit":        {func(s *Seen) { s.Units, s.Code = s.Units[:1], 0 }, "forgeable"},
		"a unit that says it passed":  {func(s *Seen) { s.Units[1] = SeenUnit{Name: "v", Green: true} }, "forgeable"},
		"a good exit":                 {func(s *Seen) { s.Code = 0 }, "forgeable"},
		"a skip of its own":           {func(s *Seen) { s.OwnSkips = true; s.Units[1] = ok("v", "x"); s.Units[1].add("m::c", TestSkipped) }, "pass 2"},
		"only skips":                  {func(s *Seen) { s.OwnSkips = true; s.Units[1] = ok("v"); s.Units[1].add("m::c", TestSkipped) }, "fewer-tests"},
		"a skip of one that passed":   {func(s *Seen) { s.OwnSkips = true; s.Units[0].Results["a"] = TestSkipped }, "fewer-tests"},
		"broken":                      {func(s *Seen) { s.Units[0].Broken = "x" }, "forgeable"},
		"something else":              {func(s *Seen) { s.Extra = "status 2" }, "status 2"},
		"nothing":                     {func(s *Seen) { s.Units = nil }, "the tests of u did not come to run"},
	} {
		s := good()
		c.change(&s)
		f := base.Compare(s)
		got := string(f.Reason)
		switch {
		case f.Pass:
			got = fmt.Sprintf("pass %d", f.Passed)
		case got == "":
			got = f.Text
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %s", name, f, c.want)
		}
	}
	if f := (Expected{Units: []Unit{{Name: "u"}}}).Compare(Seen{Code: 1, Units: []SeenUnit{ok("u")}}); f.Pass {
		t.Errorf("no test at all: %+v", f)
	}
}

// TestCompareLaws: a pass needs every expected id, and whatever else a run
// reports beside one that does not pass cannot make it pass.
func TestCompareLaws(t *testing.T) {
	ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}`), 1, 8, rapid.ID)
	status := rapid.SampledFrom([]Status{TestPassed, TestFailed, TestSkipped, ""})
	rapid.Check(t, func(t *rapid.T) {
		want := ids.Draw(t, "ids")
		base := Expected{Units: []Unit{{Tests: want}}}
		s := Seen{Code: rapid.IntRange(0, 2).Draw(t, "code"), Tells: true, Units: []SeenUnit{{Canary: rapid.Bool().Draw(t, "canary"), Green: rapid.Bool().Draw(t, "green")}}}
		all := true
		for _, id := range want {
			st := status.Draw(t, id)
			if all = all && st == TestPassed; st != "" {
				s.Units[0].add(id, st)
			}
		}
		f := base.Compare(s)
		if f.Pass != (all && s.Units[0].Canary && s.Code != 0) || f.Pass && f.Reason != "" {
			t.Fatalf("%+v of %+v", f, s)
		}
		for _, id := range ids.Draw(t, "forged") { // more claims never help
			s.Units[0].add(id, TestPassed)
			s.Units[0].add(want[0], TestPassed)
		}
		if again := base.Compare(s); again.Pass && !f.Pass && !strings.Contains(f.Text, "not reported") {
			t.Fatalf("%+v, then %+v", f, again)
		}
	})
}

func TestExpected(t *testing.T) {
	failing := SeenUnit{Name: "u", Results: map[string]Status{"a": TestFailed, "b": TestPassed, "c": TestSkipped, "u": TestFailed}, Alike: []string{"d"}}
	e, why := Seen{Units: []SeenUnit{failing, ok("v", "x")}}.expected("r")
	if want := (&Expected{Runner: "r", Units: []Unit{{Name: "u", Tests: []string{"a", "b"}, Alike: []string{"d"}}, {Name: "v", Tests: []string{"x"}}}}); why != "" || cmp.Diff(want, e) != "" || e.Count() != 4 {
		t.Errorf("%s: %s", why, cmp.Diff(want, e))
	}
	for _, s := range []Seen{
		{}, {Units: []SeenUnit{{Results: map[string]Status{"a": TestPassed}}}}, {Units: []SeenUnit{{Green: true}}},
		{Units: []SeenUnit{{Canary: true, Broken: "x"}}},
	} {
		if e, why := s.expected("r"); e != nil || why == "" {
			t.Errorf("%+v: %+v", s, e)
		}
	}
}

func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &Expected{Runner: "r"}
		for i := range rapid.IntRange(0, 4).Draw(t, "units") {
			e.Units = append(e.Units, Unit{Name: fmt.Sprint(i), Tests: rapid.SliceOfN(rapid.String(), 1, 50).Draw(t, "ids"), Data: map[string]string{"k": rapid.String().Draw(t, "v")}})
		}
		got, err := readParts(e.parts())
		if err != nil || cmp.Diff(e, got) != "" {
			t.Fatalf("%v %s", err, cmp.Diff(e, got))
		}
	})
	big := &Expected{Runner: "r", Units: []Unit{{}}}
	for i := range 50_000 {
		big.Units[0].Tests = append(big.Units[0].Tests, fmt.Sprintf("package/%x.Test%d", i*7919, i))
	}
	parts := big.parts()
	got, err := readParts(parts)
	if err != nil || got.Count() != 50_000 || len(parts) < 2 || len(parts[0]) > partSize {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	for _, bad := range [][]string{{""}, {"!"}, {"AAAA"}, parts[1:]} {
		if _, err := readParts(bad); err == nil {
			t.Errorf("%.20q was read", bad)
		}
	}
}

func FuzzReports(f *testing.F) {
	f.Add([]byte(`tok["test","a","passed"]`+"\n"+`tok["canary","failed","tok"]`+"\n"+`tok["end",1]`), 1)
	f.Add([]byte(`tok{"type":"start","name":"non /x/a.js","nesting":0}`+"\n"+`tok{"type":"fail","name":"a","nesting":3,"file":"/x"}`), 0)
	f.Add([]byte(`{"Action":"fail","Package":"x","Test":"Example_bestofnon"}`+"\n"+`{"Action":"output","Package":"x","Output":"tok"}`), 1)
	f.Add([]byte(`<testsuite><testcase classname="a" name="b"><failure message="tok"/></testcase></testsuite>`), 1)
	f.Add([]byte("tok\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured"), 101)
	f.Fuzz(func(t *testing.T, b []byte, code int) {
		readPython(bytes.NewReader(b), "tok", code, code == 0)
		readNode(b, b, "non", "tok", "/x")
		var u SeenUnit
		readJUnit(b, &u, "Bestofnon", "tok")
		if w := readLibtest(b, "tok"); w.status == TestPassed && !w.canary && bytes.Count(b, []byte("test result")) == 1 && bytes.HasPrefix(b, []byte("tok")) {
			t.Errorf("%+v", w)
		}
		events := &goEvents{canary: "Example_bestofnon", token: "tok", show: &bytes.Buffer{}, said: map[string]bool{}}
		_, _ = events.Write(b)
		for _, unit := range events.end().Units {
			if unit.Canary && !bytes.Contains(b, []byte("Example_bestofnon")) && !bytes.ContainsRune(b, '\\') {
				t.Errorf("a canary out of nothing: %+v", unit)
			}
		}
		goTestNames(b)
		if e, err := readParts([]string{string(b)}); err == nil && e.Runner == "" {
			t.Errorf("%+v", e)
		}
	})
}

// TestCommon: what only one run on the base has is not expected again.
func TestCommon(t *testing.T) {
	run := func(runner string, units ...Unit) *Expected {
		return &Expected{Runner: runner, Units: units}
	}
	one := run("go test", Unit{Name: "a", Tests: []string{"T", "T/1", "T/x"}, Alike: []string{"z", "b"}, Data: map[string]string{"k": "v"}}, Unit{Name: "only", Tests: []string{"O"}})
	two := run("go test", Unit{Name: "b", Tests: []string{"B"}}, Unit{Name: "a", Tests: []string{"T", "T/2", "T/x"}, Alike: []string{"b", "q"}})
	want := run("go test", Unit{Name: "a", Tests: []string{"T", "T/x"}, Alike: []string{"b"}, Data: map[string]string{"k": "v"}})
	if diff := cmp.Diff(want, one.Common(two)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"T", "T/1", "T/x"}, one.Units[0].Tests); diff != "" {
		t.Errorf("the first run was changed:\n%s", diff)
	}
	for _, none := range []*Expected{nil, run("pytest", one.Units...), run("go test", Unit{Name: "c"})} {
		if got := one.Common(none); got != nil {
			t.Errorf("with %+v: %+v", none, got)
		}
	}
}
