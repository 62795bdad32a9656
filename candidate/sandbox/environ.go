package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultPath is the PATH of a program whose operator has none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// homeDirs are made in every Spec.Home, and the variables that name them.
var homeDirs = []struct{ variable, dir string }{
	{"XDG_CONFIG_HOME", ".config"},
	{"XDG_CACHE_HOME", ".cache"},
	{"XDG_DATA_HOME", ".local/share"},
	{"XDG_STATE_HOME", ".local/state"},
	{"XDG_RUNTIME_DIR", ".run"},
	{"TMPDIR", "tmp"},
}

// PrepareHome makes the directories that the environment names inside
// Spec.Home, each 0700. It may be called before every run: whatever a program
// put in the place of one, a link above all, is replaced and never followed.
func PrepareHome(home string) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return fmt.Errorf("prepare the home directory: %w", err)
	}
	defer root.Close()
	for _, h := range homeDirs {
		at := ""
		for part := range strings.SplitSeq(h.dir, "/") {
			at = path.Join(at, part)
			if err := makeDir(root, at); err != nil {
				return fmt.Errorf("prepare the home directory: %w", err)
			}
		}
	}
	return nil
}

func makeDir(root *os.Root, name string) error {
	fi, err := root.Lstat(name)
	if err == nil && !fi.IsDir() {
		if err = root.Remove(name); err == nil {
			err = fs.ErrNotExist
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return root.Mkdir(name, 0o700)
	}
	if err == nil && fi.Mode().Perm()&0o700 != 0o700 {
		err = root.Chmod(name, 0o700)
	}
	return err
}

// HostHome is where this process finds Home.
func (s Spec) HostHome() string { return s.Enter.Host + s.Home }

// HostRoot is where this process finds Root, or what was changed of it where
// it is layered.
func (s Spec) HostRoot() string {
	if s.Enter.Layered() {
		return s.Enter.Upper
	}
	return s.Enter.Host + s.Root
}

// Check reports a Spec that no sandbox should run.
func (s Spec) Check() error {
	at := s.Place()
	for _, p := range []struct{ what, path string }{{"root", s.Root}, {"home", s.Home}, {"place of the root", at.Root}, {"place of the home", at.Home}} {
		if !filepath.IsAbs(p.path) || filepath.Clean(p.path) != p.path || p.path == "/" {
			return fmt.Errorf("%s %q is not a clean absolute path", p.what, p.path)
		}
	}
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return errors.New("no program")
	}
	if s.Timeout <= 0 {
		return errors.New("no timeout")
	}
	if s.Network != NetworkNone && s.Network != NetworkHost {
		return fmt.Errorf("network %q is neither %q nor %q", s.Network, NetworkNone, NetworkHost)
	}
	if e := s.Enter; e.Host != "" && (!filepath.IsAbs(e.Host) || filepath.Clean(e.Host) != e.Host) {
		return fmt.Errorf("host's path of the namespaces %q is not a clean absolute path", e.Host)
	} else if len(e.Offline) > 0 && len(e.Argv) == 0 {
		return errors.New("an entry leads away from the network and nowhere else")
	}
	if e := s.Enter; e.Layered() {
		for _, p := range []string{e.Lower, e.Upper, e.Work} {
			if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsAny(p, ",:\\\n") {
				return fmt.Errorf("layer %q is not a clean absolute path without what separates the options of a mount", p)
			}
		}
		if e.Host != "" || len(e.Argv) > 0 {
			return errors.New("layers to mount and namespaces to enter exclude each other")
		}
	}
	for _, argv := range [][]string{s.Enter.Argv, s.Enter.Offline} {
		if len(argv) > 0 && !filepath.IsAbs(argv[0]) {
			return fmt.Errorf("what enters namespaces, %q, is not an absolute path", argv[0])
		}
	}
	for i, f := range s.Forwards {
		switch {
		case s.Network != NetworkNone:
			return errors.New("forwards need a loopback of the program's own: they go with the network none")
		case f.Port < 1 || f.Port > 65535 || slices.ContainsFunc(s.Forwards[:i], func(g Forward) bool { return g.Port == f.Port }):
			return fmt.Errorf("port %d cannot be forwarded", f.Port)
		case !filepath.IsAbs(f.Socket) || filepath.Clean(f.Socket) != f.Socket:
			return fmt.Errorf("socket %q is not a clean absolute path", f.Socket)
		}
	}
	for _, b := range s.Binds {
		for _, p := range []string{b.Source, b.Target} {
			if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
				return fmt.Errorf("bind %q is not a clean absolute path", p)
			}
		}
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("environment variable %q has no valid name", name)
		}
	}
	return nil
}

// Dir is the absolute path of WorkDir, where Root is, or a reason why there is none: a
// program must not start outside its root, and may have removed WorkDir.
func (s Spec) Dir() (dir, reason string, err error) {
	root, err := os.OpenRoot(s.HostRoot())
	if err != nil {
		return "", "", fmt.Errorf("open the root: %w", err)
	}
	defer root.Close()
	if s.WorkDir == "" {
		return s.Root, "", nil
	}
	if s.Enter.Layered() {
		return s.layeredDir(root)
	}
	switch fi, err := root.Stat(filepath.FromSlash(s.WorkDir)); {
	case errors.Is(err, fs.ErrNotExist):
		return "", "directory " + s.WorkDir + " does not exist", nil
	case err != nil:
		return "", "directory " + s.WorkDir + " is not inside the root", nil
	case !fi.IsDir():
		return "", s.WorkDir + " is not a directory", nil
	}
	return filepath.Join(s.Root, filepath.FromSlash(s.WorkDir)), "", nil
}

// layeredDir is Dir where Root is layered. No part of it may be a link.
func (s Spec) layeredDir(upper *os.Root) (dir, reason string, err error) {
	lower, err := os.OpenRoot(s.Enter.Lower)
	if err != nil {
		return "", "", fmt.Errorf("open the root: %w", err)
	}
	defer lower.Close()
	at, shows := "", true // what the lower layer has is seen
	for part := range strings.SplitSeq(filepath.FromSlash(s.WorkDir), "/") {
		at = filepath.Join(at, part)
		fi, err := upper.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) && shows {
			fi, err = lower.Lstat(at)
		} else if err == nil {
			n, xerr := unix.Lgetxattr(filepath.Join(s.Enter.Upper, at), "user.overlay.opaque", make([]byte, 8))
			shows = shows && (xerr != nil || n == 0)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && fi.Mode()&fs.ModeCharDevice != 0: // a whiteout
			return "", "directory " + s.WorkDir + " does not exist", nil
		case err != nil || fi.Mode()&fs.ModeSymlink != 0:
			return "", "directory " + s.WorkDir + " is not inside the root", nil
		case !fi.IsDir():
			return "", s.WorkDir + " is not a directory", nil
		}
	}
	return filepath.Join(s.Root, at), "", nil
}

// Unlayered refuses a Spec whose layers somebody has to mount, for sandboxes
// that cannot do that.
func (s Spec) Unlayered() error {
	if s.Enter.Layered() {
		return errors.New("only an engine can mount its layers: choose another kind of shadow")
	}
	return nil
}

// ToolsNetwork is the network of which tools are told.
func (s Spec) ToolsNetwork() Network {
	if s.Online && len(s.Forwards) > 0 {
		return NetworkHost
	}
	return s.Network
}

// Unmoved refuses a Spec that wants to be seen elsewhere, for sandboxes that
// cannot do that.
func (s Spec) Unmoved() error {
	if s.Seen != (Place{}) && s.Seen != (Place{Root: s.Root, Home: s.Home}) {
		return errors.New("the root and the home cannot be shown at another place")
	}
	return nil
}

// Lookup reads a variable of a NAME=VALUE list; the last one wins.
func Lookup(environ []string, name string) (string, bool) {
	for _, kv := range slices.Backward(environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// User is the name under which programs run: the operator's, where it is a
// plain one.
func (o Options) User() string {
	for _, name := range []string{"USER", "LOGNAME"} {
		if v, _ := Lookup(o.Environ, name); userName.MatchString(v) {
			return v
		}
	}
	if os.Geteuid() == 0 {
		return "root"
	}
	return "user"
}

// Path is the operator's PATH without relative entries, which a program's
// working directory could fill, and without what is hidden.
func (o Options) Path() []string {
	list, _ := Lookup(o.Environ, "PATH")
	if list == "" {
		list = DefaultPath
	}
	var dirs []string
	hides := o.hides()
	for _, d := range filepath.SplitList(list) {
		if d = filepath.Clean(d); filepath.IsAbs(d) && !slices.Contains(dirs, d) && !hides(d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// Hides reports whether a path is, or leads to, something hidden.
func (o Options) Hides(p string) bool { return o.hides()(p) }

// hides is Hides for many paths: what is hidden is resolved once.
func (o Options) hides() func(p string) bool {
	resolved := sync.OnceValue(func() []string {
		var dirs []string
		for _, h := range o.Hidden {
			dirs = append(dirs, Resolve(h))
		}
		return dirs
	})
	return func(p string) bool {
		for _, h := range o.Hidden {
			if Within(h, p) {
				return true
			}
		}
		leads := Resolve(p)
		return slices.ContainsFunc(resolved(), func(h string) bool { return Within(h, leads) })
	}
}

// Within reports whether the clean absolute path p is dir or below it.
func Within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// Resolve follows links as far as the path exists.
func Resolve(p string) string {
	p = filepath.Clean(p)
	if r, err := filepath.EvalSymlinks(p); err == nil {
		return r
	}
	if p == "/" || p == "." {
		return p
	}
	return filepath.Join(Resolve(filepath.Dir(p)), filepath.Base(p))
}

// searchPath is the PATH of programs.
func (o Options) searchPath() string {
	if o.Base == nil {
		return strings.Join(o.Path(), ":")
	}
	if list, _ := Lookup(o.Base, "PATH"); list != "" {
		return list
	}
	return DefaultPath
}

// Environment is the whole environment of a program: a base built from
// nothing, or from Base, then tools (where toolchains are), then what PassEnv takes from the
// operator, then Env. It is sorted by name.
func (o Options) Environment(s Spec, tools map[string]string) []string {
	now := o.Now
	if now == nil {
		now = time.Now
	}
	sum := sha256.Sum256([]byte(s.Root))
	at := s.Place()
	env := map[string]string{}
	for _, kv := range o.Base {
		if name, v, ok := strings.Cut(kv, "="); ok && name != "" {
			env[name] = v
		}
	}
	maps.Copy(env, map[string]string{
		"PATH":     o.searchPath(),
		"HOME":     at.Home,
		"USER":     o.User(),
		"LOGNAME":  o.User(),
		"SHELL":    "/bin/sh",
		"LANG":     "C.UTF-8",
		"TERM":     "dumb",
		"NO_COLOR": "1",
		"CI":       "1",

		// Nothing may wait for a person.
		"GIT_TERMINAL_PROMPT": "0",
		"GIT_EDITOR":          "true",
		"EDITOR":              "true",
		"VISUAL":              "true",
		"GIT_PAGER":           "cat",
		"PAGER":               "cat",
		"BROWSER":             "true",
		"SSH_ASKPASS":         "false",
		"GIT_ASKPASS":         "false",
		"SSH_ASKPASS_REQUIRE": "force",
		"DEBIAN_FRONTEND":     "noninteractive",
		"PIP_NO_INPUT":        "1",

		// A shadow without a .git must not fall back to a repository above it.
		"GIT_CEILING_DIRECTORIES": filepath.Dir(at.Root),

		"COMPOSE_PROJECT_NAME":   "bestof-" + hex.EncodeToString(sum[:6]),
		"BESTOF_DEADLINE":        strconv.FormatInt(now().Add(s.Timeout).Unix(), 10),
		"BESTOF_TIMEOUT_SECONDS": strconv.FormatInt(int64((s.Timeout+time.Second-1)/time.Second), 10),
	})
	for _, h := range homeDirs {
		env[h.variable] = filepath.Join(at.Home, h.dir)
	}
	if s.Ports.Count > 0 {
		env["BESTOF_PORT_BASE"] = strconv.Itoa(s.Ports.Base)
		env["BESTOF_PORT_COUNT"] = strconv.Itoa(s.Ports.Count)
	}
	maps.Copy(env, tools)
	for _, name := range s.PassEnv {
		if v, ok := Lookup(o.Environ, name); ok {
			env[name] = v
		}
	}
	maps.Copy(env, s.Env)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
