package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/demo"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/worktree"
)

func (a *app) demoCommand() *cobra.Command {
	var dir string
	var candidates int
	c := &cobra.Command{
		Use:   "demo",
		Short: "Repair a small bundled repository with a real bug",
		Long: `Writes a small repository with a bug and a failing test into a new directory and
runs "bestof run" on it with the built-in agent: no key, no network, no model.
The directory stays, so that you can look around in it.`,
		Example: "  bestof demo\n  bestof demo --dir /tmp/try -n 4",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runDemo(c.Context(), dir, candidates)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "make the repository in `DIR`, which must not exist (default a new temporary directory)")
	c.Flags().IntVarP(&candidates, "candidates", "n", 2, "how many candidates try")
	return c
}

func (a *app) runDemo(ctx context.Context, dir string, candidates int) error {
	d, err := demo.Pick(func(program string) bool {
		_, err := lookPath(program, a.getenv("PATH"))
		return err == nil
	})
	if err != nil {
		return usageError{err}
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bestof-demo-"); err != nil {
			return statusError{orchestrator.ExitInfrastructure, err}
		}
	} else if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return usagef("--dir: %s exists already: name a directory that does not", dir)
		}
		return usagef("--dir: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := worktree.Create(ctx, dir, d.Files, "A small project with a bug"); err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	fmt.Fprintf(a.Err, "bestof: the demo is in %s\nbestof: running: bestof -C %s run -n %d --timeout 2m --test %s %s\n",
		term.Clean(dir, 0), term.Clean(argv.Join([]string{dir}), 0), candidates, argv.Join([]string{argv.Join(d.Test)}), argv.Join([]string{d.Task}))
	a.dir = dir
	run := a.runCommand()
	if err := run.ParseFlags([]string{"-n", fmt.Sprint(candidates), "--timeout", (2 * time.Minute).String(), "--test", argv.Join(d.Test)}); err != nil {
		return err
	}
	run.SetContext(ctx)
	return run.RunE(run, []string{d.Task})
}
