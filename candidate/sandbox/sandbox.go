// Package sandbox says what a turn needs of a sandbox: one blocking Run whose
// return means that nothing the program started is alive. process/, bwrap/ and
// docker/ implement it; sandboxtest holds the contract suite.
package sandbox

import (
	"context"
	"io"
	"time"

	"github.com/bestof-dev/bestof/internal/proc"
)

// A Network is what a sandboxed program can reach.
type Network string

const (
	NetworkNone Network = "none" // only a private loopback where the sandbox can make one
	NetworkHost Network = "host" // the host's network, or what it reaches where the sandbox has one of its own
)

// A Bind makes a host path visible inside a sandbox, read-only.
type Bind struct {
	Source string // absolute host path, a file or a directory
	Target string // absolute path inside; sandboxes that cannot rename use Source
}

// A Forward leads from a TCP port of a program's loopback to a unix socket.
type Forward struct {
	Port   int    // on 127.0.0.1 inside of the sandbox, and on ::1 where that is
	Socket string // absolute host path
}

// A Spec is one program run. It is plain data: it can be written down and run
// again elsewhere. All paths are absolute host paths unless said otherwise.
type Spec struct {
	Argv    []string          // program and arguments; never a shell string
	Root    string            // the shadow: the only writable tree besides Home
	Enter   Entry             // the namespaces in which Root and Home are what they are; zero for this process's own
	Seen    Place             // where the program sees Root and Home; zero for their own paths
	WorkDir string            // slash path below Root to start in, "" for Root itself
	Home    string            // private directory: HOME, XDG_*, TMPDIR live in it; made by the caller, removed by the caller
	Env     map[string]string // added to the environment the sandbox builds from nothing; wins over it
	PassEnv []string          // names taken from the operator's environment when set there (an allow list)
	Stdin   []byte            // empty means an empty stdin, never the operator's
	Binds   []Bind            // more to see, read-only
	Network Network
	// Forwards lead from ports of the program's own loopback to sockets of the
	// host's, with NetworkNone only; nothing else is reached. Online says that
	// they lead far enough that tools need not be told to stay offline.
	Forwards []Forward
	Online   bool
	Ports    PortBlock     // announced in the environment as BESTOF_PORT_BASE and BESTOF_PORT_COUNT
	Timeout  time.Duration // wall time before the tree is ended; required
	Grace    time.Duration // between TERM and KILL; 0 means 2 s
	Head     int           // bytes kept from the beginning of stdout and of stderr each; 0 means 256 KiB
	Tail     int           // bytes kept from the end of each; 0 means 256 KiB
	Log      io.Writer     // receives stdout and stderr as they come, interleaved, capped like the captures; may be nil
	Started  func(Process) // told once, before the program runs, what to reap after a crash; may be nil

	// Labels mark what a sandbox leaves with others, such as an engine's
	// container: "bestof.run", "bestof.candidate", "bestof.phase".
	Labels map[string]string
}

// An Entry leads into namespaces that a process of the caller's holds open
// during the run. The sandbox is started in them whole, its supervisor
// included, so Argv is found there, Root and Home are paths of theirs, and all
// that Run promises holds as without. It is plain data, but no longer true
// when those namespaces are gone.
type Entry struct {
	// Argv is the beginning of the command line that runs the rest of it in
	// the namespaces, in the same process, with its user, environment and
	// descriptors. Its program is an absolute path. A namespace that cannot be
	// entered is the sandbox's failure, not the program's.
	Argv []string
	// Offline is Argv for NetworkNone: it enters a network namespace with
	// nothing but a loopback too. Only sandboxes that have EntersOffline need
	// it, because they cannot make one inside.
	Offline []string
	// Host is what stands before Root and Home where this process finds them.
	Host string

	// Lower, Upper and Work are the layers of an overlay that the sandbox has
	// to mount at Root itself, with the option userxattr; absolute host paths.
	// It does that for each program, and nobody else sees the tree: what
	// programs changed is in Upper. Only sandboxes that have MountsLayers can.
	Lower, Upper, Work string
}

// Layered reports whether Root is an overlay that the sandbox has to mount.
func (e Entry) Layered() bool { return e.Upper != "" }

// A Place is where Root and Home are for the program. Giving every shadow the
// same place lets absolute paths that a setup command wrote, such as those of
// a virtual environment's scripts, hold in all of them. Only a sandbox whose
// Isolation has Filesystem can do that; others refuse the Spec.
type Place struct{ Root, Home string }

// Place is where the program sees Root and Home.
func (s Spec) Place() Place {
	if s.Seen == (Place{}) {
		return Place{Root: s.Root, Home: s.Home}
	}
	return s.Seen
}

// A PortBlock is a range of TCP ports that only this candidate should use.
type PortBlock struct{ Base, Count int }

// A Process identifies an operating-system process beyond reuse of its pid.
type Process = proc.Identity

// Output is what was kept of one stream.
type Output struct {
	Head    []byte
	Tail    []byte // what followed Head, at most the last Spec.Tail bytes
	Dropped int64  // bytes between Head and Tail that were not kept
}

// Bytes is the kept output with a line that says how much is missing between
// head and tail, if anything is.
func (o Output) Bytes() []byte {
	if o.Dropped == 0 {
		return append(append([]byte{}, o.Head...), o.Tail...)
	}
	return appendDropped(o)
}

// An End is why a program's run ended.
type End string

const (
	Exited   End = "exited"   // by itself; Code or Signal says how
	Deadline End = "deadline" // Spec.Timeout passed and the tree was killed
	Stopped  End = "stopped"  // the context ended and the tree was killed
	NotRun   End = "not-run"  // the program does not exist or may not be executed
)

// A Result says what happened. It is returned without an error whenever the
// program was in the sandbox's hands, whatever it did there.
type Result struct {
	End      End
	Code     int // exit status when End is Exited and Signal is 0
	Signal   int // the signal that killed it, or 0
	Stdout   Output
	Stderr   Output
	Duration time.Duration
	Reason   string // for NotRun: one line for people
	OOM      bool   // the kernel's memory killer is known to have acted
	Warm     bool   // what it ran in was begun before Run was called
}

// OK reports whether the program ended by itself with status 0.
func (r Result) OK() bool { return r.End == Exited && r.Code == 0 && r.Signal == 0 }

// Isolation states what a sandbox keeps, for the user's eyes: the words are
// printed by run and doctor.
type Isolation struct {
	Name       string   `json:"name"`       // "process", "bwrap"
	Filesystem bool     `json:"filesystem"` // only Root and Home are writable, the rest of the user's files absent
	Processes  bool     `json:"processes"`  // a PID namespace of its own
	Network    bool     `json:"network"`    // NetworkNone is enforced
	Loopback   bool     `json:"loopback"`   // with NetworkHost a program reaches what listens on this machine's loopback
	Summary    string   `json:"summary"`    // one line
	Missing    []string `json:"missing"`    // promises it cannot keep, each one line
}

// A Sandbox runs programs. Run may be called concurrently. It returns when the
// program and everything that it started are dead; after that nothing writes
// to Root or Home. An error means that the sandbox itself failed, which is
// never the candidate's fault.
type Sandbox interface {
	Isolation() Isolation
	Run(ctx context.Context, s Spec) (Result, error)
}
