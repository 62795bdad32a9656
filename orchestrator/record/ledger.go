package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxLedgerEntry bounds what is read of an entry: it is the path of a
// repository.
const maxLedgerEntry = 1 << 16

// Ledger lists, by the top level of their repository, the ids of all runs that
// a ledger notes, oldest first. Their records may be gone.
func Ledger(ledger string) (map[string][]string, error) {
	entries, err := os.ReadDir(ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	runs := make(map[string][]string)
	for _, e := range entries {
		if len(e.Name()) <= idLength || !ValidID(e.Name()[:idLength]) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err != nil || info.Size() > maxLedgerEntry {
			continue
		}
		top, err := os.ReadFile(filepath.Join(ledger, e.Name()))
		s := Store{top: string(top), ledger: ledger}
		if id := e.Name()[:idLength]; err == nil && filepath.IsAbs(s.top) && s.entry(id) == filepath.Join(ledger, e.Name()) {
			runs[s.top] = append(runs[s.top], id)
		}
	}
	for _, ids := range runs {
		slices.Sort(ids)
	}
	return runs, nil
}
