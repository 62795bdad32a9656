package telemetry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"time"
)

// A traceID names a trace, a spanID one of its spans.
type (
	traceID [16]byte
	spanID  [8]byte
)

// An attr is an attribute. Value is a string, an int64 or a float64.
type attr struct {
	key   string
	value any
}

// A span is a piece of work with a begin and an end.
type span struct {
	trace      traceID
	id, parent spanID // no parent: zero
	name       string
	start, end time.Time
	attrs      []attr
	failed     bool
}

// A place is a span that others are part of.
type place struct {
	trace traceID
	span  spanID
}

// newTrace is the trace of something that has a name of its own, such as a run.
func newTrace(name string, at time.Time) traceID {
	sum := sha256.Sum256([]byte("trace\x00" + name + "\x00" + at.UTC().Format(time.RFC3339Nano)))
	return traceID(sum[:16])
}

// child is the id of a span by what it is within its trace.
func (t traceID) child(name string) spanID {
	sum := sha256.Sum256(append(t[:], name...))
	return spanID(sum[:8])
}

// parseParent reads TRACEPARENT as W3C Trace Context, version 00, writes it.
func parseParent(s string) (c place, sampled, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 4 || parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(s) != s {
		return place{}, false, false
	}
	_, err1 := hex.Decode(c.trace[:], []byte(parts[1]))
	_, err2 := hex.Decode(c.span[:], []byte(parts[2]))
	flags, err3 := hex.DecodeString(parts[3])
	if err1 != nil || err2 != nil || err3 != nil || c.trace == (traceID{}) || c.span == (spanID{}) {
		return place{}, false, false
	}
	return c, flags[0]&1 == 1, true
}

// The wire types of protocol buffers.
const (
	varint  = 0
	fixed64 = 1
	length  = 2
)

// message is a message of protocol buffers that is being written.
type message []byte

func (m *message) key(field, wire int) { m.varint(uint64(field<<3 | wire)) }

func (m *message) varint(v uint64) { *m = binary.AppendUvarint(*m, v) }

func (m *message) number(field int, v uint64) {
	m.key(field, varint)
	m.varint(v)
}

func (m *message) fixed(field int, v uint64) {
	m.key(field, fixed64)
	*m = binary.LittleEndian.AppendUint64(*m, v)
}

func (m *message) bytes(field int, b []byte) {
	m.key(field, length)
	m.varint(uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) text(field int, s string) { m.bytes(field, []byte(s)) }

// attribute writes a KeyValue.
func (m *message) attribute(field int, a attr) {
	var value, kv message
	switch v := a.value.(type) {
	case string:
		value.text(1, v)
	case int64:
		value.number(3, uint64(v))
	case float64:
		value.fixed(4, math.Float64bits(v))
	}
	kv.text(1, a.key)
	kv.bytes(2, value)
	m.bytes(field, kv)
}

// The numbers of opentelemetry-proto that are written as they are.
const (
	internalSpan  = 1
	failedStatus  = 2
	scopeName     = "github.com/bestof-dev/bestof"
	statusOfSpan  = 15
	attrsOfSpan   = 9
	attrsOfSource = 1
)

// encode writes an ExportTraceServiceRequest of opentelemetry-proto.
func encode(resource []attr, version string, spans []span) []byte {
	var source, scope, scoped, all, request message
	for _, a := range resource {
		source.attribute(attrsOfSource, a)
	}
	scope.text(1, scopeName)
	scope.text(2, version)
	scoped.bytes(1, scope)
	for _, s := range spans {
		scoped.bytes(2, s.encode())
	}
	all.bytes(1, source)
	all.bytes(2, scoped)
	request.bytes(1, all)
	return request
}

func (s span) encode() message {
	var m message
	m.bytes(1, s.trace[:])
	m.bytes(2, s.id[:])
	if s.parent != (spanID{}) {
		m.bytes(4, s.parent[:])
	}
	m.text(5, s.name)
	m.number(6, internalSpan)
	m.fixed(7, uint64(s.start.UnixNano()))
	m.fixed(8, uint64(max(s.end.UnixNano(), s.start.UnixNano())))
	for _, a := range s.attrs {
		m.attribute(attrsOfSpan, a)
	}
	if s.failed {
		var status message
		status.number(3, failedStatus)
		m.bytes(statusOfSpan, status)
	}
	return m
}
