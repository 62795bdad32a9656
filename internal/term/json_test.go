package term

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b"}` + "\n":               `{"a":"b"}` + "\n",
		"\"é世\"":                         "\"é世\"",
		"\"a\u202eb\u200c\u009b\u007f\"": `"a\u202eb\u200c\u009b\u007f"`,
		"\"\U000e0041\"":                 `"\udb40\udc41"`,
		"\"\U0001f600\"":                 "\"\U0001f600\"",
	} {
		if got := string(JSON([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// The value is the same, and nothing of it is hidden.
func FuzzJSON(f *testing.F) {
	f.Add("a\u202e\x1b\U000e0041\xff")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "")
		b, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		shown := JSON(b)
		var got map[string]string
		if err := json.Unmarshal(shown, &got); err != nil || !reflect.DeepEqual(got, map[string]string{s: s}) {
			t.Fatalf("%q became %q: %v", b, shown, err)
		}
		for _, r := range string(shown) {
			if hidden(r) {
				t.Errorf("%q shows %q", shown, r)
			}
		}
	})
}
