package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The bounds of a job.
const (
	maxArguments = 512
	maxArgument  = 120 << 10 // bytes: Linux refuses 128 KiB
	maxText      = 256 << 10
	maxSettings  = 1 << 20
	maxPath      = 4096
	maxWebhooks  = 8
	maxNumber    = 1_000_000
	maxPolicy    = 366 * 24 * time.Hour
)

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
	secretForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,99}$`)
)

// CheckName reports a name that no job can have.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("name: %s: write 1 to 40 of a-z, 0-9 and -, with no - at either end", quote(name))
	}
	return nil
}

// Check reports the first thing that is wrong with a job, by its field, with
// the remedy.
func (j Job) Check() error {
	if err := CheckName(j.Name); err != nil {
		return err
	}
	wrap := func(err error) error {
		if err != nil {
			err = fmt.Errorf("job %s: %w", j.Name, err)
		}
		return err
	}
	if _, err := Compile(j.Trigger); err != nil {
		return wrap(err)
	}
	if err := arguments("command", j.Command); err != nil {
		return wrap(err)
	}
	if len(j.Command) == 0 || !slices.Contains([]string{"run", "batch", "tool"}, j.Command[0]) {
		return wrap(fmt.Errorf("command: it begins with none of run, batch and tool: write one of them, then its arguments"))
	}
	if err := absolute("repository", j.Repository); err != nil {
		return wrap(err)
	}
	for _, check := range []func() error{j.Settings.check, j.Task.check, j.Policy.check, j.Result.check} {
		if err := check(); err != nil {
			return wrap(err)
		}
	}
	if !inRange(j.Created) {
		return wrap(fmt.Errorf("created: it is not set: write the time"))
	}
	if j.Revision < 1 {
		return wrap(fmt.Errorf("revision: it is %d: write 1 for a new job", j.Revision))
	}
	return nil
}

// ErrNever means that a job would never fire.
var ErrNever = errors.New("it would never fire")

// CheckNew reports a job that would never fire after now: ErrNever.
func (j Job) CheckNew(now time.Time) error {
	w, err := Compile(j.Trigger)
	if err != nil {
		return fmt.Errorf("job %s: %w", j.Name, err)
	}
	if _, ok := w.Next(now); !ok {
		return fmt.Errorf("job %s: %s: %w: write a time that is still to come", j.Name, j.Trigger.Kind, ErrNever)
	}
	return nil
}

func arguments(field string, args []string) error {
	if len(args) > maxArguments {
		return fmt.Errorf("%s: it has %d arguments: write at most %d", field, len(args), maxArguments)
	}
	sum := 0
	for i, arg := range args {
		if i == 0 && arg == "" {
			return fmt.Errorf("%s: its first word is empty: write a program", field)
		}
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("%s: argument %d holds a zero byte: no program can be given one", field, i)
		}
		if sum += len(arg); sum > maxArgument {
			return fmt.Errorf("%s: it has more than %d bytes: write the rest to a file", field, maxArgument)
		}
	}
	return nil
}

func absolute(field, path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || len(path) > maxPath || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%s: %s is no plain absolute path: write one that begins with / and has no .. in it", field, quote(path))
	}
	return nil
}

func (s Settings) check() error {
	if len(s.Document) > maxSettings {
		return fmt.Errorf("settings: they have %d bytes, and may have %d", len(s.Document), maxSettings)
	}
	if want := Freeze(s.Document).Digest; s.Digest != want {
		return fmt.Errorf("settings: they are not those that were frozen: their digest is %s, not %s: edit the job to freeze them again", quoteless(want), quote(s.Digest))
	}
	return nil
}

// Freeze makes settings of a document, which may be empty.
func Freeze(document []byte) Settings {
	if len(document) == 0 {
		return Settings{}
	}
	sum := sha256.Sum256(document)
	return Settings{Document: document, Digest: "sha256:" + hex.EncodeToString(sum[:])}
}

func (t Task) check() error {
	text, file, command := t.Text != "", t.File != "", len(t.Command) > 0
	want, known := map[TaskKind][3]bool{
		TaskArgument: {}, TaskText: {true, false, false}, TaskFile: {false, true, false}, TaskCommand: {false, false, true},
	}[t.Kind]
	switch {
	case !known:
		return fmt.Errorf("task: its kind is %s: write text, file or command", quote(string(t.Kind)))
	case [3]bool{text, file, command} != want:
		return fmt.Errorf("task: it does not hold what its kind %s says: write that and nothing else", quote(string(t.Kind)))
	case len(t.Text) > maxText:
		return fmt.Errorf("task: its text has %d bytes: write at most %d, or a file", len(t.Text), maxText)
	case strings.ContainsRune(t.Text, 0):
		return fmt.Errorf("task: its text holds a zero byte: write plain text")
	case file && (len(t.File) > maxPath || strings.ContainsRune(t.File, 0) || !filepath.IsAbs(t.File) && !filepath.IsLocal(t.File)):
		return fmt.Errorf("task: %s is no file below the repository and no absolute path: write one of them", quote(t.File))
	}
	return arguments("task: command", t.Command)
}

func (p Policy) check() error {
	if !slices.Contains([]Overlap{OverlapSkip, OverlapQueue, OverlapReplace}, p.Overlap) {
		return fmt.Errorf("overlap: it is %s: write skip, queue or replace", quote(string(p.Overlap)))
	}
	if !slices.Contains([]MissedMode{MissedOnce, MissedSkip, MissedAll}, p.Missed.Mode) {
		return fmt.Errorf("missed: it is %s: write once, skip or all", quote(string(p.Missed.Mode)))
	}
	for _, n := range []struct {
		field     string
		is        int
		low, high int
	}{
		{"queue", p.Queue, 1, 100},
		{"missed: most", p.Missed.Most, 1, 100},
		{"retries", p.Retry.Most, 0, 20},
		{"candidates", p.Candidates, 1, maxNumber},
	} {
		if n.is < n.low || n.is > n.high {
			return fmt.Errorf("%s: it is %d: write %d to %d", n.field, n.is, n.low, n.high)
		}
	}
	for _, d := range []struct {
		field     string
		is        time.Duration
		low, high time.Duration
	}{
		{"missed: horizon", p.Missed.Horizon, time.Minute, maxPolicy},
		{"missed: grace", p.Missed.Grace, 0, p.Missed.Horizon},
		{"retries: first", p.Retry.First, time.Second, 24 * time.Hour},
		{"retries: longest", p.Retry.Longest, p.Retry.First, 24 * time.Hour},
		{"timeout", p.Timeout, 0, maxPolicy},
		{"quiet", p.Quiet, 0, maxPolicy},
		{"jitter", p.Jitter, 0, 24 * time.Hour},
		{"budget of a run: wall", p.PerRun.Wall, 0, maxPolicy},
		{"budget of a month: wall", p.PerMonth.Wall, 0, maxPolicy},
	} {
		if d.is < d.low || d.is > d.high {
			return fmt.Errorf("%s: it is %v: write %v to %v", d.field, d.is, d.low, d.high)
		}
	}
	if p.PerRun.MicroUSD < 0 || p.PerRun.Tokens < 0 || p.PerMonth.MicroUSD < 0 || p.PerMonth.Tokens < 0 {
		return fmt.Errorf("budget: a bound is below zero: write 0 for none")
	}
	return nil
}

func (r Result) check() error {
	switch r.Adopt {
	case AdoptReport, AdoptBranch, AdoptApply:
		if r.Folder != "" {
			return fmt.Errorf("result: only patch has a folder: remove it, or write patch")
		}
	case AdoptPatch:
		if err := absolute("result: folder", r.Folder); err != nil {
			return err
		}
	default:
		return fmt.Errorf("result: it is %s: write report, branch, apply or patch", quote(string(r.Adopt)))
	}
	if r.Sandbox && len(r.OnFinish) == 0 {
		return fmt.Errorf("result: a sandbox is for nothing without a command on finish: write one")
	}
	if len(r.Webhooks) > maxWebhooks {
		return fmt.Errorf("result: it has %d webhooks: write at most %d", len(r.Webhooks), maxWebhooks)
	}
	for _, w := range r.Webhooks {
		if err := w.check(); err != nil {
			return err
		}
	}
	return arguments("result: on finish", r.OnFinish)
}

func (w Webhook) check() error {
	u, err := url.Parse(w.URL)
	if err != nil || len(w.URL) > maxPath || u.Host == "" || u.Opaque != "" {
		return fmt.Errorf("webhook: it is no URL: write one that begins with https://")
	}
	host := u.Hostname()
	ip, err := netip.ParseAddr(host)
	here := host == "localhost" || err == nil && ip.IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && here) {
		return fmt.Errorf("webhook: %s is not protected on its way: write https, or a host that is this machine", quote(u.Scheme+"://"+host))
	}
	if u.User != nil || u.Fragment != "" {
		return fmt.Errorf("webhook: its URL holds a user or a fragment: name a secret that signs instead")
	}
	if w.Secret != "" && !secretForm.MatchString(w.Secret) {
		return fmt.Errorf("webhook: the name of its secret does not fit: write letters, digits and _")
	}
	return nil
}
