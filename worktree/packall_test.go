package worktree

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

func TestPackEachReadsEveryFileOnce(t *testing.T) {
	repo := packedFixture(t, newFixture(t), false)
	p, err := openPack(repo.path)
	if err != nil {
		t.Fatal(err)
	}
	var ids []oid
	for _, id := range slices.SortedFunc(maps.Keys(repo.objects), func(a, b oid) int { return bytes.Compare(a[:], b[:]) }) {
		if repo.objects[id].kind == plumbing.BlobObject {
			ids = append(ids, id, id) // a content may be that of two files
		}
	}
	var files []located
	for i, id := range ids {
		off, ok := p.index.find(id)
		if !ok {
			t.Fatalf("%s is not in the pack", id)
		}
		files = append(files, located{i, off})
	}
	var mu sync.Mutex
	seen := make(map[int]int)
	err = p.each(t.Context(), files, func(at []int, data [][]byte) error {
		mu.Lock()
		defer mu.Unlock()
		for n, i := range at {
			seen[i]++
			if !bytes.Equal(data[n], repo.objects[ids[i]].data) {
				t.Errorf("%s: %d bytes that it is not", ids[i], len(data[n]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range ids {
		if seen[i] != 1 {
			t.Errorf("file %d was read %d times", i, seen[i])
		}
	}
	stop := errors.New("enough")
	if err := p.each(t.Context(), files, func([]int, [][]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the callback's error came out as %v", err)
	}
	for id, o := range repo.objects {
		if off, ok := p.index.find(id); ok && o.kind == plumbing.TreeObject {
			if err := p.each(t.Context(), []located{{0, off}}, func([]int, [][]byte) error { return nil }); !errors.Is(err, errPack) {
				t.Errorf("a tree was read as a file: %v", err)
			}
		}
	}
}
