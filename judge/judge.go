// Package judge decides. It is given evidence and answers with a verdict, a
// hold or a ranking; it does no I/O, reads no clock and calls no model. A test
// proves that it cannot: its imports reach no os, syscall, time or net.
package judge

// A Flip is what an oracle observed about a test that should go from failing
// to passing. The wire spells it as here.
type Flip string

const (
	FlipUnobservable  Flip = "unobservable"
	FlipNotAttempted  Flip = "not-attempted"
	FlipAchieved      Flip = "achieved"
	FlipNotAchieved   Flip = "not-achieved"
	FlipUnsatisfiable Flip = "unsatisfiable"
)

// A FlipPolicy says whether a rule needs the flip.
type FlipPolicy string

const (
	FlipRequired      FlipPolicy = "required"
	FlipNotApplicable FlipPolicy = "not-applicable"
)

// A TamperStatus is what the host found out about the witness artifacts. The
// zero value is that nobody looked.
type TamperStatus string

const (
	NotChecked TamperStatus = ""
	Clean      TamperStatus = "clean"
	Tampered   TamperStatus = "tampered"
)

// Tamper is the host's own finding; no plugin can report one.
type Tamper struct {
	Status   TamperStatus `json:"status"`
	Artifact string       `json:"artifact,omitempty"` // the first artifact that differs, when Tampered
}

// Provenance says whose word the evidence is.
type Provenance string

const (
	PluginReported Provenance = "plugin-reported"
	HostObserved   Provenance = "host-observed"
)

// A Requirement is one line of the definition of done.
type Requirement struct {
	Name      string `json:"name"`
	Statement string `json:"statement"`
}

// A Check is "<measurement> <op> <integer>" bound to a requirement. Text is
// kept as written; ParseCheck reads it.
type Check struct {
	Requirement string `json:"requirement"`
	Text        string `json:"check"`
}

// An Oracle is how requirements are decided.
type Oracle struct {
	Flip         FlipPolicy `json:"flip"`
	Measurements []string   `json:"measurements,omitempty"`
	Checks       []Check    `json:"checks,omitempty"`
}

// A Rule is what a plugin declares about being done. Decide reads the
// requirements in byte order of their names whatever their order here.
type Rule struct {
	Requirements []Requirement `json:"requirements"`
	Oracle       *Oracle       `json:"oracle,omitempty"`
}

// Evidence is what one plugin reported in one round, with the host's tamper
// finding. A measurement that is absent from the map is missing, never zero.
type Evidence struct {
	Provenance   Provenance        `json:"provenance"`
	Flip         Flip              `json:"flip"`
	FlipReason   string            `json:"flip_reason,omitempty"` // why unobservable, when known; shown, never judged
	Tamper       Tamper            `json:"tamper"`
	Measurements map[string]uint64 `json:"measurements,omitempty"`
}

// A Decision is one of three; the zero value is the safe one.
type Decision string

const (
	Undecided Decision = "undecided"
	Unmet     Decision = "unmet"
	Met       Decision = "met"
)

// A Cause is why a requirement is not met or cannot be decided.
type Cause string

const (
	CauseNoFlip               Cause = "no-flip"               // unmet
	CauseTampered             Cause = "tampered"              // unmet
	CauseBudget               Cause = "budget"                // unmet: a check's value fails
	CauseNoOracle             Cause = "no-oracle"             // undecided
	CauseTamperUnchecked      Cause = "tamper-unchecked"      // undecided
	CauseWitnessUnsatisfiable Cause = "witness-unsatisfiable" // undecided
	CauseFlipUnobservable     Cause = "flip-unobservable"     // undecided
	CauseUnreadableCheck      Cause = "unreadable-check"      // undecided
	CauseMeasurementMissing   Cause = "measurement-missing"   // undecided
	CauseUndecidable          Cause = "undecidable"           // undecided
)

// A Finding is one reason about one requirement; a requirement may have
// several.
type Finding struct {
	Requirement string  `json:"requirement"`
	Cause       Cause   `json:"cause"`
	Check       string  `json:"check,omitempty"`    // the check's text, for CauseBudget and the check causes
	Reported    *uint64 `json:"reported,omitempty"` // what was measured, for CauseBudget
	Artifact    string  `json:"artifact,omitempty"` // for CauseTampered
}

// A RequirementVerdict is the decision about one requirement.
type RequirementVerdict struct {
	Name      string    `json:"name"`
	Statement string    `json:"statement"`
	Decision  Decision  `json:"decision"`
	Findings  []Finding `json:"findings,omitempty"`
}

// A Verdict is what the rule says about the evidence.
type Verdict struct {
	Decision     Decision             `json:"decision"`
	Provenance   Provenance           `json:"provenance,omitempty"`
	Requirements []RequirementVerdict `json:"requirements"`
}
