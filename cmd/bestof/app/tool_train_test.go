package app

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

// choices N records the last run N times more, each time with a task and times
// of its own, as if each had been adopted as the last was.
func cmdChoices(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	records, err := record.Open(ts.MkAbs("."), ts.Getenv("BESTOF_HOME")+"/runs")
	ts.Check(err)
	defer records.Close()
	doc, err := records.Load("last")
	ts.Check(err)
	for i := range n {
		w, err := records.Create(record.Owner{}, func() string { return record.NewID(time.Now(), uint32(i)) })
		ts.Check(err)
		doc.Run, doc.Task, doc.Candidates = w.ID(), fmt.Sprint("task ", i), slices.Clone(doc.Candidates)
		for k := range doc.Candidates {
			doc.Candidates[k].DurationMS = int64(100 + i*17%89 + k*i%7) // no two pieces of work are the same
		}
		ts.Check(w.Finish(doc))
		ts.Check(w.Close())
	}
}

// TestWhatProvesToolsIsThere: docs/tools-conformance.md names only tests and
// scripts that exist, in the package that it says.
func TestWhatProvesToolsIsThere(t *testing.T) {
	const top = "../../.."
	page, err := os.ReadFile(top + "/docs/tools-conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]string{} // package → its tests' source
	source := func(pkg string) string {
		if _, known := has[pkg]; !known {
			files, err := filepath.Glob(filepath.Join(top, pkg, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("the package %s has no tests: %v", pkg, err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				has[pkg] += string(b)
			}
		}
		return has[pkg]
	}
	rows := 0
	for line := range strings.SplitSeq(string(page), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 || !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise") {
			continue
		}
		rows++
		proofs, pkg := 0, ""
		for _, m := range regexp.MustCompile("`([a-z_/]+)`|\\b((?:Test|Fuzz)[A-Z]\\w*)|`(\\w+\\.txtar)`").FindAllStringSubmatch(cells[1], -1) {
			switch {
			case m[2] != "":
				proofs++
				if !strings.Contains(source(pkg), "func "+m[2]+"(") {
					t.Errorf("%s has no test %s", pkg, m[2])
				}
			case m[3] != "":
				proofs++
				if _, err := os.Stat("testdata/script/" + m[3]); err != nil {
					t.Error(err)
				}
			case strings.Contains(m[1], "/") || m[1] == "orchestrator" || m[1] == "judge" || m[1] == "worktree":
				pkg = m[1]
			}
		}
		if proofs == 0 {
			t.Errorf("nothing proves %q", cells[0])
		}
	}
	if rows < 40 {
		t.Errorf("%d rows", rows)
	}
}
