package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Encode writes the request as one compact line. Names and paths that a plugin
// acts on must be UTF-8; in what is only told (the goal, the turn) other bytes
// become U+FFFD.
func (r Request) Encode() ([]byte, error) {
	var body any
	switch r.Point() {
	case BeforeTurn:
		body = r.Before
		if err := exact(r.Version(), r.Before.Candidate, r.Before.Wrapper, r.Before.Stage); err != nil {
			return nil, err
		}
	case AfterTurn:
		body = r.After
		if err := exact(r.Version(), r.After.Candidate, r.After.Wrapper, r.After.Stage); err != nil {
			return nil, err
		}
	default:
		return nil, Faultf(ErrEncode, "a request is for one point")
	}
	return encode(r.Point(), body)
}

// Encode writes the response as one compact line.
func (r Response) Encode() ([]byte, error) {
	switch r.Point() {
	case BeforeTurn:
		return encode(BeforeTurn, r.Before)
	case AfterTurn:
		if e := r.After.Evidence; r.After.ProtocolVersion != Version2 && (e.Reason != "" || e.Omitted != nil) {
			return nil, Faultf(ErrEncode, "protocol_version %d has no room for a reason or for what was left out", r.After.ProtocolVersion)
		}
		return encode(AfterTurn, r.After)
	}
	return nil, Faultf(ErrEncode, "a response is for one point")
}

func exact(version uint32, g *Grant, texts ...string) error {
	if g != nil {
		texts = append(texts, g.Handle, g.Root)
		if t := g.Test; t != nil {
			texts = append(append(texts, t.Program, t.Cwd), t.Args...)
			for name, value := range t.Env {
				texts = append(texts, name, value)
			}
			if version != Version2 && (t.Env != nil || t.Cwd != "" || t.TimeoutMS != 0) {
				return Faultf(ErrEncode, "protocol_version %d has no room for how the test is run", version)
			}
		}
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return Faultf(ErrEncode, "%q is not UTF-8, so a plugin cannot be told about it", strings.ToValidUTF8(s, "?"))
		}
	}
	return nil
}

func encode(p Point, body any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		Point Point `json:"point"`
		Body  any   `json:"body"`
	}{p, body})
	if err != nil {
		return nil, Faultf(ErrEncode, "encode a message for %s: %v", p, err)
	}
	return b.Bytes(), nil
}
