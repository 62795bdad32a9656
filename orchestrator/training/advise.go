package training

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/tiebreak"
)

// adviceLimit bounds how long a run waits for advice.
const adviceLimit = 60 * time.Second

// Advise asks the promoted model about the candidates of a finished run whom
// the rule ranks equal: about all of their pairs, or there is no advice. It is
// nil when nothing had to be asked; what went wrong is its Fault.
func (s Shelf) Advise(ctx context.Context, h Host, doc record.Document, equal [][]int) *record.Advice {
	rows, pairs := tiebreak.Pairs(doc, equal)
	if len(rows) == 0 {
		return nil
	}
	m, ok, err := s.Promoted()
	switch {
	case err != nil:
		return &record.Advice{Fault: clean(err)}
	case !ok:
		return &record.Advice{Fault: "no model was promoted: `bestof tool train NAME` trains one"}
	}
	advice := &record.Advice{Trainer: string(m.Trainer), Checkpoint: m.SHA256}
	ctx, cancel := context.WithTimeoutCause(ctx, adviceLimit, fmt.Errorf("it took longer than %s", adviceLimit))
	defer cancel()
	if err := s.answer(ctx, h, m, rows, pairs); err != nil {
		advice.Fault = clean(err)
		return advice
	}
	advice.Pairs = pairs
	return advice
}

func clean(err error) string { return term.Clean(err.Error(), 400).String() }

func (s Shelf) answer(ctx context.Context, h Host, m Model, rows []tiebreak.Row, pairs []record.Preference) error {
	dir, err := os.MkdirTemp("", "bestof-advice-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t, err := h.start(ctx, m)
	if err != nil {
		return err
	}
	defer t.Close()
	for i, r := range rows {
		better, err := ask(ctx, t, m.Checkpoint, r, dir)
		if err != nil {
			return err
		}
		if pairs[i].Better = pairs[i].First; better == tiebreak.Second {
			pairs[i].Better = pairs[i].Second
		}
	}
	return nil
}
