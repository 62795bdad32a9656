package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/desk"
	"github.com/bestof-dev/bestof/orchestrator/schedule/export"
)

// exportOptions are the flags of job export.
type exportOptions struct {
	format  string
	out     string
	program string
	home    string
	path    string
	image   string
	mount   string
	user    bool
}

func (a *app) jobExportCommand() *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export --format FORMAT [flags] [NAME…]",
		Short: "Write jobs for cron, systemd or Kubernetes to start",
		Long: `Writes all jobs, or those that are named, in the form of another program that then
starts each with bestof job run NAME at its times, in place of bestof daemon. Policies,
budgets and history are as ever. What the form cannot say is refused; where a job
becomes less punctual, a note says so.`,
		Example: `  bestof job export --format cron | crontab -
  bestof job export --format systemd --user --out ~/.config/systemd/user
  bestof job export --format kubernetes --image registry.example.com/bestof@sha256:… --out jobs nightly`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.exportJobs(o, c.Flags().Changed, args) },
		ValidArgsFunction: func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			names, directive := a.completeJobs(c, nil, begun)
			return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), directive
		},
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", "", "kubernetes | systemd | cron")
	f.StringVar(&o.out, "out", "", "write files to `DIR` (default: all on stdout)")
	f.StringVar(&o.program, "program", "", "the `PATH` of bestof where the jobs run (default this one, in an image /usr/bin/bestof)")
	f.StringVar(&o.home, "home", "", "BESTOF_HOME where the jobs run, a `DIR` (default this one's, in an image .bestof on the volume)")
	f.StringVar(&o.path, "path", "", "PATH of the jobs, `DIRS` with colons between (default yours, in an image the image's)")
	f.StringVar(&o.image, "image", "", "for kubernetes: the image, `NAME@sha256:DIGEST`")
	f.StringVar(&o.mount, "mount", "/home/bestof", "for kubernetes: where the volume is in the image, a `DIR`")
	f.BoolVar(&o.user, "user", false, "for systemd: units for your own user's manager")
	var formats []string
	for _, f := range export.Formats {
		formats = append(formats, string(f))
	}
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	for _, flag := range []string{"out", "home"} {
		_ = c.RegisterFlagCompletionFunc(flag, completeDirectories)
	}
	return c
}

// exportJobs is job export.
func (a *app) exportJobs(o exportOptions, given func(string) bool, names []string) error {
	if o.format == "" {
		return usagef("say in which form: --format kubernetes, systemd or cron")
	}
	options, err := a.exportOptions(o, given)
	if err != nil {
		return err
	}
	jobs, err := a.jobsNamed(names)
	if err != nil {
		return err
	}
	files, notes, err := export.Files(export.Format(o.format), jobs, options)
	if err != nil {
		return usageError{err}
	}
	for _, n := range notes {
		a.warn("%s", n)
	}
	switch {
	case o.out != "":
		return a.writeExport(o.out, files)
	case a.json:
		return a.printJSON(struct {
			Schema string         `json:"schema"`
			Format string         `json:"format"`
			Files  []exportedFile `json:"files"`
			Notes  []string       `json:"notes"`
		}{"bestof.job-export/1", o.format, exportedFiles(files), append([]string{}, notes...)})
	}
	for i, f := range files {
		between := ""
		switch {
		case o.format == string(export.Kubernetes) && i > 0:
			between = "---\n"
		case o.format == string(export.Systemd):
			between = "# " + f.Name + "\n"
		}
		if _, err := fmt.Fprint(a.Out, between, f.Text); err != nil {
			return err
		}
	}
	return nil
}

type exportedFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func exportedFiles(files []export.File) []exportedFile {
	all := []exportedFile{}
	for _, f := range files {
		all = append(all, exportedFile(f))
	}
	return all
}

// exportOptions fills in what no flag said.
func (a *app) exportOptions(o exportOptions, given func(string) bool) (export.Options, error) {
	options := export.Options{Program: o.program, Home: o.home, Path: o.path, User: o.user, Image: o.image, Mount: o.mount}
	inImage := o.format == string(export.Kubernetes)
	var err error
	if options.Program == "" {
		options.Program = "/usr/bin/bestof"
		if !inImage {
			if options.Program, err = os.Executable(); err != nil {
				return options, fmt.Errorf("find this program: %w", err)
			}
		}
	}
	if options.Home == "" {
		options.Home = filepath.Join(o.mount, ".bestof")
		if !inImage {
			if options.Home, err = a.home(); err != nil {
				return options, err
			}
		}
	}
	if !inImage && !given("path") {
		options.Path = a.getenv("PATH")
	}
	return options, nil
}

// jobsNamed are the jobs of these names, or all.
func (a *app) jobsNamed(names []string) (all []schedule.Job, err error) {
	err = a.withJobs(func(d *desk.Desk) error {
		if len(names) == 0 {
			jobs, err := d.Jobs()
			if err != nil {
				return err
			}
			for _, j := range jobs {
				names = append(names, j.Name)
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			j, err := d.Definition(name)
			if err != nil {
				return err
			}
			all = append(all, j)
		}
		return nil
	})
	return all, err
}

// ours is how every file begins that an export may replace.
const ours = "# Made by bestof job export"

// writeExport writes files to a directory. It replaces those of earlier exports
// and nothing else.
func (a *app) writeExport(dir string, files []export.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usageError{err}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return usageError{err}
	}
	defer root.Close()
	for _, f := range files {
		before, err := readStart(root, f.Name, len(ours))
		if err == nil && !bytes.Equal(before, []byte(ours)) {
			return refusedf("%s is there and was not made by `bestof job export`: move it away", filepath.Join(dir, f.Name))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return usageError{err}
		}
	}
	for _, f := range files {
		if err := atomicfile.Write(filepath.Join(dir, f.Name), []byte(f.Text), 0o644); err != nil {
			return statusError{orchestrator.ExitInfrastructure, err}
		}
		if _, err := fmt.Fprintln(a.Out, filepath.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

// readStart reads the first bytes of a regular file.
func readStart(root *os.Root, name string, n int) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(n)))
}
