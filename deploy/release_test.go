package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReleaseIsTheSameTwice makes a release in two copies of the tree with
// different names, owners' modes and times, and compares every byte.
func TestReleaseIsTheSameTwice(t *testing.T) {
	out := t.TempDir()
	release := func(n, where string) string {
		tree := filepath.Join(t.TempDir(), where)
		copyTree(t, "..", tree)
		to := filepath.Join(out, n)
		cmd := exec.Command("bash", ".ci/release", to)
		cmd.Dir = tree
		cmd.Env = append(cmd.Environ(), "ARCHES="+runtime.GOARCH, "HOME="+out+"/home-"+n)
		if cache, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output(); err == nil {
			dirs := strings.Fields(string(cache))
			cmd.Env = append(cmd.Env, "GOCACHE="+dirs[0], "GOMODCACHE="+dirs[1])
		}
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return to
	}
	first := release("1", "a")
	second := release("2", "another/place with a blank")
	files, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, f := range files {
		a, b := sumOf(t, filepath.Join(first, f.Name())), sumOf(t, filepath.Join(second, f.Name()))
		if a != b {
			t.Errorf("%s differs", f.Name())
		}
		sums[f.Name()] = a
	}
	program := "bestof-linux-" + runtime.GOARCH
	text, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, l := range lines {
		if sum, name, _ := strings.Cut(l, "  "); sums[name] != sum {
			t.Errorf("SHA256SUMS says %s", l)
		}
	}
	if len(lines) != len(files)-1 || len(lines) != 5 {
		t.Errorf("there are %d files and %d sums", len(files), len(lines))
	}
	checkBill(t, filepath.Join(first, program+".cdx.json"), sums[program])
	for archive, want := range map[string]string{"man": "./bestof-run.1", "completions": "./bestof.fish", "deploy": "./kubernetes/kustomization.yaml"} {
		list, err := exec.Command("tar", "-tzf", filepath.Join(first, archive+".tar.gz")).Output()
		if err != nil || !strings.Contains(string(list), "\n"+want+"\n") || strings.Contains(string(list), ".go\n") {
			t.Errorf("%s: %v\n%s", archive, err, list)
		}
	}
	again := exec.Command("bash", "../.ci/release", first)
	if text, err := again.CombinedOutput(); err == nil || !strings.Contains(string(text), "is there already") {
		t.Errorf("it writes over a release: %v %s", err, text)
	}
}

// checkBill holds a bill of materials against go.mod.
func checkBill(t *testing.T, file, sum string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat   string
		SpecVersion string
		Metadata    struct {
			Component struct {
				Hashes []struct{ Alg, Content string }
			}
		}
		Components []struct {
			Type, Name, Version, PURL string
		}
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if bill.BOMFormat != "CycloneDX" || len(bill.Metadata.Component.Hashes) != 1 || bill.Metadata.Component.Hashes[0].Content != sum {
		t.Errorf("the bill is %+v", bill.Metadata)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, c := range bill.Components {
		if seen[c.Name] || c.Version == "" || c.PURL == "" {
			t.Errorf("the component %+v", c)
		}
		seen[c.Name] = true
		if i > 0 && !strings.Contains(string(mod), c.Name+" "+c.Version) {
			t.Errorf("%s %s is not in go.mod", c.Name, c.Version)
		}
	}
	if !seen["stdlib"] || !seen["github.com/spf13/cobra"] || len(seen) < 20 {
		t.Errorf("there are %d components", len(seen))
	}
}

func sumOf(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// copyTree copies what a release is made of: source, and no repository.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (rel == ".git" || rel == "bin" || rel == "dist"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
