// Package redact replaces secrets in text as it streams by: the values it is
// told, and strings that have the shape of well-known tokens.
package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/lazyregexp"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

const (
	minSecret = 4        // shorter ones would redact everything
	minToken  = 15       // no token of shapes is shorter
	window    = 512      // bytes of a word in which the shape of a token is looked for
	pemMax    = 16 << 10 // bytes of a private key that are dropped without seeing its end
)

// shapes matches a token within a word of the bytes that isWord accepts.
var shapes = lazyregexp.New(`(?:^|[_-])(` + strings.Join([]string{
	`sk-[A-Za-z0-9_-]{20,}`,
	`(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}`,
	`gh[pousr]_[A-Za-z0-9]{30,}`,
	`github_pat_[A-Za-z0-9_]{30,}`,
	`glpat-[A-Za-z0-9_-]{20,}`,
	`A[KS]IA[0-9A-Z]{16}`,
	`AIza[A-Za-z0-9_-]{35}`,
	`xox[abeoprs]-[A-Za-z0-9-]{10,}`,
	`npm_[A-Za-z0-9]{36}`,
	`pypi-[A-Za-z0-9_-]{50,}`,
	`hf_[A-Za-z0-9]{30,}`,
	`eyJ[A-Za-z0-9_-]{15,}`,
}, "|") + `)`)

var (
	pemBegin = []byte("-----BEGIN ")
	pemHead  = lazyregexp.New(`^-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----`)
	pemEnd   = []byte("PRIVATE KEY-----")
)

func isWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// A Redactor knows the secrets. It may be used concurrently.
type Redactor struct {
	byFirst [256][]string // longest first
}

// New returns a redactor for the given values, also where they stand in JSON
// and, line by line, where they have several lines. Values of less than four
// bytes are left alone.
func New(secrets []string) *Redactor {
	r := &Redactor{}
	r.learn(secrets)
	return r
}

// With returns a redactor that knows more secrets.
func (r *Redactor) With(secrets []string) *Redactor {
	more := &Redactor{}
	for i, list := range r.byFirst {
		more.byFirst[i] = slices.Clone(list)
	}
	more.learn(secrets)
	return more
}

func (r *Redactor) learn(secrets []string) {
	add := func(s string, least int) {
		if len(s) >= least && !slices.Contains(r.byFirst[s[0]], s) {
			r.byFirst[s[0]] = append(r.byFirst[s[0]], s)
		}
	}
	for _, s := range secrets {
		add(s, minSecret)
		if quoted, err := json.Marshal(s); err == nil {
			add(string(quoted[1:len(quoted)-1]), minSecret)
		}
		if strings.ContainsRune(s, '\n') {
			for line := range strings.Lines(s) {
				add(strings.TrimSpace(line), 2*minSecret)
			}
		}
	}
	for _, list := range r.byFirst {
		slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
}

// String returns s with the secrets replaced.
func (r *Redactor) String(s string) string {
	var b strings.Builder
	w := r.Writer(&b)
	io.WriteString(w, s) // a strings.Builder takes everything
	w.Close()
	return b.String()
}

// Writer returns a writer that passes on to w what is written to it, with the
// secrets replaced, however they are split across writes. It may hold back
// bytes that could begin a secret until Close, which does not close w. One
// goroutine may use it at a time.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return &writer{r: r, w: w, token: -1} }

// A writer walks over its input byte by byte. What it does at a byte never
// depends on how the input was cut into writes: where it would, it waits.
type writer struct {
	r   *Redactor
	w   io.Writer
	buf []byte // not yet decided
	out []byte

	cover   int  // so many bytes from here on belong to a secret
	inWord  bool // the word around the next byte was searched for tokens
	token   int  // a token begins after so many bytes, -1 for none
	swallow bool // within a token, up to the end of the word
	pem     int  // within a private key, for at most so many bytes
}

func (w *writer) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	w.walk(false)
	return len(p), w.flush()
}

func (w *writer) Close() error {
	w.walk(true)
	return w.flush()
}

func (w *writer) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.w.Write(w.out)
	w.out = w.out[:0]
	return err
}

// walk decides as many bytes of buf as it can; all, when they are the last.
func (w *writer) walk(last bool) {
	i := 0
	for i < len(w.buf) {
		n := w.step(w.buf[i:], last)
		if n == 0 {
			break
		}
		i += n
	}
	w.buf = append(w.buf[:0], w.buf[i:]...)
}

// step returns how many bytes of rest it has dealt with, 0 if it needs more.
func (w *writer) step(rest []byte, last bool) int {
	if w.pem > 0 {
		return w.skipKey(rest, last)
	}
	n, wait := w.r.match(rest, last)
	if wait {
		return 0
	}
	c := rest[0]
	covered := w.cover > 0 || n > 0 || w.swallow && isWord(c)
	if !covered && c == '-' {
		head, wait := keyHead(rest, last)
		if wait {
			return 0
		}
		if head > 0 {
			w.out = append(w.out, Mark...)
			w.pem, w.inWord, w.token = pemMax, false, -1
			return head
		}
	}
	switch {
	case !isWord(c):
		w.inWord, w.swallow, w.token = false, false, -1
	case !w.inWord:
		word := rest[:wordLen(rest)]
		if len(word) == len(rest) && len(word) < window && !last {
			return 0
		}
		w.inWord = true
		if len(word) < minToken {
			break
		}
		if m := shapes().FindSubmatchIndex(word); m != nil {
			w.token = m[2]
		}
	}
	if n > w.cover {
		if w.cover == 0 && !w.swallow {
			w.out = append(w.out, Mark...)
		}
		w.cover = n
	}
	if w.token == 0 {
		if w.cover == 0 {
			w.out = append(w.out, Mark...)
		}
		w.swallow = true
	}
	if w.token >= 0 {
		w.token--
	}
	switch {
	case w.cover > 0:
		if w.cover--; w.cover == 0 {
			w.inWord = false // what follows a secret is a word of its own
		}
	case !w.swallow:
		w.out = append(w.out, c)
	}
	return 1
}

// match is the length of the longest secret at the beginning of rest. It waits
// while a longer one may still come.
func (r *Redactor) match(rest []byte, last bool) (n int, wait bool) {
	for _, s := range r.byFirst[rest[0]] {
		if len(rest) >= len(s) && string(rest[:len(s)]) == s {
			return len(s), false
		}
		if !last && len(rest) < len(s) && s[:len(rest)] == string(rest) {
			return 0, true
		}
	}
	return 0, false
}

// keyHead is the length of a private key's first line at the beginning of rest.
func keyHead(rest []byte, last bool) (n int, wait bool) {
	if k := min(len(rest), len(pemBegin)); !bytes.Equal(rest[:k], pemBegin[:k]) {
		return 0, false
	}
	const longest = 80
	line := rest[:min(len(rest), longest)]
	if m := pemHead().Find(line); m != nil {
		return len(m), false
	}
	return 0, !last && len(line) < longest && !bytes.ContainsRune(line, '\n')
}

// skipKey drops bytes up to the end of a private key.
func (w *writer) skipKey(rest []byte, last bool) int {
	key := rest[:min(len(rest), w.pem)]
	if i := bytes.Index(key, pemEnd); i >= 0 {
		w.pem = 0
		return i + len(pemEnd)
	}
	n := len(key)
	if n < w.pem && !last {
		n = max(n-len(pemEnd)+1, 0)
	}
	w.pem -= n
	return n
}

func wordLen(b []byte) int {
	n := 0
	for n < len(b) && n < window && isWord(b[n]) {
		n++
	}
	return n
}
