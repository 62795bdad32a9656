package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/plugin/tool"
	"github.com/bestof-dev/bestof/worktree"
)

const frozenSchema = "bestof.job-settings/1"

// frozenSettings are the settings of an invocation as they were when its job
// was added: flags, configuration and defaults, each said in full.
type frozenSettings struct {
	Schema  string            `json:"schema"`
	Verb    []string          `json:"verb"`   // run | batch run | tool train
	Prefix  string            `json:"prefix"` // sub-directory of the repository in which it is made
	Flags   []frozenFlag      `json:"flags"`
	Task    string            `json:"task,omitempty"`  // of run, where it is fixed
	Input   string            `json:"input,omitempty"` // of batch run: the tasks; of tool train: the trainer
	Agents  map[string]string `json:"agents"`          // how each was defined, for people and to tell when that changed
	WorkDir string            `json:"work_dir,omitempty"`
}

type frozenFlag struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// words are the flags as a command line has them.
func (f frozenSettings) words() []string {
	var out []string
	for _, flag := range f.Flags {
		for _, v := range flag.Values {
			out = append(out, "--"+flag.Name+"="+v)
		}
	}
	return out
}

// batch reports whether the invocation is of a batch.
func (f frozenSettings) batch() bool { return len(f.Verb) > 1 && f.Verb[0] == "batch" }

// training reports whether the invocation trains a model.
func (f frozenSettings) training() bool { return len(f.Verb) > 1 && f.Verb[0] == "tool" }

// frozenOf reads the settings of a job.
func frozenOf(j schedule.Job) (frozenSettings, error) {
	var f frozenSettings
	err := json.Unmarshal(j.Settings.Document, &f)
	if err == nil && f.Schema != frozenSchema {
		err = fmt.Errorf("their schema is %q", f.Schema)
	}
	if err != nil {
		return f, usagef("job %s: its settings cannot be read: %w: freeze them again with `bestof job edit %s -- …`", j.Name, err, j.Name)
	}
	return f, nil
}

// A frozen is what freezing an invocation found.
type frozen struct {
	settings   frozenSettings
	repository string
	file       string // of the task, "" when it is none
	candidates int    // that run at once
}

// freeze reads and checks an invocation as if it were made now. laterTask says
// that the job finds the task itself.
func (a *app) freeze(ctx context.Context, args []string, laterTask bool) (frozen, error) {
	switch {
	case len(args) == 0:
		return frozen{}, usagef("say what the job does after --: for example -- run --test 'go test ./...' \"make it pass\"")
	case args[0] == "run":
		return a.freezeRun(ctx, args[1:], laterTask)
	case args[0] == "batch" && len(args) > 1 && args[1] == "run":
		if laterTask {
			return frozen{}, usagef("--task-command is for a run: a batch reads its tasks from its file when the job fires")
		}
		return a.freezeBatch(ctx, args[2:])
	case args[0] == "tool" && len(args) > 1 && args[1] == "train":
		if laterTask {
			return frozen{}, usagef("--task-command is for a run: training has no task")
		}
		return a.freezeTraining(ctx, args[2:])
	}
	return frozen{}, usagef("a job makes `run …`, `batch run …` or `tool train …`, not %q", strings.Join(args[:min(2, len(args))], " "))
}

// parseInvocation reads the flags of a command that is not made now.
func parseInvocation(name string, add func(*pflag.FlagSet), args []string) (*pflag.FlagSet, error) {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	add(f)
	if err := f.Parse(args); err != nil {
		return nil, usagef("%s: %w (global flags such as -C stand before `job add`)", name, err)
	}
	return f, nil
}

func (a *app) freezeRun(ctx context.Context, args []string, laterTask bool) (frozen, error) {
	var out frozen
	var o runOptions
	flags, err := parseInvocation("run", func(f *pflag.FlagSet) { o.addFlags(f); o.addBudget(f) }, args)
	if err != nil {
		return out, err
	}
	for _, name := range []string{"adopt", "dry-run"} {
		if flags.Changed(name) {
			return out, usagef("run: --%s is not for jobs: what becomes of a winner is said with --result", name)
		}
	}
	s, err := a.open(ctx)
	if err != nil {
		return out, err
	}
	defer s.Close()
	file, err := a.configuration(s)
	if err != nil {
		return out, err
	}
	o.fill(file.Run, flags.Changed)
	o.image.fill(file.Sandbox, flags.Changed)
	o.adopt = "none"
	if out.file, err = a.frozenTask(&o, s, flags.Args(), laterTask); err != nil {
		return out, err
	}
	fixed := o.task
	if fixed == "" {
		o.task = "the task is found when the job fires"
	}
	cfg, err := a.plan(ctx, s, o, file, flags.Changed("candidates") || file.Run.Candidates != nil)
	if err != nil {
		return out, err
	}
	_ = flags.Set("candidates", fmt.Sprint(len(cfg.Seats))) // plugins may have asked for more
	out.repository, out.candidates = s.repo.Root(), min(o.jobs, len(cfg.Seats))
	out.settings = frozenSettings{Schema: frozenSchema, Verb: []string{"run"}, Prefix: s.repo.Prefix(), Task: fixed, Agents: map[string]string{}}
	for _, seat := range cfg.Seats {
		out.settings.Agents[seat.Agent.Name] = argv.Join(seat.Agent.Command)
	}
	return out, a.frozenFlags(&out.settings, flags, "adopt", "dry-run", "task-file")
}

// frozenTask finds where the task of a run comes from: o.task when it is fixed,
// a file's name, or neither.
func (a *app) frozenTask(o *runOptions, s *site, args []string, laterTask bool) (file string, err error) {
	switch {
	case laterTask && (len(args) > 0 || o.taskFile != ""):
		return "", usagef("the task is given twice: leave out --task-command, or the task of run")
	case laterTask:
		return "", nil
	case len(args) > 1:
		return "", usagef("run: the task is one argument: put it in quotes")
	case len(args) == 1 && args[0] == "-":
		return "", usagef("run: nobody is there to read the task from standard input when a job fires: use --task-file or --task-command")
	case o.taskFile == "":
		o.task, err = a.readTask(*o, args)
		return "", err
	case len(args) > 0:
		return "", usagef("the task is given twice: leave out --task-file or the argument")
	}
	path, err := filepath.Abs(o.taskFile)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(s.repo.Root(), path); err == nil && filepath.IsLocal(rel) {
		return rel, nil
	}
	return path, nil
}

func (a *app) freezeBatch(ctx context.Context, args []string) (frozen, error) {
	var out frozen
	var o batchOptions
	flags, err := parseInvocation("batch run", o.addFlags, args)
	if err != nil {
		return out, err
	}
	switch {
	case flags.Changed("out"):
		return out, usagef("batch run: --out is not for jobs: each run of the job has a directory of its own")
	case flags.Changed("dry-run"):
		return out, usagef("batch run: --dry-run is not for jobs: `job add --dry-run` says what the job would do")
	case flags.NArg() != 1:
		return out, usagef("batch run: name one file or directory of tasks")
	}
	home, err := a.home()
	if err != nil {
		return out, err
	}
	file, _, err := loadConfig(home, "", false) // a repository of a batch has no say
	if err != nil {
		return out, err
	}
	o.run.fill(file.Run, flags.Changed)
	for _, name := range []string{"repo", "repos", "map"} {
		if v := flags.Lookup(name).Value; v.String() != "" {
			if err := v.Set(a.absolute(v.String())); err != nil {
				return out, err
			}
		}
	}
	input := a.absolute(flags.Arg(0))
	p, problems, err := a.planBatch(ctx, &o, file, home, "", input, flags.Changed("candidates") || file.Run.Candidates != nil)
	if err != nil {
		return out, err
	}
	if len(problems) > 0 {
		return out, a.refuse(problems)
	}
	out.repository, out.candidates = a.absolute("."), max(1, o.run.jobs)
	if o.repo != "" {
		out.repository = o.repo
	}
	out.settings = frozenSettings{Schema: frozenSchema, Verb: []string{"batch", "run"}, Input: input, Agents: map[string]string{}}
	for _, seat := range p.seats {
		out.settings.Agents[seat.Agent.Name] = argv.Join(seat.Agent.Command)
	}
	return out, a.frozenFlags(&out.settings, flags, "out", "dry-run")
}

// freezeTraining checks a training as if it were made now, but for the choices
// that it would learn from. It is about no repository: what it reads and writes is
// below $BESTOF_HOME.
func (a *app) freezeTraining(ctx context.Context, args []string) (frozen, error) {
	var out frozen
	var o trainOptions
	flags, err := parseInvocation("tool train", o.addFlags, args)
	if err != nil {
		return out, err
	}
	notForJobs := []string{"dry-run", "rows", "forget", "reference"}
	for _, name := range notForJobs {
		if flags.Changed(name) {
			return out, usagef("tool train: --%s is not for jobs", name)
		}
	}
	switch {
	case flags.NArg() != 1:
		return out, usagef("tool train: name one trainer")
	case o.timeout <= 0:
		return out, usagef("--timeout: write a length of time, for example 6h")
	}
	b, err := a.toolbox(tool.Trainer)
	if err == nil {
		_, err = a.trainer(ctx, b, flags.Arg(0))
	}
	if err != nil {
		return out, err
	}
	out.repository, out.candidates = a.absolute(b.home), 1
	out.settings = frozenSettings{Schema: frozenSchema, Verb: []string{"tool", "train"}, Input: flags.Arg(0), Agents: map[string]string{}}
	return out, a.frozenFlags(&out.settings, flags, notForJobs...)
}

// absolute is a path as if from -C.
func (a *app) absolute(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.dir, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// frozenFlags says every flag in full, whoever set it, but for those that are
// left out and those of images, which say something by being there.
func (a *app) frozenFlags(f *frozenSettings, flags *pflag.FlagSet, leftOut ...string) error {
	flags.VisitAll(func(flag *pflag.Flag) {
		value := flag.Value.String()
		switch {
		case slices.Contains(leftOut, flag.Name), flag.Name == "help":
			return
		case slices.Contains([]string{"image", "dockerfile", "devcontainer", "cpus", "memory", "pids", "warm"}, flag.Name) && value == flag.DefValue:
			return
		case flag.Name == "dockerfile":
			value = a.absolute(value)
		}
		values := []string{value}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if len(values) > 0 {
			f.Flags = append(f.Flags, frozenFlag{flag.Name, values})
		}
	})
	if a.workDir != "" {
		f.WorkDir = a.absolute(a.workDir)
	}
	return nil
}

// taskText is a task as candidates are told it.
func taskText(b []byte, what string) (string, error) {
	switch {
	case len(b) > maxTask:
		return "", usagef("%s has more than %d bytes: put the rest in a file of the repository", what, maxTask)
	case !utf8.Valid(b) || slices.Contains(b, 0):
		return "", usagef("%s is not UTF-8 text", what)
	}
	return strings.TrimSpace(string(b)), nil
}

// readTaskFile reads a job's file as it is now. Below the repository no link
// leads out of it.
func readTaskFile(repository, file string) (string, error) {
	dir, name := repository, file
	if filepath.IsAbs(file) {
		dir, name = filepath.Split(file)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", usagef("read the task: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return "", usagef("read the task from %s: %w", file, err)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", usagef("read the task from %s: %w", file, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTask+1))
	if err != nil {
		return "", usagef("read the task from %s: %w", file, err)
	}
	return taskText(b, "the task in "+file)
}

// baseOf is what candidates of a frozen run start from.
func (f frozenSettings) baseOf() (worktree.BaseKind, string) {
	base := f.flag("base")
	switch base {
	case "snapshot", "":
		return worktree.BaseSnapshot, ""
	case "head":
		return worktree.BaseHead, ""
	}
	return worktree.BaseRev, base
}

// flag is the value of a flag that has one.
func (f frozenSettings) flag(name string) string {
	for _, flag := range f.Flags {
		if flag.Name == name && len(flag.Values) == 1 {
			return flag.Values[0]
		}
	}
	return ""
}
