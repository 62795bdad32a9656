package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/plan"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/run"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
	"github.com/bestof-dev/bestof/worktree"
)

// outputTail is how much of a test's output the record keeps, in bytes. The
// whole of the log is in the candidate's directory.
const outputTail = 4 << 10

// measureBaseline runs the test on the untouched base, before anything is
// spent, and ends the run when no candidate could be judged by it.
func (t *turn) measureBaseline(ctx context.Context) *ending {
	if len(t.Settings.Test) == 0 {
		return nil
	}
	t.emit(event.Step{Name: "baseline", Text: "running the test on the untouched base"})
	base := record.Baseline{Status: string(wire.Unobserved)}
	if t.Hidden.any() {
		if err := t.warmUp(ctx); err != nil && ctx.Err() == nil {
			return ended(ExitInfrastructure, "run the test on the base: %v", err)
		}
	}
	for i := range t.Settings.Repeat {
		seen, res, err := t.runBaseline(ctx, i)
		if end := interruption(ctx); end != nil {
			return end
		}
		if err != nil {
			return ended(ExitInfrastructure, "run the test on the base: %v", err)
		}
		if base.Runs++; i == 0 {
			t.baseline = seen
			base.Status, base.Reason, base.ExitCode = string(seen.Status), seen.Reason, seen.ExitCode
			base.DurationMS = res.Duration.Milliseconds()
			base.OutputTail = t.tailOf(res)
			if base.Tests = t.testsOf(seen.Results); base.Tests == nil {
				base.Tests = record.ListTests(t.Named.onBase())
			}
		} else if string(seen.Status) != base.Status {
			base.Flaky, base.Reason = true, fmt.Sprintf("the test is flaky on the untouched base: %s and %s in %d runs", base.Status, seen.Status, i+1)
			base.Status = string(wire.Unobserved)
			break
		} else if t.baseline.Expected != nil {
			t.narrow(seen)
		}
	}
	if base.Status != string(wire.Unobserved) {
		if t.Named != nil {
			if ids := t.Named.unseen(); len(ids) > 0 {
				t.notice("the test failed on the base without a word of %s: taken to fail there, but a name that is wrong is one that nobody can pass", wire.Line(firstFew(ids), 1000))
			}
		}
		if err := t.tryOneByOne(ctx); err != nil && ctx.Err() == nil {
			return ended(ExitInfrastructure, "run the test on the base: %v", err)
		}
	}
	base.Evidence, base.Known = cmp.Or(t.oneByOneWords(), evidenceWords(t.baseline)), t.baseline.Expected.Count()
	t.update(func(d *record.Document) { d.Baseline = base })
	t.emit(event.Step{Name: "baseline", Done: true, Text: baselineWords(base)})
	if t.baseline.Expected == nil && t.oneByOne == nil && base.Status != string(wire.Unobserved) {
		t.emit(event.Notice{Text: "evidence: " + base.Evidence})
	}
	return t.admit(base)
}

// narrow keeps of what is expected what another run on the base has too: tests
// whose names are new each time are none that a candidate could lose.
func (t *turn) narrow(again verify.Base) {
	before := t.baseline.Expected
	t.baseline.Expected = before.Common(again.Expected)
	switch once := before.Count() - t.baseline.Expected.Count(); {
	case t.baseline.Expected == nil:
		t.baseline.Weak = cmp.Or(again.Weak, "no two runs on the base had a test in common")
	case once > 0:
		t.notice("%d of the base's tests were not in each of its runs, so they decide nothing", once)
	}
}

// evidenceWords says what a pass of the test will rest on.
func evidenceWords(b verify.Base) string {
	if b.Expected != nil {
		return fmt.Sprintf("%s: each of the %d tests that the base has must be seen to pass, in a run in which a hidden test fails", b.Expected.Runner, b.Expected.Count())
	}
	why := b.Weak
	if why == "" {
		why = "its runner is not known"
	}
	return "weak: the test's exit status and what it prints, which a candidate's code can forge: " + why
}

func baselineWords(b record.Baseline) string {
	s := fmt.Sprintf("the test on the base: %s (%s)", b.Status, (time.Duration(b.DurationMS) * time.Millisecond).Round(time.Millisecond))
	if b.Reason != "" {
		s += ": " + b.Reason
	}
	if b.Known > 0 {
		s += fmt.Sprintf(", %d tests known one by one", b.Known)
	}
	return s
}

// admit ends the run where the baseline leaves nothing to win.
func (t *turn) admit(b record.Baseline) *ending {
	test := strings.Join(t.Settings.Test, " ")
	switch {
	case t.Settings.AllowUndecided:
		return nil
	case b.Status == string(wire.Unobserved):
		return ended(ExitUsage, "the test could not be observed on the untouched base, so it can decide nothing: %s (%s)", b.Reason, test)
	case b.Status == string(wire.Passed) && t.Settings.Expect == ExpectFlip:
		const why = "the test already passes on the base, so no candidate can make it go from failing to passing"
		if t.Admit != nil { // a batch has no --expect
			return ended(ExitNoWinner, why)
		}
		return ended(ExitNoWinner, why+"; --expect pass judges candidates on not breaking it")
	case b.Status == string(wire.Failed) && t.Settings.Expect == ExpectPass:
		return ended(ExitNoWinner, "the test fails on the base, so there is nothing for --expect pass to keep; leave it out to judge candidates on making the test pass")
	}
	return nil
}

// runBaseline runs the test once in a shadow that no candidate ever touches.
// The first run leaves its home, with the build caches in it, to all shadows
// made later. Where the runner is known its tests are observed one by one; if
// that fails the test is run as it is.
func (t *turn) runBaseline(ctx context.Context, i int) (verify.Base, sandbox.Result, error) {
	weak := t.baseline.Weak
	if t.Named == nil && verify.Runner(t.Settings.Test) != "" && (i == 0 || weak == "") {
		res, err := t.onBase(ctx, fmt.Sprintf("baseline-%d", i), i == 0, t.observing(nil))
		if err != nil || res.End == sandbox.Stopped {
			return verify.Base{}, res, err
		}
		seen, ok := verify.ReadObservation(res)
		if ok && seen.Status == wire.Failed && t.Settings.Expect == ExpectPass {
			ok, seen.Weak = false, "observed one by one, tests fail on the base"
		}
		if ok {
			res.Stdout = sandbox.Output{} // the observation
			return seen, res, nil
		}
		weak = seen.Weak
	}
	res, err := t.onBase(ctx, fmt.Sprintf("baseline-%d-plain", i), i == 0, sandbox.Spec{Argv: t.Settings.Test, Timeout: t.TestLimit, Head: t.Named.head()})
	if err != nil {
		return verify.Base{}, res, err
	}
	if t.Named != nil {
		seen := t.Named.baseline(res)
		res.Stdout = ends(res.Stdout.Bytes(), "")
		if t.reportPath() != "" {
			res.Stdout = sandbox.Output{} // the report
		}
		return seen, res, nil
	}
	seen := verify.Baseline(res)
	seen.Weak = weak
	return seen, res, nil
}

// onBase runs a program in a shadow of the untouched base, as a test is run.
func (t *turn) onBase(ctx context.Context, name string, first bool, spec sandbox.Spec) (sandbox.Result, error) {
	shadow, err := t.work.NewVerificationWith(ctx, t.base, name, t.base.Tree(), t.isGuard, t.laid)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer t.discard(ctx, shadow)
	made := t.base.Tree()
	if len(t.laid) > 0 {
		before, err := shadow.Seal(ctx, worktree.Limits{})
		if err != nil {
			return sandbox.Result{}, err
		}
		made = before.Tree
	}
	if pattern := t.reportPath(); pattern != "" {
		if err := shadow.Forget(pattern); err != nil {
			return sandbox.Result{}, err
		}
	}
	spec.Root, spec.WorkDir, spec.Home, spec.Enter, spec.Seen = shadow.Root(), t.Repo.Prefix(), shadow.Home(), sandbox.Entry(shadow.Enter()), t.seen()
	spec.Env, spec.Network, spec.Ports = plan.Environment(t.Settings.Test), sandbox.NetworkNone, portsOf(t.ports, 0)
	res, err := t.box(0, phaseBaseline).Run(ctx, spec)
	if err != nil {
		return res, err
	}
	if t.reportPath() != "" {
		res = t.Named.report(res, t.leftIn(shadow))
	}
	if first {
		// A trace that is known is forgiven later. What came into the shadow through
		// the base is not the test's own, so not all of it has to be read.
		after, err := shadow.Seal(ctx, worktree.Limits{})
		if err == nil {
			t.ownTraces, err = t.guardedTraces(ctx, after.Tree, made)
		}
		if err != nil {
			t.notice("what the test itself leaves in protected paths is not known: %v", err)
		}
		if t.Hidden.any() {
			// Its home may tell what was tested.
		} else if err := t.base.Warm(ctx, shadow); err != nil {
			t.notice("the baseline's build caches are not shared with candidates: %v", err)
		}
	}
	return res, nil
}

// look reads a shadow of ours: all of it where a candidate's programs could
// have written to what it rests on.
func (t *turn) look(ctx context.Context, shadow *worktree.Shadow) (*worktree.Sealed, error) {
	if t.Settings.Isolation.Filesystem {
		return shadow.Seal(ctx, worktree.Limits{})
	}
	return shadow.SealAll(ctx, worktree.Limits{})
}

// guardedTraces lists the protected paths in which the tree that a test left
// differs from the one it was run in.
func (t *turn) guardedTraces(ctx context.Context, after, made worktree.TreeID) (map[string]string, error) {
	traces := map[string]string{}
	if after == made {
		return traces, nil
	}
	left, err := t.base.Objects().Diff(ctx, made, after)
	if err != nil {
		return nil, err
	}
	for _, f := range left.Files {
		if t.isGuard(f.Path) {
			traces[f.Path] = f.New
		}
	}
	return traces, nil
}

// verify asks every plugin that answers after_turn, each on fresh shadows of
// base + change, as often as --repeat says, and lets the judge decide by each
// arbiter's rule on that arbiter's evidence alone. All repetitions must agree
// on success; one failure is a failure.
func (l *life) verify(ctx context.Context, sealed *worktree.Sealed, name string, guarded []string) (judge.Verdict, *endOfLife) {
	none := judge.Verdict{Decision: judge.Undecided, Requirements: []judge.RequirementVerdict{}}
	var all []record.Evidence
	for at, p := range l.plugins {
		if !p.After {
			continue
		}
		kept := record.Evidence{Plugin: p.Name, Round: l.round}
		for i := range l.Settings.Repeat {
			one, res, end := l.askAfter(ctx, p, sealed, fmt.Sprintf("%s-after-%d-%d-%d", name, at, l.round, i), guarded)
			if end != nil {
				return none, end
			}
			one.OutputTail = l.tailOf(sandbox.Result{Stdout: res.Stderr})
			if p.Name == builtin {
				one.OutputTail = withoutNote(one.OutputTail)
			}
			kept = fold(p.Rule, kept, one, i, res.Duration)
			l.keepTestLog(p, res, i)
		}
		all = append(all, kept)
	}
	verdict := combined(verdicts(l.rules(), all))
	l.record(l.index, func(c *record.Candidate) {
		c.Rounds = l.round + 1
		c.Evidence = append(c.Evidence, all...)
		c.Verdict = &verdict
	})
	return verdict, nil
}

func (l *life) rules() []record.Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doc.Rules
}

// askAfter makes one fresh shadow and has one exchange in it.
func (l *life) askAfter(ctx context.Context, p Plugin, sealed *worktree.Sealed, name string, guarded []string) (record.Evidence, sandbox.Result, *endOfLife) {
	kept := record.Evidence{Plugin: p.Name, Round: l.round}
	n := int(l.seat.Number)
	shadow, err := l.work.NewVerificationWith(ctx, l.base, name, sealed.Tree, l.isGuard, l.laid)
	if err != nil {
		return kept, sandbox.Result{}, lifeEnds(candidate.Infrastructure, "make its verification shadow: %v", err)
	}
	defer l.discard(ctx, shadow)
	before, err := l.look(ctx, shadow)
	if err != nil {
		return kept, sandbox.Result{}, lifeEnds(candidate.Infrastructure, "check its verification shadow: %v", err)
	}
	other, err := l.differs(ctx, sealed.Tree, before.Tree)
	if err != nil {
		return kept, sandbox.Result{}, lifeEnds(candidate.Infrastructure, "check its verification shadow: %v", err)
	}
	if len(guarded) == 0 && other != "" {
		// What is verified must be, byte for byte, what would be adopted.
		outcome := candidate.Infrastructure
		if !l.Settings.Isolation.Filesystem {
			outcome = candidate.Compromised // a candidate could write to the base
		}
		if l.base.Shared() && !l.base.Intact() {
			outcome = candidate.Infrastructure // one of another run could, too
		}
		return kept, sandbox.Result{}, lifeEnds(outcome, "its verification shadow is not its tree (%s)", other)
	}
	if pattern := l.reportPath(); pattern != "" {
		if err := shadow.Forget(pattern); err != nil {
			return kept, sandbox.Result{}, lifeEnds(candidate.Infrastructure, "clear the place of its report: %v", err)
		}
	}
	if err := l.watch.enter(ctx, n); err != nil {
		return kept, sandbox.Result{}, lifeEnds(candidate.Infrastructure, "look at the repository: %v", err)
	}
	at := l.place(shadow, n, l.startedProcess)
	resp, res, err := p.Ask(ctx, l.box(l.seat.Number, phaseVerify), at, wire.Request{After: &wire.AfterRequest{
		ProtocolVersion: wire.Version, Wrapper: p.Wrapper, Round: uint32(l.round), Goal: l.Task,
		Candidate: l.grant(at, l.seat.Number.Handle()),
		Turn: wire.Turn{
			Completed: !l.timedOut, Answer: l.answer, Tools: calledTools(l.offersTools(), l.tools), ChangedFiles: wirePaths(sealed.Change),
		},
	}})
	suspicious, watchErr := l.watch.leave(context.WithoutCancel(ctx), n)
	l.soon(func(c *record.Candidate) { c.Processes = nil })
	var fault *wire.Fault
	switch {
	case len(suspicious) > 0:
		return kept, res, lifeEnds(candidate.Escaped, "your repository changed while it was verified (%s)", firstFew(suspicious))
	case ctx.Err() != nil:
		return kept, res, lifeEnds(candidate.Cancelled, "%v", context.Cause(ctx))
	case watchErr != nil:
		return kept, res, lifeEnds(candidate.Infrastructure, "look at the repository: %v", watchErr)
	case errors.Is(err, proc.ErrSupervisorLost):
		l.reapBelow(shadow.Root(), shadow.Home())
		return kept, res, lifeEnds(candidate.Escaped, "what supervised its verification was killed")
	case errors.As(err, &fault):
		kept.Fault = l.Redactor.String(fault.Error())
	case err != nil:
		return kept, res, lifeEnds(candidate.Infrastructure, "%v", err)
	}
	switch {
	case p.Name == builtin:
		var told *verify.Results
		told, res.Stderr = verify.TakeResults(res.Stderr)
		kept.Tests = l.testsOf(told)
	case p.Tests != nil:
		kept.Tests = record.ListTests(p.Tests(res))
	}
	kept.Evidence = run.Evidence(resp, err)
	if err == nil && (p.Name == builtin || p.Name == named) {
		reason, text := verify.Note(res.Stderr)
		kept.Reason, kept.Evidence.FlipReason = string(reason), text
		if reason.Compromised() {
			kept.Compromised = text
		}
	}
	kept.Evidence.Tamper, kept.Compared = l.tamperOf(ctx, shadow, before.Tree, guarded, sealed.Change)
	return kept, res, nil
}

// tamperOf is the host's own finding about the protected paths, with what it
// compared: those that the candidate changed, and those that changed while its
// code was tested.
func (l *life) tamperOf(ctx context.Context, shadow *worktree.Shadow, made worktree.TreeID, guarded []string, change worktree.Change) (judge.Tamper, *record.Compared) {
	if len(guarded) > 0 {
		return judge.Tamper{Status: judge.Tampered, Artifact: guarded[0]}, compared(l.witnesses(), l.isGuard, l.openly(change.Files), nil)
	}
	var traces map[string]string
	sealed, err := l.look(ctx, shadow)
	if err == nil {
		traces, err = l.guardedTraces(ctx, sealed.Tree, made)
	}
	if err != nil {
		l.notice("%s: the protected paths could not be compared after its verification: %v", l.seat.Number.ID(), err)
		return judge.Tamper{Status: judge.NotChecked}, nil
	}
	maps.DeleteFunc(traces, func(path, id string) bool { own, ok := l.ownTraces[path]; return ok && own == id })
	found := compared(l.witnesses(), l.isGuard, l.openly(change.Files), traces)
	if len(traces) == 0 {
		return judge.Tamper{Status: judge.Clean}, found
	}
	return judge.Tamper{Status: judge.Tampered, Artifact: slices.Min(slices.Collect(maps.Keys(traces)))}, found
}

// fold adds repetition i to what was kept of the earlier ones: the worst of
// the observations counts.
func fold(rule *judge.Rule, kept, one record.Evidence, i int, took time.Duration) record.Evidence {
	test := record.TestRun{Flip: one.Evidence.Flip, DurationMS: took.Milliseconds()}
	if code, ok := one.Evidence.Measurements[verify.ExitCode]; ok {
		test.ExitCode = &code
	}
	if i == 0 || severity(rule, one) > severity(rule, kept) {
		runs, passed := kept.Runs, kept.Passed
		kept = one
		kept.Runs, kept.Passed = runs, passed
	}
	kept.Runs = append(kept.Runs, test)
	if severity(rule, one) == 0 {
		kept.Passed++
	}
	return kept
}

// severity orders evidence from what supports a candidate to what condemns it.
func severity(rule *judge.Rule, e record.Evidence) int {
	if e.Compromised != "" || e.Evidence.Tamper.Status == judge.Tampered {
		return 3
	}
	if rule == nil {
		return 0
	}
	switch judge.Decide(*rule, e.Evidence).Decision {
	case judge.Met:
		return 0
	case judge.Undecided:
		return 1
	}
	return 2
}

func (t *turn) baselineStatus() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doc.Baseline.Status
}

// testsOf is what single tests did as the record keeps it, without secrets.
func (t *turn) testsOf(told *verify.Results) *record.Tests {
	if told == nil {
		return nil
	}
	seen := map[string]record.TestStatus{}
	for name, status := range told.ByTest() {
		seen[t.Redactor.String(name)] = record.TestStatus(status)
	}
	tests := record.ListTests(seen)
	if tests != nil {
		tests.More += told.More
	}
	return tests
}

// wirePaths lists changed paths as the wire carries them, which is UTF-8.
func wirePaths(c worktree.Change) []string {
	paths := make([]string, len(c.Files))
	for i, f := range c.Files {
		paths[i] = strings.ToValidUTF8(f.Path, "\uFFFD")
	}
	return paths
}

// keepTestLog writes what the test, or a plugin, printed beside the agent's
// log.
func (l *life) keepTestLog(p Plugin, res sandbox.Result, i int) {
	name := fmt.Sprintf("test-%d-%d.log", l.round, i)
	if p.Name != builtin {
		name = fmt.Sprintf("plugin-%x-%d-%d.log", p.Name, l.round, i)
	}
	if err := l.Record.File(l.seat.Number.ID(), name, []byte(l.Redactor.String(string(res.Stderr.Bytes())))); err != nil {
		l.failRecord(err)
	}
}

// tailOf is the end of what was printed, on whole lines, without secrets.
func (t *turn) tailOf(res sandbox.Result) string {
	out := append(res.Stdout.Bytes(), res.Stderr.Bytes()...)
	text := strings.ToValidUTF8(t.Redactor.String(string(out)), "\uFFFD")
	if len(text) > outputTail {
		text = text[len(text)-outputTail:]
		if nl := strings.IndexByte(text, '\n'); nl >= 0 {
			text = text[nl+1:]
		}
		text = strings.ToValidUTF8(text, "")
	}
	return text
}

// withoutNote takes the plugin's own last line off the test's output.
func withoutNote(text string) string {
	body := strings.TrimSuffix(text, "\n")
	if i := strings.LastIndexByte(body, '\n') + 1; strings.HasPrefix(body[i:], builtin+": ") {
		return body[:i]
	}
	return text
}

// endWords says how a command ended.
func endWords(res sandbox.Result) string {
	switch {
	case res.End == sandbox.NotRun:
		return "could not be run: " + res.Reason
	case res.End == sandbox.Deadline:
		return "did not end in time"
	case res.Signal != 0:
		return fmt.Sprintf("died of signal %d", res.Signal)
	}
	return fmt.Sprintf("ended with status %d", res.Code)
}

// lastLine is the last line that was printed, for a one-line message.
func lastLine(r *redact.Redactor, res sandbox.Result) string {
	lines := strings.Split(strings.TrimSpace(string(append(res.Stdout.Bytes(), res.Stderr.Bytes()...))), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if last == "" {
		return "it printed nothing"
	}
	return r.String(last)
}

// ObjectsDir is where the record of a run, a directory, keeps the objects of its
// candidates' changes.
func ObjectsDir(run string) string { return filepath.Join(run, "objects") }
