package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/egress"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/worktree"
)

// attempts is how often a candidate is begun anew after the host failed it.
const attempts = 2

// A life is one candidate between its start and its outcome.
type life struct {
	*turn
	seat  Seat
	index int
	trial int // how often it was begun anew before
	state candidate.State
	round int
	until time.Time // its time is up then

	timedOut bool // its time was up in this round

	started []candidate.Context // what SessionStart hooks add to its brief
	final   string              // the end of what its agent printed last, or its last message
	answer  string              // its last message; "" where its stream has none that is known
	tools   []string            // of those that the host offers, which it called in this round
	network *egress.Ledger      // what it asked for of the hosts, in all rounds
	out     outlet              // that was opened ahead, for its first round
	drafted *drafts             // tools that it proposes; nil when it never asked
	blocked int                 // rounds that it owes to Stop hooks; the others are holds
}

// An endOfLife is how a candidate ended.
type endOfLife struct {
	outcome candidate.Outcome
	detail  string
}

func lifeEnds(outcome candidate.Outcome, format string, args ...any) *endOfLife {
	return &endOfLife{outcome, fmt.Sprintf(format, args...)}
}

// live lets the candidate of seat i live, and returns its outcome.
func (t *turn) live(ctx context.Context, i int) candidate.Outcome {
	var end *endOfLife
	began := t.Now()
	for attempt := range attempts {
		l := &life{turn: t, seat: t.Seats[i], index: i, trial: attempt, state: candidate.Queued, until: t.Now().Add(t.Timeout), network: &egress.Ledger{}}
		end = l.attempt(ctx, attempt)
		if end.outcome != candidate.Infrastructure || ctx.Err() != nil {
			break
		}
		if attempt+1 < attempts {
			t.notice("%s: the host failed it (%s); it begins again", l.seat.Number.ID(), end.detail)
			t.record(i, func(c *record.Candidate) { *c = fresh(*c) })
		}
	}
	if ctx.Err() != nil && end.outcome != candidate.Met {
		// What the end of the run did to a candidate is not its failure.
		switch end.outcome {
		case candidate.Infrastructure, candidate.AgentFailed, candidate.Undecided, candidate.TimedOut:
			end = lifeEnds(candidate.Cancelled, "%v", context.Cause(ctx))
		}
	}
	t.record(i, func(c *record.Candidate) {
		c.State, c.Outcome, c.Detail, c.Processes = candidate.Done, end.outcome, end.detail, nil
		c.DurationMS = t.Now().Sub(began).Milliseconds()
	})
	t.keepEvidence(i)
	t.show(i)
	return end.outcome
}

// fresh is a candidate's record before its first attempt.
func fresh(c record.Candidate) record.Candidate {
	return record.Candidate{Number: c.Number, Handle: c.Handle, Agent: c.Agent, Sandbox: c.Sandbox, State: candidate.Queued,
		Evidence: []record.Evidence{}, Usage: c.Usage} // what was spent stays spent
}

// attempt runs rounds until the candidate has an outcome.
func (l *life) attempt(ctx context.Context, attempt int) *endOfLife {
	if ctx.Err() != nil {
		return lifeEnds(candidate.Cancelled, "%v", context.Cause(ctx))
	}
	l.enter(candidate.Preparing)
	name := l.seat.Number.ID()
	if attempt > 0 {
		name = fmt.Sprintf("%s-again-%d", name, attempt)
	}
	shadow, unused, err := l.newShadow(ctx, name)
	if err != nil {
		return lifeEnds(candidate.Infrastructure, "make its shadow: %v", err)
	}
	defer l.discard(ctx, shadow)
	defer unused()
	l.sessionStart(ctx, name)
	correction := ""
	for l.round = 0; ; l.round++ {
		l.soon(func(c *record.Candidate) { c.Rounds = l.round + 1 })
		if l.round > 0 {
			l.enter(candidate.Preparing)
		}
		end, hold := l.playRound(ctx, shadow, name, correction)
		if end != nil {
			return end
		}
		correction = hold
	}
}

// playRound lets the agent work once and judges what it did. It returns an
// end, or the correction with which the candidate is held for another round.
func (l *life) playRound(ctx context.Context, shadow *worktree.Shadow, name, correction string) (*endOfLife, string) {
	timedOut, end := l.agent(ctx, shadow, correction)
	if end != nil {
		return end, ""
	}
	l.timedOut = timedOut
	l.enter(candidate.Sealing)
	sealed, err := shadow.Seal(ctx, worktree.Limits{})
	var refused *worktree.SealError
	switch {
	case errors.As(err, &refused) && refused.Limit:
		return lifeEnds(candidate.OverBudget, "what it left is too much: %s: %s", bytestring.String(refused.Path), refused.Reason), ""
	case errors.As(err, &refused):
		return lifeEnds(candidate.AgentFailed, "what it left cannot be taken: %s: %s", bytestring.String(refused.Path), refused.Reason), ""
	case err != nil:
		return lifeEnds(candidate.Infrastructure, "%v", err), ""
	}
	if sealed.Change.Empty() {
		l.soon(func(c *record.Candidate) { c.Change = nil })
		if timedOut {
			return lifeEnds(candidate.TimedOut, "it changed nothing in %s", l.Timeout), ""
		}
		return l.emptyEnd(), ""
	}
	guarded, err := l.keepChange(ctx, sealed)
	if err != nil {
		return lifeEnds(candidate.Infrastructure, "keep its change: %v", err), ""
	}
	if timedOut && !l.VerifyTimeouts {
		return lifeEnds(candidate.TimedOut, "not finished in %s; its last tree is kept", l.Timeout), ""
	}
	asked := !timedOut && l.hooked(hook.Stop) // who ran out of time claims nothing
	if asked || len(l.rules()) > 0 {
		l.enter(candidate.Verifying)
	}
	if asked {
		if correction, end := l.askStop(ctx, sealed, name); end != nil || correction != "" {
			return end, correction
		}
	}
	if len(l.rules()) == 0 {
		return l.unverified(guarded), ""
	}
	verdict, fault := l.verify(ctx, sealed, name, guarded)
	if fault != nil {
		return fault, ""
	}
	if ctx.Err() != nil && verdict.Decision != judge.Met {
		return lifeEnds(candidate.Cancelled, "%v", context.Cause(ctx)), ""
	}
	outcome, detail := judged(l.snapshot())
	if outcome == candidate.Unmet || outcome == candidate.Tampered {
		correction, again := hold(l.rules(), lastRound(l.snapshot()), l.Settings.MaxHolds, l.round-l.blocked)
		if again && !timedOut && l.Now().Before(l.until) {
			return nil, correction
		}
	}
	if timedOut && outcome != candidate.Met {
		return lifeEnds(candidate.TimedOut, "not finished in %s, and its last tree is %s: %s", l.Timeout, outcome, detail), ""
	}
	return &endOfLife{outcome, detail}, ""
}

// emptyEnd tells an agent that could not work from one that found nothing to
// change.
func (l *life) emptyEnd() *endOfLife {
	end := l.snapshot().AgentEnd
	if end != nil && (end.End != sandbox.Exited || end.Code != 0 || end.Signal != 0) {
		return lifeEnds(candidate.AgentFailed, "%s, and nothing was changed", agentEndWords(*end))
	}
	return lifeEnds(candidate.Empty, "nothing was changed")
}

// unverified is the outcome where there is nothing to verify with.
func (l *life) unverified(guarded []string) *endOfLife {
	if len(guarded) > 0 {
		return lifeEnds(candidate.Tampered, "changed protected paths: %s", firstFew(guarded))
	}
	return lifeEnds(candidate.Undecided, "there is no test that could decide")
}

// agent runs one round of the agent.
func (l *life) agent(ctx context.Context, shadow *worktree.Shadow, correction string) (timedOut bool, end *endOfLife) {
	n := int(l.seat.Number)
	log, err := l.Record.Create(l.seat.Number.ID(), "agent.log")
	if err != nil {
		return false, lifeEnds(candidate.Infrastructure, "%v", err)
	}
	defer log.Close()
	if err := l.watch.enter(ctx, n); err != nil {
		return false, lifeEnds(candidate.Infrastructure, "look at the repository: %v", err)
	}
	l.enter(candidate.Working)
	lines := &activity{now: l.Now, show: func(text string) { l.emit(event.Activity{Number: n, Text: text}) }}
	used, before := l.metering()
	clean := l.Redactor.Writer(multi{log, lines, used})
	unit, err := l.unit(l.seat, shadow, l.out, l.network)
	if err != nil {
		_, watchErr := l.watch.leave(context.WithoutCancel(ctx), n)
		return false, lifeEnds(candidate.Infrastructure, "%v", errors.Join(err, watchErr))
	}
	l.out = outlet{} // a later round has its own
	unit.Timeout = max(l.until.Sub(l.Now()), time.Second)
	unit.Brief = candidate.Brief{
		Task: l.Task, Context: l.brief(), Test: l.Settings.Test, Protected: l.snapshotSettings().Protect, Number: l.seat.Number,
		Candidates: len(l.Seats), Round: l.round, Correction: correction,
	}
	leave := l.atBench(ctx, shadow)
	res, err := unit.run(ctx, l.box(l.seat.Number, phaseAgent), clean, l.startedProcess)
	leave()
	err = errors.Join(err, unit.Out.close(), l.keepDrafts())
	flushErr := clean.Close()
	l.final = l.tailOf(sandbox.Result{Stdout: res.Stdout})
	l.answer = l.final
	if text, stream := lastMessage(res.Stdout.Bytes()); stream {
		if l.answer = clipTail(l.Redactor.String(text), maxAnswer); l.answer != "" {
			l.final = l.answer
		}
	}
	suspicious, watchErr := l.watch.leave(context.WithoutCancel(ctx), n)
	tools, reached := l.usedTools(l.index), networkUses(l.network)
	spent := before.Add(used.end()).record()
	l.record(l.index, func(c *record.Candidate) { // at once: what was spent counts after a crash
		c.Warm = c.Warm || res.Warm
		c.Rounds, c.Processes, c.Tools, c.Network, c.Usage = l.round+1, nil, tools, reached, spent
		c.AgentEnd = &record.AgentEnd{End: res.End, Code: res.Code, Signal: res.Signal, Reason: l.Redactor.String(res.Reason)}
	})
	switch {
	case len(suspicious) > 0:
		return false, lifeEnds(candidate.Escaped, "your repository changed while it ran (%s); without a sandbox that hides it, that cannot be told from an escape", firstFew(suspicious))
	case errors.Is(err, proc.ErrSupervisorLost):
		l.reapBelow(shadow.Root(), shadow.Home())
		return false, lifeEnds(candidate.Escaped, "what supervised it was killed while it ran")
	case err != nil:
		return false, lifeEnds(candidate.Infrastructure, "%v", err)
	case ctx.Err() != nil:
		return false, lifeEnds(candidate.Cancelled, "%v", context.Cause(ctx))
	case flushErr != nil:
		return false, lifeEnds(candidate.Infrastructure, "write its log: %v", flushErr)
	case watchErr != nil:
		return false, lifeEnds(candidate.Infrastructure, "look at the repository: %v", watchErr)
	case res.OOM:
		return false, lifeEnds(candidate.OverBudget, "the kernel ended it for want of memory")
	case res.End == sandbox.NotRun:
		return false, lifeEnds(candidate.AgentFailed, "%s", res.Reason)
	}
	return res.End == sandbox.Deadline, nil
}

// unit is a seat's, but for its time and what its agent is told: all that it
// reaches, through an outlet that was opened before or a new one of the ledger's.
func (t *turn) unit(seat Seat, shadow *worktree.Shadow, out outlet, ledger *egress.Ledger) (u agentUnit, err error) {
	u = agentUnit{
		Agent: seat.Agent, Root: shadow.Root(), WorkDir: t.Repo.Prefix(), Home: shadow.Home(), Enter: sandbox.Entry(shadow.Enter()), Seen: t.seen(), Self: t.Self,
		Network: agentNetwork(t.Settings.Network), Ports: portsOf(t.ports, int(seat.Number)), Out: out,
	}
	if u.Tools, err = t.offered.access(seat, u.Network, sandbox.Spec{Root: u.Root, Home: u.Home, Seen: u.Seen}.Place().Home); err != nil {
		return u, err
	}
	if u.Network == sandbox.NetworkNone && out.proxy == nil {
		online := t.Settings.Network != sandbox.Network(agent.NetworkGateway)
		u.Out, err = t.openOutlet(seat.Number.ID(), seat.Reach, seat.Agent.Forward, online, ledger)
	}
	return u, err
}

// keepChange writes the change into the record: its description, its patch and
// its objects. guarded are the protected paths that it touches.
func (l *life) keepChange(ctx context.Context, sealed *worktree.Sealed) (guarded []string, err error) {
	change := sealed.Change
	if err := l.base.Objects().Keep(ctx, ObjectsDir(l.Record.Path()), change); err != nil {
		return nil, err
	}
	var patch bytes.Buffer
	if err := l.base.Objects().Patch(ctx, &patch, change); err != nil {
		return nil, err
	}
	id := l.seat.Number.ID()
	if err := l.Record.File(id, "change.patch", patch.Bytes()); err != nil {
		return nil, err
	}
	kept := RecordChange(change, sealed.Notes, "candidates/"+id+"/change.patch")
	var tampered []bytestring.String
	for _, f := range change.Files {
		if l.isGuard(f.Path) && !l.isLaid[f.Path] {
			guarded = append(guarded, f.Path)
			tampered = append(tampered, bytestring.String(f.Path))
		}
	}
	l.soon(func(c *record.Candidate) { c.Change, c.Tampered = kept, tampered })
	return guarded, nil
}

// RecordChange is a change as records and --json show it. patch is the path of
// its patch below the run's directory.
func RecordChange(change worktree.Change, notes []string, patch string) *record.Change {
	kept := &record.Change{
		Tree: string(change.Tree), Added: change.Added, Deleted: change.Deleted, Patch: patch,
		Normalised: change.Normalised, Notes: notes, Files: []record.FileChange{},
	}
	for _, f := range change.Files {
		kept.Files = append(kept.Files, record.FileChange{
			Path: bytestring.String(f.Path), Status: f.Status(), OldMode: modeText(f.OldMode), NewMode: modeText(f.NewMode),
			Old: f.Old, New: f.New, Binary: f.Binary, Added: f.Added, Deleted: f.Deleted,
			From: bytestring.String(f.From), Similarity: f.Similarity,
		})
	}
	return kept
}

// reapBelow ends what lost its supervisor.
func (t *turn) reapBelow(dirs ...string) {
	for _, dir := range dirs {
		if _, err := proc.ReapBelow(dir); err != nil {
			t.notice("processes may be left (`bestof gc` looks again): %v", err)
		}
	}
}

func modeText(m worktree.Mode) string {
	if m == worktree.ModeNone {
		return ""
	}
	return fmt.Sprintf("%06o", uint32(m))
}

// discard removes a shadow even when the run was cancelled.
func (t *turn) discard(ctx context.Context, sh *worktree.Shadow) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := sh.Remove(ctx); err != nil {
		t.notice("a shadow was not removed (`bestof gc` finishes it): %v", err)
	}
}

// enter moves the candidate to the next state and tells everyone.
func (l *life) enter(s candidate.State) {
	next, err := l.state.Step(s)
	if err != nil {
		panic(err) // the table and this file disagree
	}
	l.state = next
	l.soon(func(c *record.Candidate) { c.State = next })
	l.show(l.index)
}

// record changes the record of candidate i.
func (t *turn) record(i int, change func(*record.Candidate)) {
	t.update(func(d *record.Document) { change(&d.Candidates[i]) })
}

// soon changes the record of the candidate, see turn.soon.
func (l *life) soon(change func(*record.Candidate)) {
	l.turn.soon(func(d *record.Document) { change(&d.Candidates[l.index]) })
}

// show publishes where candidate i is.
func (t *turn) show(i int) {
	t.mu.Lock()
	c := t.doc.Candidates[i]
	t.mu.Unlock()
	e := event.Candidate{Number: c.Number, State: c.State, Round: max(c.Rounds-1, 0), Outcome: c.Outcome, Detail: c.Detail}
	if c.Change != nil {
		e.Files, e.Added, e.Deleted = len(c.Change.Files), c.Change.Added, c.Change.Deleted
	}
	t.emit(e)
}

// snapshot is the candidate's record as it is now.
func (l *life) snapshot() record.Candidate {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.doc.Candidates[l.index]
	c.Evidence = slices.Clone(c.Evidence)
	return c
}

func (t *turn) snapshotSettings() record.Settings {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doc.Settings
}

func (l *life) startedProcess(p sandbox.Process) {
	l.record(l.index, func(c *record.Candidate) { c.Processes = append(c.Processes, p) })
}

// keepEvidence writes evidence.json: what the judge needs to decide about this
// candidate again.
func (t *turn) keepEvidence(i int) {
	t.mu.Lock()
	c, rules := t.doc.Candidates[i], t.doc.Rules
	t.mu.Unlock()
	b, err := json.MarshalIndent(struct {
		Rules     []record.Rule       `json:"rules"`
		Outcome   candidate.Outcome   `json:"outcome"`
		Tampered  []bytestring.String `json:"tampered,omitempty"`
		Verdict   *judge.Verdict      `json:"verdict"`
		Evidences []record.Evidence   `json:"evidence"`
	}{rules, c.Outcome, c.Tampered, c.Verdict, c.Evidence}, "", "  ")
	if err == nil {
		err = t.Record.File(candidate.Number(c.Number).ID(), "evidence.json", append(b, '\n'))
	}
	if err != nil {
		t.failRecord(err)
	}
}

func agentEndWords(e record.AgentEnd) string {
	switch {
	case e.End == sandbox.NotRun:
		return "the agent was not run: " + e.Reason
	case e.Signal != 0:
		return fmt.Sprintf("the agent died of signal %d", e.Signal)
	default:
		return fmt.Sprintf("the agent exited with status %d", e.Code)
	}
}

// multi writes to all of its writers.
type multi []interface{ Write([]byte) (int, error) }

func (m multi) Write(b []byte) (int, error) {
	for _, w := range m {
		if n, err := w.Write(b); err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// activity shows the last whole line of what is written to it, at most five
// times a second.
type activity struct {
	now     func() time.Time
	show    func(string)
	partial []byte
	last    time.Time
}

func (a *activity) Write(b []byte) (int, error) {
	const longest = 4096
	n := len(b)
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			break
		}
		line := append(a.partial, b[:end]...)
		a.partial, b = a.partial[:0], b[end+1:]
		if text := strings.TrimSpace(string(line)); text != "" && a.now().Sub(a.last) >= 200*time.Millisecond {
			a.last = a.now()
			a.show(text)
		}
	}
	if room := longest - len(a.partial); room > 0 {
		a.partial = append(a.partial, b[:min(room, len(b))]...)
	}
	return n, nil
}
