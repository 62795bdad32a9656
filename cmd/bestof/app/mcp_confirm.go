package app

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/mcp/serve"
	"github.com/bestof-dev/bestof/orchestrator"
)

func (a *app) mcpConfirmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "confirm",
		Short: "Show the tokens of adoptions that agents asked for",
		Long: `Lists what agents asked "bestof mcp serve" to adopt, with the token that lets
each happen. Tell the agent the token if you agree; do nothing if you do not.`,
		Example: "  bestof mcp confirm",
		RunE:    func(*cobra.Command, []string) error { return a.runMCPConfirm() },
	}
}

// token is easy to read aloud and has 40 bits.
func token() string { return rand.Text()[:8] }

// confirmDir has a file for each `bestof mcp serve` that waits for a person, and
// one beside it that is locked as long as the process lives. Without the one
// beside it, as where nothing can be locked, nobody can tell that it ended.
func confirmDir(home string) string { return filepath.Join(home, "mcp", "confirm") }

const pendingLock = ".lock"

// A pendingFile is what waits for a person in one process.
type pendingFile struct {
	path  string
	alive *flock.Flock
}

func newPendingFile(home string) *pendingFile {
	path := filepath.Join(confirmDir(home), rand.Text()+".json")
	return &pendingFile{path, flock.New(path + pendingLock)}
}

// keep writes what waits now.
func (p *pendingFile) keep(waiting []serve.Pending) error {
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return err
	}
	if p.alive.Lock() != nil {
		_ = os.Remove(p.path + pendingLock) // the token is shown all the same
	}
	b, err := json.Marshal(waiting)
	if err != nil {
		return err
	}
	return atomicfile.Write(p.path, b, 0o600)
}

func (p *pendingFile) remove() {
	_ = os.Remove(p.path) // nobody was asked, or the next look at them removes it
	_ = os.Remove(p.path + pendingLock)
	_ = p.alive.Close()
}

// pendingAdoptions is what waits in all processes that live, or could. What one
// left that was killed is removed.
func pendingAdoptions(home string, now time.Time) ([]serve.Pending, error) {
	waiting := []serve.Pending{}
	names, err := os.ReadDir(confirmDir(home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, n := range names {
		path := filepath.Join(confirmDir(home), n.Name())
		if !strings.HasSuffix(path, ".json") {
			continue
		}
		if _, err := os.Lstat(path + pendingLock); err == nil {
			left := &pendingFile{path, flock.New(path + pendingLock)}
			if dead, err := left.alive.TryLock(); dead && err == nil {
				left.remove()
				continue
			}
			_ = left.alive.Close()
		}
		var some []serve.Pending
		b, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(b, &some) != nil {
			continue // its process ended meanwhile
		}
		for _, p := range some {
			if now.Before(p.Until) {
				waiting = append(waiting, p)
			}
		}
	}
	return waiting, nil
}

// runMCPConfirm shows what waits, whichever server was asked.
func (a *app) runMCPConfirm() error {
	home, err := a.home()
	if err != nil {
		return err
	}
	waiting, err := pendingAdoptions(home, time.Now())
	if err != nil {
		return statusError{orchestrator.ExitInfrastructure, err}
	}
	if a.json {
		return a.printJSON(struct {
			Schema  string          `json:"schema"`
			Waiting []serve.Pending `json:"waiting"`
		}{"bestof.confirm/1", waiting})
	}
	if len(waiting) == 0 {
		_, err := fmt.Fprintln(a.Out, "no adoption waits for you")
		return err
	}
	for _, p := range waiting {
		if _, err := fmt.Fprintf(a.Out, "%s  %s (until %s)\n", p.Token, term.Clean(p.What, 400), p.Until.Local().Format(time.TimeOnly)); err != nil {
			return err
		}
	}
	return nil
}
