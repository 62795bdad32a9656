package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/sqlitefile"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/batch"
	"github.com/bestof-dev/bestof/orchestrator/batch/task"
)

func (a *app) batchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "batch",
		Short: "Run many tasks, and say how well agents and judge did",
		Long: `Runs every task of a file or a directory, each with N candidates, as bestof run
would. A batch lives in a directory of its own: what was done is never done or
paid again, whenever and however it is stopped.`,
		Example: `  bestof batch run tasks.csv --repos clones -n 4 --agents claude:4 --network host --out out
  bestof batch status out
  bestof batch resume out
  bestof batch report out --html report.html
  bestof batch export out --format swebench > predictions.jsonl`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command \"batch %s\" (see `bestof batch --help`)", args[0])
			}
			return c.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(a.batchRunCommand(), a.batchResumeCommand(), a.batchStatusCommand(), a.batchReportCommand(), a.batchRetryCommand(),
		a.batchExportCommand(), a.batchRejudgeCommand())
	for _, sub := range c.Commands() {
		sub.Long = strings.TrimSpace(sub.Long) + "\n\n" + statuses
		sub.Args = asUsage(sub.Args)
	}
	return c
}

// oneDirectory is the argument of the commands about a batch that exists.
func oneDirectory(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name the directory of one batch")
	}
	return nil
}

// completeDirectories completes directories.
func completeDirectories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// batchDir is a batch's directory as it is kept: absolute, without links as far
// as it exists.
func (a *app) batchDir(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.dir, dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err == nil {
		if info, err := os.Stat(real); err == nil && !info.IsDir() {
			return "", usagef("%s is no directory: a batch needs one of its own", dir)
		}
		return real, nil
	}
	if _, err := os.Lstat(abs); err == nil {
		return "", usagef("%s is a link that leads nowhere: name the directory itself", dir)
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(parent, filepath.Base(abs)), nil
	}
	return abs, nil
}

// asBatchError gives errors of a batch's state their status.
func asBatchError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, batch.ErrBusy):
		return refusedf("%w", err)
	case errors.Is(err, batch.ErrNone), errors.Is(err, batch.ErrExists):
		return usageError{err}
	case sqlitefile.Damaged(err):
		err = fmt.Errorf("the state of the batch, batch.db in its directory, is damaged: put back a copy of it, or begin again in another directory; the records of its runs are in runs/ beside it (%w)", err)
	case batch.Full(err):
		return fullDisk(err, "do this again")
	}
	return statusError{orchestrator.ExitInfrastructure, err}
}

// fullDisk says what to do when the disk of a batch is full.
func fullDisk(err error, then string) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("the disk is full: make room on it, then %s (%s)", then, first)}
}

// refuse lists all that is wrong with the input of a batch, and is the error of
// that.
func (a *app) refuse(problems []task.Problem) error {
	problems = task.InOrder(problems)
	if a.json {
		lines := make([]string, len(problems))
		for i, p := range problems {
			lines[i] = p.String()
		}
		if err := a.printJSON(struct {
			Schema   string   `json:"schema"`
			Problems []string `json:"problems"`
			ExitCode int      `json:"exit_code"`
		}{"bestof.batch-problems/1", lines, orchestrator.ExitUsage}); err != nil {
			return err
		}
		return statusError{code: orchestrator.ExitUsage}
	}
	for _, p := range problems {
		a.warn("%s", p)
	}
	return usagef("%s: nothing was run", count(len(problems), "problem"))
}

// openTasks opens an input by its name.
func openTasks(name string) (task.Source, func() error, error) {
	info, err := os.Stat(name)
	if err != nil {
		return task.Source{}, nil, usagef("read the tasks: %w", err)
	}
	src := task.Source{Name: filepath.Base(name)}
	if info.IsDir() {
		root, err := os.OpenRoot(name)
		if err != nil {
			return task.Source{}, nil, usagef("read the tasks: %w", err)
		}
		src.Form, src.Dir = task.Folders, root.FS()
		return src, root.Close, nil
	}
	if src.Form, err = task.FormOf(name); err != nil {
		return task.Source{}, nil, usageError{err}
	}
	f, err := os.Open(name)
	if err != nil {
		return task.Source{}, nil, usagef("read the tasks: %w", err)
	}
	src.Reader = f
	return src, f.Close, nil
}

// countAre is count with its verb.
func countAre(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return count(n, what) + " are"
}

// sortedWords are the words of a comma-separated list, each flag's words in
// order.
func sortedWords(lists []string) []string {
	var out []string
	for _, l := range lists {
		for w := range strings.SplitSeq(l, ",") {
			if w = strings.TrimSpace(w); w != "" && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// dollars reads an amount of money in millionths of a dollar.
func dollars(f float64) (int64, error) {
	if f < 0 || f > 1e9 {
		return 0, fmt.Errorf("%v is no amount in dollars", f)
	}
	return int64(f * 1e6), nil
}
