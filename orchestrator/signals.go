package orchestrator

import (
	"slices"

	"github.com/bestof-dev/bestof/plugin/wire"
)

// signals are those that the host publishes: the three of the format's signals
// that a host knows before a turn. Those of stages, such as what a triage thinks
// of the task, are not published, since no stage of that kind is run here.
func (t *turn) signals() []wire.Published {
	test, metered, candidates := len(t.Settings.Test) > 0, false, uint64(len(t.Seats))
	return []wire.Published{
		{Signal: "test-command", Value: wire.Value{Boolean: &test}},
		{Signal: "candidates", Value: wire.Value{Count: &candidates}},
		{Signal: "budget-metered", Value: wire.Value{Boolean: &metered}}, // agents' time is limited, and no money is counted
	}
}

// publish adds what a plugin published for those after it: the last word on a
// signal counts, but for the first own ones, which are facts of the host.
func publish(published []wire.Published, own int, more []wire.Published) []wire.Published {
	for _, p := range more {
		switch i := slices.IndexFunc(published, func(q wire.Published) bool { return q.Signal == p.Signal }); {
		case i < 0:
			published = append(published, p)
		case i >= own:
			published[i] = p
		}
	}
	return published
}
