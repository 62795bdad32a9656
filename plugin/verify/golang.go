package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/proc"
)

// goTests runs go test. What it sees are the events of go test -json, whose
// writer is the go command: what tests print comes to it through a pipe and is
// told as output. The canary of a package is an example in a test package of
// its own, which exists only in an overlay; examples run after all tests.
type goTests struct {
	prefix   []string
	program  string
	flags    []string // those of the command, before the packages
	packages []string
	args     []string // -args and what follows
	filter   string   // of -run
	skip     string   // of -skip, which is among the flags too
}

// goSwitches are the flags of go test that take no value.
var goSwitches = []string{
	"a", "n", "race", "msan", "asan", "v", "work", "x", "trimpath", "modcacherw", "linkshared", "json", "c", "i",
	"short", "cover", "benchmem", "failfast", "fullpath", "artifacts", "buildvcs", "h", "help",
}

// goUnknown are flags with which a run is not one of all its tests in a
// process that go test starts itself, or whose place is taken.
var goUnknown = []string{"c", "n", "i", "o", "list", "exec", "toolexec", "fuzz", "overlay", "h", "help", "C"}

func recogniseGo(prefix, argv []string) adapter {
	if len(argv) < 2 || programName(argv[0]) != "go" || argv[1] != "test" {
		return nil
	}
	g := &goTests{prefix: prefix, program: argv[0]}
	rest := argv[2:]
	for len(rest) > 0 {
		word := rest[0]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimLeft(word, "-"), "test."), "=")
		switch {
		case word == "-args" || word == "--args":
			g.args, rest = rest, nil
			continue
		case !strings.HasPrefix(word, "-") || word == "-":
			g.packages, rest = append(g.packages, word), rest[1:]
			continue
		case slices.Contains(goUnknown, name):
			return nil
		}
		taken := 1
		if !hasValue && !slices.Contains(goSwitches, name) {
			if taken = 2; len(rest) < 2 {
				return nil
			}
			value = rest[1]
		}
		switch name {
		case "run":
			g.filter = value
		case "failfast": // the canary of one package would keep the next from running
		case "skip":
			g.skip = value
			fallthrough
		default:
			g.flags = append(g.flags, rest[:taken]...)
		}
		rest = rest[taken:]
	}
	if slices.ContainsFunc(g.packages, func(p string) bool { return strings.HasSuffix(p, ".go") }) {
		return nil // a package made of files has no directory of its own for the canary
	}
	return g
}

// A goPackage is one that has tests.
type goPackage struct {
	ImportPath, Name, Dir string
	TestGoFiles           []string
	XTestGoFiles          []string
}

func (g *goTests) observe(ctx context.Context, r *rig) (Seen, error) {
	units, broken, err := g.units(ctx, r)
	if err != nil {
		return Seen{}, err
	}
	canary := "Example_bestof" + r.nonce
	overlay, err := g.overlay(r, units, canary)
	if err != nil {
		return Seen{}, err
	}
	argv := join(g.prefix, []string{g.program, "test", "-json", "-overlay=" + overlay}, g.flags)
	if !slices.ContainsFunc(g.flags, func(f string) bool { return strings.Contains(f, "count") }) {
		argv = append(argv, "-count=1")
	}
	if g.filter != "" {
		argv = append(argv, "-run="+g.filter+"|^"+canary+"$")
	}
	shown := proc.NewCapture(clip, clip, r.show)
	events := &goEvents{canary: canary, token: r.token, show: shown, said: map[string]bool{}}
	events.seen.Tells, events.seen.OwnSkips = true, true
	ran, err := r.run(ctx, command{argv: join(argv, g.packages, g.args), stdout: events})
	if err != nil {
		return Seen{}, err
	}
	seen := events.end()
	shown.Output()
	seen.Code = ran.code
	if ran.code > 1 {
		seen.Extra = fmt.Sprintf("go test ended with status %d", ran.code)
	}
	return g.complete(seen, units, broken), nil
}

// complete adds what is known of packages beside what was seen of them, and
// leaves out those that have no tests.
func (g *goTests) complete(seen Seen, units []Unit, broken string) Seen {
	out := seen
	out.Units = nil
	for _, want := range units {
		u := *seen.unit(want.Name)
		u.Data, u.Broken = want.Data, broken
		if !u.Canary {
			for _, id := range want.Alike {
				if _, ok := u.Results[id]; !ok {
					u.Alike = append(u.Alike, id)
				}
			}
		}
		out.Units = append(out.Units, u)
	}
	for _, u := range seen.Units {
		known := slices.ContainsFunc(units, func(w Unit) bool { return w.Name == u.Name })
		if !known && u.count(TestFailed) > 0 {
			out.Units = append(out.Units, u)
		}
	}
	return out
}

// units are the packages that have tests on the base: listed there, and known
// from there afterwards. broken says what of the module is not the base's.
func (g *goTests) units(ctx context.Context, r *rig) (units []Unit, broken string, err error) {
	replaced, err := g.replaced(ctx, r)
	if err != nil {
		return nil, "", err
	}
	if r.base != nil {
		for _, u := range r.base.Units {
			if u.Data["replace"] != replaced {
				broken = "go.mod replaces other modules than on the base, and tests may rest on them"
			}
		}
		return r.base.Units, broken, nil
	}
	var flags []string
	for i, f := range g.flags {
		name, _, hasValue := strings.Cut(strings.TrimLeft(f, "-"), "=")
		if strings.HasPrefix(f, "-") && slices.Contains([]string{"tags", "mod", "modfile", "race"}, name) {
			flags = append(flags, f)
			if !hasValue && name != "race" && i+1 < len(g.flags) {
				flags = append(flags, g.flags[i+1])
			}
		}
	}
	var out bytes.Buffer
	argv := join(g.prefix, []string{g.program, "list", "-e", "-json=ImportPath,Name,Dir,TestGoFiles,XTestGoFiles"}, flags, []string{"--"}, g.packages)
	if _, err := r.run(ctx, command{argv: argv, stdout: &out}); err != nil {
		return nil, "", err
	}
	for d := json.NewDecoder(&out); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return units, "", nil
		} else if err != nil {
			return nil, "", fmt.Errorf("go list: %w", err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		dir, err := filepath.Rel(resolved(r.dir), resolved(p.Dir))
		if err != nil || !filepath.IsLocal(dir) {
			continue // not of this tree
		}
		units = append(units, Unit{
			Name: p.ImportPath, Data: map[string]string{"dir": dir, "package": p.Name, "replace": replaced},
			Alike: g.sourceTests(p),
		})
	}
}

func resolved(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// replaced is the replace directives of the module as text.
func (g *goTests) replaced(ctx context.Context, r *rig) (string, error) {
	var out bytes.Buffer
	ran, err := r.run(ctx, command{argv: join(g.prefix, []string{g.program, "mod", "edit", "-json"}), stdout: &out})
	if err != nil {
		return "", err
	}
	var file struct{ Replace json.RawMessage }
	if ran.code != 0 || json.Unmarshal(out.Bytes(), &file) != nil {
		return "?", nil // in a directory below the module, or not readable: the same before and after
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, file.Replace); err != nil {
		return "null", nil
	}
	return compact.String(), nil
}

// overlay writes the canaries, and the file that puts them into packages.
func (g *goTests) overlay(r *rig, units []Unit, canary string) (string, error) {
	replace := map[string]string{}
	for i, u := range units {
		source := fmt.Sprintf("package %s_test\n\nimport \"fmt\"\n\nfunc %s() {\n\tfmt.Println(%q)\n\t// Output: a test that must fail\n}\n", u.Data["package"], canary, r.token)
		file := filepath.Join(r.tmp, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(resolved(r.dir), u.Data["dir"], "zz_bestof_"+r.nonce+"_test.go")] = file
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.tmp, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}

// sourceTests are the ids of the tests that the files of a package hold.
func (g *goTests) sourceTests(p goPackage) []string {
	var ids []string
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		src, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			continue
		}
		for _, test := range goTestNames(src) {
			if goRuns(g.filter, test) && !goSkips(g.skip, test) {
				ids = append(ids, p.ImportPath+"."+test)
			}
		}
	}
	return ids
}

// goTestNames are the tests and fuzz targets that a source declares.
func goTestNames(src []byte) []string {
	file, _ := parser.ParseFile(gotoken.NewFileSet(), "", src, parser.SkipObjectResolution)
	if file == nil {
		return nil
	}
	var names []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Type.Params.NumFields() != 1 {
			continue
		}
		for _, prefix := range []string{"Test", "Fuzz"} {
			rest, ok := strings.CutPrefix(f.Name.Name, prefix)
			first, _ := utf8.DecodeRuneInString(rest)
			if ok && !unicode.IsLower(first) && f.Name.Name != "TestMain" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// goRuns reports whether -run would choose a top-level test. A filter that
// goes deeper is read up to its first slash.
func goRuns(filter, test string) bool {
	if filter == "" {
		return true
	}
	for part := range strings.SplitSeq(filter, "|") {
		top, _, _ := strings.Cut(part, "/")
		if re, err := regexp.Compile(top); err == nil && re.MatchString(test) {
			return true
		}
	}
	return false
}

// goSkips reports whether -skip would leave out a top-level test, and not only
// some of its subtests.
func goSkips(skip, test string) bool {
	for part := range strings.SplitSeq(skip, "|") {
		if part != "" && !strings.Contains(part, "/") && goRuns(part, test) {
			return true
		}
	}
	return false
}

// goEvents reads what go test -json writes.
type goEvents struct {
	canary, token string
	show          io.Writer
	line          []byte
	seen          Seen
	said          map[string]bool // packages that printed the token
}

// maxEvent is how long a line of events may be.
const maxEvent = 1 << 20

func (g *goEvents) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		g.line = append(g.line, part[:min(len(part), maxEvent-len(g.line))]...)
		if ended {
			g.event()
		}
		p = rest
	}
	return n, nil
}

func (g *goEvents) event() {
	defer func() { g.line = g.line[:0] }()
	var e struct{ Action, Package, Test, Output string }
	if json.Unmarshal(g.line, &e) != nil {
		fmt.Fprintf(g.show, "%s\n", g.line)
		return
	}
	if e.Output != "" {
		if e.Test == g.canary {
			g.said[e.Package] = g.said[e.Package] || strings.Contains(e.Output, g.token)
			return
		}
		if u := g.seen.unit(e.Package); e.Test == "" && u.Canary && strings.HasPrefix(e.Output, "FAIL") && u.count(TestFailed) == 0 {
			e.Output = strings.Replace(strings.TrimPrefix(e.Output, "FAIL\n"), "FAIL\t", "ok  \t", 1)
		}
		_, _ = io.WriteString(g.show, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	var status Status
	switch e.Action {
	case "pass":
		status = TestPassed
	case "fail":
		status = TestFailed
	case "skip":
		status = TestSkipped
	default:
		return
	}
	u := g.seen.unit(e.Package)
	switch {
	case e.Test == "":
		u.Green = status == TestPassed
	case e.Test == g.canary:
		u.Canary = status == TestFailed && g.said[e.Package]
	default:
		u.add(e.Package+"."+e.Test, status)
	}
}

func (g *goEvents) end() Seen {
	if len(g.line) > 0 {
		g.event()
	}
	slices.SortFunc(g.seen.Units, func(a, b SeenUnit) int { return strings.Compare(a.Name, b.Name) })
	return g.seen
}
