package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bestof-dev/bestof/cmd/bestof/view"
)

// What a page shows of the logs of one candidate. Of a longer one the end is
// worth more than the beginning.
const (
	maxLogs    = 12
	logHead    = 16 << 10 // bytes
	logTail    = 48 << 10
	maxLogName = 128
)

// candidateLogs reads what the agent and the tests of a candidate printed, as
// far as it is recorded below the directory of its run: the agent's first.
func candidateLogs(run, id string) []view.Log {
	root, err := os.OpenRoot(run)
	if err != nil {
		return nil
	}
	defer root.Close()
	dir := filepath.Join("candidates", id)
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(dir))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".log") && len(e.Name()) <= maxLogName {
			names = append(names, e.Name())
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return boolFirst(strings.HasPrefix(a, "agent"), strings.HasPrefix(b, "agent")) })
	var out []view.Log
	for i, name := range names {
		if i == maxLogs {
			out = append(out, view.Log{Name: fmt.Sprintf("%d more logs", len(names)-i), Left: "They are in " + filepath.Join(run, dir)})
			break
		}
		l := view.Log{Name: name}
		if l.Text, l.Left, err = readLog(root, filepath.Join(dir, name)); err != nil {
			l.Left = "It cannot be read."
		}
		if l.Left != "" {
			l.Left += " It is " + shown(filepath.Join(run, dir, name))
		}
		out = append(out, l)
	}
	return out
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// readLog reads the beginning and the end of a log.
func readLog(root *os.Root, name string) (text, left string, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", "", err
	}
	if !info.Mode().IsRegular() {
		return "", "", errors.New("it is no file")
	}
	size := info.Size()
	if size <= logHead+logTail {
		b, err := io.ReadAll(io.LimitReader(f, logHead+logTail))
		return string(b), "", err
	}
	head, tail := make([]byte, logHead), make([]byte, logTail)
	_, err = io.ReadFull(io.NewSectionReader(f, 0, logHead), head)
	if err == nil {
		_, err = io.ReadFull(io.NewSectionReader(f, size-logTail, logTail), tail)
	}
	middle := size - logHead - logTail
	return fmt.Sprintf("%s\n[%d bytes left out here]\n%s", head, middle, tail), fmt.Sprintf("%d bytes of its middle are left out.", middle), err
}
