package mcp

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// literal writes a value of a setting as TOML.
func literal(v any) string {
	switch v := v.(type) {
	case bool:
		return fmt.Sprint(v)
	case string:
		return quoteTOML(v)
	case []string:
		words := make([]string, len(v))
		for i, w := range v {
			words[i] = quoteTOML(w)
		}
		return "[" + strings.Join(words, ", ") + "]"
	case map[string]string:
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, writtenKey(k)+" = "+quoteTOML(v[k]))
		}
		return "{ " + strings.Join(pairs, ", ") + " }"
	}
	panic(fmt.Sprintf("no setting is a %T", v))
}

// quoteTOML writes a basic string on one line.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || 0x7f <= r && r < 0xa0 || r == '\ufeff':
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// writtenKey writes a key, bare where TOML lets it be.
func writtenKey(k string) string {
	bare := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
	}
	if k != "" && strings.IndexFunc(k, func(r rune) bool { return !bare(r) }) < 0 {
		return k
	}
	return quoteTOML(k)
}

// asRaw is the value of a setting as a parser gives it.
func asRaw(v any) any {
	switch v := v.(type) {
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list
	case map[string]string:
		table := make(map[string]any, len(v))
		for k, s := range v {
			table[k] = s
		}
		return table
	}
	return v
}

// sameRaw compares two parsed values. Unlike reflect.DeepEqual it takes a NaN
// for itself and a time for the same time.
func sameRaw(a, b any) bool {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && (a == b || math.IsNaN(a) && math.IsNaN(b))
	case time.Time:
		b, ok := b.(time.Time)
		return ok && a.Equal(b) && a.Location().String() == b.Location().String()
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameRaw)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameRaw)
	case []map[string]any:
		b, ok := b.([]map[string]any)
		return ok && slices.EqualFunc(a, b, func(x, y map[string]any) bool { return sameRaw(x, y) })
	}
	return reflect.DeepEqual(a, b)
}
