package fake_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/candidate/sandbox/sandboxtest"
)

func newSandbox(o sandbox.Options) (sandbox.Sandbox, error) {
	return fake.New(o, sandboxtest.Programs()), nil
}

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m, newSandbox)) }

func TestContract(t *testing.T) {
	sandboxtest.Run(t, newSandbox, sandboxtest.Expect{Name: "fake", Loopback: true, Pretend: true})
}

func spec(t *testing.T, argv ...string) sandbox.Spec {
	return sandbox.Spec{Argv: argv, Root: t.TempDir(), Home: t.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute}
}

func TestSteeredByItsPrograms(t *testing.T) {
	s := fake.New(sandbox.Options{}, map[string]fake.Program{
		"say": fake.Say("hello", 3),
		"oom": func(context.Context, *fake.Process) fake.Exit { return fake.Exit{Signal: 9, OOM: true} },
	})
	res, err := s.Run(t.Context(), spec(t, "say", "x"))
	if err != nil || res.Code != 3 || string(res.Stdout.Head) != "hello\n" {
		t.Errorf("say: %+v, %v", res, err)
	}
	if res, err = s.Run(t.Context(), spec(t, "oom")); err != nil || !res.OOM || res.Signal != 9 || res.OK() {
		t.Errorf("oom: %+v, %v", res, err)
	}
	if runs := s.Runs(); len(runs) != 2 || strings.Join(runs[0].Argv, " ") != "say x" {
		t.Errorf("runs %v", runs)
	}
	if m := s.Misuse(); m != nil {
		t.Errorf("misuse %q", m)
	}
}

func TestMisuseIsFound(t *testing.T) {
	inside, leave := make(chan bool), make(chan bool)
	s := fake.New(sandbox.Options{}, map[string]fake.Program{
		"wait": func(context.Context, *fake.Process) fake.Exit { inside <- true; <-leave; return fake.Exit{} },
	})
	first := spec(t, "wait")
	done := make(chan error)
	go func() {
		_, err := s.Run(t.Context(), first)
		done <- err
	}()
	<-inside
	second := spec(t, "wait")
	second.Root = first.Root
	if _, err := s.Run(t.Context(), second); err == nil {
		t.Error("two runs in one root at a time")
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := s.Run(t.Context(), sandbox.Spec{}); err == nil {
		t.Error("an empty spec is accepted")
	}
	if m := s.Misuse(); len(m) != 2 {
		t.Errorf("misuse %q", m)
	}
}

// TestEntered: a program of a fake stays where it is, and is told where the
// shadow is from there.
func TestEntered(t *testing.T) {
	host := t.TempDir()
	sp := spec(t, "write")
	sp.WorkDir = "sub"
	sp.Enter = sandbox.Entry{Argv: []string{"/enter"}, Offline: []string{"/enter", "-n"}, Host: host}
	for _, dir := range []string{sp.Root + "/sub", sp.Home} {
		if err := os.MkdirAll(host+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := fake.New(sandbox.Options{}, map[string]fake.Program{
		"write": func(_ context.Context, p *fake.Process) fake.Exit {
			if p.Dir != host+sp.Root+"/sub" || p.Spec.Home != host+sp.Home || os.WriteFile(p.Dir+"/file", nil, 0o600) != nil {
				return fake.Exit{Code: 1}
			}
			return fake.Exit{}
		},
	})
	if res, err := s.Run(t.Context(), sp); err != nil || !res.OK() {
		t.Errorf("%+v, %v", res, err)
	}
	for _, bad := range []sandbox.Entry{{Offline: []string{"/enter"}}, {Argv: []string{"enter"}, Offline: []string{"enter"}}, {Host: "relative"}} {
		sp.Enter = bad
		if _, err := s.Run(t.Context(), sp); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
