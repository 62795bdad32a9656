package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/event"
)

// Directory is where a repository's records are, below its top level.
const Directory = ".bestof/runs"

// maxDocument bounds what is read back of a run.json, in bytes. A candidate's
// changed files are listed in it, so it can be large.
const maxDocument = 256 << 20

var (
	// ErrNoRun means that no run has the name that was asked for.
	ErrNoRun = errors.New("no such run")
	// ErrForeign means that a record was not made by this operator: it came
	// with the repository, whose word it then is.
	ErrForeign = errors.New("its record was not made here, it came with the repository")
	// ErrUnreadable means that a run's record is broken.
	ErrUnreadable = errors.New("its record cannot be read")
	// ErrAmbiguous means that several runs begin with the name.
	ErrAmbiguous = errors.New("several runs begin with that")
)

// A Store is the records of one repository. It is safe for several processes.
type Store struct {
	top    string     // of the repository
	sub    string     // where below it the records are
	ledger string     // directory of the operator's with one file for each own run
	mu     sync.Mutex // guards the making of root
	root   *os.Root   // nil until there are records
}

// Open opens the records of the repository whose top level is top. Nothing is
// made before the first run is created. A .bestof that is a symbolic link is
// refused: the record would land where the repository says.
//
// ledger is a directory of the operator's, outside any repository, in which
// own runs are noted: a clone can bring records, but not entries there.
func Open(top, ledger string) (*Store, error) { return openAt(top, Directory, ledger) }

// OpenIn opens records that are kept outside of any repository, in dir/runs,
// for runs on many of them. dir must exist; its ledger is in it.
func OpenIn(dir string) (*Store, error) { return openAt(dir, "runs", filepath.Join(dir, "ledger")) }

// openAt opens the records in sub, a slash path below top.
func openAt(top, sub, ledger string) (*Store, error) {
	r, err := os.OpenRoot(top)
	if err != nil {
		return nil, fmt.Errorf("open records: %w", err)
	}
	defer r.Close()
	s := &Store{top: top, sub: sub, ledger: ledger}
	for _, dir := range parents(sub) {
		info, err := r.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("open records: %w", err)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("open records: %s is not a directory; move it away", filepath.Join(top, dir))
		}
	}
	if s.root, err = r.OpenRoot(sub); err != nil {
		return nil, fmt.Errorf("open records: %w", err)
	}
	return s, nil
}

// prepare makes the directories that a first run needs.
func (s *Store) prepare() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.ledger, 0o700); err != nil {
		return fmt.Errorf("make the ledger of runs: %w", err)
	}
	if s.root != nil {
		return nil
	}
	r, err := os.OpenRoot(s.top)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, dir := range parents(s.sub) {
		if err := r.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	opened, err := openAt(s.top, s.sub, s.ledger) // looks at them again
	if err != nil {
		return err
	}
	if s.root = opened.root; s.root == nil {
		return fmt.Errorf("%s went away", filepath.Join(s.top, s.sub))
	}
	return nil
}

// parents are the directories on the way to a slash path, itself the last.
func parents(sub string) []string {
	var all []string
	for ; sub != "."; sub = path.Dir(sub) {
		all = append([]string{sub}, all...)
	}
	return all
}

// entries lists the names below the records, sorted.
func (s *Store) entries() ([]fs.DirEntry, error) {
	if s.root == nil {
		return nil, nil
	}
	all, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return all, nil
}

// Close releases the store.
func (s *Store) Close() error {
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

// Path is the directory of a run.
func (s *Store) Path(id string) string { return filepath.Join(s.top, s.sub, id) }

// runningFile marks a run whose orchestrator has not said that it ended. It
// holds the orchestrator's identity.
const runningFile = "running.json"

// Own reports whether this operator made the run.
func (s *Store) Own(id string) bool {
	b, err := os.ReadFile(s.entry(id))
	return err == nil && ValidID(id) && string(b) == s.top
}

// entry is the file of a run in the ledger. Runs of two repositories could
// have one id.
func (s *Store) entry(id string) string {
	top := sha256.Sum256([]byte(s.top))
	return filepath.Join(s.ledger, id+"-"+hex.EncodeToString(top[:8]))
}

// Create claims a new run directory for the process owner; newID is asked again when its answer is
// taken, so that two runs of the same moment get two directories.
func (s *Store) Create(owner Owner, newID func() string) (*Writer, error) {
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("create a record: %w", err)
	}
	for range 100 {
		id := newID()
		err := s.root.Mkdir(id, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create the record of run %s: %w", id, err)
		}
		w, err := s.begin(owner, id)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create the record of run %s: %w", id, err), s.Remove(id))
		}
		return w, nil
	}
	return nil, errors.New("create a record: a hundred names were all taken")
}

// begin notes that the run is ours and running. The directory ignores itself,
// so that git status does not show it.
func (s *Store) begin(owner Owner, id string) (*Writer, error) {
	w, err := s.writer(id)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(owner)
	if err == nil {
		err = replace(w.root, ".gitignore", []byte("*\n"), false)
	}
	if err == nil {
		err = os.WriteFile(s.entry(id), []byte(s.top), 0o600)
	}
	if err == nil {
		err = replace(w.root, runningFile, b, true)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// writer opens the run's directory for writing.
func (s *Store) writer(id string) (*Writer, error) {
	root, err := s.root.OpenRoot(id)
	if err != nil {
		return nil, fmt.Errorf("open the record of run %s: %w", id, err)
	}
	if err := root.MkdirAll("candidates", 0o755); err != nil {
		root.Close()
		return nil, fmt.Errorf("open the record of run %s: %w", id, err)
	}
	return &Writer{id: id, path: s.Path(id), root: root}, nil
}

// Update rewrites the document of a finished run, for adoption and for marking
// a run interrupted.
func (s *Store) Update(doc Document) error {
	w, err := s.writer(doc.Run)
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Finish(doc)
}

// Abandoned lists the runs that were begun and not ended and whose
// orchestrator is dead: killed, or lost with the machine. A run without a
// readable document comes with its id and phase alone.
func (s *Store) Abandoned() ([]Document, error) {
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	var docs []Document
	for _, name := range names {
		b, err := s.ReadFile(name, runningFile, 4096)
		if err != nil || !s.Own(name) {
			continue // not running, or none of ours
		}
		var owner Owner
		if json.Unmarshal(b, &owner) == nil && owner.Alive() {
			continue
		}
		doc, err := s.load(name)
		if err == nil && doc.Phase == Finished {
			// It was killed after its last word and before it took its mark away.
			if err := s.root.Remove(path.Join(name, runningFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("record run %s: %w", name, err)
			}
			continue
		}
		if err != nil {
			doc = Document{Schema: Schema, Run: name, Candidates: []Candidate{}, Ranking: []Rank{}}
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// Names lists the ids of all runs, oldest first.
func (s *Store) Names() ([]string, error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && ValidID(e.Name()) {
			names = append(names, e.Name()) // sorted by ReadDir, and ids are ordered by time
		}
	}
	return names, nil
}

// List returns the documents of the newest runs, at most most of them unless
// it is 0, oldest first. A run without a readable document is named in the
// notices instead.
func (s *Store) List(most int) (docs []Document, notices []string, err error) {
	names, err := s.Names()
	if err != nil {
		return nil, nil, err
	}
	if most > 0 {
		names = names[max(0, len(names)-most):]
	}
	for _, name := range names {
		doc, err := s.load(name)
		if err != nil {
			notices = append(notices, err.Error())
			continue
		}
		docs = append(docs, doc)
	}
	return docs, notices, nil
}

// Broken lists the own runs, not running, that have no document or one that is
// no JSON. A document of another version is none of them.
func (s *Store) Broken() ([]string, error) {
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	var broken []string
	for _, name := range names {
		_, err := s.load(name)
		_, mark := s.root.Lstat(path.Join(name, runningFile))
		if s.Own(name) && errors.Is(err, ErrUnreadable) && errors.Is(mark, fs.ErrNotExist) {
			broken = append(broken, name)
		}
	}
	return broken, nil
}

// Load reads a run by its id, a unique beginning of it, or "last", which is
// the newest of the operator's own.
func (s *Store) Load(name string) (Document, error) {
	if s.root != nil && ValidID(name) { // a whole id: the others need not be listed, of which there may be thousands
		if info, err := s.root.Lstat(name); err == nil && info.IsDir() {
			return s.load(name)
		}
	}
	names, err := s.Names()
	if err != nil {
		return Document{}, err
	}
	var found []string
	for _, n := range names {
		if name == "last" && s.Own(n) || name != "" && strings.HasPrefix(n, strings.ToLower(name)) {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 0 && name == "last" && len(names) > 0:
		return Document{}, fmt.Errorf("run %q: %w: those that are here came with the repository; name one by its id to look at it", name, ErrNoRun)
	case len(found) == 0:
		return Document{}, fmt.Errorf("run %q: %w (`bestof runs` lists them)", name, ErrNoRun)
	case name == "last" || len(found) == 1:
		return s.load(found[len(found)-1])
	}
	return Document{}, fmt.Errorf("run %q: %w: %s", name, ErrAmbiguous, strings.Join(found, ", "))
}

func (s *Store) load(id string) (Document, error) {
	b, err := s.ReadFile(id, "run.json", maxDocument)
	if err != nil {
		return Document{}, fmt.Errorf("run %s: %w (`bestof gc` removes it): %w", id, ErrUnreadable, err)
	}
	var doc Document
	if err := json.Unmarshal(b, &doc); err != nil {
		return Document{}, fmt.Errorf("run %s: %w (`bestof gc` removes it): run.json: %w", id, ErrUnreadable, err)
	}
	if doc.Schema != Schema {
		return Document{}, fmt.Errorf("run %s: its record has the schema %q, this program reads %q", id, doc.Schema, Schema)
	}
	if doc.Run != id {
		return Document{}, fmt.Errorf("run %s: its record says it is run %q", id, doc.Run)
	}
	if doc.Phase == Running && (doc.Owner == nil || !doc.Owner.Alive()) {
		doc.Interrupt()
	}
	return doc, nil
}

// ReadFile reads one regular file of a run, at most limit bytes; a larger one
// is an error.
func (s *Store) ReadFile(id, name string, limit int64) ([]byte, error) {
	f, err := s.Open(id, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return b, nil
}

// Remove deletes the record of a run.
func (s *Store) Remove(id string) error {
	if !ValidID(id) {
		return fmt.Errorf("run %q: %w", id, ErrNoRun)
	}
	if err := s.root.RemoveAll(id); err != nil {
		return err
	}
	if err := os.Remove(s.entry(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// A Writer writes the record of one run while it happens. It is safe for
// concurrent use.
type Writer struct {
	id   string
	path string
	root *os.Root

	mu      sync.Mutex
	events  *os.File
	written []byte // run.json, as it was written last
}

// ID is the run's.
func (w *Writer) ID() string { return w.id }

// Path is the run's directory.
func (w *Writer) Path() string { return w.path }

// Finish writes the last document of a run and takes its mark away.
func (w *Writer) Finish(doc Document) error {
	if err := w.Document(doc, true); err != nil {
		return err
	}
	if err := w.root.Remove(runningFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record run %s: %w", w.id, err)
	}
	return nil
}

// Document replaces run.json as a whole: a reader sees the old one or the new
// one. With durable it also survives a power failure.
func (w *Writer) Document(doc Document, durable bool) error {
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("record run %s: %w", w.id, err)
	}
	b = append(b, '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	if !durable && bytes.Equal(b, w.written) {
		return nil
	}
	if err := replace(w.root, "run.json", b, durable); err != nil {
		return fmt.Errorf("record run %s: %w", w.id, err)
	}
	w.written = b
	return nil
}

// Event appends one line to events.jsonl.
func (w *Writer) Event(e event.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("record event %d: %w", e.Seq, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == nil {
		if w.events, err = w.root.OpenFile("events.jsonl", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
			return fmt.Errorf("record events: %w", err)
		}
	}
	if _, err := w.events.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("record event %d: %w", e.Seq, err)
	}
	return nil
}

// File replaces one file below the candidate's directory.
func (w *Writer) File(candidate, name string, data []byte) error {
	dir := path.Join("candidates", candidate)
	if err := w.root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("record %s of %s: %w", name, candidate, err)
	}
	if err := replace(w.root, path.Join(dir, name), data, false); err != nil {
		return fmt.Errorf("record %s of %s: %w", name, candidate, err)
	}
	return nil
}

// Create opens a new file below the candidate's directory for appending.
func (w *Writer) Create(candidate, name string) (*os.File, error) {
	dir := path.Join("candidates", candidate)
	if err := w.root.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("record %s of %s: %w", name, candidate, err)
	}
	f, err := w.root.OpenFile(path.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("record %s of %s: %w", name, candidate, err)
	}
	return f, nil
}

// Close releases the writer.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if w.events != nil {
		err = w.events.Close()
		w.events = nil
	}
	return errors.Join(err, w.root.Close())
}

// replace writes name below root through a temporary file beside it. The
// temporary name is fixed: callers hold the run's lock, and a leftover of a
// killed process is overwritten.
func replace(root *os.Root, name string, data []byte, durable bool) error {
	temporary := name + ".new"
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	if err := root.Rename(temporary, name); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// idAlphabet is Crockford's base 32 in lower case: no i, l, o, u.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// idLength is 8 characters of milliseconds since 2024 (34 years of them) and
// 2 of chance.
const idLength = 10

var idEpoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// NewID makes a run id from the time and a random number: ids sort by time and
// are short enough to type.
func NewID(at time.Time, random uint32) string {
	v := uint64(max(0, at.Sub(idEpoch).Milliseconds()))<<10 | uint64(random&0x3ff)
	var b [idLength]byte
	for i := idLength - 1; i >= 0; i-- {
		b[i] = idAlphabet[v&31]
		v >>= 5
	}
	return string(b[:])
}

// ValidID reports whether s has the form of a run id.
func ValidID(s string) bool {
	return len(s) == idLength && strings.Trim(s, idAlphabet) == ""
}
