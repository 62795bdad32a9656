package worktree

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// locate notes which files the pack has; it may be nil.
func (src *source) locate(p *pack) {
	if src.pack = p; p == nil {
		return
	}
	for i := range src.files {
		if off, ok := p.index.find(src.files[i].id); ok {
			src.files[i].packed = off
		}
	}
}

// A located file is where a pack has the content of a file, one of a list.
type located struct {
	file int
	off  int64
}

// each reads files from the pack in the order in which it has them, so that
// differences are near what they are taken from, and hands them to f a group
// at a time, from a few goroutines. Contents hold until f returns.
func (p *pack) each(ctx context.Context, files []located, f func(at []int, data [][]byte) error) error {
	slices.SortFunc(files, func(a, b located) int { return cmp.Compare(a.off, b.off) })
	in, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	readers := make(chan *packGroup, workers)
	for range workers {
		r := newPackReader(p.index, in, st.Size())
		r.bases = make(map[int64]packedObject)
		readers <- &packGroup{reader: r}
	}
	return parallel(workers, (len(files)+groupFiles-1)/groupFiles, func(n int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		g := <-readers
		defer func() { readers <- g }()
		rest := files[n*groupFiles : min(len(files), (n+1)*groupFiles)]
		for len(rest) > 0 {
			count, err := g.read(rest)
			if err == nil {
				err = f(g.at, g.data)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p.path, err)
			}
			rest = rest[count:]
		}
		return nil
	})
}

// A packGroup holds what was read of some files, one behind the other.
type packGroup struct {
	reader *packReader
	room   []byte
	at     []int
	data   [][]byte
}

// read reads the first of the files, not too many bytes of them, and returns
// how many.
func (g *packGroup) read(files []located) (int, error) {
	// The last one may end behind the part that is read ahead.
	if from, to := files[0].off, files[len(files)-1].off; to-from < groupBytes {
		if err := g.reader.load(from, to+maxAhead); err != nil {
			return 0, err
		}
	}
	g.at, g.data = g.at[:0], g.data[:0]
	room := g.room[:0]
	for bytes := 0; len(g.at) < len(files) && bytes < groupBytes; {
		l := files[len(g.at)]
		o, err := g.reader.object(l.off, room[len(room):])
		if err != nil {
			return 0, err
		}
		if o.kind != plumbing.BlobObject {
			return 0, errPack
		}
		if len(o.data) > maxBaseFile {
			return 0, fmt.Errorf("%d bytes are too many", len(o.data))
		}
		if cap(room)-len(room) >= len(o.data) {
			// It is there already, unless it was a difference; then it holds its own.
			room = room[:len(room)+len(o.data)]
		}
		bytes += len(o.data)
		g.at, g.data = append(g.at, l.file), append(g.data, o.data)
	}
	if cap(g.room) < groupRoom {
		g.room = make([]byte, groupRoom)
	}
	return len(g.at), nil
}

const (
	groupRoom = 1 << 20
	maxAhead  = 16 << 10
)
