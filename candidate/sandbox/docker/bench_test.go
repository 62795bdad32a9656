package docker_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/bwrap"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
)

// BenchmarkContainer runs a program that says one line, in turn: in a container
// of ours, in one of the docker command's, and in bwrap. The figures are the
// medians of each, in milliseconds, and the ratios of those.
func BenchmarkContainer(b *testing.B) {
	for _, at := range []struct {
		name   string
		number int
	}{{"1", 1}, {"8", 8}} {
		b.Run(at.name, func(b *testing.B) { benchContainers(b, at.number) })
	}
}

func benchContainers(b *testing.B, number int) {
	host := engine(b)
	ctx := context.Background()
	ours, err := docker.New(ctx, sandbox.Options{Environ: []string{"DOCKER_HOST=" + host}}, docker.Options{Image: os.Getenv(imageVariable), Dir: os.Getenv(filesVariable)})
	if err != nil {
		b.Fatal(err)
	}
	other, err := bwrap.New(ctx, sandbox.Options{Environ: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		b.Fatal(err)
	}
	cli, err := exec.LookPath("docker")
	if err != nil {
		b.Fatal(err)
	}
	spec := func() sandbox.Spec {
		return sandbox.Spec{Argv: []string{"/bin/sh", "-c", "echo x"}, Root: b.TempDir(), Home: b.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute}
	}
	runs := map[string]func() error{
		"ours":  func() error { return said(ours.Run(ctx, spec())) },
		"bwrap": func() error { return said(other.Run(ctx, spec())) },
		"cli": func() error {
			out, err := exec.Command(cli, "-H", host, "run", "--rm", os.Getenv(imageVariable), "/bin/sh", "-c", "echo x").Output()
			return said(sandbox.Result{Stdout: sandbox.Output{Head: out}}, err)
		},
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for name, run := range runs {
			began := time.Now()
			var all sync.WaitGroup
			for range number {
				all.Go(func() {
					if err := run(); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			took[name] = append(took[name], time.Since(began))
		}
	}
	for name, all := range took {
		b.ReportMetric(float64(median(all).Microseconds())/1000, name+"-ms")
	}
	b.ReportMetric(float64(median(took["ours"]))/float64(median(took["cli"])), "ours/cli")
	b.ReportMetric(float64(median(took["ours"]))/float64(median(took["bwrap"])), "ours/bwrap")
	b.ReportMetric(0, "ns/op")
}

func said(res sandbox.Result, err error) error {
	if err == nil && strings.TrimSpace(string(res.Stdout.Head)) != "x" {
		err = os.ErrInvalid
	}
	return err
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
