package hostile_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/candidate/sandbox/hostile"
)

// rows reads the table of docs/sandboxes.md: threat → the cells of process,
// bwrap and docker.
func rows(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for line := range strings.Lines(string(must(os.ReadFile("../../../docs/sandboxes.md"))(t))) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if strings.HasPrefix(line, "|") && len(cells) == 4 && !strings.HasPrefix(line, "|-") && !strings.Contains(line, "`process`") {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			found[cells[0]] = cells[1:]
		}
	}
	return found
}

// TestTable: every cell of the table has attacks, and says of them what they
// are expected to reach. A cell says **can** where an attack gets what it is
// after and may win all the same, and names the outcome where it may not.
func TestTable(t *testing.T) {
	table := rows(t)
	if len(table) < 15 {
		t.Fatalf("the table has only %d rows", len(table))
	}
	backed := map[string]bool{}
	for _, a := range hostile.Attacks() {
		cells, ok := table[a.Threat]
		if !ok {
			t.Errorf("%s: docs/sandboxes.md has no row %q", a.Name, a.Threat)
			continue
		}
		backed[a.Threat] = true
		for i, sandbox := range []string{hostile.Process, hostile.Bwrap, hostile.Docker} {
			if w := a.Want(sandbox); w.Reach == hostile.Can && w.Allows(candidate.Met) && a.Threat != hostile.ThreatTools && !strings.Contains(cells[i], "**can**") {
				t.Errorf("%s can in %s, and the table says %q", a.Name, sandbox, cells[i])
			}
			for _, o := range a.Want(sandbox).Outcomes {
				if len(a.Want(sandbox).Outcomes) == 1 && !strings.Contains(strings.Join(cells, " "), string(o)) && o != candidate.Unmet {
					t.Errorf("%s ends %s in %s, and the table does not say so: %q", a.Name, o, sandbox, cells)
				}
			}
		}
	}
	for threat, cells := range table {
		if !backed[threat] {
			t.Errorf("no attack backs the row %q", threat)
		}
		for i, sandbox := range []string{hostile.Process, hostile.Bwrap, hostile.Docker} {
			conditional := strings.Contains(cells[i], "else **can**") // on machines without namespaces
			if strings.Contains(cells[i], "**can**") && !conditional && !slices.ContainsFunc(hostile.Attacks(), func(a hostile.Attack) bool {
				return a.Threat == threat && (a.Want(sandbox).Reach == hostile.Can || a.Want(sandbox).Not != "")
			}) {
				t.Errorf("%q: the table says of %s %q, and no attack can", threat, sandbox, cells[i])
			}
		}
	}
}

// TestAttacks: the table of attacks is complete in itself.
func TestAttacks(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	seen := map[string]bool{}
	for _, a := range hostile.Attacks() {
		if seen[a.Name] || !form.MatchString(a.Name) || a.What == "" || a.Do == nil {
			t.Errorf("%q is there twice, no name for an agent, or says nothing", a.Name)
		}
		seen[a.Name] = true
		for _, sandbox := range []string{hostile.Process, hostile.Bwrap, hostile.Docker} {
			if _, ok := a.Wants[sandbox]; !ok {
				t.Errorf("%s: nothing is said of %s", a.Name, sandbox)
			}
		}
	}
	if len(seen) < 200 {
		t.Errorf("only %d attacks", len(seen))
	}
}
