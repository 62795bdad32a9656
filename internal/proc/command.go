package proc

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Command is one program to run, with all that it gets.
type Command struct {
	Argv    []string      // program and arguments; a name without a slash is looked up in the PATH of Env
	Enter   []string      // command line that runs the supervisor, and so all of this, in other namespaces; the program is an absolute path, and may not fork
	Dir     string        // absolute directory to start in
	Env     []string      // the whole environment; nothing is added
	Stdin   []byte        // the whole input; empty means /dev/null
	Files   [][]byte      // contents the program finds at descriptors 3, 4, … (4, 5, … with Report)
	Report  bool          // give the program a pipe at descriptor 3; Result.Report is what it wrote
	Wrapper bool          // Argv only wraps the real program: TERM is for what it started, not for itself
	Offline bool          // a network namespace of its own, with nothing but a loopback
	Timeout time.Duration // wall time before the tree is ended; required
	Grace   time.Duration // between TERM and KILL; 0 means 2 s
	Head    int           // bytes kept from the beginning of stdout and stderr each; 0 means 256 KiB
	Tail    int           // bytes kept from the end of each; 0 means 256 KiB

	// Log receives both streams as they come, each up to Head bytes; what is
	// kept of the rest follows when the program has ended. It may be nil.
	Log io.Writer

	// Started is told once, before the program runs, what Reap needs after a
	// crash of this process. It may be nil.
	Started func(Identity)
}

const (
	defaultGrace = 2 * time.Second
	defaultKeep  = 256 << 10
	maxFiles     = 64
)

func (c Command) withDefaults() (Command, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return c, errors.New("no program")
	}
	for _, s := range slices.Concat(c.Argv, c.Enter) {
		if strings.IndexByte(s, 0) >= 0 {
			return c, fmt.Errorf("argument %q holds a NUL byte", s)
		}
	}
	for _, s := range c.Env {
		if strings.IndexByte(s, 0) >= 0 || strings.IndexByte(s, '=') < 1 {
			return c, fmt.Errorf("environment entry %q is not NAME=VALUE", s)
		}
	}
	if !filepath.IsAbs(c.Dir) || strings.IndexByte(c.Dir, 0) >= 0 {
		return c, fmt.Errorf("directory %q is not an absolute path", c.Dir)
	}
	if len(c.Enter) > 0 && (!filepath.IsAbs(c.Enter[0]) || c.Offline) {
		return c, errors.New("what enters namespaces has an absolute path and settles the network itself")
	}
	if c.Timeout <= 0 {
		return c, errors.New("no timeout")
	}
	if c.Grace < 0 || c.Head < 0 || c.Tail < 0 || len(c.Files) > maxFiles {
		return c, errors.New("a limit is out of range")
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Head == 0 {
		c.Head = defaultKeep
	}
	if c.Tail == 0 {
		c.Tail = defaultKeep
	}
	return c, nil
}

// An End is why a run ended.
type End string

const (
	Exited   End = "exited"   // by itself; Code or Signal says how
	Deadline End = "deadline" // Command.Timeout passed and the tree was killed
	Stopped  End = "stopped"  // the context ended and the tree was killed
	NotRun   End = "not-run"  // the program does not exist or may not be executed
)

// A Result says what happened to a program that was in Run's hands.
type Result struct {
	End      End
	Code     int // exit status when Signal is 0
	Signal   int // the signal that killed it, or 0
	Stdout   Output
	Stderr   Output
	Report   []byte // the first 4 KiB that the program wrote to its report pipe
	Duration time.Duration
	Reason   string // for NotRun: one line for people
	OOM      bool   // of RunContained: the memory killer acted in the container

	OOMOutside bool // although the container was within its own limit
}
