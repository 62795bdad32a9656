package verify

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/shebang"
)

// pythonRunner imports the runner before anything of the tree, and reports
// through a file that has no name any more when the tree's code starts.
//
//go:embed runners/python.py
var pythonRunner []byte

// pythonTests runs unittest or pytest. All of the tests run in one session,
// with its canaries last. They are taken out of the exit status again.
type pythonTests struct {
	mode   string   // unittest | pytest
	argv   []string // launchers, interpreter and its flags; empty for the interpreter of program
	script string   // the pytest program, when it was named itself
	args   []string
	path   string // see runners/python.py
}

var pythonName = regexp.MustCompile(`^python(3(\.\d+)?)?$`)

// interpreterFlags splits python's own flags from what follows.
func interpreterFlags(argv []string) (flags, rest []string) {
	for i := 1; i < len(argv); i++ {
		switch word := argv[i]; {
		case slices.Contains([]string{"-B", "-u", "-I", "-E", "-s", "-O", "-OO", "-b", "-P"}, word):
			flags = append(flags, word)
		case (word == "-W" || word == "-X") && i+1 < len(argv):
			flags = append(flags, word, argv[i+1])
			i++
		default:
			return flags, argv[i:]
		}
	}
	return flags, nil
}

func pythonModule(mode string, prefix, argv []string) *pythonTests {
	if !pythonName.MatchString(programName(argv[0])) {
		return nil
	}
	flags, rest := interpreterFlags(argv)
	if len(rest) < 2 || rest[0] != "-m" || rest[1] != mode {
		return nil
	}
	p := &pythonTests{mode: mode, argv: join(prefix, argv[:1], flags), args: rest[2:], path: "cwd"}
	if slices.Contains(flags, "-I") || slices.Contains(flags, "-P") {
		p.path = ""
	}
	return p
}

func recogniseUnittest(prefix, argv []string) adapter {
	if p := pythonModule("unittest", prefix, argv); p != nil {
		return p
	}
	return nil
}

func recognisePytest(prefix, argv []string) adapter {
	if p := pythonModule("pytest", prefix, argv); p != nil {
		return p
	}
	if name := programName(argv[0]); name != "pytest" && name != "py.test" {
		return nil
	}
	p := &pythonTests{mode: "pytest", script: argv[0], args: argv[1:]}
	if slices.ContainsFunc(prefix, func(w string) bool {
		return slices.Contains([]string{"uv", "poetry", "pdm", "hatch", "pipenv"}, programName(w))
	}) {
		p.argv = join(prefix, []string{"python"})
	} else if len(prefix) > 0 {
		return nil
	}
	return p
}

func (p *pythonTests) observe(ctx context.Context, r *rig) (Seen, error) {
	argv := p.argv
	if len(argv) == 0 {
		interpreter, err := interpreterOf(p.script)
		if err != nil {
			return Seen{}, err
		}
		argv = interpreter
	}
	report, err := os.OpenFile(filepath.Join(r.tmp, "report"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Seen{}, err
	}
	defer report.Close()
	settings, err := json.Marshal(map[string]any{
		"mode": p.mode, "report": report.Name(), "token": r.token, "nonce": r.nonce, "path": p.path,
		"user": !slices.Contains(p.argv, "-I") && !slices.Contains(p.argv, "-s"),
		"args": append([]string{}, p.args...), "patched": r.patched(), "base": r.base == nil,
	})
	if err != nil {
		return Seen{}, err
	}
	script, config := filepath.Join(r.tmp, "run.py"), filepath.Join(r.tmp, "settings.json")
	if err := errors.Join(os.WriteFile(script, pythonRunner, 0o600), os.WriteFile(config, settings, 0o600)); err != nil {
		return Seen{}, err
	}
	ran, err := r.run(ctx, command{argv: join(argv, []string{"-I", script, config})})
	if err != nil {
		return Seen{}, err
	}
	if _, err := report.Seek(0, io.SeekStart); err != nil {
		return Seen{}, err
	}
	seen := readPython(report, r.token, ran.code, r.base == nil)
	if seen.Units == nil && !r.ended.timedOut && r.ended.signal == 0 {
		return Seen{}, fmt.Errorf("%s could not be started on its own (status %d)", p.mode, ran.code)
	}
	return seen, nil
}

// patched are names of the runner that something replaces already on the base.
func (r *rig) patched() []string {
	if r.base == nil || len(r.base.Units) == 0 || r.base.Units[0].Data["replaced"] == "" {
		return []string{}
	}
	return strings.Split(r.base.Units[0].Data["replaced"], "\n")
}

// interpreterOf is the Python in the first line of a script on PATH.
func interpreterOf(program string) ([]string, error) {
	words, err := shebang.Words(program)
	if err == nil && !pythonName.MatchString(filepath.Base(words[len(words)-1])) {
		err = fmt.Errorf("%s is no program of Python's", program)
	}
	return words, err
}

// readPython reads the report of the runner. Lines without the token are
// nobody's. There is no unit if the runner did not come to load the tests.
func readPython(report io.Reader, token string, code int, isBase bool) Seen {
	u := SeenUnit{Results: map[string]Status{}, Green: code == 0}
	seen := Seen{Code: code}
	wanted, failed, ready, ended := 1, 0, false, false // canaries, and how far it came
	var alike, replaced []string
	lines := bufio.NewScanner(report)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), token)
		var fields []json.RawMessage
		if !ok || json.Unmarshal([]byte(rest), &fields) != nil || len(fields) < 2 {
			continue
		}
		text := func(i int) (s string) {
			if i < len(fields) {
				_ = json.Unmarshal(fields[i], &s) // "" when it is none
			}
			return s
		}
		switch text(0) {
		case "test":
			u.add(text(1), Status(text(2)))
		case "canary":
			if Status(text(1)) == TestFailed && strings.Contains(text(2), token) {
				failed++
			}
		case "canaries":
			if json.Unmarshal(fields[1], &wanted) != nil {
				wanted = -1
			}
		case "alike", "listed":
			alike = append(alike, text(1))
		case "broken":
			seen.Extra = text(1) + " cannot be loaded"
		case "replaced":
			var names []string
			if json.Unmarshal(fields[1], &names) == nil && len(names) > 0 {
				if isBase {
					replaced = append(replaced, names...)
				} else {
					u.Broken = "parts of the test runner, or tests, were replaced while it ran: " + few(names)
				}
			}
		case "ready":
			ready = true
		case "end":
			ended = true
		}
	}
	if lines.Err() != nil {
		u.Broken = "its report cannot be read"
	}
	if len(replaced) > 0 {
		slices.Sort(replaced)
		u.Data = map[string]string{"replaced": strings.Join(slices.Compact(replaced), "\n")}
	}
	u.Canary = ended && failed == wanted
	for _, id := range alike {
		if _, ok := u.Results[id]; !ok && !slices.Contains(u.Alike, id) {
			u.Alike = append(u.Alike, id)
		}
	}
	if code != 0 && seen.Extra == "" && u.count(TestFailed) == 0 {
		seen.Extra = fmt.Sprintf("the run ended with status %d", code)
	}
	if ready {
		seen.Units = []SeenUnit{u}
	}
	return seen
}
