package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/internal/bytestring"
)

// helloWait is how long the first process of a container may take to say that
// it is there.
const helloWait = 60 * time.Second

// ErrContainerSilent means that the first process of a container did not do its
// part: the caller ends the container, and asks its engine what happened.
var ErrContainerSilent = errors.New("the first process of the container does not answer")

// RunContained runs the program of c in a container whose first process is an
// executable of this version with ContainArgs; in and out are its standard
// input and output. The places must be the same directories on both sides.
// Enter, Files, Report and Wrapper of the Command are not used, and Started is
// not called. Offline is not done but checked: there must be no network but a
// loopback. The time that counts is that of the program.
//
// It returns when everything in the container but its first process is dead.
// ErrSupervisorLost means that the stream ended before anything was said about
// how the program ended, and ErrContainerSilent that it would go on for ever;
// the container must then be ended by other means. The caller closes the
// streams after RunContained, or to interrupt it.
func RunContained(ctx context.Context, c Command, places []Seen, in io.Writer, out io.Reader) (Result, error) {
	c.Enter, c.Files, c.Report, c.Wrapper = nil, nil, false, false
	c, err := c.withDefaults()
	if err != nil {
		return Result{}, fmt.Errorf("run: %w", err)
	}
	encoded, err := json.Marshal(containedJob(c, places))
	if err == nil && len(encoded) > jobMax {
		return Result{End: NotRun, Reason: "its arguments and environment are too long"}, nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	t := &talk{
		command: c, job: encoded, in: in, log: &sharedLog{w: c.Log},
		hello: make(chan error, 1), sent: make(chan error, 1), ended: make(chan error, 1),
	}
	t.stdout, t.stderr = NewCapture(c.Head, c.Tail, t.log), NewCapture(c.Head, c.Tail, t.log)
	go t.listen(newFrameReader(out))
	res, err := t.run(ctx)
	if err != nil {
		return res, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	return res, nil
}

func containedJob(c Command, places []Seen) contained {
	j := contained{job: c.job(len(c.Stdin) > 0), Places: []place{}, Offline: c.Offline}
	j.Loopback = false
	for _, p := range places {
		j.Places = append(j.Places, place{bytestring.String(p.Path), p.Dev, p.Ino})
	}
	return j
}

// A talk is one conversation with the first process of a container.
type talk struct {
	command Command
	job     []byte
	in      io.Writer
	log     *sharedLog

	hello chan error // once: the first frame
	sent  chan error // once: the job is written
	ended chan error // once: there is a verdict, or will be none

	// Of listen; read after ended.
	stdout, stderr *Capture
	verdict        verdict

	writing sync.Mutex // of in
}

// listen reads everything that the first process says.
func (t *talk) listen(frames *frameReader) {
	f, err := frames.next()
	if err == nil && (f.kind != frameHello || string(f.data) != containVersion) {
		err = fmt.Errorf("%w: this program was replaced while it runs, or the image has its own idea of it", errFrame)
	}
	t.hello <- err
	for err == nil {
		if f, err = frames.next(); err != nil {
			break
		}
		switch f.kind {
		case frameStdout:
			_, _ = t.stdout.Write(f.data)
		case frameStderr:
			_, _ = t.stderr.Write(f.data)
		case frameVerdict:
			if err := json.Unmarshal(f.data, &t.verdict); err != nil {
				t.ended <- fmt.Errorf("%w: %w", errFrame, err)
			} else {
				t.ended <- nil
			}
			return
		default:
			err = fmt.Errorf("%w: %q", errFrame, f.kind)
		}
	}
	t.ended <- err
}

func (t *talk) run(ctx context.Context) (Result, error) {
	if err := t.begin(ctx); err != nil {
		if errors.Is(err, errStopped) {
			return Result{End: Stopped}, nil
		}
		return Result{}, err
	}
	began := time.Now()
	timeout := time.NewTimer(t.command.Timeout)
	defer timeout.Stop()
	res := Result{End: Exited}
	var err error
	select {
	case err = <-t.ended:
	case err = <-t.sent:
		if err != nil { // it died while it was told what to do
			err = <-t.ended
			break
		}
		select {
		case err = <-t.ended:
		case <-timeout.C:
			res.End = Deadline
		case <-ctx.Done():
			res.End = Stopped
		}
	case <-timeout.C:
		res.End = Deadline
	case <-ctx.Done():
		res.End = Stopped
	}
	if res.End != Exited {
		err = t.end()
	}
	res.Duration = time.Since(began)
	if errors.Is(err, ErrContainerSilent) {
		return res, err // listen may still write to the captures
	}
	res.Stdout, res.Stderr = t.stdout.Output(), t.stderr.Output()
	return t.settle(res, err)
}

// errStopped means that the context ended before the program began.
var errStopped = errors.New("stopped")

// begin waits for the first process and tells it what to run.
func (t *talk) begin(ctx context.Context) error {
	wait := time.NewTimer(helloWait)
	defer wait.Stop()
	select {
	case err := <-t.hello:
		if errors.Is(err, io.EOF) {
			return ErrSupervisorLost
		}
		if err != nil {
			return err
		}
	case <-wait.C:
		return ErrContainerSilent
	case <-ctx.Done():
		return errStopped
	}
	go func() {
		t.writing.Lock()
		defer t.writing.Unlock()
		t.sent <- errors.Join(writeFrames(t.in, frameJob, t.job), writeFrames(t.in, frameInput, t.command.Stdin), writeFrame(t.in, nil, frameGo, nil))
	}()
	return nil
}

// end asks for the end of the tree and waits for the verdict.
func (t *talk) end() error {
	go func() {
		t.writing.Lock()
		defer t.writing.Unlock()
		_ = writeFrame(t.in, nil, frameTerm, nil) // fails only when it is gone
	}()
	slack := time.NewTimer(t.command.Grace + supervisorSlack)
	defer slack.Stop()
	select {
	case err := <-t.ended:
		return err
	case <-slack.C:
		return ErrContainerSilent
	}
}

// settle fills in what the first process said.
func (t *talk) settle(res Result, err error) (Result, error) {
	v := t.verdict
	switch {
	case errors.Is(err, io.EOF):
		return res, ErrSupervisorLost
	case err != nil:
		return res, err
	case v.Error != "":
		return res, errors.New(v.Error)
	case v.NotRun != "":
		res.End, res.Reason = NotRun, v.NotRun
	}
	res.Code, res.Signal, res.OOM, res.OOMOutside = v.Code, v.Signal, v.OOM, v.OOMOutside
	if t.log.err != nil {
		return res, fmt.Errorf("write its log: %w", t.log.err)
	}
	return res, nil
}
