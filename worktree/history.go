package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// history puts the user's last commits into a base's repository, cut off as
// in a shallow clone, and checks out their newest. With a history of 1 there
// is none: the base's own commit has no parent.
func (m *maker) history(ctx context.Context, git string, root oid) error {
	depth := m.spec.History
	if depth == 1 || m.src.commit == "" {
		return nil
	}
	commits, cut, err := m.repo.ancestry(ctx, m.src.commit, depth)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if m.commit, err = parseOID(m.src.commit); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	tree, err := m.repo.git.Line(ctx, "rev-parse", "--verify", m.src.commit+"^{tree}")
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	m.exact = tree == root.String()
	if err := m.repo.packCommits(ctx, commits, git); err != nil {
		return fmt.Errorf("history: %w", errors.Join(errMissingObject, err))
	}
	if len(cut) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(git, "shallow"), []byte(strings.Join(cut, "\n")+"\n"), 0o644)
}

// ancestry lists the commits at most depth generations back, all when depth
// is 0, and those among them whose parents are cut off.
func (r *Repository) ancestry(ctx context.Context, from string, depth int) (commits, cut []string, err error) {
	out, err := r.git.Run(ctx, "rev-list", "--parents", from)
	if err != nil {
		return nil, nil, err
	}
	parents := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		ids := strings.Fields(line)
		parents[ids[0]] = ids[1:]
	}
	seen := map[string]bool{from: true}
	level := []string{from}
	for n := 1; len(level) > 0 && (depth == 0 || n <= depth); n++ {
		commits = append(commits, level...)
		var below []string
		for _, c := range level {
			for _, p := range parents[c] {
				if !seen[p] {
					seen[p] = true
					below = append(below, p)
				}
			}
		}
		level = below
	}
	in := make(map[string]bool, len(commits))
	for _, c := range commits {
		in[c] = true
	}
	shallow := make(map[string]bool)
	if text, err := os.ReadFile(filepath.Join(r.commonDir, "shallow")); err == nil {
		for _, id := range strings.Fields(string(text)) {
			shallow[id] = true
		}
	}
	for _, c := range commits {
		if shallow[c] || slices.ContainsFunc(parents[c], func(p string) bool { return !in[p] }) {
			cut = append(cut, c)
		}
	}
	slices.Sort(cut)
	return commits, cut, nil
}

// packCommits copies exactly these commits and what is in their trees into
// another repository.
func (r *Repository) packCommits(ctx context.Context, commits []string, git string) error {
	list, err := r.git.RunInput(ctx, strings.NewReader(strings.Join(commits, "\n")+"\n"), "rev-list", "--objects", "--no-walk=unsorted", "--no-object-names", "--stdin")
	if err != nil {
		return err
	}
	to, err := gitexec.New(filepath.Dir(git), "")
	if err != nil {
		return err
	}
	// git must find a repository there before its HEAD is known.
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"} {
		if err := os.WriteFile(filepath.Join(git, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	to = to.Env("GIT_DIR=" + git)
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := r.git.Stream(ctx, strings.NewReader(string(list)), pw, "pack-objects", "--stdout", "--quiet", "--threads=2")
		pw.CloseWithError(err)
		done <- err
	}()
	ierr := to.Stream(ctx, pr, io.Discard, "index-pack", "--stdin")
	pr.CloseWithError(ierr)
	return errors.Join(<-done, ierr)
}
