package bwrap_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// TestBwrapThatCannot stands in for machines on which namespaces are forbidden.
func TestBwrapThatCannot(t *testing.T) {
	for script, want := range map[string]string{
		"echo 'bwrap: No permissions to create a new namespace' >&2; exit 1": "No permissions to create a new namespace",
		"kill -9 $$": "it cannot make its namespaces",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := newSandbox(sandbox.Options{Environ: []string{"PATH=" + dir}})
		var u *sandbox.Unavailable
		if !errors.As(err, &u) || !strings.Contains(u.Reason, want) || u.Remedy == "" {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestGrantsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	path := "PATH=" + sandbox.DefaultPath
	for name, o := range map[string]sandbox.Options{
		"relative":                        {Environ: []string{path}, Read: []string{"tools"}},
		"inside a hidden directory":       {Environ: []string{path}, Read: []string{filepath.Join(dir, "x")}, Hidden: []string{dir}},
		"hidden itself":                   {Environ: []string{path}, Read: []string{dir}, Hidden: []string{dir}},
		"a system in a hidden directory":  {Environ: []string{path}, Hidden: []string{"/"}},
		"bwrap in a hidden directory too": {Environ: []string{path}, Hidden: []string{"/usr"}},
	} {
		if s, err := newSandbox(o); err == nil {
			t.Errorf("%s: %v", name, s.Isolation())
		}
	}
}

// TestFailureOfBwrapIsNoResult: what bwrap cannot set up is not the program's
// fault, and a program that talks like bwrap does not make it look so.
func TestFailureOfBwrapIsNoResult(t *testing.T) {
	b, err := newSandbox(sandbox.Options{Environ: []string{"PATH=" + sandbox.DefaultPath}})
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{Argv: []string{"true"}, Root: t.TempDir(), Home: t.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute}
	spec.Binds = []sandbox.Bind{{Source: "/usr/bin/true", Target: "/usr/no/such/place"}} // in a read-only directory
	if res, err := b.Run(t.Context(), spec); err == nil {
		t.Errorf("a bind that cannot be made: %+v", res)
	}
	spec.Binds = nil
	spec.Argv = []string{"sh", "-c", "echo 'bwrap: execvp x: No such file or directory' >&2; exit 1"}
	if res, err := b.Run(t.Context(), spec); err != nil || res.End != sandbox.Exited || res.Code != 1 {
		t.Errorf("a program that talks like bwrap: %+v, %v", res, err)
	}
}

// TestBindsAreReadOnlyAndRenamed shows a host directory elsewhere.
func TestBindsAreReadOnlyAndRenamed(t *testing.T) {
	b, err := newSandbox(sandbox.Options{Environ: []string{"PATH=" + sandbox.DefaultPath}})
	if err != nil {
		t.Fatal(err)
	}
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	res, err := b.Run(t.Context(), sandbox.Spec{
		Argv: []string{"sh", "-c", "cat /given/file; echo x >/given/file; echo x >/given/new; exit 0"},
		Root: t.TempDir(), Home: t.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute,
		Binds: []sandbox.Bind{{Source: from, Target: "/given"}},
	})
	if err != nil || string(res.Stdout.Head) != "content" {
		t.Errorf("%q, %v\n%s", res.Stdout.Head, err, res.Stderr.Head)
	}
	entries, err := os.ReadDir(from)
	content, err2 := os.ReadFile(filepath.Join(from, "file"))
	if len(entries) != 1 || string(content) != "content" || err != nil || err2 != nil {
		t.Errorf("afterwards %v, %q", entries, content)
	}
}

// TestPlantedMountPoint: a link that a program leaves in its home does not
// move where a package cache is shown in the next run.
func TestPlantedMountPoint(t *testing.T) {
	operator := t.TempDir()
	if err := os.MkdirAll(filepath.Join(operator, ".cargo/registry/index"), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := newSandbox(sandbox.Options{Environ: []string{"PATH=" + sandbox.DefaultPath, "HOME=" + operator}})
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{
		Argv: []string{"sh", "-c", `ls "$CARGO_HOME/registry"; echo "$CARGO_HOME"; touch "$CARGO_HOME/x" && ! touch "$CARGO_HOME/registry/x"`},
		Root: t.TempDir(), Home: t.TempDir(), Network: sandbox.NetworkNone, Timeout: time.Minute,
	}
	res, err := b.Run(t.Context(), spec)
	if want := "index\n" + filepath.Join(spec.Home, ".cargo") + "\n"; err != nil || !res.OK() || string(res.Stdout.Head) != want {
		t.Fatalf("%q, %v, want %q\n%s", res.Stdout.Head, err, want, res.Stderr.Head)
	}
	if err := os.RemoveAll(filepath.Join(spec.Home, ".cargo")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(spec.Home, ".cargo")); err != nil {
		t.Fatal(err)
	}
	spec.Argv = []string{"true"}
	if res, err := b.Run(t.Context(), spec); err != nil || !res.OK() {
		t.Errorf("%+v, %v", res, err)
	}
}
