package export

import (
	"fmt"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// hardening is what the services of deploy/systemd have too; the comment there
// says what is left out and why.
const hardening = `NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=full
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
UMask=0077
`

// service is the unit that runs the job once.
func (p plan) service(o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by bestof job export --format systemd\n[Unit]\nDescription=bestof job %s\nDocumentation=man:bestof-job(1)\n", p.job.Name)
	if !o.User {
		b.WriteString("Wants=network-online.target\nAfter=network-online.target\n")
	}
	b.WriteString("\n[Service]\nType=oneshot\n")
	if !o.User {
		b.WriteString("User=bestof\n")
	}
	if o.Home != "" {
		fmt.Fprintf(&b, "Environment=%s\n", unitWord("BESTOF_HOME="+o.Home))
	}
	if o.Path != "" {
		fmt.Fprintf(&b, "Environment=%s\n", unitWord("PATH="+o.Path))
	}
	b.WriteString("# Keys of models, one NAME=value a line; readable by root alone.\n")
	if o.User {
		b.WriteString("EnvironmentFile=-%h/.config/bestof/environment\n")
	} else {
		b.WriteString("EnvironmentFile=-/etc/bestof/environment\n")
	}
	fmt.Fprintf(&b, "ExecStart=%s job run %s\n", program(o.Program), p.job.Name)
	if limit := longest(p.job.Policy); limit > 0 {
		fmt.Fprintf(&b, "TimeoutStartSec=%d\n", limit)
	}
	b.WriteString("# The first signal goes to bestof alone, which ends its candidates itself.\nKillMode=mixed\nTimeoutStopSec=120\n")
	if o.User {
		b.WriteString("NoNewPrivileges=yes\nUMask=0077\n")
	} else {
		b.WriteString(hardening)
	}
	return b.String()
}

// timer is the unit that starts the service.
func (p plan) timer() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by bestof job export --format systemd\n")
	for _, n := range p.notes {
		b.WriteString("# note: " + n + "\n")
	}
	fmt.Fprintf(&b, "[Unit]\nDescription=Times of bestof job %s\nDocumentation=man:bestof-job(1)\n\n[Timer]\n", p.job.Name)
	for _, t := range p.times {
		b.WriteString("OnCalendar=" + t + "\n")
	}
	b.WriteString("AccuracySec=1s\n")
	if p.job.Policy.Missed.Mode == schedule.MissedOnce {
		b.WriteString("Persistent=yes\n")
	}
	if j := p.job.Policy.Jitter / time.Second; j > 0 {
		fmt.Fprintf(&b, "RandomizedDelaySec=%d\nFixedRandomDelay=yes\n", j)
	}
	b.WriteString("\n[Install]\nWantedBy=timers.target\n")
	return b.String()
}

// unitWord is one word of a unit file that stands for s itself: systemd.syntax(7)
// unquotes it, and specifiers begin with a percent sign.
func unitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(s) + `"`
}

// program is the first word of a command line, in which dollar signs would name
// variables elsewhere, and where @, -, :, + and ! have a meaning at its start.
// An absolute path has none of these there.
func program(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return path
	}
	return unitWord(path)
}
