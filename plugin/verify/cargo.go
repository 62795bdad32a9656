package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// cargoTests runs cargo test: cargo builds the test programs, with a canary at
// the end of each one's root source, which is put back before anything that was
// built is run. Then each expected test runs in a process of its own, before
// the canary, with what libtest prints of the two as its word.
type cargoTests struct {
	prefix  []string
	program string
	build   []string // cargo's own arguments
	run     []string // the test programs'
}

// cargoUnknown are arguments with which cargo does not run what it builds, or
// the programs do not run their tests.
var cargoUnknown = []string{"--no-run", "--message-format", "-h", "--help", "--list", "--format", "-Z", "--bench", "--benches", "--doc", "--no-fail-fast", "--logfile", "--shuffle", "--config"}

func recogniseCargo(prefix, argv []string) adapter {
	if programName(argv[0]) != "cargo" || len(argv) < 2 {
		return nil
	}
	i := 1
	if strings.HasPrefix(argv[1], "+") {
		i = 2
	}
	if len(argv) <= i || argv[i] != "test" && argv[i] != "t" {
		return nil
	}
	c := &cargoTests{prefix: join(prefix), program: argv[0], build: slices.Clone(argv[1:i])}
	rest := argv[i+1:]
	if at := slices.Index(rest, "--"); at >= 0 {
		rest, c.run = rest[:at], rest[at+1:]
	}
	for _, word := range join(rest, c.run) {
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains(cargoUnknown, name) && name != "--no-fail-fast" {
			return nil
		}
	}
	c.build = append(c.build, "test")
	values := []string{"-p", "--package", "--exclude", "--test", "--bin", "--example", "-F", "--features", "--profile", "--target", "--target-dir", "--manifest-path", "-j", "--jobs", "--color"}
	for j := 0; j < len(rest); j++ {
		if !strings.HasPrefix(rest[j], "-") { // cargo hands a filter on to the programs
			c.run = append([]string{rest[j]}, c.run...)
			continue
		}
		c.build = append(c.build, rest[j])
		if slices.Contains(values, rest[j]) && j+1 < len(rest) {
			j++
			c.build = append(c.build, rest[j])
		}
	}
	return c
}

func (c *cargoTests) cargo(args ...string) []string {
	return join(c.prefix, []string{c.program}, args)
}

// A cargoTarget is a test program's source, or the program.
type cargoTarget struct {
	Name    string   `json:"name"`
	Kind    []string `json:"kind"`
	SrcPath string   `json:"src_path"`
	Test    bool     `json:"test"`
	Harness *bool    `json:"harness"`
}

type cargoProgram struct {
	unit, executable, dir string
	pkg                   string
}

func (c *cargoTests) observe(ctx context.Context, r *rig) (Seen, error) {
	roots, err := c.roots(ctx, r)
	if err != nil {
		return Seen{}, err
	}
	planted, err := plant(roots, cargoCanary(r))
	if err != nil {
		return Seen{}, errors.Join(err, planted.restore())
	}
	programs, built, err := c.compile(ctx, r)
	if spoilt := planted.restore(); err != nil || spoilt != nil {
		if spoilt != nil {
			return Seen{Units: c.broken(r, spoilt.Error())}, err
		}
		return Seen{}, err
	}
	if built.code != 0 {
		return c.failedBuild(r, roots, built.code), nil
	}
	seen := Seen{}
	for _, p := range programs {
		if ctx.Err() != nil {
			return seen, ctx.Err()
		}
		u, err := c.runProgram(ctx, r, p)
		if err != nil {
			return seen, err
		}
		seen.Units = append(seen.Units, u)
	}
	return seen, c.documents(ctx, r, &seen)
}

// broken says the same of all units.
func (c *cargoTests) broken(r *rig, why string) []SeenUnit {
	units := []SeenUnit{{Broken: why}}
	if r.base != nil {
		units = nil
		for _, u := range r.base.Units {
			units = append(units, SeenUnit{Name: u.Name, Broken: why})
		}
	}
	return units
}

var cargoTestSource = regexp.MustCompile(`(?:#\[[^\]]*\]\s*)*?#\[(?:\w+::)*test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?(?:async\s+)?fn\s+(\w+)`)

// failedBuild is what is known of a tree that does not build: on the base, the
// tests that the files of integration tests declare.
func (c *cargoTests) failedBuild(r *rig, roots []string, code int) Seen {
	seen := Seen{Code: code, Extra: "cargo could not build the tests"}
	if r.base != nil {
		return seen
	}
	for _, root := range roots {
		src, err := os.ReadFile(root)
		if err != nil || filepath.Base(filepath.Dir(root)) != "tests" {
			continue
		}
		u := SeenUnit{Name: "test " + strings.TrimSuffix(filepath.Base(root), ".rs")}
		for _, m := range cargoTestSource.FindAllSubmatch(src, -1) {
			if !bytes.Contains(m[0], []byte("#[ignore")) {
				u.Alike = append(u.Alike, u.Name+"::"+string(m[1]))
			}
		}
		if len(u.Alike) > 0 {
			seen.Units = append(seen.Units, u)
		}
	}
	return seen
}

// roots are the root sources of all targets of the workspace that have tests.
func (c *cargoTests) roots(ctx context.Context, r *rig) ([]string, error) {
	args := []string{"metadata", "--no-deps", "--format-version", "1"}
	if i := slices.Index(c.build, "--manifest-path"); i >= 0 && i+1 < len(c.build) {
		args = append(args, "--manifest-path", c.build[i+1])
	}
	var out bytes.Buffer
	ran, err := r.run(ctx, command{argv: c.cargo(args...), stdout: &out})
	if err != nil {
		return nil, err
	}
	var metadata struct {
		Packages []struct {
			Targets []cargoTarget `json:"targets"`
		} `json:"packages"`
	}
	if ran.code != 0 {
		return nil, nil // the build says why
	}
	if err := json.Unmarshal(out.Bytes(), &metadata); err != nil {
		return nil, fmt.Errorf("cargo metadata: %w", err)
	}
	var roots []string
	for _, p := range metadata.Packages {
		for _, t := range p.Targets {
			if t.Test && !slices.Contains(t.Kind, "custom-build") && relative(resolved(r.dir), resolved(t.SrcPath)) != t.SrcPath && !slices.Contains(roots, t.SrcPath) {
				roots = append(roots, t.SrcPath)
			}
		}
	}
	return roots, nil
}

func cargoCanary(r *rig) string {
	return fmt.Sprintf("\n#[cfg(test)] mod zzz_bestof_%s { #[test] fn canary() { panic!(%q) } }\n", r.nonce, r.token)
}

func (r *rig) cargoCanaryName() string { return "zzz_bestof_" + r.nonce + "::canary" }

// A planting is files that were appended to, with what they held and hold.
type planting struct {
	path      string
	was, with []byte
	mode      os.FileMode
}

type plantings []planting

// plant appends text to files that are regular.
func plant(files []string, text string) (plantings, error) {
	var done plantings
	for _, path := range files {
		info, err := os.Lstat(path)
		if err != nil {
			return done, err
		}
		if !info.Mode().IsRegular() {
			return done, fmt.Errorf("%s is not a plain file", filepath.Base(path))
		}
		was, err := os.ReadFile(path)
		if err != nil {
			return done, err
		}
		with := slices.Concat(was, []byte(text))
		done = append(done, planting{path, was, with, info.Mode().Perm()})
		if err := os.WriteFile(path, with, info.Mode().Perm()); err != nil {
			return done, err
		}
	}
	return done, nil
}

// restore puts back what files held, unless something else wrote to them.
func (all plantings) restore() error {
	var spoilt error
	for _, p := range all {
		info, err := os.Lstat(p.path)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no plain file any more")
		}
		var now []byte
		if err == nil {
			now, err = os.ReadFile(p.path)
		}
		if err == nil && !bytes.Equal(now, p.with) {
			err = errors.New("the build wrote to it")
		}
		if err == nil {
			err = os.WriteFile(p.path, p.was, p.mode)
		}
		if err != nil {
			spoilt = errors.Join(spoilt, fmt.Errorf("%s was changed while the tests were built: %w", filepath.Base(p.path), err))
		}
	}
	return spoilt
}

// compile builds the test programs and lists them.
func (c *cargoTests) compile(ctx context.Context, r *rig) ([]cargoProgram, testRun, error) {
	var out bytes.Buffer
	ran, err := r.run(ctx, command{argv: c.cargo(append(slices.Clone(c.build), "--no-run", "--message-format=json-render-diagnostics")...), stdout: &out})
	if err != nil || ran.code != 0 {
		return nil, ran, err
	}
	var programs []cargoProgram
	for d := json.NewDecoder(&out); ; {
		var m struct {
			Reason       string      `json:"reason"`
			Executable   string      `json:"executable"`
			ManifestPath string      `json:"manifest_path"`
			PackageID    string      `json:"package_id"`
			Target       cargoTarget `json:"target"`
			Profile      struct {
				Test bool `json:"test"`
			} `json:"profile"`
		}
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return programs, ran, nil
		} else if err != nil {
			return nil, ran, fmt.Errorf("cargo test --no-run: %w", err)
		}
		if m.Reason != "compiler-artifact" || !m.Profile.Test || m.Executable == "" {
			continue
		}
		dir := filepath.Dir(m.ManifestPath)
		name := strings.Join(m.Target.Kind, "+") + " " + m.Target.Name
		if rel := relative(resolved(r.dir), resolved(dir)); rel != "." {
			name = rel + " " + name
		}
		programs = append(programs, cargoProgram{unit: name, executable: m.Executable, dir: dir, pkg: m.Target.Name})
	}
}

// runProgram runs the tests of one program: those that it lists on the base,
// and afterwards those that the base has and no others.
func (c *cargoTests) runProgram(ctx context.Context, r *rig, p cargoProgram) (SeenUnit, error) {
	u := SeenUnit{Name: p.unit, Results: map[string]Status{}}
	env := append(os.Environ(), "CARGO_MANIFEST_DIR="+p.dir)
	var out bytes.Buffer
	ran, err := r.run(ctx, command{argv: join([]string{p.executable}, c.run, []string{"--list", "--format=terse"}), dir: p.dir, env: env, stdout: &out})
	if err != nil {
		return u, err
	}
	var names []string
	for line := range strings.Lines(out.String()) {
		if name, ok := strings.CutSuffix(strings.TrimSuffix(line, "\n"), ": test"); ok && name != r.cargoCanaryName() {
			names = append(names, name)
		}
	}
	u.Green = ran.code == 0 && len(names) == 0
	names = append(names, r.expectedOf(p.unit)...)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxResults/10 {
		u.Broken = "it has more tests than can be run"
		return u, nil
	}
	canaries := c.each(ctx, r, p, env, names, &u)
	if len(names) == 0 { // the canary alone
		canaries = c.each(ctx, r, p, env, []string{r.cargoCanaryName()}, &u)
	}
	u.Canary = canaries
	if u.Canary {
		u.Green = false
	}
	return u, nil
}

// expectedOf are the names of the tests of a unit on the base.
func (r *rig) expectedOf(unit string) []string {
	var names []string
	if r.base != nil {
		for _, u := range r.base.Units {
			if u.Name == unit {
				for _, id := range u.Tests {
					names = append(names, strings.TrimPrefix(id, unit+"::"))
				}
			}
		}
	}
	return names
}

// each runs each test in a process of its own, followed by the canary. It
// reports whether all processes reported their canary.
func (c *cargoTests) each(ctx context.Context, r *rig, p cargoProgram, env []string, names []string, u *SeenUnit) bool {
	var mu sync.Mutex
	var running sync.WaitGroup
	all := true
	slots := make(chan struct{}, runtime.NumCPU())
	flags := slices.DeleteFunc(slices.Clone(c.run), func(w string) bool {
		return !strings.HasPrefix(w, "-") || strings.HasPrefix(w, "--test-threads") || w == "-q" || w == "--quiet" || w == "--nocapture" || w == "--no-capture" || w == "--exact" || w == "--skip"
	})
	for _, name := range names {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			var out bytes.Buffer
			words := []string{name, r.cargoCanaryName(), "--exact", "--test-threads=1", "--color=never", "--format=pretty"}
			ran, err := command{argv: join([]string{p.executable}, flags, words), dir: p.dir, env: env, stdout: &limited{w: &out, left: maxReport}}.run(ctx, io.Discard)
			mu.Lock()
			defer mu.Unlock()
			said := readLibtest(out.Bytes(), r.token)
			r.ended.timedOut = r.ended.timedOut || ran.timedOut
			if ran.signal == syscall.SIGKILL && !ran.timedOut {
				r.ended.signal = ran.signal
			}
			canary := err == nil && said.canary && ran.code == libtestFailed
			all = all && canary
			status := said.status
			switch {
			case name == r.cargoCanaryName(), canary && status == "":
				return
			case !canary && ran.code == 0:
				u.Green = true
				return
			case !canary:
				status = TestFailed // it ended the process
			}
			u.add(p.unit+"::"+name, status)
			fmt.Fprintf(r.show, "test %s ... %s\n", name, status)
			if status == TestFailed {
				_, _ = r.show.Write(clipped(libtestSection(out.Bytes(), name)))
			}
		})
	}
	running.Wait()
	return all
}

func clipped(b []byte) []byte { return b[:min(len(b), clip)] }

// A limited writer takes so many bytes and drops the rest.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	part := p[:min(len(p), l.left)]
	l.left -= len(part)
	if _, err := l.w.Write(part); err != nil {
		return 0, err
	}
	return len(p), nil
}

// libtestFailed is how libtest ends when tests failed.
const libtestFailed = 101

// What libtest says at the end, after all tests. What tests print themselves
// may stand anywhere before.
var libtestEnd = regexp.MustCompile(`(?m)^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;`)

// A libtestWord is what libtest said of one test and the canary.
type libtestWord struct {
	status Status // "" when it did not run
	canary bool
}

// readLibtest reads the end of a run of one test and the canary. The last
// summary is libtest's own if the canary's words stand before it: they are
// shown when all tests are over.
func readLibtest(out []byte, token string) libtestWord {
	all := libtestEnd.FindAllSubmatchIndex(out, -1)
	if len(all) == 0 {
		return libtestWord{}
	}
	last := all[len(all)-1]
	number := func(i int) string { return string(out[last[2*i]:last[2*i+1]]) }
	word := libtestWord{canary: bytes.Contains(out[:last[0]], []byte(token))}
	switch number(1) + " " + number(2) + " " + number(3) {
	case "1 1 0":
		word.status = TestPassed
	case "0 2 0":
		word.status = TestFailed
	case "0 1 1":
		word.status = TestSkipped
	case "0 1 0":
	default:
		word.canary = false
	}
	return word
}

// libtestSection is what libtest shows of a failed test's output; of a process
// that ended before, all that there is.
func libtestSection(out []byte, name string) []byte {
	_, after, ok := bytes.Cut(out, []byte("---- "+name+" stdout ----"))
	if !ok {
		return out
	}
	for _, end := range []string{"\n---- ", "\n\nfailures:\n"} {
		after, _, _ = bytes.Cut(after, []byte(end))
	}
	return append(bytes.Clone(after), '\n')
}

// documents runs the tests in documentation, which are the candidate's own and
// count only by failing, where the command would run them.
func (c *cargoTests) documents(ctx context.Context, r *rig, seen *Seen) error {
	isLibrary := slices.ContainsFunc(seen.Units, func(u SeenUnit) bool {
		return strings.Contains(" "+u.Name, " lib ") || strings.Contains(" "+u.Name, " proc-macro ")
	})
	chosen := slices.ContainsFunc(c.build, func(w string) bool {
		name, _, _ := strings.Cut(w, "=")
		return slices.Contains([]string{"--lib", "--bins", "--tests", "--examples", "--all-targets", "--test", "--bin", "--example"}, name)
	})
	if !isLibrary || chosen {
		return nil
	}
	argv := c.cargo(append(slices.Clone(c.build), "--doc")...)
	if len(c.run) > 0 {
		argv = append(append(argv, "--"), c.run...)
	}
	ran, err := r.run(ctx, command{argv: argv})
	if err == nil && ran.code != 0 {
		seen.Extra = "the tests in documentation failed"
	}
	return err
}
