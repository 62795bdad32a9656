package task

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Selection is which tasks of an input take part, and in which order. Its
// zero value is all of them as they stand.
type Selection struct {
	Select  []string // ids, or globs of them (*, ?, [a-z]); none: every task
	Exclude []string // the same
	Shard   Shard
	Shuffle *uint64 // a seed; nil: the input's order
}

// A Shard is one of so many parts of the tasks. The zero value is all.
type Shard struct{ Index, Count int }

// ParseShard reads I/N, with 1 ≤ I ≤ N.
func ParseShard(s string) (Shard, error) {
	i, n, ok := strings.Cut(s, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || index < 1 || index > count || count > MaxTasks {
		return Shard{}, fmt.Errorf("%s is no shard: write I/N, as 2/5 for the second of five", quote(s))
	}
	return Shard{index, count}, nil
}

// holds tells whether a task is in the shard. It depends on the task's id
// alone, so another task more or less moves none.
func (s Shard) holds(id string) bool {
	return s.Count <= 1 || int(hash("shard", id)%uint64(s.Count)) == s.Index-1
}

func hash(salt, id string) uint64 {
	sum := sha256.Sum256([]byte(salt + "\x00" + id))
	return binary.BigEndian.Uint64(sum[:8])
}

// Select picks tasks. An id or a glob that is that of no task is a problem, and
// so is a selection that leaves none.
func Select(tasks []Task, s Selection) ([]Task, []Problem) {
	var p problems
	chosen := make([]bool, len(tasks))
	for i := range chosen {
		chosen[i] = len(s.Select) == 0
	}
	index := make(map[string]int, 2*len(tasks))
	for i, t := range tasks {
		if t.Given != "" {
			index[t.Given] = i
		}
	}
	for i, t := range tasks {
		index[t.ID] = i
	}
	mark := func(flag string, patterns []string, to bool) {
		for _, pattern := range patterns {
			hits, fault := matching(tasks, index, pattern)
			if fault != "" {
				p.add(flag, "%s", fault)
			}
			for _, i := range hits {
				chosen[i] = to
			}
		}
	}
	mark("--select", s.Select, true)
	mark("--exclude", s.Exclude, false)
	var out []Task
	for i, t := range tasks {
		if chosen[i] && s.Shard.holds(t.ID) {
			out = append(out, t)
		}
	}
	if s.Shuffle != nil {
		salt := strconv.FormatUint(*s.Shuffle, 10)
		slices.SortStableFunc(out, func(a, b Task) int {
			return cmp.Or(cmp.Compare(hash(salt, a.ID), hash(salt, b.ID)), cmp.Compare(a.ID, b.ID))
		})
	}
	if len(out) == 0 && len(p.list) == 0 && len(tasks) > 0 {
		p.add("", "the selection leaves no task, of %d", len(tasks))
	}
	return out, p.all()
}

// matching lists the tasks that a pattern means.
func matching(tasks []Task, index map[string]int, pattern string) (hits []int, fault string) {
	if i, ok := index[pattern]; ok {
		return []int{i}, ""
	}
	if !strings.ContainsAny(pattern, "*?[") {
		return nil, fmt.Sprintf("there is no task %s", quote(pattern))
	}
	for i, t := range tasks {
		ok, err := path.Match(pattern, t.ID)
		if err != nil {
			return nil, fmt.Sprintf("the glob %s is malformed", quote(pattern))
		}
		if ok {
			hits = append(hits, i)
		}
	}
	if len(hits) == 0 {
		return nil, fmt.Sprintf("no task matches %s", quote(pattern))
	}
	return hits, ""
}
