package testreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// parseLines reads one {"test": ID, "status": STATUS} a line, with the words
// of Status. It is our own form, so it is read strictly: a line that is
// anything else makes the whole of it unusable.
func parseLines(in io.Reader) (*Report, error) {
	r := newReport()
	n := 0
	var fault error
	err := lines(in, r, func(line []byte) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 || fault != nil {
			return
		}
		id, status, err := lineResult(line)
		switch {
		case err != nil:
			fault = fmt.Errorf("line %d: %w", n, err)
		default:
			r.add(id, nameOf(id), status)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case fault != nil:
		return nil, fault
	case len(r.Results) == 0:
		return nil, ErrNoReport
	case len(r.Notes) > 0:
		return nil, fmt.Errorf("%s", r.Notes[0])
	}
	return r, nil
}

// lineResult reads one object with exactly our keys, each once and in our
// spelling.
func lineResult(line []byte) (id string, s Status, err error) {
	var pairs map[string]string
	if err := json.Unmarshal(line, &pairs); err != nil {
		return "", Missing, err
	}
	id, s = pairs["test"], Status(pairs["status"])
	if id == "" || s.rank() == 0 || len(pairs) != 2 {
		return "", Missing, errors.New("it needs a test and a status and nothing else; statuses are passed, expected-failure, skipped, failed and error")
	}
	// A repeated key leaves no trace in a map, but more tokens than two pairs
	// and two braces have.
	tokens := 0
	for d := json.NewDecoder(bytes.NewReader(line)); ; tokens++ {
		if _, err := d.Token(); err != nil {
			break
		}
	}
	if tokens != 6 {
		return "", Missing, errors.New("a key is there twice")
	}
	return id, s, nil
}
