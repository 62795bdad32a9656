// Package conform holds a plugin's process against the wire: the shared vectors,
// further cases that they leave out, and a payload for each hook.
package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// A Case is one request and what has to come of it.
type Case struct {
	Name     string
	Point    wire.Point  // that the request is for
	Hook     plugin.Hook // that it is for instead, "" for none; Request is its payload
	Request  []byte
	Refused  bool   // it has to be refused
	Refusal  string // the text, after the plugin's name; "" is any
	Response []byte // the response, with any duration; nil is any that is legal
	Judge    func(wire.Response) string
	Advice   bool // a failure is worth knowing and no more
}

// A Finding is how one case went.
type Finding struct {
	Case   string `json:"case"`
	OK     bool   `json:"ok"`
	Advice bool   `json:"advice,omitempty"`
	Detail string `json:"detail,omitempty"` // what is wrong, one line
}

// A Process runs the plugin once with a stdin.
type Process func(ctx context.Context, stdin []byte) (sandbox.Result, error)

// Check runs every case that fits the manifest. A plugin that does not run tests
// may look at all of its candidate, so it is given root, an empty directory, and
// not the directory for temporary files that the vectors name. An error is the
// host's.
func Check(ctx context.Context, m *plugin.Manifest, root string, run Process) ([]Finding, error) {
	cases, err := Cases(m)
	if err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	findings := make([]Finding, 0, len(cases))
	for _, c := range cases {
		if !RunsTests(m) || c.Hook != "" {
			c.Request = bytes.ReplaceAll(c.Request, []byte(`"/tmp"`), quoted)
		}
		result, err := run(ctx, c.Request)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Name, err)
		}
		if result.End == sandbox.Stopped {
			return nil, context.Cause(ctx)
		}
		detail := c.hold(m, result)
		findings = append(findings, Finding{Case: c.Name, OK: detail == "", Advice: c.Advice, Detail: wire.Line(detail, 600)})
	}
	return findings, nil
}

// Conforms reports whether nothing that is required failed.
func Conforms(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return !f.OK && !f.Advice })
}

// hold says what is wrong with a result, or "".
func (c Case) hold(m *plugin.Manifest, r sandbox.Result) string {
	stdout, stderr := r.Stdout.Bytes(), strings.TrimSpace(string(r.Stderr.Bytes()))
	switch {
	case r.End == sandbox.NotRun:
		return "it could not be started: " + r.Reason
	case r.End != sandbox.Exited:
		return "it did not end in its time"
	case r.Stdout.Dropped > 0:
		return "it wrote far too much"
	}
	if c.Hook != "" {
		return c.answered(r, stderr)
	}
	if c.Refused {
		switch {
		case r.Code == 0 && r.Signal == 0:
			return "it has to refuse this, and ended with status 0"
		case r.Signal != 0:
			return fmt.Sprintf("it has to refuse this, and was killed by signal %d", r.Signal)
		case len(bytes.TrimSpace(stdout)) > 0:
			return "it refused, but wrote to stdout as well"
		case stderr == "" || strings.Contains(stderr, "\n"):
			return fmt.Sprintf("a refusal is one line on stderr; it wrote %d", strings.Count(stderr, "\n")+min(1, len(stderr)))
		}
		if _, text, _ := strings.Cut(stderr, ": "); c.Refusal != "" && text != c.Refusal {
			return fmt.Sprintf("it refused with %q, not %q", text, c.Refusal)
		}
		return ""
	}
	if r.Code != 0 || r.Signal != 0 {
		return fmt.Sprintf("it has to answer this, and ended with status %d, signal %d: %s", r.Code, r.Signal, stderr)
	}
	// One document and nothing else, although the host would not mind more.
	response, err := wire.DecodeResponseIn(bytes.TrimSpace(stdout), c.Point, m.Runtime.Protocol)
	if err != nil {
		return err.Error()
	}
	if response.Before != nil {
		if err := response.Before.Admit(m.RoleNames()); err != nil {
			return err.Error()
		}
	}
	if c.Response != nil {
		if !reflect.DeepEqual(withoutDuration(c.Response), withoutDuration(stdout)) {
			return fmt.Sprintf("it answered %s, not %s", compact(stdout), compact(c.Response))
		}
	}
	if c.Judge != nil {
		return c.Judge(response)
	}
	return ""
}

// withoutDuration is a document whose numbers are as they were written, with
// the duration, which nobody can know, made 0.
func withoutDuration(b []byte) any {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return string(b)
	}
	at := v
	for _, key := range []string{"body", "evidence", "measurements"} {
		object, ok := at.(map[string]any)
		if !ok {
			return v
		}
		at = object[key]
	}
	if m, ok := at.(map[string]any); ok {
		if _, ok := m[verify.Duration].(json.Number); ok {
			m[verify.Duration] = json.Number("0")
		}
	}
	return v
}

func compact(b []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return string(b)
	}
	return out.String()
}

// RunsTests reports whether a plugin says that it runs the granted test as the
// vectors have it, so that its very evidence is known beforehand.
func RunsTests(m *plugin.Manifest) bool {
	return m.Oracle != nil && m.Oracle.Flip == judge.FlipRequired && slices.Contains(m.Oracle.Measurements, verify.ExitCode)
}
