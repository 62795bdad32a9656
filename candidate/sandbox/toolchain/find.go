package toolchain

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// Found is what the operator's toolchains need.
type Found struct {
	Read []string // host paths to be seen read-only where they are; sorted, none below another

	home    map[string]string // path below HOME → host path to be seen there read-only
	set     map[string]string
	offline map[string]string
}

// system is visible in every sandbox or must not be granted because of a PATH.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/opt", "/nix", "/etc", "/dev", "/proc", "/sys"}

// maxLinks bounds how many programs of one directory are looked at.
const maxLinks = 2048

// Find looks at the operator's PATH and home. It reads names only, never a
// setting, and returns nothing that o hides. The same directories give the
// same answer. For a system that is not the operator's it says only what holds
// wherever a tool is.
func Find(o sandbox.Options) Found {
	if o.Base != nil {
		o = sandbox.Options{Hidden: []string{"/"}}
	}
	f := Found{home: map[string]string{}, set: map[string]string{}, offline: map[string]string{}}
	operator, _ := sandbox.Lookup(o.Environ, "HOME")
	var read []string
	grant := func(p string) bool {
		if !filepath.IsAbs(p) || o.Hides(p) || tooWide(p, operator) {
			return false
		}
		if _, err := os.Stat(p); err != nil {
			return false
		}
		read = append(read, p)
		return true
	}
	for _, t := range tools {
		root := t.find(o.Environ, operator)
		if root == "" && (t.env != "" || len(t.at) > 0) {
			continue
		}
		found := len(t.read) == 0
		for _, r := range t.read {
			found = grant(filepath.Join(root, r)) || found
		}
		for from, to := range t.home {
			if p := filepath.Join(root, from); !o.Hides(p) && isDir(p) {
				f.home[to], found = p, true
			}
		}
		if !found {
			continue
		}
		for name, v := range t.set {
			f.set[name] = strings.ReplaceAll(v, "{root}", root)
		}
		maps.Copy(f.offline, t.off)
	}
	for _, d := range o.Path() {
		if sandbox.Within("/usr", sandbox.Resolve(d)) || !grant(d) {
			continue
		}
		if prefix := filepath.Dir(d); isPrefix(prefix) {
			grant(prefix)
		}
		for _, p := range linked(d) {
			grant(p)
		}
	}
	f.Read = outermost(read)
	return f
}

// Env is the environment for programs whose HOME is home.
func (f Found) Env(home string, network sandbox.Network) map[string]string {
	env := map[string]string{}
	for name, v := range f.set {
		env[name] = strings.ReplaceAll(v, "{home}", home)
	}
	if network == sandbox.NetworkNone {
		maps.Copy(env, f.offline)
	}
	return env
}

// Home lists what is to be seen inside home, sorted by target.
func (f Found) Home(home string) []sandbox.Bind {
	var binds []sandbox.Bind
	for _, to := range slices.Sorted(maps.Keys(f.home)) {
		binds = append(binds, sandbox.Bind{Source: f.home[to], Target: filepath.Join(home, to)})
	}
	return binds
}

func (t tool) find(environ []string, operator string) string {
	if t.env != "" {
		if v, ok := sandbox.Lookup(environ, t.env); ok && filepath.IsAbs(v) && isDir(v) {
			return filepath.Clean(v)
		}
	}
	gopath, _ := sandbox.Lookup(environ, "GOPATH")
	gopath, _, _ = strings.Cut(gopath, string(filepath.ListSeparator))
	for _, p := range t.at {
		if strings.HasPrefix(p, "{gopath}") && gopath == "" {
			continue
		}
		p = strings.ReplaceAll(p, "{gopath}", gopath)
		if !filepath.IsAbs(p) {
			if !filepath.IsAbs(operator) {
				continue
			}
			p = filepath.Join(operator, p)
		}
		if isDir(p) {
			return p
		}
	}
	return ""
}

// tooWide reports a directory that holds far more than a toolchain.
func tooWide(p, operator string) bool {
	p = sandbox.Resolve(p)
	for _, wide := range append([]string{"/tmp", "/var/tmp", "/run", "/home", "/root", "/var", "/srv", "/mnt", "/media"}, system...) {
		if sandbox.Within(p, wide) {
			return true
		}
	}
	return filepath.IsAbs(operator) && sandbox.Within(p, sandbox.Resolve(operator))
}

func isDir(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && fi.IsDir()
}

func isPrefix(dir string) bool {
	return slices.ContainsFunc(prefixes, func(mark string) bool {
		_, err := os.Stat(filepath.Join(dir, mark))
		return err == nil
	})
}

// linked lists what the links of a directory on the PATH lead to: a file by
// itself, and for a Node program the node_modules that it is part of.
func linked(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxLinks)
	var targets []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		p, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil || sandbox.Within(dir, p) {
			continue
		}
		if before, _, ok := strings.Cut(p, "/node_modules/"); ok {
			p = before + "/node_modules"
		}
		targets = append(targets, p)
	}
	return targets
}

// outermost sorts paths and drops those below another, and the system's.
func outermost(paths []string) []string {
	slices.Sort(paths)
	var kept []string
	for _, p := range paths {
		if slices.ContainsFunc(append(kept, "/usr", "/opt", "/nix"), func(k string) bool { return sandbox.Within(k, p) }) {
			continue
		}
		kept = append(kept, p)
	}
	return kept
}
