package docker

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/mount"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
)

// SetAskWait makes engines that hang known sooner.
func SetAskWait(t *testing.T, d time.Duration) {
	was := askWait
	askWait = d
	t.Cleanup(func() { askWait = was })
}

func digestOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func TestHost(t *testing.T) {
	home, run := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(".docker/config.json", `{"currentContext":"mine","auths":{}}`)
	meta := func(name, host string) {
		write(filepath.Join(".docker/contexts/meta", digestOf(name), "meta.json"), `{"Name":"`+name+`","Metadata":{},"Endpoints":{"docker":{"Host":"`+host+`","SkipTLSVerify":false}}}`)
	}
	meta("mine", "unix:///mine.sock")
	meta("far", "ssh://me@far")
	meta("empty", "")
	for _, c := range []struct {
		environ string
		want    string
		fails   string
	}{
		{environ: "DOCKER_HOST=unix:///a.sock HOME=" + home, want: "unix:///a.sock"},
		{environ: "DOCKER_HOST=tcp://127.0.0.1:2375", fails: "only one on a unix socket"},
		{environ: "DOCKER_HOST=unix://relative", fails: "not an absolute path"},
		{environ: "HOME=" + home, want: "unix:///mine.sock"},
		{environ: "HOME=" + home + " DOCKER_CONTEXT=far", fails: `"ssh"`},
		{environ: "HOME=" + home + " DOCKER_CONTEXT=gone", fails: `there is no docker context "gone"`},
		{environ: "HOME=" + home + " DOCKER_CONTEXT=empty", fails: "names no engine"},
		{environ: "HOME=" + home + " DOCKER_CONTEXT=../..", fails: "no valid name"},
		{environ: "HOME=" + home + " DOCKER_CONTEXT=default", want: defaultHost},
		{environ: "DOCKER_CONFIG=" + home + "/.docker", want: "unix:///mine.sock"},
		{environ: "HOME=/none XDG_RUNTIME_DIR=" + run, want: defaultHost},
		{environ: "", want: defaultHost},
	} {
		got, err := Host(strings.Fields(c.environ))
		if got != c.want || (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v, want %q %q", c.environ, got, err, c.want, c.fails)
		}
	}
	write(".docker/config.json", "{")
	if got, err := Host([]string{"HOME=" + home}); err == nil {
		t.Errorf("broken settings: %q", got)
	}
}

func TestTooOld(t *testing.T) {
	for api, want := range map[string]bool{"1.41": false, "1.50": false, "2.0": false, "1.40": true, "1.9": true, "0.99": true, "": true, "x": true, "1": true, "1.x": true} {
		if got := tooOld(api); got != want {
			t.Errorf("%q: %v", api, got)
		}
	}
}

func modern() *Sandbox {
	f := Facts{Bridge: true, LimitMemory: true, LimitSwap: true, LimitPIDs: true, LimitCPU: true, Memory: 4 << 30, Seccomp: true}
	return &Sandbox{facts: f, limits: Limits{CPUs: 1.5}.withDefaults(f), image: image{id: "sha256:1", volumes: []string{"/data", "tmp/", "/"}}}
}

func someSpec() settled {
	return settled{
		spec: sandbox.Spec{Root: "/scratch/root", Home: "/scratch/home", Seen: sandbox.Place{Root: "/workspace/x", Home: "/home/candidate"}, Network: sandbox.NetworkNone},
		self: "/usr/bin/bestof", user: [2]int{1000, 100}, labels: map[string]string{"bestof.run": "r1"},
		grants: []sandbox.Grant{{Source: "/opt/t", Target: "/opt/t"}},
		masks:  []sandbox.Mask{{Target: "/opt/t/secret", File: true}, {Target: "/opt/t/hidden"}},
	}
}

func TestWarning(t *testing.T) {
	for version, want := range map[string]bool{
		"1.1.5+ds1": true, "1.1.5+ds1-1+deb12u1": true, "1.0.0-rc93": true, "1.2.7": true, "1.2.8": false, "v1.2.9": false, "1.3.2": true, "1.3.3": false, "1.4.0": false, "2.0.0": false,
		"": false, "devel": false, "9": false,
	} {
		if got := (Facts{Runc: version}).Warning() != ""; got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

// TestNothingIsDoneInsideAContainer: an engine that reads, writes or starts
// something inside a container follows what a candidate left there, with
// root's rights. Nothing here asks it to.
func TestNothingIsDoneInsideAContainer(t *testing.T) {
	seen := 0
	if err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "dockertest") {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch name := s.Sel.Name; {
			case name == "CopyToContainer", name == "CopyFromContainer", strings.HasPrefix(name, "ContainerExec"),
				name == "ContainerStatPath", name == "ContainerExport", name == "ContainerCommit", name == "ContainerDiff":
				t.Errorf("%s calls %s", file, name)
			case name == "ContainerCreate":
				seen++
			}
			return true
		})
		return nil
	}); err != nil || seen == 0 {
		t.Errorf("%v, %d containers are made", err, seen)
	}
}

// TestPlanGrantsNothingElse lists everything that could open a container.
func TestPlanGrantsNothingElse(t *testing.T) {
	p, err := modern().planned(someSpec())
	if err != nil {
		t.Fatal(err)
	}
	h, c := p.host, p.config
	for what, ok := range map[string]bool{
		"no network":          h.NetworkMode == "none",
		"no capabilities":     slices.Equal(h.CapDrop, []string{"ALL"}) && len(h.CapAdd) == 0 && !h.Privileged,
		"no new privileges":   slices.Equal(h.SecurityOpt, []string{"no-new-privileges:true"}),
		"read-only":           h.ReadonlyRootfs && slices.Contains(h.ReadonlyPaths, "/proc") && h.MaskedPaths == nil,
		"own namespaces":      h.IpcMode == "private" && h.CgroupnsMode == "private" && h.PidMode == "" && h.UTSMode == "" && h.UsernsMode == "",
		"nothing of others":   h.Binds == nil && h.VolumesFrom == nil && h.Devices == nil && h.DeviceRequests == nil && h.Links == nil && h.PortBindings == nil && h.GroupAdd == nil,
		"no log":              h.LogConfig.Type == "none",
		"no init":             h.Init != nil && !*h.Init,
		"not removed for us":  !h.AutoRemove && h.RestartPolicy.Name == "no",
		"processes":           *h.PidsLimit == 4096,
		"memory and swap":     h.Memory == 3<<30 && h.MemorySwap == 3<<30,
		"processors":          h.NanoCPUs == 1.5e9,
		"user":                c.User == "1000:100",
		"its own first":       slices.Equal(c.Entrypoint, append([]string{initPath}, proc.ContainArgs()...)) && c.Cmd != nil && len(c.Cmd) == 0,
		"no health":           slices.Equal(c.Healthcheck.Test, []string{"NONE"}),
		"stdin ends with us":  c.OpenStdin && c.StdinOnce && !c.Tty,
		"host name":           c.Hostname == hostName,
		"labels":              c.Labels["bestof.run"] == "r1",
		"volumes are no disk": h.Tmpfs["/data"] != "" && h.Tmpfs["/tmp"] != "" && h.Tmpfs["/"] == "" && strings.Contains(h.Tmpfs["/tmp"], "mode=1777"),
	} {
		if !ok {
			t.Errorf("%s: %+v %+v", what, h, c)
		}
	}
	var got []string
	for _, m := range h.Mounts {
		mode := " rw"
		if m.ReadOnly {
			mode = " ro"
		}
		got = append(got, string(m.Type)+" "+m.Source+" "+m.Target+mode)
		if m.Type == mount.TypeBind && (m.BindOptions == nil || !m.BindOptions.NonRecursive || m.BindOptions.Propagation != mount.PropagationRPrivate) {
			t.Errorf("%s: what is mounted below it comes with it", m.Target)
		}
	}
	want := []string{
		"bind /usr/bin/bestof /.bestof-init ro",
		"bind /scratch/home /home/candidate rw",
		"bind /opt/t /opt/t ro",
		"tmpfs  /opt/t/hidden ro",
		"bind /dev/null /opt/t/secret ro",
		"bind /scratch/root /workspace/x rw",
	}
	if !slices.Equal(got, want) {
		t.Errorf("mounts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPlanFollowsTheEngine(t *testing.T) {
	s := modern()
	s.facts.UserNamespace, s.facts.SELinux, s.facts.LimitSwap, s.facts.LimitPIDs, s.facts.LimitCPU = true, true, false, false, false
	r := someSpec()
	r.spec.Network = sandbox.NetworkHost
	p, err := s.planned(r)
	if err != nil {
		t.Fatal(err)
	}
	if h := p.host; h.NetworkMode != "bridge" || h.UsernsMode != "host" || h.ReadonlyPaths != nil || h.MemorySwap != 0 || h.PidsLimit != nil || h.NanoCPUs != 0 {
		t.Errorf("%+v", h)
	}
	s.facts.LimitMemory, s.facts.Bridge = false, false
	if _, err := s.planned(r); err == nil {
		t.Error("a network that is not there")
	}
	if i := s.Isolation(); !slices.ContainsFunc(i.Missing, func(m string) bool { return strings.Contains(m, "not limited: this engine cannot") }) {
		t.Errorf("missing %q", i.Missing)
	}
}

func TestPlanRefusesMountPointsInTheShadow(t *testing.T) {
	for _, target := range []string{"/workspace/x/tool", "/home/candidate/tool", "/workspace/x"} {
		r := someSpec()
		r.grants = append(r.grants, sandbox.Grant{Source: "/opt/u", Target: target})
		if _, err := modern().planned(r); err == nil || !strings.Contains(err.Error(), "mount point") {
			t.Errorf("%s: %v", target, err)
		}
	}
	r := someSpec()
	r.spec.Seen.Home = "/workspace/x/home"
	if _, err := modern().planned(r); err == nil {
		t.Error("a home inside the root")
	}
}

func TestLimits(t *testing.T) {
	for _, l := range []Limits{{CPUs: -1}, {MemoryBytes: -1}, {MemoryBytes: 1 << 20}, {PIDs: 3}, {PIDs: -1}, {Temporary: -1}, {SharedMemory: -1}} {
		if l.check() == nil {
			t.Errorf("%+v", l)
		}
	}
	if err := (Limits{CPUs: 0.5, MemoryBytes: 64 << 20, PIDs: 64}).check(); err != nil {
		t.Error(err)
	}
}

func TestOwner(t *testing.T) {
	alive := func(id proc.Identity) bool { return id.PID == 10 }
	self := owner{proc.Identity{PID: 10, StartTime: 5, BootID: "boot"}, "pid:[1]"}
	for name, c := range map[string]struct {
		pid   int
		boot  string
		space string
		dead  bool
	}{
		"ourselves":             {10, "boot", "pid:[1]", false},
		"a dead one":            {11, "boot", "pid:[1]", true},
		"before the last boot":  {10, "old", "pid:[1]", true},
		"of another namespace":  {11, "boot", "pid:[2]", false},
		"of another, long gone": {11, "old", "pid:[2]", true},
	} {
		o := owner{proc.Identity{PID: c.pid, StartTime: 5, BootID: c.boot}, c.space}
		labels := withLabels(o, sandbox.Spec{Labels: map[string]string{"bestof.run": "r", labelOwner: "1", "com.docker.compose.project": "x"}}, "one")
		read, ours := readOwner(labels)
		if !ours || read != o || labels["bestof.run"] != "r" || labels["com.docker.compose.project"] != "" {
			t.Errorf("%s: %+v of %v", name, read, labels)
		}
		if got := read.dead(self, alive); got != c.dead {
			t.Errorf("%s: dead is %v", name, got)
		}
	}
	for _, missing := range []string{labelOwner, labelStart, labelBoot, labelSpace, labelOne} {
		labels := withLabels(self, sandbox.Spec{}, "one")
		labels[missing] = ""
		if _, ours := readOwner(labels); ours {
			t.Errorf("ours without %s", missing)
		}
	}
}

func piece(stream byte, data string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(data))), data...)
}

func TestDemux(t *testing.T) {
	long := strings.Repeat("e", 3*maxSaid)
	in := slices.Concat(piece(1, "ab"), piece(2, "oh"), piece(1, ""), piece(2, long), piece(1, "cd"))
	d := &demux{r: bytes.NewReader(in)}
	got, err := io.ReadAll(d)
	if err != nil || string(got) != "abcd" || len(d.said) != maxSaid || !strings.HasPrefix(string(d.said), "ohee") {
		t.Errorf("%q, %d of stderr, %v", got, len(d.said), err)
	}
	if _, err := io.ReadAll(&demux{r: bytes.NewReader(piece(7, "x"))}); !errors.Is(err, errDemux) {
		t.Errorf("another stream: %v", err)
	}
}

func FuzzDemux(f *testing.F) {
	f.Add(slices.Concat(piece(1, "ab"), piece(2, "oh"), piece(1, "cd")))
	f.Add([]byte{2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &demux{r: bytes.NewReader(b)}
		got, _ := io.ReadAll(d)
		if len(got)+len(d.said) > len(b) || len(d.said) > maxSaid {
			t.Fatalf("%d bytes became %d and %d", len(b), len(got), len(d.said))
		}
	})
}

// TestBelongs: mounts alone make no process one of a container, or else one of
// this machine could be ended in its place.
func TestBelongs(t *testing.T) {
	if belongs(os.Getpid(), " /dev/shm ") { // no name of a control group
		t.Error("this process is taken for a container's by its mounts")
	}
	for status, want := range map[string]bool{
		"Name:\tx\nNSpid:\t812\t1\n": true, "NSpid:\t812\t7\t1\nNSsid:\t1\n": true,
		"NSpid:\t1\n": false, "NSpid:\t812\n": false, "NSpid:\t812\t11\n": false, "Name:\tNSpid: 3 1\n": false, "": false,
	} {
		if got := firstOfNamespace(status); got != want {
			t.Errorf("%q: %v", status, got)
		}
	}
}
