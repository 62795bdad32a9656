// Package sandboxtest is the contract of sandbox.Sandbox as tests. Every
// implementation passes it, on every user it is meant for.
package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/inside"
	"github.com/bestof-dev/bestof/internal/proc"
)

// A Maker makes the sandbox under test.
type Maker func(sandbox.Options) (sandbox.Sandbox, error)

// Expect says what the sandbox under test is. Isolation itself is compared.
type Expect struct {
	Name       string
	Filesystem bool
	Processes  bool
	Network    bool
	Loopback   bool
	Pretend    bool // there are no real processes

	// Of a sandbox with a system of its own.
	Path  string   // the PATH of its programs; empty for the operator's
	First string   // the command line of the first process, which a program may see
	Shows []string // what is there besides, of the files that no program needs
	NoWay bool     // it cannot enter namespaces, and says so
	Layer bool     // it mounts layers, as sandbox.Entry has them; others say that they do not
}

// Main is for the TestMain of a package that runs the suite:
//
//	func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m, newSandbox)) }
func Main(m *testing.M, make Maker) int {
	inside.Main(os.Args)
	if code, ok := probeMain(os.Args); ok {
		syscall.Exit(code) // at once: the race detector makes os.Exit wait a second
	}
	if len(os.Args) == 3 && os.Args[1] == victimWord {
		return victim(make, os.Args[2])
	}
	return m.Run()
}

// A suite is one call of Run.
type suite struct {
	make    Maker
	expect  Expect
	self    string // this test
	probes  string // the program under test
	entered bool   // Root and Home are mounts in namespaces of their own
	layered bool   // Root is an overlay that the sandbox has to mount
	socket  string // forwarded to in every run, unless it is empty
}

// plainVariable names a directory with this program as it is shipped, and with
// probes, both built without the race detector.
const plainVariable = "BESTOF_TEST_PLAIN"

// probesOr is the file of probes of their own, or else the other one.
func probesOr(self string) string {
	if dir := os.Getenv(plainVariable); dir != "" {
		return filepath.Join(dir, "probes")
	}
	return self
}

// Run tests the sandboxes that make makes. The program under test is this
// test binary, unless there are probes of their own, so TestMain must call Main.
func Run(t *testing.T, make Maker, e Expect) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{make: make, expect: e, self: self, probes: self}
	if !e.Pretend {
		s.probes = probesOr(self)
	}
	s.all(t)
	if e.Pretend {
		return
	}
	t.Run("forwards", s.forwards)
	if e.Layer {
		t.Run("layered", s.layers)
	} else {
		t.Run("no layers", s.noLayers)
	}
	if e.NoWay {
		t.Run("no way in", s.noWay)
		return
	}
	t.Run("entered", func(t *testing.T) {
		in := *s
		in.entered = true
		in.all(t)
		t.Run("mount", in.mount)
		t.Run("owner", in.owner)
		t.Run("gone", in.gone)
		t.Run("needed", in.needed)
		if e.Network {
			t.Run("talk", in.talk)
		}
	})
}

// all tests what holds wherever Root and Home are.
func (s *suite) all(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"isolation":     s.isolation,
		"environment":   s.environment,
		"home":          s.home,
		"directory":     s.directory,
		"place":         s.place,
		"input":         s.input,
		"output":        s.output,
		"log":           s.log,
		"exit":          s.exit,
		"writable":      s.writable,
		"not run":       s.notRun,
		"refused":       s.refused,
		"timeout":       s.timeout,
		"context":       s.context,
		"concurrent":    s.concurrent,
		"started":       s.started,
		"announcements": s.announcements,
	} {
		t.Run(name, test)
	}
	if s.expect.Pretend {
		return
	}
	for name, test := range map[string]func(*testing.T){
		"signal":        s.signal,
		"terminal":      s.terminal,
		"descriptors":   s.descriptors,
		"daemon":        s.daemon,
		"orphans":       s.orphans,
		"stubborn":      s.stubborn,
		"polite":        s.polite,
		"killed caller": s.killedCaller,
		"network":       s.network,
	} {
		t.Run(name, test)
	}
	if s.expect.Filesystem {
		t.Run("absent", s.absent)
		t.Run("masked", s.masked)
		t.Run("read-only", s.readOnly)
	}
	if s.expect.Processes {
		t.Run("strangers", s.strangers)
		t.Run("confined", s.confined)
	}
}

func (s *suite) sandbox(t *testing.T, o sandbox.Options) sandbox.Sandbox {
	t.Helper()
	if o.Environ == nil {
		o.Environ = []string{"PATH=" + sandbox.DefaultPath}
	}
	b, err := s.make(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// spec is a run of a probe in directories of its own.
func (s *suite) spec(t *testing.T, args ...string) sandbox.Spec {
	t.Helper()
	spec := sandbox.Spec{
		Argv: append([]string{s.probes, probeWord}, args...),
		Root: t.TempDir(), Home: t.TempDir(),
		Binds:   []sandbox.Bind{{Source: s.probes, Target: s.probes}},
		Network: sandbox.NetworkNone, Timeout: time.Minute,
	}
	if s.socket != "" {
		spec.Forwards = []sandbox.Forward{{Port: forwardPort, Socket: s.socket}}
	}
	if s.entered {
		spec.Enter = enter(t, spec.Root, spec.Home)
	}
	if s.layered {
		spec.Enter = s.layersOf(t)
	}
	return spec
}

func run(t *testing.T, b sandbox.Sandbox, spec sandbox.Spec) sandbox.Result {
	t.Helper()
	res, err := b.Run(t.Context(), spec)
	if err != nil {
		t.Fatalf("%v\n%s", err, res.Stderr.Bytes())
	}
	return res
}

// ok runs a spec that has to succeed and returns what it printed.
func ok(t *testing.T, b sandbox.Sandbox, spec sandbox.Spec) string {
	t.Helper()
	res := run(t, b, spec)
	if !res.OK() {
		t.Fatalf("%s, code %d, signal %d %s\n%s", res.End, res.Code, res.Signal, res.Reason, res.Stderr.Bytes())
	}
	return string(res.Stdout.Bytes())
}

func (s *suite) isolation(t *testing.T) {
	got := s.sandbox(t, sandbox.Options{}).Isolation()
	want := s.expect
	if got.Name != want.Name || got.Filesystem != want.Filesystem || got.Processes != want.Processes || got.Network != want.Network || got.Loopback != want.Loopback {
		t.Errorf("isolation %+v, want %+v", got, want)
	}
	if got.Summary == "" {
		t.Error("the isolation has no summary")
	}
	if !(got.Filesystem && got.Processes && got.Network) && len(got.Missing) == 0 {
		t.Error("the isolation does not say what is missing")
	}
}

func (s *suite) environment(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := s.sandbox(t, sandbox.Options{
		Environ: []string{"PATH=/usr/bin:relative::/bin", "HOME=/operator", "API_KEY=secret", "PASSED=on", "LD_PRELOAD=/x", "GIT_DIR=/operator/.git", "USER=alice"},
		Now:     func() time.Time { return now },
	})
	spec := s.spec(t, "env")
	spec.Timeout = 90 * time.Second
	spec.Env = map[string]string{"GIVEN": "a=b\nc", "TERM": "given"}
	spec.PassEnv = []string{"PASSED", "NOT_SET"}
	spec.Ports = sandbox.PortBlock{Base: 20000, Count: 10}
	got := map[string]string{}
	for kv := range strings.SplitSeq(ok(t, b, spec), "\x00") {
		name, v, _ := strings.Cut(kv, "=")
		got[name] = v
	}
	path := "/usr/bin:/bin"
	if s.expect.Path != "" {
		path = s.expect.Path
	}
	for name, want := range map[string]string{
		"PATH": path, "HOME": spec.Home, "USER": "alice", "LOGNAME": "alice",
		"GIVEN": "a=b\nc", "TERM": "given", "PASSED": "on",
		"BESTOF_DEADLINE": "1700000090", "BESTOF_TIMEOUT_SECONDS": "90",
		"BESTOF_PORT_BASE": "20000", "BESTOF_PORT_COUNT": "10",
		"GIT_TERMINAL_PROMPT": "0", "GIT_CEILING_DIRECTORIES": filepath.Dir(spec.Root),
		"LANG": "C.UTF-8", "NO_COLOR": "1", "CI": "1", "PAGER": "cat",
	} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"API_KEY", "LD_PRELOAD", "GIT_DIR", "NOT_SET"} {
		if v, there := got[name]; there {
			t.Errorf("%s=%q came through", name, v)
		}
	}
	for name := range got {
		if !slices.Contains(known, name) {
			t.Errorf("nobody asked for %s=%q", name, got[name])
		}
	}
}

// known is every variable a program of the environment test may see.
var known = strings.Fields(`
	PATH HOME USER LOGNAME SHELL LANG TERM NO_COLOR CI PWD GIVEN PASSED
	XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR TMPDIR
	GIT_TERMINAL_PROMPT GIT_EDITOR EDITOR VISUAL GIT_PAGER PAGER BROWSER SSH_ASKPASS GIT_ASKPASS SSH_ASKPASS_REQUIRE
	DEBIAN_FRONTEND PIP_NO_INPUT GIT_CEILING_DIRECTORIES COMPOSE_PROJECT_NAME
	BESTOF_DEADLINE BESTOF_TIMEOUT_SECONDS BESTOF_PORT_BASE BESTOF_PORT_COUNT
	GOPROXY GOTELEMETRY npm_config_offline npm_config_audit npm_config_fund npm_config_update_notifier`)

func (s *suite) home(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t, "env")
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(spec.HostHome(), "tmp")); err != nil { // as an earlier round may leave it
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(spec.HostHome(), ".cache"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"}
	env := strings.Split(ok(t, b, spec), "\x00")
	for _, name := range names {
		dir, _ := sandbox.Lookup(env, name)
		if !sandbox.Within(spec.Home, dir) {
			t.Errorf("%s=%q is not below HOME", name, dir)
		}
		if fi, err := os.Lstat(spec.Enter.Host + dir); err != nil || !fi.IsDir() || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
	for range 2 {
		ok(t, b, spec)
	}
}

func (s *suite) directory(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t, "dir")
	if err := os.MkdirAll(filepath.Join(spec.HostRoot(), "a", "b c"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(spec.HostRoot(), "out")); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, b, spec); got != spec.Root {
		t.Errorf("started in %s, want %s", got, spec.Root)
	}
	spec.WorkDir = "a/b c"
	if got := ok(t, b, spec); got != filepath.Join(spec.Root, "a", "b c") {
		t.Errorf("started in %s", got)
	}
	for _, dir := range []string{"none", "out", "out/etc", "../", "/etc"} {
		spec.WorkDir = dir
		if res := run(t, b, spec); res.End != sandbox.NotRun || res.Reason == "" {
			t.Errorf("work directory %q: %s %q", dir, res.End, res.Reason)
		}
	}
}

func (s *suite) place(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t, "dir")
	spec.Seen = sandbox.Place{Root: "/workspace/x", Home: "/workspace-home"}
	if err := os.Mkdir(filepath.Join(spec.HostRoot(), "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	spec.WorkDir = "sub"
	if !s.expect.Filesystem {
		if res, err := b.Run(t.Context(), spec); err == nil {
			t.Errorf("shown at another place: %s", res.End)
		}
		return
	}
	if got := ok(t, b, spec); got != "/workspace/x/sub" {
		t.Errorf("started in %s", got)
	}
	spec.Argv = []string{"sh", "-c", `echo there > made && echo home > "$HOME/made" && test "$HOME" = /workspace-home && test "$TMPDIR" = /workspace-home/tmp && test ! -e ` + spec.Root}
	ok(t, b, spec)
	for _, name := range []string{filepath.Join(spec.HostRoot(), "sub", "made"), filepath.Join(spec.HostHome(), "made")} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

func (s *suite) input(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	for _, n := range []int{0, 1, 1 << 16, 8<<20 + 1} {
		spec := s.spec(t, "stdin")
		spec.Stdin = bytes.Repeat([]byte{'a', 0, 0xff, '\n'}, n/4+1)[:n]
		if got, want := ok(t, b, spec), fmt.Sprintf("%d %x", n, sha256.Sum256(spec.Stdin)); got != want {
			t.Errorf("%d bytes of input: read %s, want %s", n, got, want)
		}
	}
	spec := s.spec(t, "exit", "0") // reads nothing
	spec.Stdin = make([]byte, 8<<20)
	ok(t, b, spec)
}

func (s *suite) output(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	const lines = 100 << 20 / 2 / 16 // 100 MiB in two streams
	spec := s.spec(t, "flood", strconv.Itoa(lines))
	spec.Head, spec.Tail = 160, 320
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := run(t, b, spec)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 && !s.expect.Pretend { // a fake's program allocates here
		t.Errorf("a flood took %d bytes of memory", got)
	}
	var head, tail strings.Builder
	for n := range 10 {
		head.WriteString(floodLine(n))
	}
	for n := lines - 20; n < lines; n++ {
		tail.WriteString(floodLine(n))
	}
	for _, o := range []sandbox.Output{res.Stdout, res.Stderr} {
		if string(o.Head) != head.String() || string(o.Tail) != tail.String() || o.Dropped != lines*16-160-320 {
			t.Errorf("kept %q … %d … %q", o.Head, o.Dropped, o.Tail)
		}
	}
	spec = s.spec(t, "flood", "25")
	spec.Head, spec.Tail = 160, 320
	if got := run(t, b, spec).Stdout; len(got.Head) != 160 || len(got.Tail) != 240 || got.Dropped != 0 {
		t.Errorf("of 400 bytes kept %d and %d, dropped %d", len(got.Head), len(got.Tail), got.Dropped)
	}
}

func (s *suite) log(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t, "flood", "1000")
	spec.Head, spec.Tail = 1600, 1600
	var log bytes.Buffer
	spec.Log = &log
	run(t, b, spec)
	for _, line := range []int{0, 99, 900, 999} {
		if n := strings.Count(log.String(), floodLine(line)); n != 2 {
			t.Errorf("line %d is %d times in the log, want one for each stream", line, n)
		}
	}
	if strings.Contains(log.String(), floodLine(500)) || !strings.Contains(log.String(), "12800 bytes left out") {
		t.Errorf("the log is not capped: %d bytes", log.Len())
	}
	spec = s.spec(t, "flood", "10")
	spec.Log = errorWriter{}
	if _, err := b.Run(t.Context(), spec); !errors.Is(err, errLog) {
		t.Errorf("a log that cannot be written: %v", err)
	}
}

var errLog = errors.New("disk full")

type errorWriter struct{}

func (errorWriter) Write([]byte) (int, error) { return 0, errLog }

func (s *suite) exit(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	for _, code := range []int{0, 1, 2, 42, 126, 127, 255} {
		res := run(t, b, s.spec(t, "exit", strconv.Itoa(code)))
		if res.End != sandbox.Exited || res.Code != code || res.Signal != 0 || res.OK() != (code == 0) {
			t.Errorf("exit %d: %s, code %d, signal %d", code, res.End, res.Code, res.Signal)
		}
	}
}

func (s *suite) writable(t *testing.T) {
	spec := s.spec(t, "write")
	spec.Argv = append(spec.Argv, "here", filepath.Join(spec.Root, "root"), filepath.Join(spec.Home, "home"))
	ok(t, s.sandbox(t, sandbox.Options{}), spec)
	for _, p := range []string{filepath.Join(spec.HostRoot(), "here"), filepath.Join(spec.HostRoot(), "root"), filepath.Join(spec.HostHome(), "home")} {
		if b, err := os.ReadFile(p); string(b) != "written" {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
}

func (s *suite) notRun(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t)
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "gone-interpreter": 0o755} {
		if err := os.WriteFile(filepath.Join(spec.HostRoot(), name), []byte("#!/no/such/interpreter\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"no-such-program-anywhere", "./none", "/none/at/all", "./plain", "./gone-interpreter", spec.Root} {
		spec.Argv = []string{program, "--", "x"}
		res := run(t, b, spec)
		if res.End != sandbox.NotRun || res.Reason == "" || strings.Contains(res.Reason, "\n") || res.OK() {
			t.Errorf("%s: %s, code %d, reason %q", program, res.End, res.Code, res.Reason)
		}
	}
}

func (s *suite) refused(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	for name, spoil := range map[string]func(*sandbox.Spec){
		"no program":    func(s *sandbox.Spec) { s.Argv = nil },
		"relative root": func(s *sandbox.Spec) { s.Root = "root" },
		"no root":       func(s *sandbox.Spec) { s.Root = "" },
		"root is /":     func(s *sandbox.Spec) { s.Root = "/" },
		"root is gone":  func(s *sandbox.Spec) { s.Root += "/gone" },
		"relative home": func(s *sandbox.Spec) { s.Home = "." },
		"home is gone":  func(s *sandbox.Spec) { s.Home += "/gone" },
		"no timeout":    func(s *sandbox.Spec) { s.Timeout = 0 },
		"no network":    func(s *sandbox.Spec) { s.Network = "" },
		"bad name":      func(s *sandbox.Spec) { s.Env = map[string]string{"A=B": ""} },
		"forward on the host's network": func(s *sandbox.Spec) {
			s.Network, s.Forwards = sandbox.NetworkHost, []sandbox.Forward{{Port: 1, Socket: "/s"}}
		},
		"two forwards of a port": func(s *sandbox.Spec) {
			s.Forwards = []sandbox.Forward{{Port: 1, Socket: "/s"}, {Port: 1, Socket: "/t"}}
		},
		"no port":         func(s *sandbox.Spec) { s.Forwards = []sandbox.Forward{{Socket: "/s"}} },
		"relative socket": func(s *sandbox.Spec) { s.Forwards = []sandbox.Forward{{Port: 1, Socket: "s"}} },
		"bad bind":        func(s *sandbox.Spec) { s.Binds = []sandbox.Bind{{Source: "a", Target: "/a"}} },
	} {
		spec := s.spec(t, "exit", "0")
		spoil(&spec)
		if res, err := b.Run(t.Context(), spec); err == nil {
			t.Errorf("%s: %s %s", name, res.End, res.Reason)
		}
	}
}

func (s *suite) timeout(t *testing.T) {
	spec := s.spec(t, "wait")
	spec.Timeout = 50 * time.Millisecond
	if res := run(t, s.sandbox(t, sandbox.Options{}), spec); res.End != sandbox.Deadline || res.OK() {
		t.Errorf("ended %s", res.End)
	}
}

func (s *suite) context(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	spec := s.spec(t, "wait")
	spec.Started = func(sandbox.Process) { cancel() }
	for range 2 { // the second time it has ended before
		if res, err := b.Run(ctx, spec); err != nil || res.End != sandbox.Stopped || res.OK() {
			t.Errorf("ended %s, %v", res.End, err)
		}
	}
}

func (s *suite) concurrent(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	var group sync.WaitGroup
	for i := range 12 {
		spec := s.spec(t, "env")
		spec.Env = map[string]string{"WHO": strconv.Itoa(i)}
		group.Go(func() {
			res, err := b.Run(t.Context(), spec)
			env := strings.Split(string(res.Stdout.Bytes()), "\x00")
			who, _ := sandbox.Lookup(env, "WHO")
			home, _ := sandbox.Lookup(env, "HOME")
			if err != nil || who != strconv.Itoa(i) || home != spec.Home {
				t.Errorf("run %d: WHO=%q HOME=%q, %v\n%s", i, who, home, err, res.Stderr.Bytes())
			}
		})
	}
	group.Wait()
}

func (s *suite) started(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t, "write", "mark")
	var ids []sandbox.Process
	spec.Started = func(id sandbox.Process) {
		ids = append(ids, id)
		if _, err := os.Stat(filepath.Join(spec.HostRoot(), "mark")); err == nil {
			t.Error("the program ran before Started was told")
		}
	}
	ok(t, b, spec)
	if len(ids) != 1 || ids[0].PID == 0 {
		t.Fatalf("Started was told %v", ids)
	}
	if ids[0].Alive() {
		t.Error("the supervisor outlives Run")
	}
	if found, err := proc.Reap(ids[0]); found || err != nil {
		t.Errorf("Reap after Run: %v, %v", found, err)
	}
}

func (s *suite) announcements(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	names := map[string]bool{}
	for range 3 {
		env := strings.Split(ok(t, b, s.spec(t, "env")), "\x00")
		name, _ := sandbox.Lookup(env, "COMPOSE_PROJECT_NAME")
		names[name] = true
		if v, there := sandbox.Lookup(env, "BESTOF_PORT_BASE"); there {
			t.Errorf("a port block nobody gave: %q", v)
		}
		deadline, _ := sandbox.Lookup(env, "BESTOF_DEADLINE")
		if at, err := strconv.ParseInt(deadline, 10, 64); err != nil || time.Until(time.Unix(at, 0)) > time.Minute || time.Until(time.Unix(at, 0)) < 0 {
			t.Errorf("deadline %q", deadline)
		}
	}
	if len(names) != 3 || names[""] {
		t.Errorf("project names %v of three roots", names)
	}
}
