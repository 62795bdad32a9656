package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/tiebreak"
	"github.com/bestof-dev/bestof/orchestrator/training"
	"github.com/bestof-dev/bestof/plugin/tool"
	"github.com/bestof-dev/bestof/plugin/tool/kernel"
	"github.com/bestof-dev/bestof/plugin/tool/train"
)

type trainOptions struct {
	seed      string
	timeout   time.Duration
	patches   bool
	dryRun    bool
	rows      string
	forget    bool
	reference bool
}

func (a *app) toolTrainCommand() *cobra.Command {
	var o trainOptions
	c := &cobra.Command{
		Use:   "train NAME",
		Short: "Train a model that breaks ties, on what became of your choices",
		Long: `Runs a trainer of $BESTOF_HOME/tools/train under the interpreter that
[tools] train_python names; without one it refuses. The rows are pairs of
candidates that the rule ranked equal, of runs in which you adopted one of them:
numbers about both, and which was kept. Rows of one piece of work are trained
on together or held out together.

What was trained is promoted if it is surely better, on the rows held out, than
the most frequent answer, than the fewest lines, and than the model that advises
now. A promoted model is asked only in runs with --advice (or [tools] advice =
true), only about candidates that are equal by the rule, and its answers are in
the record.

Exit status: 0 trained, promoted or not; 2 usage, no such trainer; 6 refused, no
interpreter or too few choices; 7 the trainer failed.`,
		Example: `  bestof tool train --reference > ~/.bestof/tools/train/pairs.py
  bestof tool train pairs --dry-run
  bestof tool train pairs
  bestof tool train --forget`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.trainers(c.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error { return a.runTrain(c.Context(), args, o) },
	}
	o.addFlags(c.Flags())
	return c
}

func (o *trainOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.seed, "seed", "bestof", "decides which pieces of work are held out")
	f.DurationVar(&o.timeout, "timeout", 6*time.Hour, "time for each call of the trainer")
	f.BoolVar(&o.patches, "patches", false, "rows also hold what candidates changed, not only numbers about it")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be trained on, and start nothing")
	f.StringVar(&o.rows, "rows", "", "write all rows to this file, one JSON object a line, and train nothing")
	f.BoolVar(&o.forget, "forget", false, "take the promotion away: nobody advises")
	f.BoolVar(&o.reference, "reference", false, "print a trainer in plain Python to begin with")
}

// trainers completes the name of a live trainer.
func (a *app) trainers(ctx context.Context, args []string) []string {
	b, err := a.toolbox(tool.Trainer)
	if err != nil || len(args) > 0 {
		return nil
	}
	set, err := b.Live(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, n := range set.Names() {
		names = append(names, string(n))
	}
	return names
}

func (a *app) runTrain(ctx context.Context, args []string, o trainOptions) error {
	b, err := a.toolbox(tool.Trainer)
	if err != nil {
		return err
	}
	shelf := training.Open(b.home)
	named := len(args) == 1
	switch {
	case o.timeout <= 0:
		return usagef("--timeout: write a length of time, for example 6h")
	case (o.forget || o.reference || o.rows != "") == named:
		return usagef("name one trainer, or use one of --reference, --rows FILE and --forget without a name")
	case o.reference:
		_, err := fmt.Fprint(a.Out, train.Reference)
		return err
	case o.forget:
		return a.forgetModel(shelf)
	}
	rows, err := a.trainingRows(ctx, b.home, o.patches)
	if err != nil {
		return err
	}
	if o.rows != "" {
		if err := training.Rows(o.rows, rows); err != nil {
			return statusError{orchestrator.ExitInfrastructure, err}
		}
		a.warn("%d rows are in %s", len(rows), o.rows)
		return nil
	}
	return a.trainOn(ctx, b, shelf, args[0], training.Prepare(rows, o.seed), o)
}

func (a *app) forgetModel(shelf training.Shelf) error {
	was, err := shelf.Forget()
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	text := "there was no promoted model"
	if was {
		text = "nobody advises any more; what was trained is still there"
	}
	_, err = fmt.Fprintln(a.Out, text)
	return err
}

func (a *app) trainingRows(ctx context.Context, home string, patches bool) ([]tiebreak.Row, error) {
	choices, notices, err := training.Choices(ctx, filepath.Join(home, "runs"), patches)
	if err != nil {
		return nil, statusError{orchestrator.ExitInfrastructure, err}
	}
	for _, n := range notices {
		a.warn("%s", n)
	}
	return tiebreak.Rows(choices), nil
}

// trainer finds a live trainer that can run.
func (a *app) trainer(ctx context.Context, b toolbox, stem string) (tool.File, error) {
	name, err := tool.ParseName(stem)
	if err != nil {
		return tool.File{}, usageError{err}
	}
	set, err := b.Live(ctx)
	if err != nil {
		return tool.File{}, toolError(ctx, err)
	}
	t, ok := set.Find(name)
	if !ok {
		return tool.File{}, unknownTrainer(name, set)
	}
	if b.settings.TrainPython == nil {
		return tool.File{}, refusedf("no interpreter for training is named: write train_python = \"/path/to/python3\" under [tools] in %s", filepath.Join(b.home, "config.toml"))
	}
	return t.File, nil
}

func (a *app) trainOn(ctx context.Context, b toolbox, shelf training.Shelf, stem string, plan training.Plan, o trainOptions) error {
	file, err := a.trainer(ctx, b, stem)
	if err != nil {
		return err
	}
	if o.dryRun {
		return a.printTrainingPlan(plan)
	}
	h := a.trainingHost(b, o.timeout)
	h.Step = func(text string) { a.warn("%s", text) }
	out, err := shelf.Train(ctx, h, file, plan)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case errors.Is(err, training.ErrTooFew):
		return statusError{orchestrator.ExitRefused, err}
	case err != nil:
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	if a.json {
		return a.printJSON(out)
	}
	return a.printTraining(out)
}

// trainingHost runs trainers with the operator's privileges, in a directory of
// theirs.
func (a *app) trainingHost(b toolbox, limit time.Duration) training.Host {
	python := ""
	if b.settings.TrainPython != nil {
		python = *b.settings.TrainPython
	}
	return training.Host{
		Python: python, Start: kernel.Host(a.Environ, b.Dir()), Limit: limit, Now: time.Now,
		Find: func(n tool.Name) (tool.File, error) { return b.Find(tool.Live, n) },
	}
}

func unknownTrainer(name tool.Name, set tool.Set) error {
	for _, s := range set.Skipped {
		if s.File == name.File() {
			return usagef("the trainer %s is skipped: %s", name, s)
		}
	}
	var names []string
	for _, n := range set.Names() {
		names = append(names, string(n))
	}
	if len(names) == 0 {
		return usagef("there is no trainer %q, nor any other: `bestof tool train --reference` prints one", name)
	}
	return usagef("there is no trainer %q: there are %s", name, strings.Join(names, ", "))
}

func (a *app) printTrainingPlan(p training.Plan) error {
	if a.json {
		return a.printJSON(p)
	}
	_, err := fmt.Fprintf(a.Out, "%d rows about %d pieces of work: %d to train on, %d held out, %d left out\nright on those held out: the constant %s, the fewest lines %s\n",
		p.Rows, p.Pieces, p.Train, p.Held, p.Dropped, share(p.Constant), share(p.Fewest))
	return err
}

func share(s tiebreak.Score) string {
	return fmt.Sprintf("%d of %d (%.1f %%)", s.Correct, s.N, 100*s.Accuracy())
}

func (a *app) printTraining(out training.Outcome) error {
	m := out.Model
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%s\t\n", m.Trainer, share(m.Promotion.Score))
	for _, r := range m.Promotion.Against {
		verdict := "not beaten"
		if r.Beaten {
			verdict = "beaten"
		}
		fmt.Fprintf(w, "%s\t%.1f %%\t%s, by at least %+.3f\n", r.Rival, 100*r.Accuracy, verdict, r.Lower)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	word := "not promoted"
	if m.Promotion.Promote {
		word = "promoted"
	}
	_, err := fmt.Fprintf(a.Out, "%s: %s\n%s\n", word, term.Clean(m.Promotion.Reason, 0), term.Clean(out.Directory, 0))
	return err
}

// adviser asks the promoted model in a run. Where nothing was promoted, or its
// trainer cannot run, the run is ranked without it, and says so.
func (a *app) adviser() func(context.Context, record.Document, [][]int) *record.Advice {
	return func(ctx context.Context, doc record.Document, equal [][]int) *record.Advice {
		b, err := a.toolbox(tool.Trainer)
		if err == nil && b.settings.TrainPython == nil {
			err = errors.New("[tools] train_python is not set")
		}
		if err != nil {
			return &record.Advice{Fault: term.Clean(err.Error(), 400).String()}
		}
		if _, err := os.Stat(b.Dir()); errors.Is(err, fs.ErrNotExist) {
			return &record.Advice{Fault: "there is no trainer"}
		}
		return training.Open(b.home).Advise(ctx, a.trainingHost(b, time.Minute), doc, equal)
	}
}
