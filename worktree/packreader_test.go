package worktree

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// packed is a repository's only pack, and its objects as git reads them.
type packedRepo struct {
	path    string
	objects map[oid]packedObject
}

// packedFixture has files of all sizes, and many that are differences to
// others, which a pack names by their distance or by their id.
func packedFixture(t testing.TB, f *fixture, byID bool) packedRepo {
	t.Helper()
	noise := rand.New(rand.NewPCG(5, 6))
	big := make([]byte, maxInflated+1000)
	for i := range big {
		big[i] = byte(noise.Uint32())
	}
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "line %d of a file\n", i*i)
	}
	f.write(map[string]string{"empty": "", "one": "1", "big.bin": string(big), "d/zeros": strings.Repeat("\x00", 2*maxInflated)})
	for i := range 30 {
		f.write(map[string]string{fmt.Sprintf("d/%02d.txt", i): text.String() + strings.Repeat(fmt.Sprintf("change %d\n", i), i)})
	}
	f.commit("one")
	f.git("tag", "-a", "-m", "a tag", "v1")
	f.git("-c", fmt.Sprintf("repack.useDeltaBaseOffset=%t", !byID), "repack", "-adfq", "--depth=40", "--window=40")
	packs, err := filepath.Glob(filepath.Join(f.dir, ".git/objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs: %q, %v", packs, err)
	}
	p := packedRepo{path: packs[0], objects: make(map[oid]packedObject)}
	for line := range strings.Lines(f.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")) {
		fields := strings.Fields(line)
		id, err := parseOID(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		kind, err := plumbing.ParseObjectType(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		p.objects[id] = packedObject{kind, []byte(runIn(t, f.dir, nil, "git", "cat-file", fields[1], fields[0]))}
	}
	return p
}

func TestPackReaderReadsWhatGitPacked(t *testing.T) {
	for _, byID := range []bool{false, true} {
		repo := packedFixture(t, newFixture(t), byID)
		p, err := openPack(repo.path)
		if err != nil {
			t.Fatal(err)
		}
		if p.index.count != len(repo.objects) {
			t.Errorf("%d objects in the index, %d in the pack", p.index.count, len(repo.objects))
		}
		r, f, err := p.reader()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r.bases = make(map[int64]packedObject)
		deltas := 0
		for id, want := range repo.objects {
			off, ok := p.index.find(id)
			if !ok {
				t.Fatalf("%s is not in the index", id)
			}
			if h, err := r.head(off); err != nil {
				t.Fatal(err)
			} else if h.delta() {
				deltas++
			}
			got, size, err := p.read(id, off, maxBlob)
			if err != nil || size != int64(len(want.data)) || got.kind != want.kind || !bytes.Equal(got.data, want.data) {
				t.Errorf("%s: a %s of %d bytes, %v; it is a %s of %d", id, got.kind, size, err, want.kind, len(want.data))
			}
			got, size, err = p.read(id, off, 100)
			if err != nil || size != int64(len(want.data)) || !bytes.Equal(got.data, want.data[:min(100, len(want.data))]) {
				t.Errorf("%s: its first bytes are %q of %d, %v", id, got.data, size, err)
			}
			got, err = r.object(off, make([]byte, 0, 500))
			if err != nil || !bytes.Equal(got.data, want.data) {
				t.Errorf("%s: %d bytes with the bases kept, %v", id, len(got.data), err)
			}
		}
		if deltas < 20 {
			t.Errorf("only %d objects are differences", deltas)
		}
		if _, ok := p.index.find(oid{1, 2, 3}); ok {
			t.Error("an object was found that is not there")
		}
	}
}

// TestHazardSpoiltPack gives an error, or the object, and nothing else.
func TestHazardSpoiltPack(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		f.write(map[string]string{fmt.Sprint(i): strings.Repeat("the same text with little difference\n", 20) + fmt.Sprint(i)})
	}
	f.commit("x")
	f.git("repack", "-adfq")
	packs, err := filepath.Glob(filepath.Join(f.dir, ".git/objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs: %q, %v", packs, err)
	}
	text, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	p, err := openPack(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for at := range text {
		bad := slices.Clone(text)
		bad[at] ^= 0x11
		for i := range p.index.count {
			id := oid(p.index.id(i))
			off, _ := p.index.offset(i)
			o, _, err := newPackReader(p.index, bytes.NewReader(bad), int64(len(bad))).read(id, off, 10_000)
			if err != nil {
				failed++
			} else if hashObject(o.kind, o.data) != id {
				t.Fatalf("byte %d: another object than %s", at, id)
			}
		}
	}
	if failed < len(text)/2 {
		t.Errorf("only %d reads failed", failed)
	}
	for cut := range len(text) - 1 {
		off, _ := p.index.offset(0)
		id := oid(p.index.id(0))
		if o, _, err := newPackReader(p.index, bytes.NewReader(text[:cut]), int64(cut)).read(id, off, 10_000); err == nil && hashObject(o.kind, o.data) != id {
			t.Fatalf("%d bytes: another object", cut)
		}
	}
}

// TestObjectsOutliveARun that was removed, whose packs they knew.
func TestObjectsOutliveARun(t *testing.T) {
	kept, gone := t.TempDir(), t.TempDir()
	o := &Objects{}
	id := hashObject(plumbing.BlobObject, []byte("x"))
	for _, dir := range []string{gone, kept} {
		if err := os.MkdirAll(filepath.Join(dir, "objects/pack"), 0o755); err != nil {
			t.Fatal(err)
		}
		o.open(dir)
		w, err := newPack(filepath.Join(dir, "objects/pack"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.add(plumbing.BlobObject, id, []byte("x")), w.close()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if data, err := o.blob(id); err != nil || string(data) != "x" {
			t.Fatalf("%q, %v", data, err)
		}
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(kept); err != nil {
		t.Fatal(err)
	}
	if _, err := o.blob(id); !errors.Is(err, plumbing.ErrObjectNotFound) {
		t.Errorf("read what is gone: %v", err)
	}
}

// FuzzPack reads every object of a pack that may be anything.
func FuzzPack(f *testing.F) {
	dir := f.TempDir()
	w, err := newPack(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "a", strings.Repeat("abc", 100)} {
		if err := w.add(plumbing.BlobObject, hashObject(plumbing.BlobObject, []byte(text)), []byte(text)); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		f.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(dir, "*.pack"))
	if err != nil || len(packs) != 1 {
		f.Fatalf("packs: %q, %v", packs, err)
	}
	text, err := os.ReadFile(packs[0])
	if err != nil {
		f.Fatal(err)
	}
	index, err := os.ReadFile(strings.TrimSuffix(packs[0], ".pack") + ".idx")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, index)
	f.Fuzz(func(t *testing.T, text, index []byte) {
		x, err := parsePackIndex(index)
		if err != nil {
			return
		}
		for i := range min(x.count, 100) {
			off, ok := x.offset(i)
			if !ok {
				continue
			}
			id := oid(x.id(i))
			o, size, err := newPackReader(x, bytes.NewReader(text), int64(len(text))).read(id, off, 1000)
			if err == nil && size <= 1000 && hashObject(o.kind, o.data) != id {
				t.Fatalf("%s: another object", id)
			}
		}
	})
}
