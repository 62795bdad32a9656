package egress

import (
	"cmp"
	"slices"
	"sync"
)

// A Use is what a program asked for and what came of it, all its equal requests
// together.
type Use struct {
	Host           string // "" where no request was understood
	Port           int
	Allowed        bool
	Reason         string // why not, or what went wrong
	Count          int    // requests and connections
	Sent, Received int64  // bytes; what was carried
}

// maxUses is how many different uses are kept. Those after it are counted
// together, under Others.
const maxUses = 256

// Others is the host of uses that were too many to be told apart.
const Others = "(others)"

// A Ledger keeps decisions. The zero value is ready; it may be shared.
type Ledger struct {
	mu   sync.Mutex
	uses map[key]*Use
}

type key struct {
	host    string
	port    int
	allowed bool
	reason  string
}

func (l *Ledger) add(u Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uses == nil {
		l.uses = map[key]*Use{}
	}
	k := key{u.Host, u.Port, u.Allowed, u.Reason}
	if l.uses[k] == nil && len(l.uses) >= maxUses {
		u.Host, u.Port, u.Reason = Others, 0, ""
		k = key{host: Others, allowed: u.Allowed}
	}
	have := l.uses[k]
	if have == nil {
		l.uses[k] = &u
		return
	}
	have.Count += u.Count
	have.Sent += u.Sent
	have.Received += u.Received
}

// Uses is all that was kept: what was allowed first, then by host and port.
func (l *Ledger) Uses() []Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Use
	for _, u := range l.uses {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b Use) int {
		return cmp.Or(-compareBool(a.Allowed, b.Allowed), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Environ are the variables by which programs find a proxy that listens on a
// port of their loopback. Loopback itself is not asked of it.
func Environ(proxy string) map[string]string {
	env := map[string]string{"NODE_USE_ENV_PROXY": "1"} // else node 24 looks at none of them
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"} {
		env[name] = proxy
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		env[name] = "localhost,127.0.0.1,::1"
	}
	return env
}
