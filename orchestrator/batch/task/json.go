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
	pairs, err := members(raw)
	if err != nil {
		b.problems.add(where, "%v", err)
		return true
	}
	r := record{line: line}
	for _, m := range pairs {
		if bytes.Equal(m.raw, []byte("null")) {
			continue
		}
		if _, known := b.words.parts[m.key]; !known {
			r.set(m.key, value{})
			continue
		}
		v, err := jsonValue(m.raw)
		if err != nil {
			b.problems.add(where, "%s %v", m.key, err)
			v = value{bad: true}
		}
		r.set(m.key, v)
	}
	return b.add(r)
}

type member struct {
	key string
	raw json.RawMessage
}

// members reads one object, in order, each key once and nothing behind it.
func members(raw []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	open, err := d.Token()
	if err != nil {
		return nil, jsonError(err)
	}
	if open != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var out []member
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, jsonError(err)
		}
		key, _ := token.(string)
		if seen[key] {
			return nil, fmt.Errorf("the key %s is there twice", quote(key))
		}
		seen[key] = true
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, jsonError(err)
		}
		out = append(out, member{key, v})
	}
	if _, err := d.Token(); err != nil {
		return nil, jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON object")
	}
	return out, nil
}

func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON stops in the middle")
	}
	return fmt.Errorf("malformed JSON: %w", err)
}

func jsonValue(raw json.RawMessage) (value, error) {
	switch raw[0] {
	case '"':
		var v value
		if err := json.Unmarshal(raw, &v.text); err != nil {
			return v, jsonError(err)
		}
		return v, nil
	case '[':
		list, err := textList(raw)
		return value{list: list, isList: true}, err
	}
	return value{}, errors.New("is neither a text nor a list of texts")
}

// textList reads a JSON list of texts, where null is not one.
func textList(raw json.RawMessage) ([]string, error) {
	var list []*string
	if err := json.Unmarshal(raw, &list); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, jsonError(err)
		}
		return nil, errors.New("is not a list of texts")
	}
	if list == nil {
		return nil, errors.New("is not a list of texts")
	}
	out := make([]string, len(list))
	for i, s := range list {
		if s == nil {
			return nil, errors.New("is not a list of texts")
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
