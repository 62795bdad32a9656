package docker_test

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
	"github.com/bestof-dev/bestof/internal/proc"
)

func box(t *testing.T, host string, d docker.Options) *docker.Sandbox {
	t.Helper()
	if d.Image == "" {
		d.Image = os.Getenv(imageVariable)
	}
	s, err := docker.New(t.Context(), sandbox.Options{Environ: []string{"DOCKER_HOST=" + host, "USER=alice"}}, d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func script(t *testing.T, text string) sandbox.Spec {
	return sandbox.Spec{
		Argv: []string{"sh", "-c", text}, Root: t.TempDir(), Home: t.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute,
		Seen:   sandbox.Place{Root: "/workspace/x", Home: "/home/candidate"},
		Labels: map[string]string{"bestof.test": t.Name()},
	}
}

// containers are those of a test.
func containers(t *testing.T, c *client.Client) []string {
	t.Helper()
	all, err := c.ContainerList(context.WithoutCancel(t.Context()), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "bestof.test="+t.Name()))})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, one := range all {
		ids = append(ids, one.ID)
	}
	return ids
}

// logFunc calls f when something is said.
type logFunc func()

func (f logFunc) Write(b []byte) (int, error) { f(); return len(b), nil }

// TestInterrupted ends the context at each request, before the engine has it
// and after it was answered: nothing is left.
func TestInterrupted(t *testing.T) {
	host := engine(t)
	c := dockertest.Client(t, host)
	for _, at := range []string{"/containers/create", "/attach", "/start", "/json", "DELETE"} {
		for _, when := range []string{"before", "after"} {
			p := dockertest.NewProxy(t, host, -1)
			s := box(t, p.Host, docker.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			hit := false
			stop := func(request string) bool {
				if strings.Contains(request, at) {
					hit = true
					cancel()
				}
				return true
			}
			if when == "before" {
				p.Before = stop
			} else {
				p.After = stop
			}
			spec := script(t, "echo x; sleep 0.2")
			spec.Started = func(sandbox.Process) {}
			res, err := s.Run(ctx, spec)
			if !hit || err != nil || res.End != sandbox.Stopped && at != "DELETE" {
				t.Errorf("%s %s: %v, %s, %v", when, at, hit, res.End, err)
			}
			if left := containers(t, c); len(left) != 0 {
				t.Errorf("%s %s: left %v", when, at, left)
			}
		}
	}
}

// TestInterruptedWithLayers is TestInterrupted for a root that the engine
// mounts: its volume is not left either.
func TestInterruptedWithLayers(t *testing.T) {
	host := engine(t)
	c := dockertest.Client(t, host)
	for _, at := range []string{"/containers/create", "/start", "DELETE"} {
		p := dockertest.NewProxy(t, host, -1)
		s := box(t, p.Host, docker.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		p.After = func(request string) bool {
			if strings.Contains(request, at) {
				cancel()
			}
			return true
		}
		spec, dir := script(t, "echo x >x"), t.TempDir()
		spec.Enter = sandbox.Entry{Lower: filepath.Join(dir, "lower"), Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work")}
		for _, layer := range []string{spec.Enter.Lower, spec.Enter.Upper, spec.Enter.Work} {
			if err := os.Mkdir(layer, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if res, err := s.Run(ctx, spec); err != nil || res.End != sandbox.Stopped && at != "DELETE" {
			t.Errorf("%s: %s, %v", at, res.End, err)
		}
		if left, volumes := containers(t, c), dockertest.Layers(t, host, dir); len(left)+len(volumes) != 0 {
			t.Errorf("%s: left %v, %v", at, left, volumes)
		}
		cancel()
	}
}

// TestRequestsThatFail cuts the connection of each request in turn, before the
// engine has it and before its answer is heard. Whatever Run says then, it says
// it soon and leaves nothing.
func TestRequestsThatFail(t *testing.T) {
	host := engine(t)
	c := dockertest.Client(t, host)
	for _, lost := range []string{"request", "answer"} {
		for k := 0; ; k++ {
			p := dockertest.NewProxy(t, host, -1)
			s := box(t, p.Host, docker.Options{})
			var mu sync.Mutex
			n := 0
			cut := func(string) bool {
				mu.Lock()
				defer mu.Unlock()
				n++
				return n != k+1
			}
			if lost == "request" {
				p.Before = cut
			} else {
				p.After = cut
			}
			spec := script(t, "echo done")
			spec.Started = func(sandbox.Process) {}
			res, err := s.Run(t.Context(), spec)
			if err == nil && (!res.OK() || string(res.Stdout.Head) != "done\n") {
				t.Errorf("%s %d lost: %+v", lost, k, res)
			}
			if errors.Is(err, proc.ErrSupervisorLost) {
				t.Errorf("%s %d lost: the program is blamed: %v", lost, k, err)
			}
			if left := containers(t, c); len(left) != 0 {
				t.Errorf("%s %d lost: left %v", lost, k, left)
			}
			if n <= k { // that many requests are not made
				if k < 5 || err != nil {
					t.Errorf("%d requests, %v", n, err)
				}
				break
			}
		}
	}
}

// TestEngineThatDies is no result of the program's, and the program is ended
// all the same: the first process notices.
func TestEngineThatDies(t *testing.T) {
	host := engine(t)
	p := dockertest.NewProxy(t, host, -1)
	s := box(t, p.Host, docker.Options{})
	spec := script(t, "trap '' TERM; echo x; sleep 1000")
	spec.Log = logFunc(p.Cut)
	var id sandbox.Process
	spec.Started = func(p sandbox.Process) { id = p }
	res, err := s.Run(t.Context(), spec)
	if err == nil || errors.Is(err, proc.ErrSupervisorLost) || strings.Contains(err.Error(), "\n\n") {
		t.Errorf("%+v, %v", res, err)
	}
	eventually(t, "the container has ended", func() bool { return id.PID != 0 && !id.Alive() })
	c := dockertest.Client(t, host)
	for _, left := range containers(t, c) {
		if err := c.ContainerRemove(t.Context(), left, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

// TestEngineThatRestarts under a program is no result of the program's either,
// and the engine that is there again removes what is left.
func TestEngineThatRestarts(t *testing.T) {
	host := engine(t)
	p := dockertest.NewProxy(t, host, -1)
	spec := script(t, "trap '' TERM; echo x; sleep 1000")
	spec.Log = logFunc(p.Drop)
	res, err := box(t, p.Host, docker.Options{}).Run(t.Context(), spec)
	if err == nil || errors.Is(err, proc.ErrSupervisorLost) && !strings.Contains(err.Error(), "status") {
		t.Errorf("%+v, %v", res, err)
	}
	if left := containers(t, dockertest.Client(t, host)); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestEngineThatHangs in the middle of a run, and is there all the same, is no
// result of the program's: it is found out by the time limit at the latest.
func TestEngineThatHangs(t *testing.T) {
	host := engine(t)
	p := dockertest.NewProxy(t, host, -1)
	s := box(t, p.Host, docker.Options{})
	docker.Impatient(t)
	spec := script(t, "trap '' TERM; echo x; sleep 1000")
	spec.Timeout, spec.Grace = 3*time.Second, 100*time.Millisecond
	spec.Log = logFunc(p.Hang)
	var id sandbox.Process
	spec.Started = func(p sandbox.Process) { id = p }
	res, err := s.Run(t.Context(), spec)
	if err == nil || errors.Is(err, proc.ErrSupervisorLost) || !strings.Contains(err.Error(), "remove its container") {
		t.Errorf("%+v, %v", res, err)
	}
	// When the connection ends at last, so does the container.
	p.Cut()
	eventually(t, "the container has ended", func() bool { return id.PID != 0 && !id.Alive() })
	c := dockertest.Client(t, host)
	for _, left := range containers(t, c) {
		if err := c.ContainerRemove(t.Context(), left, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

// TestEngineThatHangsIsGivenUp long before a program's time limit, and what the
// program left is ended from here, where its engine does nothing.
func TestEngineThatHangsIsGivenUp(t *testing.T) {
	host := engine(t)
	p := dockertest.NewProxy(t, host, -1)
	s := docker.Watchful(box(t, p.Host, docker.Options{}))
	docker.Impatient(t)
	spec := script(t, "trap '' TERM; setsid sleep 1000 & echo x; sleep 1000")
	spec.Timeout = 24 * time.Hour
	spec.Log = logFunc(p.Hang)
	var id sandbox.Process
	spec.Started = func(p sandbox.Process) { id = p }
	res, err := s.Run(t.Context(), spec)
	if err == nil || errors.Is(err, proc.ErrSupervisorLost) || !strings.Contains(err.Error(), "the engine does not answer any more") {
		t.Errorf("%+v, %v", res, err)
	}
	if id.PID == 0 || id.Alive() {
		t.Errorf("its processes go on, while the engine hangs: %+v", id)
	}
	c := dockertest.Client(t, host)
	for _, left := range containers(t, c) {
		if err := c.ContainerRemove(t.Context(), left, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("not so after 20 seconds: %s", what)
		case <-tick.C:
		}
	}
}

// TestKilledFromOutside: somebody with the engine's rights is no candidate.
func TestKilledFromOutside(t *testing.T) {
	host := engine(t)
	c := dockertest.Client(t, host)
	spec := script(t, "echo x; sleep 1000")
	var once sync.Once
	spec.Log = logFunc(func() {
		once.Do(func() {
			for _, id := range containers(t, c) {
				if err := c.ContainerKill(t.Context(), id, "KILL"); err != nil {
					t.Error(err)
				}
			}
		})
	})
	res, err := box(t, host, docker.Options{}).Run(t.Context(), spec)
	if err == nil || errors.Is(err, proc.ErrSupervisorLost) || !strings.Contains(err.Error(), "killed from outside") {
		t.Errorf("%+v, %v", res, err)
	}
	if left := containers(t, c); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestFirstProcessCannotBeHurt: no signal from inside ends it, since it catches
// or ignores every one that can be, and none of its descriptors can be had.
func TestFirstProcessCannotBeHurt(t *testing.T) {
	spec := script(t, `n=1; while [ $n -lt 65 ]; do kill -$n 1 2>/dev/null; n=$((n+1)); done
cat /proc/1/environ /proc/1/maps /proc/1/mem 2>/dev/null && echo read
for fd in /proc/1/fd/*; do cat $fd 2>/dev/null && echo read $fd; (echo forged >$fd) 2>/dev/null && echo wrote $fd; done
exit 5`)
	res, err := box(t, engine(t), docker.Options{}).Run(t.Context(), spec)
	if err != nil || res.End != sandbox.Exited || res.Code != 5 || len(res.Stdout.Head) != 0 {
		t.Errorf("%s, code %d, %q, %v\n%s", res.End, res.Code, res.Stdout.Head, err, res.Stderr.Head)
	}
	spec = script(t, "while read key value; do case $key in SigIgn:|SigCgt:) echo 0x$value;; esac; done </proc/1/status")
	if res, err = box(t, engine(t), docker.Options{}).Run(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	dealt := uint64(1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1))
	for _, mask := range strings.Fields(string(res.Stdout.Head)) {
		bits, err := strconv.ParseUint(mask, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		dealt |= bits
	}
	if dealt != math.MaxUint64 {
		t.Errorf("it neither catches nor ignores %#x", ^dealt)
	}
}

// limitless reports whether an engine cannot limit anything, as a rootless one
// where control groups are of version 1, and that it is said.
func limitless(t *testing.T, s *docker.Sandbox) bool {
	t.Helper()
	if f := s.Facts(); f.LimitMemory && f.LimitPIDs && f.LimitCPU {
		return false
	}
	if missing := s.Isolation().Missing; !slices.Contains(missing, "memory or processes are not limited: this engine cannot") {
		t.Errorf("missing %q", missing)
	}
	return true
}

func TestLimitsHold(t *testing.T) {
	s := box(t, engine(t), docker.Options{Limits: docker.Limits{CPUs: 0.5, MemoryBytes: 64 << 20, PIDs: 64, Temporary: 256 << 20, SharedMemory: 1 << 20}})
	if limitless(t, s) {
		return
	}
	res, err := s.Run(t.Context(), script(t, "dd if=/dev/zero of=/tmp/x bs=1048576 count=200 2>/dev/null; exit 3"))
	if err != nil || !res.OOM || res.OK() { // dd is ended, or whoever has most besides
		t.Errorf("memory: %+v, %v", res, err)
	}
	// One program that takes more than all others is ended alone.
	res, err = s.Run(t.Context(), script(t, "dd if=/dev/zero of=/dev/null bs=200000000 count=1 2>/dev/null; exit 3"))
	if err != nil || !res.OOM || res.Code != 3 {
		t.Errorf("memory of one program: %+v, %v", res, err)
	}
	if res, err := docker.Unasked(s).Run(t.Context(), script(t, "dd if=/dev/zero of=/tmp/x bs=1048576 count=200 2>/dev/null; exit 3")); err == nil || !strings.Contains(err.Error(), "a limit that nobody chose (64 MiB") {
		t.Errorf("a limit that nobody chose: %+v, %v", res, err)
	}
	s = box(t, engine(t), docker.Options{Limits: docker.Limits{CPUs: 0.5, MemoryBytes: 64 << 20, PIDs: 64, Temporary: 256 << 20, SharedMemory: 1 << 20}})
	res, err = s.Run(t.Context(), script(t, "dd if=/dev/zero of=/dev/shm/x bs=1048576 count=2 2>/dev/null"))
	if err != nil || res.OOM || res.Code != 1 {
		t.Errorf("shared memory: %+v, %v", res, err)
	}
	// dd says nothing of it, but sh cannot fork any more.
	res, err = s.Run(t.Context(), script(t, "n=0; while [ $n -lt 200 ]; do sleep 100 & n=$((n+1)); done; exit 0"))
	if err != nil || res.Code == 0 || res.OOM {
		t.Errorf("processes: %+v, %v\n%s", res.End, err, res.Stderr.Head)
	}
	res, err = s.Run(t.Context(), script(t, "cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us"))
	if f := strings.Fields(string(res.Stdout.Head)); err != nil || len(f) != 2 || f[0] != "50000" || f[1] != "100000" {
		t.Errorf("processors: %q, %v", f, err)
	}
}

// TestMemoryOfAGroupAbove is a program that is within its limit and is ended all
// the same, since a control group that the container shares with others is full.
func TestMemoryOfAGroupAbove(t *testing.T) {
	host := engine(t)
	info, err := dockertest.Client(t, host).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 || info.CgroupDriver != "cgroupfs" {
		t.Log("only root makes control groups, and where systemd does not keep them")
		return
	}
	name := "bestof-test-" + strconv.Itoa(os.Getpid())
	dir, limit := filepath.Join("/sys/fs/cgroup", name), "memory.max"
	if info.CgroupVersion == "1" {
		dir, limit = filepath.Join("/sys/fs/cgroup/memory", name), "memory.limit_in_bytes"
	}
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, limit), []byte("134217728"), 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		all, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", name)) // each controller of version 1
		for _, one := range append(all, dir) {
			if err := os.Remove(one); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	s := docker.Below(box(t, host, docker.Options{Limits: docker.Limits{MemoryBytes: 512 << 20}}), "/"+name)
	const greedy = "dd if=/dev/zero of=/dev/null bs=200000000 count=1 2>/dev/null; exit 3"
	if res, err := s.Run(t.Context(), script(t, greedy)); err == nil || !strings.Contains(err.Error(), "a control group above is out of memory") {
		t.Errorf("%+v, %v", res, err)
	}
	// The group above is as it was, and the program is to blame.
	s = docker.Below(box(t, host, docker.Options{Limits: docker.Limits{MemoryBytes: 64 << 20}}), "/"+name)
	if res, err := s.Run(t.Context(), script(t, greedy)); err != nil || !res.OOM || res.OK() {
		t.Errorf("at its own limit: %+v, %v", res, err)
	}
	if left := containers(t, dockertest.Client(t, host)); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestFirstProcessWithoutMemory is a program that leaves none for anybody.
func TestFirstProcessWithoutMemory(t *testing.T) {
	s := box(t, engine(t), docker.Options{Limits: docker.Limits{MemoryBytes: 32 << 20, Temporary: 1 << 30}})
	if limitless(t, s) {
		return
	}
	res, err := s.Run(t.Context(), script(t, "while :; do dd if=/dev/zero of=/tmp/$$ bs=1048576 count=500 2>/dev/null; sh -c 'dd if=/dev/zero of=/tmp/y bs=65536 count=5000' 2>/dev/null & wait; exit 1; done"))
	if err != nil || !res.OOM || res.OK() {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestImageIsNotObeyed: what an image says of users, programs and disks is its
// own affair; its environment is the base of the program's.
func TestImageIsNotObeyed(t *testing.T) {
	host := engine(t)
	c := dockertest.Client(t, host)
	ref := "bestof-ci/stubborn:1"
	made, err := c.ContainerCreate(t.Context(), &container.Config{Image: os.Getenv(imageVariable), Cmd: []string{"/bin/true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: ref, Changes: []string{
		"VOLUME /data", "USER 12345:6", `ENTRYPOINT ["/bin/false"]`, `CMD ["x"]`, "ENV OWN=image HOME=/evil", "WORKDIR /data",
		"LABEL bestof.pid=1 bestof.run=another", `HEALTHCHECK --interval=1s CMD ["/bin/true"]`,
	}})
	if err := errors.Join(err, c.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = c.ImageRemove(context.WithoutCancel(t.Context()), ref, image.RemoveOptions{Force: true})
	})
	before := volumes(t, c)
	spec := script(t, `echo $(id -u) $OWN $HOME $(pwd); touch /data/x && cat /proc/mounts | grep -c ' /data tmpfs '`)
	s := box(t, host, docker.Options{Image: ref})
	res, err := s.Run(t.Context(), spec)
	uid := os.Getuid()
	if s.Facts().Rootless {
		uid = 0
	}
	want := strconv.Itoa(uid) + " image /home/candidate /workspace/x\n1\n"
	if err != nil || string(res.Stdout.Head) != want {
		t.Errorf("%q, want %q, %v\n%s", res.Stdout.Head, want, err, res.Stderr.Head)
	}
	if after := volumes(t, c); after != before {
		t.Errorf("%d volumes, before %d", after, before)
	}
}

func volumes(t *testing.T, c *client.Client) int {
	t.Helper()
	all, err := c.VolumeList(t.Context(), volume.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(all.Volumes)
}

// TestReap makes containers as orchestrators of several kinds leave them.
func TestReap(t *testing.T) {
	host := engine(t)
	c := dockertest.Client(t, host)
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	labels := func(pid int, start uint64, boot, space string) map[string]string {
		return map[string]string{
			"bestof.pid": strconv.Itoa(pid), "bestof.start": strconv.FormatUint(start, 10), "bestof.boot": boot, "bestof.pidns": space,
			"bestof.container": "x", "bestof.run": "r", "bestof.candidate": "c01", "bestof.test": t.Name(),
		}
	}
	unlike := labels(self.PID, self.StartTime+1, self.BootID, space)
	delete(unlike, "bestof.container")
	kept, dead := map[string]bool{}, map[string]bool{}
	for name, given := range map[string]map[string]string{
		"alive":             labels(self.PID, self.StartTime, self.BootID, space),
		"dead":              labels(self.PID, self.StartTime+1, self.BootID, space),
		"before boot":       labels(self.PID, self.StartTime, "another", space),
		"another namespace": labels(self.PID, self.StartTime+1, self.BootID, "pid:[1]"),
		"not ours":          unlike,
	} {
		made, err := c.ContainerCreate(t.Context(), &container.Config{Image: os.Getenv(imageVariable), Cmd: []string{"/bin/true"}, Labels: given}, nil, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.ContainerRemove(context.WithoutCancel(t.Context()), made.ID, container.RemoveOptions{Force: true})
		})
		if name == "dead" || name == "before boot" {
			dead[made.ID] = true
		} else {
			kept[made.ID] = true
		}
	}
	for _, dryRun := range []bool{true, false} {
		gone, err := docker.Reap(t.Context(), []string{"DOCKER_HOST=" + host}, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, g := range gone {
			if kept[g.ID] {
				t.Errorf("%s was taken", g.ID)
			}
			found[g.ID] = g.Run == "r" && g.Candidate == "c01"
		}
		there := containers(t, c)
		for id := range dead { // unless somebody else's gc came first
			if !found[id] && slices.Contains(there, id) {
				t.Errorf("dry run %v: %s was not found", dryRun, id)
			}
		}
	}
	left := containers(t, c)
	for _, id := range left {
		if !kept[id] {
			t.Errorf("%s is left", id)
		}
	}
	if len(left) != len(kept) {
		t.Errorf("left %d, want %d", len(left), len(kept))
	}
}

// TestRootThatIsAMount: a shadow of root's is an overlay, and must be free to
// be unmounted as soon as Run returns, whatever was left running in it.
func TestRootThatIsAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		return // whose shadows are copies
	}
	dir := t.TempDir()
	root, upper := filepath.Join(dir, "root"), filepath.Join(dir, "upper")
	for _, d := range []string{"lower", "upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lower/file"), []byte("base"), 0o644); err != nil {
		t.Fatal(err)
	}
	options := "lowerdir=" + filepath.Join(dir, "lower") + ",upperdir=" + upper + ",workdir=" + filepath.Join(dir, "work")
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) })
	spec := script(t, "cat file; echo changed >file; echo new >new; setsid sleep 1000 </dev/null & ls ..")
	spec.Root = root
	res, err := box(t, engine(t), docker.Options{}).Run(t.Context(), spec)
	if err != nil || string(res.Stdout.Head) != "basex\n" {
		t.Errorf("%q, %v\n%s", res.Stdout.Head, err, res.Stderr.Head)
	}
	if err := unix.Unmount(root, 0); err != nil {
		t.Errorf("unmount after Run: %v", err)
	}
	changed, err1 := os.ReadFile(filepath.Join(upper, "file"))
	created, err2 := os.ReadFile(filepath.Join(upper, "new"))
	if string(changed) != "changed\n" || string(created) != "new\n" {
		t.Errorf("upper layer: %q, %q, %v", changed, created, errors.Join(err1, err2))
	}
}

// TestRootOfAnotherPlace is an engine that sees other files under the same
// names: here one that sees what was there before.
func TestRootOfAnotherPlace(t *testing.T) {
	host := engine(t)
	p := dockertest.NewProxy(t, host, -1)
	s := box(t, p.Host, docker.Options{})
	spec := script(t, "echo ran")
	p.Before = func(request string) bool {
		if strings.Contains(request, "/start") {
			if err := errors.Join(os.Rename(spec.Root, spec.Root+".old"), os.Mkdir(spec.Root, 0o755)); err != nil {
				t.Error(err)
			}
		}
		return true
	}
	if res, err := s.Run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "the engine does not see the same files") {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestBindsAreReadOnlyAndRenamed shows a host directory elsewhere, and the name
// of the user.
func TestBindsAreReadOnlyAndRenamed(t *testing.T) {
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "file"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := script(t, "cat /given/file; echo x >/given/file; echo x >/given/new; id -un; exit 0")
	spec.Binds = []sandbox.Bind{{Source: from, Target: "/given"}}
	res, err := box(t, engine(t), docker.Options{Dir: t.TempDir()}).Run(t.Context(), spec)
	if err != nil || string(res.Stdout.Head) != "content\nalice\n" {
		t.Errorf("%q, %v\n%s", res.Stdout.Head, err, res.Stderr.Head)
	}
	entries, err := os.ReadDir(from)
	content, err2 := os.ReadFile(filepath.Join(from, "file"))
	if len(entries) != 1 || string(content) != "content\n" || err != nil || err2 != nil {
		t.Errorf("afterwards %v, %q", entries, content)
	}
	spec.Binds[0].Target = "/workspace/x/tool"
	if _, err := box(t, engine(t), docker.Options{}).Run(t.Context(), spec); err == nil {
		t.Error("a mount point in the shadow")
	}
}

var _ io.Writer = logFunc(nil)
