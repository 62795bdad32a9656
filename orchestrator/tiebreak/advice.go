package tiebreak

import (
	"fmt"
	"slices"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

// mostAsked bounds how many equal candidates a model is asked about: beyond
// it, pairs are too many.
const mostAsked = 16

// Pairs are the pairs that a model is asked about in a finished run: those of
// the best group of equal candidates, each tree once, by its lowest number.
func Pairs(doc record.Document, equal [][]int) ([]Row, []record.Preference) {
	var group []record.Candidate
	if len(equal) > 0 {
		for _, number := range slices.Sorted(slices.Values(equal[0])) {
			c, ok := find(doc, number)
			if ok && !slices.ContainsFunc(group, func(o record.Candidate) bool { return o.Change.Tree == c.Change.Tree }) {
				group = append(group, c)
			}
		}
	}
	if len(group) < 2 || len(group) > mostAsked {
		return nil, nil
	}
	var rows []Row
	var pairs []record.Preference
	for i, a := range group {
		for _, b := range group[i+1:] {
			rows = append(rows, Pair(doc, a, b, nil))
			pairs = append(pairs, record.Preference{First: a.Number, Second: b.Number})
		}
	}
	return rows, pairs
}

// Supposing is a pair's row with an answer supposed: a model that scores it
// right gives that answer.
func Supposing(r Row, label string) Row {
	r.Expected = map[string]string{Question: label}
	return r
}

// Answer is what a model says of a pair: it was asked with either answer
// supposed, and only one of them can be right.
func Answer(first, second Score) (string, error) {
	switch {
	case first == Score{1, 1} && second == Score{1, 0}:
		return First, nil
	case first == Score{1, 0} && second == Score{1, 1}:
		return Second, nil
	}
	return "", fmt.Errorf("it answers a pair with %d and %d right, supposing the one and the other", first.Correct, second.Correct)
}
