package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/store"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const manifest = "name = 'verify'\ndescription = 'd'\n[loop]\nparticipation = 'steering'\npoints = ['after_turn']\n[runtime]\nargv = ['${plugin_dir}/main.sh']\ntimeout_secs = 1\n"

// A site is an operator's home and a repository.
type site struct{ home, top string }

func newSite(t *testing.T) site {
	t.Helper()
	return site{filepath.Join(t.TempDir(), "home"), t.TempDir()}
}

func (s site) store(trusted bool) *store.Store { return store.New(s.home, s.top, trusted) }

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		_ = os.Remove(path) // installed files are read-only
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func source(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	write(t, dir, map[string]string{"plugin.toml": manifest, "main.sh": "#!/bin/sh\n", "lib/x.py": "1", ".git/config": "[core]"})
	return dir
}

func install(t *testing.T, s *store.Store, dir string, scope store.Scope) store.Installed {
	t.Helper()
	st, err := s.Stage(dir, scope)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Discard()
	in, err := st.Install(now)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func loaded(t *testing.T, s *store.Store) (names []string, notices string) {
	t.Helper()
	plugins, said := s.Load()
	for _, p := range plugins {
		names = append(names, fmt.Sprintf("%s %s %v", p.Name, p.Scope, p.Shadows))
	}
	return names, strings.Join(said, "\n")
}

func TestInstallLoadRemove(t *testing.T) {
	at := newSite(t)
	s := at.store(true)
	for _, scope := range []store.Scope{store.User, store.Project} {
		in := install(t, s, source(t), scope)
		if in.Name != "verify" || in.Agreed != now || filepath.Base(in.Dir) != "verify" {
			t.Errorf("%+v", in)
		}
		info, err := os.Stat(filepath.Join(in.Dir, "main.sh"))
		if err != nil || info.Mode().Perm() != 0o555 {
			t.Errorf("%v, %v", info, err)
		}
		if _, err := os.Stat(filepath.Join(in.Dir, ".git")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its history was installed: %v", err)
		}
		if err := s.Free("verify", scope); err == nil {
			t.Error("the name is free")
		}
	}
	names, notices := loaded(t, s)
	if diff := cmp.Diff([]string{"verify project true"}, names); diff != "" || notices != "" {
		t.Error(diff, notices)
	}
	// Nothing of an installation is left beside it, and no receipt is in the repository.
	for _, dir := range []string{filepath.Join(at.home, "plugins"), filepath.Join(at.top, ".bestof", "plugins"), filepath.Join(at.top, ".bestof")} {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("%s holds %v, %v", dir, entries, err)
		}
	}
	if receipts, _ := filepath.Glob(filepath.Join(at.home, "receipts", "*.json")); len(receipts) != 2 {
		t.Errorf("receipts: %q", receipts)
	}
	gone, err := at.store(false).Remove("verify") // not gated by trust
	if err != nil || len(gone) != 2 {
		t.Errorf("%q, %v", gone, err)
	}
	if _, err := s.Remove("verify"); !errors.Is(err, store.ErrNotInstalled) {
		t.Errorf("%v", err)
	}
	if receipts, _ := filepath.Glob(filepath.Join(at.home, "receipts", "*.json")); len(receipts) != 0 {
		t.Errorf("receipts left: %q", receipts)
	}
	install(t, s, source(t), store.User) // its name is free again
}

func TestTrustGate(t *testing.T) {
	at := newSite(t)
	write(t, filepath.Join(at.top, ".bestof/plugins/verify"), map[string]string{"plugin.toml": manifest})
	names, notices := loaded(t, at.store(false))
	if len(names) > 0 || !strings.Contains(notices, `"verify"`) || !strings.Contains(notices, "BESTOF_TRUST_PROJECT=1") || strings.Contains(notices, "\n") {
		t.Errorf("%q %q", names, notices)
	}
	if names, notices = loaded(t, at.store(true)); len(names) != 1 || notices != "" {
		t.Errorf("trusted: %q %q", names, notices)
	}
	// A repository cannot open the gate, nor bring a receipt.
	write(t, at.top, map[string]string{".env": "BESTOF_TRUST_PROJECT=1", ".bestof/.env": "BESTOF_TRUST_PROJECT=1", ".bestof/config.toml": "trust = true"})
	if names, _ = loaded(t, at.store(false)); len(names) > 0 {
		t.Errorf("%q", names)
	}
	// Without plugins there is nothing to say.
	if _, notices = loaded(t, newSite(t).store(false)); notices != "" {
		t.Errorf("%q", notices)
	}
	// What nobody agreed to does not load from the operator's tier.
	write(t, filepath.Join(at.home, "plugins/stray"), map[string]string{"plugin.toml": "name = 'stray'"})
	names, notices = loaded(t, at.store(false))
	if len(names) > 0 || !strings.Contains(notices, "nobody agreed to it") {
		t.Errorf("%q %q", names, notices)
	}
}

// TestDrift: whatever changes after the agreement, the plugin does not load and
// the notice says what it was.
func TestDrift(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"program": {func(t *testing.T, dir string) { write(t, dir, map[string]string{"main.sh": "#!/bin/sh\nevil"}) }, `"main.sh" was changed`},
		"manifest": {func(t *testing.T, dir string) {
			write(t, dir, map[string]string{"plugin.toml": manifest + "env = ['HOME']"})
		}, `"plugin.toml" was changed`},
		"broken":  {func(t *testing.T, dir string) { write(t, dir, map[string]string{"plugin.toml": "?"}) }, `"plugin.toml" was changed`},
		"module":  {func(t *testing.T, dir string) { write(t, dir, map[string]string{"lib/json.py": "1"}) }, `"lib/json.py" was added`},
		"removed": {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "lib/x.py")) }, `"lib/x.py" was removed`},
		"mode":    {func(t *testing.T, dir string) { os.Chmod(filepath.Join(dir, "lib/x.py"), 0o755) }, `"lib/x.py" has another mode`},
		"empty":   {func(t *testing.T, dir string) { os.Mkdir(filepath.Join(dir, "new"), 0o755) }, "its directories are others"},
		"link":    {func(t *testing.T, dir string) { os.Symlink("/etc/passwd", filepath.Join(dir, "l")) }, `"l": it is a symbolic link`},
		"many": {func(t *testing.T, dir string) {
			for i := range 9 {
				write(t, dir, map[string]string{fmt.Sprint("n", i): ""})
			}
		}, "and 4 more"},
	} {
		for _, scope := range []store.Scope{store.User, store.Project} {
			s := newSite(t).store(true)
			in := install(t, s, source(t), scope)
			c.change(t, in.Dir)
			names, notices := loaded(t, s)
			if len(names) > 0 || !strings.Contains(notices, c.want) {
				t.Errorf("%s in %s: %q %q", name, scope, names, notices)
			}
			if gone, err := s.Remove("verify"); err != nil || len(gone) != 1 {
				t.Errorf("%s: it cannot be removed: %v", name, err)
			}
		}
	}
}

// TestReceipts: a receipt holds for one scope, repository and name, and one
// that is damaged is an agreement to nothing.
// TestIntact: what was loaded is held against what is there now.
func TestIntact(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(dir string) error
		want string
	}{
		"nothing": {func(string) error { return nil }, ""},
		"a byte":  {func(dir string) error { write(t, dir, map[string]string{"main.sh": "evil"}); return nil }, `"main.sh" was changed`},
		"a mode":  {func(dir string) error { return os.Chmod(filepath.Join(dir, "lib/x.py"), 0o755) }, `"lib/x.py" has another mode`},
		"a file":  {func(dir string) error { write(t, dir, map[string]string{"lib/y.py": "1"}); return nil }, `"lib/y.py" was added`},
		"a link": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-old"), os.Symlink(dir+"-old", dir))
		}, "its directory is gone"},
		"gone": {os.RemoveAll, "its directory is gone"},
	} {
		in := install(t, newSite(t).store(true), source(t), store.User)
		if err := c.do(in.Dir); err != nil {
			t.Fatal(err)
		}
		if err := in.Intact(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), "is not what it was when it was loaded: "+c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReceipts(t *testing.T) {
	at := newSite(t)
	s := at.store(true)
	in := install(t, s, source(t), store.User)
	receipt, _ := filepath.Glob(filepath.Join(at.home, "receipts", "*.json"))
	b, err := os.ReadFile(receipt[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "{", strings.Replace(string(b), `"user"`, `"project"`, 1), strings.Replace(string(b), `"verify"`, `"other"`, 1), strings.Replace(string(b), "receipt/1", "receipt/2", 1)} {
		if err := os.WriteFile(receipt[0], []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if names, notices := loaded(t, s); len(names) > 0 || !strings.Contains(notices, "receipt cannot be read") {
			t.Errorf("%q: %q %q", bad, names, notices)
		}
	}
	// The same bytes under another name were not agreed to.
	if err := os.WriteFile(receipt[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(at.home, "plugins/other"), os.DirFS(in.Dir)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at.home, "plugins/other"), map[string]string{"plugin.toml": strings.Replace(manifest, "verify", "other", 1)})
	if names, notices := loaded(t, s); len(names) != 1 || !strings.Contains(notices, "nobody agreed") {
		t.Errorf("%q %q", names, notices)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"link":     {func(dir string) error { return os.Symlink("main.sh", filepath.Join(dir, "lib/l")) }, `"lib/l": it is a symbolic link`},
		"link out": {func(dir string) error { return os.Symlink("/etc", filepath.Join(dir, "etc")) }, `"etc": it is a symbolic link`},
		"pipe":     {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "p"), 0o644) }, `"p": it is a named pipe`},
		"device":   {func(dir string) error { return syscall.Mknod(filepath.Join(dir, "d"), syscall.S_IFCHR|0o600, 0x103) }, `"d": it is a device`},
		"setuid":   {func(dir string) error { return os.Chmod(filepath.Join(dir, "main.sh"), 0o755|os.ModeSetuid) }, `"main.sh": it has the setuid`},
		"setgid":   {func(dir string) error { return os.Chmod(filepath.Join(dir, "main.sh"), 0o755|os.ModeSetgid) }, `"main.sh": it has the setuid or setgid`},
		"large":    {func(dir string) error { return truncate(filepath.Join(dir, "big"), store.MaxFile+1) }, `"big": it is larger`},
		"large in sum": {func(dir string) error {
			return errors.Join(truncate(filepath.Join(dir, "b1"), store.MaxFile), truncate(filepath.Join(dir, "b2"), store.MaxFile))
		}, "the package is larger than"},
		"many":       {func(dir string) error { return many(filepath.Join(dir, "lib")) }, "more than 2000"},
		"deep":       {func(dir string) error { return os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 18)), 0o755) }, "nested deeper"},
		"not UTF-8":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a\xff"), nil, 0o644) }, `"a\xff": the name`},
		"case twins": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "MAIN.sh"), nil, 0o755) }, `"main.sh": its name and that of "MAIN.sh" differ by case alone`},
		"case twins below": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "lib", "stra\u00dfe\u017f"), nil, 0o644), os.Mkdir(filepath.Join(dir, "lib", "STRA\u1e9eES"), 0o755))
		}, `differ by case alone`},
		"no manifest": {func(dir string) error { return os.Remove(filepath.Join(dir, "plugin.toml")) }, "not a plugin"},
		"manifest link": {func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "plugin.toml"), filepath.Join(dir, "x")), os.Symlink("x", filepath.Join(dir, "plugin.toml")))
		}, `"plugin.toml": it is a symbolic link`},
		"bad manifest": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte("name = 'x'\nrisk = 1"), 0o644)
		}, "plugin.toml:2: unknown key"},
		"name is a path": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte("name = '../x'"), 0o644)
		}, "cannot be a directory's name"},
		"name is hidden": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte("name = '.x'"), 0o644)
		}, "cannot be a directory's name"},
		"name deceives": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte("name = \"x\u202e\""), 0o644)
		}, "do not show"},
		"undeclared tool": {func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "tools"), 0o755), os.WriteFile(filepath.Join(dir, "tools/t.toml"), []byte("name='t'\ndescription='d'\ncommand=['t']"), 0o644))
		}, "which no [[tools]] of plugin.toml declares"},
	} {
		t.Run(name, func(t *testing.T) {
			at := newSite(t)
			dir := source(t)
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			_, err := at.store(true).Stage(dir, store.User)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(filepath.Join(at.home, "plugins")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	at := newSite(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(source(t), link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{link, filepath.Join(link, "main.sh"), "/no/such/place"} {
		if _, err := at.store(true).Stage(dir, store.User); err == nil {
			t.Errorf("%s was staged", dir)
		}
	}
	if _, err := store.New(at.home, "", true).Stage(source(t), store.Project); err == nil || !strings.Contains(err.Error(), "no repository") {
		t.Errorf("%v", err)
	}
}

func truncate(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func many(dir string) error {
	for i := range store.MaxFiles + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// TestShownIsInstalled: the source may change after it was staged, the copy may
// not.
func TestShownIsInstalled(t *testing.T) {
	s := newSite(t).store(true)
	dir := source(t)
	st, err := s.Stage(dir, store.User)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"main.sh": "evil"})
	in, err := st.Install(now)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(in.Dir, "main.sh")); string(b) != "#!/bin/sh\n" {
		t.Errorf("installed %q", b)
	}
	if _, err := s.Remove("verify"); err != nil {
		t.Fatal(err)
	}
	if st, err = s.Stage(dir, store.User); err != nil {
		t.Fatal(err)
	}
	write(t, st.Dir, map[string]string{"main.sh": "worse"})
	if _, err := st.Install(now); err == nil || !strings.Contains(err.Error(), `"main.sh" was changed`) {
		t.Errorf("%v", err)
	}
	if err := st.Discard(); err != nil {
		t.Error(err)
	}
	if names, _ := loaded(t, s); len(names) > 0 {
		t.Errorf("%q", names)
	}
}

// TestOneOfManyInstalls: of several that install one name at once, one does.
func TestOneOfManyInstalls(t *testing.T) {
	at := newSite(t)
	dir := source(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			st, err := at.store(true).Stage(dir, store.User)
			if err == nil {
				_, err = st.Install(now)
				err = errors.Join(err, st.Discard())
			}
			errs[i] = err
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !strings.Contains(err.Error(), "installed") {
			t.Error(err)
		}
	}
	names, notices := loaded(t, at.store(true))
	if won != 1 || len(names) != 1 || notices != "" {
		t.Errorf("%d installed, %q, %q", won, names, notices)
	}
}

func TestNames(t *testing.T) {
	at := newSite(t)
	s := at.store(true)
	project := filepath.Join(at.top, ".bestof/plugins")
	write(t, project, map[string]string{
		"one/plugin.toml": "name = 'same'", "two/plugin.toml": "name = 'same'",
		"dir/plugin.toml": "name = 'other'", "readme/README": "x", ".hidden/plugin.toml": "name = 'hidden'",
		"w1/plugin.toml": "name='w1'\n[loop]\nparticipation='steering'\n[wrapper]\nid='w'\ncandidates=1", "w2/plugin.toml": "name='w2'\n[loop]\nparticipation='steering'\n[wrapper]\nid='w'\ncandidates=1",
	})
	if err := os.Symlink(source(t), filepath.Join(project, "linked")); err != nil {
		t.Fatal(err)
	}
	names, notices := loaded(t, s)
	if diff := cmp.Diff([]string{"other project false", "w1 project false"}, names); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{`"one" and "two" both say`, `the directory "dir" is called "other"`, "linked is not loaded: it is a link", `"w2" is not loaded: "w1" is driven by`} {
		if !strings.Contains(notices, want) {
			t.Errorf("no %q in\n%s", want, notices)
		}
	}
	if strings.Count(notices, "\n") != 4 {
		t.Errorf("%s", notices)
	}
	// By its name or by its directory; a link goes, what it leads to stays.
	for name, want := range map[plugin.Name]int{"other": 1, "same": 2, "linked": 1} {
		target, _ := os.Readlink(filepath.Join(project, "linked"))
		if gone, err := s.Remove(name); err != nil || len(gone) != want {
			t.Errorf("%s: %q, %v", name, gone, err)
		}
		if _, err := os.Stat(filepath.Join(target, "plugin.toml")); name == "linked" && err != nil {
			t.Error(err)
		}
	}
	// A broken plugin of the repository does not disable the operator's own.
	install(t, s, source(t), store.User)
	write(t, project, map[string]string{"verify/plugin.toml": "name = 'verify'\nx = 1"})
	names, notices = loaded(t, s)
	if diff := cmp.Diff([]string{"verify user false", "w1 project false"}, names); diff != "" || !strings.Contains(notices, `unknown key "x"`) {
		t.Error(diff, notices)
	}
}

// TestRepositoryThatLeadsAway: no link of a repository makes us write or delete
// elsewhere.
func TestRepositoryThatLeadsAway(t *testing.T) {
	for _, link := range []string{".bestof", ".bestof/plugins"} {
		at := newSite(t)
		s := at.store(true)
		precious := t.TempDir()
		write(t, precious, map[string]string{"verify/plugin.toml": manifest, "plugins/verify/plugin.toml": manifest})
		path := filepath.Join(at.top, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(precious, path)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stage(source(t), store.Project); err == nil {
			t.Errorf("%s: staged", link)
		}
		own := install(t, s, source(t), store.User)
		if gone, err := s.Remove("verify"); err == nil || len(gone) != 1 || gone[0] != own.Dir {
			t.Errorf("%s: removed %q, %v", link, gone, err) // one's own, and nothing else
		}
		if names, notices := loaded(t, s); len(names) > 0 || !strings.Contains(notices, "not a directory of its own") {
			t.Errorf("%q %q", names, notices)
		}
		for _, name := range []string{"verify/plugin.toml", "plugins/verify/plugin.toml"} {
			if _, err := os.Stat(filepath.Join(precious, name)); err != nil {
				t.Error(err)
			}
		}
		if entries, _ := os.ReadDir(precious); len(entries) != 2 {
			t.Errorf("written to: %v", entries)
		}
	}
}

// TestKilledInstallation: its copy is removed by the next one.
func TestKilledInstallation(t *testing.T) {
	at := newSite(t)
	write(t, filepath.Join(at.home, "plugins/.staging-999999999-1"), map[string]string{"x": "1"})
	write(t, filepath.Join(at.home, fmt.Sprintf("plugins/.staging-%d-1", os.Getpid())), map[string]string{"x": "1"})
	install(t, at.store(true), source(t), store.User)
	entries, err := os.ReadDir(filepath.Join(at.home, "plugins"))
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
