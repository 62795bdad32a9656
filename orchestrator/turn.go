// Package orchestrator runs a turn: it makes the base, lets N candidates try,
// verifies each, asks the judge, and writes down everything as it happens.
package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/egress"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/internal/hosts"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/plan"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/worktree"
)

// What --expect can say of the test.
const (
	ExpectFlip = "flip" // it fails on the base and must pass
	ExpectPass = "pass" // it passes on the base and must still pass
)

// The exit codes of a run, as design.md lists them.
const (
	ExitWinner         = 0
	ExitInternal       = 1
	ExitUsage          = 2
	ExitNoWinner       = 3
	ExitTimedOut       = 4
	ExitOverBudget     = 5
	ExitRefused        = 6
	ExitInfrastructure = 7
	ExitInterrupted    = 130
)

// Why the context of a run ended.
var (
	ErrInterrupted = errors.New("interrupted")
	ErrDeadline    = errors.New("the deadline of the run passed")
	errWinnerFound = errors.New("another candidate was met first")
)

// A Seat is one candidate to be and its agent.
type Seat struct {
	Number candidate.Number
	Agent  agent.Definition
	Reach  []hosts.Rule // the hosts that its agent reaches where the run's network is not open
}

// Config is everything a turn needs to know.
type Config struct {
	// Dependencies.
	Repo     *worktree.Repository
	Store    *worktree.Store
	Sandbox  sandbox.Sandbox
	Record   *record.Writer
	Self     string // absolute path of this program, which holds the built-in agent and plugin
	Now      func() time.Time
	Publish  func(event.Event) // called in order, never concurrently; must not block for long
	Redactor *redact.Redactor
	Plugins  []Plugin // installed ones that take part, in order
	Hooks    []Hook   // what is called at moments of each candidate's life, in order
	Servers  *Servers // MCP servers that candidates may share; nil for none
	OneFile  *OneFile // one-file tools that candidates may call; nil for none
	// Tooling is told, once and before any candidate begins, what the run's own
	// gateway asks: whom to ask about calls of tools, and how package tools are
	// called. It is for whoever offers candidates tools in another way, and nil
	// where nobody does.
	Tooling func(Tooling)
	// Prepare is the run's first step, for a sandbox that needs something which
	// may take a while, such as an image. It says what happens, one line each.
	// Nil when Sandbox can be used as it is.
	Prepare func(ctx context.Context, step func(text string)) (Prepared, error)

	// Config.
	Version    string
	Task       string
	RevisionOf string
	Seats      []Seat
	Settings   record.Settings // after defaults; Protect is filled in by the turn
	Shadow     worktree.ShadowKind
	BaseKind   worktree.BaseKind
	BaseRev    string
	Protect    []string      // in addition to the default
	Unprotect  []string      // taken out of the default
	Timeout    time.Duration // of a candidate, all its rounds together
	TestLimit  time.Duration // of one run of the test
	Deadline   time.Duration // of the whole run, 0 for none

	SetupNetwork   sandbox.Network
	SetupReach     []hosts.Rule  // the hosts that the setup command reaches without that network
	NetworkLimits  egress.Limits // of what each program asks of the hosts that it was granted
	VerifyTimeouts bool          // a candidate that timed out is still verified

	// For whoever starts many runs.

	// Admit is asked for each candidate, in the order of the seats. What it
	// returns is called at once, and returns when the candidate may begin;
	// release is called when it is done, and its error keeps the candidate from
	// beginning. Meanwhile soon may be called, without waiting for it: the
	// candidate is among those that begin next. Candidates of several runs can
	// share a limit by it, besides Settings.Jobs. It may be nil.
	Admit func(n candidate.Number, soon func()) (answer func(context.Context) (release func(), err error))
	// Slot is asked after Admit, in the same way, for a limit that other
	// processes share. It calls waits when the candidate has to wait, and may be
	// nil.
	Slot func(ctx context.Context, waits func()) (release func(), err error)
	// Advise is asked about candidates whom the rule ranks equal, best first, and
	// says which of a pair to prefer; nil is no advice. It may be nil.
	Advise func(ctx context.Context, doc record.Document, equal [][]int) *record.Advice
	// Used is told what a candidate's agent reports that it used so far, in
	// all its rounds and attempts. It must not block, and may be nil.
	Used   func(n candidate.Number, u Usage)
	Kept   []record.Candidate // done in an earlier record of this run, whose files Record has too
	Hidden Hidden
	Named  *Named
	Salt   int // keeps the ports of concurrent runs of one process apart
	// SharedBase is worktree.BaseSpec's Shared, for runs in one sandbox that
	// does not keep its programs from the base; "" for a base of its own.
	SharedBase string
	// Lookout looks at the user's repository for this run and others on it; nil
	// for one of its own.
	Lookout *Lookout
}

// A turn is one run in progress.
type turn struct {
	Config
	work     *worktree.Run
	base     *worktree.Base
	isGuard  func(string) bool // protected paths
	watch    *watch
	plugins  []Plugin            // those that take part, the built-in one included
	context  []candidate.Context // what plugins contribute to every brief
	ports    int
	baseline verify.Base
	offered  tools
	used     map[int]map[string]*record.ToolUse // by seat and wire name; guarded by mu

	laid   []worktree.Laid // hidden tests, as shadows get them
	isLaid map[string]bool // their paths

	// ownTraces is what the test itself leaves in protected paths of the base.
	ownTraces map[string]string

	mu    sync.Mutex // guards doc, seq and faulty, and keeps events in order
	doc   record.Document
	seq   int64
	began time.Time
	fault error       // of the record: writing it failed
	later *time.Timer // writes what soon changed; nil when all is written, or is not written any more

	watching sync.Once
	watched  []witness // what tamper findings compare

	benchMu sync.Mutex
	benches map[int]*bench // candidates whose agents work now, by number

	oneByOne *verify.Expected // what the base showed of named tests that are observed one by one too, or nil

	aheads aheads
	faulty []string // hooks whose failure was told
	stop   context.CancelCauseFunc
}

// Run runs one turn to its end and returns its record. The record says how it
// ended, whatever happened; an error means that even the record could not be
// kept.
func Run(ctx context.Context, cfg Config) (record.Document, error) {
	if cfg.Hidden.any() {
		cfg.Settings.MaxHolds = 0
	}
	t := &turn{Config: cfg, began: cfg.Now(), ports: os.Getpid() + cfg.Salt}
	owner, err := proc.Self()
	if err != nil {
		return record.Document{}, err
	}
	t.doc = record.Document{
		Schema: record.Schema, Run: cfg.Record.ID(), Phase: record.Running, Version: cfg.Version,
		Started: t.began, Owner: &owner, Task: cfg.Redactor.String(cfg.Task), RevisionOf: cfg.RevisionOf, Settings: cfg.Settings,
		Repo: record.Repo{Root: bytestring.String(cfg.Repo.Root()), Prefix: bytestring.String(cfg.Repo.Prefix()), Head: cfg.Repo.Head(), Branch: cfg.Repo.Branch()},
		Base: record.Base{Kind: string(cfg.BaseKind)}, Baseline: record.Baseline{Status: "not-run"},
		Rules: []record.Rule{}, Plugins: []record.Plugin{}, Ranking: []record.Rank{}, ExitCode: ExitInternal,
	}
	t.lineUp()
	for _, s := range cfg.Seats {
		if c := cfg.kept(s.Number); c != nil {
			t.doc.Candidates = append(t.doc.Candidates, *c)
			continue
		}
		t.doc.Candidates = append(t.doc.Candidates, record.Candidate{
			Number: int(s.Number), Handle: s.Number.Handle(), Agent: s.Agent.Name, Sandbox: cfg.Settings.Isolation.Name,
			State: candidate.Queued, Evidence: []record.Evidence{}, Usage: map[string]any{},
		})
	}
	if err := t.Record.Document(t.doc, true); err != nil {
		return t.doc, err
	}
	ctx, t.stop = context.WithCancelCause(ctx)
	defer t.stop(nil)
	if cfg.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Deadline, ErrDeadline)
		defer cancel()
	}
	var seats []event.Seat
	for _, s := range cfg.Seats {
		seats = append(seats, event.Seat{Number: int(s.Number), Agent: s.Agent.Name})
	}
	t.emit(event.Started{Run: t.Record.ID(), Candidates: seats, Isolation: cfg.Settings.Isolation.Summary, Missing: cfg.Settings.Isolation.Missing, Directory: t.Record.Path()})

	end := t.run(ctx)
	return t.finish(ctx, end)
}

// An ending is how a run ended before the judge had anything to choose from.
type ending struct {
	code   int
	reason string
}

func ended(code int, format string, args ...any) *ending {
	return &ending{code, fmt.Sprintf(format, args...)}
}

// interruption is the ending when ctx is over, or nil.
func interruption(ctx context.Context) *ending {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(context.Cause(ctx), ErrDeadline):
		return ended(ExitTimedOut, "%v", ErrDeadline)
	case errors.Is(context.Cause(ctx), ErrInterrupted) || errors.Is(context.Cause(ctx), context.Canceled):
		return ended(ExitInterrupted, "%v", ErrInterrupted)
	case errors.Is(context.Cause(ctx), ErrOverBudget):
		return ended(ExitOverBudget, "%v", ErrOverBudget)
	default:
		return ended(ExitInfrastructure, "%v", context.Cause(ctx))
	}
}

// run does the work; nil means that the judge may choose.
func (t *turn) run(ctx context.Context) *ending {
	var err error
	if t.work, err = t.Store.NewRun(ctx, t.Record.ID(), t.Record.Path()); err != nil {
		return ended(ExitInfrastructure, "%v", err)
	}
	defer func() {
		// Cleaning up has its own clock: the run may have been cancelled.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		t.reapBelow(t.work.Dir())
		err := t.work.Close(clean)
		if t.base != nil {
			err = errors.Join(err, t.base.Close())
		}
		if err != nil {
			t.notice("clean-up was not finished (`bestof gc` finishes it): %v", err)
		}
	}()
	connected := sync.OnceValue(t.connecting(ctx))
	defer func() {
		t.closeTools()
		if c := connected(); c != nil {
			c.Close()
		}
	}()
	release, end := t.prepare(ctx)
	defer release()
	if end != nil {
		return end
	}
	if t.Lookout == nil {
		t.Lookout = NewLookout(t.Repo, t.Now)
	}
	if t.watch, err = newWatch(ctx, t.Lookout, t.Settings.Isolation.Filesystem); err != nil {
		return ended(ExitInfrastructure, "look at the repository: %v", err)
	}
	if end := t.makeBase(ctx); end != nil {
		return end
	}
	for _, line := range narrowed(t.plugins, t.Settings.MaxHolds) {
		t.notice("%s", line)
	}
	t.guardHooks()
	if end := t.measureBaseline(ctx); end != nil {
		return cmp.Or(t.baseIntact(), end)
	}
	t.openTools(ctx, connected())
	t.firstAhead(ctx)
	defer t.forgo()
	if end := t.askBefore(ctx); end != nil {
		return end
	}
	t.tellNetwork()
	if t.Tooling != nil {
		t.Tooling(Tooling{t})
	}
	if !t.offersTools() && (t.hooked(hook.PreToolUse) || t.hooked(hook.PostToolUse)) {
		t.notice("hooks at PreToolUse and PostToolUse are not called in this run: it offers candidates no tools, and what agents do with their own it does not see")
	}
	return t.tryCandidates(ctx)
}

func (t *turn) makeBase(ctx context.Context) *ending {
	t.emit(event.Step{Name: "base", Text: "making the base from " + describeBase(t.BaseKind, t.BaseRev)})
	spec := worktree.BaseSpec{Kind: t.BaseKind, Rev: t.BaseRev, History: t.Settings.History, Shadow: t.Shadow, SetupKey: t.setupKey(), Private: !t.Settings.Isolation.Filesystem, Shared: t.SharedBase, TryEntry: t.tryEntry}
	if o, ok := t.Sandbox.(interface{ EntersOffline() bool }); ok {
		spec.Offline = o.EntersOffline()
	}
	if l, ok := t.Sandbox.(layerer); ok && l.MountsLayers() {
		spec.TryLayers, spec.Sweep = t.tryEntry, l.Sweep
	}
	if len(t.Settings.Setup) > 0 {
		spec.Setup = t.setUp
	}
	var err error
	if t.base, err = t.Store.Base(ctx, t.Repo, spec); err != nil {
		if end := interruption(ctx); end != nil {
			return end
		}
		var failed *setupError
		if errors.As(err, &failed) {
			return ended(ExitUsage, "%v", err)
		}
		return ended(ExitInfrastructure, "make the base: %v", err)
	}
	protected := slices.DeleteFunc(plan.ProtectedIn(t.Repo.Prefix(), t.Settings.Test, t.base.Paths(), t.Protect), func(glob string) bool {
		return slices.Contains(t.Unprotect, glob) && !slices.Contains(t.Protect, glob)
	})
	guard := plan.Matcher(protected)
	open := plan.Matcher(t.Unprotect)
	own := plan.Matcher(t.Protect)
	t.isGuard = func(path string) bool { return own(path) || guard(path) && !open(path) }
	if end := t.layHidden(); end != nil {
		return end
	}
	if end := t.clearReports(); end != nil {
		return end
	}
	t.update(func(d *record.Document) {
		d.Base = record.Base{
			Kind: string(t.base.Kind()), Commit: t.base.Commit(), Tree: string(t.base.Tree()), Files: t.base.Files(),
			Shadow: string(t.base.ShadowKind()), Notes: t.base.Notes(),
		}
		d.Settings.Protect = protected
	})
	t.emit(event.Step{Name: "base", Done: true, Text: fmt.Sprintf("base: %s, %d files, %s shadows", describeBase(t.base.Kind(), t.BaseRev), t.base.Files(), t.base.ShadowKind())})
	for _, note := range t.base.Notes() {
		t.notice("base: %s", note)
	}
	if len(protected) > 0 {
		t.emit(event.Notice{Text: "protected: " + strings.Join(protected, " ")})
	}
	return nil
}

// A layerer is a sandbox that mounts layers. See docker.Sandbox.MountsLayers.
type layerer interface {
	MountsLayers() bool
	Sweep(ctx context.Context, dirs []string) error
}

// tryEntry starts a program where shadows would be, in the run's sandbox: it may
// not work inside of other namespaces although it works in its own.
func (t *turn) tryEntry(ctx context.Context, e worktree.Entry, root, home string) error {
	res, err := t.box(0, phaseProbe).Run(ctx, sandbox.Spec{
		Argv: []string{"true"}, Root: root, Home: home, Enter: sandbox.Entry(e), Seen: t.seen(), Network: sandbox.NetworkNone, Timeout: entryLimit,
	})
	if err == nil && res.End == sandbox.Deadline {
		err = errors.New("it did not end")
	}
	return err
}

// entryLimit is time enough to start a program.
const entryLimit = 20 * time.Second

func describeBase(kind worktree.BaseKind, rev string) string {
	switch kind {
	case worktree.BaseHead:
		return "the commit that is checked out"
	case worktree.BaseRev:
		return "the commit " + rev
	default:
		return "your work tree as it is, uncommitted edits included"
	}
}

// A setupError is the setup command's failure, which is the operator's to mend.
type setupError struct{ reason string }

func (e *setupError) Error() string { return e.reason }

// setUp runs the setup command once, on the base.
func (t *turn) setUp(ctx context.Context, root, home string) error {
	t.emit(event.Step{Name: "setup", Text: "setting up the base"})
	log, err := t.Record.Create("base", "setup.log")
	if err != nil {
		return err
	}
	defer log.Close()
	clean := t.Redactor.Writer(log)
	spec := sandbox.Spec{
		Argv: t.Settings.Setup, Root: root, WorkDir: t.Repo.Prefix(), Home: home, Seen: t.seen(), Network: t.SetupNetwork,
		Timeout: t.setupLimit(), Log: clean,
	}
	var ledger egress.Ledger
	out, err := t.openOutlet("setup", t.SetupReach, nil, true, &ledger)
	if err != nil {
		return err
	}
	out.give(&spec)
	res, err := t.box(0, phaseSetup).Run(ctx, spec)
	err = errors.Join(err, out.close())
	if uses := networkUses(&ledger); len(uses) > 0 {
		t.update(func(d *record.Document) { d.SetupUse = uses })
	}
	if err = errors.Join(err, clean.Close()); err != nil {
		return fmt.Errorf("run the setup command: %w", err)
	}
	if !res.OK() {
		return &setupError{fmt.Sprintf("the setup command %s: %s (its output is in %s)",
			endWords(res), lastLine(t.Redactor, res), filepath.Join(t.Record.Path(), "candidates", "base", "setup.log"))}
	}
	t.emit(event.Step{Name: "setup", Done: true, Text: fmt.Sprintf("setup took %s", res.Duration.Round(time.Millisecond))})
	return nil
}

// seen is where every shadow of the repository and its home are for programs,
// where the sandbox can place them: the same for setup, baseline, candidates
// and verification, so that paths which one wrote hold for the others.
func (t *turn) seen() sandbox.Place {
	if !t.Settings.Isolation.Filesystem {
		return sandbox.Place{}
	}
	name := filepath.Base(t.Repo.Root())
	if !plainName.MatchString(name) {
		name = "repository"
	}
	return sandbox.Place{Root: "/workspace/" + name, Home: "/home/candidate"}
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (t *turn) setupLimit() time.Duration { return max(t.Timeout, 30*time.Minute) }

// tryCandidates lets every seat live its life. A candidate's failure is its
// result; only the host's own failure to keep the record ends the others.
func (t *turn) tryCandidates(ctx context.Context) *ending {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t.watch.quiet()
	var group errgroup.Group
	group.SetLimit(t.Settings.Jobs)
	for i := range t.Seats {
		begin := t.ask(ctx, i)
		group.Go(func() error { // errgroup for its limit alone
			t.goAhead(ctx, i+t.Settings.Jobs)
			outcome := begin(ctx)
			if t.Settings.Stop == "first" && outcome == candidate.Met {
				stop(errWinnerFound)
			}
			return nil
		})
	}
	group.Wait() // nothing that a candidate does is an error
	return t.baseIntact()
}

// baseIntact ends a run whose base, which other runs use too, was written to
// meanwhile: nothing of what its candidates did can be believed, and whose
// program did it is not known. The next attempt has a base of its own.
func (t *turn) baseIntact() *ending {
	if !t.base.Shared() || t.base.Intact() {
		return nil
	}
	const why = "the base was written to while it was in use, by a program of this run or of another"
	for i, s := range t.Seats {
		if t.kept(s.Number) != nil {
			continue
		}
		lived := false
		t.record(i, func(c *record.Candidate) {
			if lived = c.State == candidate.Done; lived {
				c.Outcome, c.Detail = candidate.Infrastructure, why
			}
		})
		if lived {
			t.show(i)
		}
	}
	return ended(ExitInfrastructure, why)
}

// finish lets the judge choose, adopts nothing, and closes the record.
func (t *turn) finish(ctx context.Context, end *ending) (record.Document, error) {
	t.lookAround(context.WithoutCancel(ctx))
	t.settle()
	if end == nil {
		t.advise(ctx)
	}
	t.mu.Lock()
	now := t.Now()
	d := &t.doc
	choice := Choose(*d)
	d.Ranking, d.Tie, d.Reason, d.ExitCode = choice.Ranking, choice.Tie, choice.Reason, choice.ExitCode
	d.Winner = choice.Winner
	if end == nil && d.Winner == nil {
		end = interruption(ctx)
	}
	if e := interruption(ctx); e != nil && e.code != ExitTimedOut {
		end = e
	}
	if end != nil {
		d.Winner, d.Tie, d.Ranking = nil, nil, []record.Rank{}
		d.Reason, d.Withheld, d.ExitCode = end.reason, end.reason, end.code
	}
	if d.Winner == nil && d.ExitCode == ExitNoWinner && d.Baseline.Status != "passed" && !t.Hidden.any() { // it would tell of hidden tests
		d.Revision = Revise(*d)
	}
	d.Phase, d.Finished, d.DurationMS, d.Owner = record.Finished, &now, now.Sub(t.began).Milliseconds(), nil
	t.written()
	t.mu.Unlock()
	if d.Winner != nil {
		t.propose(context.WithoutCancel(ctx), *d.Winner)
	}
	t.emit(event.Finished{Winner: d.Winner, Reason: d.Reason, ExitCode: d.ExitCode})
	return t.doc, errors.Join(t.Record.Finish(t.doc), t.fault)
}

// settle ends every candidate that never came to its end.
func (t *turn) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &t.doc
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if c.State == candidate.Queued {
			c.Detail = record.NotStarted
		}
		if c.State != candidate.Done {
			c.State, c.Outcome = candidate.Done, candidate.Cancelled
		}
		c.Processes = nil
	}
}

// lookAround says what changed in the user's repository during the run.
func (t *turn) lookAround(ctx context.Context) {
	if t.watch == nil {
		return
	}
	defer t.watch.end()
	changed, err := t.watch.sinceStart(ctx)
	if err != nil {
		t.notice("whether your repository changed during the run is not known: %v", err)
	}
	if len(changed) > 0 {
		t.notice("your repository changed during the run (%s); candidates started from what was there before", firstFew(changed))
	}
}

// update changes the document and writes it down.
func (t *turn) update(change func(*record.Document)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.doc)
	t.write()
}

// write writes the document down. t.mu is held.
func (t *turn) write() {
	t.written()
	if err := t.Record.Document(t.doc, false); err != nil {
		t.failed(err)
	}
}

// written says that nothing waits to be written. t.mu is held.
func (t *turn) written() {
	if t.later != nil {
		t.later.Stop()
		t.later = nil
	}
}

// shortly is how long a change may be in memory alone on which nothing rests but
// what others see.
const shortly = 100 * time.Millisecond

// soon changes the document; it is written shortly, or with what comes before
// that.
func (t *turn) soon(change func(*record.Document)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.doc)
	if t.later != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(shortly, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.later == timer { // it was not written meanwhile
			t.write()
		}
	})
	t.later = timer
}

// failed notes that the record cannot be kept, and ends the run: what is not
// written down cannot be relied on. t.mu is held.
func (t *turn) failed(err error) {
	if t.fault == nil {
		t.fault = err
		t.stop(fmt.Errorf("the record cannot be kept: %w", err))
	}
}

func (t *turn) failRecord(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed(err)
}

// emit numbers an event, writes it down and shows it.
func (t *turn) emit(body event.Body) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq++
	e := event.Event{Seq: t.seq, At: t.Now(), Body: body}
	if err := t.Record.Event(e); err != nil {
		t.failed(err)
	}
	t.Publish(e)
}

// notice tells the user something and keeps it in the record.
func (t *turn) notice(format string, args ...any) {
	text := t.Redactor.String(fmt.Sprintf(format, args...))
	t.update(func(d *record.Document) { d.Notices = append(d.Notices, text) })
	t.emit(event.Notice{Text: text})
}

func firstFew(lines []string) string {
	const few = 3
	if len(lines) <= few {
		return strings.Join(lines, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(lines[:few], ", "), len(lines)-few)
}
