package verify

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/mcp/mcptest"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// mvnw stands in for Maven: it writes a report for each class of tests. The
// value of src/main/value is what the code under test does.
const mvnw = `#!/bin/sh
value=$(cat src/main/value)
case $value in planted) exit 0;; esac
mkdir -p target/surefire-reports
for f in src/test/java/*Test.java; do
	name=$(basename $f .java)
	token=$(sed -n 's/.*AssertionError("\(.*\)").*/\1/p' $f)
	{
		echo '<testsuite>'
		if [ -n "$token" ]; then
			echo "<testcase classname=\"$name\" name=\"canary\"><failure message=\"$token\">x</failure></testcase>"
		else
			for test in adds other; do
				case $value-$test in
				right-*|*-other) echo "<testcase classname=\"$name\" name=\"$test\"/>";;
				skipped-*) echo "<testcase classname=\"$name\" name=\"$test\"><skipped/></testcase>";;
				fewer-*) ;;
				*) echo "<testcase classname=\"$name\" name=\"$test\"><failure/></testcase>";;
				esac
			done
		fi
		echo '</testsuite>'
	} > target/surefire-reports/TEST-$name.xml
done
case $value in
broken) echo '<' > target/surefire-reports/TEST-CalcTest.xml;;
exits) rm target/surefire-reports/*;;
fails) exit 1;;
esac
`

func TestAttacksJUnit(t *testing.T) {
	planted := "<testsuite><testcase classname=\"CalcTest\" name=\"adds\"/><testcase classname=\"CalcTest\" name=\"other\"/></testsuite>\n"
	p := project{
		argv: []string{"sh", "./mvnw", "test"},
		files: tree{
			"mvnw": mvnw, "src/main/value": "wrong\n",
			"src/test/java/CalcTest.java": "import org.junit.Test;\npublic class CalcTest { }\n",
		},
	}
	run := func(t *testing.T, value string, more tree) (wire.Evidence, Reason, string) {
		t.Helper()
		observe := func(root string, base *Expected) Observation {
			if err := os.Chmod(filepath.Join(root, "mvnw"), 0o755); err != nil {
				t.Fatal(err)
			}
			name, a := recognise([]string{"./mvnw", "test"})
			if name != "junit" {
				t.Fatal(name)
			}
			o, reason, text, err := observeTests(a, root, base, DefaultTimeout, io.Discard)
			if err != nil || reason != "" {
				t.Fatalf("%v %s %s", err, reason, text)
			}
			return o
		}
		base, why := observe(lay(t, p.files), nil).Seen.expected("junit")
		if base == nil || base.Count() != 2 {
			t.Fatalf("%+v %s", base, why)
		}
		root := lay(t, p.files, tree{"src/main/value": value + "\n"}, more)
		if err := os.Chmod(filepath.Join(root, "mvnw"), 0o755); err != nil {
			t.Fatal(err)
		}
		e, note := observeKnown(&wire.Grant{Root: root, Test: &wire.TestPlan{Program: "./mvnw", Args: []string{"test"}, Baseline: wire.Failed}}, base, DefaultTimeout, io.Discard, &Results{})
		left, err := filepath.Glob(root + "/src/test/java/*")
		if err != nil || len(left) != 1 {
			t.Errorf("left in the tree: %q", left)
		}
		reason, _ := Note(sandboxOutput(note))
		return e, reason, note
	}
	for name, c := range map[string]struct {
		value string
		more  tree
		want  Reason
	}{
		"honest":                    {"right", nil, honest},
		"unchanged":                 {"wrong", nil, wrong},
		"a report planted":          {"planted", tree{"target/surefire-reports/TEST-CalcTest.xml": planted}, wrong},
		"a report planted, and run": {"wrong", tree{"target/surefire-reports/TEST-CalcTest.xml": planted, "target/surefire-reports/TEST-Z.xml": planted}, wrong},
		"no report":                 {"exits", nil, wrong},
		"a test skipped":            {"skipped", nil, FewerTests},
		"a test left out":           {"fewer", nil, FewerTests},
		"a report that is none":     {"broken", nil, Forgeable},
		"the build fails":           {"fails", nil, wrong},
	} {
		t.Run(name, func(t *testing.T) {
			e, reason, note := run(t, c.value, c.more)
			ok := reason == c.want
			switch c.want {
			case honest:
				ok = reason == "" && e.Flip == judge.FlipAchieved
			case wrong:
				ok = reason == "" && e.Flip == judge.FlipNotAchieved && e.Measurements[ExitCode] > 0
			}
			if !ok {
				t.Errorf("%+v, %q", e, note)
			}
		})
	}
}

func sandboxOutput(note string) sandbox.Output { return sandbox.Output{Head: []byte(note + "\n")} }

// vitestStub stands in for Vitest: it runs nothing, and reports for each file
// of tests what the code under test is written to deserve.
const vitestStub = `#!/usr/bin/env python3
import sys, re, glob, os
out = [a.split('=', 1)[1] for a in sys.argv if a.startswith('--outputFile.junit=')][0]
code = open('calc.mjs').read()
if 'exit' in code:
    sys.exit(0)
cases = []
for f in sorted(glob.glob('*.test.mjs')):
    text = open(f).read()
    token = re.search(r'Error\("(.*)"\)', text)
    if token:
        cases.append('<testcase classname="%s" name="canary"><failure message="%s"/></testcase>' % (f, token.group(1)))
    elif 'a + b' in code:
        cases.append('<testcase classname="%s" name="adds"/>' % f)
    else:
        cases.append('<testcase classname="%s" name="adds"><failure/></testcase>' % f)
open(out, 'w').write('<testsuites><testsuite>' + ''.join(cases) + '</testsuite></testsuites>')
sys.exit(1)
`

func TestAttacksVitest(t *testing.T) {
	p := project{
		argv:  []string{"./vitest", "run"},
		files: tree{"vitest": vitestStub, "calc.mjs": "a - b\n", "calc.test.mjs": "adds\n"},
	}
	observe := func(change tree, base *Expected) (Seen, Finding) {
		root := lay(t, p.files, change)
		if err := os.Chmod(root+"/vitest", 0o755); err != nil {
			t.Fatal(err)
		}
		name, a := recognise(p.argv)
		o, reason, text, err := observeTests(a, root, base, DefaultTimeout, io.Discard)
		if name != "vitest" || err != nil || reason != "" {
			t.Fatalf("%s %v %s %s", name, err, reason, text)
		}
		if left, _ := filepath.Glob(root + "/bestof*"); len(left) > 0 {
			t.Errorf("left in the tree: %q", left)
		}
		if base == nil {
			return o.Seen, Finding{}
		}
		return o.Seen, base.Compare(o.Seen)
	}
	seen, _ := observe(nil, nil)
	base, why := seen.expected("vitest")
	if base == nil || base.Count() != 1 || seen.base() != wire.Failed {
		t.Fatalf("%+v %s", base, why)
	}
	if _, f := observe(tree{"calc.mjs": "a + b\n"}, base); !f.Pass {
		t.Errorf("honest: %+v", f)
	}
	if _, f := observe(nil, base); f.Pass || f.Reason != "" {
		t.Errorf("unchanged: %+v", f)
	}
	if _, f := observe(tree{"calc.mjs": "exit\n"}, base); f.Reason != Forgeable {
		t.Errorf("exit: %+v", f)
	}
}

// TestVitest is the same with Vitest itself, at the version of .ci/npm-vitest.
func TestVitest(t *testing.T) {
	modules := mcptest.Installed(t, "npm-vitest", "BESTOF_CI_VITEST")
	argv := []string{"./node_modules/.bin/vitest", "run"}
	observe := func(code string, base *Expected) (Seen, Finding) {
		root := lay(t, tree{
			"package.json": `{"type": "module"}`, "vitest.config.js": "export default { cacheDir: '.cache' }\n", "calc.js": code,
			"calc.test.js": "import { expect, test } from 'vitest'\nimport { add } from './calc.js'\ntest('adds', () => expect(add(2, 3)).toBe(5))\ntest('is there', () => expect(add).toBeTypeOf('function'))\n",
		})
		if err := os.Symlink(modules, root+"/node_modules"); err != nil {
			t.Fatal(err)
		}
		_, a := recognise(argv)
		o, reason, text, err := observeTests(a, root, base, DefaultTimeout, io.Discard)
		if err != nil || reason != "" {
			t.Fatalf("%v %s %s", err, reason, text)
		}
		if base == nil {
			return o.Seen, Finding{}
		}
		return o.Seen, base.Compare(o.Seen)
	}
	seen, _ := observe("export const add = (a, b) => a - b\n", nil)
	base, why := seen.expected("vitest")
	if base == nil || base.Count() != 2 || seen.base() != wire.Failed {
		t.Fatalf("%+v %s", base, why)
	}
	for _, c := range []struct {
		name, code string
		pass       bool
	}{
		{"honest", "export const add = (a, b) => a + b\n", true},
		{"unchanged", "export const add = (a, b) => a - b\n", false},
		{"exits", "export const add = (a, b) => a - b\nprocess.exit(0)\n", false},
		{"throws", "throw new Error('no')\n", false},
	} {
		if _, f := observe(c.code, base); f.Pass != c.pass {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}
