package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator/event"
)

func end(winner *int) []event.Event {
	return append(story(3),
		event.Event{Seq: 10, At: began, Body: event.Notice{Text: "disk is short\nrun   forged: line"}},
		event.Event{Seq: 11, At: began, Body: event.Candidate{Number: 2, State: candidate.Working, Round: 1, Files: 2, Added: 120, Deleted: 45}}, // nothing new
		event.Event{Seq: 12, At: began, Body: event.Finished{Winner: winner, Reason: "the only one"}})
}

func TestPlain(t *testing.T) {
	for name, l := range map[string]term.Look{"plain": {UTF8: true}, "plain-ascii": {Color: true, Width: 40}} {
		var b bytes.Buffer
		p := NewPlain(&b, l)
		for _, e := range end(ptr(1)) {
			p.Publish(e)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.String())
		harmless(t, b.String(), false)
	}
}

func TestJSONL(t *testing.T) {
	var b bytes.Buffer
	j := NewJSONL(&b)
	events := end(nil)
	for _, e := range events {
		j.Publish(e)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "jsonl", b.String())
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != len(events) {
		t.Fatalf("%d lines for %d events", len(lines), len(events))
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %s", l)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestErrorsOfWritingAreKept(t *testing.T) {
	p, j := NewPlain(full{}, term.Look{}), NewJSONL(full{})
	for _, e := range end(nil) {
		p.Publish(e)
		j.Publish(e)
	}
	if p.Close() == nil || j.Close() == nil {
		t.Error("a failed write was forgotten")
	}
	if Verdict(full{}, won(), Options{}) == nil {
		t.Error("a failed write was forgotten")
	}
}
