// Package web is the local page of bestof: lists of runs and batches, a run
// live while it works, the comparison of its candidates, and adoption by
// confirmation. It renders what an Archive tells it and holds no truth of its
// own. It serves one operator on this machine's loopback and nobody else:
// guard.go says how the others are kept out.
package web

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/netutil"

	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/orchestrator/batch/report"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// ErrNone means that there is nothing of the name that was asked for.
var ErrNone = errors.New("there is no such page")

// A Place names where records lie: a repository, or the directory of a batch.
// It says nothing about the path, so that no address ever becomes one.
type Place string

// A Life is how the process of a run does.
type Life uint8

// The lives.
const (
	Ended   Life = iota // it said that it ended
	Working             // it is alive
	Dead                // it ended and did not say so: killed, or lost with the machine
)

// An Archive is the records that the pages show. Its methods may be called
// concurrently and write nothing.
type Archive interface {
	// List is what the first page shows.
	List(ctx context.Context) (Listing, error)
	// Shelf is the runs of one place that are older than the run before, which
	// may be "", the newest first.
	Shelf(ctx context.Context, place Place, before string) (Shelf, error)
	// Run is the record of one run. It is ErrNone when there is none.
	Run(ctx context.Context, place Place, run string) (Run, error)
	// Batch is a batch as it stands. It is ErrNone when there is none.
	Batch(ctx context.Context, place Place) (Batch, error)
}

// A Listing is what there is.
type Listing struct {
	Shelves []Shelf // the repository of the operator first
	Batches []BatchLine
	Notices []string // what could not be read
}

// A Shelf is some runs of one place, the newest first.
type Shelf struct {
	Place   Place
	Title   string // path of the repository or of the batch
	Runs    []RunLine
	Older   string // the run before which there are more; "" when there are none
	Notices []string
}

// A RunLine is one run in a list.
type RunLine struct {
	view.Summary
	Foreign bool // its record came with the repository
}

// A BatchLine is one batch in a list.
type BatchLine struct {
	Place     Place
	Directory string
	State     string // one line: how far it has come
	Working   bool
	Fault     string // why it could not be read
}

// A Run is the record of one run with the ways to what it kept.
type Run struct {
	Doc     record.Document
	Place   Place
	Title   string // of its place
	Foreign bool
	Batch   bool // its place is that of a batch

	// Life is how its process does now.
	Life func() Life
	// Events opens the lines of its events.
	Events func() (*os.File, error)
	// Blobs opens the contents of its files.
	Blobs func() (compare.Blobs, error)
	// Log is the end of what a candidate's agent printed, at most limit bytes.
	Log func(candidate int, limit int64) (text []byte, cut bool, err error)
}

// A Batch is a batch as it stands.
type Batch struct {
	Place     Place
	Directory string
	Process   int // that works on it; 0 for none
	State     string
	Spend     string // what was used, in words; "" when nothing is known
	Tasks     iter.Seq[BatchTask]
	Count     int // of tasks

	// Compare puts the tasks against their candidates.
	Compare func() (compare.Batch, error)
	// Numbers makes the report of what is recorded.
	Numbers func() (report.Report, error)
}

// A BatchTask is one task of a batch.
type BatchTask struct {
	ID     string
	State  string
	Run    string // "" when none was begun
	Winner int    // 0 for none
	Reason string
}

// An Adopter changes the operator's tree as `bestof adopt` does.
type Adopter interface {
	// Propose says what adopting a candidate would write, and tries it without
	// writing.
	Propose(ctx context.Context, place Place, run string, candidate int) (Proposal, error)
	// Adopt does what was proposed, or refuses, and says in one line what was
	// done.
	Adopt(ctx context.Context, p Proposal, branch bool) (done string, err error)
}

// A Proposal is what adopting a candidate would do.
type Proposal struct {
	Place     Place
	Run       string
	Candidate int
	Tree      string // of the candidate, so that what was shown is what is adopted
	Into      string // path of the work tree
	Files     []record.FileChange
	Added     int
	Deleted   int
	Branch    string // the name that a new branch would have

	// Why the command refuses, in its words; "" when it would not.
	Refusal, BranchRefusal string
}

// Options is what a Server needs.
type Options struct {
	// Dependencies
	Archive Archive
	Adopter Adopter
	Jobs    Jobs        // nil: there are no pages of jobs
	Log     func(error) // what went wrong inside, for the operator's terminal

	// Entered is told the next address by which a browser can enter whenever
	// one was used up.
	Entered func(address string)

	// Config
	ReadOnly bool             // nothing can be changed here
	Start    string           // the path that a browser sees first; "" is /
	Location *time.Location   // of times of day; nil is UTC
	Now      func() time.Time // nil is time.Now

	poll time.Duration // between looks at events; for tests
}

// Bounds of what clients can make the server hold.
const (
	maxConnections = 128
	maxStreams     = 32
	maxHeader      = 16 << 10
	maxForm        = 64 << 10
	headerTime     = 10 * time.Second
	pageTime       = time.Minute      // to take a page
	streamTime     = 20 * time.Second // to take one message of a stream
	pollTime       = 250 * time.Millisecond
	leaveTime      = 2 * time.Second // for pages under way when the server ends
)

// A Server is the page on one port.
type Server struct {
	o       Options
	guard   *guard
	streams chan struct{}
	asked   questions
	handler http.Handler
}

// New makes the page that is reached at the loopback addresses with port.
func New(port int, o Options) *Server {
	if o.Start == "" {
		o.Start = "/"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.poll == 0 {
		o.poll = pollTime
	}
	if o.Log == nil {
		o.Log = func(error) {}
	}
	s := &Server{o: o, streams: make(chan struct{}, maxStreams)}
	s.guard = newGuard(port, o.Entered)
	s.handler = s.guard.protect(s.routes(), s.refuse)
	return s
}

// Address is by which a browser enters, once.
func (s *Server) Address() string { return s.guard.address() }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers what comes at l until the context is done, and closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTime, ReadTimeout: pageTime, WriteTimeout: pageTime, IdleTimeout: pageTime, MaxHeaderBytes: maxHeader,
		ErrorLog: quiet(),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(l, maxConnections)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := server.Shutdown(leave); err != nil {
		_ = server.Close() // who has not left by now is left
	}
	<-ended
	return nil
}
