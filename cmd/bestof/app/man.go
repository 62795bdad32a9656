package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bestof-dev/bestof/internal/atomicfile"
)

// manCommand writes the manual for packages. The generator that comes with
// cobra takes help texts for Markdown, which these are not: their columns would
// become one paragraph.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages to a directory",
		Long:   `Writes one page for each command to DIR, for man(1).`,
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return usageError{err}
			}
			return writePages(c.Root(), args[0])
		},
	}
}

func writePages(c *cobra.Command, dir string) error {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	if err := atomicfile.Write(filepath.Join(dir, pageName(c)+".1"), []byte(page(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := writePages(sub, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page is the manual page of a command in the language of man(7).
func page(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" bestof \"User Commands\"\n", strings.ToUpper(roff(pageName(c))))
	section := func(name string) { fmt.Fprintf(&b, ".SH %s\n", name) }
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	section("SYNOPSIS")
	fmt.Fprintf(&b, ".B %s\n", roff(c.UseLine()))
	long, after, _ := strings.Cut(c.Long, statuses)
	section("DESCRIPTION")
	for paragraph := range strings.SplitSeq(strings.TrimSpace(long+after), "\n\n") {
		if strings.Contains("\n"+paragraph, "\n  ") {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", lines(paragraph))
		} else {
			fmt.Fprintf(&b, ".PP\n%s\n", lines(paragraph))
		}
	}
	if subs := available(c); len(subs) > 0 {
		section("COMMANDS")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(pageName(sub)), lines(sub.Short))
		}
	}
	if options := options(c.NonInheritedFlags()); options != "" {
		section("OPTIONS")
		b.WriteString(options)
	}
	if c.HasParent() {
		section("OPTIONS OF ALL COMMANDS")
		b.WriteString("See\n.BR bestof (1).\n")
	}
	if c.Example != "" {
		section("EXAMPLES")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", lines(c.Example))
	}
	if c.HasParent() {
		section("EXIT STATUS")
		_, table, _ := strings.Cut(statuses, "\n")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", lines(table))
		section("SEE ALSO")
		fmt.Fprintf(&b, ".BR %s (1)\n", roff(pageName(c.Parent())))
	}
	return b.String()
}

func available(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub)
		}
	}
	return all
}

// options lists flags.
func options(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		head := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			head = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + head
		}
		if value != "" {
			head += ` \fI` + roff(value) + `\fR`
		}
		switch {
		case f.Name == "jobs": // whose default is that of the machine which writes this
			usage += " (default the number of processors)"
		case f.Value.Type() == "string" && f.DefValue != "":
			usage += fmt.Sprintf(" (default %q)", f.DefValue)
		case f.Value.Type() == "int" && f.DefValue != "0", f.Value.Type() == "duration" && f.DefValue != "0s":
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, ".TP\n%s\n%s\n", head, lines(usage))
	})
	return b.String()
}

// roff is a text in which nothing is an escape of roff.
func roff(s string) string { return strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(s) }

// lines are lines of text of which none is a request of roff.
func lines(s string) string {
	all := strings.Split(roff(strings.Trim(s, "\n")), "\n")
	for i, l := range all {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			all[i] = `\&` + l
		}
	}
	return strings.Join(all, "\n")
}
