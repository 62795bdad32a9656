package worktree

import (
	"context"
	"fmt"
	"os"
	"path"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// Create makes a repository in the empty directory dir, with files (slash
// paths) in one commit on the branch main.
func Create(ctx context.Context, dir string, files map[string][]byte, message string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("create a repository: %w", err)
	}
	defer root.Close()
	for name, data := range files {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return fmt.Errorf("create a repository: %w", err)
		}
		if err := root.WriteFile(name, data, 0o644); err != nil {
			return fmt.Errorf("create a repository: %w", err)
		}
	}
	git, err := gitexec.New(dir, "")
	if err != nil {
		return err
	}
	const who = "bestof <bestof@localhost>"
	git = git.With(gitexec.Setting{Key: "user.name", Value: "bestof"}, gitexec.Setting{Key: "user.email", Value: "bestof@localhost"},
		gitexec.Setting{Key: "init.templateDir", Value: ""}, gitexec.Setting{Key: "init.defaultBranch", Value: "main"})
	for _, args := range [][]string{
		{"init", "--quiet", "--template="},
		{"add", "--all"},
		{"commit", "--quiet", "--no-verify", "--author=" + who, "--message=" + message},
	} {
		if _, err := git.Run(ctx, args...); err != nil {
			return fmt.Errorf("create a repository in %s: %w", dir, err)
		}
	}
	return nil
}
