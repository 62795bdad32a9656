package testreport

import (
	"encoding/json"
	"io"
)

// parseGo reads the events of go test -json. An id is the package's import
// path, a dot and the test's name with its subtests; the name alone is found
// too. Lines that are no events, as builds print them, are passed over. A test
// that began and did not end is missing.
func parseGo(in io.Reader) (*Report, error) {
	r := newReport()
	events := 0
	ran := map[string]bool{} // packages with a result of a test
	failed := map[string]bool{}
	err := lines(in, r, func(line []byte) {
		var e struct{ Action, Package, Test string }
		if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Action == "" {
			return
		}
		events++
		status := map[string]Status{"pass": Passed, "fail": Failed, "skip": Skipped}[e.Action]
		switch {
		case status == Missing || e.Package == "":
		case e.Test != "":
			ran[e.Package] = true
			r.add(e.Package+"."+e.Test, e.Test, status)
		case status == Failed:
			failed[e.Package] = true
		}
	})
	if err != nil {
		return nil, err
	}
	if events == 0 {
		return nil, ErrNoReport
	}
	for p := range failed {
		if !ran[p] {
			r.fault(p)
			r.build = true
		}
	}
	return r, nil
}
