package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// AppendEvent appends a message of one line as a server-sent event.
func AppendEvent(dst, message []byte) []byte {
	dst = append(dst, "event: message\ndata: "...)
	dst = append(dst, message...)
	return append(dst, '\n', '\n')
}

// ErrTooLong is a message that is longer than was allowed.
var ErrTooLong = errors.New("the message is too long")

// Events gives the data of each server-sent event of r to each, until r ends.
// An event of more than max bytes is an error.
func Events(r io.Reader, max int, each func([]byte) error) error {
	lines := bufio.NewReader(r)
	var data []byte
	for {
		line, err := Line(lines, max+16)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		switch value, isData := bytes.CutPrefix(line, []byte("data:")); {
		case isData:
			value = bytes.TrimPrefix(value, []byte(" "))
			if len(data) > 0 {
				data = append(data, '\n')
			}
			if len(data)+len(value) > max {
				return fmt.Errorf("an event: %w", ErrTooLong)
			}
			data = append(data, value...)
		case len(line) == 0 && len(data) > 0 && !ended:
			if err := each(data); err != nil {
				return err
			}
			data = nil
		}
		if ended {
			return nil
		}
	}
}

// Line reads one line without its end. A line of more than max bytes is an
// error, and nothing more can be read after it. The last line comes with
// io.EOF, also when it is empty.
func Line(r *bufio.Reader, max int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > max+2 {
			return nil, fmt.Errorf("a line: %w", ErrTooLong)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		return line, err
	}
}
