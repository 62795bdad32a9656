package orchestrator

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/egress"
	"github.com/bestof-dev/bestof/internal/hosts"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// proxyPort is where programs find the proxy on their own loopback, unless a
// host of that port is let through.
const proxyPort = 11975

// An outlet is how one program reaches what it was granted, and no more. The
// zero value leads nowhere.
type outlet struct {
	Forwards []sandbox.Forward
	Env      map[string]string
	Online   bool // it leads to more than a model

	proxy  *egress.Proxy
	ledger *egress.Ledger
}

// openOutlet opens one for the program that is called name, in sockets of its
// own. What comes of it is in the ledger once it is closed.
// bases are the agent's Forward.
func (t *turn) openOutlet(name string, rules []hosts.Rule, bases map[string]string, online bool, ledger *egress.Ledger) (outlet, error) {
	if len(rules) == 0 {
		return outlet{}, nil
	}
	dir := filepath.Join(t.work.Dir(), "net")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return outlet{}, fmt.Errorf("open its network: %w", err)
	}
	o := outlet{Online: online, ledger: ledger, proxy: egress.New(egress.Config{Rules: rules, Ledger: ledger, Limits: t.NetworkLimits})}
	port := proxyPort
	for i, to := range nearby(rules) {
		socket := filepath.Join(dir, fmt.Sprintf("%s-%d", name, i))
		if err := o.proxy.ListenTo(socket, to); err != nil {
			return outlet{}, errors.Join(err, o.proxy.Close())
		}
		o.Forwards = append(o.Forwards, sandbox.Forward{Port: int(to.Port), Socket: socket})
	}
	lead := func(socket string) (url string) { // from a port that is free, which is told
		for slices.ContainsFunc(o.Forwards, func(f sandbox.Forward) bool { return f.Port == port }) {
			port++
		}
		o.Forwards = append(o.Forwards, sandbox.Forward{Port: port, Socket: socket})
		return "http://127.0.0.1:" + strconv.Itoa(port)
	}
	socket := filepath.Join(dir, name)
	if err := o.proxy.Listen(socket); err != nil {
		return outlet{}, errors.Join(err, o.proxy.Close())
	}
	o.Env = egress.Environ(lead(socket))
	for i, variable := range slices.Sorted(maps.Keys(bases)) {
		socket := filepath.Join(dir, fmt.Sprintf("%s-b%d", name, i))
		if err := o.proxy.ListenFor(socket, bases[variable]); err != nil {
			return outlet{}, errors.Join(err, o.proxy.Close())
		}
		o.Env[variable] = lead(socket)
	}
	return o, nil
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// nearby are the ports of this machine's loopback that rules let through. Each
// is offered at the same port of the program's, since programs do not ask a
// proxy for their own loopback.
func nearby(rules []hosts.Rule) []hosts.Target {
	var all []hosts.Target
	for _, r := range rules {
		if r.Addr != loopback4 && r.Addr != netip.IPv6Loopback() || r.Port == 0 || slices.ContainsFunc(all, func(t hosts.Target) bool { return t.Port == r.Port }) {
			continue
		}
		all = append(all, hosts.Target{Addr: r.Addr, Port: r.Port})
	}
	return all
}

// close ends it, and with it all that it carries.
func (o outlet) close() error {
	if o.proxy == nil {
		return nil
	}
	return o.proxy.Close()
}

// give lets a program use it.
func (o outlet) give(s *sandbox.Spec) {
	if o.proxy == nil {
		return
	}
	s.Forwards, s.Online = o.Forwards, o.Online
	env := maps.Clone(s.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, o.Env)
	s.Env = env
}

// networkUses are decisions as the record has them.
func networkUses(l *egress.Ledger) []record.NetworkUse {
	var uses []record.NetworkUse
	for _, u := range l.Uses() {
		uses = append(uses, record.NetworkUse(u))
	}
	return uses
}

// A Reach is what the candidates of one agent reach.
type Reach struct {
	Agent string   `json:"agent"`
	Hosts []string `json:"hosts"`
}

// Reaches lists who reaches what through the proxy, one entry for each agent.
// Who reaches nothing is left out.
func (c Config) Reaches() []Reach {
	all := []Reach{}
	for _, s := range c.Seats {
		if len(s.Reach) == 0 || slices.ContainsFunc(all, func(r Reach) bool { return r.Agent == s.Agent.Name }) {
			continue
		}
		r := Reach{Agent: s.Agent.Name}
		for _, rule := range s.Reach {
			r.Hosts = append(r.Hosts, rule.String())
		}
		all = append(all, r)
	}
	return all
}

// NetworkWords say in one line what candidates reach.
func (c Config) NetworkWords() string {
	if c.Settings.Network == sandbox.NetworkHost {
		return "everything that this machine reaches"
	}
	var parts []string
	for _, r := range c.Reaches() {
		parts = append(parts, r.Agent+" reaches "+strings.Join(r.Hosts, ", "))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; ") + "; nothing else"
}

// tellNetwork says before candidates begin what they reach, if it is anything.
func (t *turn) tellNetwork() {
	if words := t.NetworkWords(); words != "none" {
		t.emit(event.Notice{Text: "network: " + words})
	}
}

// agentNetwork is what an agent's sandbox is told: all but an open network is
// none, with an outlet.
func agentNetwork(asked sandbox.Network) sandbox.Network {
	if asked == sandbox.NetworkHost {
		return asked
	}
	return sandbox.NetworkNone
}
