package docker

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
)

// initPath is where a container has this program as its first process.
const initPath = "/.bestof-init"

// hostName of every container.
const hostName = "sandbox"

// A plan is one container to be made. It is decided without asking anybody.
type plan struct {
	config *container.Config
	host   *container.HostConfig
	volume string // the overlay's; "" for none
}

// A settled spec is one whose paths on this machine have been looked at.
type settled struct {
	spec   sandbox.Spec
	self   string          // this executable
	user   [2]int          // uid and gid of programs
	grants []sandbox.Grant // to be seen read-only, links in sources resolved
	masks  []sandbox.Mask
	labels map[string]string
}

// planned decides everything about the container of one run.
func (s *Sandbox) planned(r settled) (plan, error) {
	at := r.spec.Place()
	host := &container.HostConfig{
		NetworkMode:    "none",
		IpcMode:        "private",
		CgroupnsMode:   "private",
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges:true"},
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Init:           new(bool),
		Tmpfs:          map[string]string{},
		ShmSize:        s.limits.SharedMemory,
		Resources:      s.resources(),
	}
	if r.spec.Network == sandbox.NetworkHost {
		if !s.facts.Bridge {
			return plan{}, fmt.Errorf("the engine has no network %q that would reach anything", "bridge")
		}
		host.NetworkMode = "bridge"
	}
	if s.facts.UserNamespace {
		host.UsernsMode = "host" // or the shadow would belong to somebody else
	}
	if !s.facts.SELinux {
		// Settings of the kernel belong to root's uid, whatever its
		// capabilities. A runtime sets a process's SELinux label through /proc
		// after this, so there the engine's own list has to do.
		host.ReadonlyPaths = []string{"/proc"}
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		host.Tmpfs[dir] = fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", s.limits.Temporary)
	}
	for _, dir := range s.image.volumes { // otherwise the engine makes a disk of its own for each
		if dir = path.Clean("/" + dir); dir != "/" && host.Tmpfs[dir] == "" {
			host.Tmpfs[dir] = fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", s.limits.Temporary)
		}
	}
	mounts, err := mountsOf(r, at)
	if err != nil {
		return plan{}, err
	}
	for _, m := range mounts {
		delete(host.Tmpfs, m.Target)
	}
	host.Mounts = mounts
	volume := ""
	if r.spec.Enter.Layered() {
		volume = volumeOf(r.spec.Enter)
	}
	stop := 1
	return plan{
		config: &container.Config{
			Hostname: hostName, Image: s.image.id, User: strconv.Itoa(r.user[0]) + ":" + strconv.Itoa(r.user[1]), WorkingDir: "/",
			Entrypoint: append([]string{initPath}, proc.ContainArgs()...), Cmd: []string{},
			AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true,
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, StopSignal: "SIGKILL", StopTimeout: &stop,
			Labels: r.labels,
			// The runtime then makes a network namespace with a loopback, and the
			// engine, which would take longer over it than over all the rest, adds
			// nothing: not even the hosts that a container has otherwise.
			NetworkDisabled: r.spec.Network == sandbox.NetworkNone && len(s.files) > 0,
		},
		host: host, volume: volume,
	}, nil
}

// resources are the limits of one container.
func (s *Sandbox) resources() container.Resources {
	res := container.Resources{CgroupParent: s.parent} // files and cores are limited by the first process: an engine may not be allowed to
	if s.facts.LimitPIDs {
		res.PidsLimit = &s.limits.PIDs
	}
	if s.facts.LimitMemory {
		res.Memory = s.limits.MemoryBytes
		if s.facts.LimitSwap {
			res.MemorySwap = s.limits.MemoryBytes // together: no swap
		}
	}
	if s.facts.LimitCPU {
		res.NanoCPUs = int64(s.limits.CPUs * 1e9)
	}
	return res
}

// mountsOf lists everything of this machine that a container sees: what was
// granted, with holes where something is hidden, and then what it may write to.
// The engine puts outer mounts before inner ones.
func mountsOf(r settled, at sandbox.Place) ([]mount.Mount, error) {
	mounts := map[string]mount.Mount{}
	bind := func(source, target string, readOnly bool) {
		mounts[target] = mount.Mount{
			Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
			// Engines up to 24 leave what is mounted below writable.
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
		}
	}
	for _, g := range r.grants {
		for _, own := range []string{at.Root, at.Home} {
			if sandbox.Within(own, g.Target) {
				return nil, fmt.Errorf("%s cannot be shown inside %s: the engine would make a mount point there", g.Target, own)
			}
		}
		bind(g.Source, g.Target, true)
	}
	for _, m := range r.masks {
		if m.File {
			bind("/dev/null", m.Target, true)
			continue
		}
		mounts[m.Target] = mount.Mount{Type: mount.TypeTmpfs, Target: m.Target, ReadOnly: true, TmpfsOptions: &mount.TmpfsOptions{SizeBytes: 1 << 20, Mode: 0o555}}
	}
	bind(r.self, initPath, true)
	if r.spec.Enter.Layered() {
		mounts[at.Root] = overlay(r, at.Root)
	} else {
		bind(r.spec.Root, at.Root, false)
	}
	bind(r.spec.Home, at.Home, false)
	if sandbox.Within(at.Root, at.Home) || sandbox.Within(at.Home, at.Root) {
		return nil, fmt.Errorf("the home %s and the root %s cannot be inside each other", at.Home, at.Root)
	}
	var all []mount.Mount
	for _, target := range slices.Sorted(maps.Keys(mounts)) {
		all = append(all, mounts[target])
	}
	return all, nil
}
