package app

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocs runs every command of the console blocks of README.md and docs/ and
// compares what it prints. The blocks of a page are one session that starts in
// an empty directory. A line that is only "…" stands for any number of lines,
// and a "…" that ends a line for the rest of it; ids, times and sizes are
// compared by their form.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, page := range append(pages, "../../../README.md") {
		t.Run(filepath.Base(page), func(t *testing.T) {
			session := newSession(t)
			for _, c := range consoleCommands(t, page) {
				blocks++
				session.check(t, page, c)
			}
		})
	}
	if blocks == 0 {
		t.Error("no page has a console block")
	}
}

// A documented command is one line after "$ " and what it prints.
type documented struct {
	line    int
	command string
	want    []string
}

func consoleCommands(t *testing.T, page string) []documented {
	t.Helper()
	f, err := os.Open(page)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []documented
	inside := false
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := lines.Text()
		switch {
		case strings.HasPrefix(text, "```"):
			inside = !inside && text == "```console"
		case !inside:
		case strings.HasPrefix(text, "$ "):
			all = append(all, documented{line: n, command: text[2:]})
		case len(all) > 0:
			all[len(all)-1].want = append(all[len(all)-1].want, text)
		default:
			t.Fatalf("%s:%d: output before a command", page, n)
		}
	}
	return all
}

// A session is a person's shell: a directory, a home and what was exported.
type session struct {
	dir  string
	home string
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{dir: t.TempDir(), home: t.TempDir()}
	config := "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
	if err := os.WriteFile(filepath.Join(s.home, ".gitconfig"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *session) check(t *testing.T, page string, d documented) {
	t.Helper()
	if dir, ok := strings.CutPrefix(d.command, "cd "); ok {
		s.dir = filepath.Join(s.dir, dir)
		return
	}
	cmd := exec.Command("sh", "-c", d.command)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.home, "BESTOF_HOME="+filepath.Join(s.home, ".bestof"), "NO_COLOR=1", "LANG=C.UTF-8", "COLUMNS=100", "PWD="+s.dir)
	out, err := cmd.CombinedOutput()
	status := ""
	if err != nil {
		status = " (" + err.Error() + ")"
	}
	got := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if !matches(form(d.want), form(got)) {
		t.Errorf("%s:%d: %s%s prints\n%s\n\nbut the page says\n%s", filepath.Base(page), d.line, d.command, status, strings.Join(got, "\n"), strings.Join(d.want, "\n"))
	}
}

// form replaces what differs from run to run by its form.
func form(lines []string) []string {
	var out []string
	for _, l := range lines {
		l = runID.ReplaceAllString(l, "RUN")
		l = hexID.ReplaceAllString(l, "ID")
		l = clock.ReplaceAllString(l, "TIME")
		l = span.ReplaceAllString(l, "SPAN")
		l = sized.ReplaceAllString(l, "SIZE")
		l = temporary.ReplaceAllString(l, "DIR")
		l = blank.ReplaceAllString(strings.TrimRight(l, " "), " ")
		out = append(out, l)
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

var (
	runID     = regexp.MustCompile(`\b[0-9][0-9a-hjkmnp-tv-z]{9}\b`)
	hexID     = regexp.MustCompile(`\b[0-9a-f]{7,64}\b`)
	clock     = regexp.MustCompile(`\b(\d{4}-\d\d-\d\d )?\d{1,2}:\d\d(:\d\d)?\b`)
	span      = regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|µs|s)\b`)
	sized     = regexp.MustCompile(`\b\d+(\.\d+)? (B|KB|MB|GB|TB)\b`)
	temporary = regexp.MustCompile(`/tmp/[^\s:]*|/[^\s:]*/scratch\b`)
	blank     = regexp.MustCompile(` {2,}|─+`)
)

// matches compares lines, where "…" in want takes any number.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0 || len(got) == 1 && got[0] == ""
	}
	if strings.TrimSpace(want[0]) == "…" {
		for skip := 0; skip <= len(got); skip++ {
			if matches(want[1:], got[skip:]) {
				return true
			}
		}
		return false
	}
	if len(got) == 0 {
		return false
	}
	start, open := strings.CutSuffix(want[0], "…")
	same := want[0] == got[0] || open && strings.HasPrefix(got[0], start)
	return same && matches(want[1:], got[1:])
}
