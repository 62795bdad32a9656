package tiebreak

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
)

// oneIn is how many pieces of work there are, about, for one that is held out.
const oneIn = 5

// A Split is the rows that a trainer sees and those that it is scored on.
type Split struct {
	Train   []Row
	Held    []Row
	Dropped int // rows that would have told the trainer a held out one
}

// Divide holds out about every fifth piece of work, whole. Which ones depends on
// the seed and on nothing else, so that what is held out today was held out when
// an earlier model was trained. A row whose state is that of a held out one,
// either way round, is dropped from the rows to train on: pieces of work can
// look the same from outside.
func Divide(rows []Row, seed string) Split {
	held := map[string]bool{}
	for _, r := range rows {
		sum := sha256.Sum256([]byte(seed + "\x00" + r.group))
		held[r.group] = binary.BigEndian.Uint64(sum[:])%oneIn == 0
	}
	var s Split
	told := map[string]bool{}
	for _, r := range rows {
		if held[r.group] {
			s.Held = append(s.Held, r)
			told[r.State], told[r.twin] = true, true
		}
	}
	for _, r := range rows {
		switch {
		case held[r.group]:
		case told[r.State]:
			s.Dropped++
		default:
			s.Train = append(s.Train, r)
		}
	}
	return s
}

// Pieces are rows by the piece of work that they are about, in a fixed order.
func Pieces(rows []Row) [][]Row {
	by := map[string][]Row{}
	for _, r := range rows {
		by[r.group] = append(by[r.group], r)
	}
	var out [][]Row
	for _, piece := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[piece])
	}
	return out
}
