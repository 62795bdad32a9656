package task

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// readLines reads JSONL: one object a line. A last line that has no end and
// stops in the middle of its object is what a crash leaves: it is dropped with
// a warning. Any other malformed line is a problem.
func readLines(name string, r io.Reader) (Input, []Problem) {
	b := newBuilder(name, official)
	in := bufio.NewReaderSize(r, 64<<10)
	skipMark(in)
	for n := 1; ; n++ {
		line, tooLong, err := readLine(in)
		ended := err == nil
		switch {
		case tooLong:
			b.problems.add(at(name, n), "the line is longer than %d MiB", MaxRecord>>20)
		case len(bytes.TrimSpace(line)) == 0:
		case !ended && torn(line):
			b.warnings.add(at(name, n), "the last line is cut off: it is left out")
		default:
			if !b.object(line, n) {
				return b.input()
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				b.problems.add(at(name, n), "%v", err)
			}
			return b.input()
		}
	}
}

// readLine reads up to a line feed, which it drops. Of a line that is too long
// nothing is kept.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if !tooLong {
			line = append(line, piece...)
		}
		if len(line) > MaxRecord+1 {
			line, tooLong = nil, true
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return line, tooLong, err
		default:
			return bytes.TrimSuffix(line, []byte("\n")), tooLong, nil
		}
	}
}

// torn tells whether JSON stops in the middle, and is no other kind of wrong.
func torn(b []byte) bool {
	var raw json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(b)).Decode(&raw), io.ErrUnexpectedEOF)
}

// skipMark passes over a byte order mark.
func skipMark(in *bufio.Reader) {
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
}

// object takes one JSON object. It is false when there are too many.
func (b *builder) object(raw []byte, line int) bool {
	where := at(b.name, line)
	if !utf8.Valid(raw) {
		b.problems.add(where, "the task is not UTF-8")
		return true
	}
	r := record{line: line}
	err := members(raw, b.words.parts, func(key string, v value, fault error) {
		if fault != nil {
			b.problems.add(where, "%s %v", key, fault)
		}
		r.set(key, v)
	})
	if err != nil {
		b.problems.add(where, "%v", err)
		return true
	}
	return b.add(r)
}

// members reads one object, each key once and nothing behind it, and calls do
// with what is not null. Values of keys that are not known are passed over.
func members(raw []byte, known map[string]part, do func(key string, v value, fault error)) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	open, err := d.Token()
	if err != nil {
		return jsonError(err)
	}
	if open != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return jsonError(err)
		}
		key, _ := token.(string)
		if seen[key] {
			return fmt.Errorf("the key %s is there twice", quote(key))
		}
		seen[key] = true
		if _, ok := known[key]; !ok {
			var skipped skip
			if err := d.Decode(&skipped); err != nil {
				return jsonError(err)
			}
			if !skipped.null {
				do(key, value{}, nil)
			}
			continue
		}
		if err := jsonValue(d, key, do); err != nil {
			return jsonError(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON object")
	}
	return nil
}

// A skip is a value of which only that it is not null is kept.
type skip struct{ null bool }

// UnmarshalJSON implements json.Unmarshaler.
func (s *skip) UnmarshalJSON(b []byte) error {
	s.null = len(b) == 4 && b[0] == 'n'
	return nil
}

var (
	errNoText = errors.New("is neither a text nor a list of texts")
	errNoList = errors.New("is not a list of texts")
)

// jsonValue reads a text or a list of texts. What is well-formed and neither is
// passed over and reported through do.
func jsonValue(d *json.Decoder, key string, do func(key string, v value, fault error)) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case nil:
		return nil
	case string:
		do(key, value{text: token}, nil)
		return nil
	case json.Delim:
		list, flat, err := rest(d)
		switch {
		case err != nil:
			return err
		case token != '[':
			do(key, value{bad: true}, errNoText)
		case !flat:
			do(key, value{bad: true}, errNoList)
		default:
			do(key, value{list: list, isList: true}, nil)
		}
		return nil
	}
	do(key, value{bad: true}, errNoText)
	return nil
}

const maxNesting = 1000

// rest reads up to the end of a list or an object that is open. flat tells
// that there were only texts in it.
func rest(d *json.Decoder) (list []string, flat bool, err error) {
	list, flat = []string{}, true
	for depth := 1; depth > 0; {
		token, err := d.Token()
		if err != nil {
			return nil, false, err
		}
		if depth > maxNesting {
			return nil, false, fmt.Errorf("lists in lists, more than %d deep", maxNesting)
		}
		switch token := token.(type) {
		case string:
			list = append(list, token)
		case json.Delim:
			if token == '[' || token == '{' {
				depth, flat = depth+1, false
			} else {
				depth--
			}
		default:
			flat = false
		}
	}
	return list, flat, nil
}

func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON stops in the middle")
	}
	return fmt.Errorf("malformed JSON: %w", err)
}

// textList reads a JSON list of texts, where null is not one.
func textList(raw json.RawMessage) ([]string, error) {
	var list []*string
	if err := json.Unmarshal(raw, &list); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, jsonError(err)
		}
		return nil, errNoList
	}
	if list == nil {
		return nil, errNoList
	}
	out := make([]string, len(list))
	for i, s := range list {
		if s == nil {
			return nil, errNoList
		}
		out[i] = *s
	}
	return out, nil
}

// readArray reads a JSON list of objects, or objects one after the other,
// one at a time.
func readArray(name string, r io.Reader) (Input, []Problem) {
	b := newBuilder(name, official)
	s := &splitter{in: bufio.NewReaderSize(r, 64<<10), line: 1}
	skipMark(s.in)
	if err := s.open(); err != nil {
		b.problems.add(at(name, s.line), "%v", err)
		return b.input()
	}
	for {
		raw, line, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return b.input()
		case errors.Is(err, errTooLarge):
			b.problems.add(at(name, line), "the task is larger than %d MiB", MaxRecord>>20)
		case err != nil:
			b.problems.add(at(name, s.line), "%v", err)
			return b.input()
		default:
			if !b.object(raw, line) {
				return b.input()
			}
		}
	}
}
