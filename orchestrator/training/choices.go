// Package training trains models on what became of earlier choices, promotes
// those that are better than what needs no model, and asks the promoted one
// about candidates whom the rule ranks equal. What decides is in tiebreak;
// here are the records, the trainer's process and the files.
package training

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/tiebreak"
	"github.com/bestof-dev/bestof/worktree"
)

// maxCompared bounds a file, in bytes, whose content tells whether a change is
// still there.
const maxCompared = 16 << 20

// maxPatch bounds a patch in a row, in bytes.
const maxPatch = 64 << 10

// Choices reads all own runs that a ledger notes and that were adopted, oldest
// first by repository, and looks at what became of them. With patches they hold
// what candidates changed. notices name repositories that could not be read.
func Choices(ctx context.Context, ledger string, patches bool) (choices []tiebreak.Choice, notices []string, err error) {
	noted, err := record.Ledger(ledger)
	if err != nil {
		return nil, nil, fmt.Errorf("read the ledger of runs: %w", err)
	}
	for _, top := range slices.Sorted(maps.Keys(noted)) {
		if err := ctx.Err(); err != nil {
			return nil, nil, context.Cause(ctx)
		}
		of, err := choicesIn(ctx, top, ledger, noted[top], patches)
		if err != nil {
			notices = append(notices, fmt.Sprintf("the choices in %s are left out: %v", top, err))
			continue
		}
		choices = append(choices, of...)
	}
	return choices, notices, nil
}

func choicesIn(ctx context.Context, top, ledger string, ids []string, patches bool) ([]tiebreak.Choice, error) {
	records, err := record.Open(top, ledger)
	if err != nil {
		return nil, err
	}
	defer records.Close()
	var repo *worktree.Repository
	var out []tiebreak.Choice
	for _, id := range ids {
		doc, err := records.Load(id)
		if err != nil || doc.Phase != record.Finished || doc.Adopted == nil {
			continue // removed since, or nobody chose
		}
		if repo == nil {
			if repo, err = worktree.Open(ctx, top); err != nil {
				return nil, err
			}
		}
		c := tiebreak.Choice{Document: doc, Equal: orchestrator.Equal(doc), Fate: fate(ctx, repo, doc)}
		if patches {
			c.Patches = map[int]string{}
			for _, k := range doc.Candidates {
				if k.Change != nil {
					// One that is too large or gone is a row without it.
					b, _ := records.ReadFile(doc.Run, k.Change.Patch, maxPatch)
					c.Patches[k.Number] = string(b)
				}
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// fate looks at the work tree for what a run's adoption wrote. A change on a
// branch counts once the branch is part of what is checked out.
func fate(ctx context.Context, repo *worktree.Repository, doc record.Document) tiebreak.Fate {
	i := slices.IndexFunc(doc.Candidates, func(c record.Candidate) bool { return c.Number == doc.Adopted.Candidate })
	if i < 0 || doc.Candidates[i].Change == nil || candidate.Number(doc.Candidates[i].Number) < 1 {
		return tiebreak.Unknown
	}
	var files []worktree.FileChange
	for _, f := range doc.Candidates[i].Change.Files {
		files = append(files, worktree.FileChange{Path: string(f.Path), Old: f.Old, New: f.New})
	}
	m, err := repo.Remains(files, maxCompared)
	if err != nil || len(files) == 0 {
		return tiebreak.Unknown
	}
	if doc.Adopted.Mode == string(worktree.AdoptBranch) {
		if merged, err := repo.Includes(ctx, doc.Adopted.Commit); m.New == 0 && (err != nil || !merged) {
			return tiebreak.Unknown
		}
	}
	if m.Old == len(files) {
		return tiebreak.Reverted
	}
	return tiebreak.Kept
}
