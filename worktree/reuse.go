package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bestof-dev/bestof/worktree/internal/gitexec"
)

// reuse packs those of a source's blobs that the user's repository holds into
// a base's repository, as they are stored there, and returns the pack, or nil.
// To copy what git has deflated before is much cheaper than to store it anew.
func (r *Repository) reuse(ctx context.Context, src *source, git string) (*pack, error) {
	// In a partial clone every look at what is missing would try to fetch it.
	if r.sha256 || r.partial {
		return nil, nil
	}
	have := make(map[oid]bool)
	var list strings.Builder
	for _, f := range src.files {
		if (f.repo == nil || f.repo == r) && !have[f.id] {
			have[f.id] = true
			list.WriteString(f.id.String() + "\n")
		}
	}
	if list.Len() == 0 {
		return nil, nil
	}
	ids := list.String()
	if src.snapshot {
		out, err := r.git.RunInput(ctx, strings.NewReader(ids), "cat-file", "--batch-check=%(objectname) %(objecttype)", "--buffer")
		if err != nil {
			return nil, err
		}
		list.Reset()
		for line := range strings.Lines(string(out)) {
			if hex, ok := strings.CutSuffix(line, " blob\n"); ok {
				list.WriteString(hex + "\n")
			}
		}
		if ids = list.String(); ids == "" {
			return nil, nil
		}
	}
	theirs := quote(filepath.Join(r.commonDir, "objects"))
	if !strings.HasPrefix(theirs, `"`) {
		theirs = `"` + theirs + `"` // a colon would end it
	}
	// git writes unfinished packs into the first of its object directories,
	// which must not be the user's.
	to := r.git.Env("GIT_OBJECT_DIRECTORY="+filepath.Join(git, "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+theirs)
	to = to.With(gitexec.Setting{Key: "pack.compression", Value: "0"}, gitexec.Setting{Key: "pack.packSizeLimit", Value: "0"},
		gitexec.Setting{Key: "pack.indexVersion", Value: "2"}, gitexec.Setting{Key: "pack.writeReverseIndex", Value: "false"})
	name := filepath.Join(git, "objects/pack/pack")
	sum, err := to.RunInput(ctx, strings.NewReader(ids), "pack-objects", "--quiet", "--window=0", "--delta-base-offset", name)
	if err != nil && !src.snapshot {
		err = errors.Join(errMissingObject, err)
	}
	if err == nil {
		var p *pack
		if p, err = openPack(name + "-" + strings.TrimSpace(string(sum)) + ".pack"); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("copy objects: %w", err)
}

// isPartial reports whether git would fetch objects that are missing.
func isPartial(commonDir string) bool {
	names, err := os.ReadDir(filepath.Join(commonDir, "objects/pack"))
	if err != nil {
		return false
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".promisor") {
			return true
		}
	}
	return false
}
