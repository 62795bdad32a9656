// Package bytestring carries byte strings that are usually but not always
// UTF-8 (file names, symlink targets) through JSON without loss.
package bytestring

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// A String is any sequence of bytes. In JSON it is a plain string when it is
// valid UTF-8, and {"base64": "…"} otherwise.
type String string

type encoded struct {
	Base64 *string `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (s String) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(s)) {
		return json.Marshal(string(s))
	}
	b := base64.StdEncoding.EncodeToString([]byte(s))
	return json.Marshal(encoded{Base64: &b})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *String) UnmarshalJSON(b []byte) error {
	if trimmed := bytes.TrimSpace(b); len(trimmed) == 0 || trimmed[0] != '{' {
		var plain string
		if err := json.Unmarshal(b, &plain); err != nil {
			return err
		}
		*s = String(plain)
		return nil
	}
	var e encoded
	if err := json.Unmarshal(b, &e); err != nil {
		return err
	}
	if e.Base64 == nil {
		return fmt.Errorf(`a byte string object needs the key "base64"`)
	}
	raw, err := base64.StdEncoding.DecodeString(*e.Base64)
	if err != nil {
		return fmt.Errorf("base64 byte string: %w", err)
	}
	*s = String(raw)
	return nil
}
