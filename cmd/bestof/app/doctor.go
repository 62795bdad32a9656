package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/choose"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/worktree"
)

// littleDisk is the free space below which doctor warns, in bytes.
const littleDisk = 2 << 30

// A check is one line of doctor.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // without it nothing works
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what was found on this machine, what is missing, and the remedy",
		Long: `Looks for git, the sandboxes, kinds of shadow, free disk space and the programs of
known agents. Exits with 7 when something is missing without which nothing works.`,
		Example: "  bestof doctor\n  bestof doctor --json",
		RunE: func(c *cobra.Command, args []string) error {
			return a.runDoctor(c.Context())
		},
	}
}

func (a *app) runDoctor(ctx context.Context) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	checks := []check{a.gitCheck(ctx), a.repositoryCheck(ctx), kernelCheck()}
	found := choose.Probe(ctx, sandbox.Options{Environ: a.Environ})
	for _, f := range found {
		checks = append(checks, check{Name: "sandbox " + f.Name, OK: f.OK, Detail: f.Detail, Remedy: f.Remedy})
	}
	_, scratch, err := a.store(home, "")
	if err != nil {
		checks = append(checks, check{Name: "work directory", Needed: true, Detail: err.Error(), Remedy: "Choose a directory of yours with BESTOF_HOME or --work-dir."})
	} else {
		for _, k := range worktree.Capabilities(ctx, scratch, a.tryLayers(found)) {
			checks = append(checks, check{Name: "shadow " + string(k.Kind), OK: k.Works, Detail: works(k)})
		}
		checks = append(checks, diskCheck(scratch))
	}
	checks = append(checks, a.agentChecks(home)...)

	failed := false
	for _, c := range checks {
		failed = failed || c.Needed && !c.OK
	}
	if a.json {
		err = a.printJSON(struct {
			Schema  string  `json:"schema"`
			Version string  `json:"version"`
			Checks  []check `json:"checks"`
		}{"bestof.doctor/1", version(), checks})
	} else {
		err = a.printChecks(checks)
	}
	if err == nil && failed {
		return statusError{code: orchestrator.ExitInfrastructure}
	}
	return err
}

// tryLayers is how engine shadows are tried, where there is an engine.
func (a *app) tryLayers(found []choose.Finding) func(context.Context, worktree.Entry, string, string) error {
	if !slices.ContainsFunc(found, func(f choose.Finding) bool { return f.Name == "docker" && f.OK }) {
		return nil
	}
	return func(ctx context.Context, e worktree.Entry, root, home string) error {
		return docker.TryLayers(ctx, a.Environ, sandbox.Entry(e), root, home)
	}
}

func works(k worktree.Capability) string {
	if k.Works {
		return "works here"
	}
	return k.Reason
}

func (a *app) printChecks(checks []check) error {
	for _, c := range checks {
		mark := "ok  "
		switch {
		case !c.OK && c.Needed:
			mark = "FAIL"
		case !c.OK:
			mark = "-   "
		}
		line := fmt.Sprintf("%s %-18s %s", mark, c.Name, c.Detail)
		if _, err := fmt.Fprintln(a.Out, term.Clean(line, 0)); err != nil {
			return err
		}
		if c.Remedy != "" && !c.OK {
			fmt.Fprintln(a.Out, term.Clean(strings.Repeat(" ", 24)+c.Remedy, 0))
		}
	}
	return nil
}

func (a *app) gitCheck(ctx context.Context) check {
	c := check{Name: "git", Needed: true}
	v, err := worktree.GitVersion(ctx)
	if err != nil {
		c.Detail, c.Remedy = err.Error(), "Install git 2.35 or newer."
		return c
	}
	c.OK, c.Detail = true, v
	return c
}

func (a *app) repositoryCheck(ctx context.Context) check {
	r, err := worktree.Open(ctx, a.dir)
	if err != nil {
		return check{Name: "repository", Detail: err.Error(), Remedy: "Run bestof inside a git repository, or name one with -C."}
	}
	return check{Name: "repository", OK: true, Detail: r.Root()}
}

// kernelCheck says which kernel it is and which of the features that sandboxes
// and shadows rest on it says it has.
func kernelCheck() check {
	c := check{Name: "kernel"}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		c.Detail = err.Error()
		return c
	}
	has := func(ok bool, name string) string {
		if ok {
			return name
		}
		return "no " + name
	}
	filesystems, _ := os.ReadFile("/proc/filesystems")
	users, _ := os.ReadFile("/proc/sys/user/max_user_namespaces")
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		unix.Close(pidfd)
	}
	namespaces := len(users) > 0 && strings.TrimSpace(string(users)) != "0"
	c.OK = true
	c.Detail = strings.Join([]string{
		"Linux " + unix.ByteSliceToString(u.Release[:]), has(namespaces, "user namespaces"),
		has(strings.Contains(string(filesystems), "\toverlay\n"), "overlayfs"), has(err == nil, "pidfd"),
	}, ", ")
	return c
}

func diskCheck(dir string) check {
	c := check{Name: "disk"}
	free, err := freeBytes(dir)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.OK, c.Detail = free >= littleDisk, fmt.Sprintf("%s free in %s", formatSize(free), dir)
	if !c.OK {
		c.Remedy = "Free some space, run `bestof gc`, or choose another place with --work-dir."
	}
	return c
}

// freeBytes is how much space the file system of a directory has left for this
// user.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// agentChecks says which agents could be used.
func (a *app) agentChecks(home string) []check {
	file, _, err := loadConfig(home, "", false)
	if err != nil {
		return []check{{Name: "configuration", Needed: true, Detail: err.Error(), Remedy: "Mend the file."}}
	}
	known, err := file.agents()
	if err != nil {
		return []check{{Name: "configuration", Needed: true, Detail: err.Error(), Remedy: "Mend the file."}}
	}
	var checks []check
	for _, name := range sortedKeys(known) {
		d := known[name]
		c := check{Name: "agent " + name, OK: true, Detail: d.Description}
		if !d.Builtin {
			path, err := lookPath(d.Command[0], a.getenv("PATH"))
			if c.OK = err == nil; c.OK {
				c.Detail = strings.TrimPrefix(d.Description+" at "+path, " at ")
			} else {
				c.Detail = d.Command[0] + " is not on PATH"
				c.Remedy = "Install it where you want to use --agents " + name + "."
			}
		}
		checks = append(checks, c)
	}
	return checks
}
