package worktree

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pointer(content string) string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sha256.Sum256([]byte(content)), len(content))
}

// store commits content at a path whatever the work tree has there.
func (f *fixture) store(path, content string) {
	f.t.Helper()
	id := strings.TrimSpace(run(f.t, f.dir, []byte(content), "git", "hash-object", "-w", "--stdin", "--no-filters"))
	f.git("update-index", "--add", "--cacheinfo", "100644,"+id+","+path)
	f.git("commit", "-q", "-m", "store "+path)
}

// touch gives a file a time that the index does not know.
func (f *fixture) touch(paths ...string) {
	f.t.Helper()
	for _, p := range paths {
		if err := os.Chtimes(filepath.Join(f.dir, p), fixedTime, fixedTime); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestHazardFilterDecidedByContent adopts onto a branch beside files that git
// filters: only those that somebody edited are in the way, and no program is
// run to find that out.
func TestHazardFilterDecidedByContent(t *testing.T) {
	const big = "the content that a pointer stands for\n"
	start := func(f *fixture) {
		f.write(map[string]string{"a.txt": "a\n", "other.txt": "o\n", ".gitattributes": "*.bin filter=lfs -text\n*.enc filter=crypt\n"})
		f.commit("first")
	}
	rot := func(f *fixture) {
		start(f)
		f.store("s.enc", "uryyb\n")
		f.write(map[string]string{"s.enc": "hello\n"})
		f.touch("s.enc")
	}
	for name, c := range map[string]struct {
		build    func(f *fixture)
		change   map[string]string // by the candidate; a.txt always
		between  func(f *fixture)  // run and adoption
		refused  string
		reason   string
		commits  int               // on the branch, above HEAD
		contents map[string]string // of the branch
	}{
		"pointer its content checked out": {build: func(f *fixture) {
			start(f)
			f.store("x.bin", pointer(big))
			f.write(map[string]string{"x.bin": big})
			f.touch("x.bin")
		}, commits: 1, contents: map[string]string{"x.bin": pointer(big)}},
		"pointer as it is touched": {build: func(f *fixture) {
			start(f)
			f.write(map[string]string{"x.bin": pointer(big)}).commit("pointer")
			f.touch("x.bin")
		}, commits: 1, contents: map[string]string{"x.bin": pointer(big)}},
		"pointer edited to another pointer": {build: func(f *fixture) {
			start(f)
			f.store("x.bin", pointer(big))
			f.write(map[string]string{"x.bin": pointer("other")})
		}, commits: 2, contents: map[string]string{"x.bin": pointer("other")}},
		"beside a real edit": {build: func(f *fixture) {
			start(f)
			f.store("x.bin", pointer(big))
			f.write(map[string]string{"x.bin": big, "other.txt": "edited\n"})
			f.touch("x.bin")
		}, commits: 2, contents: map[string]string{"x.bin": pointer(big), "other.txt": "edited\n"}},
		"content edited": {build: func(f *fixture) {
			start(f)
			f.store("x.bin", pointer(big))
			f.write(map[string]string{"x.bin": big + "more\n"})
		}, refused: "x.bin", reason: "uncommitted edit"},
		"content of the same size edited": {build: func(f *fixture) {
			start(f)
			f.store("x.bin", pointer(big))
			f.write(map[string]string{"x.bin": strings.ToUpper(big)})
		}, refused: "x.bin", reason: "uncommitted edit"},
		"mode edited": {build: func(f *fixture) {
			start(f)
			f.store("x.bin", pointer(big))
			f.write(map[string]string{"x.bin": big})
			if err := os.Chmod(filepath.Join(f.dir, "x.bin"), 0o755); err != nil {
				f.t.Fatal(err)
			}
		}, refused: "x.bin", reason: "uncommitted edit"},
		"new": {build: func(f *fixture) {
			start(f)
			f.write(map[string]string{"new.bin": big})
		}, refused: "new.bin", reason: "uncommitted edit"},
		"pointer with an extension": {build: func(f *fixture) {
			start(f)
			f.store("x.bin", strings.Replace(pointer(big), "oid", "ext-0-foo sha256:00\noid", 1))
			f.write(map[string]string{"x.bin": big})
		}, refused: "x.bin", reason: "nobody can tell"},
		"changed by the candidate": {build: func(f *fixture) {
			start(f)
			f.store("x.bin", pointer(big))
			f.write(map[string]string{"x.bin": big})
			f.touch("x.bin")
		}, change: map[string]string{"x.bin": "the candidate's\n"}, refused: "x.bin", reason: "filter program lfs"},
		"added by the candidate":  {build: start, change: map[string]string{"y.enc": "new\n"}, refused: "y.enc", reason: "filter program crypt"},
		"unfiltered by candidate": {build: rot, change: map[string]string{".gitattributes": ""}, refused: "s.enc", reason: "nobody can tell"},
		"any program untold":      {build: rot, refused: "s.enc", reason: "`git status` settles it"},
		"any program settled by the user git": {build: rot, between: func(f *fixture) {
			f.git("-c", "filter.crypt.clean=tr a-z n-za-m", "status")
		}, commits: 1, contents: map[string]string{"s.enc": "uryyb\n"}},
		"any program settled and then edited": {build: rot, between: func(f *fixture) {
			f.git("-c", "filter.crypt.clean=tr a-z n-za-m", "status")
			f.write(map[string]string{"s.enc": "hullo\n"})
		}, refused: "s.enc", reason: "nobody can tell"},
		"any program told to assume nothing": {build: rot, between: func(f *fixture) {
			f.git("update-index", "--assume-unchanged", "s.enc")
		}, refused: "s.enc", reason: "nobody can tell"},
		"any program settled as something else": {build: rot, between: func(f *fixture) {
			id := strings.TrimSpace(run(f.t, f.dir, []byte("hullo\n"), "git", "hash-object", "-w", "--stdin", "--no-filters"))
			f.git("-c", "filter.crypt.clean=sed s/hello/hullo/", "update-index", "--cacheinfo", "100644,"+id+",s.enc")
			f.git("-c", "filter.crypt.clean=sed s/hello/hullo/", "status")
		}, refused: "s.enc", reason: "nobody can tell"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			executed := filepath.Join(t.TempDir(), "executed")
			c.build(f)
			f.git("config", "filter.lfs.process", "no-such-program")
			f.git("config", "filter.lfs.clean", "touch "+executed+"; cat")
			f.git("config", "filter.lfs.required", "true")
			f.git("config", "filter.crypt.clean", "touch "+executed+"; cat")
			change := map[string]string{"a.txt": "changed\n"}
			for p, content := range c.change {
				change[p] = content
			}
			r := f.open()
			s := newStore(t)
			b := newBase(t, s, r, BaseSpec{History: 1, Shadow: ShadowCopy})
			sh := newShadow(t, newRun(t, s), b, "c1")
			writeFiles(t, sh.Root(), change)
			sealed := seal(t, sh)
			if c.between != nil {
				c.between(f)
			}
			head, refs, before := b.Commit(), f.git("for-each-ref"), files(t, f.dir)
			got, err := f.open().Adopt(t.Context(), b.Objects(), sealed.Change, AdoptOptions{Mode: AdoptBranch, Branch: "won", Message: "m", RunID: "r1",
				JournalDir: t.TempDir(), BaseCommit: head, BaseKind: b.Kind()})
			if _, gone := os.Stat(executed); gone == nil {
				t.Error("a filter program was run")
			}
			if diff := cmp.Diff(before, files(t, f.dir)); diff != "" {
				t.Error(diff)
			}
			if c.refused != "" {
				var refused *RefusedError
				if !errors.As(err, &refused) || refused.Path != c.refused || !strings.Contains(refused.Reason, c.reason) {
					t.Errorf("error: %v", err)
				}
				if now := f.git("for-each-ref"); now != refs {
					t.Errorf("refs: %s", now)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := f.git("rev-list", "--count", head+".."+got.Commit); n != fmt.Sprint(c.commits) {
				t.Errorf("%s commits on the branch, not %d", n, c.commits)
			}
			c.contents["a.txt"] = "changed\n"
			for p, want := range c.contents {
				if have := run(t, f.dir, nil, "git", "cat-file", "blob", "won:"+p); have != want {
					t.Errorf("%s on the branch: %q", p, have)
				}
			}
		})
	}
}

// TestHazardConversionsAreNoEdits: what git converts without a program makes
// no edit, however the index came to know less of the files than it could.
func TestHazardConversionsAreNoEdits(t *testing.T) {
	f := newFixture(t)
	f.git("config", "core.autocrlf", "true")
	f.write(map[string]string{
		".gitattributes": "*.lf eol=lf\n*.crlf eol=crlf\n*.id ident\n*.wide text working-tree-encoding=UTF-16LE\n*.bin -text\n",
		"a.txt":          "a\r\n", "b.txt": "b\r\n", "x.lf": "x\n", "y.crlf": "y\r\n", "z.id": "$Id$\n", "w.wide": "w\x00\n\x00", "v.bin": "v\r\n",
	})
	f.commit("first")
	all := []string{"b.txt", "x.lf", "y.crlf", "z.id", "w.wide", "v.bin"}
	for _, p := range all {
		if err := os.Remove(filepath.Join(f.dir, p)); err != nil {
			t.Fatal(err)
		}
	}
	f.git("checkout", "--", ".")
	if b, err := os.ReadFile(filepath.Join(f.dir, "z.id")); err != nil || len(b) < 40 {
		t.Fatalf("ident is not expanded: %q, %v", b, err)
	}
	f.touch(all...)
	r := f.open()
	s := newStore(t)
	b := newBase(t, s, r, BaseSpec{History: 1, Shadow: ShadowCopy})
	sh := newShadow(t, newRun(t, s), b, "c1")
	writeFiles(t, sh.Root(), map[string]string{"a.txt": "changed\r\n"})
	sealed := seal(t, sh)
	got, err := r.Adopt(t.Context(), b.Objects(), sealed.Change, AdoptOptions{Mode: AdoptBranch, Branch: "won", Message: "m", RunID: "r1",
		JournalDir: t.TempDir(), BaseCommit: b.Commit(), BaseKind: b.Kind()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("a.txt", f.git("diff", "--name-only", "HEAD", got.Commit)); diff != "" || f.git("rev-list", "--count", "HEAD..won") != "1" {
		t.Error(diff)
	}
}
