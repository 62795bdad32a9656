package sandbox

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"
)

// Options is what an operator grants to every run, whichever sandbox it is in.
// The zero value grants nothing and works.
type Options struct {
	// Environ is the operator's environment as NAME=VALUE: its PATH finds
	// programs and toolchains, and Spec.PassEnv takes from it. Nothing else
	// of it is passed on.
	Environ []string

	// Read lists absolute paths that programs may read besides the system and
	// the toolchains on the PATH.
	Read []string

	// Hidden lists absolute paths that must not be visible although a grant
	// covers them: the source checkout, $BESTOF_HOME, the record. Root, Home
	// and Binds of a Spec are visible even below a hidden path.
	Hidden []string

	// Base is the environment of the system that programs find, as NAME=VALUE,
	// where that is not the operator's: an image's. Its PATH is theirs, and no
	// toolchain of the operator's is looked for. Nil is the operator's system.
	Base []string

	// Now tells the time for the deadline in the environment; nil is time.Now.
	Now func() time.Time
}

// Unavailable is the error of a sandbox that cannot work on this machine.
type Unavailable struct {
	Sandbox string // "bwrap"
	Reason  string // what was found
	Remedy  string // one imperative sentence
}

func (u *Unavailable) Error() string { return u.Sandbox + ": " + u.Reason }

// A Grant is what of the host is seen at which path of a program.
type Grant struct{ Source, Target string }

// A Mask is a path of a program's at which a grant would show what is hidden.
type Mask struct {
	Target string
	File   bool
}

// Masks lists what of the hidden paths the grants would show, outer ones first.
// Sources have no links.
func (o Options) Masks(grants []Grant) []Mask {
	var ms []Mask
	for _, h := range o.Hidden {
		h = Resolve(h)
		fi, err := os.Stat(h)
		if err != nil {
			continue // nothing to hide, and nowhere to mount
		}
		for _, g := range grants {
			if h == g.Source || !Within(g.Source, h) {
				continue
			}
			ms = append(ms, Mask{Target: g.Target + strings.TrimPrefix(h, g.Source), File: !fi.IsDir()})
		}
	}
	slices.SortFunc(ms, func(a, b Mask) int { return cmp.Compare(a.Target, b.Target) })
	return slices.Compact(ms)
}
