package wire

import (
	"slices"
	"strings"
)

// signals says which kind of value each signal has.
var signals = map[string]string{
	"test-command": "boolean", "candidates": "count", "budget-metered": "boolean",
	"conversational": "boolean", "questions": "count", "plans": "boolean", "verifies": "boolean",
	"wants-witness": "boolean", "wants-verifier": "boolean",
	"mutating-actions": "count", "diff-lines": "count", "witness-authored": "boolean",
	"flip-achieved": "boolean", "tests-red": "boolean", "tests-green": "boolean",
}

// Admit refuses a response that its manifest does not allow: a role that is
// not one of roles, a signal that does not exist, or one with a value of the
// wrong kind. Such a response counts as a failed exchange.
func (r *BeforeResponse) Admit(roles []string) error {
	if r.Role != "" && !slices.Contains(roles, r.Role) {
		return Faultf(ErrUndeclaredRole, "the plugin chose the role %q; its manifest declares: %s", r.Role, strings.Join(roles, ", "))
	}
	for _, p := range r.Publish {
		kind := signals[p.Signal]
		switch {
		case kind == "":
			return Faultf(ErrMistypedSignal, "the plugin published %q, which is no signal", p.Signal)
		case (kind == "boolean") != (p.Value.Boolean != nil), (kind == "count") != (p.Value.Count != nil):
			return Faultf(ErrMistypedSignal, "the plugin published %q with another value than a %s", p.Signal, kind)
		}
	}
	return nil
}
