package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/testreport"
)

// junitTests runs Maven or Gradle, which write JUnit reports from a process
// other than the one that runs the tests. Reports that lie there before are
// removed. Each module that has tests gets a class with a canary.
type junitTests struct {
	argv  []string
	tells bool // a failed test makes the exit status 1
}

var junitGoals = []string{"test", "verify", "package", "install", "check", "build", "surefire:test"}

func recogniseJUnit(prefix, argv []string) adapter {
	tests := slices.ContainsFunc(argv[1:], func(w string) bool {
		return slices.Contains(junitGoals, w) || strings.HasSuffix(w, ":test") || strings.HasSuffix(w, ":check")
	})
	chosen := slices.ContainsFunc(argv[1:], func(w string) bool {
		return strings.HasPrefix(w, "-Dtest=") || strings.HasPrefix(w, "-Dit.test=") || w == "--tests" || strings.HasPrefix(w, "--tests=") || strings.Contains(w, "skipTests") || strings.Contains(w, "maven.test")
	})
	if !tests || chosen {
		return nil
	}
	switch programName(argv[0]) {
	case "mvn", "mvnw":
		return &junitTests{argv: join(prefix, argv, []string{"-Dmaven.test.failure.ignore=true"})}
	case "gradle", "gradlew":
		return &junitTests{argv: join(prefix, argv, []string{"--continue"}), tells: true}
	}
	return nil
}

func (j *junitTests) observe(ctx context.Context, r *rig) (Seen, error) {
	modules, stale, err := javaModules(r.dir)
	if err != nil {
		return Seen{}, err
	}
	for _, path := range stale {
		if err := os.Remove(path); err != nil {
			return Seen{}, err
		}
	}
	class := "Bestof" + r.nonce + "Test"
	for _, m := range modules {
		path := filepath.Join(m.sources, class+".java")
		if err := os.WriteFile(path, []byte(m.canary(class, r.token)), 0o600); err != nil {
			return Seen{}, err
		}
		defer os.Remove(path)
	}
	ran, err := r.run(ctx, command{argv: j.argv})
	if err != nil {
		return Seen{}, err
	}
	_, reports, err := javaModules(r.dir)
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{Code: ran.code, Tells: j.tells}
	if !j.tells && ran.code != 0 || ran.code > 1 {
		seen.Extra = fmt.Sprintf("the build ended with status %d", ran.code)
	}
	for _, m := range modules {
		seen.unit(m.name)
	}
	for _, path := range reports {
		name := moduleOf(relative(r.dir, path))
		b, err := readFile(path)
		if err != nil {
			return Seen{}, err
		}
		readJUnit(b, seen.unit(name), class, r.token)
	}
	return seen, nil
}

// A javaModule is a directory with test sources in Java.
type javaModule struct {
	name    string // slash path, "." for the top
	sources string
	jupiter bool
}

func (m javaModule) canary(class, token string) string {
	imported := "org.junit.Test"
	if m.jupiter {
		imported = "org.junit.jupiter.api.Test"
	}
	return fmt.Sprintf("public class %s {\n    @%s\n    public void canary() { throw new AssertionError(%q); }\n}\n", class, imported, token)
}

// maxWalk is how many entries of a tree are looked at.
const maxWalk = 500_000

// javaModules finds the modules below dir that have tests of JUnit, and the
// reports that lie there.
func javaModules(dir string) (modules []javaModule, reports []string, err error) {
	found := map[string]*javaModule{}
	var order []string
	entries := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if entries++; err != nil || entries > maxWalk {
			return errors.Join(err, map[bool]error{true: errors.New("the tree has too many files to look for reports in")}[entries > maxWalk])
		}
		rel := relative(dir, path)
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			if isReport(rel) { // a link in its place would be read too
				reports = append(reports, path)
			}
		case isReport(rel):
			reports = append(reports, path)
		case strings.HasSuffix(rel, ".java") && strings.Contains("/"+rel, "/src/test/java/"):
			src, err := readFile(path)
			if err != nil {
				return err
			}
			jupiter := bytes.Contains(src, []byte("org.junit.jupiter"))
			if !jupiter && !bytes.Contains(src, []byte("org.junit.")) {
				return nil
			}
			at := strings.Index("/"+rel, "/src/test/java/")
			name := strings.Trim(("/" + rel)[:at], "/")
			if name == "" {
				name = "."
			}
			if found[name] == nil {
				order = append(order, name)
				found[name] = &javaModule{name: name, sources: filepath.Join(dir, filepath.FromSlash(name), "src", "test", "java")}
			}
			found[name].jupiter = found[name].jupiter || jupiter
		}
		return nil
	})
	for _, name := range order {
		modules = append(modules, *found[name])
	}
	return modules, reports, err
}

var reportPath = regexp.MustCompile(`(?:^|/)(?:target/(?:surefire|failsafe)-reports|build/test-results/[^/]+)/(?:[^/]+/)?TEST-[^/]+\.xml$`)

func isReport(rel string) bool { return reportPath.MatchString(rel) }

// moduleOf is the module that a report belongs to.
func moduleOf(rel string) string {
	loc := reportPath.FindStringIndex(rel)
	if loc == nil || loc[0] == 0 {
		return "."
	}
	return rel[:loc[0]]
}

// readJUnit adds the results of a JUnit report to a unit. class is the
// canary's, or its file.
func readJUnit(report []byte, u *SeenUnit, class, token string) {
	err := testreport.ReadJUnit(bytes.NewReader(report), func(c testreport.Case) {
		status := TestSkipped
		switch c.Status {
		case testreport.Passed:
			status = TestPassed
		case testreport.Failed, testreport.Error:
			status = TestFailed
		}
		if strings.Contains(c.Class, class) {
			u.Canary = u.Canary || strings.Contains(c.Text, token)
			return
		}
		u.add(c.Class+"#"+c.Name, status)
	})
	if err != nil && !errors.Is(err, testreport.ErrNoReport) {
		u.Broken = "a report of its tests cannot be read"
	}
}

// vitestTests runs vitest run with its JUnit reporter, and the canary in a file
// of its own. A file of tests runs in a worker that could report anything; the
// canary only shows that not all of the run is forged.
type vitestTests struct {
	prefix, argv []string
}

func recogniseVitest(prefix, argv []string) adapter {
	if programName(argv[0]) != "vitest" {
		return nil
	}
	runs := false
	for _, w := range argv[1:] {
		name, _, _ := strings.Cut(w, "=")
		if strings.HasPrefix(name, "--reporter") || strings.HasPrefix(name, "--outputFile") || slices.Contains([]string{"-t", "--testNamePattern", "--watch", "-w", "--root", "-r", "--dir", "--shard", "--changed"}, name) {
			return nil
		}
		runs = runs || w == "run" || w == "--run"
	}
	if !runs {
		return nil
	}
	return &vitestTests{prefix, argv}
}

func (v *vitestTests) observe(ctx context.Context, r *rig) (Seen, error) {
	name := "bestof" + r.nonce + ".test.mjs"
	canary := filepath.Join(r.dir, name)
	report := filepath.Join(r.tmp, "report.xml")
	source := fmt.Sprintf("import { test } from 'vitest';\ntest('canary', () => { throw new Error(%q) });\n", r.token)
	f, err := os.OpenFile(canary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Seen{}, err
	}
	defer os.Remove(canary)
	_, err = f.WriteString(source)
	if err = errors.Join(err, f.Close()); err != nil {
		return Seen{}, err
	}
	argv := join(v.prefix, v.argv)
	filtered := slices.ContainsFunc(v.argv[1:], func(w string) bool { return !strings.HasPrefix(w, "-") && w != "run" })
	if filtered {
		argv = append(argv, name)
	}
	ran, err := r.run(ctx, command{argv: append(argv, "--reporter=default", "--reporter=junit", "--outputFile.junit="+report)})
	if err != nil {
		return Seen{}, err
	}
	b, err := readFile(report)
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{Code: ran.code, Tells: true, Units: []SeenUnit{{Green: ran.code == 0}}}
	if len(b) > 0 {
		readJUnit(b, &seen.Units[0], name, r.token)
	}
	if ran.code > 1 {
		seen.Extra = fmt.Sprintf("vitest ended with status %d", ran.code)
	}
	return seen, nil
}
