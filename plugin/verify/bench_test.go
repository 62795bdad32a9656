package verify

import (
	"io"
	"os/exec"
	"testing"
	"time"
)

// BenchmarkKnown is one verification of a right change by the adapter of its
// runner, against the bare command in the same tree. go test is not allowed to
// cache its result in either.
func BenchmarkKnown(b *testing.B) {
	for name, p := range map[string]project{"go": goProject, "unittest": unittestProject, "pytest": pytestProject, "node": nodeProject, "cargo": cargoProject} {
		root := lay(b, p.files, p.right)
		b.Setenv("GOCACHE", goCache())
		runner, a := recognise(p.argv)
		o, reason, text, err := observeTests(a, root, nil, time.Minute, io.Discard)
		if err != nil || reason != "" {
			b.Fatalf("%v %s %s", err, reason, text)
		}
		base, why := o.Seen.expected(runner)
		if base == nil {
			b.Fatal(why)
		}
		b.Run(name+"/bare", func(b *testing.B) {
			argv := p.argv
			if name == "go" {
				argv = []string{"go", "test", "-count=1", "./..."}
			}
			for b.Loop() {
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Dir = root
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
		})
		b.Run(name+"/known", func(b *testing.B) {
			for b.Loop() {
				o, reason, text, err := observeTests(a, root, base, time.Minute, io.Discard)
				if found := base.Compare(o.Seen); err != nil || reason != "" || !found.Pass {
					b.Fatalf("%v %s %s %+v", err, reason, text, found)
				}
			}
		})
	}
}
