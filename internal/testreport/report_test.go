package testreport

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func parse(t *testing.T, f Format, s string) *Report {
	t.Helper()
	r, err := Parse(f, iotest.HalfReader(strings.NewReader(s)))
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	return r
}

func show(r *Report) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(r.Results)) {
		fmt.Fprintf(&b, "%s %s\n", r.Results[id], id)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

const pytestXML = `<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="6">
<testcase classname="tests.test_a" name="test_ok" time="0.001" />
<testcase classname="tests.test_a.TestC" name="test_p[1-a.b/c]" time="0.001"><failure message="assert">E  &lt;x&gt;</failure></testcase>
<testcase classname="tests.test_a" name="test_skip"><skipped type="pytest.skip" message="no">x</skipped></testcase>
<testcase classname="tests.test_a" name="test_xfail"><skipped type="pytest.xfail" message="" /></testcase>
<testcase classname="tests.test_a" name="test_td" /><testcase classname="tests.test_a" name="test_td"><error message="teardown"/></testcase>
<testcase classname="" name="tests.test_b"><error message="collection failure">ImportError</error></testcase>
</testsuite></testsuites>`

const goJSON = `{"Action":"start","Package":"x.org/m/p"}
# x.org/m/broken
{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"x.org/m/p","Test":"TestA"}
{"Action":"output","Package":"x.org/m/p","Test":"TestA","Output":"{\"Action\":\"pass\"}\n"}
{"Action":"pass","Package":"x.org/m/p","Test":"TestA/sub_1.5","Elapsed":0}
{"Action":"pass","Package":"x.org/m/p","Test":"TestA","Elapsed":0}
{"Action":"fail","Package":"x.org/m/p","Test":"TestB","Elapsed":0}
{"Action":"skip","Package":"x.org/m/p","Test":"TestC","Elapsed":0}
{"Action":"run","Package":"x.org/m/p","Test":"TestHung"}
{"Action":"fail","Package":"x.org/m/p","Elapsed":0}
{"ImportPath":"x.org/m/broken [x.org/m/broken.test]","Action":"build-fail"}
{"Action":"fail","Package":"x.org/m/broken","Elapsed":0,"FailedBuild":"x"}
`

const pytestText = `============================= test session starts ==============================
tests/test_a.py F.
----------------------------- Captured stdout call -----------------------------
=========================== short test summary info ============================
PASSED tests/test_a.py::forged
============================== 99 passed in 0.01s ==============================
=================================== FAILURES ===================================
` + "\x1b[36m\x1b[1m=========================== short test summary info ============================\x1b[0m\n" +
	"\x1b[32mPASSED\x1b[0m tests/test_a.py::\x1b[1mtest_ok\x1b[0m\n" + `PASSED tests/test_a.py::test_sp[a b - c]
FAILED tests/test_a.py::TestC::test_f[x - y] - AssertionError: a] - b
FAILED tests/test_a.py::test_d[[z] - q] - AssertionError: boom] - x
FAILED tests/test_a.py::test_g - assert 1 == [2]
ERROR tests/test_a.py::test_td - RuntimeError
ERROR tests/test_b.py - ImportError: no
ERROR tests/test_c.py
SKIPPED [1] tests/test_a.py:12: no
XFAIL tests/test_a.py::test_x - reason
XPASS tests/test_a.py::test_xp 
=================== 2 failed, 2 passed, 1 skipped in 0.12s =====================
PASSED tests/test_a.py::after
`

const pytestLog = `{"pytest_version":"8","$report_type":"SessionStart"}
{"nodeid":"t.py","outcome":"passed","$report_type":"CollectReport"}
{"nodeid":"b.py","outcome":"failed","$report_type":"CollectReport"}
{"nodeid":"t.py::ok","when":"setup","outcome":"passed","$report_type":"TestReport"}
{"nodeid":"t.py::ok","when":"call","outcome":"passed","$report_type":"TestReport"}
{"nodeid":"t.py::ok","when":"teardown","outcome":"passed","$report_type":"TestReport"}
{"nodeid":"t.py::bad","when":"call","outcome":"failed","$report_type":"TestReport"}
{"nodeid":"t.py::td","when":"call","outcome":"passed","$report_type":"TestReport"}
{"nodeid":"t.py::td","when":"teardown","outcome":"failed","$report_type":"TestReport"}
{"nodeid":"t.py::skip","when":"setup","outcome":"skipped","$report_type":"TestReport"}
{"nodeid":"t.py::xf","when":"call","outcome":"skipped","wasxfail":"","$report_type":"TestReport"}
{"nodeid":"t.py::cut","when":"setup","outcome":"passed","$report_type":"TestReport"}
{"nodeid":"t.py::cut","when":"call","outcome":"passed","$report_type":"TestReport"}
`

const tapText = `TAP version 14
# Subtest: outer
    # Subtest: inner
        ok 1 - deep
        1..1
    ok 1 - inner
      ---
      duration_ms: 1
      not ok 1 - forged in a block
      ...
    not ok 2 - bad \# 1
    1..2
not ok 1 - outer
ok 2 - later # SKIP not here
not ok 3 - soon # TODO
ok 4 - done # todo
ok
okay this is no test
not ok 6
1..7
`

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format Format
		text   string
		want   string
	}{
		{JUnit, pytestXML, `failed tests.test_a.TestC.test_p[1-a.b/c]
passed tests.test_a.test_ok
skipped tests.test_a.test_skip
error tests.test_a.test_td
expected-failure tests.test_a.test_xfail
error tests.test_b
`},
		{JUnit, `<testsuite><testcase classname="a.test_b.C" name="t" file="a/test_b.py"/><testcase classname="G" name="n" status="notrun"/><testcase name="bare"/><testsuite><testcase classname="a" name="in"><system-out>x<failure/></system-out></testcase></testsuite></testsuite>`,
			"skipped G.n\npassed a.in\npassed a/test_b.py::C::t\npassed bare\n"},
		{JUnit, `<testsuite><testcase classname="a" name="f" status="FAILED"/><testcase classname="a" name="e" result="error"/><testcase classname="a" name="s" status="run" result="suppressed"/><testcase classname="a" name="r" status="run" result="completed"/></testsuite>`,
			"error a.e\nfailed a.f\npassed a.r\nskipped a.s\n"},
		{GoTest, goJSON, "passed x.org/m/p.TestA\npassed x.org/m/p.TestA/sub_1.5\nfailed x.org/m/p.TestB\nskipped x.org/m/p.TestC\n"},
		{Pytest, pytestText, `failed tests/test_a.py::TestC::test_f[x - y]
failed tests/test_a.py::test_d[[z]
failed tests/test_a.py::test_g
passed tests/test_a.py::test_ok
passed tests/test_a.py::test_sp[a b - c]
error tests/test_a.py::test_td
expected-failure tests/test_a.py::test_x
passed tests/test_a.py::test_xp
error tests/test_b.py
error tests/test_c.py
`},
		{PytestLog, pytestLog, "error b.py\nfailed t.py::bad\npassed t.py::ok\nskipped t.py::skip\nerror t.py::td\nexpected-failure t.py::xf\n"},
		{TAP, tapText, `passed #5
failed #6
passed done
skipped later
failed outer
failed outer/bad # 1
passed outer/inner
passed outer/inner/deep
expected-failure soon
note: 7 tests were planned, 6 were reported
`},
		{Lines, "{\"test\":\"p.TestA\",\"status\":\"passed\"}\n\n{\"test\":\"b\",\"status\":\"error\"}\n{\"status\":\"failed\",\"test\":\"p.TestA\"}", "error b\nfailed p.TestA\n"},
		{TAP, "1..3\nok 1 a\nBail out! no disk\nok 2 b\n", "passed a\nnote: the run bailed out: what came after it is missing\nnote: 3 tests were planned, 1 were reported\n"},
	} {
		if got := show(parse(t, c.format, c.text)); got != c.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", c.format, got, c.want)
		}
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		format Format
		text   string
		ids    map[string]Status
	}{
		{JUnit, pytestXML, map[string]Status{
			"tests/test_a.py::test_ok": Passed, "tests/test_a.py::TestC::test_p[1-a.b/c]": Failed, "tests.test_a.TestC#test_p[1-a.b/c]": Failed, "test_ok": Passed,
			"tests/test_b.py::anything[x.y]": Error, "tests/test_b2.py::anything": Missing, "tests/test_a.py::gone": Missing, "": Missing,
		}},
		{GoTest, goJSON, map[string]Status{
			"x.org/m/p.TestA": Passed, "TestA": Passed, "TestA/sub_1.5": Passed, "x.org/m/p::TestB": Failed, "x.org/m/p.TestHung": Missing,
			"x.org/m/broken.TestNew": Error, "TestNew": Error, "other.TestNew": Missing, "x.org/m/broken2.TestNew": Missing,
		}},
		{Pytest, pytestText, map[string]Status{
			"tests/test_a.py::forged": Missing, "tests/test_a.py::after": Missing, "tests/test_a.py::test_sp[a": Passed, "tests/test_b.py::x": Error, "tests/test_c.py::K::x": Error,
			"tests/test_a.py::TestC::test_f[x": Failed, "tests/test_a.py::test_d[[z] - q]": Failed,
		}},
		{PytestLog, pytestLog, map[string]Status{"b.py::x": Error, "t.py::cut": Missing, "t.py::ok": Passed}},
	} {
		r := parse(t, c.format, c.text)
		for id, want := range c.ids {
			if got := r.Of(id); got != want {
				t.Errorf("%s: Of(%q) = %q, want %q", c.format, id, got, want)
			}
		}
	}
	var none *Report
	if none.Of("x") != Missing {
		t.Error("a report that is not there says something")
	}
}

// Of tests that go by one name, the worst counts.
func TestBareNamesAreOfTheWorst(t *testing.T) {
	r := From(map[string]Status{"a.TestX": Passed, "b.TestX": Failed, "c.K#m": Passed, "d/e.TestY/s.1": Passed})
	for id, want := range map[string]Status{"TestX": Failed, "a.TestX": Passed, "m": Passed, "c.K.m": Passed, "TestY/s.1": Passed, "s.1": Missing} {
		if got := r.Of(id); got != want {
			t.Errorf("Of(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestMerge(t *testing.T) {
	a, b := parse(t, TAP, "ok 1 - x\nok 2 - y\n"), parse(t, TAP, "not ok 1 - x\n1..2\n")
	a.Merge(b)
	a.Merge(parse(t, GoTest, goJSON))
	if a.Of("x") != Failed || a.Of("y") != Passed || a.Of("TestA") != Passed || a.Of("x.org/m/broken.T") != Error || len(a.Notes) != 1 {
		t.Error(show(a))
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		format Format
		text   string
		want   error // nil: any
	}{
		{JUnit, "", ErrNoReport},
		{JUnit, pytestXML[:len(pytestXML)-30], nil},
		{JUnit, `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>`, nil},
		{JUnit, `<!DOCTYPE testsuite><testsuite><testcase name="a"/></testsuite>`, nil},
		{JUnit, `<testsuite><testcase name="&b;"/></testsuite>`, nil},
		{JUnit, `<html/>`, nil},
		{JUnit, `<testsuite/><testsuite/>`, nil},
		{JUnit, strings.Repeat("<testsuite>", maxDepth+1), nil},
		{JUnit, `<?xml version="1.0" encoding="utf-7"?><testsuite/>`, nil},
		{GoTest, "ok x\n", ErrNoReport},
		{Pytest, "1 passed", ErrNoReport},
		{PytestLog, "{}", ErrNoReport},
		{TAP, "hello\n", ErrNoReport},
		{Lines, "", ErrNoReport},
		{Lines, `{"test":"a","status":"ok"}`, nil},
		{Lines, `{"test":"","status":"passed"}`, nil},
		{Lines, `{"test":"a","status":"passed","time":1}`, nil},
		{Lines, `{"test":"a","status":"passed"} {}`, nil},
		{Lines, `{"test":"a","status":"failed","status":"passed"}`, nil},
		{Lines, `{"test":"a","STATUS":"passed"}`, nil},
		{Lines, `{"test":"a","status":"passed"}` + "\n" + `{"test":"b","st`, nil},
		{Lines, `{"test":"a","status":"passed"}` + "\n" + strings.Repeat("x", maxLine+1), nil},
		{"xunit", "", nil},
	} {
		r, err := Parse(c.format, strings.NewReader(c.text))
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s %.40q: %v, %v", c.format, c.text, r, err)
		}
	}
	for _, f := range Formats {
		if _, err := Parse(f, iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", f, err)
		}
	}
	b := &bounded{r: strings.NewReader("abc"), left: 2}
	if _, err := io.ReadAll(b); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
}

func TestLongLinesAndIDsArePassedOver(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	if got := show(parse(t, TAP, "ok 1 - a\nok 2 - "+long+"\nok 3 - c\n")); got != "passed a\npassed c\nnote: a line is longer than 1 MiB and is left out\n" {
		t.Errorf("%.200s", got)
	}
	if got := show(parse(t, TAP, "ok 1 - "+long[:maxID+1]+"\nok 2 - b\n")); got != "passed b\nnote: a test whose id is empty or longer than 4096 bytes is left out\n" {
		t.Errorf("%.200s", got)
	}
}

func TestFailureTexts(t *testing.T) {
	var got []string
	err := ReadJUnit(strings.NewReader(`<testsuite><testcase name="a">out<failure message="m&lt;">text<b>in</b></failure>out</testcase><testcase name="b"><error>`+strings.Repeat("x", maxText+5)+`</error></testcase></testsuite>`), func(c Case) {
		got = append(got, fmt.Sprintf("%s %s %d %.7s", c.Name, c.Status, len(c.Text), c.Text))
	})
	if want := []string{"a failed 8 m<texti", fmt.Sprintf("b error %d xxxxxxx", maxText)}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func fuzz(f *testing.F, format Format, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(format, strings.NewReader(s))
		again, errAgain := Parse(format, iotest.OneByteReader(strings.NewReader(s)))
		if (err == nil) != (errAgain == nil) {
			t.Fatalf("%v, in pieces %v", err, errAgain)
		}
		if err != nil {
			return
		}
		if !maps.Equal(r.Results, again.Results) {
			t.Errorf("%v, in pieces %v", r.Results, again.Results)
		}
		for id, status := range r.Results {
			if r.Of(id) != status || status.rank() == 0 {
				t.Errorf("Of(%q) = %q, want %q", id, r.Of(id), status)
			}
		}
	})
}

func FuzzJUnit(f *testing.F)     { fuzz(f, JUnit, pytestXML, "<testsuite/>", "<!DOCTYPE x>") }
func FuzzGoTest(f *testing.F)    { fuzz(f, GoTest, goJSON, "{}") }
func FuzzPytest(f *testing.F)    { fuzz(f, Pytest, pytestText) }
func FuzzPytestLog(f *testing.F) { fuzz(f, PytestLog, pytestLog) }
func FuzzTAP(f *testing.F)       { fuzz(f, TAP, tapText, "1..0 # SKIP\n", "    ok\nok\n", "ok 1 \\\\# x\n") }
func FuzzLines(f *testing.F)     { fuzz(f, Lines, `{"test":"a","status":"passed"}`, "{}\n") }
