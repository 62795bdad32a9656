package wire

import (
	"fmt"
	"strings"
	"unicode"
)

// A Kind is the way in which an exchange failed. Kinds are errors, so that
// errors.Is(err, wire.ErrTimeout) asks for one.
type Kind string

func (k Kind) Error() string { return "plugin exchange: " + string(k) }

// The kinds of failure of an exchange.
const (
	ErrEmptyArgv       Kind = "empty-argv"       // there is no program to start
	ErrZeroTimeout     Kind = "zero-timeout"     // the time limit is not positive
	ErrSpawn           Kind = "spawn"            // the program could not be started
	ErrDrift           Kind = "drift"            // the package is not what was loaded
	ErrTransport       Kind = "transport"        // reading from the plugin failed
	ErrTimeout         Kind = "timeout"          // no end within the time limit
	ErrOutputCap       Kind = "output-cap"       // it wrote more than MaxOutput
	ErrExit            Kind = "exit"             // it ended other than with status 0
	ErrEncode          Kind = "encode"           // the request cannot be written as JSON
	ErrNoResponse      Kind = "no-response"      // status 0 and nothing on stdout
	ErrUnannouncedCall Kind = "unannounced-call" // it called the host, which it may not
	ErrDecode          Kind = "decode"           // what it wrote is not a response
	ErrPointMismatch   Kind = "point-mismatch"   // the message is for another point
	ErrProtocolVersion Kind = "protocol-version" // the message is in another version
	ErrUndeclaredRole  Kind = "undeclared-role"  // it chose a role that its manifest lacks
	ErrMistypedSignal  Kind = "mistyped-signal"  // a signal is unknown, or has the wrong type of value
)

// A Fault is a failed exchange. Its text is one line that is safe to show,
// whatever the plugin wrote.
type Fault struct {
	Kind Kind
	Text string
}

// Faultf makes a Fault whose text is formatted as fmt.Sprintf does.
func Faultf(k Kind, format string, args ...any) *Fault {
	return &Fault{Kind: k, Text: Line(fmt.Sprintf(format, args...), 2400)}
}

func (f *Fault) Error() string { return f.Text }
func (f *Fault) Unwrap() error { return f.Kind }

// Line makes one line of s that shows nothing but printable characters, at
// most limit of them.
func Line(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.Join(strings.Fields(s), " ") {
		if n == limit {
			b.WriteString("…")
			break
		}
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			r = '\uFFFD'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}
