package verify

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An adapter knows one test runner: how to make a run of it observable through
// a channel that is not the tested code's output, and how to put a canary into
// it: a test of a random name that must fail.
type adapter interface {
	// observe runs the tests of the command as they are in the rig's directory.
	// An error means that they could not be run in this way.
	observe(ctx context.Context, r *rig) (Seen, error)
}

// A rig is what an adapter has to run with.
type rig struct {
	dir   string    // where the command runs
	tmp   string    // a private directory outside of the tree
	base  *Expected // nil on the base itself
	show  *hider
	nonce string // what names canaries: lower-case letters and digits, made anew for each run
	token string // what canaries say, which is on no command line
	ended ended  // how the processes of the run ended, the worst of them
}

type ended struct {
	signal   syscall.Signal
	timedOut bool
}

// newRig makes a rig with a directory of its own; drop removes that.
func newRig(dir string, base *Expected, show io.Writer) (*rig, error) {
	tmp, err := os.MkdirTemp("", "t")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, tmp: tmp, base: base, nonce: strings.ToLower(rand.Text()), token: rand.Text()}
	r.show = &hider{w: show, hide: [][]byte{[]byte(r.nonce), []byte(r.token)}}
	return r, nil
}

// A hider passes on lines but those that hold a secret of the run: what is
// shown may come to a candidate's agent.
type hider struct {
	w    io.Writer
	hide [][]byte
	line []byte
}

func (h *hider) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		h.line = append(h.line, part...)
		switch {
		case ended:
			h.line = append(h.line, '\n')
			h.flush()
		case len(h.line) > maxLine:
			h.flush()
		}
		p = rest
	}
	return n, nil
}

func (h *hider) flush() {
	hidden := slices.ContainsFunc(h.hide, func(secret []byte) bool { return bytes.Contains(h.line, secret) })
	if len(h.line) > 0 && !hidden {
		_, _ = h.w.Write(h.line) // what is shown decides nothing
	}
	h.line = h.line[:0]
}

func (r *rig) drop() {
	r.show.flush()
	_ = os.RemoveAll(r.tmp)
}

// run runs one process of the adapter and remembers how it ended.
func (r *rig) run(ctx context.Context, c command) (testRun, error) {
	if c.dir == "" {
		c.dir = r.dir
	}
	ran, err := c.run(ctx, r.show)
	if ran.timedOut {
		r.ended.timedOut = true
	}
	if ran.signal != 0 && r.ended.signal == 0 {
		r.ended.signal = ran.signal
	}
	return ran, err
}

// Runner is the name of the adapter that knows the test command, or "": then
// its exit status and its output are all that can be seen of it.
func Runner(test []string) string {
	name, _ := recognise(test)
	return name
}

// recognise finds the adapter of a test command.
func recognise(test []string) (string, adapter) {
	prefix, rest := launched(test)
	if len(rest) == 0 {
		return "", nil
	}
	for _, r := range recognisers {
		if a := r.of(prefix, rest); a != nil {
			return r.name, a
		}
	}
	return "", nil
}

// recognisers know a command by what is before the runner's program, which is
// kept as it is, and by the rest.
var recognisers = []struct {
	name string
	of   func(prefix, argv []string) adapter
}{
	{"go test", recogniseGo},
	{"unittest", recogniseUnittest},
	{"pytest", recognisePytest},
	{"node --test", recogniseNode},
	{"cargo test", recogniseCargo},
	{"vitest", recogniseVitest},
	{"junit", recogniseJUnit},
}

// launchers start the rest of their command line as it stands.
var launchers = []string{"env", "nice", "time", "nohup", "xvfb-run", "uv", "poetry", "pdm", "hatch", "pipenv", "npx", "bunx", "pnpx", "exec", "run"}

// launched splits a command into its launchers and what they launch.
func launched(test []string) (prefix, rest []string) {
	for i, word := range test {
		name := path.Base(word)
		isSetting := i > 0 && strings.Contains(word, "=") && !strings.HasPrefix(word, "-") && path.Base(test[0]) == "env"
		if !isSetting && !slices.Contains(launchers, name) {
			return test[:i:i], test[i:]
		}
	}
	return test, nil
}

func programName(word string) string { return strings.TrimSuffix(path.Base(word), ".exe") }

// join is a fresh slice of all the words.
func join(parts ...[]string) []string { return slices.Concat(parts...) }

// An Observation is a run of the tests that came to an end.
type Observation struct {
	Seen Seen
	Took time.Duration
}

// observeTests runs the tests of a known runner. The Reason is set when they
// did not end by themselves; an error means that the adapter could not run.
func observeTests(a adapter, dir string, base *Expected, timeout time.Duration, show io.Writer) (Observation, Reason, string, error) {
	r, err := newRig(dir, base, show)
	if err != nil {
		return Observation{}, "", "", err
	}
	defer r.drop()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	began := time.Now()
	seen, err := a.observe(ctx, r)
	seen.movable([2]string{resolved(dir), "(tree)"}, [2]string{dir, "(tree)"}, [2]string{os.Getenv("HOME"), "(home)"})
	o := Observation{Seen: seen, Took: time.Since(began)}
	switch {
	case r.ended.timedOut || ctx.Err() != nil:
		return o, TimedOut, fmt.Sprintf("the test did not end within %v", timeout), nil
	case err != nil:
		return o, "", "", err
	case r.ended.signal != 0:
		return o, Killed, fmt.Sprintf("the test was killed by signal %d (%v)", int(r.ended.signal), r.ended.signal), nil
	}
	return o, "", "", nil
}

// workDir is the directory in which this process runs, by its real name.
func workDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return resolved(dir), nil
}
