package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
)

// A tracer observes runs, whose spans it names.
type tracer string

func (t tracer) Began(schedule.Job, schedule.Run) string    { return string(t) }
func (tracer) Ended(schedule.Job, schedule.Run, ledger.End) {}
func (tracer) Queue(int, int)                               {}

// What a run starts is part of the run's span, once; where there is none, of what
// the environment says.
func TestTraceParent(t *testing.T) {
	for parent, want := range map[tracer]string{"00-a": "TRACEPARENT=00-a\n", "": "TRACEPARENT=00-outer\n"} {
		m := newRoom(t, "tr '\\0' '\\n' < /proc/$$/environ | grep ^TRACEPARENT >&2")
		m.add(nil)
		m.hands.forward(time.Hour)
		m.start(func(c *Config) {
			c.Once, c.Drain, c.Observer = true, nil, parent
			c.Environ = append(c.Environ, "TRACEPARENT=00-outer")
		})
		m.end()
		if b, err := os.ReadFile(filepath.Join(Dir(m.home, 1), LogFile)); err != nil || string(b) != want {
			t.Errorf("%q: %q, %v", parent, b, err)
		}
	}
}
