package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/choose"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/proc"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner"
	"github.com/bestof-dev/bestof/orchestrator/training"
	"github.com/bestof-dev/bestof/worktree"
)

// A jobProgram is what the runner of jobs asks of this program.
type jobProgram struct {
	app  *app
	self string
	home string

	mu      sync.Mutex
	gitDirs map[string]string // of repositories that others held
}

// in is the app as if it were started in a directory, for what nobody watches.
func (p *jobProgram) in(dir string, log io.Writer) *app {
	a := *p.app
	a.In, a.Out, a.Err = strings.NewReader(""), io.Discard, log
	a.dir, a.json, a.quiet, a.yes, a.workDir = dir, false, true, false, ""
	return &a
}

// asStatus gives an error the exit status that it would have.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	return &runner.StatusError{Status: exitStatus(err), Err: err}
}

// Plan implements runner.Program.
func (p *jobProgram) Plan(ctx context.Context, j schedule.Job, r schedule.Run, before *runner.Attempted, dir string, log io.Writer) (runner.Invocation, error) {
	f, err := frozenOf(j)
	if err != nil {
		return runner.Invocation{}, asStatus(err)
	}
	if f.batch() && before != nil && before.Invocation.Batch != "" {
		inv, err := p.goOn(ctx, j, r, f, before)
		if err == nil {
			return inv, nil
		}
		if !errors.Is(err, batch.ErrNone) {
			fmt.Fprintf(log, "bestof: begins from nothing, and not with the batch of run %d: %v\n", before.Run, err)
		}
	}
	if f.training() {
		argv := slices.Concat([]string{p.self, "--json"}, f.Verb, f.words(), []string{"--", f.Input})
		return runner.Invocation{Argv: argv, Dir: "/"}, nil
	}
	inv := runner.Invocation{Argv: []string{p.self, "-C", filepath.Join(j.Repository, f.Prefix)}, Dir: "/"}
	if !f.batch() {
		inv.Argv = append(inv.Argv, "--json") // a batch's progress is then on stderr, for the log
	}
	if f.WorkDir != "" {
		inv.Argv = append(inv.Argv, "--work-dir="+f.WorkDir)
	}
	inv.Argv = append(inv.Argv, f.Verb...)
	flags := f.words()
	if r.Places > 0 && r.Places < j.Policy.Candidates {
		flags = append(flags, "--jobs="+strconv.Itoa(r.Places)) // the last one counts
	}
	inv.Argv = append(append(inv.Argv, flags...), budgetFlags(f, r.Allowed)...)
	if f.batch() {
		inv.Batch = filepath.Join(dir, "batch")
		inv.Argv = append(inv.Argv, "--out="+inv.Batch, "--", f.Input)
		return inv, nil
	}
	a := p.in(filepath.Join(j.Repository, f.Prefix), log)
	s, err := a.open(ctx)
	if err != nil {
		return inv, asStatus(fmt.Errorf("the repository of the job: %w", err))
	}
	defer s.Close()
	if s.repo.Root() != j.Repository {
		return inv, asStatus(usagef("the repository of the job, %s, is now a part of %s: edit the job there", j.Repository, s.repo.Root()))
	}
	text, err := p.task(ctx, a, s, j, f, dir, log)
	if err != nil {
		return inv, asStatus(err)
	}
	inv.Notices = a.redefined(s, f)
	inv.Run = record.NewID(time.Now(), randomNumber())
	inv.Argv = append(inv.Argv, "--adopt="+adoptFlag(j.Result.Adopt), "--as-job="+inv.Run, "-")
	inv.Stdin = []byte(text)
	return inv, nil
}

// budgetFlags are the budgets of an invocation: the job's where they are less than
// its own.
func budgetFlags(f frozenSettings, b schedule.Budget) (out []string) {
	if own, _ := strconv.ParseInt(f.flag("budget-tokens"), 10, 64); b.Tokens > 0 && (own <= 0 || b.Tokens < own) {
		out = append(out, "--budget-tokens="+strconv.FormatInt(b.Tokens, 10))
	}
	if own, _ := strconv.ParseFloat(f.flag("budget-usd"), 64); b.MicroUSD > 0 && (own <= 0 || float64(b.MicroUSD) < own*1e6) {
		out = append(out, "--budget-usd="+strconv.FormatFloat(float64(b.MicroUSD)/1e6, 'f', -1, 64))
	}
	return out
}

func adoptFlag(a schedule.Adopt) string {
	switch a {
	case schedule.AdoptBranch, schedule.AdoptApply:
		return string(a)
	}
	return "none"
}

// redefined names the agents that are defined otherwise than when the job was
// added: settings are frozen, programs are not.
func (a *app) redefined(s *site, f frozenSettings) []string {
	file, err := a.configuration(s)
	if err != nil {
		return nil // the invocation says it
	}
	now, err := file.agents()
	if err != nil {
		return nil
	}
	var notices []string
	for _, name := range sortedKeys(f.Agents) {
		if d, ok := now[name]; ok && argv.Join(d.Command) != f.Agents[name] {
			notices = append(notices, fmt.Sprintf("agent %s is now %s; when the job was added it was %s", name, argv.Join(d.Command), f.Agents[name]))
		}
	}
	return notices
}

// task is what the run is given to do, as it is now.
func (p *jobProgram) task(ctx context.Context, a *app, s *site, j schedule.Job, f frozenSettings, dir string, log io.Writer) (text string, err error) {
	switch j.Task.Kind {
	case schedule.TaskFile:
		text, err = readTaskFile(j.Repository, j.Task.File)
	case schedule.TaskCommand:
		text, err = a.taskOutput(ctx, s, j.Task.Command, f, dir, log)
	case schedule.TaskText:
		text = j.Task.Text
	default:
		text = f.Task
	}
	if err == nil && text == "" {
		err = statusError{orchestrator.ExitNoWinner, errors.New("there is nothing to do: the task is empty")}
	}
	return text, err
}

// taskLimit is the time for the command that prints a task.
const taskLimit = 10 * time.Minute

// taskOutput is what a command prints that runs in a shadow of the repository,
// in a sandbox without network.
func (a *app) taskOutput(ctx context.Context, s *site, command []string, f frozenSettings, dir string, log io.Writer) (text string, err error) {
	file, err := a.configuration(s)
	if err != nil {
		return "", err
	}
	options := sandbox.Options{Environ: a.Environ, Read: expandHome(file.Sandbox.Read, a.getenv("HOME")), Hidden: []string{s.repo.Root(), s.home, s.scratch}}
	name := f.flag("sandbox")
	if name == "docker" {
		name = "auto" // its image is the candidates'
	}
	box, note, err := choose.Choose(ctx, name, options)
	if err != nil {
		return "", statusError{orchestrator.ExitInfrastructure, err}
	}
	if note != "" {
		a.warn("%s", note)
	}
	kind, rev := f.baseOf()
	base, err := s.store.Base(ctx, s.repo, worktree.BaseSpec{Kind: kind, Rev: rev, History: 1, Shadow: worktree.ShadowCopy})
	if err != nil {
		return "", statusError{orchestrator.ExitInfrastructure, err}
	}
	defer func() { err = errors.Join(err, base.Close()) }()
	work, err := s.store.NewRun(ctx, record.NewID(time.Now(), randomNumber()), dir)
	if err != nil {
		return "", statusError{orchestrator.ExitInfrastructure, err}
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if cerr := work.Close(clean); cerr != nil {
			a.warn("clean-up was not finished (`bestof gc` finishes it): %v", cerr)
		}
	}()
	shadow, err := work.NewShadow(ctx, base, "task")
	if err != nil {
		return "", statusError{orchestrator.ExitInfrastructure, err}
	}
	res, err := box.Run(ctx, sandbox.Spec{
		Argv: command, Root: shadow.Root(), WorkDir: s.repo.Prefix(), Home: shadow.Home(), Enter: sandbox.Entry(shadow.Enter()),
		Network: sandbox.NetworkNone, Timeout: taskLimit, Head: maxTask + 1, Log: log,
	})
	switch {
	case err != nil:
		return "", statusError{orchestrator.ExitInfrastructure, err}
	case res.End == sandbox.NotRun:
		return "", usagef("the command that prints the task: %s", res.Reason)
	case res.End == sandbox.Deadline:
		return "", statusError{orchestrator.ExitTimedOut, fmt.Errorf("the command that prints the task took longer than %s", taskLimit)}
	case !res.OK():
		return "", statusError{orchestrator.ExitInternal, fmt.Errorf("the command that prints the task ended with status %d", res.Code)}
	}
	return taskText(res.Stdout.Bytes(), "what the task's command printed")
}

// Read implements runner.Program.
func (p *jobProgram) Read(ctx context.Context, j schedule.Job, inv runner.Invocation, stdout []byte) (runner.Produced, error) {
	if inv.Batch != "" {
		return p.readBatch(j, inv)
	}
	out := runner.Produced{}
	if !json.Valid(stdout) {
		return out, errors.New("it ended without a document")
	}
	var doc record.Document
	var fault struct{ Error string }
	if err := json.Unmarshal(stdout, &doc); err != nil || doc.Schema != record.Schema {
		if f, err := frozenOf(j); err == nil && f.training() {
			return producedByTraining(stdout), nil
		}
		if err := json.Unmarshal(stdout, &fault); err == nil && fault.Error != "" {
			out.Reason = fault.Error
		}
		return out, nil
	}
	out, err := p.produced(j, doc)
	out.Document = slices.Clone(stdout)
	return out, err
}

// producedByTraining is what a training left.
func producedByTraining(stdout []byte) runner.Produced {
	var trained training.Outcome
	var fault struct{ Error string }
	if err := json.Unmarshal(stdout, &fault); err == nil && fault.Error != "" {
		return runner.Produced{Reason: fault.Error}
	}
	if err := json.Unmarshal(stdout, &trained); err != nil {
		return runner.Produced{Reason: "it ended without a document"}
	}
	word := "not promoted: "
	if trained.Model.Promotion.Promote {
		word = "promoted: "
	}
	return runner.Produced{Document: slices.Clone(stdout), Record: trained.Directory, Reason: word + trained.Model.Promotion.Reason}
}

// produced is what a run left that its record tells of.
func (p *jobProgram) produced(j schedule.Job, doc record.Document) (runner.Produced, error) {
	out := runner.Produced{Reason: doc.Reason}
	if doc.AdoptError != "" {
		out.Reason = doc.AdoptError
	}
	if d := doc.Adopted; d != nil {
		out.Branch, out.Commit = d.Branch, d.Commit
	}
	out.Used, out.Reported = usedBy(doc)
	records, err := record.Open(j.Repository, filepath.Join(p.home, "runs"))
	if err != nil {
		return out, err
	}
	defer records.Close()
	out.Record = records.Path(doc.Run)
	if j.Result.Adopt == schedule.AdoptPatch && doc.Winner != nil {
		data, err := records.ReadFile(doc.Run, path.Join("candidates", candidate.Number(*doc.Winner).ID(), "change.patch"), maxPatch)
		if err != nil {
			return out, fmt.Errorf("the winner's patch: %w", err)
		}
		out.Patches = []runner.Patch{{Name: doc.Run, Data: data}}
	}
	return out, nil
}

// Recover implements runner.Program.
func (p *jobProgram) Recover(ctx context.Context, j schedule.Job, inv runner.Invocation) (out runner.Produced, status int, ok bool, err error) {
	if inv.Batch != "" {
		return p.recoverBatch(j, inv)
	}
	if inv.Run == "" {
		return out, -1, false, nil
	}
	a := p.in(j.Repository, io.Discard)
	s, err := a.open(ctx) // which settles what was cut off
	if err != nil {
		return out, -1, false, err
	}
	defer s.Close()
	doc, err := s.records.Load(inv.Run)
	switch {
	case errors.Is(err, record.ErrNoRun):
		return out, -1, false, nil
	case err != nil:
		return out, -1, false, err
	case doc.Phase != record.Finished || !s.records.Own(doc.Run):
		return out, -1, false, nil
	}
	a.finishAdoption(ctx, s, &doc, adoptFlag(j.Result.Adopt))
	if out, err = p.produced(j, doc); err != nil {
		return out, -1, false, err
	}
	out.Document, err = json.Marshal(doc)
	return out, doc.ExitCode, err == nil, err
}

// finishAdoption adopts the winner of a run that was to and died before it wrote
// down that it did. Its branch has a name that nobody else makes; a tree that
// was half written has been put back.
func (a *app) finishAdoption(ctx context.Context, s *site, doc *record.Document, how string) {
	mode, err := parseAdopt(how)
	if err != nil || mode.mode == "" || doc.Winner == nil || doc.Adopted != nil || doc.AdoptError != "" {
		return
	}
	commit, err := "", error(nil)
	if mode.mode == worktree.AdoptBranch {
		commit, err = s.repo.BranchCommit(ctx, "bestof/"+doc.Run)
	}
	switch {
	case err != nil:
	case commit != "":
		doc.Adopted = &record.Adoption{Candidate: *doc.Winner, Mode: string(mode.mode), Branch: "bestof/" + doc.Run, Commit: commit, At: time.Now()}
		if c, err := candidateOf(*doc, *doc.Winner); err == nil && c.Change != nil {
			doc.Adopted.Tree = c.Change.Tree
		}
		err = s.records.Update(*doc)
	default:
		err = a.adoptOwn(ctx, s, doc, mode, true)
	}
	if err != nil {
		doc.AdoptError, doc.ExitCode = err.Error(), exitStatus(err)
		_ = s.records.Update(*doc) // the result says it too
	}
}

// Used implements runner.Program.
func (p *jobProgram) Used(j schedule.Job, inv runner.Invocation) (schedule.Budget, bool) {
	if inv.Batch != "" {
		now, err := readStatus(inv.Batch)
		return usedSince(now, inv.Before), err == nil && now.Tokens > inv.Before.Tokens
	}
	if inv.Run == "" {
		return schedule.Budget{}, false
	}
	records, err := record.Open(j.Repository, filepath.Join(p.home, "runs"))
	if err != nil {
		return schedule.Budget{}, false
	}
	defer records.Close()
	doc, err := records.Load(inv.Run)
	if err != nil {
		return schedule.Budget{}, false
	}
	return usedBy(doc)
}

// usedBy is what a run's candidates used.
func usedBy(doc record.Document) (schedule.Budget, bool) {
	var used orchestrator.Usage
	for _, c := range doc.Candidates {
		used = used.Add(orchestrator.UsageOf(c.Usage))
	}
	return schedule.Budget{MicroUSD: used.MicroUSD, Tokens: used.Tokens()}, used.Reported
}

// Hold implements runner.Program.
func (p *jobProgram) Hold(ctx context.Context, j schedule.Job) (release func(), held bool, err error) {
	p.mu.Lock()
	dir := p.gitDirs[j.Repository]
	p.mu.Unlock()
	if dir == "" {
		repo, err := worktree.Open(ctx, j.Repository)
		if err != nil {
			return nil, false, err
		}
		dir = repo.CommonDir()
	}
	release, err = worktree.HoldJobs(dir)
	held = errors.Is(err, worktree.ErrHeld)
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.gitDirs, j.Repository); held { // it is looked at again soon
		p.gitDirs[j.Repository] = dir
	}
	return release, held, err
}

// finishLimit is the time for a job's own program.
const finishLimit = 10 * time.Minute

// Finish implements runner.Program.
func (p *jobProgram) Finish(ctx context.Context, j schedule.Job, dir string, env map[string]string, document []byte, log io.Writer) (int, error) {
	if j.Result.Sandbox {
		return p.finishInside(ctx, j, dir, env, document, log)
	}
	environ := slices.Clone(p.app.Environ)
	for _, name := range sortedKeys(env) {
		environ = append(environ, name+"="+env[name])
	}
	res, err := proc.Run(ctx, proc.Command{Argv: j.Result.OnFinish, Dir: j.Repository, Env: environ, Stdin: document, Timeout: finishLimit, Log: log})
	if err != nil {
		return 0, err
	}
	return finished(sandbox.Ended(res))
}

func (p *jobProgram) finishInside(ctx context.Context, j schedule.Job, dir string, env map[string]string, document []byte, log io.Writer) (status int, err error) {
	box, _, err := choose.Choose(ctx, "auto", sandbox.Options{Environ: p.app.Environ, Hidden: []string{p.home, j.Repository}})
	if err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp(dir, "on-finish-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	root, home := filepath.Join(work, "root"), filepath.Join(work, "home")
	for _, d := range []string{root, home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return 0, err
		}
	}
	res, err := box.Run(ctx, sandbox.Spec{Argv: j.Result.OnFinish, Root: root, Home: home, Env: env, Stdin: document, Network: sandbox.NetworkNone, Timeout: finishLimit, Log: log})
	if err != nil {
		return 0, err
	}
	return finished(res)
}

func finished(res sandbox.Result) (int, error) {
	switch {
	case res.End == sandbox.NotRun:
		return 0, errors.New(res.Reason)
	case res.End == sandbox.Deadline:
		return 0, fmt.Errorf("it took longer than %s", finishLimit)
	case res.Signal != 0:
		return 128 + res.Signal, nil
	}
	return res.Code, nil
}

// Secret implements runner.Program: the value is that of the variable of the
// name, and is kept nowhere.
func (p *jobProgram) Secret(name string) (string, bool) { return p.app.lookup(name) }
