package app

import (
	"context"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/web"
	"github.com/bestof-dev/bestof/worktree"
)

// at is the program as if it had been started in the repository of a place.
func (c *archive) at(place web.Place) (*app, error) {
	s, err := c.find(place)
	if err != nil {
		return nil, err
	}
	if s.batch {
		return nil, usagef("the runs of a batch are not adopted: bestof batch export has their patches")
	}
	there := *c.a
	there.dir = s.path
	return &there, nil
}

// Propose looks at what `bestof adopt RUN CANDIDATE` would do.
func (c *archive) Propose(ctx context.Context, place web.Place, run string, number int) (web.Proposal, error) {
	a, err := c.at(place)
	if err != nil {
		return web.Proposal{}, err
	}
	s, err := a.open(ctx)
	if err != nil {
		return web.Proposal{}, err
	}
	defer s.Close()
	doc, err := s.load(run)
	if err != nil {
		return web.Proposal{}, err
	}
	recorded, err := candidateOf(doc, number)
	if err != nil {
		return web.Proposal{}, err
	}
	p := web.Proposal{Place: place, Run: doc.Run, Candidate: number, Into: s.repo.Root(), Branch: "bestof/" + doc.Run}
	if recorded.Change != nil {
		p.Tree, p.Files, p.Added, p.Deleted = recorded.Change.Tree, recorded.Change.Files, recorded.Change.Added, recorded.Change.Deleted
	}
	if _, _, err := a.adoptable(ctx, s, doc, []string{candidate.Number(number).ID()}, ""); err != nil {
		p.Refusal, p.BranchRefusal = err.Error(), err.Error()
		return p, nil
	}
	_, change, err := between(ctx, s, doc, 0, number)
	if err != nil {
		return web.Proposal{}, err
	}
	if err := s.repo.TryAdopt(ctx, change); err != nil {
		p.Refusal = adoptRefused(doc, number, adoptMode{mode: worktree.AdoptApply}, doc.Adopted, err).Error()
	}
	if err := a.canBranch(ctx, s, "", doc.Run); err != nil {
		p.BranchRefusal = err.Error()
	}
	return p, nil
}

// Adopt is `bestof adopt RUN CANDIDATE [--branch]` for a proposal that was
// confirmed.
func (c *archive) Adopt(ctx context.Context, p web.Proposal, branch bool) (string, error) {
	a, err := c.at(p.Place)
	if err != nil {
		return "", err
	}
	s, err := a.open(ctx)
	if err != nil {
		return "", err
	}
	defer s.Close()
	doc, err := s.load(p.Run)
	if err != nil {
		return "", err
	}
	recorded, err := candidateOf(doc, p.Candidate)
	if err != nil {
		return "", err
	}
	if recorded.Change == nil || recorded.Change.Tree != p.Tree {
		return "", refusedf("run %s: the record of %s is not the one that was shown: nothing was written", doc.Run, candidate.Number(p.Candidate).ID())
	}
	mode := adoptMode{mode: worktree.AdoptApply}
	if branch {
		mode = adoptMode{mode: worktree.AdoptBranch}
	}
	if doc, err = a.adopt(ctx, s, doc, []string{candidate.Number(p.Candidate).ID()}, mode, ""); err != nil {
		return "", err
	}
	return adoptedWords(doc), nil
}
