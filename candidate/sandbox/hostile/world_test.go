package hostile_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
	"github.com/bestof-dev/bestof/candidate/sandbox/hostile"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

// builtVariable names the hostile program where it was built before.
const builtVariable = "HOSTILE_BUILT"

func TestMain(m *testing.M) {
	if worktree.HoldMounts() {
		return
	}
	code := m.Run()
	if installed.dir != "" {
		_ = os.RemoveAll(installed.dir)
	}
	os.Exit(code)
}

// A world is an operator's machine in small: a repository, a home, bestof's
// home, secrets, processes and services. All of it is there to be attacked.
type world struct {
	t       *testing.T
	dir     string
	bin     string
	host    string // of the engine, if there is one
	targets hostile.Targets
	before  map[string]string // a picture of what must not change
}

const (
	secret = "operators-secret-5f1d"
	future = "the-future-fix-7c2e"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, dir: dir, bin: filepath.Join(dir, "bin"), targets: hostile.Targets{
		Checkout: filepath.Join(dir, "project"), Home: filepath.Join(dir, "home"), Own: filepath.Join(dir, "own"), Canary: filepath.Join(dir, "canary"),
		Secret: hostile.Backwards(secret), Future: future, Key: "bestof-hostile-" + rand.Text(),
	}}
	w.targets.Program = filepath.Join(w.bin, "hostile")
	for _, name := range []string{"bestof", "hostile"} { // links of its own, by which its processes are known
		if err := errors.Join(os.MkdirAll(w.bin, 0o755), os.Link(filepath.Join(programs(t), name), filepath.Join(w.bin, name))); err != nil {
			t.Fatal(err)
		}
	}
	w.files()
	w.repository()
	w.services()
	w.targets.PIDs = must(os.Readlink("/proc/self/ns/pid"))(t)
	return w
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

const check = ". ./lib.sh\ntest \"$(add 2 3)\" = 5\n"

func (w *world) files() {
	g := w.targets
	for name, text := range map[string]string{
		g.Home + "/.ssh/id":          secret,
		g.Home + "/.gitconfig":       "[user]\n\tname = Ada\n\temail = ada@example.org\n",
		g.Own + "/secret.toml":       secret,
		g.Own + "/plugins/secret":    secret,
		g.Canary + "/secret":         secret,
		g.Checkout + "/lib.sh":       "add() { echo $(($1 - $2)); }\n",
		g.Checkout + "/check.sh":     check,
		g.Checkout + "/calc.py":      hostile.Calc,
		g.Checkout + "/test_calc.py": hostile.CalcTest,
		g.Checkout + "/dir/file":     "file\n",
		g.Checkout + "/.gitignore":   ".env\n",
		g.Checkout + "/.env":         secret,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// repository gives the checkout one commit, and a future and a stash that no
// candidate may find.
func (w *world) repository() {
	file := filepath.Join(w.targets.Checkout, "lib.sh")
	for _, step := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-qm", "First"},
		{"checkout", "-q", "-b", "future"}, nil, {"commit", "-qam", future}, {"tag", "-am", future, "v2"}, {"checkout", "-q", "main"},
		nil, {"stash", "-q"}, {"remote", "add", "origin", w.targets.Checkout},
	} {
		if step == nil {
			if err := os.WriteFile(file, []byte("# "+future+"\n"+hostile.Fixed), 0o644); err != nil {
				w.t.Fatal(err)
			}
			continue
		}
		cmd := exec.Command("git", append([]string{"-C", w.targets.Checkout}, step...)...)
		cmd.Env = w.environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Fatalf("git %v: %v: %s", step, err, out)
		}
	}
}

func (w *world) environ() []string {
	engine := []string{}
	if w.host != "" {
		engine = append(engine, "DOCKER_HOST="+w.host)
	}
	return append(engine,
		"PATH="+w.bin+":/usr/local/bin:/usr/bin:/bin", "HOME="+w.targets.Home, "BESTOF_HOME="+w.targets.Own, "NO_COLOR=1", "LANG=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1", "API_KEY="+secret, "GORACE="+os.Getenv("GORACE"), "TMPDIR="+os.TempDir())
}

var installed struct {
	once sync.Once
	dir  string
	err  error
}

// programs is the directory with bestof, which is this test binary, and the
// hostile program beside it.
func programs(t *testing.T) string {
	t.Helper()
	installed.once.Do(func() {
		dir, err := os.MkdirTemp("", "hostile-programs-")
		installed.dir, installed.err = dir, errors.Join(err, os.Chmod(dir, 0o755))
		built := os.Getenv(builtVariable)
		if built == "" {
			build(t, dir)
			return
		}
		for _, name := range programNames {
			b, err := os.ReadFile(filepath.Join(built, name))
			installed.err = errors.Join(installed.err, err, os.WriteFile(filepath.Join(dir, name), b, 0o755))
		}
	})
	if installed.err != nil {
		t.Fatal(installed.err)
	}
	return installed.dir
}

// programNames are what build makes: the product as people have it, and the
// attacks, both static, so that they run in any container.
var programNames = []string{"bestof", "hostile"}

func build(t *testing.T, dir string) {
	t.Helper()
	for i, source := range []string{"../../../cmd/bestof", "./program"} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, programNames[i]), source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v: %s", programNames[i], err, out)
		}
	}
}

// services are what an operator has running: a process with a secret, and
// listeners that greet.
func (w *world) services() {
	decoy := exec.Command("sleep", "100000")
	decoy.Env = []string{"PATH=/usr/bin:/bin", "SECRET=" + secret}
	if err := decoy.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = decoy.Process.Kill(); _ = decoy.Wait() })
	w.targets.Decoy = decoy.Process.Pid
	w.targets.Abstract = "@" + w.targets.Key
	w.targets.Socket = filepath.Join(w.dir, "engine.sock")
	listen := func(network, address string) string {
		l := must(net.Listen(network, address))(w.t)
		w.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("hello\n"))
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	w.targets.TCP = listen("tcp", "127.0.0.1:0")
	listen("unix", w.targets.Abstract)
	listen("unix", w.targets.Socket)
}

// settings writes the agents of a run into bestof's configuration.
func (w *world) settings(candidates [][]hostile.Attack) {
	var b strings.Builder
	fmt.Fprintf(&b, "[sandbox]\nread = [%q]\n", w.bin)
	targets := must(json.Marshal(w.targets))(w.t)
	answer := honest
	for _, attacks := range candidates {
		a := attacks[0]
		command := []string{w.targets.Program}
		for _, a := range attacks {
			command = append(command, a.Name)
		}
		words := must(json.Marshal(command))(w.t) // a list of TOML's, too
		fmt.Fprintf(&b, "[agents.%s]\ncommand = %s\nset = { %s = '%s' }\n", a.Name, words, hostile.Variable, targets)
		if a.Phase == hostile.ByPython {
			answer = "honest-python"
		}
		if a.Phase == hostile.Held {
			fmt.Fprintf(&b, "files = { \"seeded/file\" = \"seeded\" }\n")
		}
	}
	for _, name := range []string{honest, honestToo} {
		fmt.Fprintf(&b, "[agents.%s]\ncommand = [%q, %q]\nset = { %s = '%s' }\n", name, w.targets.Program, answer, hostile.Variable, targets)
	}
	if err := os.WriteFile(filepath.Join(w.targets.Own, "config.toml"), []byte(b.String()), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// The honest siblings.
const honest, honestToo = "honest", "honest-too"

// An ended is one run of bestof.
type ended struct {
	doc    record.Document
	stdout string
	stderr string
	status int
}

// run lets candidates that make attacks and two honest siblings try, the first of
// them before and the second after all attacks.
func (w *world) run(sandbox string, candidates [][]hostile.Attack, flags ...string) ended {
	w.t.Helper()
	w.settings(candidates)
	w.before = w.picture()
	agents := honest + ":1"
	for _, attacks := range candidates {
		agents += "," + attacks[0].Name + ":1"
	}
	agents += "," + honestToo + ":1"
	args := append([]string{"run", "--json", "--sandbox", sandbox, "--agents", agents, "--test", "sh check.sh", "--timeout", "60s", "--test-timeout", "20s", "--holds", "0"}, flags...)
	out, errs, status := w.bestof(append(args, "mend add")...)
	e := ended{stdout: out, stderr: errs, status: status}
	if err := json.Unmarshal([]byte(out), &e.doc); err != nil {
		w.t.Fatalf("%s ended with %d: %v\n%s\n%s", sandbox, status, err, out, errs)
	}
	return e
}

// bestof runs it with a session keyring that holds a key of the operator's.
func (w *world) bestof(args ...string) (stdout, stderr string, status int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "bestof"), args...)
	cmd.Dir, cmd.Env = w.targets.Checkout, w.environ()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the keyring is the thread's, which ends with this
		if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err == nil {
			_, _ = unix.AddKey("user", w.targets.Key, []byte(secret), unix.KEY_SPEC_SESSION_KEYRING)
		}
		started <- cmd.Start()
	}()
	err := <-started
	if err == nil {
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.String(), errs.String(), exit.ExitCode()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return out.String(), errs.String(), 0
}

// onTerminal is what bestof writes to a terminal without colours.
func (w *world) onTerminal(args ...string) string {
	w.t.Helper()
	master := must(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(w.t)
	defer master.Close()
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		w.t.Fatal(err)
	}
	n := must(unix.IoctlGetInt(fd, unix.TIOCGPTN))(w.t)
	slave := must(os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0))(w.t)
	settings := must(unix.IoctlGetTermios(fd, unix.TCGETS))(w.t)
	settings.Oflag &^= unix.OPOST // no returns before line ends
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, settings); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(w.bin, "bestof"), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.targets.Checkout, append(w.environ(), "TERM=dumb", "PAGER=cat"), slave, slave
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	slave.Close()
	all, _ := io.ReadAll(master) // its error is how a terminal ends
	if err := cmd.Wait(); err != nil {
		w.t.Errorf("%v: %v: %s", args, err, all)
	}
	return string(all)
}

// engine is where containers run and the flags that choose their image.
func (w *world) engine() []string {
	w.host = dockertest.Host(w.t)
	return []string{"--image", dockertest.Python(w.t, w.host), "--pids", "150", "--memory", "192MB"}
}

// picture is every file that is the operator's, as names, kinds and bytes.
// bestof's own scratch and records are left out.
func (w *world) picture() map[string]string {
	seen := map[string]string{}
	g := w.targets
	for _, top := range []string{g.Checkout, g.Home, g.Own, g.Canary, w.bin} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if path == g.Own+"/scratch" || path == g.Checkout+"/.bestof" || path == g.Own+"/mcp" || path == g.Own+"/runs" || path == g.Own+"/containers" {
				return fs.SkipDir
			}
			if path == g.Own+"/tools" || path == g.Own+"/tools/pending" {
				return nil // made for what the winner may have written; a file in it counts
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			text := info.Mode().String()
			if info.Mode().IsRegular() && path != g.Own+"/config.toml" && filepath.Dir(path) != w.bin && filepath.Base(path) != "index" {
				text += string(must(os.ReadFile(path))(w.t))
			} else if info.Mode()&fs.ModeSymlink != 0 {
				text += must(os.Readlink(path))(w.t)
			}
			seen[path] = text
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return seen
}

// changes lists what differs from the picture that was taken before.
func (w *world) changes() []string {
	now := w.picture()
	var out []string
	for path, text := range now {
		if old, ok := w.before[path]; !ok || old != text {
			out = append(out, path)
		}
	}
	for path := range w.before {
		if _, ok := now[path]; !ok {
			out = append(out, path+" is gone")
		}
	}
	slices.Sort(out)
	return out
}

// leftovers are processes, mounts and files that a run left on the machine.
func (w *world) leftovers() []string {
	var left []string
	_, _, _ = w.bestof("gc")
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, w.bin) {
			left = append(left, l+" is "+to)
		}
	}
	infos, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, m := range infos {
		if b, err := os.ReadFile(m); err == nil && bytes.Contains(b, []byte(" "+w.targets.Own+"/")) {
			left = append(left, m+" has a mount below "+w.targets.Own)
		}
	}
	for _, pattern := range []string{"runs/*", "trash/*", "work/*"} {
		found, _ := filepath.Glob(filepath.Join(w.targets.Own, "scratch", pattern))
		left = append(left, found...)
	}
	return left
}

// deceptive finds what a terminal would act on, or would not show.
func deceptive(s string) string {
	for at, r := range s {
		switch {
		case r == '\n':
		case r < 0x20, r >= 0x7f && r < 0xa0, r == utf8.RuneError,
			r == 0x61c, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff:
			return fmt.Sprintf("%q in %q", r, s[max(0, at-40):min(len(s), at+40)])
		}
	}
	return ""
}
