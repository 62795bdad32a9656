package task

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// A splitter cuts a JSON list into its elements without reading it whole. It
// knows strings and brackets, and leaves the rest to whoever reads an element:
// so one malformed task does not hide the next.
type splitter struct {
	in    *bufio.Reader
	line  int
	list  bool // in brackets with commas, not one after the other
	begun bool
	done  bool
}

var errTooLarge = errors.New("too large")

// open finds out whether it is a list.
func (s *splitter) open() error {
	c, err := s.space()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("there is nothing in it")
		}
		return err
	}
	if c == '[' {
		s.list = true
		return nil
	}
	if c != '{' {
		return errors.New("it holds neither a JSON list nor JSON objects")
	}
	return s.in.UnreadByte()
}

// space passes over white space and returns what comes after it.
func (s *splitter) space() (byte, error) {
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			s.line++
		case ' ', '\t', '\r':
		default:
			return c, nil
		}
	}
}

// next returns the next element and the line in which it begins; io.EOF after
// the last.
func (s *splitter) next() ([]byte, int, error) {
	if s.done {
		return nil, s.line, io.EOF
	}
	c, err := s.space()
	if err != nil {
		if errors.Is(err, io.EOF) && s.list {
			err = errors.New("the JSON list has no end")
		}
		return nil, s.line, err
	}
	if s.list {
		if c, err = s.separator(c); err != nil {
			return nil, s.line, err
		}
	}
	s.begun = true
	if err := s.in.UnreadByte(); err != nil {
		return nil, s.line, err
	}
	return s.element(c)
}

// separator passes over the comma before an element, or ends the list.
func (s *splitter) separator(c byte) (byte, error) {
	if c == ']' {
		s.done = true
		if _, err := s.space(); !errors.Is(err, io.EOF) {
			return 0, errors.New("there is more after the JSON list")
		}
		return 0, io.EOF
	}
	if !s.begun {
		return c, nil
	}
	if c != ',' {
		return 0, fmt.Errorf("a comma or the end of the list is missing before %q", rune(c))
	}
	c, err := s.space()
	if err != nil || c == ']' {
		return 0, errors.New("there is no task after the comma")
	}
	return c, nil
}

// element reads one value to its end. Of one that is too large nothing is kept.
func (s *splitter) element(first byte) ([]byte, int, error) {
	var buf []byte
	begin, depth, inString, escaped := s.line, 0, false, false
	nested := first == '{' || first == '['
	large := false
	for {
		c, err := s.in.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the JSON stops in the middle")
			}
			return nil, begin, err
		}
		if !nested && !inString && (c == ',' || c == ']' || c == '\n') {
			return buf, begin, s.in.UnreadByte()
		}
		if c == '\n' {
			s.line++
		}
		if buf = append(buf, c); len(buf) > MaxRecord {
			buf, large = nil, true
		}
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if nested && depth <= 0 && !inString {
			if large {
				return nil, begin, errTooLarge
			}
			return buf, begin, nil
		}
	}
}
