package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// An object is a JSON object with its keys in order.
type object struct {
	keys   []string
	values map[string]any // object, []any, string, json.Number, bool or nil
}

func (o object) has(key string) bool { _, ok := o.values[key]; return ok }

const maxJSONDepth = 100

// strictJSON reads one JSON text. A key twice in one object, anything after
// the text, and a text deeper than maxJSONDepth are errors; an error holds the
// line and no value.
func strictJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := jsonValue(d, 0)
	if err == nil {
		if _, after := d.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("something stands after its end")
		}
	}
	if err != nil {
		line := 1 + bytes.Count(data[:min(int(d.InputOffset()), len(data))], []byte("\n"))
		return nil, fmt.Errorf("line %d: %w", line, err)
	}
	return v, nil
}

var errNoJSON = errors.New("this is not JSON")

func jsonValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, errNoJSON
	}
	delim, ok := token.(json.Delim)
	switch {
	case !ok:
		return token, nil
	case depth >= maxJSONDepth:
		return nil, fmt.Errorf("it is nested more than %d deep", maxJSONDepth)
	case delim == '[':
		list := []any{}
		for d.More() {
			v, err := jsonValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, closed(d)
	}
	o := object{values: map[string]any{}}
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, errNoJSON
		}
		if o.has(key) {
			return nil, fmt.Errorf("the key %q stands there twice", shownKey(key))
		}
		v, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		o.keys = append(o.keys, key)
		o.values[key] = v
	}
	return o, closed(d)
}

func closed(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return errNoJSON
	}
	return nil
}

// plainJSON replaces the comments of a JSON text by blanks, and takes away
// commas before a closing bracket, both of which editors let people write.
// Lines stay where they are.
func plainJSON(data []byte) []byte {
	out := bytes.Clone(bytes.TrimPrefix(data, []byte("\ufeff")))
	comma := -1
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			stop := commentEnd(out, i)
			for ; i < stop; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
			i--
		case c == ',':
			comma = i
		case c == ']' || c == '}':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
	}
	return out
}

// commentEnd is where the comment that begins at i ends.
func commentEnd(data []byte, i int) int {
	mark := []byte("\n")
	if data[i+1] == '*' {
		mark = []byte("*/")
	}
	n := bytes.Index(data[i+2:], mark)
	if n < 0 {
		return len(data)
	}
	return i + 2 + n + len(mark)
}
