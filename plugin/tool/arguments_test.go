package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	s, err := CompileSchema(json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","maximum":14},"unit":{"enum":["c","f"]}},"required":["city"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		`{"city":"Oslo"}`:                    "",
		`{"city":"Oslo","days":14}`:          "",
		`{"city":"Oslo","days":14.0}`:        "",
		``:                                   "missing property 'city'",
		`{}`:                                 "missing property 'city'",
		`{"city":7}`:                         "at /city",
		`{"city":"Oslo","days":15}`:          "at /days",
		`{"city":"Oslo","unit":"k"}`:         "at /unit",
		`{"city":"Oslo","more":1}`:           "'more'",
		`[]`:                                 "not a JSON object",
		`null`:                               "not a JSON object",
		`{"city":"Oslo"`:                     "not JSON",
		`{"city":"Oslo"} x`:                  "not JSON",
		"{\"city\":\"\xff\"}":                "not UTF-8",
		`{"city":"Oslo","days":1e400000000}`: "too long",
		`{"city":"Oslo","days":` + strings.Repeat("9", 500) + `}`:              "too long",
		`{"city":"` + strings.Repeat("x", MaxArguments) + `"}`:                 "larger than",
		`{"city":` + strings.Repeat(`[`, 1e5) + strings.Repeat(`]`, 1e5) + `}`: "nested deeper",
	} {
		got, err := s.Check(json.RawMessage(raw))
		switch {
		case want == "" && (err != nil || string(got) != raw):
			t.Errorf("%s: %s %v", raw, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.60s: %v, want %s", raw, err, want)
		case err != nil && len(err.Error()) > 4000:
			t.Errorf("%.60s: a refusal of %d bytes", raw, len(err.Error()))
		}
	}
	empty, err := CompileSchema(json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := empty.Check(nil); err != nil || string(got) != "{}" {
		t.Errorf("no arguments: %s %v", got, err)
	}
}

// TestSchemas: what is no JSON Schema, leads out of itself or would never end
// is refused before any call.
func TestSchemas(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"str"}`:                                                 "no JSON Schema: at /type",
		`{"properties":{"a":{"required":true}}}`:                         "at /properties/a/required",
		`{"$ref":"https://example.org/s"}`:                               "outside of it",
		`{"$ref":"file:///etc/passwd"}`:                                  "outside of it",
		`{"$ref":"other.json"}`:                                          "no JSON Schema",
		`{"$schema":"https://example.org/meta"}`:                         "no JSON Schema",
		`{"$ref":"#/nothing"}`:                                           "no JSON Schema",
		`{"$ref":"#"}`:                                                   "leads back to itself",
		`{"anyOf":[{"$ref":"#"}]}`:                                       "leads back to itself",
		`{"properties":{"a":{"not":{"$ref":"#/properties/a"}}}}`:         "leads back to itself",
		`{"$dynamicAnchor":"a","properties":{"b":{"$dynamicRef":"#a"}}}`: "$dynamicRef",
		`{"pattern":"("}`:                                                "no JSON Schema",
		`{"properties":{` + strings.TrimSuffix(strings.Repeat(`"a":{},`, maxSchemas), ",") + `}}`: "",
	} {
		_, err := CompileSchema(json.RawMessage(raw))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s: %v, want %s", raw, err, want)
		}
	}
	many := map[string]any{}
	for i := range maxSchemas {
		many[fmt.Sprint(i)] = map[string]any{}
	}
	b, _ := json.Marshal(map[string]any{"properties": many})
	if _, err := CompileSchema(b); err == nil {
		t.Error("too many schemas were taken")
	}
	for _, good := range []string{
		`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"type":"string"}}}`,
		`{"$id":"https://example.org/mine","$defs":{"node":{"properties":{"next":{"$ref":"#/$defs/node"}}}},"$ref":"#/$defs/node"}`,
	} {
		s, err := CompileSchema(json.RawMessage(good))
		if err != nil {
			t.Errorf("%s: %v", good, err)
			continue
		}
		if _, err := s.Check(json.RawMessage(`{"next":{"next":{}}}`)); err != nil {
			t.Error(err)
		}
	}
}

// TestExponential: references that double at each step are refused by what
// they would cost, and not found out by paying.
func TestExponential(t *testing.T) {
	inPlace, child := map[string]any{}, map[string]any{}
	for i := range 40 {
		next := map[string]any{"$ref": fmt.Sprintf("#/$defs/s%d", i+1)}
		inPlace[fmt.Sprintf("s%d", i)] = map[string]any{"not": map[string]any{"anyOf": []any{next, next}}}
	}
	inPlace["s40"] = map[string]any{"type": "string"}
	self := map[string]any{"$ref": "#/$defs/s"}
	child["s"] = map[string]any{"anyOf": []any{map[string]any{"properties": map[string]any{"x": self}}, map[string]any{"properties": map[string]any{"x": self}, "required": []any{"y"}}}}
	deep := strings.Repeat(`{"x":`, 50) + "1" + strings.Repeat("}", 50)
	for _, defs := range []map[string]any{inPlace, child} {
		first := "s0"
		if _, ok := defs["s"]; ok {
			first = "s"
		}
		b, _ := json.Marshal(map[string]any{"$defs": defs, "$ref": "#/$defs/" + first})
		s, err := CompileSchema(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Check(json.RawMessage(deep)); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%.60s: %v", b, err)
		}
		if first == "s" {
			if _, err := s.Check(json.RawMessage(`{"x":{"x":{}}}`)); err != nil {
				t.Errorf("a small value: %v", err)
			}
		}
	}
}

// TestPatternsAreWeighed: a pattern costs its size for each byte, of a value and
// of a name.
func TestPatternsAreWeighed(t *testing.T) {
	slow := "(a|a?|a*){500}b$"
	args := json.RawMessage(fmt.Sprintf(`{"x":%q}`, strings.Repeat("a", 200_000)))
	long := json.RawMessage(fmt.Sprintf(`{%q:1}`, strings.Repeat("a", 200_000)))
	for schema, given := range map[string]json.RawMessage{
		fmt.Sprintf(`{"properties":{"x":{"pattern":%q}}}`, slow): args,
		fmt.Sprintf(`{"patternProperties":{%q:{}}}`, slow):       long,
	} {
		s, err := CompileSchema(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Check(given); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s: %.200v", schema, err)
		}
	}
	s, err := CompileSchema(json.RawMessage(`{"properties":{"x":{"pattern":"^[a-z0-9_]{1,64}|a+$"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(args); err != nil {
		t.Errorf("an honest pattern: %.200v", err)
	}
}

func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"integer"}}}`), []byte(`{"a":1}`))
	f.Add([]byte(`{"$defs":{"a":{"items":{"$ref":"#/$defs/a"}}},"properties":{"x":{"$ref":"#/$defs/a"}}}`), []byte(`{"x":[[[1]]]}`))
	f.Add([]byte(`{"patternProperties":{"^a+$":{"uniqueItems":true}},"unevaluatedProperties":false}`), []byte(`{"aa":[1,1.0]}`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		s, err := CompileSchema(schema)
		if err != nil {
			return
		}
		out, err := s.Check(args)
		if err == nil && !json.Valid(out) {
			t.Errorf("%q passed as %q", args, out)
		}
	})
}
