// Package stricttoml decodes TOML the way a contract wants it read: a key that
// the target does not have, or has in another case, is an error that names the
// key and its line. The toml library alone matches keys case-insensitively.
package stricttoml

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
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
	md, err := toml.Decode(text, &raw)
	if err != nil {
		return parseError(name, err)
	}
	for _, key := range md.Keys() {
		if known, hint := lookUp(reflect.TypeOf(v), key); !known {
			problem := fmt.Sprintf("unknown key %q", key.String())
			if hint != "" {
				problem += fmt.Sprintf(" (keys are case-sensitive: did you mean %q?)", hint)
			}
			return &Error{Name: name, Line: lineOf(text, key), Problem: problem}
		}
	}
	if md, err = toml.Decode(text, v); err != nil {
		return parseError(name, err)
	}
	if left := md.Undecoded(); len(left) > 0 {
		return &Error{Name: name, Line: lineOf(text, left[0]), Problem: fmt.Sprintf("unknown key %q", left[0].String())}
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

// lookUp walks key through the tags of t. A map takes any key. hint is the
// spelling that would have been right but for its case.
func lookUp(t reflect.Type, key toml.Key) (known bool, hint string) {
	for _, part := range key {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			next := reflect.Type(nil)
			for f := range t.Fields() {
				tag, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
				if tag == part && tag != "" && tag != "-" {
					next = f.Type
				} else if strings.EqualFold(tag, part) {
					hint = tag
				}
			}
			if next == nil {
				return false, hint
			}
			t = next
		case reflect.Interface:
			return true, ""
		default:
			return false, ""
		}
	}
	return true, ""
}

// lineOf finds where key is first defined: the shortest run of whole lines
// that parses and defines it ends with its value, which begins after the run
// of lines that parsed before.
func lineOf(text string, key toml.Key) int {
	lines := strings.SplitAfter(text, "\n")
	parsed := 0
	for n := 1; n <= len(lines); n++ {
		var raw map[string]any
		md, err := toml.Decode(strings.Join(lines[:n], ""), &raw)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(md.Keys(), func(k toml.Key) bool { return slices.Equal(k, key) }) {
			for i := parsed; i < n; i++ {
				if l := strings.TrimSpace(lines[i]); l != "" && l[0] != '#' {
					return i + 1
				}
			}
			return n
		}
		parsed = n
	}
	return 0
}
