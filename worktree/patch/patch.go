// Package patch reads patches in git's format, strictly: every byte must be
// understood. It is pure; whoever wrote a patch is not trusted.
package patch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of what is read.
const (
	MaxBytes = 256 << 20
	MaxFiles = 1_000_000
	maxHunks = 1 << 22 // of all files
	maxCount = 1 << 31 // lines, and bytes of a binary file
)

// A File is what a patch does to one file. Paths may hold any bytes but NUL.
type File struct {
	Old, New         string // paths; "" on the side where the file is absent
	OldMode, NewMode uint32 // 0 on the side where it is absent, or where the patch does not say
	OldID, NewID     string // as the patch has them, maybe abbreviated; "" where it does not say
	Similarity       int    // of a rename or a copy, in percent
	Copy             bool
	Binary           *Binary // nil for text
	Hunks            []Hunk
	Added, Deleted   int // lines
}

// Status is added, deleted, renamed, copied, type, mode or modified. That a
// file became a link is two files in a patch, one deleted and one added.
func (f File) Status() string {
	switch {
	case f.Old == "":
		return "added"
	case f.New == "":
		return "deleted"
	case f.Copy:
		return "copied"
	case f.Old != f.New:
		return "renamed"
	case f.Binary == nil && len(f.Hunks) == 0:
		return "mode"
	default:
		return "modified"
	}
}

// Path is the name a file is listed under: the newer one.
func (f File) Path() string {
	if f.New == "" {
		return f.Old
	}
	return f.New
}

// A Hunk is neighbouring lines. Starts count from 1; an empty side has the
// number of the line before it.
type Hunk struct {
	OldStart, OldLines int
	NewStart, NewLines int
	Added, Deleted     int
	Body               string // the lines, each with its sign
}

// A Binary is how a patch carries a file that is not text.
type Binary struct {
	Omitted          bool // the patch only says that it differs
	Forward, Reverse Data // Reverse may be absent
}

// Data is one direction of a binary file.
type Data struct {
	Kind   string // literal, delta, or "" when absent
	Size   int    // bytes of the content, or of the delta, as the patch says
	Packed int    // compressed bytes
}

// An Error says in which line, from 1, a patch is not understood.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("patch: line %d: %v", e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Read reads a whole patch. An empty one has no files.
func Read(b []byte) ([]File, error) {
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("patch: more than %d bytes", MaxBytes)
	}
	r := &reader{rest: string(b)}
	var files []File
	for r.rest != "" {
		if len(files) == MaxFiles {
			return nil, r.fail("more than %d files", MaxFiles)
		}
		f, err := r.file()
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// A reader takes lines off the front of a patch.
type reader struct {
	rest  string
	line  int // number of the last line taken
	hunks int
}

func (r *reader) fail(format string, args ...any) error {
	return &Error{r.line, fmt.Errorf(format, args...)}
}

var errEnd = errors.New("it ends in the middle of a line")

// next takes a line, without its line feed.
func (r *reader) next() (string, error) {
	line, rest, ok := strings.Cut(r.rest, "\n")
	r.line++
	if !ok {
		return "", &Error{r.line, errEnd}
	}
	r.rest = rest
	return line, nil
}

// after takes a line if it begins with prefix, and returns what follows it.
func (r *reader) after(prefix string) (string, bool, error) {
	if !strings.HasPrefix(r.rest, prefix) {
		return "", false, nil
	}
	line, err := r.next()
	return strings.TrimPrefix(line, prefix), true, err
}

// file reads one file's part.
func (r *reader) file() (File, error) {
	line, err := r.next()
	if err != nil {
		return File{}, err
	}
	names, ok := strings.CutPrefix(line, "diff --git ")
	if !ok {
		return File{}, r.fail("%.80q is not the beginning of a file", line)
	}
	var f File
	h := header{file: &f}
	if err := r.extended(&h); err != nil {
		return f, err
	}
	if err := h.name(names); err != nil {
		return f, r.fail("%w", err)
	}
	if err := r.content(&f, &h); err != nil {
		return f, err
	}
	for _, side := range []struct {
		gone     bool
		path, id *string
	}{{h.added, &f.Old, &f.OldID}, {h.deleted, &f.New, &f.NewID}} {
		if side.gone {
			if strings.Trim(*side.id, "0") != "" {
				return f, r.fail("an absent file has an id")
			}
			*side.path, *side.id = "", ""
		}
	}
	return f, nil
}

// content reads what follows the header: hunks, binary data or nothing.
func (r *reader) content(f *File, h *header) error {
	rest, ok, err := r.after("GIT binary patch")
	if err != nil || ok {
		if err == nil && rest != "" {
			err = r.fail("%.80q follows a binary patch's name", rest)
		}
		if err == nil {
			f.Binary = &Binary{}
			err = r.binary(f.Binary)
		}
		return err
	}
	if rest, ok, err = r.after("Binary files "); err != nil || ok {
		if f.Binary = (&Binary{Omitted: true}); err == nil && rest != h.side(f.Old, h.added, "a/")+" and "+h.side(f.New, h.deleted, "b/")+" differ" {
			err = r.fail("%.80q names other files than the header", rest)
		}
		return err
	}
	if !strings.HasPrefix(r.rest, "--- ") {
		return h.complete(r)
	}
	for _, side := range []struct {
		mark, want string
	}{{"--- ", h.side(f.Old, h.added, "a/")}, {"+++ ", h.side(f.New, h.deleted, "b/")}} {
		got, ok, err := r.after(side.mark)
		if err != nil {
			return err
		}
		if !ok {
			return r.fail("a line with %q is missing", side.mark)
		}
		if got = strings.TrimSuffix(got, "\t"); got != side.want {
			if name, err := Unquote(got); err != nil || Quote(name) != side.want {
				return r.fail("%.80q names another file than the header", got)
			}
		}
	}
	return r.text(f, h)
}

// text reads hunks, at least one.
func (r *reader) text(f *File, h *header) error {
	old, new := 0, 0 // lines of each side that earlier hunks reached
	for {
		text, ok, err := r.after("@@ -")
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		hunk, err := parseHunk(text)
		if err != nil {
			return r.fail("%w", err)
		}
		if r.hunks++; r.hunks > maxHunks {
			return r.fail("more than %d hunks", maxHunks)
		}
		from, to := hunk.OldStart, hunk.NewStart
		if hunk.OldLines > 0 {
			from--
		}
		if hunk.NewLines > 0 {
			to--
		}
		if from < old || to < new || from-old != to-new {
			return r.fail("hunks are out of order")
		}
		old, new = from+hunk.OldLines, to+hunk.NewLines
		if (h.added && old > 0) || (h.deleted && new > 0) {
			return r.fail("an absent file has lines")
		}
		if err := r.body(&hunk); err != nil {
			return err
		}
		f.Added += hunk.Added
		f.Deleted += hunk.Deleted
		f.Hunks = append(f.Hunks, hunk)
	}
	if len(f.Hunks) == 0 {
		return r.fail("there is no hunk")
	}
	return nil
}

// parseHunk reads "1,2 +3,4 @@" and maybe a heading.
func parseHunk(s string) (Hunk, error) {
	var h Hunk
	ranges, _, ok := strings.Cut(s, " @@")
	a, b, ok2 := strings.Cut(ranges, " +")
	if !ok || !ok2 {
		return h, fmt.Errorf("%.80q is no hunk", s)
	}
	var err error
	if h.OldStart, h.OldLines, err = parseRange(a); err == nil {
		h.NewStart, h.NewLines, err = parseRange(b)
	}
	if err == nil && h.OldLines+h.NewLines == 0 {
		err = errors.New("a hunk is empty")
	}
	return h, err
}

func parseRange(s string) (start, n int, err error) {
	a, b, both := strings.Cut(s, ",")
	n = 1
	if start, err = number(a); err == nil && both {
		n, err = number(b)
	}
	if err == nil && n > 0 && start == 0 {
		err = errors.New("a hunk begins before the first line")
	}
	return start, n, err
}

// number reads digits as git writes them.
func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxCount || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("%.80q is no number", s)
	}
	return n, nil
}

const noNewline = `\ No newline at end of file`

// body reads exactly the lines that a hunk announced.
func (r *reader) body(h *Hunk) error {
	start := r.rest
	old, new := h.OldLines, h.NewLines
	marked := true // the line before cannot get a mark
	for old > 0 || new > 0 || strings.HasPrefix(r.rest, `\`) {
		line, err := r.next()
		if err != nil {
			return err
		}
		sign := byte(0)
		if line != "" {
			sign = line[0]
		}
		switch sign {
		case ' ':
			old, new = old-1, new-1
		case '-':
			old--
			h.Deleted++
		case '+':
			new--
			h.Added++
		case '\\':
			if line != noNewline || marked {
				return r.fail("%.80q is no line of a hunk", line)
			}
		default:
			return r.fail("%.80q is no line of a hunk", line)
		}
		marked = sign == '\\'
		if old < 0 || new < 0 {
			return r.fail("a hunk has more lines than it says")
		}
	}
	h.Body = start[:len(start)-len(r.rest)]
	return nil
}
