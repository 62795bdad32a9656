package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
)

// Names of a batch's settings: what its flags said, what it found around it,
// and where its tasks came from.
const (
	flagSetting  = "flag:"
	foundSetting = "found:"
	inputSetting = "input"
)

// perStart are flags that belong to a start of a batch and not to the batch.
var perStart = []string{"out", "dry-run", "budget-wall"}

// anew are flags of the batch that a later start may give again. What was given
// last counts.
var anew = []string{"jobs", "budget-tokens", "budget-usd", "machine-cpus", "machine-memory", "disk-short"}

// settings is what the batch keeps, so that it goes on as it began.
func (p *batchPlan) settings(flags *pflag.FlagSet) (map[string]string, error) {
	all := map[string]string{inputSetting: p.input}
	var fault error
	mine := pflag.NewFlagSet("batch", pflag.ContinueOnError)
	(&batchOptions{}).addFlags(mine)
	mine.VisitAll(func(known *pflag.Flag) {
		if slices.Contains(perStart, known.Name) {
			return
		}
		f := flags.Lookup(known.Name)
		if f.Name == "jobs" && f.Value.String() == f.DefValue {
			return // one for each processor, of whatever machine goes on
		}
		text, err := kept(f)
		fault = errors.Join(fault, err)
		all[flagSetting+f.Name] = text
	})
	if fault != nil || len(p.specs) == 0 {
		return all, fault
	}
	found, err := p.found(context.Background(), p.specs[0])
	maps.Copy(all, found)
	return all, err
}

// kept is a flag's value as a batch keeps it.
func kept(f *pflag.Flag) (string, error) {
	value := any(f.Value.String())
	if list, ok := f.Value.(pflag.SliceValue); ok {
		value = list.GetSlice()
	}
	b, err := json.Marshal(value)
	return string(b), err
}

// found is what decides results and is not in the flags.
func (p *batchPlan) found(ctx context.Context, spec batch.Spec) (map[string]string, error) {
	cfg, err := p.turn(ctx, spec)
	if err != nil {
		return nil, err
	}
	digest := func(v any) (string, error) {
		b, err := json.Marshal(v)
		sum := sha256.Sum256(b)
		return hex.EncodeToString(sum[:6]), err
	}
	all := map[string]string{
		foundSetting + "the version of bestof": cfg.Version,
		foundSetting + "the isolation":         cfg.Settings.Isolation.Summary,
	}
	things := map[string]any{"the order of ranking": fmt.Sprint(cfg.Settings.Rank), "the protected paths": strings.Join(cfg.Protect, "\n") + "\x00" + strings.Join(cfg.Unprotect, "\n")}
	for _, s := range cfg.Seats {
		things["the agent "+s.Agent.Name] = s.Agent
	}
	for _, pl := range cfg.Plugins {
		things["the plugin "+pl.Name] = pl.Origin
	}
	maps.Copy(things, p.around(cfg))
	for name, v := range things {
		if all[foundSetting+name], err = digest(v); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// around is what else of the operator's configuration has a say in results, where
// there is any of it.
func (p *batchPlan) around(cfg orchestrator.Config) map[string]any {
	all := map[string]any{}
	var hooks []any
	for _, h := range cfg.Hooks {
		if len(h.Files) > 0 { // those of plugins are theirs
			hooks = append(hooks, []any{h.Event, h.Matcher, h.Network, h.Files})
		}
	}
	if len(hooks) > 0 {
		all["the hooks"] = []any{hooks, cfg.Settings.MaxBlocks}
	}
	if read := p.file.Sandbox.Read; len(read) > 0 {
		all["what candidates may read"] = read
	}
	if cfg.Settings.Advice {
		all["the advice on equal candidates"] = true
	}
	if cfg.Servers != nil {
		for _, e := range cfg.Servers.Entries {
			if e.CandidateSafe && e.Withheld() == "" {
				all["the MCP server "+e.Name] = []any{e.Transport, e.Endpoint(), sortedKeys(e.Env), sortedKeys(e.Headers)} // no secrets, not even a digest
			}
		}
	}
	if cfg.OneFile != nil {
		for _, t := range cfg.OneFile.Set.Tools {
			all["the tool "+string(t.Name)] = t.SHA256
		}
	}
	return all
}

// recall sets the flags as they were when the batch began.
func (o *batchOptions) recall(settings map[string]string) error {
	flags := pflag.NewFlagSet("batch", pflag.ContinueOnError)
	o.addFlags(flags)
	for name, value := range settings {
		name, ok := strings.CutPrefix(name, flagSetting)
		if !ok {
			continue
		}
		f := flags.Lookup(name)
		if f == nil {
			return fmt.Errorf("the batch was begun with --%s, which this bestof does not have", name)
		}
		var err error
		if list, ok := f.Value.(pflag.SliceValue); ok {
			var words []string
			if err = json.Unmarshal([]byte(value), &words); err == nil && words != nil {
				err = list.Replace(words)
			}
		} else {
			var word string
			if err = json.Unmarshal([]byte(value), &word); err == nil {
				err = f.Value.Set(word)
			}
		}
		if err != nil {
			return fmt.Errorf("the batch's setting --%s: %w", name, err)
		}
	}
	return nil
}

// resumeOptions are the flags of batch resume and batch retry.
type resumeOptions struct {
	limits limitOptions
	accept bool
	failed bool
	flags  *pflag.FlagSet // that were given; nil for none
}

// again is what was given anew, as the batch keeps it.
func (o resumeOptions) again() (map[string]string, error) {
	all := map[string]string{}
	for _, name := range anew {
		if o.flags == nil || !o.flags.Changed(name) {
			continue
		}
		text, err := kept(o.flags.Lookup(name))
		if err != nil {
			return nil, err
		}
		all[flagSetting+name] = text
	}
	return all, nil
}

func (o *resumeOptions) addFlags(f *pflag.FlagSet) {
	f.IntVarP(&o.limits.jobs, "jobs", "j", 0, "how many candidates run at once, over all tasks (default as before)")
	o.limits.addFlags(f)
	f.BoolVar(&o.accept, "accept-changes", false, "go on although agents, plugins or bestof itself are not what they were")
}

func (a *app) batchResumeCommand() *cobra.Command {
	var o resumeOptions
	c := &cobra.Command{
		Use:   "resume [flags] DIR",
		Short: "Go on with a batch that was stopped",
		Long: `Goes on with the batch in DIR, with the settings that it was begun with. What is
done is not done again: tasks keep their results, and of a task that was cut off
the candidates that had ended keep theirs. Limits and budgets may be given anew.
If what decides results changed meanwhile, it says so and stops.`,
		Example: "  bestof batch resume out\n  bestof batch resume out -j 8 --budget-usd 100",
		Args:    oneDirectory,
		RunE: func(c *cobra.Command, args []string) error {
			o.flags = c.Flags()
			return a.resumeBatch(c.Context(), o, args[0])
		},
		ValidArgsFunction: completeDirectories,
	}
	o.addFlags(c.Flags())
	return c
}

func (a *app) batchRetryCommand() *cobra.Command {
	var o resumeOptions
	c := &cobra.Command{
		Use:   "retry --failed [flags] DIR",
		Short: "Try again what the host failed",
		Long: `Tries the tasks again that the host failed as often as they may be tried, and
goes on with whatever else is left. Candidates that had ended are not run again.`,
		Example: "  bestof batch retry out --failed",
		Args:    oneDirectory,
		RunE: func(c *cobra.Command, args []string) error {
			if o.flags = c.Flags(); !o.failed {
				return usagef("say what to try again: --failed, what the host failed")
			}
			return a.resumeBatch(c.Context(), o, args[0])
		},
		ValidArgsFunction: completeDirectories,
	}
	o.addFlags(c.Flags())
	c.Flags().BoolVar(&o.failed, "failed", false, "try again the tasks that the host failed")
	return c
}

func (a *app) resumeBatch(ctx context.Context, o resumeOptions, name string) error {
	dir, err := a.batchDir(name)
	if err != nil {
		return err
	}
	state, err := batch.Open(dir)
	if err != nil {
		return asBatchError(err)
	}
	p, err := a.recallBatch(ctx, o, state)
	if err != nil {
		return errors.Join(err, state.Close())
	}
	return a.startBatch(ctx, p, state)
}

// recallBatch makes the plan of a batch that exists.
func (a *app) recallBatch(ctx context.Context, o resumeOptions, state *batch.State) (*batchPlan, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	file, _, err := loadConfig(home, "", false)
	if err != nil {
		return nil, err
	}
	settings, err := state.Settings()
	if err != nil {
		return nil, asBatchError(err)
	}
	p := &batchPlan{app: a, o: &batchOptions{}, file: file, dir: state.Dir(), input: settings[inputSetting], turns: turnCache{}, lookouts: lookouts{}}
	again, err := o.again()
	if err != nil {
		return nil, err
	}
	maps.Copy(settings, again)
	if err := p.o.recall(settings); err != nil {
		return nil, usageError{err}
	}
	p.o.limits.wall = o.limits.wall
	if p.limits, err = p.o.limits.limits(p.o.run, time.Now()); err != nil {
		return nil, err
	}
	if p.seats, _, err = seatsOf(p.o.run, file, true); err != nil {
		return nil, err
	}
	p.o.run.candidates = len(p.seats)
	if p.site, err = a.batchSite(home); err != nil {
		return nil, err
	}
	now, gone, err := p.compareSettings(ctx, state, settings, o)
	if err != nil {
		return nil, err
	}
	maps.Copy(now, again)
	if err := state.SetSettings(now, gone...); err != nil {
		return nil, asBatchError(err)
	}
	if o.failed {
		n, err := state.Retry()
		if err != nil {
			return nil, asBatchError(err)
		}
		a.warn("%s tried again", countAre(n, "task"))
	}
	return p, nil
}

// gone are the settings that were found when the batch began and are not there
// any more.
func gone(settings, found map[string]string) (names []string) {
	for name := range settings {
		if _, there := found[name]; !there && strings.HasPrefix(name, foundSetting) {
			names = append(names, name)
		}
	}
	return names
}

// changes names what was found when the batch began and is another one now, is
// not there any more, or is new.
func changes(settings, found map[string]string) (names []string) {
	was := maps.Clone(settings)
	maps.DeleteFunc(was, func(name, _ string) bool { return !strings.HasPrefix(name, foundSetting) })
	for name, value := range was {
		if is, there := found[name]; !there || is != value {
			names = append(names, strings.TrimPrefix(name, foundSetting))
		}
	}
	for name := range found {
		if _, there := was[name]; !there {
			names = append(names, strings.TrimPrefix(name, foundSetting))
		}
	}
	slices.Sort(names)
	return names
}

// foundAgain is what is found by the task that the batch was begun with: the
// isolation names a task's own image. Where that one cannot be planned any more,
// because its repository is gone, the first of those that are left serves that can
// be, one of each repository. Then a container says nothing of how it was.
func (p *batchPlan) foundAgain(ctx context.Context, state *batch.State, left []batch.Row, settings map[string]string) (map[string]string, error) {
	spec, err := state.Spec(0)
	if err != nil {
		return nil, asBatchError(err)
	}
	found, first := p.found(ctx, spec)
	fault, tried := first, map[string]bool{}
	for _, r := range left {
		if fault == nil || ctx.Err() != nil {
			break
		}
		if spec, err = state.Spec(r.Seq); err != nil {
			return nil, asBatchError(err)
		}
		if r.Seq == 0 || tried[spec.Dir] {
			continue
		}
		tried[spec.Dir] = true
		if found, fault = p.found(ctx, spec); fault == nil && p.o.run.sandbox == "docker" {
			const isolation = foundSetting + "the isolation"
			found[isolation] = settings[isolation]
			p.app.warn("whether the isolation changed is not known: %v", first)
		}
	}
	return found, fault
}

// compareSettings refuses to go on with what decides results when it changed,
// unless somebody agrees: then it returns what is there now, and the names of what
// is gone.
func (p *batchPlan) compareSettings(ctx context.Context, state *batch.State, settings map[string]string, o resumeOptions) (now map[string]string, lost []string, err error) {
	rows, err := state.Rows()
	if err != nil {
		return nil, nil, asBatchError(err)
	}
	rows = slices.DeleteFunc(rows, func(r batch.Row) bool {
		return r.State != batch.Pending && r.State != batch.Running && !(o.failed && r.State == batch.Failed)
	})
	if len(rows) == 0 {
		return map[string]string{}, nil, nil // nothing will be run
	}
	found, err := p.foundAgain(ctx, state, rows, settings)
	if err != nil {
		return nil, nil, err
	}
	changed := changes(settings, found)
	if len(changed) == 0 {
		return map[string]string{}, nil, nil
	}
	text := strings.Join(changed, ", ")
	if !o.accept {
		return nil, nil, statusError{orchestrator.ExitUsage, fmt.Errorf("changed since the batch began: %s: put it back, or go on with --accept-changes", text)}
	}
	p.app.warn("goes on although this changed: %s", text)
	return found, gone(settings, found), nil
}
