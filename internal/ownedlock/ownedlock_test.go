package ownedlock

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMain holds a lock as another process when it is asked to.
func TestMain(m *testing.M) {
	path := os.Getenv("OWNEDLOCK_TEST_HOLD")
	if path == "" {
		os.Exit(m.Run())
	}
	l, _, err := Take(path, "other")
	if err != nil {
		os.Exit(1)
	}
	os.Stdout.WriteString("held\n")
	io.Copy(io.Discard, os.Stdin) // until it is killed, or the test ends
	l.Release()
}

func TestOneHoldsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, ok := Held(path); ok {
		t.Error("it is held before there is a file")
	}
	l, owner, err := Take(path, "this")
	if err != nil || owner.PID != os.Getpid() || owner.As != "this" {
		t.Fatal(owner, err)
	}
	if _, other, err := Take(path, "that"); !errors.Is(err, ErrHeld) || other != owner {
		t.Errorf("%+v, %v", other, err)
	}
	if held, ok := Held(path); !ok || held != owner {
		t.Errorf("%+v, %v", held, ok)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, ok := Held(path); ok {
		t.Error("it is held after its release")
	}
	if _, _, err := Take(filepath.Join(path, "x"), ""); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("no file can be there: %v", err)
	}
}

// TestAKilledOwnerHoldsNothing: the lock ends with its process, and what the
// file says of that process is not believed.
func TestAKilledOwnerHoldsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OWNEDLOCK_TEST_HOLD="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatal(line, err)
	}
	if _, owner, err := Take(path, ""); !errors.Is(err, ErrHeld) || owner.PID != cmd.Process.Pid || owner.As != "other" {
		t.Errorf("%+v, %v", owner, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if owner, ok := Held(path); ok {
		t.Errorf("the dead hold it: %+v", owner)
	}
	l, _, err := Take(path, "next")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
}

func TestAStrangeFileIsNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for _, text := range []string{"", "{", "null", `{"pid":1,"start_time":1,"boot_id":"x"}`, "\x00\xff"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if owner, ok := Held(path); ok {
			t.Errorf("%q: %+v", text, owner)
		}
		l, _, err := Take(path, "")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
}
