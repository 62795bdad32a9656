// Package demo holds small repositories with a real bug and a failing test,
// for a first look at the program on a fresh machine.
package demo

import (
	"errors"
)

// A Demo is one small repository.
type Demo struct {
	Name  string
	Files map[string][]byte // slash path → content
	Test  []string          // fails on Files as they are
	Task  string
}

// ErrNoToolchain means that no demo can run here.
var ErrNoToolchain = errors.New("the demo needs one of python3, node, go or cc on PATH")

// Pick returns the first demo whose programs look finds.
func Pick(look func(program string) bool) (Demo, error) {
	return Demo{}, ErrNoToolchain
}
