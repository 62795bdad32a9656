package patch

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const many = `diff --git a/edited b/edited
index 0123456..789abcd 100644
--- a/edited
+++ b/edited
@@ -1,2 +1,2 @@ heading
 same
-old
\ No newline at end of file
+new
@@ -10,0 +11,2 @@
+x
+y
diff --git a/new file b/new file
new file mode 100755
index 0000000..789abcd
--- /dev/null
+++ b/new file	
@@ -0,0 +1 @@
+x
diff --git "a/g\303\274n\n" "b/g\303\274n\n"
deleted file mode 100644
index 789abcd..0000000
--- "a/g\303\274n\n"
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/a b/c b/d e
old mode 100644
new mode 100755
similarity index 97%
rename from a b/c
rename to d e
index 0123456..789abcd
--- a/a b/c	
+++ b/d e	
@@ -1 +1 @@
-x
+y
diff --git a/x b/x b/x b/x
old mode 100755
new mode 100644
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
diff --git a/bin b/bin
index 0123456..789abcd 100644
GIT binary patch
literal 3
Kcmb1PVqpLP0F(d%

delta 2
Jcmb1PVqpLP03ZMW

diff --git a/bin2 b/bin2
index 0123456..789abcd 100644
Binary files a/bin2 and b/bin2 differ
diff --git a/c1 b/c2
similarity index 100%
copy from c1
copy to c2
`

func TestRead(t *testing.T) {
	got, err := Read([]byte(many))
	if err != nil {
		t.Fatal(err)
	}
	want := []File{
		{Old: "edited", New: "edited", OldMode: 0o100644, NewMode: 0o100644, OldID: "0123456", NewID: "789abcd", Added: 3, Deleted: 1, Hunks: []Hunk{
			{1, 2, 1, 2, 1, 1, " same\n-old\n\\ No newline at end of file\n+new\n"}, {10, 0, 11, 2, 2, 0, "+x\n+y\n"},
		}},
		{New: "new file", NewMode: 0o100755, NewID: "789abcd", Added: 1, Hunks: []Hunk{{0, 0, 1, 1, 1, 0, "+x\n"}}},
		{Old: "gün\n", OldMode: 0o100644, OldID: "789abcd", Deleted: 1, Hunks: []Hunk{{1, 1, 0, 0, 0, 1, "-x\n"}}},
		{Old: "a b/c", New: "d e", OldMode: 0o100644, NewMode: 0o100755, OldID: "0123456", NewID: "789abcd", Similarity: 97, Added: 1, Deleted: 1, Hunks: []Hunk{{1, 1, 1, 1, 1, 1, "-x\n+y\n"}}},
		{Old: "x b/x", New: "x b/x", OldMode: 0o100755, NewMode: 0o100644},
		{New: "empty", NewMode: 0o100644, NewID: "e69de29"},
		{Old: "bin", New: "bin", OldMode: 0o100644, NewMode: 0o100644, OldID: "0123456", NewID: "789abcd", Binary: &Binary{Forward: Data{"literal", 3, 11}, Reverse: Data{"delta", 2, 10}}},
		{Old: "bin2", New: "bin2", OldMode: 0o100644, NewMode: 0o100644, OldID: "0123456", NewID: "789abcd", Binary: &Binary{Omitted: true}},
		{Old: "c1", New: "c2", Similarity: 100, Copy: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var statuses []string
	for _, f := range got {
		statuses = append(statuses, f.Status()+" "+f.Path())
	}
	if diff := cmp.Diff([]string{"modified edited", "added new file", "deleted gün\n", "renamed d e", "mode x b/x", "added empty", "modified bin", "modified bin2", "copied c2"}, statuses); diff != "" {
		t.Error(diff)
	}
}

// edited makes a patch of one line's change to a file whose names are spelt
// as given.
func edited(a, b string) string {
	return "diff --git " + a + " " + b + "\nindex 0123456..789abcd 100644\n--- " + a + "\n+++ " + b + "\n@@ -1 +1 @@\n-x\n+y\n"
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		line  int
	}{
		"words":                 {"hello\n", 1},
		"no line feed":          {"diff --git a/x b/x", 1},
		"a mail":                {"From 1234 Mon Sep 17\n" + edited("a/x", "b/x"), 1},
		"something after":       {edited("a/x", "b/x") + "-- \n2.39.5\n", 8},
		"no prefixes":           {edited("x", "x"), 2},
		"absolute":              {edited("a//etc/passwd", "b//etc/passwd"), 2},
		"up":                    {edited("a/../x", "b/../x"), 2},
		"up inside":             {edited("a/d/../../x", "b/d/../../x"), 2},
		"up, in octal":          {edited(`"a/\056\056/x"`, `"b/\056\056/x"`), 2},
		"here":                  {edited("a/./x", "b/./x"), 2},
		"twice a slash":         {edited("a/d//x", "b/d//x"), 2},
		"a directory":           {edited("a/d/", "b/d/"), 2},
		"git":                   {edited("a/.git/config", "b/.git/config"), 2},
		"git in another case":   {edited("a/d/.GiT/hooks/x", "b/d/.GiT/hooks/x"), 2},
		"git in octal":          {edited(`"a/\056\147it/config"`, `"b/\056\147it/config"`), 2},
		"git for NTFS":          {edited("a/git~1/config", "b/git~1/config"), 2},
		"git for HFS+":          {edited(`"a/.g\342\200\214it/config"`, `"b/.g\342\200\214it/config"`), 2},
		"git with a backslash":  {edited(`"a/d\\.git\\x"`, `"b/d\\.git\\x"`), 2},
		"a NUL":                 {edited(`"a/x\000"`, `"b/x\000"`), 2},
		"a long name":           {edited("a/"+strings.Repeat("d/", 2050)+"x", "b/"+strings.Repeat("d/", 2050)+"x"), 2},
		"a header of 4 MiB":     {"diff --git " + strings.Repeat("a ", 2<<20) + "\nsimilarity index 9%\nrename from a\nrename to b\n", 4},
		"two names":             {edited("a/x", "b/y"), 2},
		"an open quote":         {edited(`"a/x`, `"b/x`), 2},
		"an unknown escape":     {edited(`"a/\x41"`, `"b/\x41"`), 2},
		"an octal too large":    {edited(`"a/\400"`, `"b/\400"`), 2},
		"a control byte":        {edited("a/x\x1b", "b/x\x1b"), 2},
		"other names below":     {strings.Replace(edited("a/x", "b/x"), "+++ b/x", "+++ b/y", 1), 4},
		"a time":                {strings.Replace(edited("a/x", "b/x"), "+++ b/x", "+++ b/x\t2026-01-01", 1), 4},
		"a submodule":           {"diff --git a/x b/x\nnew file mode 160000\nindex 0000000..0123456\n", 2},
		"a setuid mode":         {"diff --git a/x b/x\nold mode 100644\nnew mode 104755\n", 3},
		"one mode of two":       {"diff --git a/x b/x\nold mode 100644\n", 2},
		"nothing":               {"diff --git a/x b/x\n", 1},
		"no content":            {"diff --git a/x b/x\nindex 0123456..789abcd 100644\n", 2},
		"a line twice":          {"diff --git a/x b/x\nindex 0123..4567\nindex 0123..4567\n", 3},
		"out of order":          {"diff --git a/x b/x\nnew mode 100644\nold mode 100755\n", 3},
		"new and deleted":       {"diff --git a/x b/x\ndeleted file mode 100644\nnew file mode 100644\n", 3},
		"new with an old id":    {"diff --git a/x b/x\nnew file mode 100644\nindex 0123456..789abcd\n", 3},
		"not hex":               {"diff --git a/x b/x\nindex 012345g..789abcd 100644\n", 2},
		"half a rename":         {"diff --git a/x b/y\nsimilarity index 100%\nrename from x\n", 3},
		"a rename of others":    {"diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to z\n", 4},
		"a rename out":          {"diff --git a/x b/../y\nsimilarity index 100%\nrename from x\nrename to ../y\n", 4},
		"a quote and no space":  {edited(`"a/x"`, `b/x`)[:len(`diff --git "a/x"`)] + "b/x\nold mode 100644\nnew mode 100755\n", 3},
		"a rename of less":      {"diff --git a/xx b/y\nsimilarity index 100%\nrename from x\nrename to y\n", 4},
		"renamed to itself":     {"diff --git a/x b/x\nsimilarity index 100%\nrename from x\nrename to x\n", 4},
		"more than all":         {"diff --git a/x b/y\nsimilarity index 101%\nrename from x\nrename to y\n", 2},
		"no hunk":               {"diff --git a/x b/x\nindex 0123..4567 100644\n--- a/x\n+++ b/x\n", 4},
		"no new side":           {"diff --git a/x b/x\nindex 0123..4567 100644\n--- a/x\n@@ -1 +1 @@\n", 3},
		"a hunk cut short":      {strings.TrimSuffix(edited("a/x", "b/x"), "+y\n"), 7},
		"a hunk too long":       {edited("a/x", "b/x") + "+z\n", 8},
		"more than it says":     {strings.Replace(edited("a/x", "b/x"), "+y", "-z", 1), 7},
		"an empty hunk":         {strings.Replace(edited("a/x", "b/x"), "-1 +1", "-0,0 +0,0", 1), 5},
		"a number with a plus":  {strings.Replace(edited("a/x", "b/x"), "-1 +1", "-+1 +1", 1), 5},
		"a huge number":         {strings.Replace(edited("a/x", "b/x"), "-1 +1", "-1,99999999999 +1", 1), 5},
		"before the first line": {strings.Replace(edited("a/x", "b/x"), "-1 +1", "-0 +0", 1), 5},
		"another distance":      {strings.Replace(edited("a/x", "b/x"), "-1 +1", "-1 +2", 1), 5},
		"hunks backwards":       {edited("a/x", "b/x") + "@@ -1 +1 @@\n-x\n+y\n", 8},
		"a mark first":          {strings.Replace(edited("a/x", "b/x"), "-x", noNewline, 1), 6},
		"two marks":             {edited("a/x", "b/x") + noNewline + "\n" + noNewline + "\n", 9},
		"no base 85":            {strings.Replace(many, "Kcmb1PV", "Kcm\"1PV", 1), 49},
		"digits too large":      {strings.Replace(many, "Kcmb1PVqpLP0F(d%", "D~~~~~", 1), 49},
		"a wrong length":        {strings.Replace(many, "Kcmb1PV", "Zcmb1PV", 1), 49},
		"binary without data":   {"diff --git a/x b/x\nindex 0123..4567 100644\nGIT binary patch\n", 3},
		"binary of others":      {"diff --git a/x b/x\nindex 0123..4567 100644\nBinary files a/x and b/y differ\n", 3},
	} {
		_, err := Read([]byte(c.patch))
		var at *Error
		if !errors.As(err, &at) || at.Line != c.line {
			t.Errorf("%s: %v, want an error in line %d", name, err, c.line)
		}
	}
}

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"plain": "plain", "sp ace": "sp ace", `b\s`: `"b\\s"`, `q"q`: `"q\"q"`, "\a\b\t\n\v\f\r": `"\a\b\t\n\v\f\r"`, "ü": `"\303\274"`, "\x00\x7f": `"\000\177"`,
	} {
		if got := Quote(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOf(rapid.Byte()).Draw(t, "name"))
		if got, err := Unquote(Quote(name)); err != nil || got != name {
			t.Fatalf("%q comes back as %q, %v", name, got, err)
		}
	})
}

// FuzzRead: whatever is read has names below the top, and lines that add up.
func FuzzRead(f *testing.F) {
	f.Add([]byte(many))
	f.Add([]byte(edited(`"a/\303\274"`, `"b/\303\274"`)))
	f.Add([]byte("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"))
	f.Add([]byte("diff --git a/x b/x\nnew file mode 120000\nindex 0000..1234\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+target\n" + noNewline + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := Read(b)
		if err != nil {
			return
		}
		lines := 0
		for _, file := range files {
			if file.Old == "" && file.New == "" {
				t.Fatal("a file without a name")
			}
			for _, name := range []string{file.Old, file.New} {
				if name != "" && checkName(name) != nil {
					t.Fatalf("the name %q", name)
				}
			}
			added, deleted := 0, 0
			for _, h := range file.Hunks {
				added, deleted = added+h.Added, deleted+h.Deleted
				if h.NewLines-h.OldLines != h.Added-h.Deleted {
					t.Fatalf("a hunk does not add up: %+v", h)
				}
				lines += strings.Count(h.Body, "\n")
			}
			if added != file.Added || deleted != file.Deleted {
				t.Fatalf("the lines of %q do not add up", file.Path())
			}
		}
		if lines > strings.Count(string(b), "\n") {
			t.Fatal("more lines than there are")
		}
	})
}
