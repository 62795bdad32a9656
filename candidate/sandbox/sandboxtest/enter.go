package sandboxtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
)

const mountsWord = "sandboxtest-mounts"

// holdMounts is a process with namespaces of its own, in which the
// directories are file systems that nobody else sees.
func holdMounts(dirs []string) int {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
	for _, dir := range dirs {
		err = errors.Join(err, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"))
	}
	if err = errors.Join(err, proc.RaiseLoopback()); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ok")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// startMounts starts holdMounts. What it holds is gone when the test ends, or
// when stop is called.
func startMounts(t *testing.T, dirs ...string) (e sandbox.Entry, stop func()) {
	t.Helper()
	uid, gid := os.Getuid(), os.Getgid()
	cmd := exec.Command(probesOr("/proc/self/exe"), append([]string{mountsWord}, dirs...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN},
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ok\n" {
		t.Fatalf("hold mounts: %s, %v", line, err)
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	argv := []string{nsenter, "--target", pid, "--preserve-credentials", "--user", "--mount"}
	return sandbox.Entry{
		Argv: append(argv[:len(argv):len(argv)], "--"), Offline: append(argv[:len(argv):len(argv)], "--net", "--"),
		Host: "/proc/" + pid + "/root",
	}, stop
}

func enter(t *testing.T, dirs ...string) sandbox.Entry {
	e, _ := startMounts(t, dirs...)
	return e
}

// mount: the program sees what is mounted in the namespaces, and its own
// programs there are found; this process's view stays as it was.
func (s *suite) mount(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	for _, network := range []sandbox.Network{sandbox.NetworkNone, sandbox.NetworkHost} {
		spec := s.spec(t)
		spec.Network, spec.WorkDir = network, "sub"
		if err := os.Mkdir(filepath.Join(spec.HostRoot(), "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\ncat ../planted && echo made >made && echo home >\"$HOME/made\"\n"
		for name, text := range map[string]string{"sub/prog": script, "planted": "planted\n"} {
			if err := os.WriteFile(filepath.Join(spec.HostRoot(), name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		spec.Argv = []string{"./prog"}
		if got := ok(t, b, spec); got != "planted\n" {
			t.Errorf("network %s: printed %q", network, got)
		}
		for _, name := range []string{filepath.Join(spec.HostRoot(), "sub/made"), filepath.Join(spec.HostHome(), "made")} {
			if _, err := os.Stat(name); err != nil {
				t.Error(err)
			}
		}
		for _, dir := range []string{spec.Root, spec.Home} {
			if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
				t.Errorf("outside of the namespaces, %s has %v, %v", dir, entries, err)
			}
		}
	}
}

// owner: a program in entered namespaces is who it would be outside, and can
// make nothing that its user could not remove.
func (s *suite) owner(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	spec := s.spec(t)
	spec.Argv = []string{"sh", "-c", "id -u; id -g; >file; mkdir -m 0 dir; chown 1234 file || chown 1:1 file || echo refused"}
	want := fmt.Sprintf("%d\n%d\nrefused\n", os.Getuid(), os.Getgid())
	if got := ok(t, b, spec); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, name := range []string{"file", "dir"} {
		var st unix.Stat_t
		at := filepath.Join(spec.HostRoot(), name)
		if err := unix.Lstat(at, &st); err != nil || int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
			t.Errorf("%s belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
		}
		if err := os.Remove(at); err != nil {
			t.Error(err)
		}
	}
	if os.Getuid() == 0 {
		return // whose programs have root's capabilities, though only in there
	}
	spec.Argv = []string{"sh", "-c", `grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | grep -v '0000000000000000$'; umount "$1" 2>/dev/null && echo unmounted; true`, "sh", spec.Root}
	if got := ok(t, b, spec); got != "" {
		t.Errorf("the program has or did %q", got)
	}
}

// needed: who needs another entry for NetworkNone does not run without it, and
// who says nothing of the kind does not need one.
func (s *suite) needed(t *testing.T) {
	b := s.sandbox(t, sandbox.Options{})
	o, needs := b.(interface{ EntersOffline() bool })
	needs = needs && o.EntersOffline()
	spec := s.spec(t, "loopback")
	spec.Enter.Offline = nil
	if res, err := b.Run(t.Context(), spec); (err != nil) != needs || err == nil && !res.OK() {
		t.Errorf("%+v, %v", res, err)
	}
	spec.Network = sandbox.NetworkHost
	ok(t, b, spec)
}

// gone: namespaces that are no more are nobody's result.
func (s *suite) gone(t *testing.T) {
	spec := s.spec(t, "exit", "0")
	e, stop := startMounts(t, t.TempDir())
	stop()
	spec.Enter.Argv, spec.Enter.Offline = e.Argv, e.Offline
	res, err := s.sandbox(t, sandbox.Options{}).Run(t.Context(), spec)
	if err == nil || errors.Is(err, proc.ErrSupervisorLost) || !strings.Contains(err.Error(), "enter its namespaces: ") {
		t.Errorf("%+v, %v", res, err)
	}
}

// noWay: who cannot enter namespaces says so, whatever is in them, so that
// another kind of shadow is taken.
func (s *suite) noWay(t *testing.T) {
	spec := s.spec(t, "exit", "0")
	spec.Enter = enter(t, spec.Root, spec.Home)
	if res, err := s.sandbox(t, sandbox.Options{}).Run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "another kind of shadow") {
		t.Errorf("%+v, %v", res, err)
	}
}
