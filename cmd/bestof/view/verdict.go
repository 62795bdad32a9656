package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// Options is how a record is shown.
type Options struct {
	Look     term.Look
	Location *time.Location // for times of day; nil is UTC
}

// maxCauses is how many reasons of a red run are listed before the rest is
// counted.
const maxCauses = 8

// Verdict writes the end of a run: who won, why, what to do next, and what the
// answer rests on.
func Verdict(w io.Writer, doc record.Document, o Options) error {
	p := &page{look: o.Look}
	p.verdict(doc)
	return p.flush(w)
}

func (p *page) verdict(doc record.Document) {
	m := compare.Build(doc)
	p.headline(doc, m)
	if len(m.Candidates) > 0 && doc.AnyStarted() {
		p.line()
		p.standing(m)
	}
	if doc.Winner == nil && doc.Phase == record.Finished {
		p.causes(doc, m)
	}
	p.line()
	p.ground(doc)
	p.line()
	p.next(doc)
}

func id(n int) string { return candidate.Number(n).ID() }

func ids(ns []int) string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = id(n)
	}
	return join(out)
}

// join is "a", "a and b", "a, b and c".
func join(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

func (p *page) headline(doc record.Document, m compare.Model) {
	why := func(format string, args ...any) { p.para(normal, 2, format, args...) }
	switch {
	case doc.Phase == record.Interrupted:
		p.para(bold.with(yellow), 0, "Interrupted: run %s did not finish.", doc.Run)
		why("What was written until then is kept. Nothing was decided; run it again.")
		if doc.Reason != "" {
			why("%s", doc.Reason)
		}
	case doc.Phase == record.Running:
		p.para(bold, 0, "Run %s is still running.", doc.Run)
	case doc.Winner != nil:
		agent, size := "", ""
		for _, c := range m.Candidates {
			if c.Number == *doc.Winner {
				agent = " (" + c.Agent + ")"
				size = fmt.Sprintf(", %s in %s", p.lines(c.Added, c.Deleted), count(c.Files, "file", "files"))
			}
		}
		p.para(bold.with(green), 0, "Winner: %s%s%s", id(*doc.Winner), agent, size)
		if doc.Reason != "" {
			why("%s", doc.Reason)
		}
		if len(doc.Tie) > 1 && !strings.HasPrefix(doc.Reason, "a tie") {
			why("A tie: nothing that counts sets %s apart. %s is taken for its number.", ids(doc.Tie), id(*doc.Winner))
		}
		if doc.AdoptError != "" {
			why("It was not adopted: %s", doc.AdoptError)
		}
		if doc.Settings.AllowUndecided && p.outcome(m, *doc.Winner) != candidate.Met {
			why("This is a ranking without evidence: no test showed that the winner is right.")
		}
		if a := doc.Adopted; a != nil {
			p.adopted(a)
		}
	case len(m.Candidates) == 0 || !doc.AnyStarted():
		p.para(bold.with(yellow), 0, "No winner: nothing was tried.")
		if doc.Reason != "" {
			why("%s", doc.Reason)
		}
	default:
		if doc.Withheld != "" {
			p.para(bold.with(yellow), 0, "No winner: the run ended before there was one.")
		} else {
			p.para(bold.with(red), 0, "No winner: none of %s qualified.", count(len(m.Candidates), "candidate", "candidates"))
		}
		if doc.Reason != "" {
			why("%s", doc.Reason)
		}
		if a := doc.Adopted; a != nil {
			p.adopted(a)
		} else {
			why("Your tree is as it was.")
		}
	}
}

func (p *page) outcome(m compare.Model, n int) candidate.Outcome {
	for _, c := range m.Candidates {
		if c.Number == n {
			return c.Outcome
		}
	}
	return ""
}

func (p *page) adopted(a *record.Adoption) {
	where := "your working tree"
	if a.Branch != "" {
		where = "branch " + a.Branch
	}
	p.para(green, 2, "Adopted: %s is in %s (tree %s).", id(a.Candidate), where, short(a.Tree))
	if a.Override != nil {
		p.para(yellow, 2, "The judge did not choose it: %s said so, because: %s", a.Override.Who, a.Override.Why)
	}
}

func short(oid string) string {
	if len(oid) > 12 {
		return oid[:12]
	}
	return oid
}

// standing is the table of the candidates in the order of the ranking.
func (p *page) standing(m compare.Model) {
	columns := []column{
		{head: "#", right: true}, {head: "who"}, {head: "agent", shrink: 2, least: 6}, {head: "outcome"},
		{head: "files", right: true, shrink: 3, least: 5}, {head: "lines"}, {head: "reqs", shrink: 4, least: 4},
		{head: "why", shrink: 5, least: 12},
	}
	var rows [][]bit
	for _, c := range m.Candidates {
		place, st := "", normal
		if c.Place > 0 {
			place = fmt.Sprint(c.Place)
		}
		if c.Ties {
			place = "=" + place
		}
		if c.Number == m.Winner {
			st = bold
		}
		held, of := 0, len(c.Requirements)
		for _, r := range c.Requirements {
			if r.Decision == judge.Met {
				held++
			}
		}
		required := ""
		if of > 0 {
			required = fmt.Sprintf("%d/%d", held, of)
		}
		files, lines := "", ""
		if c.Files > 0 {
			files, lines = fmt.Sprint(c.Files), p.lines(c.Added, c.Deleted)
		}
		outcome := string(c.Outcome)
		if outcome == "" {
			outcome = "unfinished"
		}
		rows = append(rows, []bit{
			{p.text("%s", place), st}, {p.text("%s", id(c.Number)), st}, {p.text("%s", c.Agent), st},
			{p.text("%s", outcome), outcomeStyle(c.Outcome)}, {p.text("%s", files), st}, {p.text("%s", lines), st},
			{p.text("%s", required), st}, {p.text("%s", why(c, m)), dim},
		})
	}
	p.table(columns, rows)
}

// why is the shortest honest reason for a candidate's place.
func why(c compare.Candidate, m compare.Model) string {
	switch {
	case c.Number == m.Winner:
		return "winner"
	case c.Because != "":
		return c.Because
	case len(c.Tampered) > 0:
		more := ""
		if n := len(c.Tampered) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		return "changed " + c.Tampered[0] + more + ", which is protected"
	case c.Detail != "":
		return c.Detail
	}
	for _, r := range c.Requirements {
		if r.Decision != judge.Met && len(r.Words) > 0 {
			return r.Words[0]
		}
	}
	return ""
}

// causes is why a red run is red: what the proposed revision says, and
// otherwise each candidate's own reason.
func (p *page) causes(doc record.Document, m compare.Model) {
	var causes []string
	if doc.Revision != nil {
		causes = doc.Revision.Causes
	}
	if len(causes) == 0 {
		for _, c := range m.Candidates {
			if reason := why(c, m); reason != "" {
				causes = append(causes, id(c.Number)+": "+reason)
			}
		}
	}
	if len(causes) == 0 {
		return
	}
	p.line()
	p.say(bold, "What stood in the way")
	dash := bit{p.text("  - "), dim}
	for i, c := range causes {
		if i == maxCauses {
			p.item(dash, normal, "%d more: bestof show %s", len(causes)-i, doc.Run)
			break
		}
		first, rest, _ := strings.Cut(c, "\n")
		p.item(dash, normal, "%s", first)
		for line := range strings.Lines(rest) {
			p.say(dim, "    %s", strings.TrimRight(line, "\n"))
		}
	}
}

// ground is what the answer rests on: base, baseline and isolation.
func (p *page) ground(doc record.Document) {
	row := func(label string, s style, format string, args ...any) {
		p.item(bit{p.text("%-10s", label), dim}, s, format, args...)
	}
	b := doc.Base
	on := ""
	if b.Commit != "" {
		on = " on " + short(b.Commit)
	}
	switch b.Kind {
	case "snapshot":
		row("Base", normal, "your tree as it was%s, with staged, unstaged and untracked files (%s). Not in it: ignored files, .bestof.", on, count(b.Files, "file", "files"))
	case "":
		row("Base", normal, "none was made")
	default:
		row("Base", normal, "%s%s (%s). Not in it: your uncommitted edits and untracked files.", b.Kind, on, count(b.Files, "file", "files"))
	}
	for _, n := range b.Notes {
		row("", normal, "%s", n)
	}
	if s := baseline(doc); s != "" {
		st := normal
		if doc.Baseline.Flaky {
			st = yellow
		}
		row("Baseline", st, "%s", s)
	}
	if b := doc.Baseline; b.Evidence != "" {
		st := normal
		if b.Known == 0 {
			st = yellow
		}
		row("Evidence", st, "%s", b.Evidence)
	}
	iso := doc.Settings.Isolation
	if iso.Name != "" {
		row("Isolation", normal, "%s: %s", iso.Name, iso.Summary)
	}
	for _, missing := range iso.Missing {
		row("", yellow, "Not kept: %s", missing)
	}
	for _, n := range doc.Notices {
		row("Note", yellow, "%s", n)
	}
}

func baseline(doc record.Document) string {
	b := doc.Baseline
	s := ""
	switch b.Status {
	case "":
		return ""
	case "failed":
		s = "the test fails without a change"
	case "passed":
		s = "the test passes without a change"
	case "unobserved":
		s = "the test could not be observed without a change"
	case "not-run":
		s = "the test did not run without a change"
	default:
		s = b.Status
	}
	if b.ExitCode != nil {
		s += fmt.Sprintf(" (exit %d, %.1f s)", *b.ExitCode, float64(b.DurationMS)/1000)
	}
	if b.Flaky {
		s += fmt.Sprintf("; it is flaky: %d runs disagreed", b.Runs)
	}
	if b.Reason != "" {
		s += ": " + b.Reason
	}
	return s
}

// next is the exact commands that make sense now.
func (p *page) next(doc record.Document) {
	type step struct{ command, what string }
	var steps []step
	add := func(what, format string, args ...any) {
		steps = append(steps, step{fmt.Sprintf(format, args...), what})
	}
	switch {
	case doc.Phase == record.Running:
		add("look at what is written so far", "bestof show %s", doc.Run)
	case doc.Winner != nil:
		add("see the change", "bestof diff %s %d", doc.Run, *doc.Winner)
		if len(doc.Candidates) > 1 {
			add("see all side by side", "bestof compare %s", doc.Run)
		}
		if doc.Adopted == nil {
			add("take it into your tree", "bestof adopt %s", doc.Run)
		}
	case doc.Phase == record.Interrupted:
		add("see what was written", "bestof show %s", doc.Run)
		add("remove what it left", "bestof gc")
	case !doc.AnyStarted():
		add("see the record", "bestof show %s", doc.Run)
	case len(doc.Candidates) > 0:
		add("see all side by side", "bestof compare %s", doc.Run)
		for _, c := range doc.Candidates {
			if c.Outcome == candidate.Met && doc.Phase == record.Finished && doc.Adopted == nil {
				add("take "+id(c.Number)+", which was met", "bestof adopt %s %d", doc.Run, c.Number)
				break
			}
		}
		if doc.Adopted == nil && doc.Revision != nil {
			add("try again, told what was wrong", "bestof revise %s", doc.Run)
		}
	default:
		add("see the record", "bestof show %s", doc.Run)
	}
	p.say(bold, "Next")
	widest := 0
	for _, s := range steps {
		widest = max(widest, p.text("%s", s.command).Width())
	}
	for _, s := range steps {
		// A command is never wrapped or cut: it is there to be copied.
		command := p.text("  %s", s.command).Pad(widest + 4)
		what := p.text("%s", s.what)
		if p.look.Width > 0 && command.Width()+what.Width() > p.look.Width {
			p.say(cyan, "  %s", s.command)
			continue
		}
		p.line(bit{command, cyan}, bit{what, dim})
	}
}
