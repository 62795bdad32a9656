package agent

import (
	"fmt"
	"strconv"
	"strings"
)

// A Count asks for N candidates of one agent.
type Count struct {
	Agent string
	N     int
}

// MaxCandidates bounds a run; more is a slip of the finger.
const MaxCandidates = 1000

// ParseCounts reads "claude:3,codex:1". A name alone asks for one.
func ParseCounts(s string) ([]Count, error) {
	var counts []Count
	seen, total := map[string]bool{}, 0
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		name, digits, hasCount := strings.Cut(part, ":")
		n := 1
		switch {
		case part == "":
			return nil, fmt.Errorf("agents %q: a part is empty; write NAME:COUNT,…", s)
		case !nameForm.MatchString(name):
			return nil, fmt.Errorf("agents: %q: %q is not the name of an agent", part, name)
		case seen[name]:
			return nil, fmt.Errorf("agents: %q: %s is named twice", part, name)
		case hasCount:
			u, err := strconv.ParseUint(digits, 10, 31)
			if err != nil || u == 0 || u > MaxCandidates || digits[0] == '0' {
				return nil, fmt.Errorf("agents: %q: %q is not a count from 1 to %d", part, digits, MaxCandidates)
			}
			n = int(u)
		}
		if total += n; total > MaxCandidates {
			return nil, fmt.Errorf("agents: %q: together more than %d candidates", part, MaxCandidates)
		}
		seen[name] = true
		counts = append(counts, Count{Agent: name, N: n})
	}
	return counts, nil
}

// Assign names the agent of each candidate 1…n. The agents take turns, so that
// every prefix of the candidates is as mixed as the counts allow; when n asks
// for more than the counts add up to, the turns begin again.
func Assign(counts []Count, n int) []string {
	var order []string
	for round := 0; ; round++ {
		took := false
		for _, c := range counts {
			if round < c.N {
				order, took = append(order, c.Agent), true
			}
		}
		if !took {
			break
		}
	}
	agents := make([]string, 0, max(n, 0))
	for i := 0; i < n && len(order) > 0; i++ {
		agents = append(agents, order[i%len(order)])
	}
	return agents
}
