// Package verify is the built-in plugin that runs a test: a program which
// answers after_turn over the same wire as any other plugin. What it cannot
// say there (version 1 has no room for a reason) is in the last line of its
// stderr, after the test's own output.
package verify

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// The measurements that the plugin reports.
const (
	ExitCode = "test-command-exit-code"
	Duration = "test-duration-ms"

	// Reported beside them where the runner is known.
	TestsExpected = "tests-expected" // tests that the base has
	TestsPassed   = "tests-passed"   // of those, the ones that were seen to pass
)

// DefaultTimeout is how long the test may take if nobody says otherwise.
const DefaultTimeout = 240 * time.Second

// Rule is the plugin's definition of done: for "flip" the test must have
// failed before and pass now; for "pass" it must pass.
func Rule(expect string) judge.Rule {
	pass := judge.Requirement{Name: "tests-pass", Statement: "the test command exits with status 0"}
	flip := judge.Requirement{Name: "tests-flip", Statement: "the test command failed before the change and passes after it"}
	oracle := &judge.Oracle{
		Flip:         judge.FlipRequired,
		Measurements: []string{ExitCode, Duration},
		Checks:       []judge.Check{{Requirement: pass.Name, Text: ExitCode + " <= 0"}},
	}
	if expect == "pass" {
		oracle.Flip = judge.FlipNotApplicable
		return judge.Rule{Requirements: []judge.Requirement{pass}, Oracle: oracle}
	}
	return judge.Rule{Requirements: []judge.Requirement{flip, pass}, Oracle: oracle}
}

// Args are the arguments to give to Main: how long the test may take, and what
// the baseline showed.
func Args(timeout time.Duration, base Base) []string {
	args := []string{"--timeout", timeout.String()}
	if base.Expected != nil {
		for _, part := range base.Expected.parts() {
			args = append(args, "--expect-tests", part)
		}
		return args
	}
	if base.Tests.Known {
		args = append(args, "--baseline-tests", fmt.Sprint(base.Tests.Ran))
	}
	return args
}

// ObserveArgs are the arguments with which Main observes the tests of a command
// in the directory in which it is started: on the base where base is nil, and
// after a change where it is what was seen there.
func ObserveArgs(timeout time.Duration, base *Expected, test []string) []string {
	args := append(Args(timeout, Base{Expected: base}), "--observe", "--")
	return append(args, test...)
}

// A Reason is why the flip is unobservable although a response was given.
type Reason string

const (
	NoTest     Reason = "no-test"      // the request grants no test
	NoRoot     Reason = "no-root"      // the candidate's directory is not there
	NotRun     Reason = "not-runnable" // the program cannot be started
	TimedOut   Reason = "timed-out"    // the test was ended by the time limit
	Killed     Reason = "killed"       // by a signal, such as that of the kernel's memory killer
	NoTests    Reason = "no-tests-ran" // status 0, and the output shows that no test ran
	FewerTests Reason = "fewer-tests"  // status 0, and fewer tests ran than on the base: the evidence could be forged
	NoBaseline Reason = "no-baseline"  // nothing is known about the test before the change
	Forgeable  Reason = "forgeable"    // the run claims success, and its word is not to be trusted
)

// Compromised reports whether the reason says that the evidence could be
// forged.
func (r Reason) Compromised() bool { return r == FewerTests || r == Forgeable }

const notePrefix = "verify: unobservable: "

// NoteOf is a line that Note reads.
func NoteOf(r Reason, text string) string {
	return wire.Line(notePrefix+string(r)+": "+text, 2000)
}

// Note reads the reason off what Main wrote to stderr, and one line about it
// for people. When the flip was observed, Reason is "".
func Note(stderr sandbox.Output) (Reason, string) {
	line := strings.TrimSuffix(string(stderr.Head)+string(stderr.Tail), "\n")
	line = line[strings.LastIndexByte(line, '\n')+1:]
	rest, ok := strings.CutPrefix(line, notePrefix)
	if !ok {
		return "", ""
	}
	reason, text, _ := strings.Cut(rest, ": ")
	return Reason(reason), text
}

// Main reads one request from stdin, runs its test in the candidate's root and
// writes one response to stdout. A request that it does not understand in full
// it refuses: status 1, one line on stderr, nothing on stdout.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := answer(args, stdin, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "verify: %s\n", wire.Line(err.Error(), 2000))
		return 1
	}
	return 0
}

func answer(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	timeout := flags.Duration("timeout", DefaultTimeout, "")
	baseline := flags.Int("baseline-tests", -1, "")
	observes := flags.Bool("observe", false, "")
	var parts []string
	flags.Func("expect-tests", "", func(s string) error { parts = append(parts, s); return nil })
	if err := flags.Parse(args); err != nil {
		return err
	}
	if (flags.NArg() > 0) != *observes || *timeout <= 0 {
		return errors.New("the arguments are [--timeout DURATION] [--baseline-tests N | --expect-tests TESTS…], or [--expect-tests TESTS…] --observe -- TEST…")
	}
	expected, err := readParts(parts)
	if err != nil {
		return err
	}
	if err := shield(); err != nil {
		return err
	}
	if *observes {
		return answerObservation(flags.Args(), expected, *timeout, stdout, stderr)
	}
	b, err := io.ReadAll(io.LimitReader(stdin, wire.MaxOutput+1))
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if len(b) > wire.MaxOutput {
		return fmt.Errorf("the request is longer than %d bytes", wire.MaxOutput)
	}
	request, err := wire.DecodeRequest(b, wire.AfterTurn, wire.Version)
	if err != nil {
		return err
	}
	var told *Results
	if expected != nil {
		told = &Results{}
	}
	evidence, note := observe(request.After.Candidate, before{*baseline, expected, told}, *timeout, stderr)
	response := wire.Response{After: &wire.AfterResponse{ProtocolVersion: wire.Version, Evidence: evidence}}
	out, err := response.Encode()
	if err != nil {
		return err
	}
	if note == "" { // so that the last line is never the test's
		note = "verify: observed: " + string(evidence.Flip)
	}
	if _, err := io.WriteString(stderr, told.line()+wire.Line(note, 2000)+"\n"); err != nil {
		return fmt.Errorf("write the reason: %w", err)
	}
	if _, err := stdout.Write(out); err != nil {
		return fmt.Errorf("write the response: %w", err)
	}
	return nil
}

// before is what is known of the tests before the change.
type before struct {
	ran      int       // how many ran, by their output; negative when that is not known
	expected *Expected // nil when their runner is not known
	told     *Results  // where to put what single tests did; not nil with expected
}

// unobservable is evidence that says nothing, with the note that says why.
func unobservable(r Reason, format string, args ...any) (wire.Evidence, string) {
	return wire.Evidence{Flip: judge.FlipUnobservable}, notePrefix + string(r) + ": " + fmt.Sprintf(format, args...)
}

// observe runs the granted test. The note is empty when the flip was observed.
func observe(c *wire.Grant, known before, timeout time.Duration, stderr io.Writer) (wire.Evidence, string) {
	if c == nil || c.Test == nil {
		return unobservable(NoTest, "there is no test to run")
	}
	if !isDirectory(c.Root) {
		return unobservable(NoRoot, "%s is not a directory", c.Root)
	}
	if known.expected != nil {
		return observeKnown(c, known.expected, timeout, stderr, known.told)
	}
	baseline := known.ran
	ran, err := runTest(c, timeout, stderr)
	if err != nil {
		return unobservable(NotRun, "%v", err)
	}
	if ran.timedOut {
		return unobservable(TimedOut, "the test did not end within %v", timeout)
	}
	if ran.signal != 0 {
		return unobservable(Killed, "the test was killed by signal %d (%v)", int(ran.signal), ran.signal)
	}
	if ran.code == 0 {
		switch least := max(baseline, 1); {
		case ran.tests.None:
			return unobservable(NoTests, "the test exits with status 0, but its output shows that no test ran")
		case baseline >= 0 && !ran.tests.Known:
			return unobservable(FewerTests, "the test exits with status 0, but its output no longer counts the tests as it did before the change")
		case baseline >= 0 && ran.tests.Ran < least:
			return unobservable(FewerTests, "the test exits with status 0, but only %d tests ran, and %d before the change", ran.tests.Ran, baseline)
		}
	}
	return flipped(c, ran.code, ran.took)
}

// flipped is the evidence of a test that ended with a status.
func flipped(c *wire.Grant, code int, took time.Duration) (wire.Evidence, string) {
	e := wire.Evidence{
		Flip: judge.FlipNotAchieved,
		Measurements: map[string]uint64{
			ExitCode: uint64(code),
			Duration: uint64(took.Milliseconds()),
		},
	}
	switch c.Test.Baseline {
	case wire.Failed:
		if code == 0 {
			e.Flip = judge.FlipAchieved
		}
	case wire.Passed:
	default:
		e.Flip = judge.FlipUnobservable
		return e, notePrefix + string(NoBaseline) + ": what the test said before the change is not known"
	}
	return e, ""
}
