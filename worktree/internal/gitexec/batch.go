package gitexec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// ErrMissing means that a repository does not hold an object.
var ErrMissing = errors.New("object is missing")

// A Batch reads many objects through one git process. It may be used
// concurrently.
type Batch struct {
	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err error
}

// Batch starts a reader of objects. Close must be called.
func (g *Git) Batch(ctx context.Context) (*Batch, error) {
	cmd := exec.CommandContext(ctx, g.path, "cat-file", "--batch")
	cmd.Dir, cmd.Env = g.dir, g.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return &Batch{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<16)}, nil
}

// Blob returns a blob of at most max bytes. One that is larger is an error
// after which the Batch cannot be used.
func (b *Batch) Blob(id string, max int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	data, err := b.blob(id, max)
	if err != nil && !errors.Is(err, ErrMissing) {
		b.err = err
	}
	return data, err
}

func (b *Batch) blob(id string, max int64) ([]byte, error) {
	if _, err := io.WriteString(b.in, id+"\n"); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	line, err := b.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	fields := strings.Fields(line)
	if len(fields) == 2 && fields[1] == "missing" {
		return nil, fmt.Errorf("%s: %w", id, ErrMissing)
	}
	if len(fields) != 3 || fields[1] != "blob" {
		return nil, fmt.Errorf("git cat-file: %q is not the head of a blob", line)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size > max {
		return nil, fmt.Errorf("git cat-file: %s: %s bytes are too many", id, fields[2])
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(b.out, data); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return data[:size], nil
}

// Close ends the process.
func (b *Batch) Close() error {
	b.in.Close()
	_, _ = io.Copy(io.Discard, b.out)
	return b.cmd.Wait()
}
