// Package wordform brings a text to its words: what is left of a file when the
// white space that means nothing is gone. Where a language gives a meaning to
// the distance of a line from the left, that distance stays. It is pure.
package wordform

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Put calls part with each word of a text in turn. Of a file in which
// indentation means something it does so for each line that is not blank: first
// with what the line begins with, which may be empty, then with its words, then
// with "\n". name is the file's.
func Put(name string, text []byte, part func([]byte)) {
	if !Indented(name, text) {
		for w := range bytes.FieldsSeq(text) {
			part(w)
		}
		return
	}
	end := []byte("\n")
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		part(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
		for w := range bytes.FieldsSeq(line) {
			part(w)
		}
		part(end)
	}
}

// Indented reports whether the distance of a line from the left means something
// in a file: by its name, or for one without an ending by its first line.
func Indented(name string, text []byte) bool {
	base := strings.ToLower(path.Base(name))
	ext := path.Ext(base)
	if ext == "" {
		line, _, _ := bytes.Cut(text[:min(len(text), 200)], []byte("\n"))
		return slices.Contains(names, base) || python.Match(line)
	}
	return slices.Contains(endings, ext) || strings.HasPrefix(base, "makefile.")
}

var python = regexp.MustCompile(`^#!\s*/\S*?(?:/|/env\s+(?:-S\s+)?)python[\d.]*(?:\s|$)`)

// endings and names of files, in lower case.
var (
	endings = strings.Fields(`.py .pyi .pyw .pyx .pxd .pxi .bzl .star .gd .mojo .yml .yaml .mk .mak .make .haml .slim .pug .jade .sass .styl
		.coffee .litcoffee .ls .nim .nims .nimble .fs .fsi .fsx .hs .lhs .elm .purs .agda .idr .scala .sc .md .rst .adoc .patch .diff
		.f .for .ftn .cob .cbl .feature`)
	names = strings.Fields(`makefile gnumakefile justfile snakefile sconstruct sconscript wscript build workspace tiltfile`)
)
