package orchestrator

import (
	"context"
	"errors"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// ErrOverBudget ends a run whose budget is spent.
var ErrOverBudget = errors.New("the budget is spent")

// kept is what an earlier record has of a seat's candidate, which is not run
// again, or nil.
func (c Config) kept(n candidate.Number) *record.Candidate {
	for i := range c.Kept {
		if c.Kept[i].Number == int(n) && c.Kept[i].State == candidate.Done {
			return &c.Kept[i]
		}
	}
	return nil
}

// seat lets the candidate of seat i begin when it may, and live. A candidate
// that may not begin stays queued, and the record says that it was not started.
func (t *turn) seat(ctx context.Context, i int) candidate.Outcome {
	n := t.Seats[i].Number
	if c := t.kept(n); c != nil {
		t.show(i)
		return c.Outcome
	}
	if t.Admit != nil {
		release, err := t.Admit(ctx, n)
		if err != nil {
			return candidate.Cancelled
		}
		defer release()
	}
	if t.Slot != nil {
		release, err := t.Slot(ctx, func() { t.notice("%s waits: this machine runs as many candidates as it may", n.ID()) })
		switch {
		case ctx.Err() != nil && err != nil:
			return candidate.Cancelled
		case err != nil:
			return t.unhoused(i, err)
		}
		defer release()
	}
	return t.live(ctx, i)
}

// unhoused is the end of a candidate for which the host had no slot, because it
// could not keep them.
func (t *turn) unhoused(i int, err error) candidate.Outcome {
	t.record(i, func(c *record.Candidate) {
		c.State, c.Outcome, c.Detail = candidate.Done, candidate.Infrastructure, err.Error()
	})
	t.show(i)
	return candidate.Infrastructure
}
