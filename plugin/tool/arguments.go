package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is a SCHEMA that arguments are held against.
type Schema struct{ compiled *jsonschema.Schema }

// schemaURL is what the library calls a SCHEMA in its errors.
const schemaURL = "tool:///SCHEMA"

// noLoader refuses every reference out of a SCHEMA.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %q, which is outside of it", url)
}

// CompileSchema reads a SCHEMA as JSON Schema, draft 2020-12 unless it names
// another. References stay inside it.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	doc, err := decodeBounded(raw, MaxSchema)
	if err != nil {
		return nil, err
	}
	if n := countSchemas(doc); n > maxSchemas {
		return nil, fmt.Errorf("it consists of more than %d schemas", maxSchemas)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("it is no JSON Schema: %w", err)
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		var invalid *jsonschema.SchemaValidationError
		var inner *jsonschema.ValidationError
		if errors.As(err, &invalid) && errors.As(invalid.Err, &inner) {
			return nil, fmt.Errorf("it is no JSON Schema: %s", problems(inner))
		}
		return nil, fmt.Errorf("it is no JSON Schema: %.500s", err)
	}
	if err := checkReferences(compiled); err != nil {
		return nil, err
	}
	return &Schema{compiled}, nil
}

// countSchemas is an upper bound of the schemas in a document.
func countSchemas(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = 1
		for _, e := range v {
			n += countSchemas(e)
		}
	case []any:
		for _, e := range v {
			n += countSchemas(e)
		}
	case bool:
		n = 1
	}
	return n
}

// Check holds the arguments of a call against the schema. No arguments are an
// empty object. It returns what the tool gets; the error names each place that
// does not fit.
func (s *Schema) Check(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	v, err := decodeBounded(raw, MaxArguments)
	if err != nil {
		return nil, fmt.Errorf("the arguments: %w", err)
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, errors.New("the arguments are not a JSON object")
	}
	if weigh(s.compiled, v) > maxSteps {
		return nil, errors.New("the arguments take too long to be held against SCHEMA")
	}
	if err := s.compiled.Validate(v); err != nil {
		var invalid *jsonschema.ValidationError
		if errors.As(err, &invalid) {
			return nil, fmt.Errorf("the arguments do not fit SCHEMA: %s", problems(invalid))
		}
		return nil, fmt.Errorf("the arguments do not fit SCHEMA: %.500s", err)
	}
	return raw, nil
}

// problems lists the places that do not fit, a few of them.
func problems(e *jsonschema.ValidationError) string {
	var list []string
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && len(list) < 100 {
			unit := (&jsonschema.ValidationError{SchemaURL: e.SchemaURL, InstanceLocation: e.InstanceLocation, ErrorKind: e.ErrorKind}).BasicOutput()
			at := "/" + strings.Join(e.InstanceLocation, "/")
			if unit.Error != nil {
				list = append(list, fmt.Sprintf("at %.200s: %.300s", at, unit.Error.String()))
			}
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(e)
	slices.Sort(list)
	list = slices.Compact(list)
	if more := len(list) - 5; more > 0 {
		list = append(list[:5], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}

// decodeBounded decodes one JSON value with its numbers as they stand.
func decodeBounded(raw []byte, size int) (any, error) {
	if len(raw) > size {
		return nil, fmt.Errorf("larger than %d bytes", size)
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	// The depth is looked at before anything is built from it.
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	depth := 0
	for {
		t, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		switch t := t.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
			if depth > maxDepth {
				return nil, fmt.Errorf("nested deeper than %d", maxDepth)
			}
		case json.Number:
			if !reasonable(t) {
				return nil, fmt.Errorf("the number %.20s… is too long", t)
			}
		}
	}
	dec = json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: something follows the value")
	}
	return v, nil
}

// reasonable refuses numbers whose exact value would fill the memory.
func reasonable(n json.Number) bool {
	if len(n) > maxNumber {
		return false
	}
	_, exponent, ok := strings.Cut(strings.ToLower(string(n)), "e")
	return !ok || len(strings.TrimLeft(exponent, "+-0")) <= 3
}
