package export

import (
	"fmt"
	"strings"
)

// crontab is a table for crontab(1). Of what cron(8) itself reads in a command,
// only the percent sign needs a word: it would be a line feed.
func crontab(plans []plan, o Options) string {
	var b strings.Builder
	b.WriteString(`# Made by bestof job export --format cron; install with: crontab FILE
# CRON_TZ is read by cronie. The cron of Debian and Ubuntu has no time zones but
# the machine's own: there, let cron run bestof job tick every minute instead.
SHELL=/bin/sh
`)
	if o.Path != "" {
		fmt.Fprintf(&b, "PATH=\"%s\"\n", o.Path)
	}
	zone := ""
	for _, p := range plans {
		b.WriteString("\n# " + p.job.Name + "\n")
		for _, n := range p.notes {
			b.WriteString("# note: " + n + "\n")
		}
		if p.zone != zone {
			zone = p.zone
			b.WriteString("CRON_TZ=" + zone + "\n")
		}
		argv := []string{o.Program, "job", "run", p.job.Name}
		if o.Home != "" {
			argv = append([]string{"BESTOF_HOME=" + shellWord(o.Home)}, shellWords(argv)...)
		} else {
			argv = shellWords(argv)
		}
		b.WriteString(p.times[0] + " " + strings.ReplaceAll(strings.Join(argv, " "), "%", `\%`) + "\n")
	}
	return b.String()
}

// shellWord is one word of a POSIX shell that stands for s itself.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func shellWords(argv []string) []string {
	var all []string
	for _, s := range argv {
		all = append(all, shellWord(s))
	}
	return all
}
