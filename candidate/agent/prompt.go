package agent

import (
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/candidate"
)

// Prompt is the text a candidate is given. It is the same for every candidate
// of a run and round, so that they differ by their own choices alone; a
// correction comes last, where it is read last.
func Prompt(b candidate.Brief) string {
	var s strings.Builder
	s.WriteString("# Task\n\n" + strings.TrimSpace(b.Task) + "\n")
	for _, c := range b.Context {
		if strings.TrimSpace(c.Text) == "" {
			continue
		}
		s.WriteString("\n# Context")
		if label := strings.Join(strings.Fields(c.Label), " "); label != "" {
			s.WriteString(": " + label)
		}
		s.WriteString("\n\n" + strings.TrimSpace(c.Text) + "\n")
	}
	s.WriteString("\n# How your work is judged\n\n")
	if len(b.Test) > 0 {
		s.WriteString("This command decides, run on a fresh copy of the repository with your changes:\n\n    " + shellWords(b.Test) + "\n\n")
	}
	s.WriteString("Only the files you leave changed in the working directory count; commits, branches and messages do not.\n")
	if len(b.Protected) > 0 {
		s.WriteString("Changes to paths that match these patterns are not accepted:\n\n")
		for _, p := range b.Protected {
			s.WriteString("- " + strconv.Quote(p) + "\n")
		}
	}
	s.WriteString(`
# Rules of this place

- The working directory is a private copy of the repository. Work only there.
- Do not edit, delete, skip or shadow tests, and do not special-case them: fix the cause.
- Make the smallest change that does the task. Leave no scratch files behind.
- Do not count on a network. Do not wait for input: nobody will answer a question.
- When you are done, stop. The environment variable BESTOF_DEADLINE, if set, is the Unix time at which you are stopped.
`)
	if c := strings.TrimSpace(b.Correction); c != "" {
		s.WriteString("\n# Correction: round " + strconv.Itoa(b.Round+1) + "\n\nYour earlier changes are in the working directory and are not accepted yet:\n\n" + c + "\n")
	}
	return s.String()
}

// shellWords prints argv so that a shell would read the same words.
func shellWords(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
		}) {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
