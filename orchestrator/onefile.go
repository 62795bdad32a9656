package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/tool"
	"github.com/bestof-dev/bestof/plugin/tool/kernel"
)

// OneFile are the operator's one-file tools as candidates of a run get them:
// behind one door, frozen before the first candidate begins, so that all see the
// same bytes. Each candidate that uses one has a kernel of its own, in its own
// sandbox and on its own shadow.
type OneFile struct {
	Set     tool.Set // what candidates may call. Nothing else of the operator's tools reaches them
	Allow   tool.AllowList
	Python  string // the interpreter that is theirs too; "" for python3 of the sandbox
	Notices []string

	// Drafts are the zones in which a candidate's proposals lie, at dir.
	Drafts func(dir string) (*tool.Zones, error)
	// Propose puts a proposal of the winner into the operator's pending zone
	// and says what came of it. Nil leaves it in the record, and says how it is
	// taken from there.
	Propose func(context.Context, tool.Name, []byte) (string, error)
}

// Words name the tools in one line, "" without any.
func (o *OneFile) Words() string {
	if o == nil {
		return ""
	}
	var names []string
	for _, n := range o.Set.Names() {
		names = append(names, string(n))
	}
	return strings.Join(names, ", ")
}

const (
	ownServer    = "bestof" // what the door is offered under: mcp__bestof__tool
	maxProposals = 16       // of one candidate
	kernelSocket = "/run/bestof/tools.sock"
)

// door is the local tool of every candidate's gateway. Without tools there is
// none, and the wire is what it is without this.
func (g Tooling) door() []gateway.Local {
	o := g.turn.OneFile
	if o == nil {
		return nil
	}
	wire, ok := tool.Door(o.Set, tool.CandidateActions())
	if !ok {
		return nil
	}
	return []gateway.Local{{
		Server: ownServer, OwnTime: true,
		Tool: mcp.Tool{Name: wire.Name, Description: wire.Description, InputSchema: wire.InputSchema},
		Call: func(ctx context.Context, candidate int, arguments json.RawMessage) (mcp.Result, error) {
			a, err := g.askDoor(ctx, candidate, arguments)
			if err != nil {
				return mcp.Result{}, &mcp.CallError{Server: ownServer, Tool: wire.Name, Kind: mcp.Unavailable, Reason: err.Error()}
			}
			content := []json.RawMessage{textBlock(a.Text)}
			if a.Printed != "" {
				content = append(content, textBlock("printed:\n"+a.Printed))
			}
			return mcp.Result{Content: content, IsError: a.IsError}, nil
		},
	}}
}

// askDoor answers a candidate's request at its own desk.
func (g Tooling) askDoor(ctx context.Context, candidate int, arguments json.RawMessage) (tool.Answer, error) {
	b, done := g.turn.serving(candidate)
	if b == nil {
		return tool.Answer{}, errors.New(notAtWork)
	}
	defer done()
	ctx, cancel := b.during(ctx)
	defer cancel()
	d, err := b.desk()
	if err != nil {
		return tool.Answer{}, errors.New(b.say(err.Error()))
	}
	a, err := d.Call(ctx, arguments)
	switch {
	case ctx.Err() != nil:
		return tool.Answer{}, errors.New(roundEnded)
	case err != nil:
		return tool.Answer{}, errors.New(b.say(err.Error()))
	}
	text := func(s string) string { return b.Redactor.String(strings.ToValidUTF8(s, "\uFFFD")) }
	a.Text, a.Printed = text(a.Text), text(a.Printed)
	return a, nil
}

// say is an error of the host's as a candidate may read it.
func (b *bench) say(text string) string { return term.Clean(b.Redactor.String(text), 400).String() }

// A counter is where a candidate's calls of one-file tools are answered: made
// when the first comes, and closed with the bench.
type counter struct {
	desk  *tool.Desk
	leave []func() // in order
}

func (b *bench) desk() (*tool.Desk, error) {
	b.counterMu.Lock()
	defer b.counterMu.Unlock()
	if b.counter != nil {
		return b.counter.desk, nil
	}
	drafts, err := b.drafts()
	if err != nil {
		return nil, err
	}
	k, leave, err := b.kernel()
	if err != nil {
		return nil, err
	}
	b.counter = &counter{leave: leave, desk: &tool.Desk{
		Actions: tool.CandidateActions(), Allow: b.OneFile.Allow, Table: tool.NewTable(b.OneFile.Set, nil),
		Run: func(ctx context.Context, t tool.Tool, args json.RawMessage) (tool.Answer, error) {
			b.emit(event.Activity{Number: int(b.seat.Number), Text: "the tool " + string(t.Name)})
			r, err := k.Call(ctx, string(t.Name), args)
			return tool.Answer(r), err
		},
		Create: drafts.create,
	}}
	return b.counter.desk, nil
}

// kernel is the candidate's own, which its first call starts: in its sandbox, on
// its shadow, with a home of its own and with what the candidate itself reaches
// of the network. leave ends it and all that was made for it.
func (b *bench) kernel() (k *kernel.Kernel, leave []func(), err error) {
	home, remove, err := b.home()
	if err != nil {
		return nil, nil, err
	}
	at, ended := b.place(b.shadow)
	meet := kernel.Meeting{Path: filepath.Join(b.work.Dir(), "mcp", fmt.Sprintf("k%d", b.seat.Number))}
	if b.Settings.Isolation.Filesystem {
		meet.Inside = kernelSocket
	}
	spec := sandbox.Spec{
		Root: at.Root, WorkDir: at.WorkDir, Home: home, Enter: at.Enter, Seen: at.Seen, Started: at.Started,
		Network: agentNetwork(b.Settings.Network), Timeout: max(b.until.Sub(b.Now()), time.Second) + time.Minute,
	}
	var out outlet
	if spec.Network == sandbox.NetworkNone {
		online := b.Settings.Network != sandbox.Network(agent.NetworkGateway)
		if out, err = b.openOutlet(b.seat.Number.ID()+"-k", b.seat.Reach, nil, online, b.network); err != nil {
			remove()
			ended()
			return nil, nil, err
		}
	}
	out.give(&spec)
	box := watchedBox{b.box(b.seat.Number, phaseTool), func() { b.reapBelow(b.shadow.Root(), home) }}
	k = kernel.New(kernel.Config{Python: b.OneFile.Python, Tools: sources(b.OneFile.Set), Start: kernel.Sandboxed(box, spec, meet)})
	return k, []func(){k.Close, func() {
		if err := out.close(); err != nil {
			b.notice("%v", err)
		}
	}, remove, ended}, nil
}

func (c *counter) close() {
	if c == nil {
		return
	}
	for _, f := range c.leave {
		f()
	}
}

// sources are tools as a kernel gets them. Their paths say nothing of where the
// operator has them.
func sources(s tool.Set) []kernel.Source {
	var all []kernel.Source
	for _, t := range s.Tools {
		all = append(all, kernel.Source{Name: string(t.Name), Path: "/tools/" + t.Name.File(), Bytes: t.Bytes, SHA256: string(t.SHA256)})
	}
	return all
}

// A watchedBox tells when a supervisor was killed by somebody else.
type watchedBox struct {
	sandbox.Sandbox
	lost func()
}

// Run implements sandbox.Sandbox.
func (w watchedBox) Run(ctx context.Context, s sandbox.Spec) (sandbox.Result, error) {
	res, err := w.Sandbox.Run(ctx, s)
	if errors.Is(err, proc.ErrSupervisorLost) {
		w.lost()
	}
	return res, err
}

// drafts are the proposals of one candidate, in all rounds of one attempt. They
// lie in a pending folder of its own until the round is over.
type drafts struct {
	zones *tool.Zones

	mu   sync.Mutex
	made map[tool.Name]tool.Hash
}

// drafts are the candidate's. b.counterMu is held.
func (b *bench) drafts() (*drafts, error) {
	if b.life.drafted == nil {
		zones, err := b.OneFile.Drafts(filepath.Join(b.work.Dir(), fmt.Sprintf("%s-drafts-%d", b.seat.Number.ID(), b.trial)))
		if err != nil {
			return nil, fmt.Errorf("make its pending folder: %w", err)
		}
		b.life.drafted = &drafts{zones: zones, made: map[tool.Name]tool.Hash{}}
	}
	return b.life.drafted, nil
}

// create writes a proposal. Where it is says nothing of this machine.
func (d *drafts) create(ctx context.Context, name tool.Name, source string) (tool.Written, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.made[name]; !known && len(d.made) == maxProposals {
		return tool.Written{}, fmt.Errorf("%d tools were proposed already, and that is as many as there can be", maxProposals)
	}
	w, err := d.zones.Create(ctx, name, source)
	if err != nil {
		return w, err
	}
	d.made[name] = w.Tool.SHA256
	w.Tool.Path = "pending/" + name.File()
	return w, nil
}

// keepDrafts puts what the candidate proposed so far into the record, beside its
// change.
func (l *life) keepDrafts() error {
	if l.drafted == nil {
		return nil
	}
	var kept []record.ProposedTool
	for _, name := range slices.Sorted(maps.Keys(l.drafted.made)) {
		f, err := l.drafted.zones.Find(tool.Pending, name)
		if err != nil {
			return fmt.Errorf("keep the tool %s that it proposed: %w", name, err)
		}
		if err := l.Record.File(l.seat.Number.ID()+"/"+draftsDir, name.File(), f.Bytes); err != nil {
			return err
		}
		kept = append(kept, record.ProposedTool{Name: string(name), SHA256: string(f.SHA256), File: path.Join("candidates", l.seat.Number.ID(), draftsDir, name.File())})
	}
	l.record(l.index, func(c *record.Candidate) { c.Proposed = kept })
	return nil
}

const draftsDir = "tools/pending"

// propose puts what the winner proposed before the operator, and says so. What
// others proposed stays in the record.
func (t *turn) propose(ctx context.Context, winner int) {
	if t.OneFile == nil {
		return
	}
	for _, c := range t.doc.Candidates {
		if c.Number != winner {
			continue
		}
		for _, p := range c.Proposed {
			words, err := t.proposeOne(ctx, p)
			if err != nil {
				words = err.Error()
			}
			t.notice("candidate %d wrote the tool %s (%s): %s", winner, p.Name, p.File, t.Redactor.String(words))
		}
	}
}

func (t *turn) proposeOne(ctx context.Context, p record.ProposedTool) (string, error) {
	if t.OneFile.Propose == nil {
		return fmt.Sprintf("it is kept there and nowhere else: %s puts it into pending/", argv.Join([]string{"bestof", "tool", "create", p.Name, filepath.Join(t.Record.Path(), p.File)})), nil
	}
	root, err := os.OpenRoot(t.Record.Path())
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := root.Open(p.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, tool.MaxSource+1))
	if err != nil {
		return "", err
	}
	if string(tool.HashOf(b)) != p.SHA256 {
		return "", errors.New("its file is not what was written any more, so it is not proposed")
	}
	return t.OneFile.Propose(ctx, tool.Name(p.Name), b)
}

// recordOneFile is what candidates could call behind the door.
func (t *turn) recordOneFile() []record.OneFileTool {
	if t.OneFile == nil {
		return nil
	}
	var all []record.OneFileTool
	for _, f := range t.OneFile.Set.Tools {
		all = append(all, record.OneFileTool{Name: string(f.Name), SHA256: string(f.SHA256)})
	}
	return all
}
