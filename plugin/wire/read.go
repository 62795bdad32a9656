package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxOutput is how many bytes a plugin may write in all.
const MaxOutput = 8 << 20

// ReadResponse takes the first JSON object off a plugin's stdout: white space,
// then from "{" to the brace that closes it. What follows is read to the end
// and thrown away, since a plugin that cannot write on would never exit. Its
// errors are Faults; after one of them r has not been read to its end.
func ReadResponse(r io.Reader) ([]byte, error) {
	limited := &io.LimitedReader{R: r, N: MaxOutput + 1}
	in := bufio.NewReader(limited)
	var out bytes.Buffer
	depth, quoted, escaped := 0, false, false
read:
	for {
		c, err := in.ReadByte()
		if limited.N == 0 {
			return nil, Faultf(ErrOutputCap, "the plugin wrote more than %d bytes", MaxOutput)
		}
		switch {
		case errors.Is(err, io.EOF) && out.Len() == 0:
			return nil, Faultf(ErrNoResponse, "the plugin answered nothing")
		case errors.Is(err, io.EOF):
			return nil, Faultf(ErrDecode, "the plugin's answer ends in its middle")
		case err != nil:
			return nil, Faultf(ErrTransport, "read the plugin's answer: %v", err)
		}
		if out.Len() == 0 {
			switch c {
			case ' ', '\t', '\r', '\n':
				continue
			case '{':
			default:
				return nil, Faultf(ErrDecode, "the plugin's stdout begins with %q where a JSON object must", c)
			}
		}
		out.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth == 0 {
			break read
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, Faultf(ErrTransport, "read on after the plugin's answer: %v", err)
	}
	if limited.N == 0 {
		return nil, Faultf(ErrOutputCap, "the plugin wrote more than %d bytes", MaxOutput)
	}
	return out.Bytes(), nil
}
