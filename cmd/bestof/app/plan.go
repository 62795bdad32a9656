package app

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/argv"
	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/internal/term"
	"github.com/bestof-dev/bestof/orchestrator"
	"github.com/bestof-dev/bestof/orchestrator/plan"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/orchestrator/schedule/slots"
	"github.com/bestof-dev/bestof/plugin/store"
	"github.com/bestof-dev/bestof/worktree"
)

// plan turns options into a turn's configuration, and refuses whatever can be
// known to be wrong before anything is spent.
func (a *app) plan(ctx context.Context, s *site, o runOptions, file fileConfig, counted bool) (orchestrator.Config, error) {
	var none orchestrator.Config
	for _, c := range []struct {
		ok   bool
		flag string
		want string
	}{
		{o.candidates >= 1 && o.candidates <= agent.MaxCandidates, "-n", fmt.Sprintf("a number from 1 to %d", agent.MaxCandidates)},
		{o.jobs >= 1, "--jobs", "a number from 1"},
		{o.repeat >= 1 && o.repeat <= 100, "--repeat", "a number from 1 to 100"},
		{o.holds >= 0 && o.holds <= 100, "--holds", "a number from 0 to 100"},
		{o.timeout > 0, "--timeout", "a length of time, for example 15m"},
		{o.testTimeout > 0, "--test-timeout", "a length of time, for example 10m"},
		{o.deadline >= 0, "--deadline", "a length of time, for example 1h"},
		{slices.Contains([]string{orchestrator.ExpectFlip, orchestrator.ExpectPass}, o.expect), "--expect", "flip or pass"},
		{slices.Contains([]string{"all", "first"}, o.stop), "--stop", "all or first"},
		{slices.Contains([]string{"auto", "overlay", "userns", "btrfs", "engine", "reflink", "copy"}, o.shadow), "--shadow", "auto, overlay, userns, btrfs, engine, reflink or copy"},
		{o.allow == "" || o.allow == "undecided", "--allow", "undecided"},
	} {
		if !c.ok {
			return none, usagef("%s: write %s", c.flag, c.want)
		}
	}
	net, err := parseNetwork("--network", o.network)
	if err != nil {
		return none, err
	}
	setupNet, err := parseNetwork("--setup-network", o.setupNetwork)
	if err != nil {
		return none, err
	}
	limits, err := file.Network.limits()
	if err != nil {
		return none, err
	}
	adopt, err := parseAdopt(o.adopt)
	if err != nil {
		return none, err
	}
	if adopt.mode == worktree.AdoptBranch {
		branch := adopt.branch
		if branch == "" {
			branch = "bestof/run" // the run's own name comes later, and is free
		}
		if err := a.canBranch(ctx, s, branch, ""); err != nil && adopt.branch != "" {
			return none, err
		}
	}
	for _, glob := range slices.Concat(o.protect, o.unprotect) {
		if err := plan.CheckGlob(glob); err != nil {
			return none, usagef("--protect, --unprotect: %w", err)
		}
	}
	history := 0
	if o.history != "full" {
		n, err := strconv.Atoi(o.history)
		if err != nil || n < 1 {
			return none, usagef("--history: write a number from 1, or full")
		}
		history = n
	}
	test, err := splitCommand("--test", o.test)
	if err != nil {
		return none, err
	}
	plugins, err := a.takePart(s, o.plugins, file.Plugins.Off)
	if err != nil {
		return none, err
	}
	arbiter := slices.ContainsFunc(plugins, func(p store.Installed) bool { return p.Loop.MayHold() })
	if len(test) == 0 && !arbiter && o.allow != "undecided" {
		return none, usagef("there is nothing to verify with: give a test with --test 'COMMAND', install a plugin that verifies, or ask for a ranking without evidence with --allow undecided")
	}
	ceiling, err := file.widest()
	if err != nil {
		return none, err
	}
	if n := a.wanted(plugins, ceiling); n > 0 && !counted && !strings.ContainsAny(o.agents, ":,") {
		o.candidates, counted = n, true
	}
	seats, counts, err := seatsOf(o, file, counted)
	if err != nil {
		return none, err
	}
	if err := a.connect(seats, net); err != nil {
		return none, err
	}
	if err := a.canRun(seats, o.sandbox == "docker"); err != nil {
		return none, err
	}
	goals, err := file.goals()
	if err != nil {
		return none, err
	}
	hidden := append([]string{s.repo.Root(), s.home, s.scratch}, s.hidden...)
	options := sandbox.Options{Environ: a.Environ, Read: expandHome(file.Sandbox.Read, a.getenv("HOME")), Hidden: hidden}
	box, err := a.box(ctx, s, &o, file, options, plugins)
	if err != nil {
		return none, err
	}
	if err := canConnect(seats, setupNet, box.isolation); err != nil {
		return none, err
	}
	setup, err := splitCommand("--setup", o.setup)
	if err != nil {
		return none, err
	}
	self, err := a.self()
	if err != nil {
		return none, err
	}
	kind, rev := worktree.BaseRev, o.base
	switch o.base {
	case "snapshot":
		kind, rev = worktree.BaseSnapshot, ""
	case "head":
		kind, rev = worktree.BaseHead, ""
		if s.repo.Head() == "" {
			return none, usagef("--base head: this branch has no commit yet: leave it out to start from your tree as it is")
		}
	default:
		if _, err := s.repo.Resolve(ctx, rev); err != nil {
			return none, usagef("--base: %w", err)
		}
	}
	cfg := orchestrator.Config{
		Repo: s.repo, Store: s.store, Sandbox: box.sandbox, Prepare: box.prepare, Self: self, Now: time.Now, Redactor: redact.New(redact.FromEnviron(a.Environ)),
		Version: version(), Task: o.task, RevisionOf: o.revisionOf, Seats: seats,
		Shadow: worktree.ShadowKind(strings.TrimPrefix(o.shadow, "auto")), BaseKind: kind, BaseRev: rev,
		Protect: o.protect, Unprotect: o.unprotect,
		Timeout: o.timeout, TestLimit: o.testTimeout, Deadline: o.deadline,
		SetupNetwork: setupNet.open(), SetupReach: setupNet.allow, NetworkLimits: limits, VerifyTimeouts: o.verifyTimeouts,
		Settings: record.Settings{
			Candidates: len(seats), Agents: counts, Test: test, Expect: o.expect, Setup: setup, Base: o.base, History: history,
			Isolation: box.isolation, Network: net.text, TimeoutMS: o.timeout.Milliseconds(), DeadlineMS: o.deadline.Milliseconds(),
			Jobs: o.jobs, Protect: o.protect, ExtraProtect: o.protect, Unprotect: o.unprotect, Repeat: o.repeat, Stop: o.stop, Adopt: o.adopt,
			MaxHolds: o.holds, AllowUndecided: o.allow == "undecided", Rank: goals, TestTimeoutMS: o.testTimeout.Milliseconds(),
			Plugins: o.plugins, MCP: o.mcp, Rev: rev, Sandbox: o.sandbox, ShadowKind: o.shadow, SetupNetwork: setupNet.text, VerifyTimeouts: o.verifyTimeouts,
			Image: box.image, Limits: o.image.limits(), Warm: o.image.warm,
		},
	}
	for _, p := range plugins {
		cfg.Plugins = append(cfg.Plugins, turnPlugin(p, o.task, &box.outfits))
		cfg.Hooks = append(cfg.Hooks, pluginHooks(p, &box.outfits)...)
	}
	cfg.Hooks = append(cfg.Hooks, file.hooks()...)
	if cfg.Servers, err = a.servers(s, o.mcp); err != nil {
		return none, err
	}
	cfg.Redactor = cfg.Redactor.With(a.secretsOf(cfg.Servers))
	if cfg.OneFile, err = a.oneFile(ctx, box.isolation, !s.inBatch); err != nil {
		return none, err
	}
	cfg.Settings.MaxBlocks = a.blocks(file.Run.Blocks)
	if cfg.Settings.Advice = o.advice || file.Tools.advice(); cfg.Settings.Advice {
		cfg.Advise = a.adviser()
	}
	if cfg.Slot, err = file.Machine.slot(s.home); err != nil {
		return none, err
	}
	return cfg, nil
}

// slot is how a candidate gets one of the machine's slots, nil without a limit.
func (m machineSettings) slot(home string) (func(context.Context, func()) (func(), error), error) {
	if m.Candidates == nil {
		return nil, nil
	}
	if n := *m.Candidates; n < 1 || n > slots.Max {
		return nil, usagef("config.toml: [machine] candidates: write a number from 1 to %d", slots.Max)
	}
	pool, err := slots.Open(home, *m.Candidates)
	if err != nil {
		return nil, statusError{orchestrator.ExitInfrastructure, err}
	}
	return pool.Take, nil
}

// splitCommand reads a command line that no shell will ever see.
func splitCommand(flag, line string) ([]string, error) {
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	words, err := argv.Split(line)
	if err != nil {
		return nil, usagef("%s: %w", flag, err)
	}
	return words, nil
}

// expandHome lets a path of the configuration begin with ~/.
func expandHome(paths []string, home string) []string {
	var out []string
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			p = filepath.Join(home, rest)
		}
		out = append(out, p)
	}
	return out
}

// seatsOf gives every candidate its agent.
func seatsOf(o runOptions, file fileConfig, counted bool) ([]orchestrator.Seat, []record.AgentCount, error) {
	counts, err := agent.ParseCounts(o.agents)
	if err != nil {
		return nil, nil, usageError{err}
	}
	n, sum := o.candidates, 0
	for _, c := range counts {
		sum += c.N
	}
	if !counted && (sum > 1 || strings.Contains(o.agents, ":")) {
		n = sum
	}
	known, err := file.agents()
	if err != nil {
		return nil, nil, err
	}
	var seats []orchestrator.Seat
	took := map[string]int{}
	for i, name := range agent.Assign(counts, n) {
		d, ok := known[name]
		if !ok {
			return nil, nil, usagef("agent %q is not known: define [agents.%s] command = [\"program\"] in config.toml, or use one of %s", name, name, strings.Join(sortedKeys(known), ", "))
		}
		seats = append(seats, orchestrator.Seat{Number: candidate.Number(i + 1), Agent: d})
		took[name]++
	}
	var out []record.AgentCount
	for _, c := range counts {
		if took[c.Agent] > 0 {
			out = append(out, record.AgentCount{Name: c.Agent, Count: took[c.Agent]})
		}
	}
	return seats, out, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// canRun refuses agents whose program is not there. What an image holds shows
// when it is used.
func (a *app) canRun(seats []orchestrator.Seat, inImage bool) error {
	for _, s := range seats {
		d := s.Agent
		if d.Builtin || inImage {
			continue
		}
		if _, err := lookPath(d.Command[0], a.getenv("PATH")); err != nil {
			return usagef("agent %s: %s is not on PATH: install it, or choose another agent with --agents", d.Name, d.Command[0])
		}
	}
	return nil
}

// lookPath finds a program as the sandboxes will: by the operator's PATH.
func lookPath(program, path string) (string, error) {
	if strings.ContainsRune(program, '/') {
		return exec.LookPath(program)
	}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil && filepath.IsAbs(dir) {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}

// printPlan says what run would do.
func (a *app) printPlan(cfg orchestrator.Config) error {
	if a.json {
		return a.printJSON(struct {
			Schema   string               `json:"schema"`
			Task     string               `json:"task"`
			Settings record.Settings      `json:"settings"`
			Reaches  []orchestrator.Reach `json:"reaches"` // which hosts, where the network is not open
			Hooks    []plannedHook        `json:"hooks"`
		}{"bestof.plan/1", cfg.Task, cfg.Settings, cfg.Reaches(), plannedHooks(cfg.Hooks)})
	}
	s := cfg.Settings
	var agents []string
	for _, c := range s.Agents {
		agents = append(agents, fmt.Sprintf("%s ×%d", c.Name, c.Count))
	}
	rows := [][2]string{
		{"repository", cfg.Repo.Root()},
		{"base", s.Base},
		{"candidates", fmt.Sprintf("%d (%s), %d at once", s.Candidates, strings.Join(agents, ", "), s.Jobs)},
		{"test", argv.Join(s.Test)},
		{"expect", s.Expect},
		{"isolation", s.Isolation.Summary},
		{"network", cfg.NetworkWords()},
		{"time", fmt.Sprintf("%s a candidate, at most %s for all", cfg.Timeout, worstCase(cfg))},
		{"plugins", pluginNames(cfg.Plugins)},
		{"mcp", cfg.Servers.Words()},
		{"adopt", s.Adopt},
	}
	if words := cfg.OneFile.Words(); words != "" {
		rows = append(rows, [2]string{"tools", words})
	}
	if len(s.Setup) > 0 {
		rows = slices.Insert(rows, 2, [2]string{"setup", argv.Join(s.Setup)})
	}
	for _, h := range plannedHooks(cfg.Hooks) {
		rows = append(rows, [2]string{"hook", h.words()})
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(a.Out, "%-11s %s\n", r[0], term.Clean(r[1], 400)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.Out, "nothing was run")
	return err
}

// A plannedHook is a hook that a run would call.
type plannedHook struct {
	Event   string   `json:"event"`
	From    string   `json:"from"`              // a plugin, or the configuration that has it
	Command []string `json:"command,omitempty"` // of the operator's own
	Matcher string   `json:"matcher,omitempty"` // of tools' names
	Network bool     `json:"network"`
}

func plannedHooks(hooks []orchestrator.Hook) []plannedHook {
	list := []plannedHook{}
	for _, h := range hooks {
		list = append(list, plannedHook{string(h.Event), h.From, h.Files, string(h.Matcher), h.Network})
	}
	return list
}

func (h plannedHook) words() string {
	text := h.Event + ", " + h.From
	if len(h.Command) > 0 {
		text += ": " + argv.Join(h.Command)
	}
	return text + calledProgram{Matcher: h.Matcher, Network: h.Network}.aside()
}

func pluginNames(plugins []orchestrator.Plugin) string {
	if len(plugins) == 0 {
		return "none but the built-in one"
	}
	var names []string
	for _, p := range plugins {
		names = append(names, fmt.Sprintf("%s (%s)", p.Name, p.Origin.Level))
	}
	return strings.Join(names, ", ")
}

// worstCase is how long the candidates can take in all.
func worstCase(cfg orchestrator.Config) time.Duration {
	waves := (len(cfg.Seats) + cfg.Settings.Jobs - 1) / cfg.Settings.Jobs
	worst := time.Duration(waves) * (cfg.Timeout + time.Duration(cfg.Settings.Repeat)*cfg.TestLimit)
	if cfg.Deadline > 0 {
		worst = min(worst, cfg.Deadline)
	}
	return worst
}
