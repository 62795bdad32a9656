package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/internal/stricttoml"
	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/hook"
)

// A fileConfig is config.toml. Pointers and nil slices tell what was not said.
type fileConfig struct {
	Run     runSettings               `toml:"run"`
	Agents  map[string]agentSettings  `toml:"agents"`
	Sandbox sandboxSettings           `toml:"sandbox"`
	Rank    rankSettings              `toml:"rank"`
	Plugins pluginSettings            `toml:"plugins"`
	Plugin  map[string]onePlugin      `toml:"plugin"` // by name
	Hooks   map[string][]hookSettings `toml:"hooks"`
	Keep    keepSettings              `toml:"keep"`
	Network networkSettings           `toml:"network"`
	MCP     mcpSettings               `toml:"mcp"`   // of the operator's file only; see mcpConfig
	Tools   toolSettings              `toml:"tools"` // of the operator's file only; see toolbox
	Machine machineSettings           `toml:"machine"`
}

type runSettings struct {
	Candidates     *int      `toml:"candidates"`
	Agents         *string   `toml:"agents"`
	Test           *string   `toml:"test"`
	Setup          *string   `toml:"setup"`
	Base           *string   `toml:"base"`
	Expect         *string   `toml:"expect"`
	Sandbox        *string   `toml:"sandbox"`
	Network        *string   `toml:"network"`
	Shadow         *string   `toml:"shadow"`
	Timeout        *duration `toml:"timeout"`
	Deadline       *duration `toml:"deadline"`
	TestTimeout    *duration `toml:"test_timeout"`
	Jobs           *int      `toml:"jobs"`
	Protect        []string  `toml:"protect"`
	Unprotect      []string  `toml:"unprotect"`
	Repeat         *int      `toml:"repeat"`
	Stop           *string   `toml:"stop"`
	Adopt          *string   `toml:"adopt"`
	History        *string   `toml:"history"`
	Holds          *int      `toml:"holds"`
	VerifyTimeouts *bool     `toml:"verify_timeouts"`
	Blocks         *int      `toml:"blocks"`
	Plugins        *string   `toml:"plugins"`
	MCP            *string   `toml:"mcp"`
}

type agentSettings struct {
	Command     []string          `toml:"command"`
	Args        []string          `toml:"args"`
	Prompt      string            `toml:"prompt"`
	Env         []string          `toml:"env"`
	Set         map[string]string `toml:"set"`
	Files       map[string]string `toml:"files"`
	Network     string            `toml:"network"`
	Hosts       []string          `toml:"hosts"`
	Forward     map[string]string `toml:"forward"` // variable → base URL
	Description string            `toml:"description"`
}

type sandboxSettings struct {
	Read       []string `toml:"read"`
	Image      *string  `toml:"image"`
	Dockerfile *string  `toml:"dockerfile"` // relative to the repository, or to $BESTOF_HOME in the operator's file
	CPUs       *float64 `toml:"cpus"`
	Memory     *string  `toml:"memory"`
	PIDs       *int64   `toml:"pids"`
	Warm       *bool    `toml:"warm"`
}

// below makes the path of the Dockerfile absolute.
func (s *sandboxSettings) below(dir string) {
	if s.Dockerfile != nil && !filepath.IsAbs(*s.Dockerfile) {
		abs := filepath.Join(dir, *s.Dockerfile)
		s.Dockerfile = &abs
	}
}

type rankSettings struct {
	Measurements []string `toml:"measurements"`
}

type pluginSettings struct {
	Candidates *int     `toml:"candidates"`
	Off        []string `toml:"off"` // retracted, in whichever scope they are
}

type onePlugin struct {
	Image string `toml:"image"` // of its own, for its containers
}

type hookSettings struct {
	Command []string `toml:"command"`
	Timeout duration `toml:"timeout"`
	Matcher string   `toml:"matcher"` // of tools' names
	Network bool     `toml:"network"`
	from    string   // where it is written
}

// machineSettings count in the operator's file only.
type machineSettings struct {
	Candidates *int `toml:"candidates"` // that run at once, of all runs, batches and jobs together
}

type keepSettings struct {
	Runs  *int      `toml:"runs"`
	Older *duration `toml:"older_than"`
	Bases *string   `toml:"bases"`
}

// duration is a time.Duration that TOML writes as a string: "90s", "15m".
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a length of time: write for example 90s or 15m", b)
	}
	*d = duration(v)
	return nil
}

// trusted reads BESTOF_TRUST_PROJECT: only 1, true, yes and on open the gate.
func trusted(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}

// loadConfig reads the operator's config.toml and, when the project is
// trusted, the repository's; what the repository says comes first. notices are
// for stderr.
func loadConfig(home, top string, trust bool) (cfg fileConfig, notices []string, err error) {
	operator, err := readConfig(home, "config.toml", filepath.Join(home, "config.toml"))
	label(operator.Hooks, "$BESTOF_HOME/config.toml")
	operator.Sandbox.below(home)
	if err != nil || top == "" {
		return operator, nil, err
	}
	const name = ".bestof/config.toml"
	if !trust {
		if _, err := os.Lstat(filepath.Join(top, name)); err == nil {
			notices = append(notices, name+" is not read, since this repository is not trusted (BESTOF_TRUST_PROJECT=1 trusts it)")
		}
		return operator, notices, nil
	}
	project, err := readConfig(top, name, name)
	if err != nil {
		return fileConfig{}, nil, err
	}
	label(project.Hooks, name)
	project.Sandbox.below(top)
	if project.MCP != (mcpSettings{}) {
		notices = append(notices, name+": [mcp] counts for nothing: it belongs into $BESTOF_HOME/config.toml")
	}
	if project.Machine != (machineSettings{}) {
		notices = append(notices, name+": [machine] counts for nothing: it belongs into $BESTOF_HOME/config.toml")
	}
	if project.Tools.said() {
		notices = append(notices, name+": [tools] counts for nothing: it belongs into $BESTOF_HOME/config.toml")
	}
	return merge(project, operator), notices, nil
}

// configuration is loadConfig for a site, with its notices on stderr.
func (a *app) configuration(s *site) (fileConfig, error) {
	cfg, notices, err := loadConfig(s.home, s.repo.Root(), trusted(a.getenv("BESTOF_TRUST_PROJECT")))
	for _, n := range notices {
		a.warn("%s", n)
	}
	return cfg, err
}

// readConfig reads name below dir without following a link out of it. A file
// that is not there is an empty configuration.
func readConfig(dir, name, shown string) (fileConfig, error) {
	var cfg fileConfig
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, nil
	}
	if err != nil {
		return cfg, fmt.Errorf("read %s: %w", shown, err)
	}
	defer root.Close()
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, nil
	}
	if err != nil {
		return cfg, usagef("read %s: %w", shown, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return cfg, usagef("read %s: not a regular file", shown)
	}
	data, err := io.ReadAll(io.LimitReader(f, stricttoml.MaxSize+1))
	if err != nil {
		return cfg, fmt.Errorf("read %s: %w", shown, err)
	}
	if err := stricttoml.Decode(shown, data, &cfg); err != nil {
		return cfg, usageError{err}
	}
	if err := checkHooks(shown, data, cfg.Hooks); err != nil {
		return cfg, usageError{err}
	}
	if err := checkTools(shown, data, cfg.Tools); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}

// checkHooks refuses hooks that could never be called, the first of them by
// name.
func checkHooks(shown string, data []byte, hooks map[string][]hookSettings) error {
	for _, event := range sortedKeys(hooks) {
		at := []any{"hooks", event}
		problem := ""
		switch e := hook.Event(event); {
		case !slices.Contains(plugin.Hooks(), e):
			problem = fmt.Sprintf("[[hooks.%s]]: there is no such moment: write one of %s", event, seenHooks())
		case !slices.Contains(hook.Seen(), e):
			problem = fmt.Sprintf("[[hooks.%s]]: it happens inside an agent, where nothing can be asked: write one of %s", event, seenHooks())
		}
		for i, h := range hooks[event] {
			if problem == "" && (len(h.Command) == 0 || h.Command[0] == "") {
				at = append(at, i)
				problem = fmt.Sprintf("[[hooks.%s]]: command is missing: write command = [\"program\", \"argument\"]", event)
			}
			if problem == "" && h.Matcher != "" && !hook.OfTools(hook.Event(event)) {
				at = append(at, i, "matcher")
				problem = fmt.Sprintf("[[hooks.%s]]: matcher is about the names of tools, and there is none at %s: take it out", event, event)
			}
		}
		if problem != "" {
			return &stricttoml.Error{Name: shown, Line: stricttoml.Locate(data).Line(at...), Problem: problem}
		}
	}
	return nil
}

// seenHooks lists the moments of hooks for people.
func seenHooks() string {
	var names []string
	for _, e := range hook.Seen() {
		names = append(names, string(e))
	}
	return strings.Join(names, ", ")
}

// label says of each hook where it is written.
func label(hooks map[string][]hookSettings, file string) {
	for _, list := range hooks {
		for i := range list {
			if list[i].from = file; len(list) > 1 {
				list[i].from += fmt.Sprintf(" (%d)", i+1)
			}
		}
	}
}

// merge lets first win over second, key by key; lists and agents are replaced
// whole. Hooks and retractions of both count: neither takes from the other.
func merge(first, second fileConfig) fileConfig {
	r, s := &first.Run, second.Run
	r.Candidates = either(r.Candidates, s.Candidates)
	r.Agents = either(r.Agents, s.Agents)
	r.Test = either(r.Test, s.Test)
	r.Setup = either(r.Setup, s.Setup)
	r.Base = either(r.Base, s.Base)
	r.Expect = either(r.Expect, s.Expect)
	r.Sandbox = either(r.Sandbox, s.Sandbox)
	r.Network = either(r.Network, s.Network)
	r.Shadow = either(r.Shadow, s.Shadow)
	r.Timeout = either(r.Timeout, s.Timeout)
	r.Deadline = either(r.Deadline, s.Deadline)
	r.TestTimeout = either(r.TestTimeout, s.TestTimeout)
	r.Jobs = either(r.Jobs, s.Jobs)
	r.Repeat = either(r.Repeat, s.Repeat)
	r.Stop = either(r.Stop, s.Stop)
	r.Adopt = either(r.Adopt, s.Adopt)
	r.History = either(r.History, s.History)
	r.Holds = either(r.Holds, s.Holds)
	r.VerifyTimeouts = either(r.VerifyTimeouts, s.VerifyTimeouts)
	r.Plugins = either(r.Plugins, s.Plugins)
	r.MCP = either(r.MCP, s.MCP)
	r.Blocks = either(r.Blocks, s.Blocks)
	first.Plugins.Off = slices.Concat(second.Plugins.Off, first.Plugins.Off)
	hooks := map[string][]hookSettings{}
	for _, e := range hook.Seen() {
		hooks[string(e)] = slices.Concat(second.Hooks[string(e)], first.Hooks[string(e)])
	}
	first.Hooks = hooks
	first.Plugins.Candidates = either(first.Plugins.Candidates, second.Plugins.Candidates)
	if r.Protect == nil {
		r.Protect = s.Protect
	}
	if r.Unprotect == nil {
		r.Unprotect = s.Unprotect
	}
	first.Sandbox = first.Sandbox.or(second.Sandbox)
	first.Plugin = overlay(second.Plugin, first.Plugin)
	if first.Rank.Measurements == nil {
		first.Rank.Measurements = second.Rank.Measurements
	}
	first.Network.merge(second.Network)
	first.Keep.Runs = either(first.Keep.Runs, second.Keep.Runs)
	first.Keep.Older = either(first.Keep.Older, second.Keep.Older)
	first.Keep.Bases = either(first.Keep.Bases, second.Keep.Bases)
	first.MCP, first.Machine, first.Tools = second.MCP, second.Machine, second.Tools // a repository has no say in them
	first.Agents = overlay(second.Agents, first.Agents)
	return first
}

// or is s where it says something, and t elsewhere. An image and a Dockerfile
// are two answers to one question.
func (s sandboxSettings) or(t sandboxSettings) sandboxSettings {
	if s.Read == nil {
		s.Read = t.Read
	}
	if s.Image == nil && s.Dockerfile == nil {
		s.Image, s.Dockerfile = t.Image, t.Dockerfile
	}
	s.CPUs = either(s.CPUs, t.CPUs)
	s.Memory = either(s.Memory, t.Memory)
	s.PIDs = either(s.PIDs, t.PIDs)
	s.Warm = either(s.Warm, t.Warm)
	return s
}

func either[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// agents returns the definitions by name: the presets and what the
// configuration defines, which wins.
func (c fileConfig) agents() (map[string]agent.Definition, error) {
	all := map[string]agent.Definition{}
	for _, d := range agent.Presets() {
		all[d.Name] = d
	}
	for name, a := range c.Agents {
		d := agent.Definition{
			Name: name, Command: a.Command, Prompt: agent.PromptVia(a.Prompt), PassEnv: a.Env,
			Env: a.Set, Files: a.Files, Network: agent.Network(a.Network), Models: a.models(), Forward: a.Forward, Description: a.Description,
		}
		if len(a.Command) == 0 {
			preset, ok := all[name]
			if !ok {
				return nil, usagef("agent %q: command is missing: write command = [\"program\", \"argument\"]", name)
			}
			d = a.extend(preset)
		}
		d.Command = append(slices.Clone(d.Command), a.Args...)
		if err := d.Validate(); err != nil {
			return nil, usageError{err}
		}
		all[name] = d
	}
	return all, nil
}

// models are the hosts of the configuration.
func (a agentSettings) models() []agent.Model {
	var all []agent.Model
	for _, h := range a.Hosts {
		all = append(all, agent.Model{Host: h})
	}
	return all
}

// extend adds to a preset what the configuration says besides its command.
func (a agentSettings) extend(d agent.Definition) agent.Definition {
	d.PassEnv = append(slices.Clone(d.PassEnv), a.Env...)
	d.Env, d.Files = overlay(d.Env, a.Set), overlay(d.Files, a.Files)
	d.Forward = overlay(d.Forward, a.Forward)
	if a.Hosts != nil {
		d.Models = a.models()
	}
	if a.Network != "" {
		d.Network = agent.Network(a.Network)
	}
	if a.Description != "" {
		d.Description = a.Description
	}
	return d
}

// overlay is below with above on top of it.
func overlay[V any](below, above map[string]V) map[string]V {
	out := maps.Clone(below)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, above)
	return out
}

// goals reads [rank] measurements: a name is better when lower, a name with
// ":higher" when higher.
func (c fileConfig) goals() ([]judge.Goal, error) {
	var goals []judge.Goal
	for _, m := range c.Rank.Measurements {
		name, direction, _ := strings.Cut(m, ":")
		if name == "" || (direction != "" && direction != "lower" && direction != "higher") {
			return nil, usageError{fmt.Errorf("[rank] measurements: %q: write the name, or name:higher", m)}
		}
		goals = append(goals, judge.Goal{Measurement: name, Higher: direction == "higher"})
	}
	return goals, nil
}
