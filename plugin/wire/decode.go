package wire

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/judge"
)

// DecodeRequest reads a request as a plugin does that answers the given point
// in the given version; "" and 0 accept any, which leaves the version to the
// caller. Its errors are Faults whose texts are the ones that a plugin
// answers with, after its name.
func DecodeRequest(b []byte, point Point, version uint32) (r Request, err error) {
	defer catch(&err)
	d := &decoder{message: "request", stream: "stdin", point: point, version: version}
	d.wrongPoint = func(got string) {
		d.fail(ErrPointMismatch, "this plugin answers %s only; the host asked for %s", point, got)
	}
	d.wrongVersion = func(got uint32) {
		d.fail(ErrProtocolVersion, "this plugin speaks wrapper protocol_version %d; the host asked for %d", version, got)
	}
	p, body := d.envelope(b)
	if p == BeforeTurn {
		r.Before = d.beforeRequest(body)
	} else {
		r.After = d.afterRequest(body)
	}
	return r, nil
}

// DecodeResponse reads the response to a request for point in version 1. Its
// errors are Faults.
func DecodeResponse(b []byte, point Point) (r Response, err error) {
	return DecodeResponseIn(b, point, Version)
}

// DecodeResponseIn is DecodeResponse for a request in any version that this
// package has: the response must be in the same.
func DecodeResponseIn(b []byte, point Point, version uint32) (r Response, err error) {
	defer catch(&err)
	d := &decoder{message: "response", stream: "stdout", point: point, version: version}
	d.wrongPoint = func(got string) {
		d.fail(ErrPointMismatch, "the plugin was asked at %s and answered for %s", point, got)
	}
	d.wrongVersion = func(got uint32) {
		d.fail(ErrProtocolVersion, "the plugin answers in protocol_version %d; this host speaks %d with it", got, version)
	}
	p, body := d.envelope(b)
	if p == BeforeTurn {
		r.Before = d.beforeResponse(body)
	} else {
		r.After = d.afterResponse(body)
	}
	return r, nil
}

// A decoder walks one message. It gives up by panicking with a *Fault, which
// catch turns into the error.
type decoder struct {
	message, stream string
	point           Point
	version         uint32 // that the message must have; 0 is any
	spoken          uint32 // that it has
	wrongPoint      func(got string)
	wrongVersion    func(got uint32)
}

func catch(err *error) {
	switch f := recover().(type) {
	case nil:
	case *Fault:
		*err = f
	default:
		panic(f)
	}
}

func (d *decoder) fail(k Kind, format string, args ...any) { panic(Faultf(k, format, args...)) }

func (d *decoder) envelope(b []byte) (Point, object) {
	v, err := parse(b)
	if err == errShape {
		d.fail(ErrDecode, "%s was not a single JSON object", d.stream)
	}
	if err != nil {
		d.fail(ErrDecode, "%s was not a single JSON object: it has %v", d.stream, err)
	}
	o, ok := v.(object)
	if !ok {
		d.fail(ErrDecode, "%s was not a single JSON object", d.stream)
	}
	if _, call := o["call"]; call && d.message == "response" && o["point"] == nil {
		d.fail(ErrUnannouncedCall, "the plugin called the host, which it did not ask leave for")
	}
	if o.unknown("point", "body") != "" {
		d.fail(ErrDecode, "the %s envelope carried a field outside {point, body}", d.message)
	}
	name, named := o["point"].(string)
	if p := Point(name); !named || (p != BeforeTurn && p != AfterTurn) || (d.point != "" && p != d.point) {
		got := "no point"
		if named {
			got = strconv.Quote(name)
		}
		if d.point != "" {
			d.wrongPoint(got)
		}
		d.fail(ErrDecode, "the %s names %s; the points are before_turn and after_turn", d.message, got)
	}
	body, ok := o["body"].(object)
	if !ok {
		d.fail(ErrDecode, "the body of the %s is not an object", d.message)
	}
	return Point(name), body
}

// only refuses keys that are not allowed.
func (d *decoder) only(o object, allowed ...string) {
	if names := o.unknown(allowed...); names != "" {
		d.fail(ErrDecode, "the %s denies unknown fields; got %s", d.message, names)
	}
}

func (d *decoder) protocol(o object) uint32 {
	v := d.u32(o, "protocol_version")
	if d.version != 0 && v != d.version {
		d.wrongVersion(v)
	}
	d.spoken = v
	return v
}

// also adds keys of version 2 to those of version 1.
func (d *decoder) also(keys []string, more ...string) []string {
	if d.spoken == Version2 {
		return append(keys, more...)
	}
	return keys
}

func (d *decoder) beforeRequest(o object) *BeforeRequest {
	d.only(o, "protocol_version", "wrapper", "stage", "round", "goal", "candidate", "published")
	return &BeforeRequest{
		ProtocolVersion: d.protocol(o),
		Candidate:       d.grant(o),
		Published:       d.published(o, "published"),
		Wrapper:         d.text(o, "wrapper"),
		Stage:           d.text(o, "stage"),
		Round:           d.u32(o, "round"),
		Goal:            d.text(o, "goal"),
	}
}

func (d *decoder) afterRequest(o object) *AfterRequest {
	d.only(o, "protocol_version", "wrapper", "stage", "round", "goal", "candidate", "turn")
	r := &AfterRequest{ProtocolVersion: d.protocol(o)}
	turn, present := o["turn"].(object)
	if !present {
		d.mistyped(o, "turn", "an object")
	}
	d.only(turn, "completed", "answer", "tools", "changed_files")
	r.Candidate = d.grant(o)
	r.Turn = Turn{
		Completed:    d.boolean(turn, "completed"),
		Answer:       d.optionalText(turn, "answer"),
		Tools:        d.texts(turn, "tools"),
		ChangedFiles: d.texts(turn, "changed_files"),
	}
	r.Wrapper, r.Stage = d.text(o, "wrapper"), d.optionalText(o, "stage")
	r.Round, r.Goal = d.u32(o, "round"), d.text(o, "goal")
	return r
}

func (d *decoder) grant(o object) *Grant {
	c := d.optionalObject(o, "candidate")
	if c == nil {
		return nil
	}
	d.only(c, "handle", "root", "test")
	g := &Grant{Root: d.text(c, "root"), Handle: d.text(c, "handle")}
	if g.Root == "" {
		d.fail(ErrDecode, "the %s has an empty root", d.message)
	}
	t := d.optionalObject(c, "test")
	if t == nil {
		return g
	}
	d.only(t, d.also([]string{"program", "args", "baseline"}, "env", "cwd", "timeout_ms")...)
	g.Test = &TestPlan{Program: d.text(t, "program"), Args: d.texts(t, "args"), Baseline: NotRun}
	if g.Test.Program == "" {
		d.fail(ErrDecode, "the %s has an empty program", d.message)
	}
	if t["baseline"] != nil {
		b := Baseline(d.text(t, "baseline"))
		switch b {
		case NotRun, Passed, Failed, Unobserved:
			g.Test.Baseline = b
		default:
			d.fail(ErrDecode, "TestBaseline is a closed set {not-run, passed, failed, unobserved}; got %q", b)
		}
	}
	if d.spoken == Version2 {
		g.Test.Env, g.Test.Cwd = d.textMap(t, "env"), d.optionalText(t, "cwd")
		if g.Test.Cwd != "" && !filepath.IsLocal(g.Test.Cwd) {
			d.fail(ErrDecode, "the cwd of the test, %q, is not below the root", g.Test.Cwd)
		}
		if t["timeout_ms"] != nil {
			if g.Test.TimeoutMS = d.number(t, "timeout_ms", 64); g.Test.TimeoutMS == 0 {
				d.fail(ErrDecode, "the timeout_ms of the test is 0")
			}
		}
	}
	return g
}

func (d *decoder) beforeResponse(o object) *BeforeResponse {
	d.only(o, "protocol_version", "context", "role", "scope", "publish", "witness")
	r := &BeforeResponse{
		ProtocolVersion: d.protocol(o),
		Role:            d.optionalText(o, "role"),
		Scope:           d.texts(o, "scope"),
		Publish:         d.published(o, "publish"),
		Witness:         d.texts(o, "witness"),
	}
	for _, c := range d.objects(o, "context") {
		d.only(c, "label", "text")
		r.Context = append(r.Context, Context{Label: d.text(c, "label"), Text: d.text(c, "text")})
	}
	return r
}

func (d *decoder) afterResponse(o object) *AfterResponse {
	d.only(o, "protocol_version", "evidence")
	r := &AfterResponse{ProtocolVersion: d.protocol(o)}
	e, ok := o["evidence"].(object)
	if !ok {
		d.mistyped(o, "evidence", "an object")
	}
	d.only(e, d.also([]string{"flip", "measurements"}, "reason", "omitted")...)
	r.Evidence.Flip = judge.Flip(d.text(e, "flip"))
	switch r.Evidence.Flip {
	case judge.FlipNotAttempted, judge.FlipAchieved, judge.FlipNotAchieved, judge.FlipUnsatisfiable, judge.FlipUnobservable:
	default:
		d.fail(ErrDecode, "flip is one of not-attempted, achieved, not-achieved, unsatisfiable, unobservable; got %q", r.Evidence.Flip)
	}
	measurements := d.optionalObject(e, "measurements")
	for _, name := range slices.Sorted(maps.Keys(measurements)) {
		if r.Evidence.Measurements == nil {
			r.Evidence.Measurements = map[string]uint64{}
		}
		r.Evidence.Measurements[name] = d.number(measurements, name, 64)
	}
	if d.spoken == Version2 {
		d.second(e, &r.Evidence)
	}
	return r
}

// second reads what version 2 adds to evidence.
func (d *decoder) second(e object, to *Evidence) {
	to.Reason, to.Omitted = d.optionalText(e, "reason"), d.textMap(e, "omitted")
	if unobservable := to.Flip == judge.FlipUnobservable; unobservable != (strings.TrimSpace(to.Reason) != "") {
		d.fail(ErrDecode, "in protocol_version 2 an unobservable flip has a reason, and no other has; got %q with the reason %q", to.Flip, to.Reason)
	}
	for _, name := range slices.Sorted(maps.Keys(to.Omitted)) {
		if _, both := to.Measurements[name]; both {
			d.fail(ErrDecode, "the measurement %s is both reported and left out", plain(name))
		}
	}
}

func (d *decoder) published(o object, key string) []Published {
	var out []Published
	for _, s := range d.objects(o, key) {
		d.only(s, "signal", "value")
		v, ok := s["value"].(object)
		if !ok {
			d.mistyped(s, "value", "an object")
		}
		d.only(v, "boolean", "count")
		p := Published{Signal: d.text(s, "signal")}
		switch _, isBool := v["boolean"]; {
		case len(v) != 1:
			d.fail(ErrDecode, "the value of a signal is either {boolean} or {count}")
		case isBool:
			b := d.boolean(v, "boolean")
			p.Value.Boolean = &b
		default:
			n := d.number(v, "count", 64)
			p.Value.Count = &n
		}
		out = append(out, p)
	}
	return out
}

// mistyped says that key is missing, or not what it should be.
func (d *decoder) mistyped(o object, key, want string) {
	if v, present := o[key]; !present || v == nil {
		d.fail(ErrDecode, "the %s lacks the field %s", d.message, plain(key))
	}
	d.fail(ErrDecode, "the field %s of the %s is not %s", plain(key), d.message, want)
}

func (d *decoder) text(o object, key string) string {
	s, ok := o[key].(string)
	if !ok {
		d.mistyped(o, key, "a string")
	}
	return s
}

func (d *decoder) optionalText(o object, key string) string {
	if o[key] == nil {
		return ""
	}
	return d.text(o, key)
}

func (d *decoder) boolean(o object, key string) bool {
	b, ok := o[key].(bool)
	if !ok {
		d.mistyped(o, key, "true or false")
	}
	return b
}

func (d *decoder) u32(o object, key string) uint32 { return uint32(d.number(o, key, 32)) }

// number reads decimal digits and nothing else: no sign, fraction or exponent.
func (d *decoder) number(o object, key string, bits int) uint64 {
	n, ok := o[key].(json.Number)
	if !ok {
		d.mistyped(o, key, "a number")
	}
	u, err := strconv.ParseUint(n.String(), 10, bits)
	if err != nil {
		d.fail(ErrDecode, "the field %s of the %s is not an integer of %d bits, zero or more", plain(key), d.message, bits)
	}
	return u
}

func (d *decoder) optionalObject(o object, key string) object {
	if o[key] == nil {
		return nil
	}
	v, ok := o[key].(object)
	if !ok {
		d.mistyped(o, key, "an object")
	}
	return v
}

// textMap is nil for an absent object and not nil for an empty one.
func (d *decoder) textMap(o object, key string) map[string]string {
	v := d.optionalObject(o, key)
	if v == nil {
		return nil
	}
	out := make(map[string]string, len(v))
	for name := range v {
		out[name] = d.text(v, name)
	}
	return out
}

func (d *decoder) list(o object, key string) []value {
	if o[key] == nil {
		return nil
	}
	l, ok := o[key].([]value)
	if !ok {
		d.mistyped(o, key, "a list")
	}
	return l
}

func (d *decoder) objects(o object, key string) []object {
	var out []object
	for _, v := range d.list(o, key) {
		e, ok := v.(object)
		if !ok {
			d.fail(ErrDecode, "the field %s of the %s holds something other than objects", plain(key), d.message)
		}
		out = append(out, e)
	}
	return out
}

// texts is nil for an absent list and not nil for an empty one.
func (d *decoder) texts(o object, key string) []string {
	l := d.list(o, key)
	if l == nil {
		return nil
	}
	out := make([]string, len(l))
	for i, v := range l {
		s, ok := v.(string)
		if !ok {
			d.fail(ErrDecode, "the field %s of the %s holds something other than strings", plain(key), d.message)
		}
		out[i] = s
	}
	return out
}
