package app

import (
	"fmt"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree/patch"
)

// recordedDiff shows a candidate's change from its recorded patch, where the
// objects cannot be read; gone says why not. The patch is read strictly
// before any of it is printed.
func (a *app) recordedDiff(s *site, doc record.Document, o diffOptions, from, to int, gone error) error {
	if from != 0 || to == 0 {
		return gone
	}
	id := candidate.Number(to).ID()
	b, err := s.records.ReadFile(doc.Run, "candidates/"+id+"/change.patch", patch.MaxBytes)
	if err != nil {
		return gone
	}
	unreadable := func(err error) error {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("run %s: its objects are gone, and the recorded patch of %s cannot be shown: %w", doc.Run, id, err)}
	}
	files, err := patch.Read(b)
	if err != nil {
		return unreadable(err)
	}
	asPatch := o.patch || !a.streams().OutLook().Terminal
	switch {
	case o.tool != untold:
		return unreadable(fmt.Errorf("it has not the whole files, which a tool needs: use --stat, --name-only or --patch"))
	case o.renames:
		return unreadable(fmt.Errorf("renames are found in the objects: leave --renames away"))
	case a.json:
		c, err := candidateOf(doc, to)
		if err != nil {
			return err
		}
		return a.printJSON(c.Change)
	case o.nameOnly || o.stat:
		a.warn("run %s: its objects are gone; this is from the recorded patch", doc.Run)
		return a.printFiles(listedPatch(files), o.stat)
	case o.sideBySide || !asPatch:
		return unreadable(fmt.Errorf("it has not the whole files: use --stat, --name-only or --patch"))
	}
	_, err = a.Out.Write(b)
	return err
}

// listedPatch joins the two parts by which a patch makes a file a link, or a
// link a file.
func listedPatch(files []patch.File) []listedFile {
	var out []listedFile
	for i, f := range files {
		l := listedFile{path: f.Path(), status: f.Status(), similarity: f.Similarity, binary: f.Binary != nil, added: f.Added, deleted: f.Deleted}
		if f.Old != "" && f.New != "" && f.Old != f.New {
			l.from = f.Old
		}
		if n := len(out); i > 0 && f.Old == "" && files[i-1].New == "" && files[i-1].Old == f.New {
			out[n-1].status, out[n-1].added, out[n-1].binary = "type", l.added, out[n-1].binary || l.binary
			continue
		}
		out = append(out, l)
	}
	return out
}
