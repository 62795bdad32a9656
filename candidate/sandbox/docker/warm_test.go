package docker_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker/dockertest"
)

// running lists the containers of a run that have begun.
func running(t *testing.T, c *client.Client, run string) []string {
	t.Helper()
	all, err := c.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "bestof.run="+run))})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, one := range all {
		if one.State == container.StateRunning {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

func TestWarm(t *testing.T) {
	host := engine(t)
	made, err := newSandbox(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, c := made.(*docker.Sandbox), dockertest.Client(t, host)
	begin := func(t *testing.T, change ...func(*sandbox.Spec)) (spec sandbox.Spec, id string, drop func()) {
		t.Helper()
		spec = sandbox.Spec{
			Argv: []string{"-"}, Root: t.TempDir(), Home: t.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute,
			Labels: map[string]string{"bestof.run": strings.ReplaceAll(t.Name(), "/", "-") + strconv.Itoa(os.Getpid())},
		}
		for _, f := range change {
			f(&spec)
		}
		if ids := running(t, c, spec.Labels["bestof.run"]); len(ids) > 0 {
			t.Fatalf("%v are there already", ids)
		}
		drop = s.Warm(t.Context(), spec)
		eventually(t, "its container has begun", func() bool {
			ids := running(t, c, spec.Labels["bestof.run"])
			if len(ids) == 1 {
				id = ids[0]
			}
			return len(ids) == 1
		})
		return spec, id, drop
	}
	gone := func(t *testing.T, spec sandbox.Spec) {
		t.Helper()
		if ids := running(t, c, spec.Labels["bestof.run"]); len(ids) > 0 {
			t.Errorf("%v are left", ids)
		}
	}
	// run says in which container the program is, and whether it had waited.
	run := func(t *testing.T, spec sandbox.Spec) (group string, warm bool) {
		t.Helper()
		spec.Argv, spec.Env, spec.Stdin = []string{"sh", "-c", `echo "$A"; cat`}, map[string]string{"A": "1"}, []byte("2\n")
		spec.Started = func(p sandbox.Process) {
			for _, name := range []string{"/cgroup", "/mountinfo"} { // an engine may make no group
				b, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + name)
				if err != nil {
					t.Error(err)
				}
				group += string(b)
			}
		}
		res, err := s.Run(t.Context(), spec)
		if err != nil || !res.OK() || string(res.Stdout.Bytes()) != "1\n2\n" {
			t.Fatalf("%+v, %v", res, err)
		}
		return group, res.Warm
	}
	t.Run("is used by a run of the same paths", func(t *testing.T) {
		spec, id, drop := begin(t)
		if group, warm := run(t, spec); !strings.Contains(group, id) || !warm {
			t.Errorf("the program ran in %s, not in %s; warm: %v", group, id, warm)
		}
		gone(t, spec)
		drop()
		if group, warm := run(t, spec); group == "" || strings.Contains(group, id) || warm {
			t.Errorf("a second run was in %s; warm: %v", group, warm)
		}
		gone(t, spec)
	})
	t.Run("is not used when anything else differs", func(t *testing.T) {
		spec, id, drop := begin(t)
		defer drop()
		other := spec
		other.Binds = []sandbox.Bind{{Source: t.TempDir(), Target: "/more"}}
		if group, warm := run(t, other); group == "" || strings.Contains(group, id) || warm {
			t.Errorf("the program ran in %s; warm: %v", group, warm)
		}
		gone(t, spec)
	})
	t.Run("is one program's with its sockets", func(t *testing.T) {
		dir := t.TempDir()
		sockets := [3]string{}
		for i := range sockets {
			sockets[i] = filepath.Join(dir, strconv.Itoa(i))
			l, err := net.Listen("unix", sockets[i])
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
		}
		own := func(spec *sandbox.Spec) {
			spec.Binds = []sandbox.Bind{{Source: sockets[0], Target: "/run/bestof/mcp.sock"}}
			spec.Forwards = []sandbox.Forward{{Port: 11975, Socket: sockets[1]}}
		}
		spec, id, drop := begin(t, own)
		defer drop()
		seen, err := c.ContainerInspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, m := range seen.Mounts {
			if strings.HasPrefix(m.Source, dir) && !m.RW {
				shown = append(shown, m.Source)
			}
		}
		slices.Sort(shown)
		if !slices.Equal(shown, sockets[:2]) {
			t.Errorf("it shows %v", shown)
		}
		if group, warm := run(t, spec); !strings.Contains(group, id) || !warm {
			t.Errorf("the program ran in %s, not in %s; warm: %v", group, id, warm)
		}
		gone(t, spec)
		other, id, drop := begin(t, own)
		defer drop()
		other.Forwards = []sandbox.Forward{{Port: 11975, Socket: sockets[2]}}
		if group, warm := run(t, other); group == "" || strings.Contains(group, id) || warm {
			t.Errorf("with another's socket the program ran in %s; warm: %v", group, warm)
		}
		gone(t, other)
	})
	t.Run("is not begun while memory is short", func(t *testing.T) {
		spec := sandbox.Spec{Argv: []string{"-"}, Root: t.TempDir(), Home: t.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute}
		meminfo := filepath.Join(t.TempDir(), "meminfo")
		made, err := newSandbox(sandbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := docker.Remembering(made.(*docker.Sandbox), meminfo)
		for text, want := range map[string]int{"MemAvailable: 1048575 kB\n": 0, "MemAvailable: 1048576 kB\n": 1, "": 0} {
			if err := os.WriteFile(meminfo, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			drop := s.Warm(t.Context(), spec)
			if got := docker.Waiting(s); got != want {
				t.Errorf("%q: %d wait, want %d", text, got, want)
			}
			drop()
		}
	})
	t.Run("is removed when nobody wants it", func(t *testing.T) {
		spec, _, drop := begin(t)
		drop()
		gone(t, spec)
	})
	t.Run("is begun once for each root", func(t *testing.T) {
		spec, _, drop := begin(t)
		s.Warm(t.Context(), spec)()
		if ids := running(t, c, spec.Labels["bestof.run"]); len(ids) != 1 {
			t.Errorf("there are %v", ids)
		}
		drop()
		gone(t, spec)
	})
}

// BenchmarkWarm is how long a program of one line takes from Run to its end, in
// a container that waits for it and in one that is made for it.
func BenchmarkWarm(b *testing.B) {
	engine(b)
	made, err := newSandbox(sandbox.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := made.(*docker.Sandbox)
	took := map[bool][]time.Duration{}
	for b.Loop() {
		for _, warm := range []bool{true, false} {
			spec := sandbox.Spec{Argv: []string{"/bin/sh", "-c", "echo x"}, Root: b.TempDir(), Home: b.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute}
			if warm {
				docker.Warmed(b.Context(), s, spec)
			}
			began := time.Now()
			if err := said(s.Run(b.Context(), spec)); err != nil {
				b.Fatal(err)
			}
			took[warm] = append(took[warm], time.Since(began))
		}
	}
	b.ReportMetric(float64(median(took[true]).Microseconds())/1000, "warm-ms")
	b.ReportMetric(float64(median(took[false]).Microseconds())/1000, "cold-ms")
	b.ReportMetric(float64(median(took[true]))/float64(median(took[false])), "warm/cold")
	b.ReportMetric(0, "ns/op")
}
