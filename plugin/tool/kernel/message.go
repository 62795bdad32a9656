package kernel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/term"
)

// What a driver is asked to do.
const (
	doBegin  = "begin"  // a load: forget what an earlier one left
	doLoad   = "load"   // import one file
	doCommit = "commit" // what was imported is the registry
	doCall   = "call"
)

// A request is one message to the driver.
type request struct {
	ID     uint64 `json:"id"`
	Do     string `json:"do"`
	Name   string `json:"name,omitempty"`
	Path   string `json:"path,omitempty"`
	Source []byte `json:"source,omitempty"`
	Args   string `json:"args,omitempty"`
}

// A reply is the driver's answer to the request with its id; 0 is its first
// word.
type reply struct {
	ID      uint64  `json:"id"`
	Skip    string  `json:"skip"`
	Text    string  `json:"text"`
	Error   *string `json:"error"`
	Printed string  `json:"printed"`
}

const (
	maxRequest = 8 << 20 // as in driver.py
	maxReply   = 4 << 20 // a result and what was printed, with every byte escaped
	maxStale   = 16      // messages that nobody asked for, before the one that is waited for
)

var (
	errTooLong   = errors.New("a message is too long")
	errNotAReply = errors.New("a message is no answer")
)

// appendRequest writes the message of a request.
func appendRequest(b []byte, q request) ([]byte, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if len(body) > maxRequest {
		return nil, fmt.Errorf("%w: %d bytes", errTooLong, len(body))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...), nil
}

// readReply reads one message. It is written by a process in which tools run,
// so everything in it is only said.
func readReply(r io.Reader) (reply, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return reply{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxReply {
		return reply{}, fmt.Errorf("%w: %d bytes", errTooLong, n)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return reply{}, err
	}
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	var got reply
	if err := d.Decode(&got); err != nil {
		return reply{}, fmt.Errorf("%w: %s", errNotAReply, term.Clean(err.Error(), 200))
	}
	if _, err := d.Token(); err != io.EOF {
		return reply{}, errNotAReply
	}
	got.Skip = term.Clean(got.Skip, maxSkip).String()
	return got, nil
}

// maxSkip is how many characters of a reason are kept.
const maxSkip = 500

// A lostError says that the process is gone, and why.
type lostError struct {
	how     string // completes "it …": "exited with status 3"
	timeout time.Duration
}

func (e *lostError) Error() string {
	if e.timeout > 0 {
		return fmt.Sprintf("it did not end within %s, so the kernel was killed", e.timeout)
	}
	return "the kernel " + e.how
}

// file is the reason to leave out the file during whose import it happened.
func (e *lostError) file() string {
	if e.timeout > 0 {
		return fmt.Sprintf("its import did not end within %s", e.timeout)
	}
	return "while it was imported the kernel " + e.how
}

// ask sends a request and hears its answer. When it fails the process is gone;
// a *lostError says that it was not ctx which ended it.
func (k *Kernel) ask(ctx context.Context, q request, limit time.Duration) (reply, error) {
	k.id++
	q.ID = k.id
	b, err := appendRequest(nil, q)
	if err != nil {
		return reply{}, err
	}
	return k.hear(ctx, b, limit)
}

// hear writes a message, if there is one, and reads the answer to the last
// request.
func (k *Kernel) hear(ctx context.Context, message []byte, limit time.Duration) (reply, error) {
	type heard struct {
		reply reply
		err   error
	}
	p, id, got := k.process, k.id, make(chan heard, 1)
	go func() {
		var h heard
		if _, h.err = p.Write(message); h.err == nil {
			h.reply, h.err = awaitReply(p, id)
		}
		got <- h
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case h := <-got:
		return k.understood(h.reply, h.err)
	case <-timer.C:
		k.end()
		return reply{}, &lostError{timeout: limit}
	case <-ctx.Done():
	}
	select {
	case h := <-got: // the answer came first
		return k.understood(h.reply, h.err)
	default:
		k.end()
		return reply{}, context.Cause(ctx)
	}
}

func (k *Kernel) understood(r reply, err error) (reply, error) {
	if err == nil {
		return r, nil
	}
	if !errors.Is(err, errTooLong) && !errors.Is(err, errNotAReply) {
		k.lastMoment()
	}
	how := k.end()
	if errors.Is(err, errTooLong) || errors.Is(err, errNotAReply) {
		how = "broke the rules of its private descriptor and was killed: " + err.Error()
	}
	return reply{}, &lostError{how: how}
}

// lastMoment lets a process end by itself that closed its private descriptor:
// how it ends says more than that it was killed.
func (k *Kernel) lastMoment() {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-k.process.Done():
	case <-timer.C:
	}
}

// awaitReply skips what a tool, or an earlier call that it forged, left over.
func awaitReply(r io.Reader, id uint64) (reply, error) {
	for range maxStale {
		got, err := readReply(r)
		if err != nil || got.ID == id {
			return got, err
		}
		if got.ID > id {
			return reply{}, fmt.Errorf("%w: it answers what was not asked", errNotAReply)
		}
	}
	return reply{}, fmt.Errorf("%w: it goes on and on", errNotAReply)
}

// lastWords are the last line of what a process said before it could speak, for
// people.
func lastWords(stderr []byte) string {
	s := bufio.NewScanner(bytes.NewReader(stderr))
	last := ""
	for s.Scan() {
		if line := strings.TrimSpace(s.Text()); line != "" && utf8.ValidString(line) {
			last = line
		}
	}
	return term.Clean(last, 300).String()
}
