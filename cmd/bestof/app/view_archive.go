package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/cmd/bestof/web"
	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/report"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/worktree"
)

// How much the first page lists.
const (
	ownRuns      = 50 // of this repository, and of any on a page of its own
	otherRuns    = 5  // of each other repository
	maxShelves   = 100
	maxBatches   = 100
	maxBatchNote = 1 << 20 // bytes
)

// A shelfOf is where records lie: a repository, or the directory of a batch.
type shelfOf struct {
	path  string
	batch bool
}

// An archive is the records that the page shows: those of one repository and
// of the batches that worked on it, or all of the operator's.
type archive struct {
	a     *app
	home  string
	top   string // of the repository, "" outside of any
	all   bool
	asked string // a batch that was named, "" for none

	mu     sync.Mutex
	places map[web.Place]shelfOf // those that were shown
}

// place names a shelf and remembers it.
func (c *archive) place(s shelfOf) web.Place {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%v\x00%s", s.batch, s.path)))
	p := web.Place(hex.EncodeToString(sum[:8]))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places == nil {
		c.places = map[web.Place]shelfOf{}
	}
	c.places[p] = s
	return p
}

// find is the shelf of a name that was given to somebody.
func (c *archive) find(p web.Place) (shelfOf, error) {
	known := func() (shelfOf, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		s, ok := c.places[p]
		return s, ok
	}
	if s, ok := known(); ok {
		return s, nil
	}
	// Perhaps the name is of an earlier page, or of a batch that began since.
	for _, s := range c.shelves() {
		c.place(s)
	}
	if s, ok := known(); ok {
		return s, nil
	}
	return shelfOf{}, web.ErrNone
}

// shelves are all there are: the own repository, the others by their latest
// run, the batches.
func (c *archive) shelves() []shelfOf {
	var all []shelfOf
	if c.top != "" {
		all = append(all, shelfOf{path: c.top})
	}
	if c.all {
		runs, err := record.Ledger(filepath.Join(c.home, "runs"))
		if err != nil {
			c.a.warn("view: %v", err)
		}
		tops := sortedKeys(runs)
		slices.SortStableFunc(tops, func(x, y string) int { return strings.Compare(slices.Max(runs[y]), slices.Max(runs[x])) })
		for _, top := range tops {
			if top != c.top && len(all) < maxShelves {
				all = append(all, shelfOf{path: top})
			}
		}
	}
	for _, dir := range c.batches() {
		all = append(all, shelfOf{path: dir, batch: true})
	}
	return all
}

func (c *archive) open(s shelfOf) (*record.Store, error) {
	if s.batch {
		return record.OpenIn(s.path)
	}
	return record.Open(s.path, filepath.Join(c.home, "runs"))
}

func (c *archive) List(context.Context) (web.Listing, error) {
	var out web.Listing
	for _, s := range c.shelves() {
		if s.batch {
			out.Batches = append(out.Batches, c.batchLine(s))
			continue
		}
		most := otherRuns
		if s.path == c.top {
			most = ownRuns
		}
		shelf, err := c.shelf(s, "", most)
		switch {
		case err != nil && s.path == c.top:
			return out, err
		case err != nil && errors.Is(err, fs.ErrNotExist): // it was moved or removed
		case err != nil:
			out.Notices = append(out.Notices, err.Error())
		case len(shelf.Runs) > 0 || s.path == c.top:
			out.Shelves = append(out.Shelves, shelf)
		}
	}
	return out, nil
}

func (c *archive) Shelf(_ context.Context, place web.Place, before string) (web.Shelf, error) {
	s, err := c.find(place)
	if err != nil {
		return web.Shelf{}, err
	}
	return c.shelf(s, before, ownRuns)
}

func (c *archive) shelf(s shelfOf, before string, most int) (web.Shelf, error) {
	out := web.Shelf{Place: c.place(s), Title: s.path}
	records, err := c.open(s)
	if err != nil {
		return out, err
	}
	defer records.Close()
	names, err := records.Names()
	if err != nil {
		return out, err
	}
	if before != "" {
		at, _ := slices.BinarySearch(names, before)
		names = names[:at]
	}
	slices.Reverse(names)
	if len(names) > most {
		names = names[:most]
		out.Older = names[most-1]
	}
	for _, name := range names {
		line := web.RunLine{Summary: view.Summary{Run: name}, Foreign: !records.Own(name)}
		if doc, err := records.Load(name); err != nil {
			line.Fault = err.Error()
		} else {
			line.Summary = view.Summarise(doc)
		}
		out.Runs = append(out.Runs, line)
	}
	return out, nil
}

func (c *archive) Run(_ context.Context, place web.Place, run string) (web.Run, error) {
	s, err := c.find(place)
	if err != nil {
		return web.Run{}, err
	}
	records, err := c.open(s)
	if err != nil {
		return web.Run{}, err
	}
	defer records.Close()
	doc, err := records.Load(run)
	if errors.Is(err, record.ErrNoRun) {
		return web.Run{}, fmt.Errorf("run %s: %w", run, web.ErrNone)
	}
	if err != nil {
		return web.Run{}, err
	}
	with := func(use func(*record.Store) error) error {
		records, err := c.open(s)
		if err != nil {
			return err
		}
		return errors.Join(use(records), records.Close())
	}
	return web.Run{
		Doc: doc, Place: place, Title: s.path, Foreign: !records.Own(run), Batch: s.batch,
		Life: func() (life web.Life) {
			_ = with(func(records *record.Store) error { life = lifeOf(records, run); return nil }) // records that are gone have ended
			return life
		},
		Events: func() (f *os.File, err error) {
			err = with(func(records *record.Store) (err error) { f, err = records.Open(run, "events.jsonl"); return err })
			return f, err
		},
		Blobs: func() (compare.Blobs, error) {
			o, err := worktree.OpenObjects(orchestrator.ObjectsDir(records.Path(run)))
			if err != nil {
				return nil, err
			}
			return blobs(o), nil
		},
		Log: func(n int, limit int64) (text []byte, cut bool, err error) {
			err = with(func(records *record.Store) (err error) {
				text, cut, err = agentLog(records, run, candidate.Number(n).ID(), limit)
				return err
			})
			return text, cut, err
		},
	}, nil
}

func lifeOf(records *record.Store, run string) web.Life {
	owner, ok := records.Working(run)
	switch {
	case !ok:
		return web.Ended
	case owner.Alive():
		return web.Working
	}
	return web.Dead
}

// batchNote is what a batch leaves in $BESTOF_HOME, so that it is found again.
type batchNote struct {
	Directory    string   `json:"directory"`
	Repositories []string `json:"repositories"`
}

// noteBatch writes down where a batch is. The batch goes on without it.
func (a *app) noteBatch(home, dir string, specs []batch.Spec) {
	note := batchNote{Directory: dir}
	for _, s := range specs {
		if !slices.Contains(note.Repositories, s.Dir) && len(note.Repositories) < 1000 {
			note.Repositories = append(note.Repositories, s.Dir)
		}
	}
	sum := sha256.Sum256([]byte(dir))
	at := filepath.Join(home, "batches", hex.EncodeToString(sum[:8])+".json")
	b, err := json.Marshal(note)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(at), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(at, b, 0o600)
	}
	if err != nil {
		a.warn("the batch is not noted, so that bestof view lists it only by its directory: %v", err)
	}
}

// batches are the directories of the batches to show, the one that was asked
// for first, then the newest.
func (c *archive) batches() []string {
	var dirs []string
	if c.asked != "" {
		dirs = append(dirs, c.asked)
	}
	root, err := os.OpenRoot(filepath.Join(c.home, "batches"))
	if err != nil {
		return dirs // none was noted
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return dirs
	}
	began := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxBatchNote {
			continue
		}
		var note batchNote
		b, err := fs.ReadFile(root.FS(), e.Name())
		if err != nil || json.Unmarshal(b, &note) != nil || !filepath.IsAbs(note.Directory) || note.Directory == c.asked {
			continue
		}
		if c.all || slices.Contains(note.Repositories, c.top) {
			began[note.Directory] = info.ModTime().UnixNano()
		}
	}
	noted := sortedKeys(began)
	slices.SortStableFunc(noted, func(x, y string) int {
		return int(min(max(began[y]-began[x], -1), 1))
	})
	for _, dir := range noted {
		if _, err := os.Stat(dir); err == nil && len(dirs) < maxBatches {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (c *archive) batchLine(s shelfOf) web.BatchLine {
	line := web.BatchLine{Place: c.place(s), Directory: s.path}
	now, err := readStatus(s.path)
	if err != nil {
		line.Fault = err.Error()
		return line
	}
	line.State, line.Working = now.words(), now.Process > 0
	return line
}

func (c *archive) Batch(_ context.Context, place web.Place) (web.Batch, error) {
	s, err := c.find(place)
	if err != nil {
		return web.Batch{}, err
	}
	if !s.batch {
		return web.Batch{}, web.ErrNone
	}
	now, err := readStatus(s.path)
	if err != nil {
		return web.Batch{}, err
	}
	state, err := batch.View(s.path)
	if err != nil {
		return web.Batch{}, err
	}
	defer state.Close()
	rows, err := state.Rows()
	if err != nil {
		return web.Batch{}, err
	}
	out := web.Batch{Place: place, Directory: s.path, Process: now.Process, State: now.words(), Spend: now.used(), Count: len(rows)}
	out.Tasks = func(yield func(web.BatchTask) bool) {
		for _, r := range rows {
			if !yield(web.BatchTask{ID: r.ID, State: r.State, Run: r.Run, Winner: r.Winner, Reason: r.Reason}) {
				return
			}
		}
	}
	out.Compare = func() (compare.Batch, error) {
		b, err := c.a.openRecorded(s.path, false)
		if err != nil {
			return compare.Batch{}, err
		}
		return b.compared(), b.close()
	}
	out.Numbers = func() (r report.Report, err error) {
		b, err := c.a.openRecorded(s.path, false)
		if err != nil {
			return r, err
		}
		return report.Build(b.input(), report.Options{Seed: 1, Choose: b.choose}), b.close()
	}
	return out, nil
}
