package proc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What RunContained and the first process of a container say to each other:
// frames of one byte that says what it is, four that say how long (big endian),
// and that many bytes.
const (
	// To the first process, in this order; then frameTerm at any time. The end
	// of the stream ends everything.
	frameJob   = 'j' // a piece of the job, JSON
	frameInput = 'i' // a piece of the program's stdin
	frameGo    = 'g' // run it
	frameTerm  = 't' // end the tree: TERM, grace, KILL

	// From it.
	frameHello   = 'h' // first: containVersion
	frameStdout  = 'o'
	frameStderr  = 'e'
	frameVerdict = 'v' // last: JSON
)

const (
	frameMax   = 64 << 10 // bytes of one frame
	jobMax     = 8 << 20  // bytes of a job; the kernel allows no more in arguments and environment
	headLength = 5

	// containVersion differs where the two ends would not understand each other:
	// the executable may have been replaced while it runs.
	containVersion = "bestof contain 1"
)

var errFrame = errors.New("not a frame of ours")

// A frame is what readFrame returned. Its bytes are valid until the next one.
type frame struct {
	kind byte
	data []byte
}

// A frameReader reads frames into one buffer.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, frameMax), buf: make([]byte, frameMax)}
}

// next returns io.EOF only between two frames.
func (f *frameReader) next() (frame, error) {
	var head [headLength]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it ends early", errFrame)
		}
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > frameMax {
		return frame{}, fmt.Errorf("%w: %d bytes long", errFrame, n)
	}
	if _, err := io.ReadFull(f.r, f.buf[:n]); err != nil {
		return frame{}, fmt.Errorf("%w: it ends early", errFrame)
	}
	return frame{head[0], f.buf[:n]}, nil
}

// writeFrame writes one frame in one call of Write. scratch holds a whole frame.
func writeFrame(w io.Writer, scratch []byte, kind byte, data []byte) error {
	if len(data) > frameMax {
		return fmt.Errorf("%w: %d bytes long", errFrame, len(data))
	}
	b := append(scratch[:0], kind, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(b[1:], uint32(len(data)))
	_, err := w.Write(append(b, data...))
	return err
}

// writeFrames writes data of any length as frames of one kind; none for no data.
func writeFrames(w io.Writer, kind byte, data []byte) error {
	scratch := make([]byte, 0, headLength+min(len(data), frameMax))
	for len(data) > 0 {
		n := min(len(data), frameMax)
		if err := writeFrame(w, scratch, kind, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
