// Package mutate is the built-in agent: it searches for a small edit that
// makes the test pass, without a model, a network or a key.
//
// It ranks every edit of its catalogue by how suspicious the place is and how
// often people get such a thing wrong, deals the list out among the candidates
// of a run, and tries its share in the working directory. What it tries depends
// on the repository, the test and its number alone.
package mutate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	candidateagent "github.com/bestof-dev/bestof/candidate/agent"
)

// Exit statuses. As with every agent they say nothing about success, which the
// judge decides from the tree.
const (
	exitFound   = 0
	exitNothing = 1
	exitUsage   = 2
)

// unlimited is the time taken when neither the job nor the environment sets one.
const unlimited = 10 * time.Minute

// An agent is one run of the search.
type agent struct {
	job      candidateagent.Job
	dir      string // where the test runs
	env      []string
	plain    []string // env without what the search adds to be quick
	quick    []string
	scratch  string
	began    time.Time
	deadline time.Time
	out      io.Writer
	tree     *tree
	scene    *scene
	server   *server
	limit    time.Duration // of one try
	tried    int
	skipped  int // tries that needed no run
	hung     int
	slow     []edit // single edits that hung
	patient  bool   // they were given more time
	retrying bool   // they are being given more time
}

// Main runs the agent in the current directory. Stdin holds the job as JSON
// (agent.Job); there are no flags. Whatever happens, the tree is afterwards as
// it was, or as it was with one edit that made the test pass twice.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	found, err := start(ctx, args, stdin, stdout, environ)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "mutate:", err)
		return exitUsage
	case err != nil:
		fmt.Fprintln(stderr, "mutate:", err)
		return exitNothing
	case !found:
		return exitNothing
	}
	return exitFound
}

var errUsage = errors.New("usage")

func start(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer, environ []string) (bool, error) {
	if len(args) > 0 {
		return false, fmt.Errorf("%w: there are no arguments; the job comes on stdin", errUsage)
	}
	in, err := io.ReadAll(io.LimitReader(stdin, 1<<20))
	if err != nil {
		return false, fmt.Errorf("read the job: %w", err)
	}
	job, err := candidateagent.ParseJob(in)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errUsage, err)
	}
	if len(job.Test) == 0 {
		return false, fmt.Errorf("%w: the job has no test", errUsage)
	}
	dir, err := os.Getwd()
	if err != nil {
		return false, err
	}
	if job.Root, err = filepath.EvalSymlinks(job.Root); err != nil {
		return false, fmt.Errorf("find the tree: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false, fmt.Errorf("find the working directory: %w", err)
	}
	// Bytecode is found by a file's size and second: two edits in one second would look alike.
	plain := append(slices.Clone(environ), "PYTHONDONTWRITEBYTECODE=1")
	a := &agent{job: job, dir: dir, plain: plain, env: quickEnv(plain), out: stdout, began: time.Now()}
	a.deadline = deadline(a.began, job.Timeout, environ)
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	if a.scratch, err = os.MkdirTemp("", "mutate-"); err != nil {
		return false, fmt.Errorf("make a scratch directory: %w", err)
	}
	defer os.RemoveAll(a.scratch)
	if a.tree, err = remember(job.Root); err != nil {
		return false, err
	}
	e, searchErr := a.search(ctx)
	a.server.close()
	var keep []string
	for _, one := range e {
		keep = append(keep, one.file.path)
	}
	lost, err := a.tree.restore(keep...)
	for _, p := range lost {
		a.say("the test changed %s, which is too large to be put back", strconv.Quote(p))
	}
	return len(e) > 0, errors.Join(searchErr, err)
}

// deadline leaves time to put the tree back before the sandbox ends everything.
func deadline(now time.Time, timeout string, environ []string) time.Time {
	total := unlimited
	if d, err := time.ParseDuration(timeout); err == nil && d > 0 {
		total = d
	}
	for _, kv := range environ {
		value, ok := strings.CutPrefix(kv, "BESTOF_DEADLINE=")
		if !ok {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
			total = min(total, at.Sub(now))
		} else if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
			total = min(total, time.Unix(seconds, 0).Sub(now))
		}
	}
	return now.Add(total - min(total/10, 2*time.Second))
}

func (a *agent) say(format string, args ...any) {
	fmt.Fprintf(a.out, "mutate: "+format+"\n", args...)
}

// search returns the edits that made the test pass and are in the tree now, or
// none with the tree as it was apart from what the test itself left.
func (a *agent) search(ctx context.Context) ([]edit, error) {
	if _, err := exec.LookPath(a.job.Test[0]); err != nil && !strings.Contains(a.job.Test[0], "/") {
		return nil, fmt.Errorf("run the test: %w", err)
	}
	first := min(20*time.Second, time.Until(a.deadline)/12)
	base := a.run(ctx, a.job.Test, a.plain, first, true)
	switch {
	case ctx.Err() != nil:
		a.report("stopped before the search began")
		return nil, nil
	case base.passed():
		a.report("the test passes already; nothing to do")
		return nil, nil
	case base.code == 127 || base.code == 126:
		return nil, fmt.Errorf("run the test: %s", strings.TrimSpace(base.output))
	}
	a.prepare(ctx, &base, first)
	edits := propose(a.scene.locate(), diagnose(base.output))
	mine := share(edits, a.job.Candidate, a.job.Candidates)
	a.say("candidate %d of %d: %d edits in %d files, %d of them mine; one try takes %s", a.job.Candidate, a.job.Candidates,
		len(edits), len(a.scene.files), len(mine), base.took.Round(time.Millisecond))
	half := a.began.Add(a.deadline.Sub(a.began) / 2)
	for i := 0; i <= len(mine) && !a.spent(ctx); i++ {
		if i == len(mine) || time.Now().After(half) {
			if e, err := a.retrySlow(ctx); e != nil || err != nil {
				return a.found(err == nil, err, e...)
			}
		}
		if i == len(mine) {
			break
		}
		if found, err := a.try(ctx, mine[i]); found || err != nil {
			return a.found(found, err, mine[i])
		}
	}
	for e := range pairs(edits, a.job.Candidate, a.job.Candidates) {
		if a.spent(ctx) {
			break
		}
		if found, err := a.try(ctx, e[:]...); found || err != nil {
			return a.found(found, err, e[:]...)
		}
	}
	a.report("no edit made the test pass")
	return nil, nil
}

// retrySlow gives the single edits that seemed to hang, once, several times as
// long: where the test hung from the beginning nobody knows how long a pass
// takes, and the machine may have been busy.
func (a *agent) retrySlow(ctx context.Context) ([]edit, error) {
	slow := a.slow
	if a.slow = nil; len(slow) == 0 || a.patient {
		return nil, nil
	}
	was := a.limit
	a.limit, a.patient, a.retrying = 5*a.limit, true, true
	defer func() { a.limit, a.retrying = was, false }()
	for _, e := range slow[:min(len(slow), 12)] {
		if found, err := a.try(ctx, e); found || err != nil {
			return []edit{e}, err
		}
		if a.spent(ctx) {
			break
		}
	}
	return nil, nil
}

// spent reports whether the time or the tries are used up.
func (a *agent) spent(ctx context.Context) bool {
	return ctx.Err() != nil || a.job.Tries > 0 && a.tried >= a.job.Tries
}

func (a *agent) found(found bool, err error, edits ...edit) ([]edit, error) {
	if !found {
		return nil, err
	}
	for _, e := range edits {
		a.say("%s:%d: %s", e.file.path, e.line, e.op)
		for _, l := range strings.Split(e.before(), "\n") {
			a.say("  - %s", strings.TrimSpace(l))
		}
		for _, l := range strings.Split(e.after(), "\n") {
			a.say("  + %s", strings.TrimSpace(l))
		}
	}
	a.report("the test passes, twice")
	return edits, nil
}

func (a *agent) report(end string) {
	a.say("%s; %d edits tried, %d more skipped because they do not parse or change nothing, %d ended as hanging, %.1f s",
		end, a.tried, a.skipped, a.hung, time.Since(a.began).Seconds())
}

func (a *agent) run(ctx context.Context, argv, env []string, limit time.Duration, capture bool) result {
	var ask []syscall.Signal
	if capture {
		ask = a.askSignals()
	}
	return run(ctx, a.dir, env, argv, limit, capture, ask...)
}

// askSignals make a hanging test of the command's language print its stack.
func (a *agent) askSignals() []syscall.Signal {
	if isGoTest(a.job.Test) || filepath.Base(a.job.Test[0]) == "java" {
		return []syscall.Signal{syscall.SIGQUIT}
	}
	return []syscall.Signal{syscall.SIGTERM}
}

// prepare reads the sources, finds the quickest way to run the test, and
// measures it. It leaves base as the quick way's result.
func (a *agent) prepare(ctx context.Context, base *result, first time.Duration) {
	a.readSources(base.output)
	a.quick = quickCommand(a.job.Test, base.output, a.dir)
	output := base.output
	if a.server = startServer(ctx, a.dir, a.env, a.job.Test); a.server != nil {
		limit := first
		if base.hung {
			limit = min(first, 2*time.Second)
		}
		r, _, err := a.server.run(ctx, false, "", limit)
		if err != nil || r.hung != base.hung || (r.code == 0) != (base.code == 0) {
			a.server.close()
			a.server = nil
		} else {
			r.output = output
			*base = r
		}
	}
	if a.server == nil && !base.hung && !slices.Equal(a.quick, a.job.Test) {
		if r := a.run(ctx, a.quick, a.env, first, false); r.code != 0 && !r.hung {
			if again := a.run(ctx, a.quick, a.env, first, false); again.took < r.took {
				r = again
			}
			r.output = output
			*base = r
		} else {
			a.quick = a.job.Test
		}
	}
	switch {
	case base.hung:
		a.limit = min(first, 3*time.Second)
		if a.server != nil {
			a.limit = min(first, time.Second)
		}
	case a.server != nil:
		a.limit = 5*base.took + 500*time.Millisecond
	default:
		a.limit = 3*base.took + time.Second
		if overflow.MatchString(base.output) && base.took > 2*time.Second {
			a.limit = max(base.took/2, 2*time.Second) // filling the stack is what took so long
		}
	}
	a.scene.cover = a.coverage(ctx, *base)
}

// readSources parses what may be edited and the tests that name it.
func (a *agent) readSources(output string) {
	sc := &scene{files: map[string]*file{}, tests: map[string]*file{}, output: output, command: a.job.Test}
	a.scene = sc
	for _, p := range a.tree.sources() {
		l := languageOf(p)
		f := parseFile(p, string(a.tree.entries[p].content), l)
		if l.isTest(p) || a.isProtected(p) {
			sc.tests[p] = f
			continue
		}
		sc.files[p] = f
		sc.order = append(sc.order, p)
	}
}

func (a *agent) isProtected(p string) bool {
	for _, pattern := range a.job.Protected {
		if matchGlob(pattern, p) {
			return true
		}
	}
	for _, arg := range a.job.Test { // what the command names decides and is not to be changed
		if rel, err := filepath.Rel(a.job.Root, filepath.Join(a.dir, arg)); err == nil && filepath.ToSlash(rel) == p {
			return true
		}
	}
	return false
}
