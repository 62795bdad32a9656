package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

// A site is a repository with its records, and the operator's store.
type site struct {
	home    string // $BESTOF_HOME
	scratch string
	repo    *worktree.Repository
	records *record.Store
	store   *worktree.Store
	hidden  []string // more that no candidate may see
	inBatch bool     // one run of many: what its winner writes as a tool waits in its record
}

func (s *site) Close() error { return s.records.Close() }

// open opens the repository that the command is about and first puts right
// what a killed orchestrator left: its runs are marked interrupted, its
// processes ended, its shadows removed, and a half-done adoption undone.
func (a *app) open(ctx context.Context) (*site, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	repo, err := worktree.Open(ctx, a.dir)
	if err != nil {
		return nil, usageError{err}
	}
	records, err := record.Open(repo.Root(), filepath.Join(home, "runs"))
	if err != nil {
		return nil, statusError{orchestrator.ExitInfrastructure, err}
	}
	store, scratch, err := a.store(home, repo.Root())
	if err != nil {
		records.Close()
		return nil, err
	}
	s := &site{home: home, scratch: scratch, repo: repo, records: records, store: store}
	if err := a.settle(ctx, s); err != nil {
		records.Close()
		return nil, err
	}
	return s, nil
}

// settle puts right what was abandoned.
func (a *app) settle(ctx context.Context, s *site) error {
	abandoned, err := s.records.Abandoned()
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	for _, doc := range abandoned {
		if err := reap(doc, s.store.RunDir(doc.Run)); err != nil {
			return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("end what run %s left running: %w", doc.Run, err)}
		}
		doc.Interrupt()
		for i := range doc.Candidates {
			doc.Candidates[i].Processes = nil
		}
		a.warn("run %s was interrupted: nothing was adopted; run it again", doc.Run)
		if err := s.records.Update(doc); err != nil {
			// Whoever reads the record sees all the same that its owner is dead.
			a.warn("that could not be written down: %v", err)
		}
	}
	if inContainers(abandoned) {
		if _, err := a.reapContainers(ctx, false); err != nil {
			a.warn("containers were not removed (`bestof gc` removes them): %v", err)
		}
	}
	if len(abandoned) > 0 {
		// Its shadows go too. A failure here costs disk, not correctness.
		if _, err := s.store.GC(ctx, worktree.GCOptions{Now: time.Now(), Sweep: a.sweepLayers}); err != nil {
			a.warn("clean-up was not finished (`bestof gc` finishes it): %v", err)
		}
	}
	return a.recoverAdoption(ctx, s)
}

// recoverAdoption undoes an adoption that was interrupted, in the tree and in
// the record.
func (a *app) recoverAdoption(ctx context.Context, s *site) error {
	undone, err := s.repo.Recover(ctx, s.journal())
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("undo an adoption that was interrupted: %w", err)}
	}
	for _, line := range undone.Done {
		a.warn("%s", line)
	}
	if undone.Run == "" {
		return nil
	}
	doc, err := s.records.Load(undone.Run)
	if err == nil && doc.Adopted != nil {
		doc.Adopted = nil
		err = s.records.Update(doc)
	}
	if err != nil {
		a.warn("run %s: that nothing is adopted could not be written down: %v", undone.Run, err)
	}
	return nil
}

// journal is where adoptions into this work tree write down what they do. It
// is the operator's: a repository could bring one of its own.
func (s *site) journal() string {
	name := sha256.Sum256([]byte(s.repo.Root()))
	return filepath.Join(s.home, "adopting", hex.EncodeToString(name[:8]))
}

// objects opens what the record of a run keeps of its candidates' trees.
func (s *site) objects(doc record.Document) (*worktree.Objects, error) {
	o, err := worktree.OpenObjects(orchestrator.ObjectsDir(s.records.Path(doc.Run)))
	if err != nil {
		return nil, statusError{orchestrator.ExitInfrastructure, fmt.Errorf("run %s: what the record kept cannot be read: %w", doc.Run, err)}
	}
	return o, nil
}

// load reads a run that will be acted on, so it must be the operator's own.
func (s *site) load(name string) (record.Document, error) {
	doc, err := s.records.Load(name)
	if err == nil && !s.records.Own(doc.Run) {
		err = refusedf("run %s: %w: look at it with `bestof show`, but start a run of your own", doc.Run, record.ErrForeign)
	}
	return doc, err
}

// reap ends the processes that an abandoned run left.
func reap(doc record.Document, dir string) error {
	for _, c := range doc.Candidates {
		for _, p := range c.Processes {
			if _, err := proc.Reap(p); err != nil {
				return err
			}
		}
	}
	_, err := proc.ReapBelow(dir)
	return err
}
