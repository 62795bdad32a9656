package app

import (
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox/egress"
)

// networkSettings bound what each program may ask of the hosts that it was
// granted.
type networkSettings struct {
	Connections *int      `toml:"connections"` // at once
	Bytes       *string   `toml:"bytes"`       // of all connections, both ways
	Idle        *duration `toml:"idle"`        // without a byte in either direction
	Total       *duration `toml:"total"`       // of one connection
}

func (n *networkSettings) merge(s networkSettings) {
	n.Connections, n.Bytes, n.Idle, n.Total = either(n.Connections, s.Connections), either(n.Bytes, s.Bytes), either(n.Idle, s.Idle), either(n.Total, s.Total)
}

// limits are what the settings say; what they do not say is the standard.
func (n networkSettings) limits() (egress.Limits, error) {
	var l egress.Limits
	if n.Connections != nil {
		if l.Connections = *n.Connections; l.Connections < 1 || l.Connections > 4096 {
			return l, usagef("[network] connections is %d: say a number from 1 to 4096", l.Connections)
		}
	}
	if n.Bytes != nil {
		var err error
		if l.Bytes, err = parseSize(*n.Bytes); err != nil || l.Bytes < 1 {
			return l, usagef("[network] bytes is %.40q: say a size such as \"500MB\"", *n.Bytes)
		}
	}
	for _, d := range []struct {
		name string
		from *duration
		to   *time.Duration
	}{{"idle", n.Idle, &l.Idle}, {"total", n.Total, &l.Total}} {
		if d.from == nil {
			continue
		}
		if *d.to = time.Duration(*d.from); *d.to <= 0 {
			return l, usagef("[network] %s is %s: say how long, such as \"10m\"", d.name, *d.to)
		}
	}
	return l, nil
}
