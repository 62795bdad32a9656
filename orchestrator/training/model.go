package training

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bestof-dev/bestof/internal/atomicfile"
	"github.com/bestof-dev/bestof/orchestrator/tiebreak"
	"github.com/bestof-dev/bestof/plugin/tool"
)

// A Model is what a training left.
type Model struct {
	Trainer    tool.Name          `json:"trainer"`
	TrainerSHA tool.Hash          `json:"trainer_sha256"` // of its file
	Checkpoint string             `json:"checkpoint"`     // absolute path of a file or a directory
	SHA256     string             `json:"checkpoint_sha256"`
	Trained    time.Time          `json:"trained"`
	Seed       string             `json:"seed"`
	Rows       int                `json:"rows"` // that it was trained on
	Promotion  tiebreak.Promotion `json:"promotion"`
}

// A Shelf is where models are: $BESTOF_HOME/tiebreak.
type Shelf struct{ dir string }

// Open is the shelf of a home. Nothing is made before a training.
func Open(home string) Shelf { return Shelf{filepath.Join(home, "tiebreak")} }

func (s Shelf) promoted() string { return filepath.Join(s.dir, "promoted.json") }

// maxModel bounds promoted.json, in bytes.
const maxModel = 1 << 20

// Promoted is the model that may advise. ok is false when there is none.
func (s Shelf) Promoted() (m Model, ok bool, err error) {
	f, err := os.Open(s.promoted())
	if errors.Is(err, fs.ErrNotExist) {
		return Model{}, false, nil
	}
	if err != nil {
		return Model{}, false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxModel))
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil || !filepath.IsAbs(m.Checkpoint) {
		return Model{}, false, fmt.Errorf("%s is no promoted model (`bestof tool train --forget` takes it away): %v", s.promoted(), err)
	}
	return m, true, nil
}

// promote puts a model in the place of the one that advised: whoever reads sees
// the one or the other.
func (s Shelf) promote(m Model) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.promoted(), append(b, '\n'), 0o600)
}

// Forget takes the promotion away; what was trained stays. It reports whether
// there was one.
func (s Shelf) Forget() (bool, error) {
	err := os.Remove(s.promoted())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Limits of a checkpoint.
const (
	maxCheckpointFiles = 10_000
	maxCheckpointBytes = 64 << 30
)

// hashCheckpoint is the SHA-256 of a file, or of the names and contents in a
// directory. Links are not followed.
func hashCheckpoint(path string) (string, error) {
	h := sha256.New()
	files, size := 0, int64(0)
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, at)
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", at)
		}
		if files++; files > maxCheckpointFiles {
			return fmt.Errorf("it has more than %d files", maxCheckpointFiles)
		}
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		one := sha256.New()
		n, err := io.Copy(one, io.LimitReader(f, maxCheckpointBytes-size+1))
		if size += n; size > maxCheckpointBytes {
			return fmt.Errorf("it is larger than %d bytes", int64(maxCheckpointBytes))
		}
		fmt.Fprintf(h, "%q %x\n", rel, one.Sum(nil))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("the checkpoint %s: %w", path, err)
	}
	if files == 0 {
		return "", fmt.Errorf("the checkpoint %s is empty", path)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
