package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxDepth bounds how deep objects and lists may lie in each other.
const maxDepth = 32

// plainJSON turns JSON with comments into JSON: // and /* */ comments become
// spaces, and so do commas before a closing bracket. Lines and offsets stay.
func plainJSON(b []byte) ([]byte, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	out := bytes.Clone(b)
	depth, comma := 0, -1 // comma is the offset of one that may turn out to be trailing
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			end := stringEnd(b, i)
			if end < 0 {
				return nil, fmt.Errorf("line %d: a string does not end", lineOf(b, i))
			}
			i, comma = end, -1
		case c == '/' && i+1 < len(b) && (b[i+1] == '/' || b[i+1] == '*'):
			end := commentEnd(b, i)
			if end < 0 {
				return nil, fmt.Errorf("line %d: a comment does not end", lineOf(b, i))
			}
			blank(out[i:end])
			i = end - 1
		case c == ',':
			comma = i
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return nil, fmt.Errorf("line %d: more than %d levels", lineOf(b, i), maxDepth)
			}
			comma = -1
		case c == '}' || c == ']':
			depth--
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return out, nil
}

// stringEnd is the offset of the quote that ends the string at i, or -1.
func stringEnd(b []byte, i int) int {
	for j := i + 1; j < len(b); j++ {
		switch b[j] {
		case '\\':
			j++
		case '"':
			return j
		case '\n':
			return -1
		}
	}
	return -1
}

// commentEnd is the offset after the comment at i, or -1.
func commentEnd(b []byte, i int) int {
	if b[i+1] == '/' {
		if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
			return i + n
		}
		return len(b)
	}
	if n := bytes.Index(b[i+2:], []byte("*/")); n >= 0 {
		return i + 2 + n + 2
	}
	return -1
}

func blank(b []byte) {
	for i := range b {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
}

func lineOf(b []byte, i int) int { return 1 + bytes.Count(b[:i], []byte("\n")) }

// A member is one name and value of an object.
type member struct {
	name  string
	value json.RawMessage
}

// members reads an object whose names differ, in the order in which they are
// written.
func members(b []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(errors.New("it is not an object"), notEOF(err))
	}
	var all []member
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: t.(string)} // the decoder lets nothing else stand here
		if seen[m.name] {
			return nil, fmt.Errorf("%q is there twice", m.name)
		}
		seen[m.name] = true
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return all, nil
}

func notEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
