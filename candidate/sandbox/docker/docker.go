// Package docker runs programs in containers of a Docker engine: one container
// for each run, in which this program itself is the first process.
//
// # One run
//
//	create ─► attach ─► start ─► hello ─► job ─► go ─► output… ─► verdict ─► remove
//	                                                   │
//	                     the connection breaks ────────┴─► the first process ends, and with it
//	                                                       every process of the container
//
// The first process is this executable, mounted read-only, with
// proc.ContainArgs. It reaps, passes on what the program writes and says how it
// ended, over the attached streams. When this process dies the connection
// breaks, the engine closes the first process's stdin, and the container ends
// by itself; what is left of it then is a stopped container with our labels,
// which Reap removes.
package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/inside"
	"github.com/bestof-dev/bestof/candidate/sandbox/toolchain"
	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/seccomp"
)

// Options are what this sandbox needs besides sandbox.Options.
type Options struct {
	// Image is a reference or an id of an image that the engine has. Nothing
	// is pulled.
	Image string
	// Limits of each container.
	Limits Limits
	// Dir is a directory of the operator's own in which the engine finds the
	// few small files that containers are shown: /etc/passwd, /etc/group and,
	// without a network, /etc/hosts. They are named by content and never
	// changed. Empty shows the image's own, and the engine's hosts, for which
	// it takes its time.
	Dir string
}

// Limits of one container. A zero says what is meant by it.
type Limits struct {
	CPUs         float64 // how many processors' time; 0 is no limit
	MemoryBytes  int64   // memory and swap together; 0 is three quarters of the machine's
	PIDs         int64   // processes and threads; 0 is 4096
	Temporary    int64   // bytes in /tmp, and in /var/tmp, which count as memory; 0 is 1 GiB
	SharedMemory int64   // bytes in /dev/shm; 0 is 64 MiB
}

func (l Limits) check() error {
	const leastMemory = 16 << 20
	if l.CPUs < 0 || l.MemoryBytes < 0 || l.PIDs < 0 || l.Temporary < 0 || l.SharedMemory < 0 {
		return errors.New("a limit is negative")
	}
	if l.MemoryBytes > 0 && l.MemoryBytes < leastMemory {
		return fmt.Errorf("a memory limit of %d bytes is too small for anything", l.MemoryBytes)
	}
	if l.PIDs > 0 && l.PIDs < 32 {
		return fmt.Errorf("a limit of %d processes is too small for anything", l.PIDs)
	}
	return nil
}

func (l Limits) withDefaults(f Facts) Limits {
	fill := func(v *int64, standard int64) {
		if *v == 0 {
			*v = standard
		}
	}
	fill(&l.MemoryBytes, f.Memory/4*3)
	fill(&l.PIDs, 4096)
	fill(&l.Temporary, 1<<30)
	fill(&l.SharedMemory, 64<<20)
	return l
}

// An image is what was found of Options.Image.
type image struct {
	id      string
	env     []string
	volumes []string
}

// A Sandbox implements sandbox.Sandbox. Make one with New; it may be used
// concurrently and needs no closing.
type Sandbox struct {
	options sandbox.Options
	limits  Limits
	asked   bool // somebody chose the limit of memory
	facts   Facts
	client  *client.Client
	image   image
	tools   toolchain.Found
	self    string
	owner   owner
	files   []sandbox.Grant // what every container is shown of Options.Dir
	starts  chan struct{}   // as many containers are made at the same time as it has room
	named   string          // Options.Image
	warm    warm
	meminfo string // /proc/meminfo, but for tests
	watch   *watch // of the connection
	parent  string // control group of its containers, for tests; "" for the engine's own
}

// ErrNoImage means that nobody said what containers are made of.
var ErrNoImage error = &sandbox.Unavailable{Sandbox: "docker", Reason: "no image was chosen", Remedy: "Name one with --image that has what the task needs."}

// New finds the operator's engine, asks it once what it is, and looks for the
// image. The error is a *sandbox.Unavailable when there is no engine that can
// be used, or no such image.
func New(ctx context.Context, o sandbox.Options, d Options) (*Sandbox, error) {
	if err := d.Limits.check(); err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	if d.Image == "" {
		return nil, ErrNoImage
	}
	c, f, err := ask(ctx, o.Environ)
	if err != nil {
		return nil, err
	}
	s, err := newSandbox(ctx, c, f, o, d)
	if err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

func newSandbox(ctx context.Context, c *client.Client, f Facts, o sandbox.Options, d Options) (*Sandbox, error) {
	found, err := lookForImage(ctx, c, d.Image)
	if err != nil {
		return nil, err
	}
	self, err := proc.Executable()
	if err != nil {
		return nil, fmt.Errorf("docker: find this program: %w", err)
	}
	id, err := proc.Self()
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	own, err := ownerOf(id)
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	for _, p := range o.Read {
		if !filepath.IsAbs(p) || o.Hides(p) {
			return nil, fmt.Errorf("docker: path to read %q is relative or inside a hidden directory", p)
		}
	}
	if o.Base = found.env; o.Base == nil {
		o.Base = []string{}
	}
	s := &Sandbox{
		options: o, limits: d.Limits.withDefaults(f), asked: d.Limits.MemoryBytes > 0, facts: f, client: c, image: found, tools: toolchain.Find(o), self: self, owner: own,
		starts: make(chan struct{}, 2*runtime.NumCPU()), named: d.Image, watch: newWatch(c), meminfo: "/proc/meminfo",
	}
	if d.Dir != "" {
		if err := s.keepFiles(d.Dir); err != nil {
			return nil, fmt.Errorf("docker: %w", err)
		}
	}
	return s, nil
}

func lookForImage(ctx context.Context, c *client.Client, name string) (image, error) {
	limited, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	i, err := c.ImageInspect(limited, name)
	if errdefs.IsNotFound(err) {
		return image{}, unavailable(fmt.Sprintf("the engine has no image %.200q", name), "Pull or build it first.")
	}
	if err != nil {
		return image{}, silent(ctx, c.DaemonHost(), err)
	}
	found := image{id: i.ID}
	if i.Config != nil {
		found.env = i.Config.Env
		for dir := range i.Config.Volumes {
			found.volumes = append(found.volumes, dir)
		}
	}
	return found, nil
}

// hostsPath is where an engine shows its own file, unless it disables the network.
const hostsPath = "/etc/hosts"

// keepFiles writes an /etc/passwd and an /etc/group that know the programs'
// user, since some programs do not work for a user without a name, and hosts
// for the programs that have no network.
func (s *Sandbox) keepFiles(dir string) error {
	uid, gid := s.user()[0], s.user()[1]
	name := s.options.User()
	passwd := fmt.Appendf(nil, "%s:x:%d:%d::/home/candidate:/bin/sh\n", name, uid, gid)
	group := fmt.Appendf(nil, "%s:x:%d:\n", name, gid)
	if uid != 0 {
		passwd = append(passwd, "root:x:0:0:root:/:/usr/sbin/nologin\n"...)
	}
	if gid != 0 {
		group = append(group, "root:x:0:\n"...)
	}
	passwd = append(passwd, "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"...)
	group = append(group, "nogroup:x:65534:\n"...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	hosts := []byte("127.0.0.1\tlocalhost " + hostName + "\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	for target, data := range map[string][]byte{"/etc/passwd": passwd, "/etc/group": group, hostsPath: hosts} {
		sum := sha256.Sum256(data)
		source := filepath.Join(dir, filepath.Base(target)+"-"+hex.EncodeToString(sum[:8]))
		if have, err := os.ReadFile(source); err != nil || !bytes.Equal(have, data) {
			if err := atomicfile.Write(source, data, 0o444); err != nil {
				return err
			}
		}
		s.files = append(s.files, sandbox.Grant{Source: source, Target: target})
	}
	return nil
}

// user is who programs are: the caller. The root of a rootless engine's
// containers is the caller already.
func (s *Sandbox) user() [2]int {
	if s.facts.Rootless {
		return [2]int{0, 0}
	}
	return [2]int{os.Geteuid(), os.Getegid()}
}

// Base is the environment of the image, for sandbox.Options.Base.
func (s *Sandbox) Base() []string { return s.options.Base }

// Facts are what the engine said about itself.
func (s *Sandbox) Facts() Facts { return s.facts }

// Isolation implements sandbox.Sandbox.
func (s *Sandbox) Isolation() sandbox.Isolation {
	i := sandbox.Isolation{
		Name: "docker", Filesystem: true, Processes: true, Network: true,
		Summary: fmt.Sprintf("a container of %s for each program, %s: read-only image, only the shadow and its HOME writable, no capabilities", s.named, s.facts.Words()),
		Missing: []string{
			"disk is not limited",
			"a fault in the kernel's own isolation, or in the engine, is a way out",
		},
	}
	if !s.facts.LimitMemory || !s.facts.LimitPIDs {
		i.Missing = append(i.Missing, "memory or processes are not limited: this engine cannot")
	}
	if !s.facts.Seccomp && !seccomp.Supported {
		i.Missing = append(i.Missing, "system calls are not filtered: neither this engine nor bestof can")
	}
	return i
}

// Run implements sandbox.Sandbox. Spec.Timeout and Result.Duration are about
// the program: what the engine needs to make a container is not counted.
func (s *Sandbox) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Result, error) {
	res, err := s.run(ctx, spec)
	if err != nil {
		return res, fmt.Errorf("docker sandbox: %w", err)
	}
	return res, nil
}

var stopped = sandbox.Result{End: sandbox.Stopped}

func (s *Sandbox) run(ctx context.Context, spec sandbox.Spec) (_ sandbox.Result, err error) {
	if err := spec.Check(); err != nil {
		return sandbox.Result{}, err
	}
	if len(spec.Enter.Argv) > 0 || spec.Enter.Host != "" {
		return sandbox.Result{}, errors.New("an engine cannot see what is mounted in namespaces of ours: choose another kind of shadow")
	}
	network := spec.ToolsNetwork()
	spec, done, err := inside.Wrap(spec, true)
	if err != nil {
		return sandbox.Result{}, err
	}
	dir, reason, err := spec.Dir()
	if err != nil {
		return sandbox.Result{}, err
	}
	if reason != "" {
		return sandbox.Result{End: sandbox.NotRun, Reason: reason}, nil
	}
	if err := sandbox.PrepareHome(spec.Home); err != nil {
		return sandbox.Result{}, err
	}
	one := rand.Text()
	p, places, err := s.settle(spec, one)
	if err != nil {
		return sandbox.Result{}, err
	}
	c := s.warmed(ctx, spec.Root, p)
	warm := c != nil
	if c == nil {
		if c, err = s.begin(ctx, p, one); err != nil {
			return sandbox.Result{}, err
		} else if c == nil {
			return stopped, nil
		}
	}
	var first sandbox.Process
	defer func() {
		if failed := s.drop(ctx, c); failed != nil {
			err = errors.Join(err, failed, endWithout(first))
		}
	}()
	defer c.conn.Close()
	if first, err = s.tellStarted(ctx, c.id, spec.Started); err != nil {
		if ctx.Err() != nil {
			return stopped, nil
		}
		return sandbox.Result{}, err
	}
	at := spec.Place()
	command := spec.Command(spec.Argv, at.Root+strings.TrimPrefix(dir, spec.Root), s.options.Environment(spec, s.tools.Env(at.Home, network)))
	command.Offline = spec.Network == sandbox.NetworkNone
	out := &demux{r: c.conn.Reader}
	working, worked := s.watch.during(ctx)
	defer worked()
	defer context.AfterFunc(working, func() {
		if hung(working, working.Err()) == errHung {
			c.conn.Close()
		}
	})()
	ran, err := proc.RunContained(ctx, command, places, c.conn.Conn, out)
	if err := hung(working, err); err == errHung {
		return sandbox.Result{}, errors.Join(fmt.Errorf("%w: it was given up while its container worked", err), endWithout(first))
	}
	if err == nil && ran.OOM {
		err = s.memoryFault(ran.OOMOutside)
	}
	res, err := done(s.judge(ctx, c.id, sandbox.Ended(ran), err, out))
	res.Warm = warm
	return res, err
}

// settle looks at the paths of a spec and plans its container.
func (s *Sandbox) settle(spec sandbox.Spec, one string) (plan, []proc.Seen, error) {
	r := settled{spec: spec, self: s.self, user: s.user(), labels: withLabels(s.owner, spec, one)}
	for _, g := range s.options.Read {
		if source, err := filepath.EvalSymlinks(g); err == nil { // it may have gone away
			r.grants = append(r.grants, sandbox.Grant{Source: source, Target: filepath.Clean(g)})
		}
	}
	for _, b := range spec.Binds {
		source, err := filepath.EvalSymlinks(b.Source)
		if err != nil {
			return plan{}, nil, fmt.Errorf("bind %s: %w", b.Source, err)
		}
		r.grants = append(r.grants, sandbox.Grant{Source: source, Target: b.Target})
	}
	r.masks = s.options.Masks(r.grants)
	for _, f := range s.files {
		if f.Target != hostsPath || spec.Network == sandbox.NetworkNone {
			r.grants = append(r.grants, f)
		}
	}
	at := spec.Place()
	root, err1 := proc.Look(spec.HostRoot(), at.Root)
	if spec.Enter.Layered() {
		root.Dev = 0 // an overlay's root has the inode of its upper layer
	}
	home, err2 := proc.Look(spec.Home, at.Home)
	if err := errors.Join(err1, err2); err != nil {
		return plan{}, nil, err
	}
	p, err := s.planned(r)
	return p, []proc.Seen{root, home}, err
}

// create makes the container. It goes on when ctx ends: otherwise nobody would
// know whether there is one.
func (s *Sandbox) create(ctx context.Context, p plan, one string) (string, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), createWait)
	defer cancel()
	config, host := *p.config, *p.host // the library changes what it is given
	made, err := s.client.ContainerCreate(limited, &config, &host, nil, nil, "")
	if err != nil {
		said := engineError(limited, "make a container", err)
		if !errdefs.IsInvalidArgument(err) && !errdefs.IsNotFound(err) {
			if err := removeLabelled(ctx, s.client, one); err != nil {
				said = errors.Join(said, fmt.Errorf("remove what was made: %s", oneLine(err)))
			}
		}
		return "", said
	}
	return made.ID, nil
}

// start attaches to the container, so that nothing it says is lost, and starts
// it.
func (s *Sandbox) start(ctx context.Context, id string) (conn types.HijackedResponse, err error) {
	limited, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	conn, err = s.client.ContainerAttach(limited, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return conn, engineError(limited, "attach to its container", err)
	}
	if err := s.client.ContainerStart(limited, id, container.StartOptions{}); err != nil {
		conn.Close()
		err = engineError(limited, "start its container", err)
		if strings.Contains(err.Error(), initPath) {
			err = fmt.Errorf("%w (bestof itself has to be a static executable: build it with CGO_ENABLED=0)", err)
		}
		return conn, err
	}
	return conn, nil
}

func engineError(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: the engine does not answer", what)
	}
	return fmt.Errorf("%s: %s", what, oneLine(err))
}

// tellStarted says which process of this machine the first one is, where the
// engine's processes can be seen from here, and returns it; none is no error.
// The program has not begun yet.
func (s *Sandbox) tellStarted(ctx context.Context, id string, started func(sandbox.Process)) (none sandbox.Process, err error) {
	if started == nil {
		return none, nil
	}
	state, err := s.state(ctx, id)
	if err != nil {
		return none, err
	}
	p, err := proc.Identify(state.Pid)
	if err != nil {
		return none, nil // it is already gone, or is none of ours to see
	}
	if !belongs(state.Pid, id) {
		return none, nil // the engine's pids are not this machine's
	}
	started(p)
	return p, nil
}

// belongs reports whether a process of this machine is in a container: in its
// control group, or, with an engine that makes none, the first of a process
// namespace and among the container's mounts. Those alone say nothing: an
// engine's mounts can be seen by others, too, and its pids need not be ours.
func belongs(pid int, id string) bool {
	of := func(name string) string {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name) // what cannot be read says nothing
		return string(text)
	}
	return strings.Contains(of("cgroup"), id) || firstOfNamespace(of("status")) && strings.Contains(of("mountinfo"), id)
}

// firstOfNamespace reads in a /proc/PID/status, by proc_pid_status(5), whether it
// is of the first process of a PID namespace below this one.
func firstOfNamespace(status string) bool {
	for line := range strings.Lines(status) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(pids)
			return len(all) > 1 && all[len(all)-1] == "1"
		}
	}
	return false
}

// endWithout ends a container's processes where its engine does not: they are
// processes of this machine, and of this user. The first one may not be known.
func endWithout(first sandbox.Process) error {
	if first.PID == 0 {
		return nil
	}
	_, err := proc.Reap(first)
	return err
}

func (s *Sandbox) state(ctx context.Context, id string) (*container.State, error) {
	limited, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	seen, err := s.client.ContainerInspect(limited, id)
	if err != nil {
		return nil, engineError(limited, "look at its container", err)
	}
	if seen.ContainerJSONBase == nil || seen.State == nil {
		return nil, errors.New("look at its container: the engine says nothing of its state")
	}
	return seen.State, nil
}

// memoryFault is the error of a program that the memory killer ended and that
// is not to blame for it: the machine had no memory left, or it went to a limit
// that nobody chose. It is nil for one that went to its own.
func (s *Sandbox) memoryFault(outside bool) error {
	switch {
	case outside:
		return errors.New("the kernel ended programs in its container, which was within its own limit: the machine or a control group above is out of memory")
	case !s.asked:
		return fmt.Errorf("the kernel ended programs in its container, at a limit that nobody chose (%d MiB, most of this machine): give one with --memory, or run fewer at a time", s.limits.MemoryBytes>>20)
	}
	return nil
}

// judge says what a run without a verdict was.
func (s *Sandbox) judge(ctx context.Context, id string, res sandbox.Result, err error, out *demux) (sandbox.Result, error) {
	switch {
	case errors.Is(err, proc.ErrContainerSilent) && res.End != "" && res.End != sandbox.Exited:
		res.Code, res.Signal = 0, 9 // it is killed from here, with all it has
		return res, nil
	case !errors.Is(err, proc.ErrSupervisorLost):
		return res, err
	}
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWait)
	defer cancel()
	done, failed := s.client.ContainerWait(ended, id, container.WaitConditionNotRunning)
	select {
	case <-done:
	case waitErr := <-failed:
		return res, engineError(ended, "the engine went away", waitErr)
	}
	state, stateErr := s.state(ended, id)
	switch {
	case stateErr != nil:
		return res, stateErr
	case state.OOMKilled:
		res.End, res.Code, res.Signal, res.OOM = sandbox.Exited, 0, 9, true
		return res, s.memoryFault(false)
	case state.ExitCode == 128+9:
		// Nothing inside can send this signal to the first process.
		return res, errors.New("its container was killed from outside")
	}
	return res, fmt.Errorf("%w (status %d: %.300q)", err, state.ExitCode, out.said)
}

var _ io.Reader = (*demux)(nil)
