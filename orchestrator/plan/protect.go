package plan

import (
	"path"
	"slices"
	"strings"
)

// A language is what is protected in a tree that holds any of its files.
type language struct {
	name  string
	files []string // globs of names
	globs []string
}

// languages list where tests usually live, and what changes their meaning
// whichever runner is used. What a project's code may rightly change (go.mod,
// Cargo.toml, and the manifests of runners that are not used) is not in it,
// nor are caches that running the tests leaves behind.
var languages = []language{
	{"go", []string{"*.go", "go.mod"}, []string{
		"*_test.go", "testdata/", "go.work", "go.work.sum", "vendor/",
	}},
	{"python", []string{"*.py"}, []string{
		"test_*.py", "*_test.py", "tests.py", "tests/", "test/", "conftest.py",
		"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "noxfile.py", ".coveragerc",
		"sitecustomize.py", "usercustomize.py", "**/site-packages/",
	}},
	{"javascript", []string{"*.js", "*.mjs", "*.cjs", "*.jsx", "*.ts", "*.mts", "*.cts", "*.tsx", "package.json"}, []string{
		"*.test.*", "*.spec.*", "__tests__/", "__mocks__/", "__snapshots__/", "test/", "tests/",
		"jest.config.*", "jest.setup.*", "setupTests.*", "vitest.config.*", "vitest.workspace.*", "vitest.setup.*",
		".mocharc*", "karma.conf.*", "ava.config.*", "playwright.config.*", "cypress.config.*", ".taprc", ".nycrc*", ".c8rc*",
		".npmrc", ".yarnrc*", ".yarn/", ".pnp.*", ".pnpmfile.*", "bunfig.toml",
		"node_modules/", "!**/node_modules/.*/",
	}},
	{"rust", []string{"*.rs", "Cargo.toml"}, []string{
		"tests/", "benches/", ".cargo/", "rust-toolchain", "rust-toolchain.toml", "nextest.toml",
	}},
	{"java", []string{"*.java", "*.kt", "*.scala", "*.groovy"}, []string{
		"**/src/test/", "**/src/*Test/", "*Test.java", "*Tests.java", "Test*.java", "*IT.java", "*Test.kt", "*Spec.groovy", "junit-platform.properties",
	}},
	{"c", []string{"*.c", "*.h", "*.cc", "*.cpp", "*.cxx", "*.hpp"}, []string{
		"test/", "tests/", "test_*.c", "*_test.c", "test_*.cc", "*_test.cc", "test_*.cpp", "*_test.cpp",
	}},
	{"ruby", []string{"*.rb", "Gemfile"}, []string{
		"*_spec.rb", "*_test.rb", "test_*.rb", "spec/", "test/", ".rspec",
	}},
	{"php", []string{"*.php"}, []string{"*Test.php", "tests/", "phpunit.xml", "phpunit.xml.dist"}},
	{"dotnet", []string{"*.cs", "*.fs"}, []string{"*Tests.cs", "*Test.cs", "*.runsettings"}},
}

// A runner's own configuration is protected when the test command goes
// through it.
type runner struct {
	programs []string
	globs    []string
}

var (
	pythonConfig = []string{"pyproject.toml", "setup.cfg"}
	nodeConfig   = []string{"package.json", "babel.config.*", ".babelrc*", ".swcrc", "vite.config.*", "tsconfig.json"}
	makeConfig   = []string{"Makefile", "GNUmakefile", "*.mk"}
	cmakeConfig  = []string{"CMakeLists.txt", "*.cmake", "CMakePresets.json"}
	gradleConfig = []string{"*.gradle", "*.gradle.kts", "gradle.properties", "gradle/", "buildSrc/", "gradlew"}
	mavenConfig  = []string{"pom.xml", ".mvn/", "mvnw"}
)

var runners = []runner{
	{[]string{"pytest", "py.test", "tox", "nox", "nose2", "coverage", "hatch", "poetry", "uv", "pdm", "green", "stestr"}, pythonConfig},
	{[]string{"npm", "npx", "yarn", "pnpm", "pnpx", "bun", "bunx", "jest", "vitest", "mocha", "ava", "tap", "karma", "nyc", "c8", "turbo", "nx", "lerna", "deno"}, nodeConfig},
	{[]string{"make", "gmake", "bmake"}, makeConfig},
	{[]string{"cmake", "ctest", "ninja"}, cmakeConfig},
	{[]string{"meson"}, []string{"meson.build", "meson.options", "meson_options.txt"}},
	{[]string{"gradle", "gradlew"}, gradleConfig},
	{[]string{"mvn", "mvnw"}, mavenConfig},
	{[]string{"rake"}, []string{"Rakefile", "*.rake"}},
	{[]string{"just"}, []string{"justfile", ".justfile"}},
	{[]string{"task", "go-task"}, []string{"Taskfile.yml", "Taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml"}},
	{[]string{"bazel", "bazelisk"}, []string{"BUILD", "BUILD.bazel", "WORKSPACE", "MODULE.bazel", ".bazelrc", "*.bzl"}},
	{[]string{"composer"}, []string{"composer.json"}},
}

// continuous integration decides elsewhere what passes.
var continuous = []string{
	".github/", ".gitlab-ci.yml", ".gitlab/", ".circleci/", ".travis.yml", ".buildkite/", ".woodpecker/", ".woodpecker.yml",
	"azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile", ".drone.yml", ".cirrus.yml", ".ci/",
}

// launchers only start another program, which comes later in the command.
var launchers = []string{"env", "nice", "time", "timeout", "stdbuf", "nohup", "xvfb-run", "uv", "poetry", "pdm", "hatch", "pipenv", "bundle", "npx", "bunx", "pnpx", "exec", "run"}

// opaque programs may start anything: a script, or a build tool that names its
// commands in a file.
var opaque = []string{"sh", "bash", "dash", "zsh", "ksh", "make", "gmake", "just", "task", "tox", "nox", "ctest", "ninja", "meson", "bazel"}

// Protected lists the globs (see Matcher) of what candidates may not change,
// for a test command that runs at the top of a tree with the given paths: the
// files that the command names, where tests and their configuration usually
// live in the languages present, the configuration of the runners that the
// command goes through, and CI. The user's own globs come last, so that one
// that begins with "!" can lift any of them.
func Protected(test, paths, extra []string) []string { return ProtectedIn("", test, paths, extra) }

// ProtectedIn is Protected for a test command that runs in dir, a slash path
// below the top of the tree.
func ProtectedIn(dir string, test, paths, extra []string) []string {
	t := newTree(dir, paths)
	var globs []string
	globs = append(globs, t.named(test)...)
	globs = append(globs, t.shadows(test)...)
	for _, l := range languages {
		if t.has(l.files) {
			globs = append(globs, l.globs...)
		}
	}
	through := programs(test)
	isOpaque := slices.ContainsFunc(through, func(p string) bool { return slices.Contains(opaque, p) }) ||
		len(test) > 0 && t.files[t.clean(test[0])]
	for _, r := range runners {
		used := slices.ContainsFunc(through, func(p string) bool { return slices.Contains(r.programs, p) })
		if used || isOpaque && t.has(r.globs) {
			globs = append(globs, r.globs...)
		}
	}
	globs = append(globs, continuous...)
	return slices.Concat(unique(globs), extra)
}

// shadows are the files that would stand in for the module of python -m, which
// looks in its directory first. The base need not have them.
func (t *tree) shadows(test []string) []string {
	var out []string
	for i, word := range test {
		if i == 0 || test[i-1] != "-m" {
			continue
		}
		module, _, _ := strings.Cut(word, ".")
		if p := t.clean(module); module != "" && !t.dirs[p] && !t.files[p+".py"] {
			out = append(out, "/"+escape(p)+".py", "/"+escape(p)+"/")
		}
	}
	return out
}

// isPython reports whether a program runs Python tests.
func isPython(name string) bool {
	return strings.TrimRight(name, "0123456789.") == "python" || name == "pytest" || name == "py.test"
}

// Environment is what the test command needs: so that its output counts the
// tests that ran, which go test does only with -v, and so that Python does not
// leave compiled files beside tests, which differ each time.
func Environment(test []string) map[string]string {
	if slices.ContainsFunc(programs(test), isPython) {
		return map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}
	}
	if !slices.Contains(programs(test), "go") || !slices.Contains(test, "test") {
		return nil
	}
	for _, word := range test {
		if word == "-v" || word == "-json" || strings.HasPrefix(word, "-v=") || strings.HasPrefix(word, "-json=") {
			return nil
		}
	}
	return map[string]string{"GOFLAGS": "-v"}
}

func unique(in []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// programs are the names of the programs that the command goes through: its
// first word, what a launcher starts, and the module of python -m.
func programs(test []string) []string {
	var out []string
	launching := true
	for i, word := range test {
		name := strings.TrimSuffix(path.Base(word), ".exe")
		switch {
		case launching && !strings.HasPrefix(word, "-") && !strings.Contains(word, "="):
			out = append(out, name)
			launching = slices.Contains(launchers, name) || strings.Trim(name, "0123456789.smhd") == ""
		case i > 0 && test[i-1] == "-m":
			out = append(out, word)
		}
	}
	return out
}

// A tree is the paths of the base, for look-ups.
type tree struct {
	dir   string
	files map[string]bool
	dirs  map[string]bool
	names map[string]bool // base names
	exts  map[string]bool
}

func newTree(dir string, paths []string) *tree {
	t := &tree{dir: dir, files: map[string]bool{}, dirs: map[string]bool{}, names: map[string]bool{}, exts: map[string]bool{}}
	for _, p := range paths {
		t.files[p] = true
		t.names[path.Base(p)] = true
		t.exts[path.Ext(p)] = true
		for d := path.Dir(p); d != "." && d != "/" && !t.dirs[d]; d = path.Dir(d) {
			t.dirs[d] = true
		}
	}
	return t
}

// has reports whether the tree has a file whose name matches one of the globs.
func (t *tree) has(globs []string) bool {
	for _, g := range globs {
		if ext, ok := strings.CutPrefix(g, "*"); ok && strings.LastIndexByte(ext, '.') == 0 {
			if t.exts[ext] {
				return true
			}
			continue
		}
		if name, ok := strings.CutSuffix(g, "/"); ok && t.dirs[name] || t.names[g] {
			return true
		}
	}
	return false
}

// named are the files, and the directories of tests, that the words of the
// command name. For go test, directories and plain files are packages to be
// tested, so only test files count.
func (t *tree) named(test []string) []string {
	isGo := slices.Contains(programs(test), "go")
	var out []string
	for _, word := range test {
		for _, p := range t.candidates(word) {
			switch {
			case isGo && !strings.HasSuffix(p, "_test.go"):
			case t.files[p]:
				out = append(out, "/"+escape(p))
			case t.dirs[p] && testDirectory(p):
				out = append(out, "/"+escape(p)+"/")
			}
		}
	}
	return out
}

// candidates are the paths that a word of the command may mean: itself, the
// value of a --flag=value, what is before a pytest "::" selector, the file of
// a dotted Python module.
func (t *tree) candidates(word string) []string {
	if strings.HasPrefix(word, "-") {
		var ok bool
		if _, word, ok = strings.Cut(word, "="); !ok {
			return nil
		}
	}
	word, _, _ = strings.Cut(word, "::")
	out := []string{t.clean(word), t.clean(strings.TrimSuffix(word, "/..."))}
	if i := strings.LastIndexByte(word, ':'); i > 0 { // file:line
		out = append(out, t.clean(word[:i]))
	}
	if !strings.Contains(word, "/") {
		for parts := strings.Split(word, "."); len(parts) > 1; parts = parts[:len(parts)-1] {
			module := strings.Join(parts, "/")
			out = append(out, t.clean(module+".py"), t.clean(module))
		}
	}
	return unique(out)
}

func (t *tree) clean(p string) string {
	if p == "" || path.IsAbs(p) {
		return ""
	}
	return path.Join(t.dir, p)
}

// testDirectory reports whether the directory is named like one for tests, so
// that it does not hold the code under test.
func testDirectory(p string) bool {
	for e := range strings.SplitSeq(strings.ToLower(p), "/") {
		switch e {
		case "test", "tests", "testing", "spec", "specs", "__tests__", "e2e", "t", "unit", "integration", "testsuite", "test-suite", "unittests", "unit_tests", "integration_tests", "regress", "regression":
			return true
		}
	}
	return false
}
