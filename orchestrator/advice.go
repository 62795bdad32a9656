package orchestrator

import (
	"context"
	"slices"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

// advise asks about the best candidates, where the rule ranks several equal and
// the run wanted advice. It can only order those: who is eligible is decided.
// Without advice the ranking is what it would be without the question.
func (t *turn) advise(ctx context.Context) {
	if t.Advise == nil || ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	doc := t.doc
	doc.Candidates = slices.Clone(doc.Candidates)
	t.mu.Unlock()
	equal := Equal(doc)
	if len(equal) == 0 || len(equal[0]) < 2 {
		return
	}
	advice := t.Advise(ctx, doc, equal)
	if advice == nil {
		return
	}
	t.update(func(d *record.Document) { d.Advice = advice })
	if advice.Fault != "" {
		t.notice("nobody advised between candidates whom the rule ranks equal: %s", advice.Fault)
	}
}
