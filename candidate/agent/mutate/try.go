package mutate

import (
	"context"
	"fmt"
	"go/parser"
	gotoken "go/token"
	"iter"
	"os"
	"time"
)

// try puts edits into the tree and runs the test. When it passes, twice, they
// stay; otherwise every file is as it was before.
func (a *agent) try(ctx context.Context, edits ...edit) (found bool, err error) {
	texts := combine(edits)
	for f, text := range texts {
		if !plausible(f, text) {
			a.skipped++
			return false, nil
		}
	}
	defer func() {
		if found {
			return
		}
		for f := range texts {
			if back := a.write(f, f.src); back != nil && err == nil {
				err = back
			}
		}
	}()
	check := ""
	for f, text := range texts {
		if err := a.write(f, text); err != nil {
			return false, err
		}
		if f.lang.name == "python" && len(texts) == 1 && !a.retrying {
			check = a.tree.abs(f.path)
		}
	}
	r, skipped := a.runTry(ctx, check)
	switch {
	case skipped:
		a.skipped++
		return false, nil
	case ctx.Err() != nil:
		return false, nil
	case r.hung:
		a.hung++
		if len(edits) == 1 {
			a.slow = append(a.slow, edits[0])
		}
	}
	a.tried++
	if !r.passed() {
		return false, nil
	}
	limit := max(10*a.limit, 10*time.Second)
	for range 2 {
		if r := a.run(ctx, a.job.Test, a.plain, limit, false); !r.passed() || ctx.Err() != nil {
			return false, nil
		}
	}
	return true, nil
}

func (a *agent) runTry(ctx context.Context, check string) (r result, skipped bool) {
	if a.server != nil {
		r, skipped, err := a.server.run(ctx, true, check, a.limit)
		if err == nil {
			return r, skipped
		}
		a.server.close()
		a.server = nil
		if ctx.Err() != nil {
			return result{hung: true}, false
		}
	}
	return a.run(ctx, a.quick, a.env, a.limit, false), false
}

// write replaces a file's content in place, which keeps its mode and links, and
// makes sure of it.
func (a *agent) write(f *file, text string) error {
	name := a.tree.abs(f.path)
	if err := os.WriteFile(name, []byte(text), a.tree.entries[f.path].mode.Perm()); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != text {
		return fmt.Errorf("write %s: it does not hold what was written", f.path)
	}
	return nil
}

// combine gives the texts of the files with edits that do not overlap in them.
func combine(edits []edit) map[*file]string {
	texts := map[*file]string{}
	if len(edits) == 2 && edits[0].file == edits[1].file {
		a, b := edits[0], edits[1]
		if b.start < a.start {
			a, b = b, a
		}
		src := a.file.src
		texts[a.file] = src[:a.start] + a.text + src[a.end:b.start] + b.text + src[b.end:]
		return texts
	}
	for _, e := range edits {
		texts[e.file] = e.apply()
	}
	return texts
}

// plausible reports whether a text is worth a run: it has to parse, as far as
// that can be told here.
func plausible(f *file, text string) bool {
	if f.lang.name == "go" {
		_, err := parser.ParseFile(gotoken.NewFileSet(), f.path, text, parser.SkipObjectResolution)
		return err == nil
	}
	return balanced(f.lang.lex(text)) || !balanced(f.toks)
}

// pairSources bounds the edits that are tried two at a time: the best ones.
const pairSources = 400

// pairs yields pairs of edits that do not overlap, the ones with the best edits
// first, as dealt out to one of n candidates.
func pairs(edits []edit, candidate, n int) iter.Seq[[2]edit] {
	return func(yield func([2]edit) bool) {
		edits = edits[:min(len(edits), pairSources)]
		count := 0
		for sum := 1; sum < 2*len(edits)-2; sum++ {
			for i := max(0, sum-len(edits)+1); 2*i < sum; i++ {
				a, b := edits[i], edits[sum-i]
				if a.file == b.file && a.start <= b.end && b.start <= a.end {
					continue
				}
				if count++; count%n == candidate%n && !yield([2]edit{a, b}) {
					return
				}
			}
		}
	}
}
