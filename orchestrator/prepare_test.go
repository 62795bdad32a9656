package orchestrator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/internal/hosts"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

func TestPrepare(t *testing.T) {
	programs := map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")}
	unused := fake.New(sandbox.Options{}, nil)
	s := newStage(t, unused, "fix")
	closed := false
	got := record.Image{Ref: "python", Digest: "sha256:d", ID: "sha256:i"}
	s.cfg.Prepare = func(_ context.Context, step func(string)) (Prepared, error) {
		step("pulling the image python: 1 of 2 layers")
		return Prepared{
			Sandbox: fake.New(sandbox.Options{}, programs), Image: got, Plugins: map[string]record.Image{"p": got}, Close: func() { closed = true },
		}, nil
	}
	doc := s.run(t)
	if doc.ExitCode != ExitWinner || doc.Settings.Image == nil || *doc.Settings.Image != got || doc.Settings.PluginImages["p"] != got {
		t.Errorf("exit code %d, %s, image %+v, %+v", doc.ExitCode, doc.Reason, doc.Settings.Image, doc.Settings.PluginImages)
	}
	if len(unused.Runs()) > 0 || !closed {
		t.Errorf("%d programs ran in another sandbox, closed: %v", len(unused.Runs()), closed)
	}
	var texts []string
	for _, e := range s.events {
		if step, ok := e.Body.(event.Step); ok && step.Name == "image" {
			texts = append(texts, step.Text)
		}
	}
	if want := []string{"looking for the image", "pulling the image python: 1 of 2 layers", "image: python at sha256:d"}; !slices.Equal(texts, want) {
		t.Errorf("the steps are %q", texts)
	}
	s.checkEvents(t)
}

func TestPrepareFails(t *testing.T) {
	sb := fake.New(sandbox.Options{}, nil)
	s := newStage(t, sb, "fix")
	s.cfg.Prepare = func(context.Context, func(string)) (Prepared, error) { return Prepared{}, errors.New("no such image") }
	doc := s.run(t)
	if doc.ExitCode != ExitInfrastructure || doc.Reason != "no such image" || len(sb.Runs()) > 0 {
		t.Errorf("exit code %d, %q, %d programs", doc.ExitCode, doc.Reason, len(sb.Runs()))
	}
}

// A warming sandbox writes down what it was told to begin, and what to drop.
type warming struct {
	*fake.Sandbox
	mu      sync.Mutex
	begun   []sandbox.Spec
	dropped int
	told    chan struct{}
}

func (w *warming) Warm(_ context.Context, s sandbox.Spec) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = append(w.begun, s)
	w.told <- struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dropped++
	}
}

// What the first candidate needs is begun before it, and while one works, what
// the next one in its slot needs, with the very paths that it then has; each that
// was begun is dropped.
func TestWarm(t *testing.T) {
	w := &warming{told: make(chan struct{}, 10)}
	waits := []int{2, 1, 0} // for its own and the next one's, the next one's, and nothing
	w.Sandbox = fake.New(sandbox.Options{}, map[string]fake.Program{
		"check": check, self: plugin, "bad": writes("worse\n"),
		"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
			for range waits[0] {
				<-w.told
			}
			waits = waits[1:]
			return writes("right\n")(ctx, p)
		},
	})
	s := newStage(t, w, "fix", "fix", "fix")
	s.cfg.Settings.Jobs, s.cfg.Settings.Warm = 1, true
	doc := s.run(t)
	if got := outcomes(doc); !slices.Equal(got, []candidate.Outcome{candidate.Met, candidate.Met, candidate.Met}) {
		t.Errorf("outcomes %v", got)
	}
	if len(w.begun) != 3 || w.dropped != 3 {
		t.Errorf("%d were begun, %d dropped", len(w.begun), w.dropped)
	}
	w.fits(t)
	if m := w.Misuse(); len(m) > 0 {
		t.Errorf("the sandbox was misused: %s", strings.Join(m, "; "))
	}
}

// fits fails the test when something was begun that is not what its candidate
// then ran in.
func (w *warming) fits(t *testing.T) {
	t.Helper()
	for _, spec := range w.begun {
		if spec.Labels["bestof.phase"] != "agent" || spec.Labels["bestof.candidate"] == "" {
			t.Errorf("it has the labels %v", spec.Labels)
		}
		if !slices.ContainsFunc(w.Runs(), func(r sandbox.Spec) bool {
			return r.Argv[0] == "fix" && r.Root == spec.Root && r.Home == spec.Home && r.Network == spec.Network && slices.Equal(r.Binds, spec.Binds) &&
				slices.Equal(r.Forwards, spec.Forwards) && r.Seen == spec.Seen
		}) {
			t.Errorf("no candidate ran with the paths of %+v", spec)
		}
	}
}

// Who reaches hosts has its own sockets from the beginning, of its container and
// of its record; what nobody came to use is closed.
func TestWarmWithAProxy(t *testing.T) {
	for _, stop := range []string{"", "first"} {
		w := &warming{told: make(chan struct{}, 10)}
		w.Sandbox = fake.New(sandbox.Options{}, map[string]fake.Program{
			"check": check, self: plugin,
			"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
				if strings.HasSuffix(p.Spec.Root, "/c1/root") {
					<-w.told // its own
					<-w.told
				}
				c, err := net.Dial("unix", p.Spec.Forwards[0].Socket)
				if err != nil {
					return fake.Exit{Code: 1}
				}
				defer c.Close()
				fmt.Fprintf(c, "CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n")
				bufio.NewReader(c).ReadString('\n')
				return writes("right\n")(ctx, p)
			},
		})
		s := newStage(t, w, "fix", "fix")
		s.cfg.Settings.Jobs, s.cfg.Settings.Warm, s.cfg.Settings.Stop = 1, true, stop
		for i := range s.cfg.Seats {
			s.cfg.Seats[i].Reach = []hosts.Rule{{Name: "api.example.com"}}
		}
		doc := s.run(t)
		if len(w.begun) != 2 || w.dropped != 2 || w.begun[0].Forwards[0].Socket == w.begun[1].Forwards[0].Socket {
			t.Fatalf("%d were begun, %d dropped: %+v", len(w.begun), w.dropped, w.begun)
		}
		for i, spec := range w.begun {
			if _, err := os.Stat(spec.Forwards[0].Socket); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left (%v)", spec.Forwards[0].Socket, err)
			}
			ran := stop == "" || i == 0
			if uses := doc.Candidates[i].Network; (len(uses) == 1 && uses[0].Host == "elsewhere.example" && !uses[0].Allowed) != ran {
				t.Errorf("the record of candidate %d has %+v", i+1, uses)
			}
		}
		if stop == "" {
			w.fits(t)
		}
	}
}

// A candidate that another limit keeps waiting is made ready when it is said to
// come soon, and the first one before it is asked for.
func TestWarmWhenAdmitted(t *testing.T) {
	w := &warming{told: make(chan struct{}, 10)}
	w.Sandbox = fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "fix": writes("right\n")})
	s := newStage(t, w, "fix", "fix", "fix")
	s.cfg.Settings.Jobs, s.cfg.Settings.Warm = 3, true
	s.cfg.Admit = func(n candidate.Number, soon func()) func(context.Context) (func(), error) {
		return func(context.Context) (func(), error) {
			if n == 2 {
				soon()
				soon() // may be said again
			}
			return func() {}, nil
		}
	}
	s.run(t)
	var begun []string
	for _, spec := range w.begun {
		begun = append(begun, spec.Labels["bestof.candidate"])
	}
	slices.Sort(begun)
	if !slices.Equal(begun, []string{"c1", "c2"}) || w.dropped != 2 {
		t.Errorf("%v were begun, %d dropped", begun, w.dropped)
	}
	w.fits(t)
}

// What was begun for candidates that never come to work is dropped too, and
// nothing is begun unless it was asked for.
func TestWarmIsDropped(t *testing.T) {
	for _, on := range []bool{true, false} {
		w := &warming{told: make(chan struct{}, 10)}
		w.Sandbox = fake.New(sandbox.Options{}, map[string]fake.Program{
			"check": check, self: plugin,
			"fix": func(ctx context.Context, p *fake.Process) fake.Exit {
				if on {
					<-w.told // its own
					<-w.told
				}
				return writes("right\n")(ctx, p)
			},
		})
		s := newStage(t, w, "fix", "fix")
		s.cfg.Settings.Jobs, s.cfg.Settings.Warm, s.cfg.Settings.Stop = 1, on, "first"
		doc := s.run(t)
		if doc.Winner == nil || *doc.Winner != 1 {
			t.Errorf("warm %v: winner %v: %s", on, doc.Winner, doc.Reason)
		}
		if want := map[bool]int{true: 2}[on]; len(w.begun) != want || w.dropped != want {
			t.Errorf("warm %v: %d were begun, %d dropped", on, len(w.begun), w.dropped)
		}
	}
}
