package tiebreak

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
)

// fewestPieces is how many pieces of work must be held out before a score
// means anything.
const fewestPieces = 8

// resamples of the bootstrap; tail of its distribution that is left out below.
const (
	resamples = 2000
	tail      = 0.025
)

// A Rival is what a new model must beat, scored on the same held out pieces.
type Rival struct {
	Name   string
	Scores []Score
}

// An Against is how a model did against one rival.
type Against struct {
	Rival    string  `json:"rival"`
	Accuracy float64 `json:"accuracy"` // the rival's
	Lower    float64 `json:"lower"`    // bound of the difference, 97.5 % sure, by resampling pieces of work
	Beaten   bool    `json:"beaten"`
}

// A Promotion says whether a model may advise, and why.
type Promotion struct {
	Promote bool      `json:"promote"`
	Reason  string    `json:"reason"`
	Pieces  int       `json:"pieces"` // of work that were held out
	Score   Score     `json:"score"`
	Against []Against `json:"against"`
}

// Promote compares a model's scores with its rivals', piece by piece. It must
// be strictly better than each of them, and so sure of it that the lower bound
// of a paired bootstrap over pieces of work lies above zero.
func Promote(model []Score, rivals []Rival, seed string) Promotion {
	p := Promotion{Pieces: len(model), Score: Total(model), Against: []Against{}}
	if len(model) < fewestPieces {
		p.Reason = fmt.Sprintf("only %d pieces of work are held out: %d at least make a score", len(model), fewestPieces)
	}
	for _, r := range rivals {
		a := Against{Rival: r.Name, Accuracy: Total(r.Scores).Accuracy(), Lower: lower(model, r.Scores, seed)}
		a.Beaten = p.Score.Accuracy() > a.Accuracy && a.Lower > 0
		p.Against = append(p.Against, a)
		if !a.Beaten && p.Reason == "" {
			p.Reason = fmt.Sprintf("it is not surely better than %s: %.3f against %.3f, the difference is at least %+.3f", r.Name, p.Score.Accuracy(), a.Accuracy, a.Lower)
		}
	}
	if p.Promote = p.Reason == "" && len(rivals) > 0; p.Promote {
		p.Reason = fmt.Sprintf("it is better than all of %d others on %d held out pieces of work", len(rivals), len(model))
	}
	return p
}

// lower is the lower bound of the difference of two accuracies.
func lower(model, rival []Score, seed string) float64 {
	if len(model) == 0 || len(model) != len(rival) {
		return -1
	}
	sum := sha256.Sum256([]byte(seed))
	draw := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])))
	differences := make([]float64, resamples)
	for i := range differences {
		n, more := 0, 0
		for range model {
			k := draw.IntN(len(model))
			n, more = n+model[k].N, more+model[k].Correct-rival[k].Correct
		}
		differences[i] = float64(more) / float64(max(n, 1))
	}
	slices.Sort(differences)
	return differences[int(tail*resamples)]
}
