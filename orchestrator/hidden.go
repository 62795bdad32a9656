package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/orchestrator/plan"
	"github.com/bestof-dev/bestof/worktree"
)

// Hidden are tests that verification shadows have and candidates never see:
// they are laid over the base, and over each candidate's tree, after all else.
// What a candidate has in their places counts for nothing. A run with hidden
// tests holds no candidate, since a correction would tell what they say.
type Hidden struct {
	Patch []byte          // in git's format, of the base
	Files []worktree.Laid // laid over it after the patch
}

func (h Hidden) any() bool { return len(h.Patch)+len(h.Files) > 0 }

// layHidden makes of the hidden tests what shadows get, and guards it.
func (t *turn) layHidden() *ending {
	if !t.Hidden.any() {
		return nil
	}
	laid, err := t.base.Patched(t.Hidden.Patch)
	if err == nil {
		laid = append(laid, t.Hidden.Files...)
		err = worktree.CheckLaid(t.Hidden.Files)
	}
	if err != nil {
		return ended(ExitUsage, "the hidden tests do not fit the base: %v", err)
	}
	t.laid, t.isLaid = laid, map[string]bool{}
	for _, f := range laid {
		t.isLaid[f.Path] = true
	}
	others := t.isGuard
	t.isGuard = func(path string) bool { return t.isLaid[path] || others(path) }
	return nil
}

// openly are the changes that are not in the place of a hidden test.
func (t *turn) openly(files []worktree.FileChange) []worktree.FileChange {
	if len(t.isLaid) == 0 {
		return files
	}
	var out []worktree.FileChange
	for _, f := range files {
		if !t.isLaid[f.Path] {
			out = append(out, f)
		}
	}
	return out
}

// differs says how a verification shadow is another tree than the one that it
// was made of, hidden tests aside; "" when it is not.
func (t *turn) differs(ctx context.Context, tree, seen worktree.TreeID) (string, error) {
	if tree == seen {
		return "", nil
	}
	if len(t.laid) == 0 {
		return fmt.Sprintf("%s instead of %s", seen, tree), nil
	}
	change, err := t.base.Objects().Diff(ctx, tree, seen)
	if err != nil {
		return "", err
	}
	want := map[string]string{}
	for _, f := range t.laid {
		want[f.Path] = ""
		if f.Mode != worktree.ModeNone {
			want[f.Path] = worktree.BlobID(f.Data)
		}
	}
	for _, f := range change.Files {
		id, laid := want[f.Path]
		if laid && id == f.New || !laid && f.New == "" && t.inTheWay(f.Path) {
			continue
		}
		return fmt.Sprintf("%s is not what was put there", f.Path), nil
	}
	return "", nil
}

// inTheWay reports whether a path is above or below that of a hidden test.
func (t *turn) inTheWay(path string) bool {
	for _, f := range t.laid {
		if strings.HasPrefix(f.Path, path+"/") || strings.HasPrefix(path, f.Path+"/") {
			return true
		}
	}
	return false
}

// warmUp runs the test once without the hidden tests, for what it leaves in its
// home: the baseline's home may tell what it tested.
func (t *turn) warmUp(ctx context.Context) error {
	shadow, err := t.work.NewVerification(ctx, t.base, "plain-baseline", t.base.Tree(), nil)
	if err != nil {
		return err
	}
	defer t.discard(ctx, shadow)
	if _, err := t.box(0, phaseBaseline).Run(ctx, sandbox.Spec{
		Argv: t.Settings.Test, Root: shadow.Root(), WorkDir: t.Repo.Prefix(), Home: shadow.Home(), Enter: sandbox.Entry(shadow.Enter()), Seen: t.seen(),
		Env: plan.Environment(t.Settings.Test), Network: sandbox.NetworkNone, Ports: portsOf(t.ports, 0), Timeout: t.TestLimit,
	}); err != nil {
		return err
	}
	return t.base.Warm(ctx, shadow)
}
