package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/internal/bytestring"
)

// The bounds of a job's document.
const (
	maxDocument = 4 << 20 // bytes
	maxDepth    = 8
	schema      = 1
)

// document is a job as JSON. Durations are written as Go does, times as
// RFC 3339 in UTC, and what may not be UTF-8 as package bytestring says.
type document struct {
	Schema     int                 `json:"schema"`
	Name       string              `json:"name"`
	Trigger    triggerDocument     `json:"trigger"`
	Command    []bytestring.String `json:"command"`
	Repository bytestring.String   `json:"repository"`
	Settings   settingsDocument    `json:"settings"`
	Task       taskDocument        `json:"task"`
	Policy     policyDocument      `json:"policy"`
	Result     resultDocument      `json:"result"`
	Paused     bool                `json:"paused"`
	Created    *time.Time          `json:"created"`
	Revision   int64               `json:"revision"`
}

type triggerDocument struct {
	Kind  TriggerKind `json:"kind"`
	Cron  string      `json:"cron,omitempty"`
	Zone  string      `json:"zone,omitempty"`
	At    *time.Time  `json:"at,omitempty"`
	Every duration    `json:"every,omitempty"`
	From  *time.Time  `json:"from,omitempty"`
}

type settingsDocument struct {
	Document []byte `json:"document,omitempty"`
	Digest   string `json:"digest,omitempty"`
}

type taskDocument struct {
	Kind    TaskKind            `json:"kind,omitempty"`
	Text    bytestring.String   `json:"text,omitempty"`
	File    bytestring.String   `json:"file,omitempty"`
	Command []bytestring.String `json:"command,omitempty"`
}

type policyDocument struct {
	Overlap    Overlap        `json:"overlap"`
	Queue      int            `json:"queue"`
	Missed     missedDocument `json:"missed"`
	Retry      retryDocument  `json:"retry"`
	Timeout    duration       `json:"timeout"`
	Quiet      duration       `json:"quiet"`
	PerRun     budgetDocument `json:"per_run"`
	PerMonth   budgetDocument `json:"per_month"`
	Jitter     duration       `json:"jitter"`
	Candidates int            `json:"candidates"`
	Share      bool           `json:"share_repository"`
}

type missedDocument struct {
	Mode    MissedMode `json:"mode"`
	Most    int        `json:"most"`
	Horizon duration   `json:"horizon"`
	Grace   duration   `json:"grace"`
}

type retryDocument struct {
	Most    int      `json:"most"`
	First   duration `json:"first"`
	Longest duration `json:"longest"`
}

type budgetDocument struct {
	MicroUSD int64    `json:"micro_usd,omitempty"`
	Tokens   int64    `json:"tokens,omitempty"`
	Wall     duration `json:"wall,omitempty"`
}

type resultDocument struct {
	Adopt    Adopt               `json:"adopt"`
	Folder   bytestring.String   `json:"folder,omitempty"`
	OnFinish []bytestring.String `json:"on_finish,omitempty"`
	Sandbox  bool                `json:"sandbox,omitempty"`
	Webhooks []webhookDocument   `json:"webhooks,omitempty"`
}

type webhookDocument struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"`
}

type duration time.Duration

func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s is no duration: write one such as 6h or 90m", quote(text))
	}
	*d = duration(v)
	return nil
}

// Encode writes a job that passes Check as JSON.
func Encode(j Job) ([]byte, error) {
	if err := j.Check(); err != nil {
		return nil, err
	}
	p := j.Policy
	return json.Marshal(document{
		Schema: schema, Name: j.Name, Command: bytestrings(j.Command), Repository: bytestring.String(j.Repository),
		Trigger:  triggerDocument{j.Trigger.Kind, j.Trigger.Cron, j.Trigger.Zone, stamp(j.Trigger.At), duration(j.Trigger.Every), stamp(j.Trigger.From)},
		Settings: settingsDocument(j.Settings),
		Task:     taskDocument{j.Task.Kind, bytestring.String(j.Task.Text), bytestring.String(j.Task.File), bytestrings(j.Task.Command)},
		Policy: policyDocument{
			Overlap: p.Overlap, Queue: p.Queue,
			Missed:  missedDocument{p.Missed.Mode, p.Missed.Most, duration(p.Missed.Horizon), duration(p.Missed.Grace)},
			Retry:   retryDocument{p.Retry.Most, duration(p.Retry.First), duration(p.Retry.Longest)},
			Timeout: duration(p.Timeout), Quiet: duration(p.Quiet), PerRun: budgetOut(p.PerRun), PerMonth: budgetOut(p.PerMonth),
			Jitter: duration(p.Jitter), Candidates: p.Candidates, Share: p.Share,
		},
		Result: resultDocument{j.Result.Adopt, bytestring.String(j.Result.Folder), bytestrings(j.Result.OnFinish), j.Result.Sandbox, webhooksOut(j.Result.Webhooks)},
		Paused: j.Paused, Created: stamp(j.Created), Revision: j.Revision,
	})
}

// Decode reads a job as Encode writes it: one object, its keys once each and no
// others. The job passes Check.
func Decode(b []byte) (Job, error) {
	if err := strict(b); err != nil {
		return Job{}, fmt.Errorf("job: %w", err)
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Job{}, fmt.Errorf("job: %w", err)
	}
	if d.Schema != schema {
		return Job{}, fmt.Errorf("job: its schema is %d, and this program knows %d", d.Schema, schema)
	}
	p := d.Policy
	j := Job{
		Name: d.Name, Command: plain(d.Command), Repository: string(d.Repository),
		Trigger:  Trigger{d.Trigger.Kind, d.Trigger.Cron, d.Trigger.Zone, instant(d.Trigger.At), time.Duration(d.Trigger.Every), instant(d.Trigger.From)},
		Settings: Settings(d.Settings),
		Task:     Task{d.Task.Kind, string(d.Task.Text), string(d.Task.File), plain(d.Task.Command)},
		Policy: Policy{
			Overlap: p.Overlap, Queue: p.Queue,
			Missed:  Missed{p.Missed.Mode, p.Missed.Most, time.Duration(p.Missed.Horizon), time.Duration(p.Missed.Grace)},
			Retry:   Retry{p.Retry.Most, time.Duration(p.Retry.First), time.Duration(p.Retry.Longest)},
			Timeout: time.Duration(p.Timeout), Quiet: time.Duration(p.Quiet), PerRun: budgetIn(p.PerRun), PerMonth: budgetIn(p.PerMonth),
			Jitter: time.Duration(p.Jitter), Candidates: p.Candidates, Share: p.Share,
		},
		Result: Result{d.Result.Adopt, string(d.Result.Folder), plain(d.Result.OnFinish), d.Result.Sandbox, webhooksIn(d.Result.Webhooks)},
		Paused: d.Paused, Created: instant(d.Created), Revision: d.Revision,
	}
	if len(j.Settings.Document) == 0 {
		j.Settings.Document = nil
	}
	return j, j.Check()
}

// strict reports what encoding/json would let pass: keys in another case or
// twice, bytes that are not UTF-8, null, and anything after the object.
func strict(b []byte) error {
	if len(b) > maxDocument {
		return fmt.Errorf("it has more than %d bytes", maxDocument)
	}
	if !utf8.Valid(b) {
		return errors.New("it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	token, err := dec.Token()
	if err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	if token != json.Delim('{') {
		return errors.New("it is no JSON object")
	}
	if err := object(dec, 1); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

func object(dec *json.Decoder, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // a decoder gives no other kind of key
		switch {
		case strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
			return fmt.Errorf("there is no key %s", quote(key))
		case seen[key]:
			return fmt.Errorf("the key %s is there twice", quote(key))
		}
		seen[key] = true
		if err := value(dec, depth); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if seen["base64"] && len(seen) > 1 {
		return errors.New(`beside "base64" there is no other key`)
	}
	_, err := dec.Token()
	return err
}

func value(dec *json.Decoder, depth int) error {
	token, err := dec.Token()
	switch {
	case err != nil:
		return err
	case token == nil:
		return errors.New("it is null")
	case depth >= maxDepth:
		return errors.New("it is nested too deep")
	case token == json.Delim('{'):
		return object(dec, depth+1)
	case token == json.Delim('['):
		for dec.More() {
			if err := value(dec, depth+1); err != nil {
				return err
			}
		}
		_, err = dec.Token()
	}
	return err
}

func bytestrings(in []string) []bytestring.String {
	out := []bytestring.String{}
	for _, s := range in {
		out = append(out, bytestring.String(s))
	}
	return out
}

func plain(in []bytestring.String) (out []string) {
	for _, s := range in {
		out = append(out, string(s))
	}
	return out
}

func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Round(0)
	return &t
}

func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func budgetOut(b Budget) budgetDocument {
	return budgetDocument{b.MicroUSD, b.Tokens, duration(b.Wall)}
}
func budgetIn(b budgetDocument) Budget { return Budget{b.MicroUSD, b.Tokens, time.Duration(b.Wall)} }

func webhooksOut(in []Webhook) (out []webhookDocument) {
	for _, w := range in {
		out = append(out, webhookDocument(w))
	}
	return out
}

func webhooksIn(in []webhookDocument) (out []Webhook) {
	for _, w := range in {
		out = append(out, Webhook(w))
	}
	return out
}
