// Package agent says how an agent is started: definitions are data, and a plan
// is what a sandbox needs to run one. It is pure. Success is never judged here
// nor from an exit code: several agents exit 0 without having edited anything.
//
// What an agent prints is a log. Reading a program's own event stream (usage,
// cost) belongs beside its preset, one file per program.
package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/internal/hosts"
)

// A PromptVia is how an agent is given its prompt.
type PromptVia string

// The ways to give a prompt. The zero value means PromptStdin.
const (
	PromptStdin    PromptVia = "stdin"
	PromptArgument PromptVia = "argument" // the text replaces {prompt} in one element of Command
	PromptFile     PromptVia = "file"     // the path of a file with the text replaces {prompt_file}
)

// A Network is what an agent needs to reach in order to work at all.
type Network string

// The networks. The zero value means NetworkGateway where Models are declared,
// and NetworkNone elsewhere.
const (
	NetworkNone    Network = "none"
	NetworkGateway Network = "gateway" // the hosts of Models and no others
	NetworkHost    Network = "host"    // any
)

// A Model is where an agent finds its model.
type Model struct {
	Host    string // as hosts.ParseRule reads it
	BaseURL string // a variable that, where it is set, names another place instead; "" if there is none
}

// MaxArgument is the longest prompt that is passed as an argument. Linux
// refuses a single argument of 128 KiB with its terminating zero byte; a
// longer prompt is written to a file and the argument says where it is.
const MaxArgument = 120 << 10

// A Definition says how one agent is started.
type Definition struct {
	Name    string
	Command []string // program and arguments; never a shell string
	Prompt  PromptVia
	PassEnv []string          // names taken from the operator's environment: keys, base URLs
	Env     map[string]string // set as they are
	Files   map[string]string // seeded below HOME: relative slash path → content
	Network Network
	Models  []Model // what it reaches, as long as the run does not open more

	// Forward is for programs that ask no proxy: a variable, and the base URL
	// that it stands for. Where the network is not open the variable leads to
	// the program's own loopback, and from there to the URL.
	Forward     map[string]string
	Description string // one line for people
	Builtin     bool   // part of this binary: Command is appended to Self
}

const (
	promptMark     = "{prompt}"
	promptFileMark = "{prompt_file}"
	promptFileName = ".bestof-prompt.md"
)

var (
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	envForm  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// reserved are the variables by which a sandbox keeps candidates apart. An
// agent that set one would share state with its siblings.
func reserved(name string) bool {
	switch name {
	case "HOME", "TMPDIR", "PWD", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR":
		return true
	}
	return strings.HasPrefix(name, "BESTOF_")
}

// Validate reports the first thing that is wrong with d, naming the agent and
// the key as a settings file spells it.
func (d Definition) Validate() error {
	bad := func(key, format string, args ...any) error {
		return fmt.Errorf("agent %q: %s: %s", d.Name, key, fmt.Sprintf(format, args...))
	}
	if !nameForm.MatchString(d.Name) {
		return bad("name", "use 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit")
	}
	if len(d.Command) == 0 || d.Command[0] == "" {
		return bad("command", "is empty; write a program and its arguments")
	}
	prompts, files := 0, 0
	for i, arg := range d.Command {
		if strings.ContainsRune(arg, 0) {
			return bad("command", "element %d holds a zero byte", i+1)
		}
		if i == 0 && (strings.Contains(arg, promptMark) || strings.Contains(arg, promptFileMark)) {
			return bad("command", "the program itself cannot be the prompt")
		}
		prompts += strings.Count(arg, promptMark)
		files += strings.Count(arg, promptFileMark)
	}
	want := map[PromptVia][2]int{"": {0, 0}, PromptStdin: {0, 0}, PromptArgument: {1, 0}, PromptFile: {0, 1}}
	marks, ok := want[d.Prompt]
	switch {
	case !ok:
		return bad("prompt", "is %q; use stdin, argument or file", d.Prompt)
	case prompts != marks[0]:
		return bad("command", "holds %s %d times; prompt = %q needs it %d times", promptMark, prompts, d.via(), marks[0])
	case files != marks[1]:
		return bad("command", "holds %s %d times; prompt = %q needs it %d times", promptFileMark, files, d.via(), marks[1])
	}
	for _, name := range d.PassEnv {
		if !envForm.MatchString(name) || reserved(name) {
			return bad("pass_env", "%q cannot be passed on", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		if !envForm.MatchString(name) || reserved(name) {
			return bad("env", "%q cannot be set", name)
		}
		if strings.ContainsRune(d.Env[name], 0) {
			return bad("env", "%s holds a zero byte", name)
		}
	}
	paths := slices.Sorted(maps.Keys(d.Files))
	for i, p := range paths {
		if p == "" || p == "." || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsAny(p, "\x00\\") {
			return bad("files", "%q is not a clean path below HOME", p)
		}
		if p == promptFileName {
			return bad("files", "%q is where the prompt is written", p)
		}
		for _, q := range paths[i+1:] {
			if strings.HasPrefix(q, p+"/") {
				return bad("files", "%q is both a file and a directory", p)
			}
		}
	}
	for _, m := range d.Models {
		if _, err := hosts.ParseRule(m.Host); err != nil {
			return bad("hosts", "%v", err)
		}
		if m.BaseURL != "" && !envForm.MatchString(m.BaseURL) {
			return bad("hosts", "%q is not the name of a variable", m.BaseURL)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Forward)) {
		if !envForm.MatchString(name) || reserved(name) {
			return bad("forward", "%q cannot be set", name)
		}
		if _, err := ruleOf(d.Forward[name]); err != nil {
			return bad("forward", "%s: %v", name, err)
		}
		if strings.ContainsAny(d.Forward[name], "?#@") {
			return bad("forward", "%s: a base URL has a host and a path and nothing else", name)
		}
	}
	switch d.Network {
	case "", NetworkNone, NetworkHost:
		return nil
	case NetworkGateway:
		if len(d.Models)+len(d.Forward) == 0 {
			return bad("network", "is gateway, which leads to declared hosts: add hosts = [\"api.example.com\"]")
		}
		return nil
	}
	return bad("network", "is %q; use none, gateway or host", d.Network)
}

// Needs is Network with its zero value told.
func (d Definition) Needs() Network {
	switch {
	case d.Network != "":
		return d.Network
	case len(d.Models)+len(d.Forward) > 0:
		return NetworkGateway
	}
	return NetworkNone
}

// baseURL ends the names of variables that say where a model is.
const baseURL = "_BASE_URL"

// Reaches lists the hosts of d's models for an operator whose environment
// getenv reads: where a variable that the agent is given says where a model is,
// that place counts, and not the declared one that it stands for.
func (d Definition) Reaches(getenv func(string) string) ([]hosts.Rule, error) {
	var rules []hosts.Rule
	add := func(r hosts.Rule) {
		if !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	places := map[string]hosts.Rule{} // by variable
	for _, name := range slices.Concat(d.PassEnv, slices.Sorted(maps.Keys(d.Env))) {
		value, set := d.Env[name]
		if !set {
			value = getenv(name)
		}
		if value == "" || !strings.HasSuffix(name, baseURL) && !slices.ContainsFunc(d.Models, func(m Model) bool { return m.BaseURL == name }) {
			continue
		}
		r, err := ruleOf(value)
		if err != nil {
			return nil, fmt.Errorf("agent %q: %s: %w", d.Name, name, err)
		}
		places[name] = r
		add(r)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Forward)) {
		r, err := ruleOf(d.Forward[name])
		if err != nil {
			return nil, fmt.Errorf("agent %q: forward: %s: %w", d.Name, name, err)
		}
		add(r)
	}
	for _, m := range d.Models {
		if _, moved := places[m.BaseURL]; moved {
			continue
		}
		r, err := hosts.ParseRule(m.Host)
		if err != nil {
			return nil, fmt.Errorf("agent %q: hosts: %w", d.Name, err)
		}
		add(r)
	}
	return rules, nil
}

// ruleOf is the rule that lets through exactly what a base URL names.
func ruleOf(base string) (hosts.Rule, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return hosts.Rule{}, errors.New("not a URL that begins with http:// or https://") // the value may hold a secret
	}
	port := uint16(hosts.HTTPS)
	if u.Scheme == "http" {
		port = hosts.HTTP
	}
	t, err := hosts.ParseTarget(u.Host, port)
	if err != nil {
		return hosts.Rule{}, fmt.Errorf("its host cannot be read: %w", err)
	}
	return hosts.Rule{Name: t.Name, Addr: t.Addr, Port: t.Port}, nil
}

func (d Definition) via() PromptVia {
	if d.Prompt == "" {
		return PromptStdin
	}
	return d.Prompt
}

// A PlanContext is where a candidate will run. Paths are those seen inside the
// sandbox.
type PlanContext struct {
	Home    string        // absolute
	Root    string        // absolute: the shadow
	WorkDir string        // slash path below Root to start in, "" for Root itself
	Self    string        // absolute path of this binary, needed by built-in agents
	Timeout time.Duration // the candidate's whole time, 0 if none
}

// An Invocation is a planned start of an agent.
type Invocation struct {
	Argv       []string
	Stdin      []byte // empty means an empty stdin, never the operator's
	Env        map[string]string
	PassEnv    []string
	Files      map[string][]byte // to be written below HOME before the start
	PromptFile string            // the one of Files that holds the prompt, "" if none
}

// Plan says how to start d for the candidate that b describes.
func (d Definition) Plan(b candidate.Brief, at PlanContext) (Invocation, error) {
	if err := d.Validate(); err != nil {
		return Invocation{}, err
	}
	inv := Invocation{Env: map[string]string{}, PassEnv: slices.Clone(d.PassEnv), Files: map[string][]byte{}}
	if d.Builtin {
		return d.planBuiltin(inv, b, at)
	}
	// No agent may ask, page or colour; all of those known need no terminal.
	maps.Copy(inv.Env, map[string]string{"CI": "1", "NO_COLOR": "1", "TERM": "dumb"})
	maps.Copy(inv.Env, d.Env)
	maps.Copy(inv.Env, d.Forward)
	for p, content := range d.Files {
		inv.Files[p] = []byte(content)
	}
	text := Prompt(b)
	toFile := func() string {
		inv.PromptFile = promptFileName
		inv.Files[promptFileName] = []byte(text)
		return path.Join(at.Home, promptFileName)
	}
	mark, value := "", ""
	switch d.via() {
	case PromptStdin:
		inv.Stdin = []byte(text)
	case PromptFile:
		mark, value = promptFileMark, toFile()
	case PromptArgument:
		mark, value = promptMark, text
		if len(text) > MaxArgument {
			value = "Your task is written in the file " + toFile() + ". Read all of that file, then do what it says."
		}
		if strings.ContainsRune(value, 0) {
			return Invocation{}, fmt.Errorf("agent %q: the prompt holds a zero byte, which an argument cannot", d.Name)
		}
	}
	for _, arg := range d.Command {
		if mark != "" {
			arg = strings.Replace(arg, mark, value, 1)
		}
		inv.Argv = append(inv.Argv, arg)
	}
	return inv, nil
}

// A Job is what a built-in agent reads from its stdin, as one JSON object.
type Job struct {
	Candidate  int      `json:"candidate"`  // 1-based
	Candidates int      `json:"candidates"` // how many share the work
	Round      int      `json:"round"`
	Root       string   `json:"root"` // absolute: the shadow
	Test       []string `json:"test"`
	Protected  []string `json:"protected"`
	Timeout    string   `json:"timeout"` // a Go duration, "0s" if none
	Tries      int      `json:"tries"`   // how often the test may be tried, 0 for no limit but time
}

// ParseJob reads the JSON form of a Job strictly.
func ParseJob(b []byte) (Job, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var j Job
	if err := dec.Decode(&j); err != nil {
		return Job{}, fmt.Errorf("read the job: %w", err)
	}
	if dec.More() {
		return Job{}, fmt.Errorf("read the job: more follows the object")
	}
	switch {
	case j.Candidate < 1 || j.Candidates < j.Candidate:
		return Job{}, fmt.Errorf("read the job: candidate %d of %d does not exist", j.Candidate, j.Candidates)
	case j.Tries < 0:
		return Job{}, fmt.Errorf("read the job: %d tries are not possible", j.Tries)
	case j.Round < 0:
		return Job{}, fmt.Errorf("read the job: round %d does not exist", j.Round)
	case !path.IsAbs(j.Root):
		return Job{}, fmt.Errorf("read the job: root %q is not an absolute path", j.Root)
	}
	if d, err := time.ParseDuration(j.Timeout); err != nil || d < 0 {
		return Job{}, fmt.Errorf("read the job: timeout %q is not a duration", j.Timeout)
	}
	return j, nil
}

func (d Definition) planBuiltin(inv Invocation, b candidate.Brief, at PlanContext) (Invocation, error) {
	if !path.IsAbs(at.Self) {
		return Invocation{}, fmt.Errorf("agent %q: the path of this program inside the sandbox is not known", d.Name)
	}
	if len(b.Test) == 0 {
		return Invocation{}, fmt.Errorf("agent %q searches for an edit that makes a test pass: give the run a test command", d.Name)
	}
	job := Job{
		Candidate: int(b.Number), Candidates: max(b.Candidates, int(b.Number)), Round: b.Round,
		Root: at.Root, Test: b.Test, Protected: b.Protected, Timeout: at.Timeout.String(),
	}
	in, err := json.Marshal(job)
	if err != nil {
		return Invocation{}, fmt.Errorf("agent %q: write the job: %w", d.Name, err)
	}
	maps.Copy(inv.Env, d.Env)
	inv.Argv = append([]string{at.Self}, d.Command...)
	inv.Stdin = in
	return inv, nil
}
