// Package record is what a run leaves behind: the document run.json, which is
// also what `run --json` prints, the events, and the files of each candidate.
package record

import (
	"slices"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/judge"
)

// Schema names the version of Document. Fields are only ever added to it.
const Schema = "bestof.run/1"

// A Phase is how far a run has come.
type Phase string

// The phases of a run's record.
const (
	Running     Phase = "running"
	Finished    Phase = "finished"
	Interrupted Phase = "interrupted" // the orchestrator died; nothing about it may be believed but what is written
)

// A Document is run.json: the whole record of a run in one object.
type Document struct {
	Schema     string       `json:"schema"`
	Run        string       `json:"run"`
	Phase      Phase        `json:"phase"`
	Version    string       `json:"version"` // of bestof
	Started    time.Time    `json:"started"`
	Finished   *time.Time   `json:"finished"`
	Owner      *Owner       `json:"owner,omitempty"` // the process that writes this, while Phase is running
	Repo       Repo         `json:"repo"`
	Task       string       `json:"task"`
	RevisionOf string       `json:"revision_of,omitempty"` // the red run that this one revises
	Settings   Settings     `json:"settings"`
	Base       Base         `json:"base"`
	Baseline   Baseline     `json:"baseline"`
	Plugins    []Plugin     `json:"plugins"` // who took part
	Tools      *Tools       `json:"tools,omitempty"`
	SetupUse   []NetworkUse `json:"setup_network_use,omitempty"` // what the setup command asked the run's proxy for
	Rules      []Rule       `json:"rules"`                       // by which candidates were judged: one for each arbiter
	Candidates []Candidate  `json:"candidates"`
	Ranking    []Rank       `json:"ranking"`
	Winner     *int         `json:"winner"` // number of the winner, or null
	Tie        []int        `json:"tie,omitempty"`
	Advice     *Advice      `json:"advice,omitempty"` // of a trained model, where one was asked
	Reason     string       `json:"reason"`
	Withheld   string       `json:"withheld,omitempty"` // why the judge was not asked for a winner: the run ended before
	Adopted    *Adoption    `json:"adopted"`
	AdoptError string       `json:"adopt_error,omitempty"` // why the winner was not adopted as the run asked
	Revision   *Revision    `json:"revision,omitempty"`    // proposed when no candidate is met
	Notices    []string     `json:"notices,omitempty"`
	ExitCode   int          `json:"exit_code"`
	DurationMS int64        `json:"duration_ms"`
}

// Owner is the process that owns a running record.
type Owner = sandbox.Process

// Repo is where the task was put.
type Repo struct {
	Root   bytestring.String `json:"root"`
	Prefix bytestring.String `json:"prefix"` // sub-directory the user was in, "" at the top
	Head   string            `json:"head"`   // commit id, "" on an unborn branch
	Branch string            `json:"branch"` // short name, "" when detached
}

// Settings is what the run was asked to do, after defaults.
type Settings struct {
	Candidates     int               `json:"candidates"`
	Agents         []AgentCount      `json:"agents"`
	Test           []string          `json:"test"`
	Expect         string            `json:"expect"` // flip | pass
	Setup          []string          `json:"setup,omitempty"`
	Base           string            `json:"base"`
	History        int               `json:"history"` // 0 is full
	Isolation      sandbox.Isolation `json:"isolation"`
	Network        sandbox.Network   `json:"network"` // as asked: none | gateway | allow=HOST,… | host
	TimeoutMS      int64             `json:"timeout_ms"`
	DeadlineMS     int64             `json:"deadline_ms,omitempty"`
	Jobs           int               `json:"jobs"`
	Protect        []string          `json:"protect"`
	Repeat         int               `json:"repeat"`
	Stop           string            `json:"stop"`
	Adopt          string            `json:"adopt"`
	MaxHolds       int               `json:"max_holds"`
	MaxBlocks      int               `json:"max_blocks,omitempty"` // how often hooks may send a candidate back at Stop
	AllowUndecided bool              `json:"allow_undecided,omitempty"`
	Rank           []judge.Goal      `json:"rank,omitempty"` // measurements that rank before the size of the change
	TestTimeoutMS  int64             `json:"test_timeout_ms"`
	Unprotect      []string          `json:"unprotect,omitempty"`
	ExtraProtect   []string          `json:"extra_protect,omitempty"` // what --protect added; Protect is the whole
	Rev            string            `json:"rev,omitempty"`           // for the base kind rev
	Sandbox        string            `json:"sandbox"`                 // as asked: auto | process | bwrap
	ShadowKind     string            `json:"shadow,omitempty"`        // as asked
	SetupNetwork   sandbox.Network   `json:"setup_network,omitempty"` // as asked: none | allow=HOST,… | host
	VerifyTimeouts bool              `json:"verify_timeouts,omitempty"`
	Witness        []string          `json:"witness,omitempty"` // paths that plugins said decide
	Plugins        string            `json:"plugins,omitempty"` // as asked: all | none | NAME,…
	MCP            string            `json:"mcp,omitempty"`     // as asked: all | none | NAME,…
	Image          *Image            `json:"image,omitempty"`   // of the containers, with --sandbox docker
	PluginImages   map[string]Image  `json:"plugin_images,omitempty"`
	Limits         *Limits           `json:"limits,omitempty"` // of each program, as asked
	Warm           bool              `json:"warm,omitempty"`
	Advice         bool              `json:"advice,omitempty"` // a trained model may break ties
}

// Image is what containers were made of.
type Image struct {
	Ref    string `json:"ref"`              // as asked, or the tag of one that was built
	Digest string `json:"digest,omitempty"` // of the registry; empty for one that was built or imported
	ID     string `json:"id"`               // of the engine
}

// Words are the image in one line.
func (i Image) Words() string {
	if i.Digest != "" {
		return i.Ref + " at " + i.Digest
	}
	return i.Ref + ", " + i.ID
}

// Limits of each program; 0 is what the sandbox has by itself.
type Limits struct {
	CPUs        float64 `json:"cpus,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	PIDs        int64   `json:"pids,omitempty"`
}

// AgentCount is how many candidates an agent gets.
type AgentCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Base is what all candidates start from.
type Base struct {
	Kind   string   `json:"kind"`   // snapshot | head | rev
	Commit string   `json:"commit"` // the user's commit it rests on, "" on an unborn branch
	Tree   string   `json:"tree"`   // tree id of the sealed base
	Files  int      `json:"files"`
	Shadow string   `json:"shadow"` // kind of the shadows: overlay | copy | …
	Notes  []string `json:"notes,omitempty"`
}

// Baseline is what the test said about the untouched base.
type Baseline struct {
	Status     string `json:"status"` // failed | passed | unobserved | not-run
	ExitCode   *int   `json:"exit_code"`
	DurationMS int64  `json:"duration_ms"`
	Runs       int    `json:"runs,omitempty"`  // with --repeat
	Flaky      bool   `json:"flaky,omitempty"` // repeats disagreed
	Reason     string `json:"reason,omitempty"`
	Evidence   string `json:"evidence,omitempty"`    // what a pass of the test rests on, and how weak that is
	Known      int    `json:"known,omitempty"`       // tests that are expected to pass, one by one
	Tests      *Tests `json:"tests,omitempty"`       // what single tests did
	OutputTail string `json:"output_tail,omitempty"` // last lines, redacted
}

// Rule is a plugin's rule, kept so that the choice can be recomputed.
type Rule struct {
	Plugin string     `json:"plugin"`
	Rule   judge.Rule `json:"rule"`
	Holds  *int       `json:"holds,omitempty"` // how often it asked to hold; absent: as often as allowed
}

// Plugin is one that took part in a run.
type Plugin struct {
	Name    string `json:"name"`
	Level   string `json:"level"` // none | observer | steering | arbiter
	Builtin bool   `json:"builtin,omitempty"`
	Scope   string `json:"scope,omitempty"`   // project | user
	Digest  string `json:"digest,omitempty"`  // of its whole package
	Network bool   `json:"network,omitempty"` // its programs reach the network, which was agreed to
}

// Candidate is everything known about one candidate.
type Candidate struct {
	Number     int                 `json:"number"`
	Handle     string              `json:"handle"`
	Agent      string              `json:"agent"`
	Sandbox    string              `json:"sandbox"`
	State      candidate.State     `json:"state"`
	Outcome    candidate.Outcome   `json:"outcome"`
	Detail     string              `json:"detail,omitempty"` // one line for people about the outcome
	Rounds     int                 `json:"rounds"`
	Change     *Change             `json:"change"`
	Verdict    *judge.Verdict      `json:"verdict"`
	Evidence   []Evidence          `json:"evidence"`
	Usage      map[string]any      `json:"usage"`
	Tampered   []bytestring.String `json:"tampered,omitempty"` // protected paths it changed
	AgentEnd   *AgentEnd           `json:"agent_end,omitempty"`
	Hooks      []Hook              `json:"hooks,omitempty"`          // what was called, in order
	Tools      []ToolUse           `json:"tools,omitempty"`          // what it called of the tools that the run offered
	Proposed   []ProposedTool      `json:"proposed_tools,omitempty"` // one-file tools that it wrote
	Network    []NetworkUse        `json:"network,omitempty"`        // what it asked the run's proxy for
	Processes  []sandbox.Process   `json:"processes,omitempty"`      // alive now; to reap after a crash
	Warm       bool                `json:"warm,omitempty"`           // its agent's first container was begun before its turn
	DurationMS int64               `json:"duration_ms"`
}

// AgentEnd is how the agent's process ended; it never decides anything.
type AgentEnd struct {
	End    sandbox.End `json:"end"`
	Code   int         `json:"code"`
	Signal int         `json:"signal,omitempty"`
	Reason string      `json:"reason,omitempty"`
}

// Tools is what a run offered to its candidates.
type Tools struct {
	Servers   []ToolServer  `json:"servers"`             // those that are configured
	Offered   []string      `json:"offered"`             // wire names, sorted
	Colliding []string      `json:"colliding,omitempty"` // wire names that two tools claimed, so that they led nowhere
	Gathered  *Gathered     `json:"gathered,omitempty"`  // what was asked once for all candidates
	OneFile   []OneFileTool `json:"one_file,omitempty"`  // the tools behind the door, the same bytes for all candidates
}

// OneFileTool is a one-file tool that candidates could call.
type OneFileTool struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of the file, in hexadecimal
}

// ProposedTool is a one-file tool that a candidate wrote. It was never callable.
type ProposedTool struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	File   string `json:"file"` // below the run's directory
}

// ToolServer is what became of one configured MCP server.
type ToolServer struct {
	Name          string            `json:"name"`
	Connected     bool              `json:"connected"`
	ConnectedMS   int64             `json:"connected_ms,omitempty"`
	Protocol      string            `json:"protocol,omitempty"`
	Tools         int               `json:"tools"`              // that candidates could call
	Withheld      string            `json:"withheld,omitempty"` // why candidates could call none
	WithheldTools map[string]string `json:"withheld_tools,omitempty"`
}

// Gathered is what MCP servers were asked once, before the candidates began.
type Gathered struct {
	Called   []string        `json:"called"` // wire names, sorted
	Bytes    int             `json:"bytes"`  // of the text in every brief
	Failures []GatherFailure `json:"failures"`
}

// GatherFailure is an answer that was not had. It ended nothing.
type GatherFailure struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}

// ToolUse is what a candidate called by one name.
type ToolUse struct {
	Tool    string `json:"tool"`
	Calls   int    `json:"calls"`
	Failed  int    `json:"failed,omitempty"`  // of Calls
	Refused int    `json:"refused,omitempty"` // never made
}

// NetworkUse is what a program asked for of the network where the run decides,
// and what came of it; equal requests are one. Host is "" where no request was
// understood, and "(others)" for those that were too many to be told apart.
type NetworkUse struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason,omitempty"` // why not, or what went wrong
	Count    int    `json:"count"`            // requests and connections
	Sent     int64  `json:"sent"`             // bytes
	Received int64  `json:"received"`         // bytes
}

// Hook is one call of a hook.
type Hook struct {
	Event      string `json:"event"` // SessionStart | PreToolUse | PostToolUse | Stop
	From       string `json:"from"`  // the plugin's name, or the configuration that has it
	Round      int    `json:"round"`
	Tool       string `json:"tool,omitempty"`   // whose call it was about
	Action     string `json:"action,omitempty"` // allow | deny | require_approval | modify; absent: no decision
	Reason     string `json:"reason,omitempty"`
	Text       string `json:"text,omitempty"`  // what it added to the brief
	Fault      string `json:"fault,omitempty"` // why what it said was not used
	DurationMS int64  `json:"duration_ms"`
}

// Evidence is one plugin's evidence in one round.
type Evidence struct {
	Plugin   string         `json:"plugin"`
	Round    int            `json:"round"`
	Evidence judge.Evidence `json:"evidence"`
	Fault    string         `json:"fault,omitempty"`    // why the plugin's answer was not used
	Reason   string         `json:"reason,omitempty"`   // the plugin's code for why the flip is unobservable
	Compared *Compared      `json:"compared,omitempty"` // what Evidence.Tamper rests on; absent when nothing was compared
	Passed   int            `json:"passed,omitempty"`   // of Runs, those that alone would have met the rule
	Runs     []TestRun      `json:"runs,omitempty"`     // with --repeat
	// Compromised is why the evidence could have been forged, "" when nothing
	// speaks for that.
	Compromised string `json:"compromised,omitempty"`
	OutputTail  string `json:"output_tail,omitempty"` // last lines of the test's output, redacted
	Tests       *Tests `json:"tests,omitempty"`       // what single tests did
}

// Compared is the protected files and witnesses that a tamper finding compared.
type Compared struct {
	Count int            `json:"count"`           // of all of them
	Files []ComparedFile `json:"files,omitempty"` // those that differ first, then by path; not all where there are many
}

// ComparedFile is one file before the candidate began and after its test ran.
// Digests are blob ids, as in Change.
type ComparedFile struct {
	Path    bytestring.String `json:"path"`
	Before  string            `json:"before,omitempty"`  // absent: the base does not have it
	After   string            `json:"after,omitempty"`   // absent: it is gone
	Differs bool              `json:"differs,omitempty"` // in its bytes, its mode or its kind
}

// TestRun is one repetition of a verification.
type TestRun struct {
	Flip       judge.Flip `json:"flip"`
	ExitCode   *uint64    `json:"exit_code"`
	DurationMS int64      `json:"duration_ms"`
}

// Change is what a candidate changed, tree to tree.
type Change struct {
	Tree       string       `json:"tree"`
	Files      []FileChange `json:"files"`
	Added      int          `json:"added"`           // lines
	Deleted    int          `json:"deleted"`         // lines
	Patch      string       `json:"patch"`           // path of the patch below the run's directory
	Normalised string       `json:"normalised"`      // equal for changes that differ only in white space
	Notes      []string     `json:"notes,omitempty"` // nested repositories, capped files, … each one line
}

// FileChange is one changed path.
type FileChange struct {
	Path    bytestring.String `json:"path"`
	Status  string            `json:"status"`             // added | deleted | modified | mode | type
	OldMode string            `json:"old_mode,omitempty"` // octal, git's: 100644 …
	NewMode string            `json:"new_mode,omitempty"`
	Old     string            `json:"old,omitempty"` // blob ids
	New     string            `json:"new,omitempty"`
	Binary  bool              `json:"binary,omitempty"`
	Added   int               `json:"added"`
	Deleted int               `json:"deleted"`

	// Only `diff --renames` has these: where the file was, and how much of it
	// is the same, in percent.
	From       bytestring.String `json:"from,omitempty"`
	Similarity int               `json:"similarity,omitempty"`
}

// Rank is one place of the ranking.
type Rank struct {
	Place     int    `json:"place"`
	Candidate int    `json:"candidate"`
	Agreement int    `json:"agreement"`         // candidates with the same normalised change, itself included
	Because   string `json:"because,omitempty"` // what put it below the place above
	Ties      bool   `json:"ties,omitempty"`    // with the place above
}

// Advice is what a trained model said of candidates whom the rule ranks equal.
type Advice struct {
	Trainer    string       `json:"trainer,omitempty"`
	Checkpoint string       `json:"checkpoint,omitempty"` // SHA-256 of its content
	Pairs      []Preference `json:"pairs,omitempty"`
	Fault      string       `json:"fault,omitempty"` // why there is none
}

// Preference is the answer about one pair of candidates. Equal trees are asked
// about once, by the lowest number.
type Preference struct {
	First  int `json:"first"`
	Second int `json:"second"`
	Better int `json:"better"` // one of both
}

// Adoption is how the winner reached the user.
type Adoption struct {
	Candidate int       `json:"candidate"`
	Mode      string    `json:"mode"` // apply | branch
	Branch    string    `json:"branch,omitempty"`
	Commit    string    `json:"commit,omitempty"`
	Tree      string    `json:"tree"`
	At        time.Time `json:"at"`
	Override  *Override `json:"override,omitempty"`
}

// Override is a person's decision to adopt what the judge did not choose.
type Override struct {
	Why string `json:"why"`
	Who string `json:"who"`
}

// Revision is the plan that a red gate proposes.
type Revision struct {
	Task   string   `json:"task"`   // the next attempt's task text
	Causes []string `json:"causes"` // one line for each unmet requirement of each candidate
}

// Interrupt makes the document of a run whose orchestrator died say only what
// is known: nothing was chosen and nothing adopted.
func (d *Document) Interrupt() {
	d.Phase, d.Owner = Interrupted, nil
	d.Winner, d.Tie, d.Ranking, d.Adopted = nil, nil, []Rank{}, nil
	d.Reason = "interrupted: the orchestrator died before the run ended; run it again"
	d.Withheld = d.Reason
	d.ExitCode = interruptedStatus
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if c.State != candidate.Done {
			c.State, c.Outcome, c.Detail = candidate.Done, candidate.Cancelled, "the orchestrator died"
		}
	}
}

// NotStarted is the detail of a candidate that never began.
const NotStarted = "not started"

// AnyStarted reports whether any candidate began.
func (d Document) AnyStarted() bool {
	return slices.ContainsFunc(d.Candidates, func(c Candidate) bool { return c.Detail != NotStarted })
}

// interruptedStatus is the exit status of an interrupted run.
const interruptedStatus = 130
