package term

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func env(kv map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := kv[k]; return v, ok }
}

func TestLookOf(t *testing.T) {
	type m = map[string]string
	for name, c := range map[string]struct {
		terminal bool
		width    int
		env      m
		want     Look
	}{
		"terminal":                  {true, 100, m{"TERM": "xterm", "LANG": "en_US.UTF-8"}, Look{true, true, true, true, 100}},
		"pipe":                      {false, 0, m{"TERM": "xterm", "LANG": "en_US.UTF-8"}, Look{false, false, true, false, 0}},
		"NO_COLOR":                  {true, 80, m{"TERM": "xterm", "NO_COLOR": "1"}, Look{true, false, false, true, 80}},
		"empty NO_COLOR":            {true, 80, m{"TERM": "xterm", "NO_COLOR": ""}, Look{true, true, false, true, 80}},
		"forced in a pipe":          {false, 0, m{"CLICOLOR_FORCE": "1"}, Look{false, true, false, false, 0}},
		"forced by 0 is not forced": {false, 0, m{"CLICOLOR_FORCE": "0"}, Look{false, false, false, false, 0}},
		"NO_COLOR beats force":      {true, 80, m{"TERM": "xterm", "CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, Look{true, false, false, true, 80}},
		"dumb":                      {true, 80, m{"TERM": "dumb"}, Look{true, false, false, false, 80}},
		"no TERM":                   {true, 80, m{}, Look{true, false, false, false, 80}},
		"dumb but forced":           {true, 80, m{"TERM": "dumb", "CLICOLOR_FORCE": "1"}, Look{true, true, false, false, 80}},
		"CLICOLOR=0":                {true, 80, m{"TERM": "xterm", "CLICOLOR": "0"}, Look{true, false, false, true, 80}},
		"LC_ALL outranks LANG":      {false, 0, m{"LC_ALL": "C", "LANG": "de_DE.utf8"}, Look{}},
		"LC_CTYPE outranks LANG":    {false, 0, m{"LC_CTYPE": "C.utf8", "LANG": "C"}, Look{UTF8: true}},
		"unknown width":             {true, 0, m{"TERM": "xterm"}, Look{true, true, false, true, 80}},
		"COLUMNS where unknown":     {true, 0, m{"TERM": "xterm", "COLUMNS": "40"}, Look{true, true, false, true, 40}},
		"COLUMNS of a pipe":         {false, 0, m{"COLUMNS": "120"}, Look{Width: 120}},
		"COLUMNS that is nonsense":  {false, 0, m{"COLUMNS": "-1"}, Look{}},
	} {
		if got := LookOf(c.terminal, c.width, env(c.env)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := LookOf(false, 0, nil); got != (Look{}) {
		t.Errorf("without an environment: %+v", got)
	}
}

// pty is a pseudo terminal of a size.
func pty(t *testing.T, width, height uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	resize(t, master, width, height)
	return master, slave
}

func resize(t *testing.T, master *os.File, width, height uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
}

func TestStreamsOnATerminal(t *testing.T) {
	master, slave := pty(t, 97, 30)
	s := Streams{In: slave, Out: slave, Err: slave, Env: env(map[string]string{"TERM": "xterm", "LANG": "C.UTF-8"})}
	if got, want := s.OutLook(), (Look{true, true, true, true, 97}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	resize(t, master, 41, 12)
	if got := s.ErrLook().Width; got != 41 {
		t.Errorf("width after a resize: %d", got)
	}
	if _, h := Size(slave); h != 12 {
		t.Errorf("height after a resize: %d", h)
	}
	if !s.Interactive() {
		t.Error("a terminal is not interactive")
	}
	s.In = &bytes.Buffer{}
	if s.Interactive() {
		t.Error("a buffer is interactive")
	}
}
