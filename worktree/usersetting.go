package worktree

import (
	"context"
	"fmt"
	"strings"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// UserSetting is a setting of the user's own git configuration, which is below
// home, and "" when it is not set. What a repository configures is not read.
func UserSetting(ctx context.Context, home, key string) (string, error) {
	git, err := gitexec.New("/", home)
	if err != nil {
		return "", err
	}
	out, err := git.Run(ctx, "config", "--global", "--includes", "--null", "--get", key)
	if gitexec.Code(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s of your git configuration: %w", key, err)
	}
	return strings.TrimSuffix(string(out), "\x00"), nil
}
