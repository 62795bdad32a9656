package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/internal/argv"
)

// TestDocsOfDeployment checks what no console block runs: every command of
// bestof that a page or a file of deploy/ names is one, with flags that it has,
// and every file is there.
func TestDocsOfDeployment(t *testing.T) {
	files := []string{"../../../docs/deploy.md", "../../../docs/observability.md"}
	for _, pattern := range []string{"../../../deploy/systemd/*/*", "../../../deploy/kubernetes/*", "../../../deploy/compose.yaml"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	commands := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\((\.\.?/[^)#]+)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
		for _, m := range regexp.MustCompile("(?m)(?:`|ExecStart=\\S*/|^ {4}(?:\\* )*)(bestof (?:[a-z]+ ?)+[^`\n|]*)").FindAllStringSubmatch(string(text), -1) {
			words, err := argv.Split(strings.NewReplacer("…", "", "DIR", "dir").Replace(strings.TrimSpace(m[1])))
			if err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(file), m[1], err)
				continue
			}
			root := (&app{Process: Process{}}).command()
			root.InitDefaultCompletionCmd()
			c, rest, err := root.Find(words[1:])
			if err != nil || c == root {
				t.Errorf("%s: %s is no command: %v", filepath.Base(file), m[1], err)
				continue
			}
			if err := c.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "needs an argument") {
				t.Errorf("%s: %s: %v", filepath.Base(file), m[1], err)
			}
			commands++
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands were found", commands)
	}
}
