package tool

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/atomicfile"
)

const lockRetry = 20 * time.Millisecond

// A Refusal is what the operator or author has to mend before a file can be
// written or moved.
type Refusal struct {
	Name   Name
	Reason string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Name, r.Reason) }

func refuse(name Name, format string, args ...any) error {
	return &Refusal{name, fmt.Sprintf(format, args...)}
}

// check reads the contract of bytes as the file of a name: the one check that
// everything passes on its way into pending and on its way out of it.
func (z *Zones) check(ctx context.Context, name Name, b []byte) (Tool, error) {
	if _, err := ParseName(string(name)); err != nil {
		return Tool{}, err
	}
	if err := Collision([]Name{name}, z.Natives); err != nil {
		return Tool{}, err
	}
	if len(b) > MaxSource {
		return Tool{}, refuse(name, "the source is larger than %d bytes", MaxSource)
	}
	f := File{Name: name, Bytes: b, SHA256: HashOf(b)}
	readings, err := z.Python.Read(ctx, z.kind, []File{f})
	if err != nil {
		return Tool{}, err
	}
	if s := readings[0].Skip; s != nil {
		return Tool{}, &Refusal{name, s.words()}
	}
	return Tool{File: f, Contract: readings[0].Contract}, nil
}

// A Written says what Create did.
type Written struct {
	Tool    Tool
	Updated bool // a pending file of the name was there before
}

// Create writes a file into pending, checked, whole and with one line end at
// its end. What a file of that name held there before is replaced.
func (z *Zones) Create(ctx context.Context, name Name, source string) (Written, error) {
	if strings.TrimSpace(source) == "" {
		return Written{}, refuse(name, "there is no source: give the whole Python file")
	}
	t, err := z.check(ctx, name, []byte(strings.TrimRight(source, " \t\r\n\f")+"\n"))
	if err != nil {
		return Written{}, err
	}
	unlock, err := z.lock(ctx)
	if err != nil {
		return Written{}, err
	}
	defer unlock()
	root, err := z.makeRoot(Pending)
	if err != nil {
		return Written{}, err
	}
	defer root.Close()
	if err := z.replaceable(root, name); err != nil {
		return Written{}, err
	}
	_, err = root.Lstat(name.File())
	updated := err == nil
	if err := install(root, name.File(), t.Bytes); err != nil {
		return Written{}, fmt.Errorf("write %s: %w", z.Path(Pending, name), err)
	}
	t.Path = z.Path(Pending, name)
	return Written{Tool: t, Updated: updated}, nil
}

// replaceable refuses to write over what is no plain file.
func (z *Zones) replaceable(root *os.Root, name Name) error {
	info, err := root.Lstat(name.File())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return refuse(name, "%s is no regular file: remove it", filepath.Join(root.Name(), name.File()))
	}
	return nil
}

// An Approved says what Approve did.
type Approved struct {
	Tool     Tool
	Replaced *File  // the live file of that name that it took the place of; it is in disabled/ now
	Kept     string // where that is
}

// Approve makes a pending file live: the very bytes of the hash that was
// shown. Name, contract and collision are looked at once more. The live file of
// that name, if there is one, goes into disabled/.
func (z *Zones) Approve(ctx context.Context, name Name, shown Hash) (Approved, error) {
	if _, err := ParseName(string(name)); err != nil {
		return Approved{}, err
	}
	unlock, err := z.lock(ctx)
	if err != nil {
		return Approved{}, err
	}
	defer unlock()
	pending, err := z.Find(Pending, name)
	if err != nil {
		return Approved{}, z.absent(Pending, name, err)
	}
	if pending.SHA256 != shown {
		return Approved{}, refuse(name, "the pending file is sha256:%s and not what was shown, sha256:%s: look at it again with `bestof tool show %s --pending%s`", pending.SHA256, shown, name, z.flag())
	}
	t, err := z.check(ctx, name, pending.Bytes)
	if err != nil {
		return Approved{}, err
	}
	live, err := z.makeRoot(Live)
	if err != nil {
		return Approved{}, err
	}
	defer live.Close()
	if err := z.replaceable(live, name); err != nil {
		return Approved{}, err
	}
	out := Approved{Tool: t}
	out.Tool.Path = z.Path(Live, name)
	old, err := z.Find(Live, name)
	same := err == nil && old.SHA256 == t.SHA256
	if err == nil && !same {
		if out.Kept, err = z.keep(old); err != nil {
			return Approved{}, err
		}
		out.Replaced = &old
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Approved{}, err
	}
	// A new file of those bytes: whoever still has the pending one open for
	// writing reaches that one and not what is live.
	put := install
	if out.Replaced == nil && !same {
		put = add
	}
	switch err := put(live, name.File(), t.Bytes); {
	case errors.Is(err, fs.ErrExist):
		return Approved{}, refuse(name, "%s was written at the same moment, and stays", out.Tool.Path)
	case err != nil:
		return Approved{}, fmt.Errorf("write %s: %w", out.Tool.Path, err)
	}
	return out, z.take(Pending, pending)
}

// take removes a file from a zone, once its bytes are in another. One that was
// changed meanwhile stays.
func (z *Zones) take(zone Zone, f File) error {
	root, err := z.root(zone)
	if err != nil {
		return err
	}
	defer root.Close()
	file, aside := filepath.Base(f.Path), temporary()
	if err := root.Rename(file, aside); err != nil {
		return plainly(err)
	}
	if b, err := readFile(root, aside); err == nil && HashOf(b) == f.SHA256 {
		return errors.Join(root.Remove(aside), syncRoot(root))
	}
	if err := root.Link(aside, file); err != nil {
		return fmt.Errorf("%s was written at the same moment: what it was then is %s", f.Path, filepath.Join(root.Name(), aside))
	}
	return errors.Join(root.Remove(aside), refuse(f.Name, "%s was changed at the same moment, and stays", f.Path))
}

// Disable moves a file into disabled/, where it is hidden and kept. kept is
// where.
func (z *Zones) Disable(ctx context.Context, from Zone, name Name) (kept string, err error) {
	if _, err := ParseName(string(name)); err != nil {
		return "", err
	}
	unlock, err := z.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	f, err := z.Find(from, name)
	if err != nil {
		return "", z.absent(from, name, err)
	}
	if kept, err = z.keep(f); err != nil {
		return "", err
	}
	return kept, z.take(from, f)
}

// keep puts the bytes of a file into disabled/ under its name. What was there
// of that name before goes on under a number, unless it is the same.
func (z *Zones) keep(f File) (string, error) {
	root, err := z.makeRoot(Disabled)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := z.replaceable(root, f.Name); err != nil {
		return "", err
	}
	at := z.Path(Disabled, f.Name)
	old, err := z.read(root, Disabled, f.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("%s: %w", at, err)
	case old.SHA256 == f.SHA256:
		return at, nil
	default:
		if err := number(root, f.Name); err != nil {
			return "", fmt.Errorf("%s: %w", at, err)
		}
	}
	if err := install(root, f.Name.File(), f.Bytes); err != nil {
		return "", fmt.Errorf("write %s: %w", at, err)
	}
	return at, nil
}

// number gives what a name has in disabled/ another one: weather.py.1 and so
// on, the first that is free.
func number(root *os.Root, name Name) error {
	for i := 1; i < 10_000; i++ {
		// A hard link never replaces what is there.
		err := root.Link(name.File(), numbered(name, i))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return err
	}
	return errors.New("there are too many older ones: remove some")
}

// Enable makes a disabled file live again, when no other of its name is. A
// version above 0 is that of an older file, NAME.py.1 and so on.
func (z *Zones) Enable(ctx context.Context, name Name, version int) (Tool, error) {
	if _, err := ParseName(string(name)); err != nil {
		return Tool{}, err
	}
	unlock, err := z.lock(ctx)
	if err != nil {
		return Tool{}, err
	}
	defer unlock()
	f, err := z.Older(name, version)
	if err != nil {
		return Tool{}, z.absentVersion(name, version, err)
	}
	t, err := z.check(ctx, name, f.Bytes)
	if err != nil {
		return Tool{}, err
	}
	live, err := z.makeRoot(Live)
	if err != nil {
		return Tool{}, err
	}
	defer live.Close()
	t.Path = z.Path(Live, name)
	switch err := add(live, name.File(), t.Bytes); {
	case errors.Is(err, fs.ErrExist):
		return Tool{}, refuse(name, "another file of that name is live: disable that first with `bestof tool disable %s%s`", name, z.flag())
	case err != nil:
		return Tool{}, fmt.Errorf("write %s: %w", t.Path, err)
	}
	return t, z.take(Disabled, f)
}

// Older reads what is switched off under a name: the last file, which has
// version 0, or one that came under a number before it.
func (z *Zones) Older(name Name, version int) (File, error) {
	if version == 0 {
		return z.Find(Disabled, name)
	}
	root, err := z.root(Disabled)
	if err != nil {
		return File{}, plainly(err)
	}
	defer root.Close()
	file := numbered(name, version)
	b, err := readFile(root, file)
	if err != nil {
		return File{}, err
	}
	return File{Name: name, Path: filepath.Join(z.Folder(Disabled), file), Bytes: b, SHA256: HashOf(b)}, nil
}

// Versions lists the numbers of the older files that are switched off, by name
// and in order.
func (z *Zones) Versions() map[Name][]int {
	root, err := z.root(Disabled)
	if err != nil {
		return nil
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil
	}
	all := map[Name][]int{}
	for _, e := range entries {
		file, number, _ := strings.Cut(e.Name(), suffix+".")
		n, err := strconv.Atoi(number)
		name, nameErr := ParseName(file)
		if err == nil && nameErr == nil && n > 0 && e.Name() == numbered(name, n) && e.Type().IsRegular() {
			all[name] = append(all[name], n)
		}
	}
	for _, list := range all {
		slices.Sort(list)
	}
	return all
}

// numbered is the name of an older file.
func numbered(name Name, version int) string { return fmt.Sprintf("%s.%d", name.File(), version) }

// flag is what a command about these zones has behind it.
func (z *Zones) flag() string {
	if z.kind == Trainer {
		return " --trainers"
	}
	return ""
}

// absentVersion tells that nothing of a name and version is switched off, and
// which versions are.
func (z *Zones) absentVersion(name Name, version int, err error) error {
	versions := strings.Trim(fmt.Sprint(z.Versions()[name]), "[]")
	switch {
	case errors.Is(err, fs.ErrNotExist) && version > 0 && versions == "":
		return refuse(name, "it has no version %d, nor any other", version)
	case errors.Is(err, fs.ErrNotExist) && version > 0:
		return refuse(name, "it has no version %d: there is --version %s", version, versions)
	}
	err = z.absent(Disabled, name, err)
	var refusal *Refusal
	if errors.As(err, &refusal) && versions != "" {
		refusal.Reason += "; of older ones there is --version " + versions
	}
	return err
}

// absent tells that a zone has no file of a name, and where there is one.
func (z *Zones) absent(zone Zone, name Name, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	reason := fmt.Sprintf("there is no file %s", z.Path(zone, name))
	for _, other := range []Zone{Live, Pending, Disabled} {
		if _, err := z.Find(other, name); other != zone && err == nil {
			reason += fmt.Sprintf("; one of that name is %s", other)
		}
	}
	return &Refusal{name, reason}
}

// makeRoot opens a zone's folder and makes it when it is missing.
func (z *Zones) makeRoot(zone Zone) (*os.Root, error) {
	if err := os.MkdirAll(z.dir, 0o700); err != nil {
		return nil, err
	}
	root, err := z.root(zone)
	if !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	top, err := os.OpenRoot(z.dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	if err := top.Mkdir(zone.folder(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return z.root(zone)
}

// install puts a file of those bytes under a name, whole or not at all; a
// reader sees the old or the new.
func install(root *os.Root, file string, b []byte) error {
	return write(root, b, func(aside string) error { return root.Rename(aside, file) })
}

// add is install where there is no file of that name, not even one that somebody
// writes at this moment: that is fs.ErrExist.
func add(root *os.Root, file string, b []byte) error {
	return write(root, b, func(aside string) error {
		return errors.Join(root.Link(aside, file), root.Remove(aside))
	})
}

// write writes a file, complete on the disk, and has it put where it goes.
func write(root *os.Root, b []byte, put func(aside string) error) (err error) {
	aside := temporary()
	f, err := root.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return plainly(err)
	}
	defer func() {
		if err != nil {
			_ = root.Remove(aside)
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return plainly(err)
	}
	if err := put(aside); err != nil {
		return err
	}
	return syncRoot(root)
}

func syncRoot(root *os.Root) error { return atomicfile.SyncDir(root.Name()) }

// temporary is a name that no zone lists.
func temporary() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return ".tmp-" + hex.EncodeToString(b[:])
}
