package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/call"
	"github.com/bestof-dev/bestof/plugin/hook"
	"github.com/bestof-dev/bestof/plugin/wire"
	"github.com/bestof-dev/bestof/worktree"
)

// A Hook is called at one moment of every candidate's life: SessionStart,
// before its first round; PreToolUse and PostToolUse, around its calls of tools
// that the host offers; or Stop, when its agent ended and left a change.
type Hook struct {
	Event   hook.Event
	From    string       // a plugin's name, or the configuration that has it
	Matcher hook.Matcher // of tools' names, at PreToolUse and PostToolUse
	Network bool         // it reaches the network, which somebody agreed to
	Files   []string     // words of its command; those that are files of the base are protected
	// Point says that the hook's plugin also answers after_turn, by which it
	// decides whether or not its program knows the hook.
	Point bool
	Run   func(context.Context, sandbox.Sandbox, call.Place, hook.Payload) ([]byte, sandbox.Result, error)
}

// maxHooks is how many calls of hooks a candidate's record lists, those at tools'
// calls included.
const maxHooks = 500

// guardHooks protects the files of the base that operators' hooks are made of:
// a candidate must not edit what sends it back.
func (t *turn) guardHooks() {
	files := map[string]bool{}
	paths := t.base.Paths()
	for _, h := range t.Hooks {
		for _, word := range h.Files {
			if p := path.Clean(path.Join(t.Repo.Prefix(), word)); !path.IsAbs(word) && slices.Contains(paths, p) {
				files[p] = true
			}
		}
	}
	if len(files) == 0 {
		return
	}
	others := t.isGuard
	t.isGuard = func(path string) bool { return files[path] || others(path) }
	t.update(func(d *record.Document) {
		for p := range files {
			if !slices.Contains(d.Settings.Witness, p) {
				d.Settings.Witness = append(d.Settings.Witness, p)
			}
		}
		slices.Sort(d.Settings.Witness)
	})
}

// hooked reports whether anything is called at an event.
func (t *turn) hooked(e hook.Event) bool {
	return slices.ContainsFunc(t.Hooks, func(h Hook) bool { return h.Event == e })
}

// sessionStart calls the hooks of a candidate that begins. What they print is
// added to its brief; nothing that they do keeps it from beginning. Their time
// is not the candidate's.
func (l *life) sessionStart(ctx context.Context, name string) {
	began := l.Now()
	for i, h := range l.Hooks {
		if h.Event != hook.SessionStart || ctx.Err() != nil {
			continue
		}
		kept, out, end := l.callHook(ctx, h, fmt.Sprintf("%s-start-%d", name, i), l.base.Tree(), hook.Payload{Event: h.Event})
		switch {
		case ctx.Err() != nil:
			return // the agent's run says so
		case end != nil:
			kept.Fault = end.detail
		}
		if text := l.Redactor.String(hook.Context(out)); text != "" {
			kept.Text = text
			l.started = append(l.started, candidate.Context{Label: "from " + h.From + " at " + string(h.Event), Text: text})
		}
		l.keepHook(h, kept)
	}
	l.until = l.until.Add(l.Now().Sub(began))
}

// brief is the context of the candidate's brief: what plugins said to all of
// them, and what hooks said to this one.
func (l *life) brief() []candidate.Context { return slices.Concat(l.context, l.started) }

// askStop asks the hooks whether a candidate that claims to be finished is to
// be verified. It returns the correction with which it is sent back instead, ""
// if it is not.
func (l *life) askStop(ctx context.Context, sealed *worktree.Sealed, name string) (string, *endOfLife) {
	id := l.seat.Number.ID()
	if l.blocked >= l.Settings.MaxBlocks {
		l.notice("%s: hooks sent it back %d times, which is the most; it is verified as it is", id, l.blocked)
		return "", nil
	}
	l.blocked++ // before they run: one that never answers has had its say
	var answers []hook.Answer
	for i, h := range l.Hooks {
		if h.Event != hook.Stop {
			continue
		}
		kept, out, end := l.callHook(ctx, h, fmt.Sprintf("%s-stop-%d-%d", name, i, l.round), sealed.Tree, hook.Payload{Event: h.Event, FinalText: l.final})
		if end != nil {
			return "", end
		}
		if kept.Fault == "" {
			d, err := hook.Parse(h.Event, out)
			if err != nil {
				kept.Fault = l.Redactor.String(err.Error())
			}
			d.Reason, d.Evidence = l.Redactor.String(d.Reason), l.Redactor.String(d.Evidence)
			answers = append(answers, hook.Answer{From: h.From, Decision: d})
			kept.Action, kept.Reason = string(d.Action), d.Reason
		}
		l.keepHook(h, kept)
	}
	if !hook.Combine(answers).Blocks() {
		l.blocked--
		return "", nil
	}
	if !l.Now().Before(l.until) {
		l.blocked--
		l.notice("%s: a hook sent it back, but its time is up; it is verified as it is", id)
		return "", nil
	}
	correction := hook.Correction(answers)
	l.emit(event.Activity{Number: int(l.seat.Number), Text: "sent back: " + wire.Line(correction, 200)})
	return correction, nil
}

// callHook starts one hook in a fresh shadow of tree. A fault of the hook is in
// what is kept; an end is the host's failure, or the candidate's doing.
func (l *life) callHook(ctx context.Context, h Hook, name string, tree worktree.TreeID, payload hook.Payload) (record.Hook, []byte, *endOfLife) {
	kept := record.Hook{Event: string(h.Event), From: h.From, Round: l.round}
	n := int(l.seat.Number)
	shadow, err := l.work.NewVerification(ctx, l.base, name, tree, l.isGuard)
	if err != nil {
		return kept, nil, lifeEnds(candidate.Infrastructure, "make a shadow for a hook: %v", err)
	}
	defer l.discard(ctx, shadow)
	if err := l.watch.enter(ctx, n); err != nil {
		return kept, nil, lifeEnds(candidate.Infrastructure, "look at the repository: %v", err)
	}
	l.emit(event.Activity{Number: n, Text: fmt.Sprintf("the hook %s of %s", h.Event, h.From)})
	at := l.place(shadow, n, l.startedProcess)
	payload.Cwd = filepath.Join(sandbox.Spec{Root: at.Root, Home: at.Home, Seen: at.Seen}.Place().Root, filepath.FromSlash(at.WorkDir))
	out, res, err := h.Run(ctx, l.box(l.seat.Number, phaseHook), at, payload)
	suspicious, watchErr := l.watch.leave(context.WithoutCancel(ctx), n)
	l.soon(func(c *record.Candidate) { c.Processes = nil })
	kept.DurationMS = res.Duration.Milliseconds()
	l.keepHookLog(h, name, res)
	var fault *wire.Fault
	switch {
	case len(suspicious) > 0:
		return kept, nil, lifeEnds(candidate.Escaped, "your repository changed while a hook looked at it (%s)", firstFew(suspicious))
	case ctx.Err() != nil:
		return kept, nil, lifeEnds(candidate.Cancelled, "%v", context.Cause(ctx))
	case watchErr != nil:
		return kept, nil, lifeEnds(candidate.Infrastructure, "look at the repository: %v", watchErr)
	case errors.Is(err, proc.ErrSupervisorLost):
		l.reapBelow(shadow.Root(), shadow.Home())
		return kept, nil, lifeEnds(candidate.Escaped, "what supervised the hook %s was killed", h.Event)
	case errors.As(err, &fault):
		kept.Fault = l.Redactor.String(fault.Error())
		return kept, nil, nil
	case err != nil:
		return kept, nil, lifeEnds(candidate.Infrastructure, "%v", err)
	}
	return kept, out, nil
}

// keepHook writes down what a hook did, and tells the user once what is wrong
// with it.
func (l *life) keepHook(h Hook, kept record.Hook) {
	l.record(l.index, func(c *record.Candidate) {
		if len(c.Hooks) < maxHooks || !hook.OfTools(h.Event) { // which a candidate can bring about as often as it likes
			c.Hooks = append(c.Hooks, kept)
		}
	})
	if kept.Fault == "" {
		return
	}
	l.mu.Lock()
	said := slices.Contains(l.faulty, h.From+"\x00"+kept.Event)
	l.faulty = append(l.faulty, h.From+"\x00"+kept.Event)
	l.mu.Unlock()
	switch {
	case said:
	case h.Point && h.Event == hook.Stop:
		l.notice("%s says nothing at Stop (%s); it decides by what it answers after the turn", h.From, kept.Fault)
	case h.Event == hook.PreToolUse:
		l.notice("the hook %s of %s did not work, and what it does not allow is refused: %s", kept.Event, h.From, kept.Fault)
	default:
		l.notice("the hook %s of %s did not work, which holds nothing up: %s", kept.Event, h.From, kept.Fault)
	}
}

// keepHookLog writes what a hook printed on stderr beside the agent's log.
func (l *life) keepHookLog(h Hook, name string, res sandbox.Result) {
	text := l.Redactor.String(string(res.Stderr.Bytes()))
	if text == "" {
		return
	}
	if err := l.Record.File(l.seat.Number.ID(), "hook-"+strings.TrimPrefix(name, l.seat.Number.ID()+"-")+".log", []byte(text)); err != nil {
		l.failRecord(err)
	}
}
