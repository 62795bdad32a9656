package app

import (
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate/agent"
	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/internal/hosts"
	"github.com/bestof-dev/bestof/orchestrator"
)

// A network is what --network or --setup-network asks for.
type network struct {
	text  sandbox.Network // as records have it
	kind  string          // none | gateway | allow | full
	allow []hosts.Rule
}

// The kinds of networks.
const (
	kindNone    = "none"
	kindGateway = "gateway"
	kindAllow   = "allow"
	kindFull    = "full"
)

// parseNetwork reads what a flag says.
func parseNetwork(flag, value string) (network, error) {
	list, allows := strings.CutPrefix(value, kindAllow+"=")
	switch {
	case allows:
		rules, err := hosts.ParseList(list)
		if err != nil {
			return network{}, usagef("%s: %w", flag, err)
		}
		var words []string
		for _, r := range rules {
			words = append(words, r.String())
		}
		return network{sandbox.Network(kindAllow + "=" + strings.Join(words, ",")), kindAllow, rules}, nil
	case value == kindFull || value == string(sandbox.NetworkHost):
		return network{sandbox.NetworkHost, kindFull, nil}, nil
	case value == kindNone:
		return network{sandbox.NetworkNone, kindNone, nil}, nil
	case value == kindGateway && flag != "--setup-network":
		return network{sandbox.Network(kindGateway), kindGateway, nil}, nil
	case flag == "--setup-network":
		return network{}, usagef("%s: write none, allow=HOST,… or full", flag)
	}
	return network{}, usagef("%s: write none, gateway, allow=HOST,… or full", flag)
}

// open is the sandbox's word for it.
func (n network) open() sandbox.Network {
	if n.kind == kindFull {
		return sandbox.NetworkHost
	}
	return sandbox.NetworkNone
}

// connect gives every seat what it reaches, and refuses agents that could not
// work with it.
func (a *app) connect(seats []orchestrator.Seat, n network) error {
	for i, s := range seats {
		d := s.Agent
		needs := d.Needs()
		models, err := d.Reaches(a.getenv)
		if err != nil {
			return usageError{err}
		}
		switch {
		case n.kind == kindFull:
			continue
		case needs == agent.NetworkHost:
			return usagef("agent %s needs the whole network: add --network full (everything that a candidate starts can then use it), or say in [agents.%s] which hosts it needs, with hosts = [\"api.example.com\"] and network = \"gateway\"", d.Name, d.Name)
		case needs == agent.NetworkGateway && n.kind == kindNone:
			return usagef("agent %s has to reach its model over the network: leave out --network none (its model's hosts are all that it can reach then)", d.Name)
		}
		reach := slices.Clone(n.allow)
		if needs == agent.NetworkGateway {
			for _, r := range models {
				if !slices.Contains(reach, r) {
					reach = append(reach, r)
				}
			}
		}
		seats[i].Reach = reach
	}
	return nil
}

// canConnect refuses a network in part where it cannot be kept away whole.
func canConnect(seats []orchestrator.Seat, setup network, i sandbox.Isolation) error {
	if i.Network {
		return nil
	}
	for _, s := range seats {
		if len(s.Reach) > 0 {
			return usagef("agent %s cannot be kept to its hosts in the sandbox %s: it cannot keep the network away here (see `bestof doctor`); choose another sandbox, or --network full", s.Agent.Name, i.Name)
		}
	}
	if setup.kind == kindAllow {
		return usagef("--setup-network: the sandbox %s cannot keep the network away here (see `bestof doctor`); choose another sandbox, or full", i.Name)
	}
	return nil
}
