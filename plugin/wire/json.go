package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxDepth = 128

// A value is one JSON value: nil, bool, json.Number, string, []value or
// object. Numbers stay as they were written.
type value any

type object map[string]value

var errShape = errors.New("not one well-formed JSON value")

// parse reads exactly one JSON value. Unlike encoding/json it refuses
// repeated keys, text that is not UTF-8, halves of surrogate pairs, and depth
// beyond maxDepth.
func parse(b []byte) (value, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("text that is not UTF-8")
	}
	if tooDeep(b) {
		return nil, errors.New("nesting deeper than " + strconv.Itoa(maxDepth))
	}
	if !json.Valid(b) {
		return nil, errShape
	}
	if halfSurrogate(b) {
		return nil, errors.New("half of a surrogate pair")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := next(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errShape
	}
	return v, nil
}

func next(d *json.Decoder) (value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, errShape
	}
	switch t {
	case json.Delim('['):
		list := []value{}
		for d.More() {
			v, err := next(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Delim('{'):
		o := object{}
		for d.More() {
			t, err := d.Token()
			key, ok := t.(string)
			if err != nil || !ok {
				return nil, errShape
			}
			if _, twice := o[key]; twice {
				return nil, errors.New("the key " + plain(key) + " twice in one object")
			}
			if o[key], err = next(d); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return o, err
	}
	return t, nil
}

// tooDeep needs no valid JSON, so it can guard the parser.
func tooDeep(b []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// halfSurrogate expects valid JSON, in which a backslash occurs in strings only.
func halfSurrogate(b []byte) bool {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		i++
		if b[i] != 'u' {
			continue
		}
		switch u := hex4(b[i+1:]); {
		case u >= 0xdc00 && u < 0xe000:
			return true
		case u >= 0xd800 && u < 0xdc00:
			if rest := b[i+5:]; len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' || hex4(rest[2:]) < 0xdc00 || hex4(rest[2:]) >= 0xe000 {
				return true
			}
			i += 6
		}
		i += 4
	}
	return false
}

func hex4(b []byte) uint64 {
	u, _ := strconv.ParseUint(string(b[:min(4, len(b))]), 16, 32)
	return u
}

// unknown lists the keys of o that are not allowed, sorted, in a form to show.
func (o object) unknown(allowed ...string) string {
	var names []string
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(allowed, k) {
			names = append(names, plain(k))
		}
	}
	return strings.Join(names, ", ")
}

// plain is the name itself when it can be shown as it is, and quoted otherwise.
func plain(name string) string {
	if name != "" && !strings.ContainsAny(name, " ,") && strconv.Quote(name) == `"`+name+`"` {
		return name
	}
	return strconv.Quote(name)
}
