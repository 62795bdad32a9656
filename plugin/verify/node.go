package verify

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var (
	//go:embed runners/node.cjs
	nodePreload []byte
	//go:embed runners/node.mjs
	nodeReporter []byte
)

// nodeTests runs node --test. Each file runs in a process of its own, with a
// canary; what they report is read in the runner's process, which loads no
// test.
type nodeTests struct {
	prefix  []string
	program string
	args    []string
}

// nodeUnknown are flags with which the tests do not run in such processes, or
// not once.
var nodeUnknown = []string{"--watch", "--test-isolation", "--experimental-test-isolation", "--test-reporter", "--test-reporter-destination", "--test-only", "--test-name-pattern", "--test-skip-pattern", "--env-file"}

func recogniseNode(prefix, argv []string) adapter {
	if programName(argv[0]) != "node" {
		return nil
	}
	runs := false
	for _, word := range argv[1:] {
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains(nodeUnknown, name) {
			return nil
		}
		if word == "--test" {
			runs = true
		}
		if !strings.HasPrefix(word, "-") && !runs {
			return nil // a script: --test is its own argument
		}
	}
	if !runs {
		return nil
	}
	return &nodeTests{prefix: prefix, program: argv[0], args: argv[1:]}
}

func (n *nodeTests) observe(ctx context.Context, r *rig) (Seen, error) {
	marks, report := filepath.Join(r.tmp, "marks"), filepath.Join(r.tmp, "report")
	settings, err := json.Marshal(map[string]string{"nonce": r.nonce, "token": r.token, "marks": marks, "report": report})
	if err != nil {
		return Seen{}, err
	}
	preload, reporter := filepath.Join(r.tmp, "preload.cjs"), filepath.Join(r.tmp, "reporter.mjs")
	err = errors.Join(
		os.WriteFile(preload, bytes.Replace(nodePreload, []byte("SETTINGS"), settings, 1), 0o600),
		os.WriteFile(reporter, bytes.Replace(nodeReporter, []byte("SETTINGS"), settings, 1), 0o600),
		os.WriteFile(marks, nil, 0o600),
	)
	if err != nil {
		return Seen{}, err
	}
	ran, err := r.run(ctx, command{argv: join(n.prefix, []string{
		n.program, "--require", preload, "--test-reporter=" + reporter, "--test-reporter-destination=stdout",
	}, n.args)})
	if err != nil {
		return Seen{}, err
	}
	events, err := readFile(report)
	if err != nil {
		return Seen{}, err
	}
	ends, err := readFile(marks)
	if err != nil {
		return Seen{}, err
	}
	seen := readNode(events, ends, r.nonce, r.token, resolved(r.dir))
	seen.Code = ran.code
	return seen, nil
}

// maxReport is how much of a report is read, in bytes.
const maxReport = 64 << 20

// readFile reads a report; one that was never written is empty.
func readFile(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxReport:
		return nil, nil
	}
	return os.ReadFile(path)
}

// A nodeEvent is one line of runners/node.mjs.
type nodeEvent struct {
	Type, Name, File, Message string
	Nesting                   int
	Skip                      bool
}

// readNode reads the reports of the runner, and of each file's end. The tests
// of a file come after its canary, in one piece.
func readNode(events, ends []byte, nonce, token, dir string) Seen {
	seen := Seen{Tells: true}
	var unit *SeenUnit
	var names []string
	canaries := map[string]bool{}
	eachLine(events, token, func(line []byte) {
		var e nodeEvent
		if json.Unmarshal(line, &e) != nil || e.Nesting < 0 || e.Nesting > 1000 {
			return
		}
		if file, ok := strings.CutPrefix(e.Name, nonce+" "); ok {
			unit, names = seen.unit(relative(dir, file)), nil
			canaries[unit.Name] = canaries[unit.Name] || e.Type == "fail" && strings.Contains(e.Message, token)
			return
		}
		if e.Type == "start" {
			for len(names) <= e.Nesting {
				names = append(names, "")
			}
			names[e.Nesting] = e.Name
			return
		}
		if e.Nesting == 0 && filepath.IsAbs(e.Name) && (e.File == "" || e.File == e.Name) { // the file's process itself
			file := seen.unit(relative(dir, e.Name))
			if file.Green = e.Type == "pass"; !file.Green {
				file.add(file.Name, TestFailed)
			}
			return
		}
		if unit == nil || e.Nesting >= len(names) {
			return
		}
		status := TestPassed
		switch {
		case e.Skip:
			status = TestSkipped
		case e.Type == "fail":
			status = TestFailed
		}
		unit.add(unit.Name+" > "+strings.Join(append(slices.Clone(names[:e.Nesting]), e.Name), " > "), status)
	})
	ended := map[string]bool{}
	eachLine(ends, token, func(line []byte) {
		var fields [3]json.RawMessage
		var file string
		var replaced []string
		if json.Unmarshal(line, &fields) != nil || json.Unmarshal(fields[0], &file) != nil || json.Unmarshal(fields[1], &replaced) != nil {
			return
		}
		u := seen.unit(relative(dir, file))
		if fields[2] != nil { // it threw
			u.add(u.Name, TestFailed)
			return
		}
		ended[u.Name] = true
		if len(replaced) > 0 {
			u.Broken = "what tests check with was replaced while they ran: " + few(replaced)
		}
	})
	for i := range seen.Units {
		u := &seen.Units[i]
		u.Canary = canaries[u.Name] && ended[u.Name]
	}
	return seen
}

// relative is a path below dir as a name that holds in other directories too.
func relative(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

// eachLine calls f with what follows the token in each line that begins with
// it. Other lines are nobody's.
func eachLine(b []byte, token string, f func([]byte)) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		if rest, ok := bytes.CutPrefix(lines.Bytes(), []byte(token)); ok {
			f(rest)
		}
	}
}
