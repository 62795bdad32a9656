package kernel_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/plugin/tool/kernel"
)

// BenchmarkCall is a call on a kernel that runs, against a bare start of Python
// that does the same. Each pair is measured in turn, so that what else the
// machine does weighs on both; the ratio is of medians.
func BenchmarkCall(b *testing.B) {
	k := open(b, kernel.Config{}, file("add", "def run(args):\n    return args['a'] + args['b']"))
	call(b, k, "add", `{"a": 1, "b": 2}`)
	var calls, spawns []time.Duration
	for b.Loop() {
		began := time.Now()
		r, err := k.Call(b.Context(), "add", json.RawMessage(`{"a": 1, "b": 2}`))
		if calls = append(calls, time.Since(began)); err != nil || r.Text != "3" {
			b.Fatal(r, err)
		}
		began = time.Now()
		out, err := exec.Command(python(), "-c", "print(1 + 2)").Output()
		if spawns = append(spawns, time.Since(began)); err != nil || string(out) != "3\n" {
			b.Fatal(string(out), err)
		}
	}
	slices.Sort(calls)
	slices.Sort(spawns)
	call, spawn := calls[len(calls)/2], spawns[len(spawns)/2]
	b.ReportMetric(float64(call)/float64(spawn), "of-a-spawn")
	b.ReportMetric(float64(call.Microseconds())/1000, "ms-call")
	b.ReportMetric(float64(spawn.Microseconds())/1000, "ms-spawn")
}
