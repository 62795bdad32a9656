package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/stricttoml"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
	"github.com/bestof-dev/bestof/worktree"
)

// A batchPlan is a batch of which everything was checked.
type batchPlan struct {
	app      *app
	o        *batchOptions
	file     fileConfig
	site     *site // without a repository
	dir      string
	input    string
	specs    []batch.Spec
	seats    []orchestrator.Seat
	limits   batch.Limits
	uses     func(mcp.Use)
	planning sync.Mutex
	turns    turnCache
	lookouts lookouts
	word     string   // by which this start's runs share bases
	copied   []string // mirrors that were made to look into them
	made     []string // directories that were made for those, the inmost first
}

// planBatch reads and checks everything. What is wrong with the input or the
// way in which it is to be run is in the problems; an error is anything else. The
// plan is there in any case: its unmake takes away what was made for looking.
func (a *app) planBatch(ctx context.Context, o *batchOptions, file fileConfig, home, dir, input string, counted bool) (*batchPlan, []task.Problem, error) {
	p := &batchPlan{app: a, o: o, file: file, dir: dir, turns: turnCache{}, lookouts: lookouts{}}
	var problems []task.Problem
	found := func(where string, err error) {
		if err != nil {
			problems = append(problems, task.Problem{Where: where, Text: err.Error()})
		}
	}
	var err error
	if p.site, err = a.batchSite(home); err != nil {
		return p, nil, err
	}
	p.limits, err = o.limits.limits(o.run, time.Now())
	found("", err)
	_, _, err = reportFormats(o.reports)
	found("--test-report", err)
	p.seats, _, err = seatsOf(o.run, file, counted)
	found("", err)
	o.run.candidates = max(1, len(p.seats))
	if !filepath.IsAbs(input) {
		input = filepath.Join(a.dir, input)
	}
	if p.input, err = filepath.Abs(input); err != nil {
		return p, nil, err
	}
	tasks, more, err := a.readTasks(o, p.input)
	if err != nil {
		return p, nil, err
	}
	problems = append(problems, more...)
	if p.specs, more, err = a.resolveTasks(ctx, p, tasks); err != nil {
		return p, nil, err
	}
	problems = append(problems, more...)
	if len(problems) > 0 || len(p.specs) == 0 {
		return p, problems, nil
	}
	// What is wrong with the flags is found once, with the first task that is here:
	// a dry run does not copy what is known by a URL alone.
	first := slices.IndexFunc(p.specs, func(s batch.Spec) bool { return s.Dir != "" })
	if first < 0 {
		return p, problems, nil
	}
	if _, err := p.turn(ctx, p.specs[first]); err != nil {
		if code := exitStatus(err); code != orchestrator.ExitUsage {
			return p, nil, err
		}
		found("", err)
	}
	return p, problems, nil
}

// batchSite is what all tasks share.
func (a *app) batchSite(home string) (*site, error) {
	store, scratch, err := a.store(home, "")
	if err != nil {
		return nil, err
	}
	return &site{home: home, scratch: scratch, store: store}, nil
}

// readTasks reads the input and picks of it what was asked for.
func (a *app) readTasks(o *batchOptions, input string) ([]task.Task, []task.Problem, error) {
	src, done, err := openTasks(input)
	if err != nil {
		return nil, nil, err
	}
	in, problems := task.Read(src)
	if err := done(); err != nil {
		return nil, nil, fmt.Errorf("read the tasks: %w", err)
	}
	for _, w := range in.Warnings {
		a.warn("%s", w)
	}
	var s task.Selection
	s.Select, s.Exclude = sortedWords(o.selects), sortedWords(o.exclude)
	if o.shard != "" {
		if s.Shard, err = task.ParseShard(o.shard); err != nil {
			problems = append(problems, task.Problem{Where: "--shard", Text: err.Error()})
		}
	}
	if o.shuffle != "" {
		seed, err := strconv.ParseUint(o.shuffle, 10, 64)
		if err != nil {
			problems = append(problems, task.Problem{Where: "--shuffle", Text: "write a number"})
		}
		s.Shuffle = &seed
	}
	if len(in.Tasks) == 0 {
		return nil, problems, nil // or each that is asked for would be missed
	}
	chosen, more := task.Select(in.Tasks, s)
	return chosen, append(problems, more...), nil
}

// resolveTasks finds repositories and commits, and what decides each task.
func (a *app) resolveTasks(ctx context.Context, p *batchPlan, tasks []task.Task) ([]batch.Spec, []task.Problem, error) {
	o := p.o
	places := task.Places{From: filepath.Dir(p.input)}
	var missing []task.Problem
	for _, dir := range []struct {
		name     string
		flag, to *string
	}{{"repo", &o.repo, &places.Repo}, {"repos", &o.repos, &places.Repos}} {
		if *dir.flag == "" {
			continue
		}
		abs, err := filepath.Abs(filepath.Join(a.dir, *dir.flag))
		if filepath.IsAbs(*dir.flag) {
			abs, err = *dir.flag, nil
		}
		if err != nil {
			return nil, nil, err
		}
		*dir.to = abs
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			missing = append(missing, task.Problem{Where: "--" + dir.name, Text: fmt.Sprintf("there is no directory %s", *dir.flag)})
		}
	}
	if o.mapFile != "" {
		var err error
		if places.Map, err = readMap(a.absolute(o.mapFile), o.mapFile); err != nil {
			return nil, nil, err
		}
	}
	w := &batchWorld{ctx: ctx, repos: map[string]*worktree.Repository{}, ask: !o.run.dryRun}
	w.engine = sync.OnceValues(func() (*docker.Engine, error) {
		return docker.Open(ctx, sandbox.Options{Environ: a.Environ}, docker.Options{})
	})
	defer w.close()
	if o.run.sandbox != "docker" {
		a.tellImages(tasks)
		w.engine = nil
	}
	resolved, problems := make([]task.Resolved, len(tasks)), missing
	if len(missing) == 0 { // else each task would be missed, or found elsewhere
		resolved, problems = task.Resolve(tasks, places, w)
	}
	if ref := o.run.image.ref; ref != "" && w.engine != nil && slices.ContainsFunc(tasks, func(t task.Task) bool { return t.Image == "" }) {
		problems = append(problems, task.Missing("--image", ref, w)...)
	}
	problems = append(problems, p.reach(ctx, w, tasks, resolved)...)
	var specs []batch.Spec
	common, err := splitCommand("--test", o.run.test)
	if err != nil {
		problems = append(problems, task.Problem{Text: err.Error()})
	}
	for i, t := range tasks {
		if len(t.Test) == 0 {
			t.Test = common
		}
		if len(t.Test) == 0 && o.run.allow != "undecided" {
			problems = append(problems, task.Problem{Where: t.Where, Text: t.ID + ": nothing decides it: it has no test, and there is no --test"})
		}
		if len(t.Statement) > maxTask {
			problems = append(problems, task.Problem{Where: t.Where, Text: fmt.Sprintf("%s: its statement is longer than %d bytes", t.ID, maxTask)})
		}
		specs = append(specs, batch.Spec{Task: t, Dir: resolved[i].Dir, Commit: resolved[i].Commit})
	}
	for dir := range w.repos {
		if p.dir != "" && w.repos[dir] != nil && within(p.dir, w.repos[dir].Root()) {
			problems = append(problems, task.Problem{Where: "--out", Text: fmt.Sprintf("%s is inside the repository %s: choose a directory outside of it", p.dir, dir)})
		}
	}
	return specs, problems, nil
}

// reach copies the repositories that are known by a URL alone, and looks for
// the commits in them. A dry run reaches nothing.
func (p *batchPlan) reach(ctx context.Context, w *batchWorld, tasks []task.Task, resolved []task.Resolved) (problems []task.Problem) {
	mirrors := map[string]error{}
	for i := range resolved {
		r := &resolved[i]
		if r.URL == "" || p.o.run.dryRun || p.dir == "" {
			continue
		}
		at := filepath.Join(p.dir, "repos", task.MapID(r.URL)+".git")
		err, tried := mirrors[r.URL]
		if !tried {
			if _, lerr := os.Lstat(at); lerr != nil {
				p.app.warn("copying %s", r.URL)
				p.noteMissing(filepath.Dir(at))
				if err = worktree.Mirror(ctx, r.URL, at); err == nil {
					p.copied = append(p.copied, at)
				}
			}
			mirrors[r.URL] = err
		}
		if err == nil {
			r.Dir = at
			r.Commit, err = w.Commit(at, tasks[i].BaseCommit)
			if err == nil && r.Commit == "" {
				err = fmt.Errorf("the repository %s has no commit %q", r.URL, tasks[i].BaseCommit)
			}
		}
		if err != nil {
			problems = append(problems, task.Problem{Where: tasks[i].Where, Text: tasks[i].ID + ": " + err.Error()})
		}
	}
	return problems
}

// noteMissing notes a directory that is about to be made, with those above it.
func (p *batchPlan) noteMissing(dir string) {
	for !slices.Contains(p.made, dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return
		}
		p.made = append(p.made, dir)
		dir = filepath.Dir(dir)
	}
}

// unmake removes what a batch made that is refused before it began. A directory
// in which somebody else put something stays.
func (p *batchPlan) unmake() {
	for _, at := range p.copied {
		if err := os.RemoveAll(at); err != nil {
			p.app.warn("the copy %s is left: %v", at, err)
		}
	}
	for _, dir := range p.made {
		_ = os.Remove(dir) // not empty: it is another's too
	}
}

// readMap reads where repositories are.
func readMap(path, shown string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--map: %w", err)
	}
	var m struct {
		Repos map[string]string `toml:"repos"`
	}
	if err := stricttoml.Decode(shown, data, &m); err != nil {
		return nil, usageError{err}
	}
	return m.Repos, nil
}

// A batchWorld looks at repositories.
type batchWorld struct {
	ctx    context.Context
	repos  map[string]*worktree.Repository
	engine func() (*docker.Engine, error) // nil where images are not used
	opened bool
	ask    bool // registries too
}

func (w *batchWorld) close() {
	if w.opened {
		if e, err := w.engine(); err == nil {
			_ = e.Close()
		}
	}
}

func (w *batchWorld) open(dir string) (*worktree.Repository, error) {
	if r, ok := w.repos[dir]; ok {
		return r, nil
	}
	r, err := worktree.OpenAny(w.ctx, dir)
	if err == nil {
		w.repos[dir] = r
	}
	return r, err
}

// Repository implements task.World.
func (w *batchWorld) Repository(dir string) (bool, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return false, nil
	}
	r, err := w.open(dir)
	return err == nil && r.Prefix() == "", err
}

// Commit implements task.World.
func (w *batchWorld) Commit(dir, rev string) (string, error) {
	r, err := w.open(dir)
	if err != nil {
		return "", err
	}
	if rev == "" {
		return r.Head(), nil
	}
	id, err := r.Resolve(w.ctx, rev)
	if err != nil {
		return "", w.ctx.Err() // it names no commit
	}
	return id, nil
}

// Image implements task.World: images are pulled when they are needed, and must
// be there to be pulled.
func (w *batchWorld) Image(reference string) (bool, error) {
	if w.engine == nil {
		return true, nil
	}
	w.opened = true
	e, err := w.engine()
	if err != nil {
		return false, err
	}
	return e.Exists(w.ctx, reference, w.ask)
}

// tellImages says of tasks that name images that nothing uses them.
func (a *app) tellImages(tasks []task.Task) {
	n := 0
	for _, t := range tasks {
		if t.Image != "" {
			n++
		}
	}
	switch {
	case n == 1:
		a.warn("1 task names an image, which only --sandbox docker uses")
	case n > 1:
		a.warn("%d tasks name an image, which only --sandbox docker uses", n)
	}
}

// limits checks and reads what a start may use.
func (o *limitOptions) limits(r runOptions, now time.Time) (batch.Limits, error) {
	var l batch.Limits
	micro, err := dollars(o.usd)
	switch {
	case r.jobs < 1:
		return l, usagef("--jobs: write a number from 1")
	case o.wall < 0:
		return l, usagef("--budget-wall: write a length of time, for example 8h")
	case o.tokens < 0:
		return l, usagef("--budget-tokens: write a number of tokens")
	case err != nil:
		return l, usagef("--budget-usd: %w", err)
	}
	l = batch.Limits{Jobs: r.jobs, Tokens: o.tokens, MicroUSD: micro}
	if o.wall > 0 {
		l.Until = now.Add(o.wall)
	}
	l.Need.CPU = int(r.image.cpus * 1000)
	if l.CPU = int(o.cpus * 1000); l.CPU == 0 {
		l.CPU = runtime.NumCPU() * 1000
	}
	for _, size := range []struct {
		flag, text string
		to         *int64
	}{{"--memory", r.image.memory, &l.Need.Memory}, {"--machine-memory", o.memory, &l.Memory}, {"--disk-short", o.disk, &o.room}} {
		if size.text == "" || size.text == "0" {
			continue
		}
		if *size.to, err = parseSize(size.text); err != nil {
			return l, usagef("%s: %w", size.flag, err)
		}
	}
	return l, nil
}

// short reports whether less space is free than there should be, where shadows
// are or where the batch is.
func (p *batchPlan) short() bool {
	for _, dir := range []string{p.site.scratch, p.dir} {
		if free, err := freeBytes(dir); err == nil && free < p.o.limits.room {
			return true
		}
	}
	return false
}

// worst is the most time that the batch takes if every candidate and every run
// of a test takes all of its time and the host fails nothing. Each verification
// may run the test twice, and there is one after each hold; hidden tests allow
// no hold and have the test run once more on the base. Who runs at -j whatever
// may run needs at most the share of all work and what of the longest chain,
// a base and then a candidate, the others cannot help with.
func (p *batchPlan) worst() time.Duration {
	r := p.o.run
	tests := 2 * time.Duration(max(1, r.repeat)) * r.testTimeout
	var all, chain time.Duration
	for _, s := range p.specs {
		base, each := tests, r.timeout+tests
		if len(s.Task.TestPatch)+len(s.Task.TestFiles) > 0 {
			base += r.testTimeout
		} else {
			each += time.Duration(r.holds) * tests
		}
		all += base + time.Duration(len(p.seats))*each
		chain = max(chain, base+each)
	}
	jobs := time.Duration(max(1, p.limits.Jobs))
	return all/jobs + chain/jobs*(jobs-1)
}

// printBatchPlan says what a batch would do and the most that it could take.
func (a *app) printBatchPlan(p *batchPlan) error {
	var repos, tests []string
	hidden, named := 0, 0
	for _, s := range p.specs {
		for list, word := range map[*[]string]string{&repos: cmp.Or(s.Dir, s.Task.Repo), &tests: argv.Join(s.Task.Test)} {
			if !slices.Contains(*list, word) {
				*list = append(*list, word)
			}
		}
		if len(s.Task.TestPatch)+len(s.Task.TestFiles) > 0 {
			hidden++
		}
		if len(s.Task.FailToPass)+len(s.Task.PassToPass) > 0 {
			named++
		}
	}
	jobs := max(1, p.limits.Jobs)
	worst := p.worst()
	if p.o.limits.wall > 0 {
		worst = min(worst, p.o.limits.wall)
	}
	if a.json {
		var ids []string
		for _, s := range p.specs {
			ids = append(ids, s.Task.ID)
		}
		return a.printJSON(struct {
			Schema       string   `json:"schema"`
			Tasks        []string `json:"tasks"`
			Candidates   int      `json:"candidates"`
			Jobs         int      `json:"jobs"`
			WorstSeconds int64    `json:"worst_seconds"`
			BudgetWall   int64    `json:"budget_wall_seconds"`
			BudgetTokens int64    `json:"budget_tokens"`
			BudgetUSD    float64  `json:"budget_usd"`
		}{"bestof.batch-plan/1", ids, len(p.seats), jobs, int64(worst.Seconds()), int64(p.o.limits.wall.Seconds()), p.o.limits.tokens, p.o.limits.usd})
	}
	money := "no budget: as much as the agents take"
	if p.o.limits.tokens > 0 || p.o.limits.usd > 0 {
		money = fmt.Sprintf("%d tokens, %.2f dollars (0: no budget), where agents report them", p.o.limits.tokens, p.o.limits.usd)
	}
	from := "1 repository"
	if len(repos) != 1 {
		from = fmt.Sprintf("%d repositories", len(repos))
	}
	for _, r := range [][2]string{
		{"tasks", fmt.Sprintf("%d, of %s; %d with hidden tests, %d with named ones", len(p.specs), from, hidden, named)},
		{"candidates", fmt.Sprintf("%d for each task (%s), %d at once", len(p.seats), p.o.run.agents, jobs)},
		{"tests", fmt.Sprintf("%s, the first: %s", count(len(tests), "command"), tests[0])},
		{"time", fmt.Sprintf("at most %s: %s of %s, and runs of tests of %s", worst.Round(time.Second), count(len(p.specs)*len(p.seats), "candidate"), p.o.run.timeout, p.o.run.testTimeout)},
		{"spend", money},
	} {
		if _, err := fmt.Fprintf(a.Out, "%-11s %s\n", r[0], term.Clean(r[1], 400)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.Out, "nothing was run")
	return err
}
