package orchestrator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// A Choice is what the judge makes of a record.
type Choice struct {
	Ranking  []record.Rank
	Winner   *int
	Tie      []int
	Reason   string
	ExitCode int
}

// Rejudge decides every candidate of a record again from its evidence and
// chooses again. It is pure: the same record gives the same answer wherever
// and whenever. differs names what does not agree with the record.
func Rejudge(doc record.Document) (again record.Document, differs []string) {
	again = doc
	again.Candidates = slices.Clone(doc.Candidates)
	for i := range again.Candidates {
		c := &again.Candidates[i]
		if !isJudged(c.Outcome) || len(doc.Rules) == 0 {
			continue
		}
		verdict := combined(verdicts(doc.Rules, lastRound(*c)))
		c.Verdict = &verdict
		if c.Outcome, c.Detail = judged(*c); c.Outcome != doc.Candidates[i].Outcome {
			differs = append(differs, fmt.Sprintf("%s: the record says %s, its evidence says %s", candidate.Number(c.Number).ID(), doc.Candidates[i].Outcome, c.Outcome))
		}
	}
	if doc.Withheld != "" {
		return again, differs
	}
	choice := Choose(again)
	again.Ranking, again.Winner, again.Tie, again.Reason = choice.Ranking, choice.Winner, choice.Tie, choice.Reason
	if number(doc.Winner) != number(again.Winner) {
		differs = append(differs, fmt.Sprintf("the record's winner is %s, the judge's is %s", winnerWords(doc.Winner), winnerWords(again.Winner)))
	}
	return again, differs
}

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

func winnerWords(n *int) string {
	if n == nil {
		return "nobody"
	}
	return candidate.Number(*n).ID()
}

// isJudged tells outcomes that follow from evidence from those that are facts
// about what happened.
func isJudged(o candidate.Outcome) bool {
	switch o {
	case candidate.Met, candidate.Unmet, candidate.Undecided, candidate.Tampered, candidate.Compromised:
		return true
	}
	return false
}

// lastRound is the evidence of the candidate's last round.
func lastRound(c record.Candidate) []record.Evidence {
	var last []record.Evidence
	for _, e := range c.Evidence {
		if e.Round == c.Rounds-1 {
			last = append(last, e)
		}
	}
	return last
}

// verdicts applies each rule to its own plugin's evidence. A rule whose plugin
// gave none is judged on evidence that shows nothing.
func verdicts(rules []record.Rule, evidence []record.Evidence) []judge.Verdict {
	var out []judge.Verdict
	for _, rule := range rules {
		e := judge.Evidence{Provenance: judge.HostObserved, Flip: judge.FlipUnobservable}
		for _, kept := range evidence {
			if kept.Plugin == rule.Plugin {
				e = kept.Evidence
			}
		}
		out = append(out, judge.Decide(rule.Rule, e))
	}
	return out
}

// combined is what several verdicts come to: any unmet is unmet, and what is
// not all met is undecided.
func combined(vs []judge.Verdict) judge.Verdict {
	all := judge.Verdict{Decision: judge.Combine(vs), Requirements: []judge.RequirementVerdict{}}
	for _, v := range vs {
		all.Requirements = append(all.Requirements, v.Requirements...)
		if all.Provenance == "" || v.Provenance == judge.PluginReported {
			all.Provenance = v.Provenance
		}
	}
	return all
}

// hold decides whether an unmet candidate gets another round, and with which
// correction. Any unmet arbiter may hold, within what it asks for; all of them
// share the host's ceiling.
func hold(rules []record.Rule, evidence []record.Evidence, ceiling, spent int) (correction string, again bool) {
	for i, v := range verdicts(rules, evidence) {
		again = judge.Again(v, true, rules[i].Holds, ceiling, spent).Hold || again
		correction += judge.Correction(v)
	}
	return correction, again
}

// judged is the outcome of a candidate with a verdict: tampering and evidence
// that could be forged come before what the rule says.
func judged(c record.Candidate) (candidate.Outcome, string) {
	if len(c.Tampered) > 0 {
		return candidate.Tampered, "changed protected paths: " + firstFew(texts(c.Tampered))
	}
	last := lastRound(c)
	for _, e := range last {
		if e.Compromised != "" {
			return candidate.Compromised, e.Compromised
		}
		if e.Evidence.Tamper.Status == judge.Tampered {
			return candidate.Tampered, "a protected path was changed while it was verified: " + e.Evidence.Tamper.Artifact
		}
	}
	for _, e := range last {
		if e.Plugin == builtin && e.Reason == string(verify.TimedOut) {
			return candidate.TimedOut, "its test did not end in time"
		}
	}
	if c.Verdict == nil {
		return candidate.Undecided, "there is no verdict"
	}
	switch c.Verdict.Decision {
	case judge.Met:
		return candidate.Met, ""
	case judge.Unmet:
		return candidate.Unmet, strings.Join(slices.Concat(causes(*c.Verdict), notPassed(last), flakes(last)), "; ")
	default:
		return candidate.Undecided, strings.Join(undecidedCauses(c), "; ")
	}
}

func texts(paths []bytestring.String) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = string(p)
	}
	return out
}

// causes says in words why requirements are not met, each cause once.
func causes(v judge.Verdict) []string {
	var out []string
	for _, r := range v.Requirements {
		if r.Decision != judge.Unmet {
			continue
		}
		for _, f := range r.Findings {
			if words := compare.Words(f); !slices.Contains(out, words) {
				out = append(out, words)
			}
		}
	}
	return out
}

// notPassed names the first of the named tests that did not pass.
func notPassed(evidence []record.Evidence) []string {
	var out []string
	for _, e := range evidence {
		if e.Plugin != named || e.Tests == nil {
			continue
		}
		for _, l := range []struct {
			ids   []bytestring.String
			words string
		}{{e.Tests.Failed, "did not pass"}, {e.Tests.Missing, "not reported"}} {
			if len(l.ids) > 0 {
				out = append(out, l.words+": "+wire.Line(firstFew(texts(l.ids)), 1000))
			}
		}
	}
	return out
}

// flakes says how often a test that was repeated passed, when it did not do
// the same each time.
func flakes(evidence []record.Evidence) []string {
	var out []string
	for _, e := range evidence {
		if e.Passed > 0 && e.Passed < len(e.Runs) {
			out = append(out, fmt.Sprintf("flaky: %d of %d verifications passed", e.Passed, len(e.Runs)))
		}
	}
	return out
}

func undecidedCauses(c record.Candidate) []string {
	var out []string
	for _, e := range lastRound(c) {
		switch {
		case e.Fault != "":
			out = append(out, e.Plugin+": "+e.Fault)
		case e.Evidence.FlipReason != "":
			out = append(out, e.Plugin+": "+e.Evidence.FlipReason)
		}
	}
	if len(out) == 0 {
		out = []string{"the evidence decides nothing"}
	}
	return out
}

// Equal groups the candidates of a record whom the rule ranks equal, best first:
// between them only advice, the size of the change and their numbers decide.
func Equal(doc record.Document) [][]int {
	all, _ := contenders(doc)
	return judge.Equals(all, doc.Settings.Rank)
}

// contenders are the candidates as the ranking knows them. met reports whether
// any of them is known to be right.
func contenders(doc record.Document) (all []judge.Contender, met bool) {
	for _, c := range doc.Candidates {
		k := judge.Contender{Number: c.Number}
		if c.Change != nil {
			k.Eligible = c.Outcome == candidate.Met || doc.Settings.AllowUndecided && c.Outcome == candidate.Undecided
			k.Normalised, k.Tree = c.Change.Normalised, c.Change.Tree
			k.Lines, k.Files = c.Change.Added+c.Change.Deleted, len(c.Change.Files)
		}
		k.Measurements = map[string]uint64{}
		for _, e := range lastRound(c) {
			maps.Copy(k.Measurements, e.Evidence.Measurements)
		}
		all = append(all, k)
	}
	met = slices.ContainsFunc(doc.Candidates, func(c record.Candidate) bool { return c.Outcome == candidate.Met && c.Change != nil })
	if met {
		// What is known to be right is never ranked with what is not known.
		for i := range all {
			all[i].Eligible = all[i].Eligible && doc.Candidates[i].Outcome == candidate.Met
		}
	}
	return all, met
}

// prefer gives contenders what a record's advice says of them: how many others
// it put below each. Records come from anywhere, so what advice says counts once
// for each pair, and only between the best whom the rule ranks equal. Who has
// the very tree of one that was asked about has its count.
func prefer(all []judge.Contender, doc record.Document) {
	equal := judge.Equals(all, doc.Settings.Rank)
	if doc.Advice == nil || len(equal) == 0 {
		return
	}
	asked := func(number int) bool { return slices.Contains(equal[0], number) }
	won, heard := map[int]int{}, map[[2]int]bool{}
	for _, p := range doc.Advice.Pairs {
		pair := [2]int{min(p.First, p.Second), max(p.First, p.Second)}
		if pair[0] != pair[1] && asked(p.First) && asked(p.Second) && !heard[pair] && (p.Better == p.First || p.Better == p.Second) {
			heard[pair] = true
			won[p.Better]++
		}
	}
	of := map[string]int{}
	for _, k := range all {
		of[k.Tree] = max(of[k.Tree], won[k.Number])
	}
	for i := range all {
		if all[i].Tree != "" {
			all[i].Preferred = of[all[i].Tree]
		}
	}
}

// Choose ranks the candidates of a record by their outcomes.
func Choose(doc record.Document) Choice {
	all, anyMet := contenders(doc)
	prefer(all, doc)
	r := judge.Rank(all, doc.Settings.Rank)
	choice := Choice{Ranking: []record.Rank{}, Tie: r.Tie, Reason: r.Reason}
	for _, p := range r.Places {
		choice.Ranking = append(choice.Ranking, record.Rank{Place: p.Place, Candidate: p.Number, Agreement: p.Agreement, Because: p.Because, Ties: p.Ties})
	}
	if r.Winner != 0 {
		choice.Winner = &r.Winner
		if !anyMet {
			choice.Reason = "a ranking without evidence, as --allow undecided asked: " + r.Reason
		}
		return choice
	}
	choice.ExitCode, choice.Reason = withoutWinner(doc)
	return choice
}

// withoutWinner says why nobody won, and with which exit code. What the host
// got wrong comes first only when every candidate fell to it.
func withoutWinner(doc record.Document) (int, string) {
	count := map[candidate.Outcome]int{}
	for _, c := range doc.Candidates {
		count[c.Outcome]++
	}
	var parts []string
	for _, o := range candidate.Outcomes {
		if count[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[o], o))
		}
	}
	reason := "no candidate qualifies: " + strings.Join(parts, ", ")
	for outcome, code := range map[candidate.Outcome]int{
		candidate.Infrastructure: ExitInfrastructure, candidate.TimedOut: ExitTimedOut, candidate.OverBudget: ExitOverBudget,
	} {
		if count[outcome] == len(doc.Candidates) && count[outcome] > 0 {
			return code, reason
		}
	}
	return ExitNoWinner, reason
}

// Revise proposes the next attempt after a red run: the task with what every
// candidate's evidence said. Nothing runs from it until a person approves.
func Revise(doc record.Document) *record.Revision {
	var lines []string
	seen := map[string]bool{}
	for _, c := range doc.Candidates {
		detail := c.Detail
		if detail == "" {
			detail = string(c.Outcome)
		}
		line := fmt.Sprintf("%s (%s): %s: %s", candidate.Number(c.Number).ID(), c.Agent, c.Outcome, detail)
		if !seen[detail] {
			seen[detail] = true
			line += required(c.Verdict)
			if tail := lastEvidence(c); tail != "" {
				line += "\n" + indent(tail)
			}
		}
		lines = append(lines, line)
	}
	task := doc.Task + "\n\nAn earlier attempt was not accepted. What it showed:\n"
	for _, l := range lines {
		task += "- " + l + "\n"
	}
	return &record.Revision{Task: task, Causes: lines}
}

// required names the requirements that a verdict found unmet.
func required(v *judge.Verdict) string {
	var s strings.Builder
	if v != nil {
		for _, r := range v.Requirements {
			if r.Decision == judge.Unmet {
				fmt.Fprintf(&s, "\n    required: %s (%s)", wire.Line(r.Statement, 400), wire.Line(r.Name, 100))
			}
		}
	}
	return s.String()
}

func lastEvidence(c record.Candidate) string {
	for _, e := range slices.Backward(c.Evidence) {
		if e.OutputTail != "" {
			return e.OutputTail
		}
	}
	return ""
}

func indent(s string) string {
	const most = 20
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	lines = lines[max(0, len(lines)-most):]
	return "    " + strings.Join(lines, "\n    ")
}
