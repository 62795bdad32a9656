// Package image says which image the containers of a run are made of, and gets
// it onto the engine: a reference that is pulled when it is missing, a
// Dockerfile that is built once for each content of its context, or what a
// repository's devcontainer.json asks for. What reads files decides nothing,
// and what decides reads none.
package image

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/distribution/reference"
)

// ErrNone means that nobody said which image to use.
var ErrNone = errors.New("no image is given: name one with --image REF, build one with --dockerfile PATH, " +
	"use the repository's with --devcontainer, or write image = \"REF\" below [sandbox] in config.toml")

// An Image is one that the engine has.
type Image struct {
	Ref    string `json:"ref"`              // as it was asked for: "python:3.12", or the tag of one that was built
	Digest string `json:"digest,omitempty"` // "sha256:…" of the registry; empty for one that was built or imported here
	ID     string `json:"id"`               // "sha256:…" of the engine: what containers are made of
	User   string `json:"user,omitempty"`   // what it declares; programs run with the caller's uid all the same
}

// A Source is where an image comes from: exactly one of its fields is set.
type Source struct {
	Ref   string // pulled when the engine does not have it
	Build *Build
}

// A Build is a Dockerfile with its context. Paths are slash paths below the
// root of which the context is read.
type Build struct {
	Dir        string // of the context, "." for the root itself
	Dockerfile string // inside Dir
	Args       map[string]string
	Target     string
}

var idForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ParseRef checks a reference as a person writes it and returns its full form:
// "python" becomes "docker.io/library/python:latest". The id of an image,
// "sha256:…", stays what it is.
func ParseRef(s string) (string, error) {
	if idForm.MatchString(s) {
		return s, nil
	}
	if len(s) > 512 {
		return "", fmt.Errorf("%.40q… is no image: a reference has at most 512 bytes", s)
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return "", fmt.Errorf("%q is no image: %w: write for example python:3.12-slim", s, err)
	}
	return reference.TagNameOnly(named).String(), nil
}

// isID reports whether a reference is an id, which no registry knows.
func isID(ref string) bool { return idForm.MatchString(ref) }
