package bytestring

import (
	"encoding/json"
	"testing"
)

func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"", "plain", "a\xffb", "\xed\xa0\x80", "\u2028<&>", "{\"base64\":\"\"}", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := json.Marshal(map[string]String{"path": String(s)})
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]String
		if err := json.Unmarshal(b, &back); err != nil || string(back["path"]) != s {
			t.Fatalf("%q became %s and %q (%v)", s, b, back["path"], err)
		}
	})
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, in := range []string{`{}`, `{"base64":"%%"}`, `3`, `{"base64":null}`, `["a"]`} {
		var s String
		if err := json.Unmarshal([]byte(in), &s); err == nil {
			t.Errorf("%s was read as %q", in, s)
		}
	}
}
