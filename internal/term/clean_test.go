package term

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCleanShowsWhatHides(t *testing.T) {
	for _, c := range []struct {
		in   string
		max  int
		want string
	}{
		{"plain text", 0, "plain text"},
		{"größe 世界 🎉", 0, "größe 世界 🎉"},
		{"a\u202egnp.exe", 0, `a\u{202e}gnp.exe`},
		{"x\r\nAllow? y", 0, `x\u{d}\u{a}Allow? y`},
		{"\x9b31m", 0, `\x{9b}31m`},
		{"\x1b]8;;http://x\x07y", 0, `\u{1b}]8;;http://x\u{7}y`},
		{"a\u200bb\u00a0c\u3000d", 0, `a\u{200b}b\u{a0}c\u{3000}d`},
		{"\ufffd", 0, "\ufffd"},
		{"\xff\xfe", 0, `\x{ff}\x{fe}`},
		{"\u2066x\u061cy\ufeffz", 0, `\u{2066}x\u{61c}y\u{feff}z`},
		{"ok\ufe0f\u3164\U000e0041", 0, `ok\u{fe0f}\u{3164}\u{e0041}`},
		{"e\u0301", 0, "e\u0301"},
		{"\u0301e", 0, `\u{301}e`},
		{"a" + strings.Repeat("\u0300", 6), 0, "a" + strings.Repeat("\u0300", 4) + `\u{300}\u{300}`},
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abcde…"},
		{"世界世界", 5, "世界…"},
		{"世界世界", 4, "世…"},
		{"abc", 1, "…"},
		{"", 3, ""},
	} {
		if got := Clean(c.in, c.max).String(); got != c.want {
			t.Errorf("Clean(%q, %d) = %q, want %q", c.in, c.max, got, c.want)
		}
	}
}

// harmless fails when s holds anything that Clean promises to keep out.
func harmless(t interface{ Fatalf(string, ...any) }, s string) {
	if !utf8.ValidString(s) {
		t.Fatalf("not UTF-8: %q", s)
	}
	for _, r := range s {
		switch {
		case r < 0x20, r >= 0x7f && r <= 0x9f, r == 0x61c, r >= 0x200b && r <= 0x200f,
			r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff,
			r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0000 && r <= 0xe0fff:
			t.Fatalf("%U in %q", r, s)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2J", "\u202e", "世界", "e\u0301\u0301", "\xf0\x28\x8c\x28", "\t\n\r", "👩‍👩‍👧", "नमस्ते", strings.Repeat("\u0300", 99)} {
		f.Add(s, 5)
		f.Add(s, 0)
	}
	f.Fuzz(func(t *testing.T, s string, max int) {
		whole := Clean(s, 0)
		harmless(t, whole.String())
		if again := Clean(whole.String(), 0); again != whole {
			t.Fatalf("cleaning twice: %q, then %q", whole, again)
		}
		harmless(t, whole.ASCII().String())
		if strings.IndexFunc(whole.ASCII().String(), func(r rune) bool { return r > 0x7e }) >= 0 {
			t.Fatalf("not ASCII: %q", whole.ASCII())
		}
		max = max % 200
		cut := Clean(s, max)
		harmless(t, cut.String())
		if max > 0 && cut.Width() > max {
			t.Fatalf("%q is %d cells wide, not %d", cut, cut.Width(), max)
		}
		if max > 0 {
			head, tail := whole.Split(max)
			if head.Width() > max || head.String()+tail.String() != whole.String() {
				t.Fatalf("split %q at %d: %q and %q", whole, max, head, tail)
			}
			if left := whole.CutLeft(max, "…"); left.Width() > max {
				t.Fatalf("cut left: %q", left)
			}
			if w := cut.Pad(max).Width(); w != max {
				t.Fatalf("padded to %d: %d", max, w)
			}
		}
	})
}

// Different texts stay different, so a name cannot pass for another: only text
// that itself spells out an escape may coincide with what the escape stands for.
func TestCleanKeepsTextsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letter := rapid.SampledFrom([]string{"a", "b", "\xff", "\xfe", "\u200b", "\u202e", "\n", "\x00", "é", "e\u0301", "\ufffd", " ", "\u00a0"})
		a := strings.Join(rapid.SliceOfN(letter, 0, 6).Draw(t, "a"), "")
		b := strings.Join(rapid.SliceOfN(letter, 0, 6).Draw(t, "b"), "")
		if (a == b) != (Clean(a, 0) == Clean(b, 0)) {
			t.Fatalf("%q and %q are shown as %q and %q", a, b, Clean(a, 0), Clean(b, 0))
		}
	})
}

func TestCutLeftKeepsTheEnd(t *testing.T) {
	if got := Clean("a/very/long/path/file.go", 0).CutLeft(10, "…").String(); got != "…h/file.go" {
		t.Errorf("%q", got)
	}
	if got := Clean("世界世界", 0).CutLeft(4, "…").String(); got != "…界" {
		t.Errorf("%q", got)
	}
}

// A megabyte of anything is cleaned for a short line without being read whole.
func BenchmarkCleanOfHugeText(b *testing.B) {
	s := strings.Repeat("\x1b世", 1<<18)
	for b.Loop() {
		Clean(s, 80)
	}
}
