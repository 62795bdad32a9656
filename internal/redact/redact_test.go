package redact

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Tokens are put together here so that no scanner takes this file for a leak.
var (
	letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCD"
	github  = "gh" + "p_" + letters[:36]
	openAI  = "s" + "k-proj-" + letters
	pem     = "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3Blbn\nNzaC1\n-----END OPENSSH " + "PRIVATE KEY-----"
)

func TestString(t *testing.T) {
	r := New([]string{"hunter2hunter2", "line one is long\nline two is long", `quo"ted\secret`, "abc", "", "overlap-A-and", "and-B-overlap"})
	for in, want := range map[string]string{
		"":                                    "",
		"nothing here":                        "nothing here",
		"pw=hunter2hunter2!":                  "pw=[redacted]!",
		"hunter2hunter2hunter2hunter2":        "[redacted]",
		"hunter2hunter":                       "hunter2hunter",
		"line one is long\nline two is long.": "[redacted].",
		"> line two is long":                  "> [redacted]",
		`{"k":"quo\"ted\\secret"}`:            `{"k":"[redacted]"}`,
		`quo"ted\secret`:                      "[redacted]",
		"abc":                                 "abc",
		"overlap-A-and-B-overlap x":           "[redacted] x",
		"Bearer " + github:                    "Bearer [redacted]",
		"hunter2hunter2" + github:             "[redacted][redacted]",
		"key=" + openAI + " next":             "key=[redacted] next",
		"x_" + github:                         "x_[redacted]",
		"task-" + letters:                     "task-" + letters,
		"s" + "k-short":                       "s" + "k-short",
		"AK" + "IA" + "ABCDEFGHIJKLMNOP":      "[redacted]",
		"ey" + "J" + letters + ".ey" + "J" + letters + ".sig": "[redacted].[redacted].sig",
		"a\n" + pem + "\nb":                       "a\n[redacted]\nb",
		"-" + pem:                                 "-[redacted]",
		"-----BEGIN CERTIFICATE-----\nx":          "-----BEGIN CERTIFICATE-----\nx",
		"-----BEGIN ":                             "-----BEGIN ",
		strings.Repeat("x", 2000):                 strings.Repeat("x", 2000),
		"é\xff\x00日本":                             "é\xff\x00日本",
		github + strings.Repeat("x", 2000) + " y": "[redacted] y",
	} {
		if got := r.String(in); got != want {
			t.Errorf("String(%q) = %q, want %q", in, got, want)
		}
	}
	long := "-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("x", 2*pemMax)
	if got := r.String(long); !strings.HasPrefix(got, Mark+"x") || len(got) < pemMax/2 {
		t.Errorf("a key without an end swallows everything: %d bytes left", len(got))
	}
	if got := New(nil).String("plain"); got != "plain" {
		t.Error(got)
	}
}

func TestFromEnviron(t *testing.T) {
	got := FromEnviron([]string{
		"PATH=/usr/bin:/bin", "GITHUB_TOKEN=0123456789", "my_api_key=lower-case-name", "TOKEN=short", "SECRET=", "TOKENS=not-a-suffix",
		"DB_PASSWORD=a=b=c=d=e", "AWS_PROFILE=production", "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "GOOGLE_APPLICATION_CREDENTIALS=/home/x/key.json",
		"X_PAT=0123456789", "PAT=0123456789", "MONKEY=0123456789", "broken", "=0123456789",
	})
	want := []string{"0123456789", "lower-case-name", "a=b=c=d=e", "AKIDEXAMPLE", "0123456789"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for name, want := range map[string]bool{"AWS_PROFILE": true, "aws_session_token": true, "SSH_AUTH_SOCK": false, "TOKEN": true, "A_CREDENTIALS": true, "KEY": false} {
		if CredentialName(name) != want {
			t.Errorf("CredentialName(%q) = %v", name, !want)
		}
	}
}

var pieces = []string{"hunter2", "hunter", "2", "sec\nret", "\n", " ", "-", "_", github, github[:20], github[20:], openAI, pem, pem[:15], pem[15:50], "PRIVATE KEY-----", "aaaa", "a", "é", "\xff", strings.Repeat("z", 300)}

// TestSplitWrites: however the text is cut into writes, the result is the same,
// and no secret is in it.
func TestSplitWrites(t *testing.T) {
	secrets := []string{"hunter2hunter2", "hunter2hunter2-and-more", "sec\nret\nsec", "aaaaaaaa", "aaaaaab", "2sec\nret"}
	r := New(secrets)
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 20).Draw(t, "pieces"), ""))
		var out bytes.Buffer
		w := r.Writer(&out)
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 40)).Draw(t, "n")
			if m, err := w.Write(rest[:n]); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if want := r.String(string(text)); out.String() != want {
			t.Fatalf("%q\n in parts %q\nas a whole %q", text, out.String(), want)
		}
		for _, s := range secrets {
			if strings.Contains(out.String(), s) {
				t.Fatalf("%q is in %q, from %q", s, out.String(), text)
			}
		}
	})
}

// TestBounded: whatever comes, only a bounded part of it is held back.
func TestBounded(t *testing.T) {
	r := New([]string{"aaaaaaaa", strings.Repeat("secret ", 20)})
	for _, unit := range []string{"a", "secret ", "x", "-", "-----BEGIN ", pem[:40], github} {
		w := r.Writer(io.Discard).(*writer)
		for range 3000 {
			io.WriteString(w, unit)
			if len(w.buf) > 2*window {
				t.Fatalf("%d bytes of %q are held back", len(w.buf), unit)
			}
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("full")

func TestErrorsArePassedOn(t *testing.T) {
	w := New(nil).Writer(failing{})
	if _, err := io.WriteString(w, "plain text\n"); !errors.Is(err, errFull) {
		t.Error(err)
	}
	w = New(nil).Writer(failing{})
	if _, err := io.WriteString(w, "held"); err != nil {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

func FuzzSplitNeedles(f *testing.F) {
	f.Add("xxsecretyy", "secret", uint8(3))
	f.Add("aaaaaaaaaa", "aaaa", uint8(1))
	f.Add(pem+github, "PRIVATE", uint8(7))
	f.Add("abcabcd", "abcd", uint8(2))
	f.Fuzz(func(t *testing.T, text, secret string, size uint8) {
		r := New([]string{secret})
		var out bytes.Buffer
		w := r.Writer(&out)
		for rest := text; len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			io.WriteString(w, rest[:n])
			rest = rest[n:]
		}
		w.Close()
		if want := r.String(text); out.String() != want {
			t.Fatalf("%q in parts of %d: %q, as a whole %q", text, size, out.String(), want)
		}
		// What the mark adds may spell a secret together with its neighbours.
		if len(secret) >= minSecret && !strings.ContainsAny(secret, Mark) && strings.Contains(out.String(), secret) {
			t.Fatalf("%q leaves %q in %q", text, secret, out.String())
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	line := []byte("ok  \tgithub.com/example/project/package\t0.123s coverage: 80.1% of statements\n")
	w := New([]string{"hunter2hunter2", github}).Writer(io.Discard)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		w.Write(line)
	}
}

func TestWithKnowsOldAndNewSecrets(t *testing.T) {
	old := New([]string{"first-secret"})
	both := old.With([]string{"fresh-secret"})
	const text = "first-secret and fresh-secret"
	if got := both.String(text); got != Mark+" and "+Mark {
		t.Errorf("got %q", got)
	}
	if got := old.String(text); got != Mark+" and fresh-secret" {
		t.Errorf("the old one says %q", got)
	}
}
