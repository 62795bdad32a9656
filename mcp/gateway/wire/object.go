package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Strict reports why b is not one JSON value that all parsers read alike: text
// that is not UTF-8, a key that occurs twice in one object, or nesting that is
// too deep.
func Strict(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("it is not UTF-8")
	}
	if !json.Valid(b) {
		var v json.RawMessage
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		return errors.New("it is not JSON")
	}
	_, err := unique(b, space(b, 0), 0)
	return err
}

// unique looks for a key that occurs twice in the value at b[i], and gives where
// the value ends. open is how many values are around it. b is valid JSON, here
// and in all that follows.
func unique(b []byte, i, open int) (end int, err error) {
	isObject := b[i] == '{'
	if !isObject && b[i] != '[' {
		return skip(b, i), nil
	}
	if open == maxDepth {
		return 0, fmt.Errorf("it nests deeper than %d levels", maxDepth)
	}
	var keys names
	for i = space(b, i+1); b[i] != '}' && b[i] != ']'; {
		if isObject {
			end := quoted(b, i)
			if key := unquote(b[i:end]); !keys.add(key) {
				return 0, fmt.Errorf("the key %s occurs twice", strconv.Quote(string(key[:min(len(key), 64)])))
			}
			i = space(b, space(b, end)+1) // over the colon
		}
		if i, err = unique(b, i, open+1); err != nil {
			return 0, err
		}
		if i = space(b, i); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	return i + 1, nil
}

// names are the keys of one object: a list while they are few.
type names struct {
	few  [8][]byte
	n    int
	many map[string]bool
}

// add reports whether the name is new.
func (s *names) add(name []byte) bool {
	if s.many != nil {
		known := s.many[string(name)]
		s.many[string(name)] = true
		return !known
	}
	for _, other := range s.few[:s.n] {
		if bytes.Equal(other, name) {
			return false
		}
	}
	if s.n == len(s.few) {
		s.many = map[string]bool{string(name): true}
		for _, other := range s.few {
			s.many[string(other)] = true
		}
		return true
	}
	s.few[s.n] = name
	s.n++
	return true
}

// An object is the members of a JSON object in their order, values as they
// were sent.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

// members reads an object that Strict has passed; not ok is another value.
func members(b []byte) (o object, ok bool) {
	i := space(b, 0)
	if i == len(b) || b[i] != '{' {
		return nil, false
	}
	for i = space(b, i+1); b[i] != '}'; {
		end := quoted(b, i)
		name := string(unquote(b[i:end]))
		i = space(b, space(b, end)+1)
		end = skip(b, i)
		o = append(o, member{name, b[i:end:end]})
		if i = space(b, end); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	return o, true
}

// get is the value of a member, nil if it is not there.
func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// String reads a JSON string; not ok is anything else.
func String(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return string(unquote(raw)), true
}

// unquote is what a quoted text means.
func unquote(b []byte) []byte {
	if bytes.IndexByte(b, '\\') < 0 {
		return b[1 : len(b)-1]
	}
	var s string
	if json.Unmarshal(b, &s) != nil { // it is valid
		return b
	}
	return []byte(s)
}

// skip gives where the value at b[i] ends.
func skip(b []byte, i int) int {
	for open := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = quoted(b, i)
		case '{', '[':
			open++
			i++
			continue
		case '}', ']':
			open--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
			continue
		default: // a number or a word
			for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
				i++
			}
		}
		if open == 0 {
			return i
		}
	}
	return i
}

// quoted gives where the string at b[i] ends.
func quoted(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// space gives where white space at b[i] ends.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}
