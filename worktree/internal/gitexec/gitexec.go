// Package gitexec is the only place that runs git. It runs it on the user's
// own repository and on directories the host made, never on anything that a
// candidate could write, and so that nothing configured there is executed.
package gitexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoGit means that there is no git program on PATH.
var ErrNoGit = errors.New("git is not installed, or not on PATH")

// An Error is a git command that exited with a status other than 0.
type Error struct {
	Command string // "ls-files"
	Code    int
	Stderr  string // at most 4 KiB
}

func (e *Error) Error() string {
	msg := strings.TrimSpace(e.Stderr)
	if i := strings.IndexByte(msg, '\n'); i >= 0 {
		msg = msg[:i]
	}
	return fmt.Sprintf("git %s: exit status %d: %s", e.Command, e.Code, msg)
}

// Code is the exit status in err, or -1.
func Code(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return -1
}

// UnknownExtension is the name of the repository extension, or the format of
// the repository, for which git refused it; "" when that is not in err.
func UnknownExtension(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	for _, head := range []string{"unknown repository extension found:", "unknown repository extensions found:", "Expected git repo version"} {
		if _, rest, ok := strings.Cut(e.Stderr, head); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	return ""
}

// A Setting is one configuration variable.
type Setting struct{ Key, Value string }

// A Git runs git commands in one directory. It is immutable.
type Git struct {
	path   string
	dir    string
	config []Setting
	env    []string
}

// off keeps git from executing, fetching or rewriting anything. What is not
// known to an old git is ignored by it.
var off = []Setting{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.pager", "cat"},
	{"core.askPass", ""},
	{"core.editor", "false"},
	{"core.sshCommand", "false"},
	{"core.gitProxy", ""},
	{"core.alternateRefsCommand", ""},
	{"core.splitIndex", "false"},
	{"core.quotePath", "false"},
	{"credential.helper", ""},
	{"diff.external", ""},
	{"diff.ignoreSubmodules", "none"},
	{"protocol.allow", "never"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"submodule.recurse", "false"},
	{"commit.gpgSign", "false"},
	{"tag.gpgSign", "false"},
	{"log.showSignature", "false"},
	{"status.submoduleSummary", "false"},
	{"safe.bareRepository", "explicit"},
	{"trace2.normalTarget", "0"},
	{"trace2.eventTarget", "0"},
	{"trace2.perfTarget", "0"},
	{"i18n.commitEncoding", "UTF-8"},
}

// New returns a Git for dir. The user's own configuration below home counts
// when home is not empty; the system's counts with it.
func New(dir, home string) (*Git, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil, ErrNoGit
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false",
		"SSH_ASKPASS=false", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1",
		"GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false", "GIT_PROTOCOL_FROM_USER=0", "GIT_ALLOW_PROTOCOL=none",
		"GIT_ADVICE=0",
	}
	if home == "" {
		env = append(env, "HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1")
	} else {
		env = append(env, "HOME="+home)
		if xdg := os.Getenv("XDG_CONFIG_HOME"); xdg != "" {
			env = append(env, "XDG_CONFIG_HOME="+xdg)
		}
	}
	return &Git{path: path, dir: dir, config: off, env: env}, nil
}

// fetching keeps a git that may reach other machines from executing what a
// repository brings.
var fetching = []Setting{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.pager", "cat"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"submodule.recurse", "false"},
	{"transfer.fsckObjects", "true"},
	{"protocol.ext.allow", "never"},
}

// NewFetching returns a Git that reaches what the user's own does, with his
// credentials, keys and proxies; it asks nobody.
func NewFetching(dir, home string) (*Git, error) {
	g, err := New(dir, home)
	if err != nil {
		return nil, err
	}
	g.config = fetching
	g.env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + home, "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "GIT_PAGER=cat"}
	for _, name := range []string{"XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok {
			g.env = append(g.env, name+"="+v)
		}
	}
	return g, nil
}

// With returns a copy with more configuration, which wins.
func (g *Git) With(config ...Setting) *Git {
	c := *g
	c.config = append(append([]Setting{}, g.config...), config...)
	return &c
}

// Env returns a copy with more environment, each "NAME=value".
func (g *Git) Env(env ...string) *Git {
	c := *g
	c.env = append(append([]string{}, g.env...), env...)
	return &c
}

// In returns a copy that runs in another directory.
func (g *Git) In(dir string) *Git {
	c := *g
	c.dir = dir
	return &c
}

// Run returns what a command prints.
func (g *Git) Run(ctx context.Context, args ...string) ([]byte, error) {
	return g.RunInput(ctx, nil, args...)
}

// RunInput is Run with an input.
func (g *Git) RunInput(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := g.Stream(ctx, in, &out, args...)
	return out.Bytes(), err
}

// Line is the output of a command that prints one line.
func (g *Git) Line(ctx context.Context, args ...string) (string, error) {
	out, err := g.Run(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// List splits what a command given -z prints.
func (g *Git) List(ctx context.Context, args ...string) ([]string, error) {
	out, err := g.Run(ctx, args...)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// Stream runs a command with its input and output connected to in and out.
func (g *Git) Stream(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, g.path, append([]string{"--no-pager"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = g.dir, g.environment(), in, out
	stderr := &limited{max: 4 << 10}
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	case errors.As(err, &exit):
		return &Error{Command: args[0], Code: exit.ExitCode(), Stderr: stderr.String()}
	default:
		return fmt.Errorf("git %s: %w", args[0], err)
	}
}

// environment carries the configuration too: unlike -c it allows any byte in a
// key.
func (g *Git) environment() []string {
	env := append([]string{}, g.env...)
	for i, c := range g.config {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+c.Key, "GIT_CONFIG_VALUE_"+n+"="+c.Value)
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(g.config)))
}

// Version is the version of git, as two numbers.
func (g *Git) Version(ctx context.Context) (major, minor int, err error) {
	line, err := g.In("/").Line(ctx, "version")
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Split(strings.TrimPrefix(line, "git version "), ".")
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("git version: %q is not understood", line)
	}
	major, err1 := strconv.Atoi(fields[0])
	minor, err2 := strconv.Atoi(fields[1])
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, fmt.Errorf("git version: %q is not understood", line)
	}
	return major, minor, nil
}

// WithoutFilters returns a copy in which no filter program that the
// configuration names is run or required.
func (g *Git) WithoutFilters(ctx context.Context) (*Git, error) {
	names, err := g.List(ctx, "config", "-z", "--name-only", "--get-regexp", `^filter\..*\.(clean|smudge|process|required)$`)
	if Code(err) == 1 {
		return g, nil // none is configured
	}
	if err != nil {
		return nil, err
	}
	var config []Setting
	for _, name := range names {
		value := ""
		if strings.HasSuffix(name, ".required") {
			value = "false"
		}
		config = append(config, Setting{name, value})
	}
	return g.With(config...), nil
}

// A limited keeps the first max bytes written to it.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.max - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
