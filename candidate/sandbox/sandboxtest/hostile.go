package sandboxtest

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
)

func (s *suite) signal(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	for _, n := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		res := run(t, b, s.spec(t, "die", strconv.Itoa(int(n))))
		if res.End != sandbox.Exited || res.Signal != int(n) || res.OK() {
			t.Errorf("death by signal %d: %s, code %d, signal %d", n, res.End, res.Code, res.Signal)
		}
	}
}

func (s *suite) terminal(t *testing.T) { ok(t, s.sandbox(t, sandbox.Options{}), s.spec(t, "tty")) }

func (s *suite) descriptors(t *testing.T) {
	// One that this process would pass on to any child that is not careful.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd, err := syscall.Dup(int(w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if got := ok(t, s.sandbox(t, sandbox.Options{}), s.spec(t, "fds")); got != "0\n1\n2\n" {
		t.Errorf("the program was started with the descriptors %q", got)
	}
}

// held checks that nobody alive holds the locks, which somebody did hold.
func held(t *testing.T, spec sandbox.Spec, locks ...string) {
	t.Helper()
	for _, lock := range locks {
		lock = spec.Enter.Host + lock
		if _, err := os.Stat(lock); err != nil {
			t.Errorf("nothing was started: %v", err)
		} else if !free(lock) {
			t.Errorf("a process that holds %s is alive", filepath.Base(lock))
		}
	}
}

func (s *suite) daemon(t *testing.T) {
	spec := s.spec(t, "daemon")
	lock := filepath.Join(spec.Root, "lock")
	spec.Argv = append(spec.Argv, lock)
	began := time.Now()
	ok(t, s.sandbox(t, sandbox.Options{}), spec)
	held(t, spec, lock)
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("it took %s", d)
	}
}

func (s *suite) orphans(t *testing.T) {
	spec := s.spec(t, "orphans")
	lock := filepath.Join(spec.Root, "lock")
	spec.Argv = append(spec.Argv, lock, "1000000")
	ok(t, s.sandbox(t, sandbox.Options{}), spec)
	held(t, spec, lock)
}

func (s *suite) stubborn(t *testing.T) {
	spec := s.spec(t, "hold")
	locks := []string{filepath.Join(spec.Root, "1"), filepath.Join(spec.Root, "2"), filepath.Join(spec.Root, "3")}
	spec.Argv = append(spec.Argv, locks...)
	spec.Grace = 100 * time.Millisecond
	res := stop(t, s.sandbox(t, sandbox.Options{}), spec, func() bool {
		return !slices.ContainsFunc(locks, func(lock string) bool { return free(spec.Enter.Host + lock) })
	})
	held(t, spec, locks...)
	if res.End != sandbox.Stopped || res.Duration < spec.Grace || len(res.Stdout.Head) == 0 {
		t.Errorf("ended %s after %s with %d bytes of output", res.End, res.Duration, len(res.Stdout.Head))
	}
}

// polite: TERM arrives, and there is time to act on it.
func (s *suite) polite(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t, "polite")
	ready, asked := filepath.Join(spec.Root, "ready"), filepath.Join(spec.Root, "asked")
	spec.Argv = append(spec.Argv, ready, asked)
	spec.Grace = time.Hour // nobody waits for it to pass
	res := stop(t, b, spec, func() bool {
		_, err := os.Stat(spec.Enter.Host + ready)
		return err == nil
	})
	if _, err := os.Stat(spec.Enter.Host + asked); err != nil || res.End != sandbox.Stopped {
		t.Errorf("ended %s without TERM: %v", res.End, err)
	}
}

func (s *suite) killedCaller(t *testing.T) {
	for _, program := range []string{"daemon", "hold"} {
		spec := s.spec(t, program)
		spec.Timeout = time.Hour
		lock := filepath.Join(spec.Home, "lock")
		spec.Argv = append(spec.Argv, lock)
		if program == "daemon" { // which ends by itself: keep it going
			spec.Argv = []string{"/bin/sh", "-c", `"$@"; exec sleep 3600`, "sh", s.probes, probeWord, "daemon", lock}
		}
		cmd, id := s.startVictim(t, spec)
		eventually(t, "the program runs", func() bool { return !free(spec.Enter.Host + lock) })
		if !id.Alive() {
			t.Fatal("there is no supervisor")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		eventually(t, "the supervisor is gone", func() bool { return !id.Alive() })
		held(t, spec, lock)
	}

	// A supervisor that was stopped does not notice; Reap ends it.
	spec := s.spec(t, "hold")
	spec.Timeout = time.Hour
	lock := filepath.Join(spec.Home, "lock")
	spec.Argv = append(spec.Argv, lock)
	cmd, id := s.startVictim(t, spec)
	eventually(t, "the program runs", func() bool { return !free(spec.Enter.Host + lock) })
	if err := syscall.Kill(id.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	other := id
	other.StartTime++
	if found, err := proc.Reap(other); found || err != nil || free(spec.Enter.Host+lock) {
		t.Fatalf("Reap of another process: %v, %v", found, err)
	}
	if found, err := proc.Reap(id); !found || err != nil {
		t.Fatalf("Reap: %v, %v", found, err)
	}
	held(t, spec, lock)
	if id.Alive() {
		t.Error("the supervisor is alive after Reap")
	}
}

func (s *suite) network(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@sandboxtest-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	for _, l := range []net.Listener{tcp, abstract} {
		spec := s.spec(t, "dial", l.Addr().Network(), l.Addr().String())
		spec.Network = sandbox.NetworkHost
		if reached := run(t, b, spec).OK(); reached != s.expect.Loopback {
			t.Errorf("%s with the host's network: reached is %v although the loopback is shared is %v", l.Addr(), reached, s.expect.Loopback)
		}
		spec.Network = sandbox.NetworkNone
		if reached := run(t, b, spec).OK(); reached == s.expect.Network {
			t.Errorf("%s: reached is %v although network isolation is %v", l.Addr(), reached, s.expect.Network)
		}
	}
	ok(t, b, s.spec(t, "loopback"))
}

// scratch is laid out as on a real machine: directories to work in below
// bestof's own, beside things that are none of a program's business.
type scratch struct{ top, checkout, own, root, home, sibling, tools string }

func newScratch(t *testing.T) scratch {
	t.Helper()
	top := t.TempDir()
	w := scratch{
		top: top, checkout: filepath.Join(top, "project"), own: filepath.Join(top, "bestof"),
		root: filepath.Join(top, "bestof/scratch/c1/root"), home: filepath.Join(top, "bestof/scratch/c1/home"),
		sibling: filepath.Join(top, "bestof/scratch/c2/root"), tools: filepath.Join(top, "tools"),
	}
	for _, d := range []string{w.checkout, w.own, w.root, w.home, w.sibling, w.tools} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "file"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w scratch) options() sandbox.Options {
	return sandbox.Options{
		Environ: []string{"PATH=" + sandbox.DefaultPath + ":" + filepath.Join(w.checkout, "bin"), "HOME=" + w.top},
		Hidden:  []string{w.checkout, w.own},
	}
}

// secrets are host files that no program needs.
var secrets = []string{"/etc/shadow", "/etc/gitconfig", "/etc/ssl/private", "/root/.ssh", "/root/.bashrc", "/var/log", "/var/lib", "/home", "/sys", "/run/docker.sock"}

func (s *suite) absent(t *testing.T) {
	w := newScratch(t)
	spec := s.spec(t, "stat")
	spec.Root, spec.Home = w.root, w.home
	spec.Argv = append(spec.Argv, filepath.Join(w.root, "file"), filepath.Join(w.home, "file"), filepath.Join(w.root, ".."),
		filepath.Join(w.checkout, "file"), w.checkout, filepath.Join(w.own, "file"), filepath.Join(w.sibling, "file"), filepath.Dir(w.sibling), w.tools)
	for _, secret := range secrets {
		if !slices.Contains(s.expect.Shows, secret) {
			spec.Argv = append(spec.Argv, secret)
		}
	}
	got := strings.Fields(ok(t, s.sandbox(t, w.options()), spec))
	want := []string{filepath.Join(w.root, "file"), filepath.Join(w.home, "file"), filepath.Dir(w.root)}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("sees %v, want only %v", got, want)
	}
}

func (s *suite) masked(t *testing.T) {
	w := newScratch(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(w.top, link); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(w.tools, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, grant := range map[string]string{"directory": w.top, "link": link} {
		for kind, change := range map[string]func(*sandbox.Options, *sandbox.Spec){
			"read": func(o *sandbox.Options, _ *sandbox.Spec) { o.Read = []string{grant} },
			"bind": func(_ *sandbox.Options, s *sandbox.Spec) {
				s.Binds = append(s.Binds, sandbox.Bind{Source: grant, Target: grant})
			},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				o := w.options()
				o.Hidden = append(o.Hidden, secret, filepath.Join(link, "absent"))
				spec := s.spec(t, "stat")
				spec.Root, spec.Home = w.root, w.home
				change(&o, &spec)
				seen := []string{filepath.Join(grant, "tools/file"), filepath.Join(w.root, "file"), filepath.Join(w.home, "file")}
				spec.Argv = append(spec.Argv, seen...)
				for _, top := range []string{grant, w.top} {
					for _, p := range []string{"project/file", "project", "bestof/file", "bestof/scratch/c2/root/file", "bestof/scratch/c2"} {
						spec.Argv = append(spec.Argv, filepath.Join(top, p))
					}
				}
				b := s.sandbox(t, o)
				if got := strings.Fields(ok(t, b, spec)); strings.Join(got, " ") != strings.Join(seen, " ") {
					t.Errorf("sees %v, want only %v", got, seen)
				}
				spec.Argv = []string{"cat", filepath.Join(grant, "tools/secret")}
				if res := run(t, b, spec); len(res.Stdout.Head) != 0 {
					t.Errorf("a hidden file says %q", res.Stdout.Head)
				}
				spec.Argv = []string{s.probes, probeWord, "write", filepath.Join(grant, "bestof/new")}
				if run(t, b, spec).OK() {
					t.Error("a mask can be written to")
				}
			})
		}
	}
}

func (s *suite) readOnly(t *testing.T) {
	w := newScratch(t)
	o := w.options()
	o.Read = []string{w.tools}
	b := s.sandbox(t, o)
	spec := s.spec(t)
	spec.Root, spec.Home = w.root, w.home
	for _, p := range []string{"/new", "/usr/new", "/usr/bin/new", "/etc/passwd", "/etc/new", "/bin/new", s.probes, filepath.Join(w.tools, "file"), filepath.Join(w.tools, "new")} {
		spec.Argv = []string{s.probes, probeWord, "write", p}
		if run(t, b, spec).OK() {
			t.Errorf("%s can be written", p)
		}
	}
	spec.Argv = []string{s.probes, probeWord, "write", "/tmp/sandboxtest", "/var/tmp/sandboxtest", "/dev/shm/sandboxtest", "/dev/null"}
	ok(t, b, spec)
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		if _, err := os.Stat(filepath.Join(dir, "sandboxtest")); err == nil {
			t.Errorf("%s is the host's", dir)
		}
	}
}

func (s *suite) strangers(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{Environ: []string{"PATH=" + sandbox.DefaultPath, "API_KEY=operators-secret"}})
	spec := s.spec(t, "processes")
	for line := range strings.Lines(ok(t, b, spec)) {
		if first := s.expect.First; first != "" && strings.TrimSpace(line) == first {
			continue
		}
		if !strings.Contains(line, probeWord) || strings.Contains(line, spec.Root) {
			t.Errorf("sees the command line %q", line)
		}
	}
	t.Setenv("SECRET_OF_THIS_PROCESS", "operators-secret")
	spec = s.spec(t, "environ")
	spec.Env = map[string]string{"MINE": "here"}
	got := ok(t, b, spec)
	if !strings.Contains(got, "MINE=here") || strings.Contains(got, "operators-secret") || strings.Contains(got, "GORACE") {
		t.Errorf("sees the environments %q", got)
	}
}

func (s *suite) confined(t *testing.T) {
	if got := ok(t, s.sandbox(t, sandbox.Options{}), s.spec(t, "confined", strconv.Itoa(os.Getpid()))); got != "" {
		t.Errorf("a program can\n%s", got)
	}
}
