package training

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/orchestrator/tiebreak"
	"github.com/bestof-dev/bestof/plugin/tool"
	"github.com/bestof-dev/bestof/plugin/tool/kernel"
	"github.com/bestof-dev/bestof/plugin/tool/train"
)

// A Host is how trainers are run: with the operator's privileges.
type Host struct {
	Python string
	Start  kernel.Starter
	Limit  time.Duration                      // of one call of a trainer
	Find   func(tool.Name) (tool.File, error) // a live trainer
	Now    func() time.Time
	Step   func(text string) // is told what happens; it may be nil
}

// ErrTooFew means that there is nothing to train on, or nothing to score with.
var ErrTooFew = errors.New("too few choices")

// A Plan is what would be trained on.
type Plan struct {
	Rows     int            `json:"rows"`
	Pieces   int            `json:"pieces"` // of work
	Train    int            `json:"train"`
	Held     int            `json:"held"`
	Dropped  int            `json:"dropped"`
	Constant tiebreak.Score `json:"constant"`
	Fewest   tiebreak.Score `json:"fewest_lines"`

	split  tiebreak.Split
	pieces [][]tiebreak.Row // held out
	seed   string
}

// Prepare divides rows.
func Prepare(rows []tiebreak.Row, seed string) Plan {
	p := Plan{Rows: len(rows), Pieces: len(tiebreak.Pieces(rows)), split: tiebreak.Divide(rows, seed), seed: seed}
	p.Train, p.Held, p.Dropped = len(p.split.Train), len(p.split.Held), p.split.Dropped
	p.pieces = tiebreak.Pieces(p.split.Held)
	p.Constant = tiebreak.Total(tiebreak.Constant(p.split.Train, p.pieces))
	p.Fewest = tiebreak.Total(tiebreak.FewestLines(p.pieces))
	return p
}

// An Outcome is one training.
type Outcome struct {
	Plan      Plan   `json:"plan"`
	Model     Model  `json:"model"`
	Directory string `json:"directory"` // the rows to train on, what the trainer wrote, training.json
}

// Train runs a trainer on a plan's rows, scores what it made on those held out
// beside the constant, the fewest lines and the model that advises now, and
// promotes it where it beats all of them. One training runs at a time.
func (s Shelf) Train(ctx context.Context, h Host, file tool.File, p Plan) (Outcome, error) {
	if p.Train == 0 || p.Held == 0 {
		return Outcome{}, fmt.Errorf("%w: %d rows to train on and %d held out; rows come from runs in which you adopted one of several candidates that the rule ranked equal", ErrTooFew, p.Train, p.Held)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return Outcome{}, err
	}
	lock := flock.New(filepath.Join(s.dir, ".lock"), flock.SetPermissions(0o600))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return Outcome{}, fmt.Errorf("another training is at work in %s: wait for it", s.dir)
	}
	defer lock.Close()
	dir, err := s.directory(h.Now(), file.Name)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Plan: p, Directory: dir, Model: Model{Trainer: file.Name, TrainerSHA: file.SHA256, Trained: h.Now().UTC(), Seed: p.seed, Rows: p.Train}}
	if err := s.train(ctx, h, file, p, dir, &out.Model); err != nil {
		return out, err
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, "training.json"), append(b, '\n'), 0o600)
	}
	if err == nil && out.Model.Promotion.Promote {
		err = s.promote(out.Model)
	}
	return out, err
}

// directory makes one for a training.
func (s Shelf) directory(now time.Time, name tool.Name) (string, error) {
	for n := 1; ; n++ {
		dir := filepath.Join(s.dir, "trainings", fmt.Sprintf("%s-%s", now.UTC().Format("20060102-150405"), name))
		if n > 1 {
			dir += fmt.Sprintf("-%d", n)
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return "", err
		}
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return dir, os.Mkdir(filepath.Join(dir, "out"), 0o700)
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

func (s Shelf) train(ctx context.Context, h Host, file tool.File, p Plan, dir string, m *Model) error {
	rows := filepath.Join(dir, "train.jsonl")
	if err := writeRows(rows, p.split.Train); err != nil {
		return err
	}
	h.say("%s trains on %d rows; %d of %d pieces of work are held out", file.Name, p.Train, len(p.pieces), p.Pieces)
	t, err := train.Start(ctx, file, h.Python, h.Limit, h.Start)
	if err != nil {
		return err
	}
	defer t.Close()
	text, err := t.Train(ctx, rows, filepath.Join(dir, "out"))
	if err != nil {
		return err
	}
	report, err := tiebreak.ParseReport(text, false)
	if err != nil {
		return fmt.Errorf("the trainer %s: what train returned is %w", file.Name, err)
	}
	m.Checkpoint = report.Checkpoint
	if m.SHA256, err = hashCheckpoint(m.Checkpoint); err != nil {
		return err
	}
	h.say("%s is scored on %d held out rows", file.Name, p.Held)
	scores, err := score(ctx, t, m.Checkpoint, p.pieces, dir)
	if err != nil {
		return fmt.Errorf("the trainer %s: %w", file.Name, err)
	}
	rivals := []tiebreak.Rival{{Name: "the constant", Scores: tiebreak.Constant(p.split.Train, p.pieces)}, {Name: "the fewest lines", Scores: tiebreak.FewestLines(p.pieces)}}
	if scores, ok := s.incumbent(ctx, h, p, dir); ok {
		rivals = append(rivals, tiebreak.Rival{Name: "the model that advises now", Scores: scores})
	}
	if again, err := hashCheckpoint(m.Checkpoint); err != nil || again != m.SHA256 {
		return fmt.Errorf("the trainer %s changed its checkpoint while it was scored", file.Name)
	}
	m.Promotion = tiebreak.Promote(scores, rivals, p.seed)
	return nil
}

// incumbent scores the model that advises now on the same rows. One that cannot
// be asked any more advises nobody, and is no rival.
func (s Shelf) incumbent(ctx context.Context, h Host, p Plan, dir string) ([]tiebreak.Score, bool) {
	m, ok, err := s.Promoted()
	if err != nil || !ok {
		return nil, false
	}
	t, err := h.start(ctx, m)
	if err == nil {
		defer t.Close()
		var scores []tiebreak.Score
		if scores, err = score(ctx, t, m.Checkpoint, p.pieces, dir); err == nil {
			return scores, true
		}
	}
	h.say("the model that advises now could not be scored, and is no rival: %v", err)
	return nil, false
}

// start starts a model's trainer: the very file, with the very checkpoint.
func (h Host) start(ctx context.Context, m Model) (*train.Trainer, error) {
	file, err := h.Find(m.Trainer)
	if err != nil {
		return nil, fmt.Errorf("its trainer %s: %w", m.Trainer, err)
	}
	if file.SHA256 != m.TrainerSHA {
		return nil, fmt.Errorf("its trainer %s changed since; train again", m.Trainer)
	}
	sum, err := hashCheckpoint(m.Checkpoint)
	if err != nil {
		return nil, err
	}
	if sum != m.SHA256 {
		return nil, fmt.Errorf("the checkpoint %s changed since; train again", m.Checkpoint)
	}
	return train.Start(ctx, file, h.Python, h.Limit, h.Start)
}

func (h Host) say(format string, args ...any) {
	if h.Step != nil {
		h.Step(fmt.Sprintf(format, args...))
	}
}

// score asks about each row held out. No answer that is right is ever written
// where a trainer can read it: not for the asking, nor for a later training,
// which holds out the same pieces of work.
func score(ctx context.Context, t *train.Trainer, checkpoint string, pieces [][]tiebreak.Row, dir string) ([]tiebreak.Score, error) {
	scores := make([]tiebreak.Score, len(pieces))
	for i, rows := range pieces {
		for _, r := range rows {
			answer, err := ask(ctx, t, checkpoint, r, dir)
			if err != nil {
				return nil, err
			}
			scores[i].N++
			if answer == r.Expected[tiebreak.Question] {
				scores[i].Correct++
			}
		}
	}
	return scores, nil
}

// ask is a model's answer about one row. It is asked twice, with the one answer
// supposed and with the other.
func ask(ctx context.Context, t *train.Trainer, checkpoint string, r tiebreak.Row, dir string) (string, error) {
	var scores [2]tiebreak.Score
	for i, label := range []string{tiebreak.First, tiebreak.Second} {
		var err error
		if scores[i], err = evaluate(ctx, t, checkpoint, tiebreak.Supposing(r, label), dir); err != nil {
			return "", err
		}
	}
	return tiebreak.Answer(scores[0], scores[1])
}

// evaluate has the trainer score its model on one row, which must be answered.
func evaluate(ctx context.Context, t *train.Trainer, checkpoint string, r tiebreak.Row, dir string) (tiebreak.Score, error) {
	path := filepath.Join(dir, "asked.jsonl")
	defer os.Remove(path)
	if err := writeRows(path, []tiebreak.Row{r}); err != nil {
		return tiebreak.Score{}, err
	}
	text, err := t.Evaluate(ctx, checkpoint, path)
	if err != nil {
		return tiebreak.Score{}, err
	}
	report, err := tiebreak.ParseReport(text, true)
	if err != nil {
		return tiebreak.Score{}, fmt.Errorf("what evaluate returned is %w", err)
	}
	got, ok := report.Questions[tiebreak.Question]
	if !ok || got.N != 1 {
		return tiebreak.Score{}, fmt.Errorf("it answered %d of 1 rows of the question %q", got.N, tiebreak.Question)
	}
	return got, nil
}

// writeRows writes one JSON object a line.
func writeRows(path string, rows []tiebreak.Row) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, r := range rows {
		if err = e.Encode(r); err != nil {
			break
		}
	}
	return errors.Join(err, w.Flush(), f.Close())
}

// Rows writes all rows of choices for whoever wants to look at them.
func Rows(path string, rows []tiebreak.Row) error { return writeRows(path, slices.Clone(rows)) }
