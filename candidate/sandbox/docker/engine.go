package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// How long an engine may take for one answer. Starting a container includes
// what the kernel and the runtime do for it, on a machine that is busy.
const (
	createWait = 30 * time.Second
	startWait  = 90 * time.Second
)

// Variables for tests of an engine that hangs.
var (
	askWait    = 10 * time.Second
	removeWait = 60 * time.Second
)

// oldestAPI is that of Docker 20.10.
const oldestAPI = "1.41"

// Facts are what an engine says about itself. It is asked once.
type Facts struct {
	Host          string `json:"host"`
	Version       string `json:"version"`
	Runc          string `json:"runc,omitempty"` // version of what starts containers, where that is runc
	API           string `json:"api"`            // as negotiated
	CgroupVersion string `json:"cgroup_version"`
	Storage       string `json:"storage"`
	Rootless      bool   `json:"rootless"`
	UserNamespace bool   `json:"user_namespace"` // it maps the users of containers to others
	Seccomp       bool   `json:"seccomp"`
	SELinux       bool   `json:"selinux"`
	Bridge        bool   `json:"bridge"` // there is a default network
	LimitMemory   bool   `json:"limit_memory"`
	LimitSwap     bool   `json:"limit_swap"`
	LimitPIDs     bool   `json:"limit_pids"`
	LimitCPU      bool   `json:"limit_cpu"`
	Memory        int64  `json:"memory"`  // bytes of the machine
	Desktop       bool   `json:"desktop"` // it runs in a virtual machine
}

// Words are the facts in one line.
func (f Facts) Words() string {
	kind := "rootful"
	if f.Rootless {
		kind = "rootless"
	}
	return fmt.Sprintf("docker %s (API %s, %s, cgroup v%s, %s)", f.Version, f.API, kind, f.CgroupVersion, f.Storage)
}

// Warning says of an engine's runc that ways out of its containers are known,
// or is empty. Distributions mend versions without changing their numbers.
func (f Facts) Warning() string {
	if !fallible(f.Runc) {
		return ""
	}
	return fmt.Sprintf("its runc %.40s is older than 1.2.8 and 1.3.3, which closed known ways out of a container (CVE-2024-21626, CVE-2025-31133, CVE-2025-52565, CVE-2025-52881): update it, unless your distribution has mended it", f.Runc)
}

var runcVersion = regexp.MustCompile(`^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})`)

// fallible reports whether a version of runc, such as "1.1.5+ds1", is older
// than those that https://github.com/opencontainers/runc/security/advisories
// names as mended. What is no version is not accused.
func fallible(version string) bool {
	m := runcVersion.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	var v [3]int
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1])
	}
	mended := [3]int{1, 2, 8}
	if v[0] == 1 && v[1] == 3 {
		mended = [3]int{1, 3, 3}
	}
	return slices.Compare(v[:], mended[:]) < 0
}

func unavailable(reason, remedy string) error {
	return &sandbox.Unavailable{Sandbox: "docker", Reason: reason, Remedy: remedy}
}

// dial makes a client of the operator's engine. It asks nothing yet.
func dial(environ []string) (*client.Client, error) {
	host, err := Host(environ)
	if err != nil {
		return nil, unavailable(err.Error(), "Set DOCKER_HOST to the unix socket of an engine on this machine.")
	}
	c, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation(), client.WithTraceProvider(nil))
	if err != nil {
		return nil, unavailable(err.Error(), "Set DOCKER_HOST to the unix socket of an engine on this machine.")
	}
	return c, nil
}

// Probe asks the operator's engine what it is. The error is a
// *sandbox.Unavailable when it cannot be used.
func Probe(ctx context.Context, environ []string) (Facts, error) {
	c, f, err := ask(ctx, environ)
	if err != nil {
		return f, err
	}
	return f, c.Close()
}

// ask finds the engine and asks it what it is.
func ask(ctx context.Context, environ []string) (*client.Client, Facts, error) {
	c, err := dial(environ)
	if err != nil {
		return nil, Facts{}, err
	}
	f, err := facts(ctx, c)
	if err != nil {
		c.Close()
		return nil, Facts{}, err
	}
	return c, f, nil
}

func facts(ctx context.Context, c *client.Client) (Facts, error) {
	limited, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	ping, err := c.Ping(limited)
	if err != nil {
		return Facts{}, silent(ctx, c.DaemonHost(), err)
	}
	c.NegotiateAPIVersionPing(ping)
	if tooOld(ping.APIVersion) {
		return Facts{}, unavailable(fmt.Sprintf("the engine speaks only API %.10q", ping.APIVersion), "Install Docker 20.10 or newer.")
	}
	info, err := c.Info(limited)
	if err != nil {
		return Facts{}, silent(ctx, c.DaemonHost(), err)
	}
	if info.OSType != "linux" {
		return Facts{}, unavailable(fmt.Sprintf("the engine runs containers of %.20q", info.OSType), "Switch it to Linux containers.")
	}
	f := Facts{
		Host: c.DaemonHost(), Version: info.ServerVersion, API: c.ClientVersion(), CgroupVersion: info.CgroupVersion, Storage: info.Driver,
		LimitMemory: info.MemoryLimit, LimitSwap: info.SwapLimit, LimitPIDs: info.PidsLimit, LimitCPU: info.CPUCfsQuota, Memory: info.MemTotal,
		Desktop: info.OperatingSystem == "Docker Desktop",
	}
	for _, o := range info.SecurityOptions {
		fields := strings.Split(o, ",")
		f.Rootless = f.Rootless || slices.Contains(fields, "name=rootless")
		f.UserNamespace = f.UserNamespace || slices.Contains(fields, "name=userns")
		f.SELinux = f.SELinux || slices.Contains(fields, "name=selinux")
		f.Seccomp = f.Seccomp || slices.Contains(fields, "name=seccomp") && !slices.Contains(fields, "profile=unconfined")
	}
	version, err := c.ServerVersion(limited)
	if err != nil {
		return Facts{}, silent(ctx, c.DaemonHost(), err)
	}
	for _, part := range version.Components {
		if part.Name == "runc" {
			f.Runc = oneLine(errors.New(part.Version))
		}
	}
	switch _, err := c.NetworkInspect(limited, "bridge", network.InspectOptions{}); {
	case err == nil:
		f.Bridge = true
	case !errdefs.IsNotFound(err):
		return Facts{}, silent(ctx, c.DaemonHost(), err)
	}
	return f, nil
}

// silent is the error of an engine that does not answer. A context that ended
// by itself stays what it is.
func silent(ctx context.Context, host string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var opened *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable("the engine at "+host+" does not answer", "Restart the engine.")
	case errdefs.IsPermissionDenied(err), errors.Is(err, fs.ErrPermission):
		return unavailable("this user may not use the engine at "+host, "Join the group of its socket, or use a rootless engine.")
	case client.IsErrConnectionFailed(err), errors.As(err, &opened) && opened.Op == "dial":
		return unavailable("there is no engine at "+host, "Start docker, or name its socket in DOCKER_HOST.")
	}
	return unavailable(oneLine(err), "See `docker info`.")
}

// tooOld compares "1.41"-like versions; what is none is too old.
func tooOld(api string) bool {
	number := func(s string) (major, minor int, ok bool) {
		a, b, _ := strings.Cut(s, ".")
		major, err1 := strconv.Atoi(a)
		minor, err2 := strconv.Atoi(b)
		return major, minor, err1 == nil && err2 == nil
	}
	major, minor, ok := number(api)
	wantMajor, wantMinor, _ := number(oldestAPI)
	return !ok || major < wantMajor || major == wantMajor && minor < wantMinor
}

// oneLine is what an engine said, as one line.
func oneLine(err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	const most = 500
	if len(line) > most {
		line = line[:most] + "…"
	}
	return line
}
