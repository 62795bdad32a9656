package worktree

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A bench is a large repository and what git needs for a work tree of it.
// BESTOF_BENCH_FILES says how large; the ratios are to git in the same run.
type bench struct {
	*testing.B
	dir   string
	repo  *Repository
	store *Store
	n     int
}

func newBench(b *testing.B) *bench {
	b.Helper()
	files := 5000
	if v := os.Getenv("BESTOF_BENCH_FILES"); v != "" {
		var err error
		if files, err = strconv.Atoi(v); err != nil {
			b.Fatal(err)
		}
	}
	b.Setenv("HOME", b.TempDir())
	b.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	x := &bench{B: b, dir: filepath.Join(b.TempDir(), "repo")}
	words := rand.New(rand.NewPCG(1, 2)) // deflates to a third, as source does
	for i := range files {
		at := filepath.Join(x.dir, fmt.Sprintf("d%d/e%d/f%d.txt", i%50, i%500, i))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			b.Fatal(err)
		}
		text := make([]byte, 0, 8000)
		for len(text) < 500+i*7919%6000 {
			for range 1 + words.IntN(10) {
				text = fmt.Appendf(text, "%s%d ", []string{"func", "return", "value", "(ctx)", "err", "if", "name"}[words.IntN(7)], words.IntN(300))
			}
			text = append(text, '\n')
		}
		if err := os.WriteFile(at, text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	x.git("init", "-q")
	x.git("config", "gc.auto", "0")
	x.git("add", "-A")
	x.git("-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "x")
	x.git("repack", "-adq") // as in a clone
	var err error
	if x.repo, err = Open(b.Context(), x.dir); err != nil {
		b.Fatal(err)
	}
	x.store = newStore(b)
	return x
}

func (x *bench) git(args ...string) { run(x.B, x.dir, nil, "git", args...) }

// worktreeAdd makes a work tree in git's way and returns where.
func (x *bench) worktreeAdd() string {
	x.n++
	at := filepath.Join(filepath.Dir(x.dir), "wt"+strconv.Itoa(x.n))
	x.git("worktree", "add", "-q", "--detach", at)
	return at
}

// A cost is what something took: wall time, and processor time of this
// process and its children.
type cost struct{ wall, cpu time.Duration }

func measure(f func()) cost {
	cpu := func() (d time.Duration) {
		for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
			var u syscall.Rusage
			if syscall.Getrusage(who, &u) == nil {
				d += time.Duration(u.Utime.Nano() + u.Stime.Nano())
			}
		}
		return d
	}
	start, before := time.Now(), cpu()
	f()
	return cost{time.Since(start), cpu() - before}
}

func (c *cost) add(d cost) { c.wall += d.wall; c.cpu += d.cpu }

// report states ours as a ratio to git's.
func (x *bench) report(ours, gits cost) {
	x.ReportMetric(float64(ours.wall)/float64(gits.wall), "wall-ratio")
	x.ReportMetric(float64(ours.cpu)/float64(gits.cpu), "cpu-ratio")
	x.ReportMetric(float64(gits.cpu.Milliseconds())/float64(x.N), "git-cpu-ms")
}

func (x *bench) base(kind ShadowKind) *Base {
	return newBase(x.B, x.store, x.repo, BaseSpec{Kind: BaseHead, History: 1, Shadow: kind})
}

func (x *bench) shadow(r *Run, b *Base) *Shadow {
	x.n++
	return newShadow(x.B, r, b, "c"+strconv.Itoa(x.n))
}

// BenchmarkShadowOverlay16 and BenchmarkShadowUserns16 are 16 shadows against
// one git worktree add.
func BenchmarkShadowOverlay16(b *testing.B) { benchmark16(b, ShadowOverlay) }

func BenchmarkShadowUserns16(b *testing.B) { benchmark16(b, ShadowUserns) }

func benchmark16(b *testing.B, kind ShadowKind) {
	x := newBench(b)
	base, r := x.base(kind), newRun(b, x.store)
	var ours, gits cost
	for b.Loop() {
		gits.add(measure(func() { x.worktreeAdd() }))
		var made []*Shadow
		ours.add(measure(func() {
			for range 16 {
				made = append(made, x.shadow(r, base))
			}
		}))
		for _, sh := range made {
			if err := sh.Remove(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	x.report(ours, gits)
}

// BenchmarkShadowStatus is git status in the user's own work tree against one
// git worktree add: what finding a base again has to be compared with.
func BenchmarkShadowStatus(b *testing.B) {
	x := newBench(b)
	var ours, gits cost
	for b.Loop() {
		gits.add(measure(func() { x.worktreeAdd() }))
		ours.add(measure(func() { x.git("status", "--porcelain") }))
	}
	x.report(ours, gits)
}

// BenchmarkShadowCopy is one copy against one git worktree add, with its first
// git status against a later one.
func BenchmarkShadowCopy(b *testing.B) {
	x := newBench(b)
	base, r := x.base(ShadowCopy), newRun(b, x.store)
	base.index()
	var ours, gits, first, warm cost
	for b.Loop() {
		gits.add(measure(func() { x.worktreeAdd() }))
		var sh *Shadow
		ours.add(measure(func() { sh = x.shadow(r, base) }))
		status := func() { run(b, sh.Root(), nil, "git", "status", "--porcelain") }
		first.add(measure(status))
		warm.add(measure(status))
	}
	x.report(ours, gits)
	b.ReportMetric(float64(first.cpu)/float64(warm.cpu), "first-status-cpu-ratio")
}

// BenchmarkShadowBaseCold and BenchmarkShadowBaseColdSnapshot make a base of
// a commit, and of the tree as it is, against one git worktree add.
func BenchmarkShadowBaseCold(b *testing.B) { benchmarkCold(b, BaseHead) }

func BenchmarkShadowBaseColdSnapshot(b *testing.B) { benchmarkCold(b, BaseSnapshot) }

func benchmarkCold(b *testing.B, kind BaseKind) {
	x := newBench(b)
	var ours, gits cost
	for b.Loop() {
		gits.add(measure(func() { x.worktreeAdd() }))
		store := newStore(b)
		ours.add(measure(func() {
			base, err := store.Base(b.Context(), x.repo, BaseSpec{Kind: kind, History: 1})
			if err != nil {
				b.Fatal(err)
			}
			base.Close()
		}))
	}
	x.report(ours, gits)
}

// BenchmarkShadowBaseWarm finds a base of the tree as it is again, against
// one git worktree add.
func BenchmarkShadowBaseWarm(b *testing.B) {
	x := newBench(b)
	spec := BaseSpec{Kind: BaseSnapshot, History: 1}
	newBase(b, x.store, x.repo, spec)
	var ours, gits cost
	for b.Loop() {
		gits.add(measure(func() { x.worktreeAdd() }))
		ours.add(measure(func() {
			base, err := x.store.Base(b.Context(), x.repo, spec)
			if err != nil {
				b.Fatal(err)
			}
			base.Close()
		}))
	}
	x.report(ours, gits)
}

// BenchmarkShadowRemove16 removes 16 against as many git worktree removes.
func BenchmarkShadowRemove16(b *testing.B) {
	x := newBench(b)
	base, r := x.base(ShadowOverlay), newRun(b, x.store)
	var ours, gits cost
	for b.Loop() {
		at := x.worktreeAdd()
		one := measure(func() { x.git("worktree", "remove", "--force", at) })
		for range 16 {
			gits.add(one)
		}
		var shadows []*Shadow
		for range 16 {
			shadows = append(shadows, x.shadow(r, base))
		}
		ours.add(measure(func() {
			for _, sh := range shadows {
				if err := sh.Remove(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}))
	}
	x.report(ours, gits)
}

func benchmarkSeal(b *testing.B, kind ShadowKind) {
	x := newBench(b)
	base, r := x.base(kind), newRun(b, x.store)
	base.index()
	var ours, gits cost
	for b.Loop() {
		sh := x.shadow(r, base)
		for i := range 100 {
			at := base.entries[i*len(base.entries)/100].path
			if err := os.WriteFile(filepath.Join(sh.Root(), at), []byte(fmt.Sprintf("edit %d %d\n", i, x.n)), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		var sealed *Sealed
		ours.add(measure(func() { sealed = seal(b, sh) }))
		index, err := os.ReadFile(filepath.Join(sh.Root(), ".git/index"))
		if err != nil {
			b.Fatal(err)
		}
		private := filepath.Join(sh.dir, "index")
		if err := os.WriteFile(private, index, 0o600); err != nil {
			b.Fatal(err)
		}
		var out []byte
		gits.add(measure(func() {
			cmd := exec.Command("sh", "-c", "git add -A && git write-tree")
			cmd.Dir = sh.Root()
			cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+private)
			out, err = cmd.Output()
		}))
		if err != nil || string(out) != string(sealed.Tree)+"\n" {
			b.Fatalf("git says %s, %v; we say %s", out, err, sealed.Tree)
		}
	}
	x.report(ours, gits)
}

// BenchmarkShadowSealOverlay and BenchmarkShadowSealCopy read 100 edits back,
// against git add -A and git write-tree through a private index.
func BenchmarkShadowSealOverlay(b *testing.B) { benchmarkSeal(b, ShadowOverlay) }

// BenchmarkShadowSealCopy is the same for a copy.
func BenchmarkShadowSealCopy(b *testing.B) { benchmarkSeal(b, ShadowCopy) }
