package patch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A header is what stands between "diff --git" and the content.
type header struct {
	file           *File
	added, deleted bool
	from, to       string // of a rename or a copy
	seen           map[string]bool
}

// The lines of a header, with what reads each. Order is git's.
var extendedLines = []struct {
	prefix string
	read   func(h *header, rest string) error
}{
	{"old mode ", func(h *header, s string) (err error) { h.file.OldMode, err = mode(s); return err }},
	{"new mode ", func(h *header, s string) (err error) { h.file.NewMode, err = mode(s); return err }},
	{"deleted file mode ", func(h *header, s string) (err error) {
		h.deleted = true
		h.file.OldMode, err = mode(s)
		return err
	}},
	{"new file mode ", func(h *header, s string) (err error) {
		h.added = true
		h.file.NewMode, err = mode(s)
		return err
	}},
	{"similarity index ", func(h *header, s string) (err error) { h.file.Similarity, err = percent(s); return err }},
	{"dissimilarity index ", func(h *header, s string) error { _, err := percent(s); return err }},
	{"rename from ", func(h *header, s string) (err error) { h.from, err = Unquote(s); return err }},
	{"rename to ", func(h *header, s string) (err error) { h.to, err = Unquote(s); return err }},
	{"copy from ", func(h *header, s string) (err error) { h.file.Copy = true; h.from, err = Unquote(s); return err }},
	{"copy to ", func(h *header, s string) (err error) { h.to, err = Unquote(s); return err }},
	{"index ", (*header).index},
}

// extended reads the lines of a header.
func (r *reader) extended(h *header) error {
	h.seen = make(map[string]bool)
	for _, l := range extendedLines {
		rest, ok, err := r.after(l.prefix)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := l.read(h, rest); err != nil {
			return r.fail("%s%.80q: %w", l.prefix, rest, err)
		}
		h.seen[l.prefix] = true
	}
	for _, l := range extendedLines {
		if strings.HasPrefix(r.rest, l.prefix) {
			r.line++
			return r.fail("%q is there twice, or not in its place", strings.TrimSpace(l.prefix))
		}
	}
	return h.consistent(r)
}

// consistent checks that lines that belong together came together.
func (h *header) consistent(r *reader) error {
	s := h.seen
	moves := s["rename from "] || s["copy from "]
	for _, bad := range []bool{
		s["old mode "] != s["new mode "],
		s["rename from "] != s["rename to "], s["copy from "] != s["copy to "], s["rename from "] && s["copy from "],
		moves != s["similarity index "], moves && (h.added || h.deleted || s["dissimilarity index "]),
		h.added && h.deleted, (h.added || h.deleted) && s["old mode "],
	} {
		if bad {
			return r.fail("the header contradicts itself")
		}
	}
	return nil
}

// complete reports what is wrong with a header without content.
func (h *header) complete(r *reader) error {
	f := h.file
	empty := h.added || h.deleted
	switch {
	case len(h.seen) == 0:
		return r.fail("the header says nothing")
	case h.seen["index "] && !empty && f.OldID != f.NewID:
		return r.fail("the content differs, and is not there")
	}
	return nil
}

// name reads "a/x b/x" or, for a rename, checks it.
func (h *header) name(s string) error {
	left, right, ok := h.split(s)
	if !ok {
		return fmt.Errorf("%.80q does not name a file twice", s)
	}
	a, errA := Unquote(left)
	b, errB := Unquote(right)
	if err := errors.Join(errA, errB); err != nil {
		return fmt.Errorf("%.80q: %w", s, err)
	}
	a, okA := strings.CutPrefix(a, "a/")
	b, okB := strings.CutPrefix(b, "b/")
	moved := h.from != ""
	switch {
	case !okA || !okB:
		return fmt.Errorf("%.80q has not the prefixes a/ and b/", s)
	case moved && (a != h.from || b != h.to), !moved && a != b:
		return fmt.Errorf("%.80q names other files than what follows", s)
	case moved && a == b:
		return errors.New("a file is renamed to itself")
	}
	h.file.Old, h.file.New = a, b
	return errors.Join(checkName(a), checkName(b))
}

// split finds the space between the two names of a header. Without quotes,
// both names are equally long or the first one is known.
func (h *header) split(s string) (left, right string, ok bool) {
	at := len(s) / 2
	switch {
	case strings.HasPrefix(s, `"`):
		_, rest, err := quoted(s)
		if err != nil {
			return "", "", false
		}
		at = len(s) - len(rest)
	case h.from != "":
		at = len("a/") + len(h.from)
	}
	if at >= len(s) || s[at] != ' ' {
		return "", "", false
	}
	return s[:at], s[at+1:], true
}

// side is how a name is spelt in the lines that follow the header.
func (h *header) side(name string, absent bool, prefix string) string {
	if absent {
		return "/dev/null"
	}
	return Quote(prefix + name)
}

// index reads "1234..abcd 100644".
func (h *header) index(s string) error {
	ids, m, both := strings.Cut(s, " ")
	a, b, ok := strings.Cut(ids, "..")
	if !ok || !isHex(a) || !isHex(b) {
		return errors.New("it has no two ids")
	}
	h.file.OldID, h.file.NewID = a, b
	if !both {
		return nil
	}
	if h.added || h.deleted || h.file.OldMode != 0 {
		return errors.New("the mode is there twice")
	}
	var err error
	h.file.OldMode, err = mode(m)
	h.file.NewMode = h.file.OldMode
	return err
}

func isHex(s string) bool {
	return len(s) >= 4 && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// mode reads a mode that a patch may give a file: of a file, a program or a
// link.
func mode(s string) (uint32, error) {
	switch s {
	case "100644", "100755", "120000":
		m, err := strconv.ParseUint(s, 8, 32)
		return uint32(m), err
	}
	return 0, errors.New("it is not the mode of a file or a link")
}

func percent(s string) (int, error) {
	n, err := number(strings.TrimSuffix(s, "%"))
	if err != nil || n > 100 || !strings.HasSuffix(s, "%") {
		return 0, errors.New("it is no percentage")
	}
	return n, nil
}
