// Package export writes jobs in the forms of other programs that start things
// at times: cron, systemd and Kubernetes. It is pure. Each form starts `bestof
// job run NAME` at the times of the job, so that everything else about it is as
// when bestof itself starts it. What a form cannot say is refused, or, where the
// job only becomes less punctual, noted.
package export

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/lazyregexp"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// A Format is a form of another program.
type Format string

// The formats.
const (
	Cron       Format = "cron"       // a file for crontab(1)
	Systemd    Format = "systemd"    // a service and a timer for each job
	Kubernetes Format = "kubernetes" // a CronJob for each job
)

// Formats are all formats.
var Formats = []Format{Kubernetes, Systemd, Cron}

// Options say where the jobs run.
type Options struct {
	Program string // path of this program, absolute
	Home    string // BESTOF_HOME, absolute
	Path    string // PATH of the jobs; "" for the other program's own
	User    bool   // of Systemd: units for a user's own manager
	Image   string // of Kubernetes: NAME@sha256:DIGEST
	Mount   string // of Kubernetes: where the volume of the state is; Home and repositories lie below it
}

// A File is one file of an export.
type File struct {
	Name string
	Text string
}

// Files writes jobs in a format. notes are what becomes less punctual, one line
// each; they are in the files too.
func Files(f Format, jobs []schedule.Job, o Options) (files []File, notes []string, err error) {
	if len(jobs) == 0 {
		return nil, nil, errors.New("there is no job to export: add one with `bestof job add`")
	}
	if err := o.check(f); err != nil {
		return nil, nil, err
	}
	jobs = slices.Clone(jobs)
	slices.SortFunc(jobs, func(a, b schedule.Job) int { return strings.Compare(a.Name, b.Name) })
	var plans []plan
	for _, j := range jobs {
		p, err := planned(f, j, o)
		if err != nil {
			return nil, nil, fmt.Errorf("job %s: %w", name(j.Name), err)
		}
		plans = append(plans, p)
		for _, n := range p.notes {
			notes = append(notes, fmt.Sprintf("job %s: %s", j.Name, n))
		}
	}
	switch f {
	case Cron:
		return []File{{"bestof.crontab", crontab(plans, o)}}, notes, nil
	case Systemd:
		for _, p := range plans {
			files = append(files, File{"bestof-job-" + p.job.Name + ".service", p.service(o)}, File{"bestof-job-" + p.job.Name + ".timer", p.timer()})
		}
		return files, notes, nil
	}
	for _, p := range plans {
		files = append(files, File{"bestof-job-" + p.job.Name + ".yaml", p.cronJob(o)})
	}
	return files, notes, nil
}

// A plan is a job as a format says it.
type plan struct {
	job   schedule.Job
	zone  string
	times []string // cron lines or OnCalendar expressions
	notes []string
}

var jobName = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// name shows a name that may be anything.
func name(s string) string {
	if jobName().MatchString(s) {
		return s
	}
	if len(s) > 60 {
		s = s[:60]
	}
	return fmt.Sprintf("%q", s)
}

var (
	imageByDigest = lazyregexp.New(`^[a-z0-9]([a-zA-Z0-9._:/-]{0,250}[a-zA-Z0-9])?@sha256:[0-9a-f]{64}$`)
	errImage      = errors.New("name the image by its digest, --image REGISTRY/NAME@sha256:…: a tag may be another image tomorrow")
)

// check looks at what stands in every file. The formats have lines, so nothing
// may break one.
func (o Options) check(f Format) error {
	if !slices.Contains(Formats, f) {
		return fmt.Errorf("there is no format %q: write kubernetes, systemd or cron", f)
	}
	if f == Kubernetes && !imageByDigest().MatchString(o.Image) {
		return errImage
	}
	paths := map[string]string{"the program": o.Program}
	if f == Kubernetes || o.Home != "" {
		paths["BESTOF_HOME"] = o.Home
	}
	if f == Kubernetes {
		paths["the volume"] = o.Mount
	}
	for _, what := range slices.Sorted(maps.Keys(paths)) {
		if err := pathOf(paths[what]); err != nil {
			return fmt.Errorf("the path of %s: %w", what, err)
		}
	}
	if f == Kubernetes && !below(o.Home, o.Mount) {
		return fmt.Errorf("BESTOF_HOME is %s, which is not below %s, where the volume is: jobs would be forgotten with each pod", o.Home, o.Mount)
	}
	if f == Systemd && strings.ContainsAny(o.Program, `'"\`) {
		return fmt.Errorf("the path of the program is %s, and systemd runs none whose path has a quotation mark or a backslash: put it elsewhere", o.Program)
	}
	if f == Cron && strings.ContainsAny(o.Path, `'"`) {
		return errors.New("PATH has a quotation mark, which crontab(5) cannot say: give another")
	}
	return oneLine(o.Path)
}

func pathOf(s string) error {
	if !path.IsAbs(s) || path.Clean(s) != s {
		return fmt.Errorf("%q is not an absolute path", s)
	}
	return oneLine(s)
}

// oneLine refuses what no format can carry in a line.
func oneLine(s string) error {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%q has characters that cannot be written in a line", s)
	}
	return nil
}

func below(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// planned says a job in a format, or why it cannot be said.
func planned(f Format, j schedule.Job, o Options) (plan, error) {
	p := plan{job: j}
	if !jobName().MatchString(j.Name) {
		return p, errors.New("the name is none that a unit may have: lower-case letters, digits and dashes")
	}
	w, err := schedule.Compile(j.Trigger)
	if err != nil {
		return p, err
	}
	p.zone = w.Zone().String()
	if f == Systemd {
		p.times, err = calendars(j.Trigger, w)
	} else {
		var line string
		line, err = cronLine(f, j.Trigger, w)
		p.times = []string{line}
	}
	if err != nil {
		return p, err
	}
	if err := p.policy(f); err != nil {
		return p, err
	}
	if f == Kubernetes && !below(j.Repository, o.Mount) {
		return p, fmt.Errorf("its repository %q is not below %s, where the volume is: clone it there, or say --mount DIR", j.Repository, o.Mount)
	}
	if t := p.job.Trigger; t.Kind == schedule.Every && f != Systemd && t.From.Second() != 0 {
		p.notes = append(p.notes, fmt.Sprintf("it fires on the minute, %d s earlier", t.From.Second()))
	}
	if putForward(w) && f != Cron {
		p.notes = append(p.notes, "a time that the clock leaves out when it is put forward is not made up for")
	}
	return p, nil
}

// policy refuses what would make another job of it, and notes the rest.
func (p *plan) policy(f Format) error {
	o := p.job.Policy
	switch {
	case p.job.Paused && f != Kubernetes:
		return fmt.Errorf("it is paused, which %s cannot say: resume it with `bestof job resume %s`, or name other jobs", f, p.job.Name)
	case f == Systemd && o.Overlap != schedule.OverlapSkip:
		return fmt.Errorf("its overlap is %s, and a timer of systemd only skips: let `bestof daemon` or `bestof job tick` start it, or edit it", o.Overlap)
	case f == Kubernetes && o.Overlap == schedule.OverlapQueue:
		return errors.New("its overlap is queue, and a CronJob skips or replaces: let `bestof daemon` or `bestof job tick` start it, or edit it")
	case f != Cron && o.Missed.Mode == schedule.MissedAll:
		return fmt.Errorf("it makes up for all missed fires, and %s makes up for one at most: let `bestof daemon` or `bestof job tick` start it, or edit it", f)
	}
	if f == Cron && o.Missed.Mode != schedule.MissedSkip {
		p.notes = append(p.notes, "cron does not make up for fires that were missed while the machine was off")
	}
	if f != Systemd && o.Jitter >= time.Second {
		p.notes = append(p.notes, fmt.Sprintf("%s has no jitter: it fires on the minute", f))
	}
	return nil
}

// longest is how long all attempts of a fire may take, in seconds; 0 for
// without end.
func longest(o schedule.Policy) int64 {
	if o.Timeout <= 0 {
		return 0
	}
	const most = 400 * 24 * 3600
	attempts := int64(min(max(o.Retry.Most, 0), 100)) + 1
	timeout, wait := min(int64(o.Timeout/time.Second), most), min(int64(o.Retry.Longest/time.Second), most)
	return min(attempts*timeout+(attempts-1)*wait+600, most)
}

// putForward reports whether the clock of a trigger is put forward at times.
func putForward(w *schedule.When) bool {
	if f, ok := w.Fields(); !ok || len(f.Hours) == 24 {
		return false
	}
	// Zones change in the same way every year, those that change at all.
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).In(w.Zone())
	_, end := at.ZoneBounds()
	return !end.IsZero() && end.Before(at.AddDate(2, 0, 0))
}
