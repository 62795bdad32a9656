package view

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

// A terminal is a pseudo terminal whose other end is an emulator's screen.
// Nobody reads what the emulator would type back, so that a view which asks the
// terminal anything hangs its test.
type terminal struct {
	master, slave *os.File
	mu            sync.Mutex
	screen        *vt.Emulator
	raw           strings.Builder
	done          chan struct{}
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	tt := &terminal{master: master, slave: slave, screen: vt.NewEmulator(width, height), done: make(chan struct{})}
	tt.resize(t, width, height)
	go func() {
		defer close(tt.done)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			tt.mu.Lock()
			tt.raw.Write(b[:n])
			tt.screen.Write(b[:n])
			tt.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		slave.Close()
		<-tt.done
		master.Close()
	})
	return tt
}

func (tt *terminal) resize(t *testing.T, width, height int) {
	t.Helper()
	tt.mu.Lock()
	tt.screen.Resize(width, height)
	tt.mu.Unlock()
	if err := unix.IoctlSetWinsize(int(tt.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)}); err != nil {
		t.Fatal(err)
	}
}

// text is the screen without what is blank.
func (tt *terminal) text() string {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	var b strings.Builder
	for y := range tt.screen.Height() {
		var l strings.Builder
		for x := 0; x < tt.screen.Width(); {
			c := tt.screen.CellAt(x, y)
			if c == nil || c.Content == "" {
				l.WriteByte(' ')
				x++
				continue
			}
			l.WriteString(c.Content)
			x += max(c.Width, 1)
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (tt *terminal) written() string {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return tt.raw.String()
}

func (tt *terminal) streams(env map[string]string) term.Streams {
	if env["TERM"] == "" {
		env["TERM"] = "xterm-256color"
	}
	return term.Streams{In: tt.slave, Out: tt.slave, Err: tt.slave, Env: func(k string) (string, bool) { v, ok := env[k]; return v, ok }}
}

func eventually(t *testing.T, what string, tt *terminal, ok func(string) bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for ; ; <-time.After(5 * time.Millisecond) {
		s := tt.text()
		if ok(s) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never %s; the screen is\n%s", what, s)
		}
	}
}

func clock() time.Time { return began.Add(83 * time.Second) }

// story is a run up to its middle; n candidates.
func story(n int) []event.Event {
	var out []event.Event
	add := func(sec int, b event.Body) {
		out = append(out, event.Event{Seq: int64(len(out) + 1), At: began.Add(time.Duration(sec) * time.Second), Body: b})
	}
	var seats []event.Seat
	for i := range n {
		seats = append(seats, event.Seat{Number: i + 1, Agent: []string{"claude", "mutate", "an-agent-with-a-long-name"}[i%3]})
	}
	add(0, event.Started{Run: "r1", Candidates: seats, Isolation: "bwrap"})
	add(1, event.Step{Name: "baseline", Text: "the test runs on the base"})
	add(3, event.Step{Name: "baseline", Done: true})
	add(3, event.Notice{Text: "the test\tis slow"})
	add(3, event.Candidate{Number: 1, State: candidate.Preparing})
	add(4, event.Candidate{Number: 1, State: candidate.Working})
	add(5, event.Candidate{Number: 2, State: candidate.Working})
	add(9, event.Activity{Number: 2, Text: "edit 17: \x1b[2J\x1b[H⚠\ufe0f calc.go:12"})
	add(40, event.Candidate{Number: 1, State: candidate.Done, Outcome: candidate.Met, Files: 1, Added: 3, Deleted: 1, Detail: "the test passes"})
	add(41, event.Candidate{Number: 2, State: candidate.Working, Round: 1, Files: 2, Added: 120, Deleted: 45})
	return out
}

func TestLiveScreens(t *testing.T) {
	for _, c := range []struct {
		name          string
		n             int
		width, height int
		env           map[string]string
	}{
		{"80", 3, 80, 24, map[string]string{"LANG": "C.UTF-8"}},
		{"40", 3, 40, 24, map[string]string{"LANG": "C.UTF-8"}},
		{"120-ascii", 3, 120, 24, map[string]string{"NO_COLOR": "1"}},
		{"crowd", 50, 60, 10, map[string]string{"LANG": "C.UTF-8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tt := newTerminal(t, c.width, c.height)
			fmt.Fprint(tt.slave, "$ bestof run\r\n")
			l := NewLive(tt.streams(c.env), clock)
			for _, e := range story(c.n) {
				l.Publish(e)
			}
			eventually(t, "shows the last event", tt, func(s string) bool { return strings.Contains(s, "+120") && strings.Contains(s, "working 2") })
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(tt.slave, "$ next\r\n")
			eventually(t, "shows what follows", tt, func(s string) bool { return strings.HasSuffix(s, "$ next\n") })
			golden(t, "live-"+c.name, tt.text())
			raw := tt.written()
			for _, bad := range []string{"\x1b[?1049", "\x1b[?2004", "\x1b[2J", "\x1b]", "\x1b[?u", "\x1b[>", "\x1b[1 q", "\x1b[0 q"} {
				if strings.Contains(raw, bad) {
					t.Errorf("wrote %q", bad)
				}
			}
			if hides, shows := strings.LastIndex(raw, "\x1b[?25l"), strings.LastIndex(raw, "\x1b[?25h"); hides > shows {
				t.Error("the cursor is left hidden")
			}
			if c.env["NO_COLOR"] != "" && sgr.MatchString(strings.ReplaceAll(raw, "\x1b[m", "")) {
				t.Errorf("colours in spite of NO_COLOR: %q", raw)
			}
		})
	}
}

// At any size and any moment a frame has at most as many lines and cells as
// the screen, and still says how many candidates there are.
func TestFramesFit(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 50} {
		events := story(n)
		for upTo := range len(events) + 1 {
			var r run
			for _, e := range events[:upTo] {
				r.fold(e)
			}
			for _, width := range []int{1, 2, 10, 40, 79, 200} {
				for height := 1; height < 60; height += 7 {
					out := drawTable(&r, term.Look{UTF8: true, Color: true, Width: width}, height, clock())
					lines := strings.Split(sgr.ReplaceAllString(out, ""), "\n")
					if len(lines) > max(height, 3) {
						t.Fatalf("%d lines on a screen of %d:\n%s", len(lines), height, out)
					}
					for _, l := range lines {
						if w := term.Clean(l, 0).Width(); w > width {
							t.Fatalf("%d cells on a screen of %d: %q", w, width, l)
						}
					}
				}
			}
		}
	}
}

func TestLiveSurvivesResizing(t *testing.T) {
	tt := newTerminal(t, 100, 30)
	l := NewLive(tt.streams(map[string]string{"LANG": "C.UTF-8"}), clock)
	for _, e := range story(6) {
		l.Publish(e)
	}
	eventually(t, "draws", tt, func(s string) bool { return strings.Contains(s, "c6") })
	tt.resize(t, 40, 8)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	eventually(t, "shrinks", tt, func(s string) bool {
		if !strings.Contains(s, "more: ") {
			return false
		}
		for line := range strings.Lines(s) {
			if term.Clean(strings.TrimRight(line, "\n"), 0).Width() > 40 {
				return false
			}
		}
		return true
	})
	tt.resize(t, 100, 30)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	eventually(t, "grows", tt, func(s string) bool { return strings.Contains(s, "c6") && !strings.Contains(s, "more: ") })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// Live leaves the terminal in the modes it found and the input unread.
func TestLiveLeavesTheTerminalAlone(t *testing.T) {
	tt := newTerminal(t, 80, 24)
	before, err := unix.IoctlGetTermios(int(tt.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLive(tt.streams(map[string]string{}), clock)
	for _, e := range story(2) {
		l.Publish(e)
	}
	eventually(t, "draws", tt, func(s string) bool { return strings.Contains(s, "working 2") })
	during, err := unix.IoctlGetTermios(int(tt.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	during.Lflag |= before.Lflag & unix.ECHOCTL // the one that may change
	if *before != *during {
		t.Errorf("modes before %+v and during %+v", before, during)
	}
	if _, err := tt.master.WriteString("typed ahead\n"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := unix.IoctlGetTermios(int(tt.slave.Fd()), unix.TCGETS)
	if err != nil || *before != *after {
		t.Errorf("modes before %+v and after %+v, %v", before, after, err)
	}
	b := make([]byte, 64)
	n, err := tt.slave.Read(b)
	if err != nil || string(b[:n]) != "typed ahead\n" {
		t.Errorf("read %q, %v", b[:n], err)
	}
}

func TestLiveIsPlainWhereTheCursorCannotMove(t *testing.T) {
	tt := newTerminal(t, 80, 24)
	l := NewLive(tt.streams(map[string]string{"TERM": "dumb", "LANG": "C.UTF-8"}), clock)
	for _, e := range story(3) {
		l.Publish(e)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "writes lines", tt, func(s string) bool {
		return strings.Contains(s, "c1    met after 0:37, 1 file, +3 −1: the test passes")
	})
	if strings.Contains(tt.written(), "\x1b") {
		t.Errorf("escapes on a dumb terminal: %q", tt.written())
	}
}

// A terminal that takes nothing (^S, a slow link) never holds up the run.
func TestPublishDoesNotWaitForTheTerminal(t *testing.T) {
	r, w := io.Pipe() // unread: every write blocks
	look := term.Look{Terminal: true, Motion: true, Width: 80}
	l := &Live{}
	l.screen = startScreen(w, look, 80, 24, nil, l.drawing(clock))
	published := make(chan struct{})
	go func() {
		for range 1000 {
			for _, e := range story(3) {
				l.Publish(e)
			}
		}
		close(published)
	}()
	select {
	case <-published:
	case <-time.After(10 * time.Second):
		t.Fatal("Publish waits for the terminal")
	}
	go io.Copy(io.Discard, r)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func TestPublishFromManyGoroutines(t *testing.T) {
	tt := newTerminal(t, 80, 24)
	l := NewLive(tt.streams(map[string]string{}), clock)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, e := range story(5) {
				l.Publish(e)
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range story(1) {
		l.Publish(e) // after the end: no effect, no panic
	}
}
