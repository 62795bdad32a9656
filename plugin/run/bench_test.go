package run_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/run"
	"github.com/bestof-dev/bestof/plugin/verify"
)

// BenchmarkVerify is one after_turn exchange with the built-in plugin and
// "true" as the test, against starting the same program bare.
func BenchmarkVerify(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("bare", func(b *testing.B) {
		q, err := after(b.TempDir(), "true").Encode()
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			cmd := exec.Command(self)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BESTOF_TEST_AS_PLUGIN=1"}
			in, err := cmd.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			in.Write(q)
			in.Close()
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, sb := range sandboxes(b) {
		b.Run(name, func(b *testing.B) {
			s := spec(b, append([]string{self}, verify.Args(verify.DefaultTimeout, verify.Base{})...)...)
			s.Binds = []sandbox.Bind{{Source: self, Target: self}}
			s.Env = map[string]string{"BESTOF_TEST_AS_PLUGIN": "1"}
			for b.Loop() {
				if _, _, err := run.Exchange(b.Context(), sb, s, after(s.Root, "true")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
