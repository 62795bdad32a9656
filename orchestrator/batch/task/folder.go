package task

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/stricttoml"
)

// The files of a task folder. All but the statement may be absent.
const (
	statementName = "task.md"    // what candidates are told
	settingsName  = "task.toml"  // the rest of the task
	patchName     = "test.patch" // applied to verification shadows only
	testsName     = "tests"      // laid over the repository's top in verification shadows
)

// readFolders reads a directory of task folders, in the order of their names.
// A folder's name is its task's id unless task.toml has one. Links and whatever
// else is no regular file are refused by name; folders that begin with a dot
// are not looked at.
func readFolders(name string, dir fs.FS) (Input, []Problem) {
	b := newBuilder(name, ours)
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		b.problems.add(name, "%v", err)
		return b.input()
	}
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			if !b.folder(name, dir, e.Name()) {
				return b.input()
			}
		case e.Type().IsRegular():
			b.warnings.add(path.Join(name, e.Name()), "it is no task folder: it is left out")
		default:
			b.problems.add(path.Join(name, e.Name()), "it is neither a folder nor a file")
		}
	}
	b.name = name
	return b.input()
}

// folder reads one task. It is false when there are too many.
func (b *builder) folder(name string, dir fs.FS, id string) bool {
	where := path.Join(name, id)
	r := record{where: where}
	entries, err := fs.ReadDir(dir, id)
	if err != nil {
		b.problems.add(where, "%v", err)
		return true
	}
	left := MaxRecord
	whole := true
	for _, e := range entries {
		whole = b.folderEntry(&r, dir, id, where, e, &left) && whole
	}
	if _, named := r.values["id"]; !named {
		r.set("id", value{text: id})
	}
	if _, told := r.values["statement"]; !told && whole {
		b.problems.add(where, "%s is missing", statementName)
		r.set("statement", value{bad: true})
	}
	b.name = path.Join(where, settingsName)
	return b.add(r)
}

// folderEntry takes what one entry of a task folder says. It is false when that
// could not be read.
func (b *builder) folderEntry(r *record, dir fs.FS, id, where string, e fs.DirEntry, left *int) bool {
	key, isTests := map[string]string{statementName: "statement", patchName: "test_patch"}[e.Name()], e.Name() == testsName
	spot := path.Join(where, e.Name())
	if key == "" && !isTests && e.Name() != settingsName {
		return true
	}
	if isTests {
		if !e.IsDir() {
			b.problems.add(spot, "it is no folder")
			return false
		}
		b.tests(r, dir, path.Join(id, testsName), spot, left)
		return true
	}
	data, err := readRegular(dir, path.Join(id, e.Name()), e, left)
	if err != nil {
		b.problems.add(spot, "%v", err)
		if key != "" {
			r.set(key, value{bad: true})
		}
		return false
	}
	if key == "" {
		b.settings(r, spot, data)
		return true
	}
	if key == "statement" && !utf8.Valid(data) {
		b.problems.add(spot, "it is not UTF-8")
		r.set(key, value{bad: true})
		return false
	}
	if _, twice := r.values[key]; twice {
		b.problems.add(spot, "%s has %s too: keep one", settingsName, key)
		return false
	}
	r.set(key, value{text: string(data)})
	return true
}

// settings takes a task.toml.
func (b *builder) settings(r *record, spot string, data []byte) {
	b.name = spot
	var table map[string]any
	if err := stricttoml.Decode(spot, data, &table); err != nil {
		b.tomlFault(err)
		return
	}
	positions := stricttoml.Locate(data)
	for key := range table {
		if _, twice := r.values[key]; twice {
			b.problems.add(at(spot, positions.Line(key)), "there is a file for %s too: keep one", quote(key))
			delete(table, key)
		}
	}
	b.table(r, table, func(key string) int { return positions.Line(key) })
}

// tests collects the files of a tests folder.
func (b *builder) tests(r *record, dir fs.FS, root, spot string, left *int) {
	err := fs.WalkDir(dir, root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside := strings.TrimPrefix(strings.TrimPrefix(p, root), "/")
		if slices.ContainsFunc(strings.Split(inside, "/"), reserved) {
			b.problems.add(path.Join(spot, inside), "tests cannot be laid there")
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() {
			return nil
		}
		if len(r.files) >= MaxFiles {
			return fmt.Errorf("more than %d files", MaxFiles)
		}
		data, err := readRegular(dir, p, e, left)
		if err != nil {
			b.problems.add(path.Join(spot, inside), "%v", err)
			if errors.Is(err, errFolderTooLarge) {
				return fs.SkipAll
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		r.files = append(r.files, File{Path: inside, Data: data, Exec: info.Mode()&0o111 != 0})
		return nil
	})
	if err != nil {
		b.problems.add(spot, "%v", err)
	}
}

// reserved are names that no test file may have on its way.
func reserved(element string) bool {
	return strings.EqualFold(element, ".git") || strings.EqualFold(element, ".bestof")
}

var (
	errFolderTooLarge = fmt.Errorf("the task folder is larger than %d MiB", MaxRecord>>20)
	errNoFile         = errors.New("it is no regular file")
)

// readRegular reads a regular file of at most left bytes and takes them off.
func readRegular(dir fs.FS, name string, e fs.DirEntry, left *int) ([]byte, error) {
	if !e.Type().IsRegular() {
		return nil, errNoFile
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(*left)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > *left {
		return nil, errFolderTooLarge
	}
	*left -= len(data)
	return data, nil
}
