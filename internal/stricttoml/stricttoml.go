// Package stricttoml decodes TOML the way a contract wants it read: a key that
// the target does not have, or has in another case, is an error that names the
// key and its line. The toml library alone matches keys case-insensitively.
package stricttoml

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// MaxSize is the largest document that Decode reads, in bytes.
const MaxSize = 1 << 20

// An Error is a refusal of one document; Line counts from 1 and is 0 when it
// is not known.
type Error struct {
	Name    string // of the document, as the user knows it
	Line    int
	Problem string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Name, e.Problem)
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Problem)
}

// Decode reads data into v, a pointer to a struct whose fields all carry a
// `toml` tag. Every error is an *Error.
func Decode(name string, data []byte, v any) error {
	if len(data) > MaxSize {
		return &Error{Name: name, Problem: fmt.Sprintf("larger than %d bytes", MaxSize)}
	}
	text := string(data)
	// The keys are looked at before the values, so that a misspelt key is
	// reported as such and not as a type error of its namesake.
	var raw map[string]any
	if _, err := toml.Decode(text, &raw); err != nil {
		return parseError(name, err)
	}
	c := &checker{name: name, positions: Locate(data)}
	if err := c.check(raw, reflect.TypeOf(v), nil); err != nil {
		return err
	}
	if _, err := toml.Decode(text, v); err != nil {
		return parseError(name, err)
	}
	return nil
}

func parseError(name string, err error) error {
	var p toml.ParseError
	if errors.As(err, &p) {
		message := p.Message
		if message == "" {
			message = p.Error()
		}
		if p.LastKey != "" && !strings.Contains(message, p.LastKey) {
			message = p.LastKey + ": " + message
		}
		return &Error{Name: name, Line: p.Position.Line, Problem: message}
	}
	return &Error{Name: name, Problem: strings.TrimPrefix(err.Error(), "toml: ")}
}

// A checker holds a document against the type it is for, and so reports keys
// and types with the line of the very element that is wrong.
type checker struct {
	name      string
	positions Positions
}

var unmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

func (c *checker) check(v any, t reflect.Type, path []any) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	want := ""
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		table, ok := v.(map[string]any)
		if !ok {
			want = "a table"
			break
		}
		for _, key := range c.inOrder(table, path) {
			at := append(slices.Clip(path), key)
			element, hint := fieldOf(t, key)
			if element == nil {
				problem := fmt.Sprintf("unknown key %q", dotted(at))
				if hint != "" {
					problem += fmt.Sprintf(" (keys are case-sensitive: did you mean %q?)", hint)
				}
				return c.errorAt(at, problem)
			}
			if err := c.check(table[key], element, at); err != nil {
				return err
			}
		}
	case reflect.Slice:
		list := reflect.ValueOf(v) // []any, or []map[string]any for an array of tables
		if list.Kind() != reflect.Slice {
			want = "a list"
			break
		}
		for i := range list.Len() {
			if err := c.check(list.Index(i).Interface(), t.Elem(), append(slices.Clip(path), i)); err != nil {
				return err
			}
		}
	case reflect.String:
		if _, ok := v.(string); !ok {
			want = "a string"
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			want = "true or false"
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n, ok := v.(int64); !ok || t.OverflowInt(n) {
			want = "an integer of " + strconv.Itoa(t.Bits()) + " bits"
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n, ok := v.(int64); !ok || n < 0 || t.OverflowUint(uint64(n)) {
			want = "an integer from 0 to " + strconv.FormatUint(1<<t.Bits()-1, 10)
		}
	}
	if want != "" {
		return c.errorAt(path, fmt.Sprintf("%s is not %s", dotted(path), want))
	}
	return nil
}

func (c *checker) errorAt(path []any, problem string) error {
	return &Error{Name: c.name, Line: c.positions.Line(path...), Problem: problem}
}

// inOrder lists the keys of a table as they stand in the document.
func (c *checker) inOrder(table map[string]any, path []any) []string {
	return slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		at := slices.Clip(path)
		return cmp.Or(cmp.Compare(c.positions.Line(append(at, a)...), c.positions.Line(append(at, b)...)), cmp.Compare(a, b))
	})
}

// fieldOf is the type of what key names in t, nil if nothing; hint is the
// spelling that would have been right but for its case. A map takes any key.
func fieldOf(t reflect.Type, key string) (element reflect.Type, hint string) {
	if t.Kind() == reflect.Map {
		return t.Elem(), ""
	}
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		switch {
		case tag == "" || tag == "-":
		case tag == key:
			return f.Type, ""
		case strings.EqualFold(tag, key):
			hint = tag
		}
	}
	return nil, hint
}

// dotted is a path as TOML writes it, without the numbers of elements.
func dotted(path []any) string {
	var key toml.Key
	for _, part := range path {
		if k, ok := part.(string); ok {
			key = append(key, k)
		}
	}
	return key.String()
}
