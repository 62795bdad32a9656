package term

import (
	"io"
	"strconv"
	"strings"

	xterm "golang.org/x/term"
)

// Streams are the three streams of a program and the environment that says
// what they can show. Nothing is read from the process behind its back.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) (string, bool) // os.LookupEnv in main; nil is an empty environment
}

// A Look is what a stream can show.
type Look struct {
	Terminal bool // someone watches
	Color    bool // SGR sequences may be written
	UTF8     bool // characters beyond ASCII may be written
	Motion   bool // the cursor may be moved: a terminal that is not dumb
	Width    int  // cells in a line; 0 is no limit
}

// OutLook says what Out can show now.
func (s Streams) OutLook() Look { return s.look(s.Out) }

// ErrLook says what Err can show now.
func (s Streams) ErrLook() Look { return s.look(s.Err) }

func (s Streams) look(w io.Writer) Look {
	terminal := IsTerminal(w)
	width := 0
	if terminal {
		width, _ = Size(w)
	}
	return LookOf(terminal, width, s.Env)
}

// Interactive reports whether a person can be asked: In and Err are both
// terminals.
func (s Streams) Interactive() bool { return IsTerminal(s.In) && IsTerminal(s.Err) }

// LookOf decides from the facts. NO_COLOR wins over CLICOLOR_FORCE, which wins
// over everything else. width is the terminal's, or 0 where it is unknown:
// then COLUMNS counts, and a terminal is taken to have 80 columns.
func LookOf(terminal bool, width int, env func(string) (string, bool)) Look {
	get := func(name string) string {
		if env == nil {
			return ""
		}
		v, _ := env(name)
		return v
	}
	dumb := get("TERM") == "dumb" || get("TERM") == ""
	l := Look{Terminal: terminal, Motion: terminal && !dumb, Width: width, UTF8: utf8Locale(get)}
	switch force := get("CLICOLOR_FORCE"); {
	case get("NO_COLOR") != "":
	case force != "" && force != "0":
		l.Color = true
	default:
		l.Color = terminal && !dumb && get("CLICOLOR") != "0"
	}
	if l.Width <= 0 {
		l.Width = 0
		if n, err := strconv.Atoi(get("COLUMNS")); err == nil && n > 0 && n < 10000 {
			l.Width = n
		} else if terminal {
			l.Width = 80
		}
	}
	return l
}

// utf8Locale reads the locale's variables in the order of their rank.
func utf8Locale(get func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(get(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

type descriptor interface{ Fd() uintptr }

// IsTerminal reports whether stream, a reader or a writer, is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(descriptor)
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// Size is the width and height of the terminal behind stream at this moment,
// zeros when they cannot be known.
func Size(stream any) (width, height int) {
	f, ok := stream.(descriptor)
	if !ok {
		return 0, 0
	}
	width, height, err := xterm.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}
