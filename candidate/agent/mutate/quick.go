package mutate

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quickEnv adds what makes runs of the search cheaper or repeatable. A pass is
// always confirmed without the cheaper part.
func quickEnv(env []string) []string {
	return append(slices.Clone(env),
		"JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
		"PYTHONFAULTHANDLER=1",
	)
}

// quickCommand is a cheaper command that fails whenever test fails for the
// reason seen in output; it may pass more often.
func quickCommand(test []string, output, dir string) []string {
	switch {
	case isGoTest(test):
		extra := []string{"-vet=off", "-failfast", "-ldflags=-w"}
		if failing := goFailing(output); failing != "" && !hasFlag(test, "run") {
			extra = append(extra, "-run", failing)
		}
		return slices.Insert(slices.Clone(test), 2, extra...)
	case len(test) == 3 && filepath.Base(test[0]) == "node" && test[1] == "--test":
		// Without --test the file's tests run in the first process, not a second.
		if info, err := os.Stat(filepath.Join(dir, test[2])); err == nil && info.Mode().IsRegular() {
			return []string{test[0], test[2]}
		}
	}
	return test
}

func isGoTest(test []string) bool {
	return len(test) >= 2 && filepath.Base(test[0]) == "go" && test[1] == "test"
}

func hasFlag(argv []string, name string) bool {
	return slices.ContainsFunc(argv, func(a string) bool {
		a = strings.TrimLeft(a, "-")
		return a == name || strings.HasPrefix(a, name+"=")
	})
}

var goFail = regexp.MustCompile(`(?m)^--- FAIL: (Test\w+)|^\s*(?:panic|\S+\.)?.*\b(Test\w+)\(0x`)

// goFailing is a -run pattern for the tests that failed.
func goFailing(output string) string {
	var names []string
	for _, m := range goFail.FindAllStringSubmatch(output, 50) {
		if name := m[1] + m[2]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// coverage learns which lines run in failing tests, where the toolchain tells
// for the price of a run or two. It returns nil where it does not.
func (a *agent) coverage(ctx context.Context, base result) *spectrum {
	limit := min(4*base.took+10*time.Second, time.Until(a.deadline)/4)
	switch {
	case a.server != nil:
		if base.hung {
			limit = min(base.took+time.Second, limit)
		}
		return a.server.coverage(ctx, a.job.Root, a.scratch, limit)
	case isGoTest(a.job.Test) && !base.hung:
		return a.goCoverage(ctx, base.output, limit)
	case filepath.Base(a.job.Test[0]) == "node" && !base.hung:
		return a.nodeCoverage(ctx, limit)
	}
	return nil
}

func (a *agent) goCoverage(ctx context.Context, output string, limit time.Duration) *spectrum {
	failing := goFailing(output)
	if failing == "" || hasFlag(a.job.Test, "run") || hasFlag(a.job.Test, "coverprofile") {
		return nil
	}
	sp := newSpectrum()
	for _, which := range []string{"-run", "-skip"} {
		profile := filepath.Join(a.scratch, "cover"+which)
		argv := slices.Insert(slices.Clone(a.job.Test), 2, "-vet=off", "-coverprofile="+profile, which, failing)
		run(ctx, a.dir, a.env, argv, limit, false)
		b, err := os.ReadFile(profile)
		if err != nil {
			continue
		}
		failed := which == "-run"
		if failed {
			sp.failed++
		} else {
			sp.passed++
		}
		for _, block := range goBlocks(string(b)) {
			p, ok := resolve(block.path, a.scene.order)
			if !ok {
				continue
			}
			for n := block.from; n <= block.to; n++ {
				if m := sp.inFailed; failed && m[p][n] == 0 || !failed && sp.inPass[p][n] == 0 {
					sp.add(failed, p, n)
				}
			}
		}
	}
	return sp
}

type block struct {
	path     string
	from, to int
}

// goBlocks reads the blocks of a cover profile that ran.
func goBlocks(profile string) []block {
	var blocks []block
	lines := bufio.NewScanner(strings.NewReader(profile))
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), ".go:")
		fields := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("., ", r) })
		if !ok || len(fields) != 6 || fields[5] == "0" {
			continue
		}
		from, err1 := strconv.Atoi(fields[0])
		to, err2 := strconv.Atoi(fields[2])
		if err1 == nil && err2 == nil && from > 0 && to-from < 100_000 {
			blocks = append(blocks, block{name + ".go", from, to})
		}
	}
	return blocks
}

// nodeCoverage reads what V8 writes when a process ends.
func (a *agent) nodeCoverage(ctx context.Context, limit time.Duration) *spectrum {
	dir := filepath.Join(a.scratch, "v8")
	run(ctx, a.dir, append(slices.Clone(a.env), "NODE_V8_COVERAGE="+dir), a.quick, limit, false)
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil
	}
	sp := newSpectrum()
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || len(b) > 64<<20 {
			continue
		}
		var c struct {
			Result []struct {
				URL       string `json:"url"`
				Functions []struct {
					Ranges []struct{ StartOffset, EndOffset, Count int } `json:"ranges"`
				} `json:"functions"`
			} `json:"result"`
		}
		if json.Unmarshal(b, &c) != nil {
			continue
		}
		for _, r := range c.Result {
			u, err := url.Parse(r.URL)
			if err != nil || u.Scheme != "file" {
				continue
			}
			rel, err := filepath.Rel(a.job.Root, u.Path)
			f := a.scene.files[filepath.ToSlash(rel)]
			if err != nil || f == nil {
				continue
			}
			sp.failed = 1
			counts := make([]int, len(f.src)) // inner ranges follow outer ones
			for _, fn := range r.Functions {
				for _, g := range fn.Ranges {
					for i := max(g.StartOffset, 0); i < min(g.EndOffset, len(counts)); i++ {
						counts[i] = g.Count
					}
				}
			}
			for _, t := range f.toks {
				if counts[t.start] > 0 && sp.inFailed[f.path][t.line] == 0 {
					sp.add(true, f.path, t.line)
				}
			}
		}
	}
	if sp.failed == 0 {
		return nil
	}
	return sp
}
