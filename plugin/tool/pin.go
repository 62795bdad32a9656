package tool

import (
	"fmt"
	"strings"
)

// A Pin is a tool by name and content: those bytes and no others.
type Pin struct {
	Name   Name
	SHA256 Hash
}

func (p Pin) String() string { return string(p.Name) + "@sha256:" + string(p.SHA256) }

// ParsePin reads "name@sha256:…".
func ParsePin(s string) (Pin, error) {
	stem, digest, ok := strings.Cut(s, "@")
	if !ok || !strings.HasPrefix(digest, "sha256:") {
		return Pin{}, fmt.Errorf("%q names no tool and hash: write name@sha256: and 64 hexadecimal digits, as `bestof tool list` prints them", s)
	}
	name, err := ParseName(stem)
	if err != nil {
		return Pin{}, err
	}
	hash, err := ParseHash(digest)
	if err != nil {
		return Pin{}, fmt.Errorf("%s: %w", name, err)
	}
	return Pin{Name: name, SHA256: hash}, nil
}

// ParsePins reads a list of pins in which each name stands once.
func ParsePins(list []string) ([]Pin, error) {
	var pins []Pin
	seen := map[Name]bool{}
	for _, s := range list {
		p, err := ParsePin(s)
		if err != nil {
			return nil, err
		}
		if seen[p.Name] {
			return nil, fmt.Errorf("%q is listed twice: keep one hash", p.Name)
		}
		seen[p.Name] = true
		pins = append(pins, p)
	}
	return pins, nil
}

// Pinned is the part of a set whose bytes are those of pins. stale names the
// pins that lead nowhere now, and why.
func Pinned(set Set, pins []Pin) (safe Set, stale []string) {
	pinned := map[Name]bool{}
	for _, p := range pins {
		t, ok := set.Find(p.Name)
		switch {
		case !ok:
			stale = append(stale, fmt.Sprintf("%s: no such tool is live", p.Name))
		case t.SHA256 != p.SHA256:
			stale = append(stale, fmt.Sprintf("%s: its file changed since it was listed: it is sha256:%s now", p.Name, t.SHA256))
		default:
			pinned[p.Name] = true
		}
	}
	for _, t := range set.Tools {
		if pinned[t.Name] {
			safe.Tools = append(safe.Tools, t)
		}
	}
	return safe, stale
}
