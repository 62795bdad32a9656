package judge_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPure proves that judge cannot reach a file, a clock, a socket or a model:
// nothing that it imports, directly or not, is outside a list without them.
func TestPure(t *testing.T) {
	direct := goList(t, `{{join .Imports "\n"}}`, ".")
	allowed := []string{"cmp", "errors", "maps", "math/bits", "slices", "strconv", "strings", "unicode/utf8"}
	for _, p := range direct {
		if !slices.Contains(allowed, p) {
			t.Errorf("judge imports %s", p)
		}
	}
	forbidden := []string{"os", "io/fs", "net", "syscall", "time", "context", "fmt", "math/rand", "math/rand/v2", "os/exec", "reflect", "runtime/cgo"}
	deps := goList(t, "{{.ImportPath}}", "-deps", ".")
	if !slices.Contains(deps, "strings") {
		t.Fatalf("go list -deps names no strings: %q", deps)
	}
	for _, p := range deps {
		if slices.Contains(forbidden, p) || strings.HasPrefix(p, "github.com/") && p != "github.com/bestof-dev/bestof/judge" {
			t.Errorf("judge reaches %s", p)
		}
	}
}

func goList(t *testing.T, format string, args ...string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-f", format}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}
