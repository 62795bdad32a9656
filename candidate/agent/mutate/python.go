package mutate

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bestof-dev/bestof/internal/shebang"
)

//go:embed helper.py
var helperSource string

// A server runs a Python test by forking an interpreter that has the test
// framework loaded, which costs a tenth of a start.
type server struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	argv []string // what follows the interpreter and its flags
}

type request struct {
	Argv     []string `json:"argv,omitempty"`
	Limit    float64  `json:"limit,omitempty"`    // seconds
	Check    string   `json:"check,omitempty"`    // a file that must parse and be new
	Brief    bool     `json:"brief,omitempty"`    // end at the first failing test
	Coverage string   `json:"coverage,omitempty"` // where to write it
	Root     string   `json:"root,omitempty"`
	Preload  []string `json:"preload,omitempty"`
	Need     string   `json:"need,omitempty"` // a module without which it is of no use
}

type reply struct {
	Skip    bool    `json:"skip"`
	Hung    bool    `json:"hung"`
	Code    int     `json:"code"`
	Seconds float64 `json:"seconds"`
}

// pythonCommand splits a test command into the interpreter with its flags and
// what it runs; ok is false when the command is not plainly Python's.
func pythonCommand(argv []string) (interpreter, rest []string, ok bool) {
	base := filepath.Base(argv[0])
	if base == "pytest" || base == "py.test" {
		python, ok := pythonOf(argv[0])
		return python, append([]string{"-m", "pytest"}, argv[1:]...), ok
	}
	if !strings.HasPrefix(base, "python") {
		return nil, nil, false
	}
	i := 1
	for i < len(argv) && slices.Contains([]string{"-B", "-u", "-s", "-S", "-E", "-I", "-O", "-OO", "-q"}, argv[i]) {
		i++
	}
	if i+1 < len(argv) && argv[i] == "-m" || i < len(argv) && strings.HasSuffix(argv[i], ".py") {
		return argv[:i], argv[i:], true
	}
	return nil, nil, false
}

// pythonOf is the Python that runs a script, by its first line: the python3 of
// the PATH may be another one, which lacks what the script needs.
func pythonOf(script string) ([]string, bool) {
	words, err := shebang.Words(script)
	return words, err == nil && strings.HasPrefix(filepath.Base(words[len(words)-1]), "python")
}

// startServer starts the helper in dir, or returns nil when it cannot.
func startServer(ctx context.Context, dir string, env, test []string) *server {
	interpreter, rest, ok := pythonCommand(test)
	if !ok {
		return nil
	}
	s := &server{argv: rest}
	s.cmd = exec.Command(interpreter[0], append(slices.Clone(interpreter[1:]), "-c", helperSource)...)
	s.cmd.Dir, s.cmd.Env = dir, env
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil
	}
	if s.cmd.Start() != nil {
		return nil
	}
	s.in, s.out = in, bufio.NewReaderSize(out, 64<<10)
	need := ""
	preload := []string{"unittest", "unittest.main", "traceback", "difflib", "argparse", "json", "collections", "re", "random", "math"}
	if len(rest) > 1 && rest[1] == "pytest" {
		need = "pytest"
		preload = append(preload, need, "_pytest.assertion.rewrite", "_pytest.python", "_pytest.terminal")
	}
	if a, err := s.ask(ctx, request{Preload: preload, Need: need}, 20*time.Second); err != nil || a.Code != 0 {
		s.close()
		return nil
	}
	return s
}

func (s *server) close() {
	if s == nil {
		return
	}
	_ = s.in.Close()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait() // killed: its status says nothing
}

// ask sends one request. The helper keeps the limit itself; a helper that does
// not answer a while after it is killed and is of no further use.
func (s *server) ask(ctx context.Context, q request, limit time.Duration) (reply, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return reply{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(s.cmd.Process.Pid, syscall.SIGTERM) }) // it ends the running test, too
	defer stop()
	late := time.AfterFunc(limit+10*time.Second, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	defer late.Stop()
	if _, err := s.in.Write(append(b, '\n')); err != nil {
		return reply{}, err
	}
	line, err := s.out.ReadSlice('\n')
	if err != nil {
		return reply{}, err
	}
	var r reply
	return r, json.Unmarshal(line, &r)
}

// run runs the test. A brief run ends at the first failing test and is skipped
// when the file check does not parse or is one that was run before.
func (s *server) run(ctx context.Context, brief bool, check string, limit time.Duration) (r result, skipped bool, err error) {
	a, err := s.ask(ctx, request{Argv: s.argv, Limit: limit.Seconds(), Check: check, Brief: brief}, limit)
	return result{code: a.Code, hung: a.Hung, took: time.Duration(a.Seconds * float64(time.Second))}, a.Skip, err
}

// A spectrum says which lines ran in failing and in passing tests.
type spectrum struct {
	failed, passed   int
	inFailed, inPass map[string]map[int]int // by path, by line: how many tests
	stack            []position             // where a hanging test was
}

type position struct {
	path string
	line int
}

func newSpectrum() *spectrum {
	return &spectrum{inFailed: map[string]map[int]int{}, inPass: map[string]map[int]int{}}
}

func (s *spectrum) add(failed bool, path string, line int) {
	m := s.inPass
	if failed {
		m = s.inFailed
	}
	if m[path] == nil {
		m[path] = map[int]int{}
	}
	m[path][line]++
}

// coverage runs the test once under a tracer.
func (s *server) coverage(ctx context.Context, root, scratch string, limit time.Duration) *spectrum {
	name := filepath.Join(scratch, "coverage.json")
	if _, err := s.ask(ctx, request{Argv: s.argv, Limit: limit.Seconds(), Coverage: name, Root: root}, limit); err != nil {
		return nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	var c struct {
		Tests []struct {
			Failed bool             `json:"failed"`
			Lines  map[string][]int `json:"lines"`
		} `json:"tests"`
		Stack []json.RawMessage `json:"stack"`
	}
	if json.Unmarshal(b, &c) != nil {
		return nil
	}
	sp := newSpectrum()
	relative := func(p string) string {
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return p
		}
		return filepath.ToSlash(rel)
	}
	for _, t := range c.Tests {
		if t.Failed {
			sp.failed++
		} else {
			sp.passed++
		}
		for p, lines := range t.Lines {
			for _, n := range lines {
				sp.add(t.Failed, relative(p), n)
			}
		}
	}
	for _, raw := range c.Stack {
		var name string
		var line int
		if json.Unmarshal(raw, &[]any{&name, &line}) == nil {
			sp.stack = append(sp.stack, position{relative(name), line})
		}
	}
	return sp
}
