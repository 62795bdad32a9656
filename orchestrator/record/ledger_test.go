package record

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLedger lists what was begun here, and nothing that was put there.
func TestLedger(t *testing.T) {
	ledger := filepath.Join(t.TempDir(), "runs")
	if got, err := Ledger(ledger); err != nil || len(got) != 0 {
		t.Errorf("without a ledger: %v, %v", got, err)
	}
	want := map[string][]string{}
	for i, ids := range [][]string{{"2nnaaaaaaa", "2nnbbbbbbb"}, {"2nnaaaaaaa"}} {
		top := filepath.Join(t.TempDir(), string(rune('a'+i)))
		if err := os.Mkdir(top, 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := Open(top, ledger)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			create(t, s, id, self(t)).Close()
		}
		s.Close()
		want[top] = ids
	}
	for name, content := range map[string]string{"2nnccccccc-0123456789abcdef": "/etc", "README": "/", "2nnccccccc": "relative"} {
		if err := os.WriteFile(filepath.Join(ledger, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Ledger(ledger)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
