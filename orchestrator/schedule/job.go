// Package schedule decides when jobs run and what becomes of each of their
// fires. It is pure: the time is an argument, and Decide turns what is known
// into decisions that print. The ledger keeps, and the runner does.
package schedule

import (
	"time"
	_ "time/tzdata" // zones exist in a container that has nothing else
)

// A Job is an invocation of this program with the times at which it is made.
type Job struct {
	Name       string   // ^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$: also a name for units of systemd and Kubernetes
	Trigger    Trigger  // when
	Command    []string // the invocation after the program's name: "run" or "batch" and its arguments
	Repository string   // absolute path; looked at again whenever the job fires
	Settings   Settings // of the day on which the job was added
	Task       Task     // what the invocation is given to do
	Policy     Policy
	Result     Result
	Paused     bool // nothing fires but by hand
	Created    time.Time
	Revision   int64 // 1, and one more with each edit
}

// A TriggerKind is a way to say when.
type TriggerKind string

// The kinds of triggers.
const (
	Cron  TriggerKind = "cron"
	At    TriggerKind = "at"
	Every TriggerKind = "every"
)

// A Trigger says when a job fires. Only the fields of its kind are set.
type Trigger struct {
	Kind  TriggerKind
	Cron  string        // five fields, or a word such as @daily
	Zone  string        // of Cron: a name of the time zone database; never "" or Local
	At    time.Time     // of At
	Every time.Duration // of Every: a minute to 366 days
	From  time.Time     // of Every: it fires at From + Every, From + 2·Every …
}

// Settings are those that were in effect when the job was added. A job runs
// with them whatever the repository says later.
type Settings struct {
	Document []byte // as the one who froze them wrote it
	Digest   string // "sha256:" and the digest of Document in hexadecimal; "" without a document
}

// A TaskKind is where a job's task comes from.
type TaskKind string

// The kinds of tasks.
const (
	TaskArgument TaskKind = ""        // it is in Command
	TaskText     TaskKind = "text"    // fixed
	TaskFile     TaskKind = "file"    // read when the job fires
	TaskCommand  TaskKind = "command" // what a program prints in a sandbox when the job fires
)

// A Task is what a job's invocation is given to do.
type Task struct {
	Kind    TaskKind
	Text    string
	File    string   // absolute, or below the repository
	Command []string // program and arguments; never a shell string
}

// An Adopt is what becomes of a winner.
type Adopt string

// What becomes of a winner. Nothing is ever pushed.
const (
	AdoptReport Adopt = "report" // it stays in its record
	AdoptBranch Adopt = "branch" // it becomes a branch of the repository
	AdoptApply  Adopt = "apply"  // it is written to the repository's tree
	AdoptPatch  Adopt = "patch"  // its patch is written to a folder
)

// A Result says what happens when a run of a job ended.
type Result struct {
	Adopt    Adopt
	Folder   string   // of AdoptPatch: absolute
	OnFinish []string // program and arguments, given the result document; none if empty
	Sandbox  bool     // OnFinish runs in a sandbox
	Webhooks []Webhook
}

// A Webhook is told how runs ended.
type Webhook struct {
	URL    string // https, or http to this machine
	Secret string // name of the secret that signs; never the secret itself; "" for none
}

// DefaultResult leaves a winner in its record.
func DefaultResult() Result { return Result{Adopt: AdoptReport} }
