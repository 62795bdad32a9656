package verify

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// observeKnown runs the granted test by the adapter of its runner, and holds
// what is seen against the base. What single tests did is put into told.
func observeKnown(c *wire.Grant, base *Expected, timeout time.Duration, stderr io.Writer, told *Results) (wire.Evidence, string) {
	name, a := recognise(append([]string{c.Test.Program}, c.Test.Args...))
	if name != base.Runner {
		return unobservable(NotRun, "the test is not one of %s, as it was on the base", base.Runner)
	}
	o, reason, text, err := observeTests(a, c.Root, base, timeout, stderr)
	switch {
	case err != nil:
		return unobservable(NotRun, "%v", err)
	case reason != "":
		return unobservable(reason, "%s", text)
	}
	*told = *o.Seen.results(base, maxResultNames)
	found := base.Compare(o.Seen)
	if found.Reason != "" {
		return unobservable(found.Reason, "%s", found.Text)
	}
	code := 0
	if !found.Pass {
		code = max(o.Seen.Code, 1)
		fmt.Fprintf(stderr, "%s\n", wire.Line(found.Text, 2000))
	}
	e, note := flipped(c, code, o.Took)
	e.Measurements[TestsExpected], e.Measurements[TestsPassed] = uint64(base.Count()), uint64(found.Passed)
	return e, note
}

// An observation is what Main says about the base, or about single tests after
// a change.
type observation struct {
	Status   wire.Baseline `json:"status"`
	ExitCode *int          `json:"exit_code,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Expected *Expected     `json:"expected,omitempty"`
	Weak     string        `json:"weak,omitempty"`
	Results  *Results      `json:"results,omitempty"`
	Doubt    string        `json:"doubt,omitempty"`
	Forged   bool          `json:"forged,omitempty"`
}

// answerObservation observes the tests where this process was started.
func answerObservation(test []string, base *Expected, timeout time.Duration, stdout, stderr io.Writer) error {
	name, a := recognise(test)
	if a == nil {
		return errors.New("the runner of the test is not known")
	}
	o := observation{Status: wire.Unobserved, Weak: "the test is not of the runner that it had on the base"}
	switch {
	case base == nil:
		o = observeBase(name, a, timeout, stderr)
	case base.Runner == name:
		o = observeAgain(name, a, base, timeout, stderr)
	}
	out, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = stdout.Write(out)
	return err
}

// weakly is an observation that failed.
func weakly(format string, args ...any) observation {
	return observation{Status: wire.Unobserved, Weak: wire.Line(fmt.Sprintf(format, args...), 400)}
}

// look observes tests where this process was started. There is nothing to see
// where ok is false, and o says why.
func look(name string, a adapter, base *Expected, timeout time.Duration, stderr io.Writer) (seen Seen, o observation, ok bool) {
	dir, err := workDir()
	if err != nil {
		return seen, weakly("%v", err), false
	}
	found, reason, text, err := observeTests(a, dir, base, timeout, stderr)
	switch {
	case err != nil:
		return seen, weakly("%s could not be observed: %v", name, err), false
	case reason == TimedOut:
		return seen, observation{Status: wire.Unobserved, Reason: "the test did not end in its time"}, false
	case reason != "":
		return seen, observation{Status: wire.Unobserved, Reason: text}, false
	}
	return found.Seen, observation{}, true
}

// observeAgain tells what single tests did after a change: of those whose
// hidden test did not fail as it must, nobody is said to have passed.
func observeAgain(name string, a adapter, base *Expected, timeout time.Duration, stderr io.Writer) observation {
	seen, o, ok := look(name, a, base, timeout, stderr)
	if !ok {
		return o
	}
	code := seen.Code
	o = observation{Status: seen.base(), ExitCode: &code}
	o.Doubt, o.Forged = seen.doubt()
	o.Results = seen.results(nil, maxObserved)
	return o
}

func observeBase(name string, a adapter, timeout time.Duration, stderr io.Writer) observation {
	seen, o, ok := look(name, a, nil, timeout, stderr)
	if !ok {
		return o
	}
	expected, why := seen.expected(name)
	if expected == nil {
		return weakly("%s", why)
	}
	status, code := seen.base(), 0
	if status == wire.Failed {
		code = max(seen.Code, 1)
	}
	if status == wire.Passed && expected.Count() == 0 {
		return observation{Status: wire.Unobserved, Reason: "no test ran", ExitCode: &code}
	}
	if len(strings.Join(expected.parts(), "")) > maxParts {
		return observation{Status: status, ExitCode: &code, Weak: "there are too many tests to name each"}
	}
	return observation{Status: status, ExitCode: &code, Expected: expected, Results: seen.results(nil, maxObserved)}
}

// base is what a run on the base says about it.
func (s Seen) base() wire.Baseline {
	failed := s.Extra != ""
	for _, u := range s.Units {
		failed = failed || !u.Canary || u.count(TestFailed) > 0
	}
	if failed {
		return wire.Failed
	}
	return wire.Passed
}

// ReadObservation reads what Main said about the base, or after a change. ok is false when the
// tests have to be run as they are, for the reason in Base.Weak.
func ReadObservation(r sandbox.Result) (base Base, ok bool) {
	var o observation
	d := json.NewDecoder(bytes.NewReader(r.Stdout.Head))
	d.DisallowUnknownFields()
	switch {
	case r.End == sandbox.Deadline:
		return Base{Status: wire.Unobserved, Reason: "the test did not end in its time"}, true
	case !r.OK() || d.Decode(&o) != nil || d.More():
		return Base{Status: wire.Unobserved, Weak: "the tests could not be observed one by one"}, false
	case o.Status != wire.Passed && o.Status != wire.Failed && o.Status != wire.Unobserved:
		return Base{Status: wire.Unobserved, Weak: "the tests could not be observed one by one"}, false
	}
	base = Base{Status: o.Status, ExitCode: o.ExitCode, Reason: o.Reason, Expected: o.Expected, Weak: o.Weak, Results: o.Results, Doubt: o.Doubt, Forged: o.Forged}
	return base, o.Weak == ""
}

const (
	partSize = 64 << 10  // of one argument; the kernel takes 128 KiB
	maxParts = 768 << 10 // of all: the kernel takes 2 MiB with the environment
)

// parts is e as text for a command line, in pieces.
func (e *Expected) parts() []string {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and maps of strings
	}
	text := packed(b)
	var parts []string
	for len(text) > partSize {
		parts, text = append(parts, text[:partSize]), text[partSize:]
	}
	return append(parts, text)
}

// readParts is the inverse of parts; no parts are nil.
func readParts(parts []string) (*Expected, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	packed, err := base64.RawStdEncoding.DecodeString(strings.Join(parts, ""))
	if err != nil {
		return nil, errors.New("--expect-tests is not what --observe said")
	}
	e := &Expected{}
	d := json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxReport))
	d.DisallowUnknownFields()
	if err := d.Decode(e); err != nil || e.Runner == "" {
		return nil, errors.New("--expect-tests is not what --observe said")
	}
	return e, nil
}
