// Package kernel is one persistent Python process that imports one-file tools
// and calls them. What the tools keep in it stays between calls; when a call is
// cancelled, takes too long or breaks the process, the process is killed with
// all that it started, and the next call begins a new one with the registry
// whole.
//
// The program of that process is driver.py. It speaks over a private
// descriptor (message.go), so that nothing a tool prints can be taken for an
// answer. A Starter says where it runs: Host as the operator's own Python,
// Sandboxed inside of a candidate's sandbox.
package kernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

//go:embed driver.py
var driver string

// A Source is a tool's file, as it was approved.
type Source struct {
	Name   string // its stem
	Path   string // what tracebacks and __file__ say; it is not read
	Bytes  []byte
	SHA256 string // of Bytes, in hexadecimal
}

// Loaded says what became of a file.
type Loaded struct {
	Name string
	Skip string // why it is not in the registry; "" when it is
}

// A Result is what a call gave.
type Result struct {
	Text    string // what run returned: text as it is, other values as JSON. With IsError the tail of a traceback, or what happened to the call
	Printed string // what the tool printed, kept apart
	IsError bool
}

// Limits of time. A load is one file's import.
const (
	DefaultCallTimeout = 120 * time.Second
	DefaultLoadTimeout = 30 * time.Second
	DefaultStartLimit  = 60 * time.Second
)

// A Config is all that a kernel needs. Zero durations are the defaults.
type Config struct {
	Python string   // the interpreter, "" for python3 of the PATH that the process gets
	Tools  []Source // in the order in which they are imported
	Start  Starter

	CallTimeout time.Duration // of one call, from when its turn has come
	LoadTimeout time.Duration // of one file's import
	StartLimit  time.Duration // of the process's start
}

// A Starter starts the driver with an interpreter. The context is that of the
// start; the process outlives it.
type Starter func(ctx context.Context, python string) (Process, error)

// A Process is a driver that was started. What is read and written is its
// private descriptor.
type Process interface {
	io.ReadWriter
	// Done is closed when the process and all that it started are dead.
	Done() <-chan struct{}
	// End kills it with all that it started, returns when they are dead, and
	// says in a few words how it ended: "exited with status 3". It may be
	// called more than once.
	End() string
}

// ErrClosed is the end of a kernel.
var ErrClosed = errors.New("the kernel is closed")

// A Kernel may be used concurrently: calls queue, and who waits can be
// cancelled.
type Kernel struct {
	c    Config
	turn chan struct{} // holds one: who is in it owns what follows

	registry []Source          // what the last load was given
	skipped  map[string]string // why some of it is not there
	process  Process           // nil when there is none
	id       uint64            // of the last request

	over  context.Context
	close context.CancelCauseFunc
	once  sync.Once
}

// New is a kernel without a process: the first Load or Call starts it, if there
// are tools at all.
func New(c Config) *Kernel {
	c.Python = cmp.Or(c.Python, "python3")
	c.CallTimeout = cmp.Or(c.CallTimeout, DefaultCallTimeout)
	c.LoadTimeout = cmp.Or(c.LoadTimeout, DefaultLoadTimeout)
	c.StartLimit = cmp.Or(c.StartLimit, DefaultStartLimit)
	k := &Kernel{c: c, turn: make(chan struct{}, 1), registry: c.Tools, skipped: map[string]string{}}
	k.over, k.close = context.WithCancelCause(context.Background())
	return k
}

// enter waits for the turn. leave has to be called.
func (k *Kernel) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	case <-k.over.Done():
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(k.over, func() { cancel(ErrClosed) })
	leave = func() {
		stop()
		cancel(nil)
		<-k.turn
	}
	if ctx.Err() != nil {
		leave()
		return nil, nil, context.Cause(ctx)
	}
	return ctx, leave, nil
}

// Load imports the tools and says for each, in order, what became of it. An
// error means that no kernel could be had; what was loaded before stays.
func (k *Kernel) Load(ctx context.Context) ([]Loaded, error) { return k.Reload(ctx, k.c.Tools) }

// Reload puts other tools in the place of those that were loaded, once all of
// them were tried.
func (k *Kernel) Reload(ctx context.Context, tools []Source) ([]Loaded, error) {
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	skipped := map[string]string{}
	if len(tools) > 0 || k.process != nil {
		if skipped, err = k.install(ctx, tools); err != nil {
			return nil, err
		}
	}
	k.registry, k.skipped = slices.Clone(tools), skipped
	all := make([]Loaded, 0, len(tools))
	for _, t := range tools {
		all = append(all, Loaded{Name: t.Name, Skip: skipped[t.Name]})
	}
	return all, nil
}

// Call calls a tool of the registry with one JSON object. The result tells a
// tool that failed; an error means that the call was not made, or that ctx
// ended it.
func (k *Kernel) Call(ctx context.Context, name string, args json.RawMessage) (Result, error) {
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	if !slices.ContainsFunc(k.registry, func(s Source) bool { return s.Name == name }) {
		return Result{}, fmt.Errorf("there is no tool %q", name)
	}
	if err := k.ready(ctx); err != nil {
		return Result{}, err
	}
	if why := k.skipped[name]; why != "" {
		return failed("the tool is not loaded: %s", why), nil
	}
	r, err := k.ask(ctx, request{Do: doCall, Name: name, Args: string(args)}, k.c.CallTimeout)
	var lost *lostError
	switch {
	case errors.As(err, &lost):
		return failed("%v; what tools kept in the kernel is gone, and the next call starts a new one", lost), nil
	case err != nil:
		return Result{}, err
	case r.Error != nil:
		return Result{Text: *r.Error, Printed: r.Printed, IsError: true}, nil
	}
	return Result{Text: r.Text, Printed: r.Printed}, nil
}

func failed(format string, args ...any) Result {
	return Result{Text: fmt.Sprintf(format, args...), IsError: true}
}

// Close kills the process, with the call that may be under way, and returns
// when it is dead.
func (k *Kernel) Close() {
	k.close(ErrClosed)
	k.once.Do(func() {
		k.turn <- struct{}{}
		k.end()
		<-k.turn
	})
}

// ready has a process with the registry in it.
func (k *Kernel) ready(ctx context.Context) error {
	if k.alive() {
		return nil
	}
	skipped, err := k.install(ctx, k.registry)
	if err == nil {
		k.skipped = skipped
	}
	return err
}

// alive reports whether there is a process; what is left of a dead one goes.
func (k *Kernel) alive() bool {
	if k.process == nil {
		return false
	}
	select {
	case <-k.process.Done():
		k.end()
		return false
	default:
		return true
	}
}

func (k *Kernel) end() (how string) {
	if k.process != nil {
		how = k.process.End()
		k.process = nil
	}
	return how
}

// install imports tools beside what is live and then puts them in its place. A
// file that costs the process is left out, and the others are imported again.
func (k *Kernel) install(ctx context.Context, tools []Source) (skipped map[string]string, err error) {
	skipped = map[string]string{}
	for range len(tools) + 1 {
		killer, err := k.importAll(ctx, tools, skipped)
		var lost *lostError
		switch {
		case err == nil:
			return skipped, nil
		case !errors.As(err, &lost):
			return nil, err
		case killer == "":
			return nil, fmt.Errorf("load the tools: %w", err)
		}
		skipped[killer] = lost.file()
	}
	return nil, errors.New("load the tools: the kernel ends again and again")
}

// importAll names the file during whose import the process was lost.
func (k *Kernel) importAll(ctx context.Context, tools []Source, skipped map[string]string) (killer string, err error) {
	if !k.alive() {
		if err := k.start(ctx); err != nil {
			return "", err
		}
	}
	if _, err := k.ask(ctx, request{Do: doBegin}, k.c.LoadTimeout); err != nil {
		return "", err
	}
	for _, t := range tools {
		if skipped[t.Name] == "" && t.SHA256 != "" && t.SHA256 != hashOf(t.Bytes) {
			skipped[t.Name] = "its bytes are not those that were approved"
		}
		if skipped[t.Name] != "" {
			continue
		}
		r, err := k.ask(ctx, request{Do: doLoad, Name: t.Name, Path: t.Path, Source: t.Bytes}, k.c.LoadTimeout)
		if err != nil {
			return t.Name, err
		}
		if r.Skip != "" {
			skipped[t.Name] = r.Skip
		}
	}
	_, err = k.ask(ctx, request{Do: doCommit}, k.c.LoadTimeout)
	return "", err
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// start starts a process and waits for its first word.
func (k *Kernel) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, k.c.StartLimit, fmt.Errorf("it did not start within %s", k.c.StartLimit))
	defer cancel()
	p, err := k.c.Start(ctx, k.c.Python)
	if err != nil {
		return fmt.Errorf("start the kernel: %w", err)
	}
	k.process, k.id = p, 0
	_, err = k.hear(ctx, nil, k.c.StartLimit)
	var lost *lostError
	if errors.As(err, &lost) {
		return fmt.Errorf("start the kernel: %s %s; tools need a Python 3", k.c.Python, lost.how)
	}
	return err
}
