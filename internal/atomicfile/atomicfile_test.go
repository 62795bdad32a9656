package atomicfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const halfWriteIn = "ATOMICFILE_HALF_WRITE_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(halfWriteIn); dir != "" {
		halfWrite(dir)
	}
	os.Exit(m.Run())
}

// halfWrite begins to write a file, says so, and waits for its end.
func halfWrite(dir string) {
	f, err := create(dir)
	if err == nil {
		_, err = f.WriteString("a secret")
	}
	fmt.Println(filepath.Base(f.Name()), err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func write(t *testing.T, path, text string, perm os.FileMode) {
	t.Helper()
	if err := Write(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != text {
		t.Fatalf("%q, %v", b, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != perm {
		t.Fatalf("%v, %v", fi.Mode(), err)
	}
}

// age makes files old enough to be taken for stale.
func age(t *testing.T, paths ...string) {
	t.Helper()
	then := time.Now().Add(-2 * stale)
	for _, path := range paths {
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

// What a process was writing when it was killed is removed by who writes there
// later, and not as long as that process lives or could live on another host.
func TestAKilledWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), halfWriteIn+"="+dir)
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var half, problem string
	if _, err := fmt.Fscan(said, &half, &problem); err != nil || problem != "<nil>" {
		t.Errorf("%q %q %v", half, problem, err)
	}
	left := filepath.Join(dir, half)
	age(t, left)
	write(t, filepath.Join(dir, "new"), "1", 0o600)
	if got := names(t, dir); !slices.Equal(got, []string{half, "new"}) {
		t.Errorf("while it is written: %q", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := os.Chtimes(left, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "new"), "1", 0o600)
	if got := names(t, dir); !slices.Equal(got, []string{half, "new"}) {
		t.Errorf("soon after the kill: %q", got)
	}
	age(t, left)
	write(t, filepath.Join(dir, "new"), "2", 0o444)
	if got := names(t, dir); !slices.Equal(got, []string{"new"}) {
		t.Errorf("after the next write: %q", got)
	}
}

// What is not provably a temporary of a Write stays, and holds nobody up.
func TestOthersFilesStay(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	folder, fifo, link := temporary+"1", temporary+"2", temporary+"3"
	files := []string{".tmp-1", temporary, temporary + "+1", temporary + "01", temporary + "1.json", temporary + "99999999999", temporary + "notes", "bestof"}
	want := slices.Sorted(slices.Values(slices.Concat(files, []string{folder, fifo, link, "new"})))
	for _, name := range files {
		write(t, at(name), "x", 0o600)
		age(t, at(name))
	}
	for _, err := range []error{os.Mkdir(at(folder), 0o700), unix.Mkfifo(at(fifo), 0o600), os.Symlink("bestof", at(link))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	age(t, at(folder), at(fifo))
	if os.Getuid() == 0 { // others cannot give a file away
		theirs := temporary + "4"
		write(t, at(theirs), "x", 0o600)
		age(t, at(theirs))
		if err := os.Chown(at(theirs), 1, -1); err != nil {
			t.Fatal(err)
		}
		want = slices.Sorted(slices.Values(append(want, theirs)))
	}
	write(t, at("new"), "x", 0o600)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := Write(at(folder), nil, 0o600); err == nil { // a file is no directory
		t.Error("a directory was replaced")
	}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("after a write that failed: %q", got)
	}
}

// Many may write in one directory: none takes away what another is writing.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 100 {
				data := bytes.Repeat([]byte(strconv.Itoa(i)), 1000)
				if err := Write(filepath.Join(dir, strconv.Itoa(w)), data, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := strings.Join(names(t, dir), ""); got != "01234567" {
		t.Errorf("%q", got)
	}
}
