package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/testreport"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/worktree"
)

// turnCache keeps what planning makes for a repository and serves for all of
// its tasks.
type turnCache map[string]orchestrator.Config

// A lookouts has one for each directory of a repository of the batch.
type lookouts map[string]*orchestrator.Lookout

func (l lookouts) of(dir string, repo *worktree.Repository) *orchestrator.Lookout {
	if l[dir] == nil {
		l[dir] = orchestrator.NewLookout(repo, time.Now)
	}
	return l[dir]
}

// turn plans the run of one task.
func (p *batchPlan) turn(ctx context.Context, spec batch.Spec) (orchestrator.Config, error) {
	p.planning.Lock() // one task at a time
	defer p.planning.Unlock()
	key := spec.Dir + "\x00" + spec.Task.Image
	cfg, known := p.turns[key]
	if !known {
		var err error
		if cfg, err = p.planTurn(ctx, spec); err != nil {
			return cfg, err
		}
		if len(cfg.Plugins) == 0 && cfg.Prepare == nil { // nothing of it is about the task
			p.turns[key] = cfg
		}
	}
	t := spec.Task
	cfg.Task, cfg.Lookout = t.Statement, p.lookouts.of(spec.Dir, cfg.Repo)
	cfg.Settings.Test, cfg.Settings.Expect = t.Test, orchestrator.ExpectFlip
	cfg.BaseKind, cfg.BaseRev, cfg.SharedBase = worktree.BaseRev, spec.Commit, p.word
	cfg.Settings.Base, cfg.Settings.Rev = spec.Commit, spec.Commit
	cfg.Hidden = orchestrator.Hidden{Patch: t.TestPatch}
	for _, f := range t.TestFiles {
		mode := worktree.ModeFile
		if f.Exec {
			mode = worktree.ModeExec
		}
		cfg.Hidden.Files = append(cfg.Hidden.Files, worktree.Laid{Path: f.Path, Mode: mode, Data: f.Data})
	}
	if len(t.FailToPass)+len(t.PassToPass) > 0 {
		formats, file, err := reportFormats(p.o.reports)
		if err != nil {
			return cfg, err
		}
		if file == "" {
			cfg.Settings.Test = reporting(t.Test)
		}
		cfg.Named = &orchestrator.Named{Fail: t.FailToPass, Pass: t.PassToPass, Read: readReport(formats, file != ""), File: file}
		if len(t.FailToPass) == 0 {
			cfg.Settings.Expect = orchestrator.ExpectPass
		}
	}
	if cfg.Servers != nil && p.uses != nil {
		servers := *cfg.Servers
		servers.Record = p.uses
		cfg.Servers = &servers
	}
	return cfg, nil
}

// planTurn plans a run on the task's repository as bestof run does.
func (p *batchPlan) planTurn(ctx context.Context, spec batch.Spec) (orchestrator.Config, error) {
	repo, err := worktree.OpenAny(ctx, spec.Dir)
	if err != nil {
		return orchestrator.Config{}, err
	}
	s := *p.site
	s.repo, s.inBatch = repo, true
	s.hidden = []string{p.input}
	if p.dir != "" {
		s.hidden = append(s.hidden, p.dir)
	}
	o := p.o.run
	o.task, o.test, o.base, o.adopt, o.expect = spec.Task.Statement, argv.Join(spec.Task.Test), spec.Commit, "none", orchestrator.ExpectFlip
	o.jobs = max(1, o.jobs)
	if spec.Task.Image != "" && o.sandbox == "docker" {
		o.image.ref, o.image.dockerfile, o.image.devcontainer = spec.Task.Image, "", false
	}
	return p.app.plan(ctx, &s, o, p.file, true)
}

// reportFormats are the forms of reports that a word means, FORM or FORM:FILE,
// and the pattern of the files that hold them; "" when they are printed.
func reportFormats(word string) ([]testreport.Format, string, error) {
	name, file, inFile := strings.Cut(word, ":")
	formats := testreport.Formats
	if name != "auto" {
		if formats = []testreport.Format{testreport.Format(name)}; !slices.Contains(testreport.Formats, formats[0]) {
			return nil, "", fmt.Errorf("%q is not known: write auto, %s, or one of them with the file that the test makes, as in junit:build/report.xml", name, reportNames(", "))
		}
	}
	if inFile {
		if err := worktree.CheckLeft(file); err != nil {
			return nil, "", err
		}
	}
	return formats, file, nil
}

func reportNames(between string) string {
	var names []string
	for _, f := range testreport.Formats {
		names = append(names, string(f))
	}
	return strings.Join(names, between)
}

// readReport reads single tests off what a test command printed, or off files
// with a NUL between them: of each the first form that has any counts.
func readReport(formats []testreport.Format, files bool) func(stdout, stderr []byte) (orchestrator.Reported, error) {
	return func(stdout, _ []byte) (orchestrator.Reported, error) {
		var all *testreport.Report
		texts := [][]byte{stdout}
		if files {
			texts = bytes.Split(stdout, []byte{0})
		}
		for _, text := range texts {
			report, err := parseReport(formats, text)
			switch {
			case err != nil:
				return nil, err // a test that failed may be in what is not understood
			case all == nil:
				all = report
			case report != nil:
				all.Merge(report)
			}
		}
		return all.Of, nil
	}
}

// parseReport is nil for a run in which nothing came to run.
func parseReport(formats []testreport.Format, text []byte) (*testreport.Report, error) {
	var last error
	for _, f := range formats {
		report, err := testreport.Parse(f, bytes.NewReader(text))
		if err == nil && len(report.Results) > 0 {
			return report, nil
		}
		last = errors.Join(last, err)
	}
	if last == nil || errors.Is(last, testreport.ErrNoReport) {
		return nil, nil
	}
	return nil, last
}

// reporting adds to a test command what makes it report single tests, where
// that is known and it does not do so.
func reporting(test []string) []string {
	for i, word := range test {
		base := word[strings.LastIndexByte(word, '/')+1:]
		switch {
		case base == "go" && i+1 < len(test) && test[i+1] == "test" && !slices.Contains(test, "-json"):
			return slices.Insert(slices.Clone(test), i+2, "-json")
		case (base == "pytest" || base == "py.test") && !slices.ContainsFunc(test, func(w string) bool { return strings.HasPrefix(w, "-r") || strings.HasPrefix(w, "--report-log") }):
			return append(slices.Clone(test), "-rA")
		}
	}
	return test
}
