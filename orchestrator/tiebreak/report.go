package tiebreak

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
)

// ErrReport means that what a trainer returned is no report.
var ErrReport = errors.New("not a report")

// A Score is how many of N rows were answered right.
type Score struct {
	N       int `json:"n"`
	Correct int `json:"correct"`
}

// A Report is what a trainer returns: the path of what it trained, and by
// question how well it answered.
type Report struct {
	Checkpoint string
	Questions  map[string]Score
}

// maxQuestions bounds a report.
const maxQuestions = 64

// ParseReport reads what `train` or `evaluate` returned:
//
//	{"checkpoint": "/abs/path", "questions": {"ID": {"n": 9, "correct": 7, "accuracy": 0.78, "pTrue": {…}}}}
//
// A number that contradicts another is refused. Only a report of evaluate must
// answer questions.
func ParseReport(text []byte, evaluated bool) (Report, error) {
	var in struct {
		Checkpoint string `json:"checkpoint"`
		Questions  map[string]struct {
			N        *int     `json:"n"`
			Correct  *int     `json:"correct"`
			Accuracy *float64 `json:"accuracy"`
			PTrue    *struct {
				GoldTrue  *float64 `json:"goldTrue"`
				GoldFalse *float64 `json:"goldFalse"`
			} `json:"pTrue"`
		} `json:"questions"`
	}
	refuse := func(format string, args ...any) (Report, error) {
		return Report{}, fmt.Errorf("%w: %s", ErrReport, fmt.Sprintf(format, args...))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&in); err != nil {
		return refuse("it must be an object with checkpoint and questions: %v", err)
	}
	if d.More() {
		return refuse("there is more after it")
	}
	if !filepath.IsAbs(in.Checkpoint) {
		return refuse("checkpoint must be an absolute path, it is %.100q", in.Checkpoint)
	}
	if len(in.Questions) > maxQuestions {
		return refuse("%d questions, the most is %d", len(in.Questions), maxQuestions)
	}
	if evaluated && len(in.Questions) == 0 {
		return refuse("it answers no question")
	}
	out := Report{Checkpoint: in.Checkpoint, Questions: map[string]Score{}}
	for id, q := range in.Questions {
		switch {
		case q.N == nil || *q.N <= 0:
			return refuse("question %.100q: n must be above 0", id)
		case q.Correct == nil && q.Accuracy == nil:
			return refuse("question %.100q: there is neither correct nor accuracy", id)
		case q.Accuracy != nil && !(*q.Accuracy >= 0 && *q.Accuracy <= 1):
			return refuse("question %.100q: accuracy must be from 0 to 1", id)
		}
		correct := 0
		if q.Correct != nil {
			correct = *q.Correct
		} else {
			correct = int(math.Round(*q.Accuracy * float64(*q.N)))
		}
		if correct < 0 || correct > *q.N {
			return refuse("question %.100q: %d correct of %d", id, correct, *q.N)
		}
		if q.Accuracy != nil && math.Abs(*q.Accuracy-float64(correct)/float64(*q.N)) > 0.0051 { // two decimals are enough
			return refuse("question %.100q: accuracy %v is not %d of %d", id, *q.Accuracy, correct, *q.N)
		}
		if p := q.PTrue; p != nil {
			for _, v := range []*float64{p.GoldTrue, p.GoldFalse} {
				if v != nil && !(*v >= 0 && *v <= 1) {
					return refuse("question %.100q: pTrue must be from 0 to 1", id)
				}
			}
		}
		out.Questions[id] = Score{*q.N, correct}
	}
	return out, nil
}

// Constant scores, on each held out piece, the one answer that is most often
// right in the rows to train on; of two as often, the smaller text.
func Constant(train []Row, held [][]Row) []Score {
	count := map[string]int{}
	for _, r := range train {
		count[r.Expected[Question]]++
	}
	label := First
	if count[Second] > count[First] {
		label = Second
	}
	return scored(held, func(Row) string { return label })
}

// FewestLines scores what the judge does without advice: the smaller change,
// by lines, then by files, then by the candidate's number.
func FewestLines(held [][]Row) []Score {
	return scored(held, func(r Row) string { return r.fewer })
}

func scored(held [][]Row, answer func(Row) string) []Score {
	out := make([]Score, len(held))
	for i, piece := range held {
		for _, r := range piece {
			out[i].N++
			if answer(r) == r.Expected[Question] {
				out[i].Correct++
			}
		}
	}
	return out
}

// Total is the sum of scores.
func Total(all []Score) Score {
	var t Score
	for _, s := range all {
		t.N, t.Correct = t.N+s.N, t.Correct+s.Correct
	}
	return t
}

// Accuracy is the share of right answers, 0 of none.
func (s Score) Accuracy() float64 {
	if s.N == 0 {
		return 0
	}
	return float64(s.Correct) / float64(s.N)
}
