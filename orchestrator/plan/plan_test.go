package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		globs    string // separated by spaces
		yes, not string
	}{
		{"*_test.go", "a_test.go x/y/a_test.go _test.go", "a_test.gox a.go a_test.go.txt"},
		{"conftest.py", "conftest.py a/conftest.py a/CONFTEST.py conftest.py/x", "xconftest.py conftest.pyc"},
		{"tests/", "tests/a a/tests/b/c TESTS/a", "tests a/tests tests.py mytests/a"},
		{"tests", "tests tests/a a/tests", "tests.py"},
		{"/tests", "tests tests/a", "a/tests"},
		{"a/b", "a/b a/b/c A/B", "x/a/b a/bc"},
		{"a/*", "a/b a/b/c", "a x/a/b"},
		{"a/**", "a/b a/b/c", "x/a/b"},
		{"**/a", "a x/a x/y/a/z", "xa"},
		{"a/**/b", "a/b a/x/b a/x/y/b a/x/b/c", "ab a/xb"},
		{"**/x/**/y", "x/y a/x/b/y a/x/b/x/c/y", "y x y/x"},
		{"src/*Test/**", "src/intTest/a src/Test/b/c", "src/Tests/a x/src/intTest/a"},
		{"?.go", "a.go x/b.go", "ab.go .go"},
		{"[ab].go [!x].c [^x].d", "a.go b.go y.c y.d", "c.go x.c x.d"},
		{`\*.go \[!a`, "*.go [!a", "a.go b"},
		{`/we\[!\]rd\\n`, `we[!]rd\n`, `wexrd`},
		{"[a", "[a", "a"},
		{"[a* x", "x", "[ab"},
		{"./a/b ./c", "a/b x/c", "x/a/b"},
		{"*.py !keep.py", "a.py x/b.py", "keep.py x/keep.py"},
		{"!a.py *.py", "a.py", ""},
		{"node_modules/ !**/node_modules/.*/", "node_modules/a/b x/node_modules/c", "node_modules/.cache/x x/node_modules/.vite/y"},
		{" !  / // !/", "", "a a/b"},
		{"*", "a a/b .x", ""},
		{"a//b", "a/b", "a"},
		{"/!important", "!important", "important"},
	} {
		m := Matcher(strings.Split(c.globs, " "))
		for _, p := range strings.Fields(c.yes) {
			if !m(p) {
				t.Errorf("%q does not match %q", c.globs, p)
			}
		}
		for _, p := range strings.Fields(c.not) {
			if m(p) {
				t.Errorf("%q matches %q", c.globs, p)
			}
		}
	}
	if m := Matcher(nil); m("a") || m("") {
		t.Error("no globs match something")
	}
}

// TestMatcherAgreesWithGit compares with git check-ignore where the meaning is
// the same: globs with wildcards, files only.
func TestMatcherAgreesWithGit(t *testing.T) {
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("git %q: %v", args, err)
		}
		return string(out)
	}
	git("", "init", "-q")
	var paths []string
	for _, a := range []string{"a", "ab", "b.c"} {
		paths = append(paths, a)
		for _, b := range []string{"a", "x.c", "abc"} {
			paths = append(paths, a+"d/"+b)
			for _, c := range []string{"a", "b.c"} {
				paths = append(paths, a+"d/"+b+"d/"+c)
			}
		}
	}
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		glob := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "d", ".c", "*", "?", "/", "/**/", "**/", "[ab]", "[!a]"}), 1, 6).Draw(rt, "glob"), "")
		if strings.Contains(glob, "***") || strings.Contains(glob, "//") || strings.Contains(strings.ReplaceAll("/"+glob+"/", "/**/", "//"), "**") ||
			strings.HasSuffix(strings.TrimRight(glob, "/"), "**") || strings.Trim(glob, "/") == "" {
			return // git's own special cases
		}
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(glob+"\n"), 0o644); err != nil {
			rt.Fatal(err)
		}
		out := git(strings.Join(paths, "\n"), "check-ignore", "--no-index", "--stdin")
		var got []string
		m := Matcher([]string{glob})
		for _, p := range paths {
			if m(p) {
				got = append(got, p)
			}
		}
		if want := strings.Fields(out); !slices.Equal(got, want) {
			rt.Fatalf("%q matches %q, git says %q", glob, got, want)
		}
	})
}

func TestTampered(t *testing.T) {
	got := Tampered([]string{"z_test.go", "a.go", "a_test.go", "a_test.go"}, Matcher([]string{"*_test.go"}))
	if !slices.Equal(got, []string{"a_test.go", "z_test.go"}) {
		t.Errorf("%q", got)
	}
}

func TestProtected(t *testing.T) {
	for _, c := range []struct {
		name       string
		test       string
		paths      string
		extra      string
		yes, not   string
		dir        string
		globs, nog string // what is and is not in the list itself
	}{
		{name: "go", test: "go test ./...", paths: "go.mod calc.go calc_test.go testdata/in",
			yes: "calc_test.go new_test.go x/testdata/y go.work vendor/x/y.go .github/workflows/ci.yml",
			not: "calc.go go.mod go.sum main.go tests/x.py Makefile package.json"},
		{name: "go with named files", test: "go test -run TestX ./calc_test.go ./calc.go", paths: "calc.go calc_test.go",
			yes: "calc_test.go", not: "calc.go TestX"},
		{name: "go package named like a test", test: "go test ./testing", paths: "testing/t.go testing/t_test.go", yes: "testing/t_test.go", not: "testing/t.go"},
		{name: "pytest", test: "pytest -q tests/unit/check_flip.py::TestX::test_y --rootdir=.", paths: "src/lib.py tests/unit/check_flip.py pyproject.toml setup.cfg",
			yes:   "tests/unit/check_flip.py tests/helper.py test_new.py a/b_test.py a/conftest.py pytest.ini tox.ini pyproject.toml setup.cfg sitecustomize.py venv/lib/site-packages/x.pth",
			not:   "src/lib.py setup.py src/__pycache__/lib.pyc weights.pth requirements.txt src/testing.py package.json",
			globs: "/tests/unit/check_flip.py"},
		{name: "pytest of a package", test: "pytest src", paths: "src/lib.py src/test_lib.py", yes: "src/test_lib.py", not: "src/lib.py", nog: "/src/"},
		{name: "pytest of a directory of tests", test: "pytest checks/spec", paths: "checks/spec/a.py checks/b.py", yes: "checks/spec/a.py", not: "checks/b.py", globs: "/checks/spec/"},
		{name: "unittest", test: "python3 -m unittest pkg.checks.T.test_a", paths: "pkg/checks.py pkg/lib.py pyproject.toml",
			yes: "pkg/checks.py", not: "pkg/lib.py pyproject.toml"},
		{name: "python -m pytest", test: "python -m pytest", paths: "a.py", yes: "pyproject.toml"},
		{name: "wrapped pytest", test: "env A=1 timeout 60 poetry run pytest", paths: "a.py", yes: "pyproject.toml setup.cfg"},
		{name: "a script in Python", test: "python3 check.py --fast", paths: "check.py lib.py", yes: "check.py", not: "lib.py"},
		{name: "npm", test: "npm test", paths: "package.json src/a.js src/a.test.js",
			yes: "package.json src/a.test.js src/b.spec.ts __tests__/x.js jest.config.cjs .npmrc node_modules/jest/index.js",
			not: "src/a.js node_modules/.cache/x package-lock.json README.md"},
		{name: "node", test: "node --test", paths: "package.json a.js a.test.js", yes: "a.test.js", not: "package.json a.js"},
		{name: "npx", test: "npx vitest run", paths: "a.ts", yes: "package.json vite.config.ts"},
		{name: "make", test: "make check", paths: "Makefile a.c tests/t.c",
			yes: "Makefile makefile GNUmakefile rules.mk sub/Makefile tests/t.c test_a.c", not: "a.c CMakeLists.txt"},
		{name: "make with Python", test: "make check", paths: "Makefile a.py pyproject.toml", yes: "pyproject.toml Makefile"},
		{name: "a script of the repository", test: "./run-tests.sh", paths: "run-tests.sh package.json a.js", yes: "run-tests.sh package.json", not: "a.js"},
		{name: "sh script", test: "sh scripts/ci.sh", paths: "scripts/ci.sh scripts/lib.sh", yes: "scripts/ci.sh", not: "scripts/lib.sh"},
		{name: "cargo", test: "cargo test", paths: "Cargo.toml src/lib.rs", yes: "tests/a.rs crates/x/tests/b.rs .cargo/config.toml", not: "src/lib.rs Cargo.toml build.rs"},
		{name: "maven", test: "./mvnw test", paths: "mvnw pom.xml src/main/java/A.java", yes: "pom.xml mvnw src/test/java/ATest.java m/src/test/resources/x", not: "src/main/java/A.java"},
		{name: "gradle", test: "./gradlew test", paths: "gradlew build.gradle.kts src/main/A.java", yes: "build.gradle.kts gradlew src/integrationTest/A.java", not: "src/main/A.java"},
		{name: "c by name", test: "./check.sh src/selftest.c", paths: "check.sh src/selftest.c src/a.c", yes: "src/selftest.c", not: "src/a.c"},
		{name: "extra", test: "go test ./...", paths: "a.go", extra: "golden/ !x_test.go", yes: "golden/a y_test.go", not: "x_test.go"},
		{name: "no test", paths: "a.go", yes: "a_test.go", not: "a.go"},
		{name: "no tree", test: "go test ./...", not: "a.go", yes: ".github/x"},
		{name: "in a directory", test: "pytest checks/x.py", dir: "sub/dir", paths: "sub/dir/checks/x.py checks/x.py", yes: "sub/dir/checks/x.py", not: "checks/x.py"},
		{name: "odd names", test: "pytest checks/[a]*.py", paths: "checks/[a]*.py checks/ab.py", yes: "checks/[a]*.py", not: "checks/ab.py"},
		{name: "out of the tree", test: "pytest /etc/passwd ../x.py", paths: "etc/passwd x.py", not: "etc/passwd x.py"},
		{name: "file and line", test: "rspec lib/check.rb:12", paths: "lib/check.rb lib/a.rb", yes: "lib/check.rb spec/a", not: "lib/a.rb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			globs := ProtectedIn(c.dir, strings.Fields(c.test), strings.Fields(c.paths), strings.Fields(c.extra))
			m := Matcher(globs)
			for _, p := range strings.Fields(c.yes) {
				if !m(p) {
					t.Errorf("%s is not protected by %q", p, globs)
				}
			}
			for _, p := range strings.Fields(c.not) {
				if m(p) {
					t.Errorf("%s is protected by %q", p, globs)
				}
			}
			for _, g := range strings.Fields(c.globs) {
				if !slices.Contains(globs, g) {
					t.Errorf("no %q in %q", g, globs)
				}
			}
			if c.nog != "" && slices.Contains(globs, c.nog) {
				t.Errorf("%q in %q", c.nog, globs)
			}
			if c.dir == "" && !slices.Equal(globs, Protected(strings.Fields(c.test), strings.Fields(c.paths), strings.Fields(c.extra))) {
				t.Error("not the same twice")
			}
		})
	}
}

// TestMatcherTakesNoTime: patterns made to be slow are not.
func TestMatcherTakesNoTime(t *testing.T) {
	glob := strings.Repeat("**/a*/", 30) + "z"
	path := strings.Repeat("aaa/", 300) + "y"
	if Matcher([]string{glob, strings.Repeat("*a", 50) + "z"})(path) {
		t.Error("matches")
	}
}

func FuzzMatcher(f *testing.F) {
	for _, s := range [][2]string{{"**/a/[b", "x/a/[b"}, {"!a/", "a/b"}, {`\`, `\`}, {"a/**/**/b", "a/b"}, {"[!]", "!"}, {"\xff*", "\xff\xfe"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, glob, path string) {
		m := Matcher([]string{glob})
		m(path)
		if path != "" && !strings.HasPrefix(path, "/") && !strings.HasSuffix(path, "/") && !strings.Contains(path, "//") && !Matcher([]string{"/" + escape(path)})(""+path) && path != "." && !strings.HasPrefix(path, "./") {
			t.Fatalf("%q escaped as %q does not match itself", path, escape(path))
		}
		if m(path) && Matcher([]string{glob, "!*"})(path) {
			t.Fatalf("!* does not take back %q", path)
		}
	})
}

// TestEnvironment: what a test gets beside its own variables.
func TestEnvironment(t *testing.T) {
	for command, want := range map[string]string{
		"go test ./...": "GOFLAGS=-v", "go test -v ./...": "", "make test": "", "pytest -q": "PYTHONDONTWRITEBYTECODE=1",
		"nice /usr/bin/python3.11 -m unittest": "PYTHONDONTWRITEBYTECODE=1", "pythonic run": "",
	} {
		got := ""
		for name, value := range Environment(strings.Fields(command)) {
			got += name + "=" + value
		}
		if got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
