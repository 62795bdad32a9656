package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner/webhook"
)

// Told is what became of telling how a run ended. While something is left to
// do it lies in the outbox, and after a crash it is done again: a program or a
// server may be told twice, with the same key, and never not at all.
type Told struct {
	Run   int64        `json:"run"`
	Job   schedule.Job `json:"job"`
	Steps []Step       `json:"steps"`
}

// A Step is one who is told.
type Step struct {
	Kind   string `json:"kind"` // on-finish | webhook
	Target string `json:"target"`
	Done   bool   `json:"done"`
	Failed bool   `json:"failed,omitempty"` // for good
	Tries  int    `json:"tries"`
	Reason string `json:"reason,omitempty"`
}

const (
	onFinish = "on-finish"
	hook     = "webhook"
)

// How often a webhook is tried: with these waits about two minutes.
const (
	maxTries  = 6
	firstWait = 2 * time.Second
	longest   = time.Minute
)

func outbox(home string) string { return filepath.Join(home, "jobs", "outbox") }

func stepsOf(r schedule.Result) []Step {
	var steps []Step
	if len(r.OnFinish) > 0 {
		steps = append(steps, Step{Kind: onFinish, Target: r.OnFinish[0]})
	}
	for _, w := range r.Webhooks {
		steps = append(steps, Step{Kind: hook, Target: w.URL})
	}
	return steps
}

func toldName(run int64) string { return strconv.FormatInt(run, 10) + ".json" }

func writeTold(home string, t Told) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(outbox(home), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(outbox(home), toldName(t.Run)), b, 0o600)
}

func readTold(home string, run int64) (Told, error) {
	b, err := readBelow(outbox(home), toldName(run), 1<<20)
	if err != nil {
		return Told{}, err
	}
	return parseTold(b, run)
}

// parseTold reads a document about a run whose steps are those of its job.
func parseTold(b []byte, run int64) (Told, error) {
	var t Told
	if err := json.Unmarshal(b, &t); err != nil {
		return Told{}, err
	}
	same := func(a, b Step) bool { return a.Kind == b.Kind && a.Target == b.Target }
	if t.Run != run || !slices.EqualFunc(t.Steps, stepsOf(t.Job.Result), same) {
		return Told{}, fmt.Errorf("run %d: who is to be told of it is not what its job says", run)
	}
	return t, nil
}

// LoadTold reads what became of telling how a run ended; nothing of a run that
// tells nobody.
func LoadTold(home string, run int64) (Told, error) {
	t, err := readTold(home, run)
	if !errors.Is(err, os.ErrNotExist) {
		return t, err
	}
	b, err := readBelow(runsDir(home), filepath.Join(strconv.FormatInt(run, 10), ToldFile), 1<<20)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Told{}, nil
	case err != nil:
		return Told{}, err
	}
	return parseTold(b, run)
}

// resend tells what an earlier runner did not come to tell.
func (r *Runner) resend(ctx context.Context) {
	runs, err := numbered(outbox(r.Home), ".json")
	if err != nil {
		r.Log.Error("who is to be told cannot be read", "error", err.Error())
	}
	slices.Reverse(runs)
	for _, n := range runs {
		r.tell(ctx, n)
	}
}

// tell lets those know who are to, while the next is decided.
func (r *Runner) tell(ctx context.Context, run int64) {
	t, err := readTold(r.Home, run)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var document []byte
	if err == nil {
		document, err = readBelow(runsDir(r.Home), filepath.Join(strconv.FormatInt(run, 10), ResultFile), maxResult)
	}
	if errors.Is(err, os.ErrNotExist) { // it never came to a result
		err = os.Remove(filepath.Join(outbox(r.Home), toldName(run)))
		document = nil
	}
	if err != nil {
		r.Log.Error("nobody is told of a run", "run", run, "error", err.Error())
	}
	if err != nil || document == nil {
		return
	}
	r.telling++
	r.working.Go(func() {
		if err := r.tellAll(ctx, t, document); err != nil {
			r.Log.Error("what became of telling was not kept", "run", run, "error", err.Error())
		}
		r.told <- struct{}{}
	})
}

// tellAll does the steps that are left, one after another, and keeps each.
func (r *Runner) tellAll(ctx context.Context, t Told, document []byte) error {
	var res Result
	if err := json.Unmarshal(document, &res); err != nil {
		return err
	}
	webhooks := t.Job.Result.Webhooks
	for i := range t.Steps {
		s := &t.Steps[i]
		w := i - (len(t.Steps) - len(webhooks))
		if s.Done || s.Failed {
			continue
		}
		var err error
		if s.Kind == onFinish {
			err = r.finish(ctx, s, t, res, document)
		} else {
			err = r.post(ctx, s, webhooks[w], res, document)
		}
		if ctx.Err() != nil {
			return nil // it stays in the outbox
		}
		if s.Done, s.Failed = err == nil, err != nil; err != nil {
			s.Reason = term.Clean(r.Redactor.String(err.Error()), 500).String()
			r.Log.Warn("telling failed", "job", res.Job, "run", t.Run, "kind", s.Kind, "tries", s.Tries, "reason", s.Reason)
		} else {
			s.Reason = ""
			r.Log.Info("told", "job", res.Job, "run", t.Run, "kind", s.Kind, "tries", s.Tries)
		}
		if err := writeTold(r.Home, t); err != nil {
			return err
		}
	}
	return os.Rename(filepath.Join(outbox(r.Home), toldName(t.Run)), filepath.Join(Dir(r.Home, t.Run), ToldFile))
}

// finish runs the job's own program, once. How it ends changes nothing about
// the run.
func (r *Runner) finish(ctx context.Context, s *Step, t Told, res Result, document []byte) error {
	file, err := os.OpenFile(filepath.Join(Dir(r.Home, t.Run), OnFinishFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	log := newLog(file, r.Redactor, maxLog)
	s.Tries++
	status, err := r.Program.Finish(ctx, t.Job, Dir(r.Home, t.Run), environment(res), document, log)
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	if status != 0 {
		return fmt.Errorf("%s ended with status %d: see %s", s.Target, status, file.Name())
	}
	return nil
}

// environment is what a program is told besides the document.
func environment(res Result) map[string]string {
	return map[string]string{
		"BESTOF_JOB": res.Job, "BESTOF_JOB_RUN": strconv.FormatInt(res.Run, 10), "BESTOF_JOB_KEY": res.Key, "BESTOF_OUTCOME": res.Outcome,
		"BESTOF_REPOSITORY": res.Repository, "BESTOF_BRANCH": res.Branch, "BESTOF_COMMIT": res.Commit, "BESTOF_PATCHES": strings.Join(res.Patches, "\n"),
	}
}

// post tells a server, again with growing waits while it may help.
func (r *Runner) post(ctx context.Context, s *Step, w schedule.Webhook, res Result, document []byte) error {
	m := webhook.Message{URL: w.URL, Body: document, Delivery: res.Key}
	if w.Secret != "" {
		value, ok := r.Program.Secret(w.Secret)
		if !ok || value == "" {
			return fmt.Errorf("the variable %s, whose value signs, is not set where jobs are run", w.Secret)
		}
		m.Secret = value
	}
	pause := firstWait
	for {
		s.Tries++
		asked, err := r.Sender.Send(ctx, m)
		if err == nil || errors.Is(err, webhook.ErrForGood) || s.Tries >= maxTries || ctx.Err() != nil {
			return err
		}
		rings, stop, alarmErr := r.Clock.Alarm(r.Clock.Now().Add(max(pause, min(asked, longest))))
		if alarmErr != nil {
			return errors.Join(err, alarmErr)
		}
		select {
		case <-rings:
		case <-ctx.Done():
		}
		stop()
		if ctx.Err() != nil {
			return err
		}
		pause = min(2*pause, longest)
	}
}
