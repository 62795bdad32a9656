package orchestrator

import (
	"context"
	"slices"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/testreport"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/plan"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// observing is the run of the test command in which its tests are seen one by
// one, with a hidden one that must fail: on the base where base is nil, and
// else after a change.
func (t *turn) observing(base *verify.Expected) sandbox.Spec {
	return sandbox.Spec{
		Argv:  append([]string{t.Self, "internal", "plugin", "verify"}, verify.ObserveArgs(t.TestLimit, base, t.Settings.Test)...),
		Binds: []sandbox.Bind{{Source: t.Self, Target: t.Self}}, Timeout: t.TestLimit + margin, Head: wire.MaxOutput,
	}
}

// tryOneByOne finds out on the base whether named tests can also be observed one
// by one: whether their runner is known, and gives them the names that they have.
func (t *turn) tryOneByOne(ctx context.Context) error {
	if t.Named == nil || verify.Runner(t.Settings.Test) == "" {
		return nil
	}
	res, err := t.onBase(ctx, "baseline-named", false, t.observing(nil))
	if err != nil || res.End == sandbox.Stopped {
		return err
	}
	seen, ok := verify.ReadObservation(res)
	switch {
	case !ok:
		t.baseline.Weak = seen.Weak
	case t.Named.agrees(seen.Results):
		t.oneByOne = seen.Expected
	case seen.Results != nil && seen.Results.More > 0:
		t.baseline.Weak = "there are too many tests to name each"
	default:
		t.baseline.Weak = "the report names tests in another way than their runner does"
	}
	return nil
}

// agrees reports whether what was observed on the base is what the report said
// of the named tests, and by which names.
func (n *Named) agrees(seen *verify.Results) bool {
	if seen == nil || seen.More > 0 {
		return false
	}
	each := observed(seen)
	unlike := func(id string) bool {
		ran := n.base[id] != testreport.Missing && n.base[id] != testreport.Error
		return ran && each.Of(id) == testreport.Missing
	}
	return !slices.ContainsFunc(n.ids(), unlike) &&
		!slices.ContainsFunc(n.Fail, func(id string) bool { return each.Of(id) == testreport.Passed }) &&
		!slices.ContainsFunc(n.Pass, func(id string) bool { return !n.seen(id, each.Of(id)) })
}

// observed is an observation as a report, in which tests are found by the
// spellings in which data sets have them.
func observed(seen *verify.Results) *testreport.Report {
	all := map[string]testreport.Status{}
	for id, s := range seen.ByTest() {
		switch s {
		case verify.TestPassed:
			all[id] = testreport.Passed
		case verify.TestSkipped:
			all[id] = testreport.Skipped
		case verify.TestFailed:
			all[id] = testreport.Failed
		}
	}
	return testreport.From(all)
}

// seen is passed of an observation, which tells a test that is marked to fail
// as skipped.
func (n *Named) seen(id string, s testreport.Status) bool {
	return n.passed(id, s) || s == testreport.Skipped && n.passed(id, testreport.Expected)
}

// oneByOneWords says what a pass of the named tests rests on, or "".
func (t *turn) oneByOneWords() string {
	if t.oneByOne == nil {
		return ""
	}
	return verify.Runner(t.Settings.Test) + ": each of the named tests must be seen to pass, in a run in which a hidden test fails"
}

// namedEvidence is Named.evidence, in whose report a candidate's code could have
// printed anything. Where that is possible the tests of a run that claims
// success are run once more and seen one by one; doubt is the note of what then
// cannot be believed.
func (t *turn) namedEvidence(ctx context.Context, sb sandbox.Sandbox, at call.Place, res sandbox.Result) (e wire.Evidence, doubt string, err error) {
	e = t.Named.evidence(res)
	if t.oneByOne == nil || e.Flip == judge.FlipUnobservable || e.Measurements[NotPassed] > 0 {
		return e, "", nil
	}
	spec := t.observing(t.oneByOne)
	spec.Root, spec.WorkDir, spec.Home, spec.Enter, spec.Seen = at.Root, at.WorkDir, at.Home, at.Enter, at.Seen
	spec.Env, spec.Network, spec.Ports, spec.Started = plan.Environment(t.Settings.Test), sandbox.NetworkNone, at.Ports, at.Started
	again, err := sb.Run(ctx, spec)
	if err != nil {
		return e, "", err
	}
	seen, _ := verify.ReadObservation(again)
	why, forged := t.Named.unbelievable(seen)
	switch {
	case why == "":
		return e, "", nil
	case !forged:
		return wire.Evidence{Flip: judge.FlipUnobservable, Reason: wire.Line(why, 1000)}, "", nil
	}
	return wire.Evidence{Flip: judge.FlipUnobservable}, "\n" + verify.NoteOf(verify.Forgeable, "the report says that every named test passes, and "+why) + "\n", nil
}

// unbelievable says why an observation does not bear out that every named test
// passes, or "", and whether the report must then have been forged.
func (n *Named) unbelievable(seen verify.Base) (why string, forged bool) {
	switch {
	case seen.Weak != "":
		return "the run cannot be believed: " + seen.Weak, true
	case seen.Results == nil:
		return "the tests were not seen one by one: " + seen.Reason, true
	}
	each := observed(seen.Results)
	for _, id := range n.ids() {
		switch {
		case n.seen(id, each.Of(id)):
		case seen.Results.More > 0:
			return "there are more tests than can be seen one by one", false
		case each.Of(id) == testreport.Failed: // forged, or a test that does now this and now that
			return id + " passes in the report, and failed when it was seen on its own", false
		case seen.Doubt != "":
			return id + " was not seen to: " + seen.Doubt, seen.Forged
		default:
			return id + " was not seen to", true
		}
	}
	return "", false
}
