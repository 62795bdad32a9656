package sandbox

import "time"

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
