package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A demux reads the stdout of a container from an attached connection, where
// the engine puts eight bytes before each piece: which stream, three zeros, and
// how long (big endian). What comes on stderr is the first process's own
// complaint; its beginning is kept.
// https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach
type demux struct {
	r    io.Reader
	left uint32 // of the current piece, which is stdout's
	said []byte
}

// maxSaid is how much is kept of what the first process complains about.
const maxSaid = 4 << 10

var errDemux = errors.New("the engine's stream makes no sense")

func (d *demux) Read(p []byte) (int, error) {
	for d.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(d.r, head[:]); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF // an engine that is gone
			}
			return 0, err
		}
		n := binary.BigEndian.Uint32(head[4:])
		switch head[0] {
		case 1:
			d.left = n
		case 2:
			if err := d.complaint(int64(n)); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("%w: stream %d", errDemux, head[0])
		}
	}
	n, err := d.r.Read(p[:min(len(p), int(min(d.left, 1<<20)))])
	d.left -= uint32(n)
	return n, err
}

func (d *demux) complaint(n int64) error {
	kept := min(n, int64(maxSaid-len(d.said)))
	buf := make([]byte, kept)
	m, err := io.ReadFull(d.r, buf)
	d.said = append(d.said, buf[:m]...)
	if err == nil {
		_, err = io.CopyN(io.Discard, d.r, n-kept)
	}
	return err
}
