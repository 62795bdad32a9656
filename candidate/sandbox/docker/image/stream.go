package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxStream is how much an engine may say about one pull or build.
const maxStream = 64 << 20

// A line is one message of an engine about a pull or a build. See "Pull an
// image" and "Build an image" in the engine's API.
type line struct {
	ID          string `json:"id"`
	Status      string `json:"status"`
	Stream      string `json:"stream"`
	Error       string `json:"error"`
	ErrorDetail *struct {
		Message string `json:"message"`
	} `json:"errorDetail"`
}

func (l line) failure() string {
	if l.ErrorDetail != nil && l.ErrorDetail.Message != "" {
		return l.ErrorDetail.Message
	}
	return l.Error
}

// follow reads an engine's messages up to their end and tells each. An error
// of the engine's is an engineError.
func follow(r io.Reader, told func(line)) error {
	limited := &io.LimitedReader{R: r, N: maxStream}
	d := json.NewDecoder(limited)
	for {
		var l line
		err := d.Decode(&l)
		switch {
		case limited.N <= 0:
			return errors.New("the engine says more than it should")
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read what the engine says: %w", err)
		}
		if f := l.failure(); f != "" {
			return engineError(f)
		}
		told(l)
	}
}

// An engineError is what an engine says went wrong.
type engineError string

func (e engineError) Error() string { return strings.TrimSpace(string(e)) }

// layers counts the layers of a pull.
type layers struct {
	known, done map[string]bool
	said        string
}

// told takes a message and returns what is new for people, or "".
func (l *layers) told(m line) string {
	if l.known == nil {
		l.known, l.done = map[string]bool{}, map[string]bool{}
	}
	switch m.Status {
	case "Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting":
		l.known[m.ID] = true
	case "Already exists", "Pull complete":
		l.known[m.ID], l.done[m.ID] = true, true
	}
	if len(l.known) == 0 || len(l.known) > 1000 {
		return ""
	}
	text := fmt.Sprintf("%d of %d layers", len(l.done), len(l.known))
	if text == l.said {
		return ""
	}
	l.said = text
	return text
}

// steps follows the words of a build.
type steps struct{ tail []string }

// told takes a message and returns the build's next step, or "".
func (s *steps) told(m line) string {
	text := strings.TrimSpace(m.Stream)
	if text == "" {
		return ""
	}
	s.tail = append(s.tail, text)
	s.tail = s.tail[max(0, len(s.tail)-5):]
	if strings.HasPrefix(text, "Step ") {
		return firstLine(text, 120)
	}
	return ""
}

func firstLine(s string, most int) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
