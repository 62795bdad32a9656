package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// ErrHeld means that somebody else works on the repository.
var ErrHeld = errors.New("somebody else works on the repository")

// Two locks say to other processes, whatever their home, who works on a
// repository. Both are the kernel's, on directories that every repository has: no
// file is left, and they end with the process.
//
//	jobs   <common git dir>/objects   who runs a job on it: one at a time
//	tree   <common git dir>           those who are about to adopt share it; a
//	                                  job's adoption has it alone

// CommonDir is the repository's git directory, which its work trees share.
func (r *Repository) CommonDir() string { return r.commonDir }

// BranchCommit is the commit of a branch, "" when there is none.
func (r *Repository) BranchCommit(ctx context.Context, name string) (string, error) {
	commit, err := r.git.Line(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+name+"^{commit}")
	if gitexec.Code(err) == 1 {
		return "", nil
	}
	return commit, err
}

// HoldJobs is the right to run a job on the repository whose common git
// directory is dir, until release. The error is ErrHeld while another process runs
// one, or works on the repository to adopt into it.
func HoldJobs(dir string) (release func(), err error) {
	release, err = holdDir(filepath.Join(dir, "objects"), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	people, err := holdDir(dir, unix.LOCK_EX)
	if err != nil {
		release()
		return nil, err
	}
	people() // it only had to be free
	return release, nil
}

// between is how long who found a lock held waits before it looks again.
const between = 100 * time.Millisecond

// HoldTree says that somebody is about to adopt into the repository, until
// release: a job's adoption is alone in that, others share it. When it is held, it
// first calls waits, once; that may be nil.
func (r *Repository) HoldTree(ctx context.Context, alone bool, waits func()) (release func(), err error) {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	var tick *time.Ticker
	for {
		release, err := holdDir(r.commonDir, how)
		if !errors.Is(err, ErrHeld) {
			return release, err
		}
		if tick == nil {
			tick = time.NewTicker(between)
			defer tick.Stop()
			if waits != nil {
				waits()
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// holdDir locks a directory. Where a file system has no such locks nobody is kept
// from anything.
func holdDir(dir string, how int) (release func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("hold the repository: %w", err)
	}
	switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		f.Close()
		return nil, ErrHeld
	case err != nil:
		f.Close()
		return func() {}, nil
	}
	return func() {
		// Closing alone would wait for a fork that is on its way to its exec.
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		_ = f.Close()
	}, nil
}
