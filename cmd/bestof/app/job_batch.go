package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/runner"
)

// goOn is an invocation that goes on with the batch of an earlier attempt at the
// same fire: what was done there is not done, and not paid for, again. The error
// says what speaks against it; it is batch.ErrNone where there is nothing to go on
// with.
func (p *jobProgram) goOn(ctx context.Context, j schedule.Job, r schedule.Run, f frozenSettings, before *runner.Attempted) (inv runner.Invocation, err error) {
	dir := before.Invocation.Batch
	if was := before.Job; was.Settings.Digest != j.Settings.Digest || was.Repository != j.Repository {
		return inv, errors.New("the job was edited since")
	}
	now, err := readStatus(dir)
	if err == nil {
		err = p.canResume(ctx, dir)
	}
	if err != nil {
		return inv, err
	}
	inv = runner.Invocation{
		Argv: []string{p.self, "batch", "resume"}, Dir: "/", Batch: dir, GoesOn: before.Run, Before: usedSince(now, schedule.Budget{}),
	}
	if first := before.Invocation.GoesOn; first != 0 {
		inv.GoesOn = first
	}
	if now.Failed > 0 {
		inv.Argv = []string{p.self, "batch", "retry", "--failed"}
	}
	inv.Argv = append(inv.Argv, f.limits().words()...)
	if r.Places > 0 && r.Places < j.Policy.Candidates {
		inv.Argv = append(inv.Argv, "--jobs="+strconv.Itoa(r.Places)) // the last one counts
	}
	inv.Argv = append(append(inv.Argv, budgetFlags(f, whole(r.Allowed, inv.Before))...), "--", dir)
	inv.Notices = []string{fmt.Sprintf("goes on with the batch of run %d: %d of %s done, and not done again", inv.GoesOn, now.Tasks-now.Running-now.Pending-now.Failed, countAre(now.Tasks, "task"))}
	return inv, nil
}

// canResume looks whether a batch can go on as it began.
func (p *jobProgram) canResume(ctx context.Context, dir string) error {
	state, err := batch.Open(dir)
	if err != nil {
		return asBatchError(err)
	}
	_, err = p.in("/", io.Discard).recallBatch(ctx, resumeOptions{}, state)
	return errors.Join(err, state.Close())
}

// limits are the settings that belong to a start of a batch and not to the batch.
func (f frozenSettings) limits() frozenSettings {
	known := pflag.NewFlagSet("resume", pflag.ContinueOnError)
	(&resumeOptions{}).addFlags(known)
	f.Flags = slices.DeleteFunc(slices.Clone(f.Flags), func(flag frozenFlag) bool { return known.Lookup(flag.Name) == nil })
	return f
}

// usedSince is what a batch used without what it used before.
func usedSince(now batchNow, before schedule.Budget) schedule.Budget {
	return schedule.Budget{MicroUSD: max(0, int64(now.CostUSD*1e6)-before.MicroUSD), Tokens: max(0, now.Tokens-before.Tokens)}
}

// whole is what a batch may use in all that used so much before; what has no bound
// stays so.
func whole(allowed, before schedule.Budget) schedule.Budget {
	if allowed.MicroUSD > 0 {
		allowed.MicroUSD += before.MicroUSD
	}
	if allowed.Tokens > 0 {
		allowed.Tokens += before.Tokens
	}
	return allowed
}

func (p *jobProgram) readBatch(j schedule.Job, inv runner.Invocation) (runner.Produced, error) {
	out := runner.Produced{Record: inv.Batch}
	now, err := readStatus(inv.Batch)
	if errors.Is(err, batch.ErrNone) {
		err = fmt.Errorf("the batch did not begin: `bestof job logs %s` says why", j.Name)
	}
	if err != nil {
		return out, err
	}
	if out.Document, err = json.Marshal(now); err != nil {
		return out, err
	}
	out.Reason = fmt.Sprintf("%d of %s solved", now.Solved, count(now.Tasks, "task"))
	if inv.GoesOn != 0 {
		out.Reason += fmt.Sprintf("; it went on with the batch of run %d", inv.GoesOn)
	}
	out.Used = usedSince(now, inv.Before)
	out.Reported, out.Fruitless = now.Unreported == 0, now.Solved == 0
	if j.Result.Adopt != schedule.AdoptPatch {
		return out, nil
	}
	b, err := p.in(".", io.Discard).openRecorded(inv.Batch, false)
	if err != nil {
		return out, err
	}
	for w, err := range b.winners() {
		if err != nil {
			return out, errors.Join(err, b.close())
		}
		if len(w.Patch) > 0 {
			out.Patches = append(out.Patches, runner.Patch{Name: patchName(w.Instance), Data: w.Patch})
		}
	}
	return out, b.close()
}

// recoverBatch finds what a batch left that ran to its end.
func (p *jobProgram) recoverBatch(j schedule.Job, inv runner.Invocation) (out runner.Produced, status int, ok bool, err error) {
	now, err := readStatus(inv.Batch)
	if errors.Is(err, batch.ErrNone) {
		return out, -1, false, nil
	}
	if err != nil || now.Process != 0 || now.Tasks == 0 || now.Running+now.Pending > 0 {
		return out, -1, false, err
	}
	if now.Failed > 0 {
		status = orchestrator.ExitInfrastructure
	}
	out, err = p.readBatch(j, inv)
	return out, status, err == nil, err
}

// patchName is a task's id as the name of a file: inputs may call it anything.
func patchName(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, id)
}
