package shebang

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"#!/opt/tools/bin/python3.11\nx\n": {"/opt/tools/bin/python3.11"}, "#! /usr/bin/env python3\r\n": {"/usr/bin/env", "python3"}, "#!/bin/sh -e": {"/bin/sh", "-e"},
		"#!": nil, "#! \nx": nil, "/bin/sh\n": nil, "": nil, "\n#!/bin/sh\n": nil, "\x7fELF\x00": nil,
	} {
		file := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		words, err := Words(file)
		if !slices.Equal(words, want) || (err == nil) != (want != nil) || err != nil && !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %q, %v", text, words, err)
		}
	}
	if _, err := Words("no-such-program"); err == nil {
		t.Error("a program that is not there has an interpreter")
	}
}
