package gitexec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// ErrMissing means that a repository does not hold an object.
var ErrMissing = errors.New("object is missing")

// Blobs reads blobs of at most max bytes through one git process and hands
// each to f, in the order of ids. It stops at the first error.
func (g *Git) Blobs(ctx context.Context, ids []string, max int64, f func(i int, data []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr, pw, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("git cat-file: %w", err)
	}
	defer pr.Close()
	done := make(chan error, 1)
	go func() {
		err := g.Stream(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), pw, "cat-file", "--batch", "--buffer")
		pw.Close()
		done <- err
	}()
	out := bufio.NewReaderSize(pr, 1<<18)
	for i := 0; i < len(ids) && err == nil; i++ {
		var data []byte
		if data, err = readBlob(out, ids[i], max); err == nil {
			err = f(i, data)
		}
	}
	if err != nil {
		cancel()
	}
	gerr := <-done
	if err == nil || errors.Is(err, io.EOF) && Code(gerr) > 0 {
		return gerr
	}
	return err
}

func readBlob(out *bufio.Reader, id string, max int64) ([]byte, error) {
	line, err := out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	fields := strings.Fields(line)
	if len(fields) == 2 && fields[1] == "missing" {
		return nil, fmt.Errorf("%s: %w", id, ErrMissing)
	}
	if len(fields) != 3 || fields[0] != id || fields[1] != "blob" {
		return nil, fmt.Errorf("git cat-file: %q is not the head of a blob", line)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size > max {
		return nil, fmt.Errorf("git cat-file: %s: %s bytes are too many", id, fields[2])
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(out, data); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return data[:size], nil
}
