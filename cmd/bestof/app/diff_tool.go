package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/worktree"
)

// difftools are how the programs that people use for this are started, for
// those that take more than two files. Files of candidates set nothing in an
// editor.
var difftools = map[string][]string{
	"vimdiff":  {"vim", "-R", "--cmd", "set nomodeline secure", "-d"},
	"nvimdiff": {"nvim", "-R", "--cmd", "set nomodeline secure", "-d"},
	"gvimdiff": {"gvim", "-R", "-f", "--cmd", "set nomodeline secure", "-d"},
	"bc":       {"bcompare"},
	"vscode":   {"code", "--wait", "--diff"},
	"meld":     {"meld"},
	"kdiff3":   {"kdiff3"},
	"kompare":  {"kompare"},
	"diff":     {"diff", "-u"},
}

// maxToolFile bounds a file that a tool is given, in bytes.
const maxToolFile = 64 << 20

var toolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// toolCommand decides what to start: NAME, what $DIFFTOOL says, or diff.tool.
// setting reads the user's own git configuration. Where that has a command for
// the tool it is a line for the shell, as git runs it; it finds the files in
// $LOCAL and $REMOTE, so that no name of a candidate is ever part of it.
func toolCommand(name, difftool string, setting func(key string) (string, error)) (command []string, shell bool, err error) {
	if name == ownChoice && difftool != "" {
		command, err := argv.Split(difftool)
		if err == nil && len(command) == 0 {
			err = errors.New("it has no word")
		}
		if err != nil {
			return nil, false, usagef("$DIFFTOOL is not a command: %w", err)
		}
		return command, false, nil
	}
	if name == ownChoice {
		if name, err = setting("diff.tool"); err != nil {
			return nil, false, err
		}
		if name == "" {
			return nil, false, usagef("no diff tool is chosen: write --tool=NAME, set DIFFTOOL, or `git config --global diff.tool NAME`")
		}
	}
	if !toolName.MatchString(name) {
		return nil, false, usagef("%q is not the name of a diff tool", name)
	}
	line, err := setting("difftool." + name + ".cmd")
	if err != nil || line != "" {
		return []string{"/bin/sh", "-c", line}, true, err
	}
	command = difftools[name]
	if command == nil {
		command = []string{name}
	}
	at, err := setting("difftool." + name + ".path")
	if err == nil && at != "" {
		command = append([]string{at}, command[1:]...)
	}
	return command, false, err
}

// openTool opens the files one after another in the user's diff tool, on
// copies that nobody can write to. The next one is opened when the tool ended.
func (a *app) openTool(ctx context.Context, name string, pairs []compare.Pair, objects *worktree.Objects, from, to int) (err error) {
	home := a.getenv("HOME")
	command, shell, err := toolCommand(name, a.getenv("DIFFTOOL"), func(key string) (string, error) {
		if home == "" {
			return "", nil
		}
		return worktree.UserSetting(ctx, home, key)
	})
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return usagef("the diff tool %s is not installed, or not on PATH", command[0])
	}
	sweepCopies(time.Now(), false) // what stays is gone with the next `bestof gc`
	dir, lock, err := placeForCopies()
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("make a directory for copies: %w", err)}
	}
	defer func() { err = errors.Join(err, removeCopies(dir), lock.Release()) }()
	for i, p := range pairs {
		fmt.Fprintf(a.Err, "bestof: %d of %d: %s (%s)\n", i+1, len(pairs), term.Clean(p.Path(), 400), p.Status())
		place := filepath.Join(dir, fmt.Sprint(i+1))
		old, err := copyOf(place, sideName(from), p.Old, objects)
		if err != nil {
			return statusError{orchestrator.ExitInfrastructure, err}
		}
		new, err := copyOf(place, sideName(to), p.New, objects)
		if err != nil {
			return statusError{orchestrator.ExitInfrastructure, err}
		}
		if err := a.runTool(ctx, dir, lock.File(), command, shell, old, new); err != nil {
			return err
		}
		if err := removeCopies(place); err != nil {
			return err
		}
	}
	return nil
}

// runTool waits for the tool, which holds the lock of the copies too. That it
// found differences is no error.
func (a *app) runTool(ctx context.Context, dir string, lock *os.File, command []string, shell bool, old, new string) error {
	args := append([]string{}, command[1:]...)
	if !shell {
		args = append(args, old, new)
	}
	cmd := exec.CommandContext(ctx, command[0], args...)
	cmd.ExtraFiles = []*os.File{lock}
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, a.In, a.Out, a.Err
	cmd.Env = append(os.Environ(), "LOCAL="+old, "REMOTE="+new, "BASE="+old, "MERGED="+new)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 5*time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit) && exit.Exited() && exit.ExitCode() < 126:
		return nil
	case err != nil:
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("the diff tool %s: %w", command[0], err)}
	}
	return nil
}

// copyOf writes one side of a pair into a directory of its own, without a right
// to write: nothing that an editor would read beside a file comes with it. A
// link is a file with its target, and an absent side is an empty file.
func copyOf(place, side string, s compare.Side, objects *worktree.Objects) (string, error) {
	var text []byte
	switch {
	case s.Mode == "160000":
		text = []byte("commit " + s.Blob + "\n") // of a repository inside
	case s.Mode != "" && s.Blob != "":
		b, cut, err := objects.Blob(s.Blob, maxToolFile)
		if err != nil {
			return "", fmt.Errorf("copy %s: %w", term.Clean(s.Path, 200), err)
		}
		if cut {
			return "", fmt.Errorf("copy %s: it is larger than %d bytes: use `bestof diff --patch`", term.Clean(s.Path, 200), maxToolFile)
		}
		text = b
	}
	dir := filepath.Join(place, side)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("copy files: %w", err)
	}
	name := filepath.Join(dir, plainName(s.Path))
	if err := os.WriteFile(name, text, 0o400); err != nil {
		return "", fmt.Errorf("copy files: %w", err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		return "", fmt.Errorf("copy files: %w", err)
	}
	return name, nil
}

var notPlain = regexp.MustCompile(`[^A-Za-z0-9._+-]+`)

// plainName is a name that means nothing to any program but by its ending.
func plainName(name string) string {
	base := path.Base(name)
	ext := path.Ext(base)
	if len(ext) > 16 {
		ext = ""
	}
	stem := strings.TrimSuffix(base, ext)
	if len(stem) > 80 {
		stem = stem[:80]
	}
	out := notPlain.ReplaceAllString(stem+ext, "_")
	if strings.Trim(out, "._-") == "" || strings.ContainsRune(".-_", rune(out[0])) {
		out = "file" + out
	}
	return out
}

// removeCopies removes copies that cannot be written to.
func removeCopies(dir string) error {
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			return os.Chmod(name, 0o700)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("remove the copies in %s: %w", dir, err)}
	}
	return nil
}
