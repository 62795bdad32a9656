package view

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// A Summary is one run in a list.
type Summary struct {
	Run        string
	Started    time.Time
	Phase      record.Phase
	Candidates int
	Winner     int // 0 is none
	Adopted    bool
	Task       string
	Fault      string // why the record could not be read
}

// Summarise is a record in one line.
func Summarise(doc record.Document) Summary {
	s := Summary{Run: doc.Run, Started: doc.Started, Phase: doc.Phase, Candidates: len(doc.Candidates), Adopted: doc.Adopted != nil, Task: doc.Task}
	if doc.Winner != nil {
		s.Winner = *doc.Winner
	}
	return s
}

// Runs lists runs in the order given.
func Runs(w io.Writer, runs []Summary, o Options) error {
	p := &page{look: o.Look}
	if len(runs) == 0 {
		p.say(normal, "No runs yet. Start one: bestof run -n 4 --test 'COMMAND' \"what to do\"")
		return p.flush(w)
	}
	var rows [][]bit
	for _, r := range runs {
		result, st := result(r)
		task, _, _ := strings.Cut(strings.TrimSpace(r.Task), "\n")
		if r.Fault != "" {
			task = r.Fault
		}
		rows = append(rows, []bit{
			{p.text("%s", r.Run), normal}, {p.text("%s", o.clock(r.Started)), dim},
			{p.text("%s", result), st}, {p.text("%d", r.Candidates), normal}, {p.text("%s", task), normal},
		})
	}
	p.table([]column{
		{head: "run"}, {head: "started", shrink: 2, least: 16}, {head: "result", shrink: 1, least: 11},
		{head: "n", right: true, shrink: 3, least: 2}, {head: "task", shrink: 4, least: 8},
	}, rows)
	return p.flush(w)
}

func result(r Summary) (string, style) {
	switch {
	case r.Fault != "":
		return "unreadable", red
	case r.Phase == record.Running:
		return "running", cyan
	case r.Phase == record.Interrupted:
		return "interrupted", yellow
	case r.Winner > 0 && r.Adopted:
		return id(r.Winner) + " adopted", green
	case r.Winner > 0:
		return id(r.Winner) + " won", green
	case r.Adopted:
		return "overridden", yellow
	default:
		return "no winner", red
	}
}

func (o Options) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if o.Location == nil {
		return t.UTC().Format("2006-01-02 15:04")
	}
	return t.In(o.Location).Format("2006-01-02 15:04")
}

// Show writes a whole record: the verdict, then every candidate with what was
// found about it.
func Show(w io.Writer, doc record.Document, o Options) error {
	p := &page{look: o.Look}
	p.say(bold, "Run %s", doc.Run)
	head := func(label, format string, args ...any) {
		p.item(bit{p.text("%-10s", label), dim}, normal, format, args...)
	}
	started := o.clock(doc.Started)
	if doc.DurationMS > 0 {
		started += ", took " + elapsed(time.Duration(doc.DurationMS)*time.Millisecond)
	}
	head("Started", "%s", started)
	label := "Task"
	for l := range strings.Lines(doc.Task) {
		if l = strings.TrimSpace(l); l != "" {
			head(label, "%s", l)
			label = ""
		}
	}
	if len(doc.Settings.Test) > 0 {
		head("Test", "%s", strings.Join(doc.Settings.Test, " "))
	}
	if len(doc.Settings.Protect) > 0 {
		head("Protected", "%s", strings.Join(doc.Settings.Protect, " "))
	}
	if doc.RevisionOf != "" {
		head("Revises", "%s", doc.RevisionOf)
	}
	if t := doc.Tools; t != nil {
		for _, line := range toolLines(*t) {
			head("Tools", "%s", line)
		}
	}
	for _, u := range doc.SetupUse {
		head("Setup", "%s", networkUse(u))
	}
	p.line()
	p.verdict(doc)
	m := compare.Build(doc)
	for i, c := range m.Candidates {
		for _, rc := range doc.Candidates {
			if rc.Number == c.Number {
				p.line()
				p.candidate(m.Candidates[i], rc)
				break
			}
		}
	}
	return p.flush(w)
}

// toolLines say what the run offered, and what became of each server.
func toolLines(t record.Tools) []string {
	var lines []string
	if len(t.Offered) > 0 {
		line := count(len(t.Offered), "tool", "tools") + " offered to candidates"
		if t.Gathered != nil && len(t.Gathered.Called) > 0 {
			line += fmt.Sprintf(", %d asked once for all", len(t.Gathered.Called))
		}
		lines = append(lines, line)
	}
	for _, s := range t.Servers {
		switch {
		case s.Withheld != "":
			lines = append(lines, s.Name+" withheld: "+s.Withheld)
		case len(s.WithheldTools) > 0:
			lines = append(lines, fmt.Sprintf("%s: %s withheld: %s", s.Name, count(len(s.WithheldTools), "tool", "tools"), strings.Join(slices.Sorted(maps.Keys(s.WithheldTools)), ", ")))
		}
	}
	if t.Gathered != nil {
		for _, f := range t.Gathered.Failures {
			lines = append(lines, f.Tool+" was asked for all and gave nothing: "+f.Reason)
		}
	}
	return lines
}

// toolUse is what a candidate called.
func toolUse(u record.ToolUse) string {
	text := "called " + u.Tool + " " + count(u.Calls, "time", "times")
	if u.Failed > 0 {
		text += fmt.Sprintf(", %d of them failed", u.Failed)
	}
	if u.Refused > 0 {
		text += fmt.Sprintf(", was refused it %s", count(u.Refused, "time", "times"))
	}
	return text
}

// networkUse is what a program asked for of the network.
func networkUse(u record.NetworkUse) string {
	where := u.Host
	if u.Port > 0 {
		where += fmt.Sprintf(":%d", u.Port)
	}
	switch times := count(u.Count, "time", "times"); {
	case u.Allowed && u.Reason == "":
		return fmt.Sprintf("reached %s %s: sent %s, received %s", where, times, size(int(u.Sent)), size(int(u.Received)))
	case u.Allowed:
		return fmt.Sprintf("asked for %s %s: %s", where, times, u.Reason)
	case where == "":
		return fmt.Sprintf("was refused the network %s: %s", times, u.Reason)
	case u.Reason == "":
		return fmt.Sprintf("was refused %s %s", where, times)
	default:
		return fmt.Sprintf("was refused %s %s: %s", where, times, u.Reason)
	}
}

func (p *page) candidate(c compare.Candidate, rc record.Candidate) {
	outcome := string(c.Outcome)
	if outcome == "" {
		outcome = "unfinished (" + string(rc.State) + ")"
	}
	p.fill(bit{p.text("%s", id(c.Number)), bold}, bit{p.text(" %s ", c.Agent), normal}, bit{p.text("%s", outcome), outcomeStyle(c.Outcome)},
		bit{p.text(" after %s, %s", elapsed(time.Duration(rc.DurationMS)*time.Millisecond), count(rc.Rounds, "round", "rounds")), dim})
	say := func(s style, format string, args ...any) { p.para(s, 2, format, args...) }
	if c.Detail != "" {
		say(normal, "%s", c.Detail)
	}
	if e := rc.AgentEnd; e != nil {
		reason := ""
		if e.Reason != "" {
			reason = ": " + e.Reason
		}
		switch {
		case e.Signal != 0:
			say(dim, "its agent was ended by signal %d%s", e.Signal, reason)
		case e.End == "exited":
			say(dim, "its agent exited with %d%s", e.Code, reason)
		default:
			say(dim, "its agent: %s%s", e.End, reason)
		}
	}
	for _, u := range rc.Tools {
		say(dim, "%s", toolUse(u))
	}
	for _, u := range rc.Network {
		say(dim, "%s", networkUse(u))
	}
	for _, r := range c.Requirements {
		st := map[judge.Decision]style{judge.Met: green, judge.Unmet: red}[r.Decision]
		if st == normal {
			st = yellow
		}
		head := bit{p.text("  %-10s", string(r.Decision)), st}
		words := ""
		if len(r.Words) > 0 {
			words = ", because " + join(r.Words)
		}
		p.item(head, normal, "%s (%s)%s", r.Statement, r.Name, words)
	}
	for _, t := range c.Tampered {
		say(red, "changed %s, which is protected", t)
	}
	for _, h := range rc.Hooks {
		p.hook(h)
	}
	for _, e := range rc.Evidence {
		p.evidence(e)
	}
	if rc.Change != nil {
		for i, f := range rc.Change.Files {
			if i == 20 {
				say(dim, "%s", count(len(rc.Change.Files)-i, "more file", "more files"))
				break
			}
			size := p.lines(f.Added, f.Deleted)
			if f.Binary {
				size = "binary"
			}
			head, path, tail := p.text("  %-9s", f.Status), p.text(" %s ", string(f.Path)), p.text("%s", size)
			if room := p.look.Width - head.Width() - tail.Width(); p.look.Width > 0 {
				path = path.CutLeft(room, p.more())
			}
			p.line(bit{head, dim}, bit{path, normal}, bit{tail, dim})
		}
	}
	for _, n := range c.Notes {
		say(yellow, "%s", n)
	}
	if len(rc.Usage) > 0 {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(rc.Usage)) {
			parts = append(parts, fmt.Sprintf("%s %v", k, rc.Usage[k]))
		}
		say(dim, "usage: %s", strings.Join(parts, ", "))
	}
}

func (p *page) hook(h record.Hook) {
	st, words := dim, h.Action
	switch {
	case h.Fault != "":
		st, words = yellow, "did not work: "+h.Fault
	case h.Reason != "":
		st, words = yellow, h.Action+": "+strings.Join(strings.Fields(h.Reason), " ")
	case h.Text != "":
		words = count(len(h.Text), "byte", "bytes") + " of context"
	case words == "":
		words = "no decision"
	}
	at := h.Event
	if h.Tool != "" {
		at += " of " + h.Tool
	}
	p.para(st, 2, "%s at %s (round %d): %s", h.From, at, h.Round+1, words)
}

// maxOutput is how many of the last lines of a test's output are shown.
const maxOutput = 8

func (p *page) evidence(e record.Evidence) {
	say := func(s style, format string, args ...any) { p.para(s, 2, format, args...) }
	if e.Fault != "" {
		say(yellow, "%s (round %d): its answer was not used: %s", e.Plugin, e.Round+1, e.Fault)
		return
	}
	if e.Compromised != "" {
		say(red, "%s (round %d): its evidence could be forged: %s", e.Plugin, e.Round+1, e.Compromised)
	}
	parts := []string{"flip " + string(e.Evidence.Flip)}
	if e.Evidence.FlipReason != "" {
		parts[0] += " (" + e.Evidence.FlipReason + ")"
	}
	if s := e.Evidence.Tamper.Status; s != judge.NotChecked {
		parts = append(parts, "tamper "+string(s))
	}
	for _, k := range slices.Sorted(maps.Keys(e.Evidence.Measurements)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, e.Evidence.Measurements[k]))
	}
	if n := len(e.Runs); n > 1 {
		achieved := 0
		for _, r := range e.Runs {
			if r.Flip == judge.FlipAchieved {
				achieved++
			}
		}
		parts = append(parts, fmt.Sprintf("%d of %d runs passed", achieved, n))
	}
	say(dim, "%s (round %d): %s", e.Plugin, e.Round+1, strings.Join(parts, ", "))
	if e.Evidence.Flip == judge.FlipAchieved || strings.TrimSpace(e.OutputTail) == "" {
		return
	}
	lines := strings.Split(strings.TrimRight(e.OutputTail, "\n"), "\n")
	for _, l := range lines[max(len(lines)-maxOutput, 0):] {
		t, _ := untab(l, 0)
		p.fill(bit{p.text("    "), dim}, bit{p.fit(t), dim})
	}
}
