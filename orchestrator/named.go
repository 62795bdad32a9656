package orchestrator

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/testreport"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/plan"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// Named are tests that decide by their own results, whatever the status of the
// command that runs them: those of Fail fail on the base and must pass, those
// of Pass pass on the base and must still pass. A test that the report does not
// have did not pass.
type Named struct {
	Fail, Pass []string
	// Read finds the results in what the test command printed. With a File
	// stdout is what is in the files that it means, one after the other with a
	// NUL between them.
	Read func(stdout, stderr []byte) (Reported, error)
	// File is a pattern of worktree.CheckLeft, below the directory of the test:
	// where the command leaves its report; "" when it prints it.
	File string

	base map[string]testreport.Status // what the baseline saw of each
}

// Reported is what a report says about a test.
type Reported func(id string) testreport.Status

// ids are all named tests.
func (n *Named) ids() []string { return slices.Concat(n.Fail, n.Pass) }

// passed reports whether a status of a test after the change is a pass. Being
// marked to fail is one only where the base was so already: a candidate's code
// can mark a test while it runs.
func (n *Named) passed(id string, s testreport.Status) bool {
	return s == testreport.Passed || s == testreport.Expected && n.base[id] == testreport.Expected && !slices.Contains(n.Fail, id)
}

// named is the plugin that stands for named tests.
const named = "named-tests"

const (
	maxPrinted = 16 << 20  // bytes of a report that the test prints
	keptOfLog  = 256 << 10 // bytes of each end of what it printed that are kept as its log
)

var errPrinted = fmt.Errorf("the test printed more than %d MiB; let it write its report to a file", maxPrinted>>20)

// head is how much of what the test prints is kept to be read, 0 for the usual.
func (n *Named) head() int {
	if n == nil || n.File != "" {
		return 0
	}
	return maxPrinted
}

// read is Read of a run. What is not whole says nothing about a test.
func (n *Named) read(res sandbox.Result) (Reported, error) {
	if res.Stdout.Dropped > 0 {
		return nil, errPrinted
	}
	stdout := res.Stdout.Head
	if len(res.Stdout.Tail) > 0 {
		stdout = res.Stdout.Bytes()
	}
	return n.Read(stdout, res.Stderr.Head)
}

// NotPassed is how many named tests were not seen to pass.
const NotPassed = "named-tests-not-passed"

// rule is the definition of done.
func (n *Named) rule() judge.Rule {
	pass := judge.Requirement{Name: "named-tests-pass", Statement: "every named test passes"}
	oracle := &judge.Oracle{
		Flip: judge.FlipRequired, Measurements: []string{NotPassed},
		Checks: []judge.Check{{Requirement: pass.Name, Text: NotPassed + " <= 0"}},
	}
	if len(n.Fail) == 0 {
		oracle.Flip = judge.FlipNotApplicable
		return judge.Rule{Requirements: []judge.Requirement{pass}, Oracle: oracle}
	}
	flip := judge.Requirement{Name: "named-tests-flip", Statement: "the tests that failed on the base pass"}
	return judge.Rule{Requirements: []judge.Requirement{flip, pass}, Oracle: oracle}
}

// baseline says whether the base is one on which the named tests can decide:
// it is failed when those of Fail fail and those of Pass pass, passed when
// there are only those of Pass and they do, and unobserved with the reason when
// not. A test that is not reported by a command that failed, such as one that
// does not compile, failed.
func (n *Named) baseline(res sandbox.Result) verify.Base {
	b := verify.Baseline(res)
	if res.End != sandbox.Exited || res.Signal != 0 || res.OOM {
		return b
	}
	result, err := n.read(res)
	b = verify.Base{Status: wire.Unobserved, ExitCode: b.ExitCode}
	if err != nil {
		b.Reason = "its report cannot be read: " + wire.Line(err.Error(), 400)
		return b
	}
	n.base = map[string]testreport.Status{}
	var wrong []string
	for _, id := range n.Fail {
		n.base[id] = result(id)
		switch s := n.base[id]; s {
		case testreport.Failed, testreport.Error:
		case testreport.Missing:
			if res.Code == 0 {
				wrong = append(wrong, id+" is not reported")
			}
		default:
			wrong = append(wrong, id+" "+statusWords[s]+", and should fail")
		}
	}
	for _, id := range n.Pass {
		n.base[id] = result(id)
		if s := n.base[id]; s != testreport.Passed && s != testreport.Expected {
			wrong = append(wrong, id+" "+statusWords[s]+", and should pass")
		}
	}
	switch {
	case len(wrong) > 0:
		b.Reason = "on the base " + wire.Line(firstFew(wrong), 1000)
	case len(n.Fail) > 0:
		b.Status = wire.Failed
	default:
		b.Status = wire.Passed
	}
	return b
}

var statusWords = map[testreport.Status]string{
	testreport.Missing: "is not reported", testreport.Passed: "passes", testreport.Expected: "is marked to fail", testreport.Skipped: "is skipped",
	testreport.Failed: "fails", testreport.Error: "fails",
}

// evidence is what one run of the test says about a candidate.
func (n *Named) evidence(res sandbox.Result) wire.Evidence {
	switch {
	case res.End == sandbox.NotRun:
		return wire.Evidence{Flip: judge.FlipUnobservable, Reason: "the test could not be started: " + wire.Line(res.Reason, 400)}
	case res.End == sandbox.Deadline:
		return wire.Evidence{Flip: judge.FlipUnobservable, Reason: "the test did not end in its time"}
	case res.End != sandbox.Exited || res.OOM || res.Signal != 0:
		return wire.Evidence{Flip: judge.FlipUnobservable, Reason: "the test was killed"}
	}
	result, err := n.read(res)
	if err != nil {
		return wire.Evidence{Flip: judge.FlipUnobservable, Reason: "its report cannot be read: " + wire.Line(err.Error(), 400)}
	}
	count := func(ids []string) (missing int) {
		for _, id := range ids {
			if !n.passed(id, result(id)) {
				missing++
			}
		}
		return missing
	}
	failing, broken := count(n.Fail), count(n.Pass)
	e := wire.Evidence{Flip: judge.FlipAchieved, Measurements: map[string]uint64{NotPassed: uint64(failing + broken)}}
	if failing > 0 || len(n.Fail) == 0 {
		e.Flip = judge.FlipNotAchieved
	}
	return e
}

// missing lists the named tests that did not pass, for the test's log.
func (n *Named) missing(res sandbox.Result) string {
	result, err := n.read(res)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, id := range n.ids() {
		switch s := result(id); {
		case n.passed(id, s):
		case s == testreport.Missing:
			fmt.Fprintf(&b, "%s: not reported: %s\n", named, wire.Line(id, 400))
		default:
			fmt.Fprintf(&b, "%s: did not pass: %s\n", named, wire.Line(id, 400))
		}
	}
	return b.String()
}

// tests is what each named test did; nil where the report cannot be read.
func (n *Named) tests(res sandbox.Result) map[string]record.TestStatus {
	result, err := n.read(res)
	if err != nil {
		return nil
	}
	seen := map[string]record.TestStatus{}
	for _, id := range n.ids() {
		switch s := result(id); {
		case n.passed(id, s):
			seen[id] = record.TestPassed
		case s == testreport.Missing:
			seen[id] = record.TestMissing
		default:
			seen[id] = record.TestFailed
		}
	}
	return seen
}

// unseen are the tests that should fail on the base, and of which its report says
// nothing.
func (n *Named) unseen() []string {
	var ids []string
	for _, id := range n.Fail {
		if n.base[id] == testreport.Missing {
			ids = append(ids, id)
		}
	}
	return ids
}

// onBase is what each named test did on the base; nil when that is not known.
func (n *Named) onBase() map[string]record.TestStatus {
	if n == nil {
		return nil
	}
	words := map[testreport.Status]record.TestStatus{
		testreport.Missing: record.TestMissing, testreport.Passed: record.TestPassed, testreport.Expected: record.TestPassed,
		testreport.Skipped: record.TestSkipped, testreport.Failed: record.TestFailed, testreport.Error: record.TestFailed,
	}
	seen := map[string]record.TestStatus{}
	for id, s := range n.base {
		seen[id] = words[s]
	}
	return seen
}

// namedPlugin runs the test in the shadow that it is given, and reads its
// report here: nothing of ours is where the candidate's code runs.
func (t *turn) namedPlugin() Plugin {
	rule := t.Named.rule()
	ask := t.Settings.MaxHolds
	return Plugin{
		Name: named, Wrapper: named, Rule: &rule, Holds: &ask, After: true, Origin: record.Plugin{Name: named, Level: "arbiter", Builtin: true},
		Ask: func(ctx context.Context, sb sandbox.Sandbox, at call.Place, _ wire.Request) (wire.Response, sandbox.Result, error) {
			res, err := sb.Run(ctx, sandbox.Spec{
				Argv: t.Settings.Test, Root: at.Root, WorkDir: at.WorkDir, Home: at.Home, Enter: at.Enter, Seen: at.Seen,
				Env: plan.Environment(t.Settings.Test), Network: sandbox.NetworkNone, Ports: at.Ports, Timeout: t.TestLimit, Started: at.Started, Head: t.Named.head(),
			})
			if err != nil {
				return wire.Response{}, res, err
			}
			if t.reportPath() != "" {
				res = t.Named.report(res, at.Left)
			}
			evidence, doubt, err := t.namedEvidence(ctx, sb, at, res)
			if err != nil {
				return wire.Response{}, res, err
			}
			answer := wire.Response{After: &wire.AfterResponse{ProtocolVersion: wire.Version, Evidence: evidence}}
			// What is kept of a plugin's run is what it wrote to stderr.
			missing := t.Named.missing(res) + doubt
			printed := res.Stderr.Bytes()
			if t.reportPath() == "" {
				printed = append(res.Stdout.Bytes(), printed...)
			}
			res.Stderr = ends(printed, missing)
			return answer, res, nil
		},
		Tests: t.Named.tests,
	}
}

// ends are both ends of what a test printed, with what is said of it after them.
func ends(printed []byte, more string) sandbox.Output {
	dropped := max(0, len(printed)-2*keptOfLog)
	if dropped == 0 {
		return sandbox.Output{Head: append(printed, more...)}
	}
	return sandbox.Output{
		Head: bytes.Clone(printed[:keptOfLog]), Dropped: int64(dropped),
		Tail: append(bytes.Clone(printed[keptOfLog+dropped:]), more...),
	}
}
