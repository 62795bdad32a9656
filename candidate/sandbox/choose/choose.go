// Package choose picks the sandbox that a run uses.
package choose

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/bwrap"
	"github.com/bestof-dev/bestof/candidate/sandbox/docker"
	"github.com/bestof-dev/bestof/candidate/sandbox/process"
)

// ErrNotThere means a sandbox that this version does not have.
var ErrNotThere = errors.New("this version of bestof has no such sandbox")

// Choose makes the sandbox of a name: "auto", "bwrap" or "process".
// Auto is bwrap where it works and process otherwise; the note then says in one
// line why the stronger one is not in force. It is empty when there is nothing
// to say. A sandbox asked for by name is never replaced by another. Docker is
// only had by name, and not from here: it needs an image, see docker.Open.
func Choose(ctx context.Context, name string, o sandbox.Options) (s sandbox.Sandbox, note string, err error) {
	switch name {
	case "process":
		return process.New(o), "", nil
	case "bwrap":
		b, err := bwrap.New(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return b, "", nil
	case "auto", "":
		b, err := bwrap.New(ctx, o)
		if err == nil {
			return b, "", nil
		}
		var u *sandbox.Unavailable
		if !errors.As(err, &u) {
			return nil, "", err
		}
		return process.New(o), fmt.Sprintf("using plain processes, since %s cannot be used: %s. %s", u.Sandbox, u.Reason, u.Remedy), nil
	case "docker":
		return nil, "", docker.ErrNoImage
	}
	return nil, "", fmt.Errorf("sandbox %q: %w; choose auto, bwrap, docker or process", name, ErrNotThere)
}

// A Finding is one line for doctor.
type Finding struct {
	Name      string             `json:"name"`
	OK        bool               `json:"ok"`
	Detail    string             `json:"detail"`           // what was found
	Remedy    string             `json:"remedy,omitempty"` // what to do when it is not OK
	Isolation *sandbox.Isolation `json:"isolation,omitempty"`
	Engine    *docker.Facts      `json:"engine,omitempty"`
}

// Probe tries every sandbox and says what each can keep.
func Probe(ctx context.Context, o sandbox.Options) []Finding {
	var found []Finding
	b, err := bwrap.New(ctx, o)
	var u *sandbox.Unavailable
	switch {
	case err == nil:
		found = append(found, finding(b))
	case errors.As(err, &u):
		found = append(found, Finding{Name: u.Sandbox, Detail: u.Reason, Remedy: u.Remedy})
	default:
		found = append(found, Finding{Name: "bwrap", Detail: err.Error()})
	}
	p := finding(process.New(o))
	if !p.Isolation.Network {
		p.Remedy = "Allow user namespaces, so that the network can be kept away."
	}
	return append(found, p, probeDocker(ctx, o))
}

// probeDocker asks the engine what it is. Whether an image has what a task
// needs only a run can tell.
func probeDocker(ctx context.Context, o sandbox.Options) Finding {
	facts, err := docker.Probe(ctx, o.Environ)
	var u *sandbox.Unavailable
	switch {
	case err == nil:
		detail := facts.Words() + " at " + facts.Host
		if warning := facts.Warning(); warning != "" {
			detail += "; " + warning
		}
		return Finding{Name: "docker", OK: true, Detail: detail, Engine: &facts}
	case errors.As(err, &u):
		return Finding{Name: u.Sandbox, Detail: u.Reason, Remedy: u.Remedy}
	}
	return Finding{Name: "docker", Detail: err.Error()}
}

func finding(s sandbox.Sandbox) Finding {
	i := s.Isolation()
	detail := i.Summary
	if len(i.Missing) > 0 {
		detail += "; not kept: " + strings.Join(i.Missing, "; ")
	}
	return Finding{Name: i.Name, OK: true, Detail: detail, Isolation: &i}
}
