package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// FuzzReadReply: whatever tools write to the private descriptor is one message
// within bounds, or an error; what follows it is not touched, how its bytes
// arrive does not matter, and a reason holds nothing that moves a terminal.
func FuzzReadReply(f *testing.F) {
	message := func(body string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	for _, body := range []string{
		`{"id":1,"text":"a","printed":"b"}`, `{"id":1,"error":"x"}`, `{"id":1,"skip":"\u001b[2J"}`, `{"id":1} `, `{"id":1}{"id":2}`,
		`{"id":-1}`, `{"ID":1}`, `{"id":1,"ID":2}`, `{"id":1e0}`, `{"id":18446744073709551616}`, `{"more":1}`, `[]`, `null`, ``, `{"error":null}`,
	} {
		f.Add(append(message(body), "rest"...))
	}
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		got, err := readReply(r)
		slow, slowErr := readReply(iotest.OneByteReader(bytes.NewReader(b)))
		if (err == nil) != (slowErr == nil) {
			t.Fatalf("%v at once, %v byte by byte", err, slowErr)
		}
		if err != nil {
			return
		}
		if n := 4 + int(binary.BigEndian.Uint32(b)); len(b)-r.Len() != n {
			t.Errorf("it read %d bytes of a message of %d", len(b)-r.Len(), n)
		}
		x, _ := json.Marshal(got)
		y, _ := json.Marshal(slow)
		if !bytes.Equal(x, y) {
			t.Errorf("%s at once, %s byte by byte", x, y)
		}
		for _, c := range got.Skip {
			if c < ' ' || c == utf8.RuneError || c == 0x202e {
				t.Errorf("a reason holds %q: %q", c, got.Skip)
			}
		}
		if again, err := readReply(bytes.NewReader(message(string(x)))); err != nil || again.ID != got.ID || again.Text != got.Text {
			t.Errorf("%s is read as %+v, %v", x, again, err)
		}
	})
}
