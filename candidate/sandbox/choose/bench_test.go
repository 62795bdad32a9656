package choose_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/choose"
)

// BenchmarkTrue measures what a sandbox adds to the shortest program.
func BenchmarkTrue(b *testing.B) {
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/usr/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, name := range []string{"process", "bwrap"} {
		s, _, err := choose.Choose(b.Context(), name, withBwrap)
		if err != nil {
			b.Fatal(err)
		}
		for _, network := range []sandbox.Network{sandbox.NetworkHost, sandbox.NetworkNone} {
			b.Run(name+"/network="+string(network), func(b *testing.B) {
				spec := sandbox.Spec{Argv: []string{"/usr/bin/true"}, Root: b.TempDir(), Home: b.TempDir(), Network: network, Timeout: time.Minute}
				for b.Loop() {
					if res, err := s.Run(b.Context(), spec); err != nil || !res.OK() {
						b.Fatal(res, err)
					}
				}
			})
		}
	}
}
