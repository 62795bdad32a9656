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

// ask asks whether the candidate of seat i may begin. What it returns has to be
// called: it waits for the answer and lets the candidate live. One that may not
// begin stays queued, and the record says that it was not started.
func (t *turn) ask(ctx context.Context, i int) func(context.Context) candidate.Outcome {
	if c := t.kept(t.Seats[i].Number); c != nil {
		return func(context.Context) candidate.Outcome {
			t.show(i)
			return c.Outcome
		}
	}
	answer := func(context.Context) (func(), error) { return func() {}, nil }
	if t.Admit != nil {
		answer = t.Admit(t.Seats[i].Number, func() { t.goAhead(ctx, i) })
	}
	return func(ctx context.Context) candidate.Outcome {
		release, err := answer(ctx)
		if err != nil {
			return candidate.Cancelled
		}
		defer release()
		return t.seat(ctx, i)
	}
}

// seat waits for a slot of the machine, and lets the candidate of seat i live.
func (t *turn) seat(ctx context.Context, i int) candidate.Outcome {
	if t.Slot != nil {
		n := t.Seats[i].Number
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
