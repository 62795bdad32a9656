package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// maxProposed bounds what may wait in pending before models' proposals are
// turned away: an operator reads each of them.
const maxProposed = 64

// A Proposed says what Propose did.
type Proposed struct {
	Tool    Tool
	Already bool // that very file was pending before
}

// Propose writes what somebody else checked out of a model's hands into
// pending: those bytes, looked at once more, and never over another file that
// waits there. Both views of where it goes have to agree that it is pending.
func (z *Zones) Propose(ctx context.Context, name Name, b []byte) (Proposed, error) {
	t, err := z.check(ctx, name, b)
	if err != nil {
		return Proposed{}, err
	}
	t.Path = z.Path(Pending, name)
	unlock, err := z.lock(ctx)
	if err != nil {
		return Proposed{}, err
	}
	defer unlock()
	root, err := z.makeRoot(Pending)
	if err != nil {
		return Proposed{}, err
	}
	defer root.Close()
	if err := z.mayWrite(t.Path); err != nil {
		return Proposed{}, err
	}
	if err := z.replaceable(root, name); err != nil {
		return Proposed{}, err
	}
	switch old, err := z.read(root, Pending, name); {
	case errors.Is(err, fs.ErrNotExist):
		if n := len(z.Names(Pending)); n >= maxProposed {
			return Proposed{}, refuse(name, "%d files wait in %s already: approve some or take them away with `bestof tool delete NAME --pending`", n, filepath.Dir(t.Path))
		}
	case err != nil:
		return Proposed{}, fmt.Errorf("%s: %w", t.Path, err)
	case old.SHA256 == t.SHA256:
		return Proposed{Tool: t, Already: true}, nil
	default:
		return Proposed{}, refuse(name, "another file waits in %s (sha256:%s), and stays", t.Path, old.SHA256.Short())
	}
	if err := install(root, name.File(), t.Bytes); err != nil {
		return Proposed{}, fmt.Errorf("write %s: %w", t.Path, err)
	}
	return Proposed{Tool: t}, nil
}

// mayWrite holds a path against the provenance of writes.
func (z *Zones) mayWrite(path string) error {
	grounds, err := z.Grounds()
	if err != nil {
		return err
	}
	target, err := Look(path, "/", "")
	if err != nil {
		return err
	}
	return grounds.MayWrite(target)
}
