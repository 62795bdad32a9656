package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// Settings are what of the operator's configuration counts for tools.
type Settings struct {
	Python  Python
	Max     int      // tools that may be live; 0 is no cap. Read once
	Natives []string // names that no tool may take, see Natives
}

// Zones are the folders of one kind of files: those that are live at the top,
// beside pending/ and disabled/. All of it is opened below one directory, links
// are never followed, and what several processes do at once comes one after
// the other.
type Zones struct {
	kind Kind
	dir  string // absolute
	Settings
}

// Open is the zones of tools in $BESTOF_HOME/tools. pending/ is made if it can
// be; a home that cannot be written is one without tools to propose.
func Open(home string, s Settings) (*Zones, error) {
	return open(Callable, filepath.Join(home, "tools"), s)
}

// OpenTrainers is the zones of trainers, in $BESTOF_HOME/tools/train.
func OpenTrainers(home string, s Settings) (*Zones, error) {
	return open(Trainer, filepath.Join(home, "tools", "train"), s)
}

func open(kind Kind, dir string, s Settings) (*Zones, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the tools' directory %q is not absolute", dir)
	}
	if s.Max < 0 {
		return nil, fmt.Errorf("[tools] max is %d: write 0 for no cap, or how many tools may be live", s.Max)
	}
	if s.Natives == nil {
		s.Natives = Natives()
	}
	z := &Zones{kind: kind, dir: dir, Settings: s}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case kind == Trainer && info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a link: make it a directory", dir)
	}
	_ = os.MkdirAll(filepath.Join(dir, string(Pending)), 0o700)
	return z, nil
}

// Dir is where the live files are.
func (z *Zones) Dir() string { return z.dir }

// Path is where a zone has, or would have, the file of a name.
func (z *Zones) Path(zone Zone, name Name) string {
	return filepath.Join(z.dir, zone.folder(), name.File())
}

// folder is the zone's below the directory, "." for the live one.
func (zone Zone) folder() string {
	if zone == Live {
		return "."
	}
	return string(zone)
}

// Grounds are what the provenance of writes is held against: these zones with
// those of the other kind.
func (z *Zones) Grounds() (Grounds, error) {
	root := z.dir
	if z.kind == Trainer {
		root = filepath.Dir(root)
	}
	var g Grounds
	var err error
	if g.Root, err = Look(root, "/", ""); err != nil {
		return g, err
	}
	for _, p := range []string{"pending", "train/pending"} {
		v, err := Look(filepath.Join(root, p), "/", "")
		if err != nil {
			return g, err
		}
		g.Pending = append(g.Pending, v)
	}
	return g, nil
}

// Live reads the live set without executing anything. A name that is a native
// tool's refuses all of it, with a *CollisionError; what is wrong with one file
// skips that file. Nothing is started when there is nothing to read.
func (z *Zones) Live(ctx context.Context) (Set, error) {
	files, skipped, err := z.list(Live)
	if err != nil {
		return Set{}, err
	}
	names := make([]Name, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	if err := Collision(names, z.Natives); err != nil {
		return Set{}, err
	}
	readings, err := z.Python.Read(ctx, z.kind, files)
	if err != nil {
		return Set{}, err
	}
	return Select(files, readings, skipped, z.Max), nil
}

// Zone reads another zone for its list: everything in it, and what is wrong
// with each file. No cap and no collision count there.
func (z *Zones) Zone(ctx context.Context, zone Zone) (Set, error) {
	files, skipped, err := z.list(zone)
	if err != nil {
		return Set{}, err
	}
	readings, err := z.Python.Read(ctx, z.kind, files)
	if err != nil {
		return Set{}, err
	}
	return Select(files, readings, skipped, 0), nil
}

// list reads the files of a zone in the order of their names.
func (z *Zones) list(zone Zone) (files []File, skipped []Skip, err error) {
	root, err := z.root(zone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", root.Name(), err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || e.IsDir() {
			continue
		}
		skip := func(reason string) { skipped = append(skipped, Skip{File: e.Name(), Reason: reason}) }
		name, err := ParseName(stem)
		if err != nil {
			skip(err.Error())
			continue
		}
		if len(files) == MaxFiles {
			skip(fmt.Sprintf("the zone has more than %d files", MaxFiles))
			continue
		}
		f, err := z.read(root, zone, name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was moved since
		case err != nil:
			skip(err.Error())
		default:
			files = append(files, f)
		}
	}
	return files, skipped, nil
}

// root opens a zone's folder, which may not be a link.
func (z *Zones) root(zone Zone) (*os.Root, error) {
	top, err := os.OpenRoot(z.dir)
	if err != nil || zone == Live {
		return top, err
	}
	defer top.Close()
	info, err := top.Lstat(zone.folder())
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory: tools' folders may not be links", filepath.Join(z.dir, zone.folder()))
	}
	return top.OpenRoot(zone.folder())
}

// read reads one file of a zone, without following links and within bounds.
func (z *Zones) read(root *os.Root, zone Zone, name Name) (File, error) {
	b, err := readFile(root, name.File())
	if err != nil {
		return File{}, err
	}
	return File{Name: name, Path: z.Path(zone, name), Bytes: b, SHA256: HashOf(b)}, nil
}

var errLink = errors.New("it is a link, and a tool is the file itself: move that here")

func readFile(root *os.Root, file string) ([]byte, error) {
	info, err := root.Lstat(file)
	if err != nil {
		return nil, plainly(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, errLink
	}
	// Whatever is put in its place now must not block, nor lead away.
	f, err := root.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, plainly(err)
	}
	defer f.Close()
	opened, err := f.Stat()
	switch {
	case err != nil:
		return nil, plainly(err)
	case !opened.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case !os.SameFile(info, opened):
		return nil, errors.New("it changed while it was read")
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxSource+1))
	if err != nil {
		return nil, plainly(err)
	}
	if len(b) > MaxSource {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxSource)
	}
	return b, nil
}

// plainly is an error without the operation and path that the caller tells.
func plainly(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Find reads one file of a zone by its name; fs.ErrNotExist when there is none.
func (z *Zones) Find(zone Zone, name Name) (File, error) {
	root, err := z.root(zone)
	if err != nil {
		return File{}, plainly(err)
	}
	defer root.Close()
	f, err := z.read(root, zone, name)
	var system syscall.Errno
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &system):
		err = fmt.Errorf("%s: %w", z.Path(zone, name), err)
	default:
		err = refuse(name, "%s: %v", z.Path(zone, name), err)
	}
	return f, err
}

// lock keeps other processes from moving tools until unlock.
func (z *Zones) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(z.dir, 0o700); err != nil {
		return nil, err
	}
	l := flock.New(filepath.Join(z.dir, ".lock"), flock.SetPermissions(0o600))
	if ok, err := l.TryLockContext(ctx, lockRetry); err != nil || !ok {
		return nil, fmt.Errorf("lock the tools: %w", err)
	}
	return func() { _ = l.Close() }, nil
}

// Folder is where a zone's files are.
func (z *Zones) Folder(zone Zone) string { return filepath.Join(z.dir, zone.folder()) }

// Names lists the files of a zone that have a tool's name, without reading any;
// a zone that cannot be listed has none.
func (z *Zones) Names(zone Zone) []Name {
	root, err := z.root(zone)
	if err != nil {
		return nil
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil
	}
	var names []Name
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), suffix)
		if n, err := ParseName(stem); ok && err == nil && !e.IsDir() {
			names = append(names, n)
		}
	}
	return names
}

// Describe reads the contract of one file, or why it has none.
func (z *Zones) Describe(ctx context.Context, f File) (Reading, error) {
	readings, err := z.Python.Read(ctx, z.kind, []File{f})
	if err != nil {
		return Reading{}, err
	}
	return readings[0], nil
}
