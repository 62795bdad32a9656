package view

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/bestof-dev/bestof/internal/term"
)

// frame is how often the screen is drawn again.
const frame = 100 * time.Millisecond

// A screen draws one picture again and again below whatever was on a terminal,
// until it is closed. It reads no input, and the one mode that it changes until
// then is that control keys are not shown, so signals reach the program and
// nothing that matters is left when the process is killed.
type screen struct {
	program *tea.Program
	done    chan error
	restore func() // puts the terminal's mode back
	closing sync.Once
	err     error
}

// A drawing is a picture of at most height lines and look.Width cells.
type drawing func(look term.Look, height int) string

// openScreen draws on s.Err.
func openScreen(s term.Streams, draw drawing) *screen {
	width, height := term.Size(s.Err)
	restore := hideControlKeys(s.Err)
	opened := startScreen(s.Err, s.ErrLook(), width, height, s.Env, draw)
	opened.restore = restore
	return opened
}

func startScreen(w io.Writer, look term.Look, width, height int, env func(string) (string, bool), draw drawing) *screen {
	var environ []string
	if env != nil {
		for _, name := range []string{"TERM", "COLUMNS", "LINES"} {
			if v, ok := env(name); ok {
				environ = append(environ, name+"="+v)
			}
		}
	}
	profile := colorprofile.ASCII
	if look.Color {
		profile = colorprofile.ANSI256
	}
	s := &screen{done: make(chan error, 1), restore: func() {}}
	s.program = tea.NewProgram(
		&canvas{draw: draw, look: look, width: width, height: height},
		tea.WithOutput(w), tea.WithInput(nil), tea.WithoutSignalHandler(),
		tea.WithEnvironment(environ), tea.WithColorProfile(profile),
		tea.WithWindowSize(width, height), tea.WithFPS(int(2*time.Second/frame)),
	)
	go func() {
		_, err := s.program.Run()
		s.done <- err
	}()
	return s
}

// Close draws the last state, leaves it on the screen and returns when nothing
// more will be written. It may be called more than once.
func (s *screen) Close() error {
	s.closing.Do(func() {
		s.program.Quit()
		if err := <-s.done; err != nil && !errors.Is(err, tea.ErrProgramKilled) {
			s.err = fmt.Errorf("live table: %w", err)
		}
		s.restore()
	})
	return s.err
}

// canvas is the bubbletea model: a drawing and the size of the screen.
type canvas struct {
	draw          drawing
	look          term.Look
	width, height int
}

type tick struct{}

func again() tea.Cmd { return tea.Tick(frame, func(time.Time) tea.Msg { return tick{} }) }

func (c *canvas) Init() tea.Cmd { return again() }

func (c *canvas) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		next := *c
		next.width, next.height = m.Width, m.Height
		return &next, nil
	case tick:
		return c, again()
	}
	return c, nil
}

func (c *canvas) View() tea.View {
	look := c.look
	look.Width = c.width
	// The line after the picture is where the cursor rests, so that whatever is
	// written after us, by whomever, begins on a line of its own.
	content := c.draw(look, c.height-1) + "\n"
	v := tea.NewView(content)
	v.DisableBracketedPasteMode = true
	v.Cursor = tea.NewCursor(0, strings.Count(content, "\n"))
	// The one pair of values that bubbletea encodes as "no change of style".
	v.Cursor.Shape, v.Cursor.Blink = -1, false
	return v
}
