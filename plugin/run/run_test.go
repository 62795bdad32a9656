package run_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/bwrap"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/candidate/sandbox/process"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin/run"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// TestMain makes this test binary the built-in plugin, for the sandboxes.
func TestMain(m *testing.M) {
	if os.Getenv("BESTOF_TEST_AS_PLUGIN") != "" {
		os.Exit(verify.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const answer = `{"point":"after_turn","body":{"protocol_version":1,"evidence":{"flip":"achieved","measurements":{"n":3}}}}`

func after(root string, test ...string) wire.Request {
	g := &wire.Grant{Handle: "candidate-1", Root: root}
	if len(test) > 0 {
		g.Test = &wire.TestPlan{Program: test[0], Args: test[1:], Baseline: wire.Failed}
	}
	return wire.Request{After: &wire.AfterRequest{ProtocolVersion: wire.Version, Wrapper: "p", Goal: "g", Candidate: g, Turn: wire.Turn{Completed: true}}}
}

func sandboxes(t testing.TB) map[string]sandbox.Sandbox {
	t.Helper()
	o := sandbox.Options{Environ: os.Environ()}
	b, err := bwrap.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]sandbox.Sandbox{"process": process.New(o), "bwrap": b}
}

func spec(t testing.TB, argv ...string) sandbox.Spec {
	t.Helper()
	dir := t.TempDir()
	s := sandbox.Spec{Argv: argv, Root: filepath.Join(dir, "root"), Home: filepath.Join(dir, "home"), Network: sandbox.NetworkNone, Timeout: 30 * time.Second}
	for _, d := range []string{s.Root, s.Home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestExchange is the validity of an exchange, with real processes.
func TestExchange(t *testing.T) {
	for name, sb := range sandboxes(t) {
		for _, c := range []struct {
			name, script string
			kind         error
			text         string
		}{
			{"answers", `cat >/dev/null; echo '` + answer + `'`, nil, ""},
			{"does not read", `echo '` + answer + `'`, nil, ""},
			{"answers in several lines", `printf '\n\n{\n"body":'; echo '{"protocol_version":1,"evidence":{"flip":"achieved","measurements":{"n":3}}},"point":"after_turn"}'`, nil, ""},
			{"talks on", `echo '` + answer + `'; echo '{"point":"after_turn"}'; head -c 1000000 /dev/zero`, nil, ""},
			{"complains and answers", `echo warning >&2; echo '` + answer + `'`, nil, ""},
			{"gets one line and the end", `read -r line && test -z "$(cat)" && case $line in '{"point":"after_turn",'*) echo '` + answer + `';; esac`, nil, ""},
			{"answers and fails", `echo '` + answer + `'; echo it broke >&2; exit 3`, wire.ErrExit, "status 3: it broke"},
			{"answers and dies", `echo '` + answer + `'; kill -9 $$`, wire.ErrExit, "signal 9"},
			{"says why", `printf 'a\033[2Jb\nc' >&2; exit 1`, wire.ErrExit, "status 1: a\ufffd[2Jb c"},
			{"says nothing", `true`, wire.ErrNoResponse, "nothing"},
			{"greets first", `echo hello; echo '` + answer + `'`, wire.ErrDecode, "begins with"},
			{"answers in part", `printf '{"point":'`, wire.ErrDecode, "middle"},
			{"answers for another point", `echo '{"point":"before_turn","body":{"protocol_version":1}}'`, wire.ErrPointMismatch, "before_turn"},
			{"speaks another version", `echo '{"point":"after_turn","body":{"protocol_version":2,"evidence":{"flip":"achieved"}}}'`, wire.ErrProtocolVersion, "protocol_version 2"},
			{"reports tampering", `echo '{"point":"after_turn","body":{"protocol_version":1,"evidence":{"flip":"achieved","tamper":"clean"}}}'`, wire.ErrDecode, "tamper"},
			{"calls the host", `echo '{"call":"recall","id":1,"args":{}}'`, wire.ErrUnannouncedCall, "called"},
			{"floods", `head -c 9000000 /dev/zero`, wire.ErrOutputCap, "8388608"},
			{"floods after the answer", `echo '` + answer + `'; head -c 9000000 /dev/zero`, wire.ErrOutputCap, "8388608"},
			{"floods both", `echo '` + answer + `'; head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2`, wire.ErrOutputCap, "8388608"},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				s := spec(t, "sh", "-c", c.script)
				r, _, err := run.Exchange(t.Context(), sb, s, after(s.Root))
				e := run.Evidence(r, err)
				if c.kind == nil {
					if err != nil || e.Provenance != judge.PluginReported || e.Flip != judge.FlipAchieved || e.Measurements["n"] != 3 || e.Tamper.Status != judge.NotChecked {
						t.Errorf("%+v, %v", e, err)
					}
					return
				}
				var fault *wire.Fault
				if !errors.As(err, &fault) || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) || strings.ContainsAny(err.Error(), "\n\x1b") {
					t.Errorf("%v (%v), want %v: %s", err, errors.Unwrap(err), c.kind, c.text)
				}
				if r != (wire.Response{}) || e.Provenance != judge.HostObserved || e.Flip != judge.FlipUnobservable || len(e.Measurements) > 0 || e.FlipReason != err.Error() {
					t.Errorf("substituted %+v", e)
				}
			})
		}
		t.Run(name+"/hangs", func(t *testing.T) {
			t.Parallel()
			s := spec(t, "sh", "-c", `echo '`+answer+`'; trap "" TERM; while :; do sleep 1; done`)
			s.Timeout, s.Grace = 300*time.Millisecond, 100*time.Millisecond
			if _, _, err := run.Exchange(t.Context(), sb, s, after(s.Root)); !errors.Is(err, wire.ErrTimeout) {
				t.Error(err)
			}
		})
		t.Run(name+"/does not exist", func(t *testing.T) {
			t.Parallel()
			s := spec(t, "no-such-program-here")
			if _, _, err := run.Exchange(t.Context(), sb, s, after(s.Root)); !errors.Is(err, wire.ErrSpawn) {
				t.Error(err)
			}
		})
		t.Run(name+"/cancelled", func(t *testing.T) {
			t.Parallel()
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			s := spec(t, "sh", "-c", "while :; do sleep 1; done")
			s.Started = func(sandbox.Process) { cancel(why) }
			_, _, err := run.Exchange(ctx, sb, s, after(s.Root))
			var fault *wire.Fault
			if !errors.Is(err, why) || errors.As(err, &fault) {
				t.Errorf("the end of the run is not the plugin's fault: %v", err)
			}
		})
	}
}

// reach passes if the test can get hold of its verifier. In the process sandbox
// an ordinary user cannot, and root can.
const reach = `readlink /proc/$PPID/fd/1 || echo forged >> /proc/$PPID/fd/1 || head -c 1 /proc/$PPID/mem || cat /proc/$PPID/environ`

// TestVerifyInSandboxes is the built-in plugin over the same wire.
func TestVerifyInSandboxes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	processReach := judge.FlipNotAchieved
	if os.Getuid() == 0 {
		processReach = judge.FlipAchieved
	}
	for name, sb := range sandboxes(t) {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				test   []string
				flip   judge.Flip
				reason verify.Reason
			}{
				{[]string{"sh", "-c", "echo shown; test -f code"}, judge.FlipAchieved, ""},
				{[]string{"false"}, judge.FlipNotAchieved, ""},
				{[]string{"sh", "-c", reach}, map[string]judge.Flip{"bwrap": judge.FlipNotAchieved, "process": processReach}[name], ""},
				{[]string{"echo", "Ran 0 tests in 0.1s"}, judge.FlipUnobservable, verify.NoTests},
				{[]string{"echo", "1 passed in 0.1s"}, judge.FlipUnobservable, verify.FewerTests},
				{[]string{"sleep", "60"}, judge.FlipUnobservable, verify.TimedOut},
			} {
				base := verify.Base{}
				if c.reason == verify.FewerTests {
					base.Tests = verify.Tests{Known: true, Ran: 2}
				}
				timeout := 20 * time.Second
				if c.reason == verify.TimedOut {
					timeout = 300 * time.Millisecond
				}
				s := spec(t, append([]string{self}, verify.Args(timeout, base)...)...)
				s.Binds = []sandbox.Bind{{Source: self, Target: self}}
				s.Env = map[string]string{"BESTOF_TEST_AS_PLUGIN": "1"}
				if err := os.WriteFile(filepath.Join(s.Root, "code"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
				r, result, err := run.Exchange(t.Context(), sb, s, after(s.Root, c.test...))
				if err != nil {
					t.Fatalf("%q: %v\n%s", c.test, err, result.Stderr.Bytes())
				}
				reason, text := verify.Note(result.Stderr)
				if e := run.Evidence(r, err); e.Flip != c.flip || reason != c.reason || (reason != "") != (text != "") {
					t.Errorf("%q: %+v, %q %q", c.test, e, reason, text)
				}
				if c.test[len(c.test)-1] == "echo shown; test -f code" && !bytes.HasPrefix(result.Stderr.Head, []byte("shown\n")) {
					t.Errorf("the test's output: %q", result.Stderr.Head)
				}
			}
		})
	}
}

// TestHostFailures: what is not the plugin's doing is not a Fault, and a
// request that cannot be made starts nothing.
func TestHostFailures(t *testing.T) {
	started := 0
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{"p": func(_ context.Context, p *fake.Process) fake.Exit {
		started++
		io.WriteString(p.Stdout, answer)
		return fake.Exit{OOM: true, Signal: 9}
	}})
	s := spec(t, "p")
	for name, c := range map[string]struct {
		edit func(*sandbox.Spec, *wire.Request)
		kind error
	}{
		"no argv":        {func(s *sandbox.Spec, _ *wire.Request) { s.Argv = nil }, wire.ErrEmptyArgv},
		"no program":     {func(s *sandbox.Spec, _ *wire.Request) { s.Argv = []string{""} }, wire.ErrEmptyArgv},
		"no time":        {func(s *sandbox.Spec, _ *wire.Request) { s.Timeout = -1 }, wire.ErrZeroTimeout},
		"no request":     {func(_ *sandbox.Spec, q *wire.Request) { *q = wire.Request{} }, wire.ErrEncode},
		"root not UTF-8": {func(_ *sandbox.Spec, q *wire.Request) { *q = after("/\xff") }, wire.ErrEncode},
	} {
		s, q := s, after(s.Root)
		c.edit(&s, &q)
		if _, _, err := run.Exchange(t.Context(), sb, s, q); !errors.Is(err, c.kind) || started > 0 {
			t.Errorf("%s: %v, %d started", name, err, started)
		}
	}
	if _, _, err := run.Exchange(t.Context(), sb, s, after(s.Root)); !errors.Is(err, wire.ErrExit) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("out of memory: %v", err)
	}
	s.Root = "relative"
	_, _, err := run.Exchange(t.Context(), sb, s, after("/"))
	var fault *wire.Fault
	if err == nil || errors.As(err, &fault) {
		t.Errorf("a sandbox that fails: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	for ask, want := range map[time.Duration]time.Duration{0: run.DefaultTimeout, time.Second: time.Second, time.Hour: run.MaxTimeout} {
		if got := run.Timeout(ask); got != want {
			t.Errorf("Timeout(%v) = %v", ask, got)
		}
	}
	var seen sandbox.Spec
	sb := fake.New(sandbox.Options{}, map[string]fake.Program{"p": func(_ context.Context, p *fake.Process) fake.Exit {
		seen = p.Spec
		return fake.Exit{}
	}})
	s := spec(t, "p")
	s.Timeout = 0
	if _, _, err := run.Exchange(t.Context(), sb, s, after(s.Root)); !errors.Is(err, wire.ErrNoResponse) || seen.Timeout != run.DefaultTimeout {
		t.Errorf("%v, %v", seen.Timeout, err)
	}
	if e := run.Evidence(wire.Response{}, nil); e.Flip != judge.FlipUnobservable || e.Provenance != judge.HostObserved {
		t.Errorf("no response and no error: %+v", e)
	}
}
