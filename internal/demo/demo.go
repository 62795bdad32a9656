// Package demo holds small repositories with a real bug and a failing test,
// for a first look at the program on a fresh machine.
package demo

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A Demo is one small repository.
type Demo struct {
	Name  string
	Files map[string][]byte // slash path → content
	Test  []string          // fails on Files as they are
	Task  string
}

// ErrNoToolchain means that no demo can run here.
var ErrNoToolchain = errors.New("the demo needs python3, node, go, or cc and make on PATH")

// Names that would make a directory part of this module, or be taken for its
// settings, are kept with a .txt ending.
//
//go:embed repos
var repos embed.FS

var stored = map[string]string{"gitignore.txt": ".gitignore", "go.mod.txt": "go.mod"}

var catalogue = []struct {
	name     string
	programs []string
	test     []string
	task     string
}{
	{"python", []string{"python3"}, []string{"python3", "-m", "unittest", "-q"},
		"A stay of exactly one hour is charged as two. Make the failing test pass."},
	{"node", []string{"node"}, []string{"node", "--test", "playlist.test.js"},
		"A track that would just fill the disc is left out. Make the failing tests pass."},
	{"go", []string{"go"}, []string{"go", "test", "./..."},
		"An account cannot be emptied. Make the failing tests pass."},
	{"c", []string{"cc", "make"}, []string{"make", "-s", "test"},
		"A full ring takes one more number and loses the oldest. Make the failing test pass."},
}

// Pick returns the first demo whose programs look finds.
func Pick(look func(program string) bool) (Demo, error) {
	for _, c := range catalogue {
		if slices.ContainsFunc(c.programs, func(p string) bool { return !look(p) }) {
			continue
		}
		files, err := read(path.Join("repos", c.name))
		if err != nil {
			return Demo{}, fmt.Errorf("read the %s demo: %w", c.name, err)
		}
		return Demo{Name: c.name, Files: files, Test: slices.Clone(c.test), Task: c.task}, nil
	}
	return Demo{}, ErrNoToolchain
}

func read(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	return files, fs.WalkDir(repos, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := repos.ReadFile(name)
		rel := strings.TrimPrefix(name, dir+"/")
		if as, ok := stored[rel]; ok {
			rel = as
		} else {
			rel = strings.TrimSuffix(rel, ".txt")
		}
		files[rel] = b
		return err
	})
}
