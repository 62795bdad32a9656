package store_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/store"
)

const secret = "s3cr3t-value"

const handWritten = `# the team's
[servers.docs]
transport = "http"
url = "https://docs.example.com/mcp"
headers = { Authorization = "Bearer ` + secret + `" }
`

// A place is an operator's home and a repository.
type place struct{ home, top string }

func newPlace(t *testing.T, project, user string) place {
	t.Helper()
	p := place{filepath.Join(t.TempDir(), "home"), t.TempDir()}
	if project != "" {
		write(t, p.file(mcp.Project), project)
	}
	if user != "" {
		write(t, p.file(mcp.User), user)
	}
	return p
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p place) file(scope mcp.Scope) string {
	if scope == mcp.User {
		return filepath.Join(p.home, "mcp.toml")
	}
	return filepath.Join(p.top, ".bestof", "mcp.toml")
}

func (p place) store(trusted bool) *store.Store { return store.New(p.home, p.top, trusted) }

func (p place) text(t *testing.T, scope mcp.Scope) string {
	t.Helper()
	b, err := os.ReadFile(p.file(scope))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(l store.Loaded) string {
	var out []string
	for _, e := range l.Entries {
		word := e.Name + ":" + string(e.Scope)
		if e.Withheld() != "" {
			word += ":withheld"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func entry(name, more string) string {
	return fmt.Sprintf("[servers.%s]\ntransport = \"stdio\"\ncmd = \"x\"\n%s", name, more)
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Without trust nothing of a repository is used, and one notice says so.
func TestTrustGate(t *testing.T) {
	p := newPlace(t, handWritten+entry("own", "")+"zap = 1\n", entry("mine", ""))
	closed := p.store(false).Load()
	if names(closed) != "mine:user" || len(closed.Notices) != 1 || !strings.Contains(closed.Notices[0], "BESTOF_TRUST_PROJECT=1") {
		t.Errorf("%s %q", names(closed), closed.Notices)
	}
	if open := p.store(true).Load(); names(open) != "docs:project mine:user own:project" || len(open.Notices) != 1 || !strings.Contains(open.Notices[0], "zap") {
		t.Errorf("%s %q", names(open), open.Notices)
	}
	if quiet := newPlace(t, "", "").store(false).Load(); len(quiet.Entries)+len(quiet.Notices) != 0 {
		t.Errorf("%+v", quiet)
	}
	if outside := store.New(p.home, "", true).Load(); names(outside) != "mine:user" {
		t.Errorf("%+v", outside)
	}
}

// A name of the operator's file is the operator's, whatever its state there.
func TestTheOperatorsNamesWin(t *testing.T) {
	p := newPlace(t, entry("a", "")+entry("b", "")+entry("c", ""), entry("a", "granted = false\n")+"[servers.b]\ntransport = \"http\"\nurl = \"no\"\n")
	l := p.store(true).Load()
	if names(l) != "a:user:withheld c:project" || len(l.Unusable) != 1 || l.Unusable[0].Name != "b" {
		t.Errorf("%s %+v", names(l), l.Unusable)
	}
	if n := strings.Join(l.Notices, "\n"); strings.Count(n, `both mcp.toml have "a", "b"`) != 1 || strings.Contains(n, secret) {
		t.Error(n)
	}
}

// A file that cannot be read costs what it must and tells no value.
func TestBrokenFiles(t *testing.T) {
	broken := "[servers.x]\ntransport = \"stdio\"\nenv = { A = \"" + secret + "\n"
	l := newPlace(t, broken, entry("mine", "")).store(true).Load()
	if names(l) != "mine:user" || len(l.Notices) != 1 || !strings.Contains(l.Notices[0], ".bestof/mcp.toml:3: ") || strings.Contains(l.Notices[0], secret) {
		t.Errorf("%s %q", names(l), l.Notices)
	}
	l = newPlace(t, entry("own", ""), broken).store(true).Load()
	if names(l) != "" || len(l.Notices) != 1 || !strings.Contains(l.Notices[0], "no MCP server is used: $BESTOF_HOME/mcp.toml:3: ") {
		t.Errorf("%s %q", names(l), l.Notices)
	}
}

// Neither file is read or written through a link, and nothing but a file is
// waited for.
func TestLinksAndPipes(t *testing.T) {
	for name, plant := range map[string]func(p place) error{
		"a link":            func(p place) error { return os.Symlink(filepath.Join(p.top, "elsewhere"), p.file(mcp.Project)) },
		"a link to nothing": func(p place) error { return os.Symlink("nothing", p.file(mcp.Project)) },
		"a pipe":            func(p place) error { return syscall.Mkfifo(p.file(mcp.Project), 0o600) },
		"a directory":       func(p place) error { return os.Mkdir(p.file(mcp.Project), 0o700) },
		"a linked directory": func(p place) error {
			return errors.Join(os.Remove(filepath.Dir(p.file(mcp.Project))), os.Symlink("other", filepath.Dir(p.file(mcp.Project))))
		},
		"a file for a directory": func(p place) error {
			return errors.Join(os.Remove(filepath.Dir(p.file(mcp.Project))), os.WriteFile(filepath.Dir(p.file(mcp.Project)), nil, 0o600))
		},
	} {
		p := newPlace(t, "", "")
		for file, text := range map[string]string{"elsewhere": entry("evil", ""), "other/mcp.toml": entry("evil", ""), ".bestof/x": ""} {
			write(t, filepath.Join(p.top, file), text)
		}
		if err := errors.Join(os.Remove(filepath.Join(p.top, ".bestof", "x")), plant(p)); err != nil {
			t.Fatal(err)
		}
		s := p.store(true)
		if l := s.Load(); len(l.Entries) > 0 || len(l.Notices) != 1 {
			t.Errorf("%s: %+v", name, l)
		}
		if err := s.Add(mcp.Project, mcp.Server{Name: "n", Transport: mcp.Stdio, Cmd: "x"}); err == nil {
			t.Errorf("%s is written through", name)
		}
		for _, file := range []string{"elsewhere", "other/mcp.toml"} {
			if b, _ := os.ReadFile(filepath.Join(p.top, file)); string(b) != entry("evil", "") {
				t.Errorf("%s: %s was written: %s", name, file, b)
			}
		}
		if _, err := os.Lstat(filepath.Join(p.top, "nothing")); err == nil {
			t.Errorf("%s: something was made", name)
		}
	}
}

// What is written can be read by its owner alone.
func TestModes(t *testing.T) {
	p := newPlace(t, "", "")
	s := p.store(true)
	for _, scope := range []mcp.Scope{mcp.Project, mcp.User} {
		if err := s.Add(scope, mcp.Server{Name: string(scope), Transport: mcp.Stdio, Cmd: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Grant(scope, string(scope), mcp.Fingerprint(mcp.Server{Transport: mcp.Stdio, Cmd: "x"}, nil), now); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for _, dir := range []string{p.home, filepath.Join(p.top, ".bestof")} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			info, err := d.Info()
			if err != nil {
				return err
			}
			seen++
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s is %s", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 7 {
		t.Errorf("only %d files", seen)
	}

	open := newPlace(t, handWritten, "")
	if err := os.Chmod(open.file(mcp.Project), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := open.store(true).Read(mcp.Project); err != nil || len(c.Notices) != 1 || !strings.Contains(c.Notices[0], "chmod 600") {
		t.Errorf("%v %q", err, c.Notices)
	}
	if err := open.store(true).SetCandidateSafe(mcp.Project, "docs", true); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(open.file(mcp.Project)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", err, info.Mode())
	}
}

// A grant is bound to the repository, the name, the endpoint and the tools.
func TestGrantIsBound(t *testing.T) {
	p := newPlace(t, "# top\n"+entry("s", "granted = false # why\n"), "")
	s := p.store(true)
	e, err := s.Find("", "s")
	if err != nil || e.Withheld() == "" {
		t.Fatalf("%v %+v", err, e)
	}
	tools := []mcp.Tool{{Name: "t", InputSchema: []byte(`{}`)}}
	if err := s.Grant(e.Scope, "s", mcp.Fingerprint(e.Server, tools), now); err != nil {
		t.Fatal(err)
	}
	if got := p.text(t, mcp.Project); got != "# top\n"+entry("s", "granted = true # why\n") {
		t.Error(got)
	}
	e, _ = s.Find("", "s")
	if e.Withheld() != "" || !e.Record.Agreed.Equal(now) {
		t.Errorf("%q %+v", e.Withheld(), e.Record)
	}
	admitted, withheld := e.Admit(append(slices.Clone(tools), mcp.Tool{Name: "u", InputSchema: []byte(`{}`)}))
	if len(admitted) != 1 || len(withheld) != 1 {
		t.Errorf("%v %v", admitted, withheld)
	}

	clone := newPlace(t, p.text(t, mcp.Project), "")
	if got := names(store.New(p.home, clone.top, true).Load()); got != "s:project:withheld" {
		t.Errorf("a clone with granted = true: %s", got)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(p.top, link); err != nil {
		t.Fatal(err)
	}
	if got := names(store.New(p.home, link, true).Load()); got != "s:project" {
		t.Errorf("the same repository by another path: %s", got)
	}
	write(t, p.file(mcp.Project), strings.Replace(p.text(t, mcp.Project), `"x"`, `"y"`, 1))
	if got := names(s.Load()); got != "s:project:withheld" {
		t.Errorf("another program: %s", got)
	}
}

// What was shown is what is granted.
func TestGrantOfSomethingElse(t *testing.T) {
	p := newPlace(t, entry("s", "granted = false\n"), "")
	s := p.store(true)
	e, _ := s.Find("", "s")
	shown := mcp.Fingerprint(e.Server, nil)
	write(t, p.file(mcp.Project), strings.Replace(p.text(t, mcp.Project), `"x"`, `"evil"`, 1))
	if err := s.Grant(mcp.Project, "s", shown, now); !errors.Is(err, store.ErrChanged) || s.Record(mcp.Project, "s") != nil || strings.Contains(p.text(t, mcp.Project), "true") {
		t.Errorf("%v\n%s", err, p.text(t, mcp.Project))
	}
}

// A grant that was taken back stays so, whatever the repository writes.
func TestRevoke(t *testing.T) {
	for _, scope := range []mcp.Scope{mcp.Project, mcp.User} {
		p := newPlace(t, entry("s", ""), "")
		if scope == mcp.User {
			p = newPlace(t, "", entry("s", ""))
		}
		s := p.store(true)
		e, _ := s.Find("", "s")
		if err := errors.Join(s.Grant(scope, "s", mcp.Fingerprint(e.Server, nil), now), s.Revoke(scope, "s", now)); err != nil {
			t.Fatal(err)
		}
		if got := names(s.Load()); got != "s:"+string(scope)+":withheld" || !strings.Contains(p.text(t, scope), "granted = false") {
			t.Errorf("%s\n%s", got, p.text(t, scope))
		}
		write(t, p.file(scope), entry("s", "granted = true\n"))
		want := "s:user" // the operator's own hand
		if scope == mcp.Project {
			want = "s:project:withheld"
		}
		if got := names(s.Load()); got != want {
			t.Errorf("granted by hand again: %s, want %s", got, want)
		}
		if err := s.Revoke(scope, "none", now); !errors.Is(err, mcp.ErrNoServer) {
			t.Error(err)
		}
	}
}

// fileLimit lets nobody write a file larger than n bytes, until the test ends.
func fileLimit(t *testing.T, n uint64) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
}

// A grant is withdrawn also where the entry cannot say so, as on a full disk.
func TestRevokeWithoutTheFile(t *testing.T) {
	for _, scope := range []mcp.Scope{mcp.Project, mcp.User} {
		const limit = 64 << 10 // of which a record takes little
		text := strings.Repeat("# a long comment\n", limit/16) + entry("s", "")
		p := newPlace(t, text, "")
		if scope == mcp.User {
			p = newPlace(t, "", text)
		}
		s := p.store(true)
		e, _ := s.Find("", "s")
		if err := s.Grant(scope, "s", mcp.Fingerprint(e.Server, nil), now); err != nil {
			t.Fatal(err)
		}
		before := p.text(t, scope)
		var err error
		t.Run(string(scope), func(t *testing.T) {
			fileLimit(t, limit)
			err = s.Revoke(scope, "s", now)
		})
		if err == nil || !strings.Contains(err.Error(), `"s" is withheld, but its entry does not say so`) {
			t.Error(err)
		}
		if got := names(s.Load()); got != "s:"+string(scope)+":withheld" || p.text(t, scope) != before {
			t.Errorf("%s\n%s", got, p.text(t, scope))
		}
	}
}

// limited makes the test's program revoke "s" of a place, and write no file
// larger than so many bytes. The test's own log would not fit either.
const limited = "STORE_TEST_REVOKE"

func TestMain(m *testing.M) {
	if words := strings.Split(os.Getenv(limited), "\n"); len(words) == 4 {
		signal.Ignore(syscall.SIGXFSZ)
		limit, err := strconv.ParseUint(words[3], 10, 64)
		if err == nil {
			err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit})
		}
		if err == nil {
			err = store.New(words[0], words[1], true).Revoke(mcp.Scope(words[2]), "s", now)
		}
		if err != nil {
			fmt.Print(err)
		}
		return
	}
	os.Exit(m.Run())
}

// A grant is withdrawn also where the home cannot be written and the entry can,
// and what is not withdrawn is not said to be.
func TestRevokeWithoutTheRecord(t *testing.T) {
	for _, scope := range []mcp.Scope{mcp.Project, mcp.User} {
		for _, full := range []bool{false, true} {
			p := newPlace(t, entry("s", ""), "")
			if scope == mcp.User {
				p = newPlace(t, "", entry("s", ""))
			}
			s := p.store(true)
			e, _ := s.Find("", "s")
			if err := s.Grant(scope, "s", mcp.Fingerprint(e.Server, nil), now); err != nil {
				t.Fatal(err)
			}
			limit := len(p.text(t, scope)) + 1 // of "false"; a record takes more
			loaded, says := "s:"+string(scope)+":withheld", "granted = false"
			wants := []string{`"s" is withheld, but only as long as its entry says so: record the answer`}
			switch {
			case full:
				limit, loaded, says = 1, "s:"+string(scope), "granted = true"
				wants = []string{`"s" is not withheld: record the answer`, "; write "}
			case scope == mcp.User:
				wants = nil
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), limited+"="+strings.Join([]string{p.home, p.top, string(scope), strconv.Itoa(limit)}, "\n"))
			out, err := cmd.Output()
			if said := string(out); err != nil || (said == "") != (wants == nil) || strings.Contains(said, "\n") {
				t.Errorf("%q, %v", said, err)
			}
			for _, want := range wants {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s, want %s", out, want)
				}
			}
			if got := names(s.Load()); got != loaded || !strings.Contains(p.text(t, scope), says) {
				t.Errorf("%s, want %s\n%s", got, loaded, p.text(t, scope))
			}
		}
	}
}

// Removing forgets the answer, and an entry of the same name is a new one.
func TestRemove(t *testing.T) {
	p := newPlace(t, "# top\n"+entry("s", "")+entry("bad__name", ""), "")
	s := p.store(false)
	e, _ := s.Find("", "s")
	if err := errors.Join(s.Grant(mcp.Project, "s", mcp.Fingerprint(e.Server, nil), now), s.Remove(mcp.Project, "s"), s.Remove(mcp.Project, "bad__name")); err != nil {
		t.Fatal(err)
	}
	if p.text(t, mcp.Project) != "# top\n" || s.Record(mcp.Project, "s") != nil {
		t.Errorf("%q", p.text(t, mcp.Project))
	}
	if err := s.Remove(mcp.Project, "s"); !errors.Is(err, mcp.ErrNoServer) {
		t.Error(err)
	}
	if files, _ := filepath.Glob(filepath.Join(p.home, "mcp", "grants", "*")); len(files) > 0 {
		t.Error(files)
	}
}

// A record that was damaged or moved is an answer to something else.
func TestDamagedRecords(t *testing.T) {
	p := newPlace(t, entry("s", "")+entry("u", ""), "")
	s := p.store(true)
	for _, name := range []string{"s", "u"} {
		e, _ := s.Find("", name)
		if err := s.Grant(mcp.Project, name, mcp.Fingerprint(e.Server, nil), now); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(p.home, "mcp", "grants", "*.json"))
	if len(files) != 2 || names(s.Load()) != "s:project u:project" {
		t.Fatalf("%v %s", files, names(s.Load()))
	}
	first, _ := os.ReadFile(files[0])
	for _, damage := range [][]byte{nil, []byte("{"), []byte("{}"), first} { // the last: one record for the other
		if err := os.WriteFile(files[1], damage, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := names(s.Load()); strings.Count(got, "withheld") != 1 {
			t.Errorf("%.20q: %s", damage, got)
		}
	}
	if strings.Contains(string(first), secret) || !strings.Contains(string(first), `"digest"`) {
		t.Errorf("%s", first)
	}
}

// Put decides on what the file has under the lock.
func TestPut(t *testing.T) {
	p := newPlace(t, "", "")
	s := p.store(true)
	for want := range 3 {
		err := s.Put(mcp.User, "n", func(old *mcp.Server) (mcp.Server, error) {
			if (old == nil) != (want == 0) || old != nil && len(old.Args) != want {
				return mcp.Server{}, fmt.Errorf("old is %+v", old)
			}
			return mcp.Server{Transport: mcp.Stdio, Cmd: "x", Args: make([]string, want+1)}, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	no := errors.New("no")
	before := p.text(t, mcp.User)
	if err := s.Put(mcp.User, "n", func(*mcp.Server) (mcp.Server, error) { return mcp.Server{}, no }); !errors.Is(err, no) || p.text(t, mcp.User) != before {
		t.Error(err)
	}
	if err := s.Add(mcp.User, mcp.Server{Name: "n", Transport: mcp.Stdio, Cmd: "x"}); !errors.Is(err, store.ErrTaken) {
		t.Error(err)
	}
	if err := store.New(p.home, "", true).Add(mcp.Project, mcp.Server{Name: "n", Transport: mcp.Stdio, Cmd: "x"}); !errors.Is(err, store.ErrNoRepository) {
		t.Error(err)
	}
}

// Where the operator's home is the .bestof of a repository, the one file is the
// operator's.
func TestHomeInsideARepository(t *testing.T) {
	top := t.TempDir()
	home := filepath.Join(top, ".bestof")
	write(t, filepath.Join(home, "mcp.toml"), entry("s", ""))
	s := store.New(home, top, false)
	if l := s.Load(); names(l) != "s:user" || len(l.Notices) > 0 || s.Repository() {
		t.Errorf("%s %q", names(l), l.Notices)
	}
}

const helper = "MCP_STORE_HELPER"

// TestHelperAdds is the other process of TestProcessesWait.
func TestHelperAdds(t *testing.T) {
	dirs := filepath.SplitList(os.Getenv(helper))
	if len(dirs) != 3 {
		return // only TestProcessesWait gives it something to do
	}
	for i := range 10 {
		if err := store.New(dirs[0], dirs[1], true).Add(mcp.Project, mcp.Server{Name: fmt.Sprintf("%s%d", dirs[2], i), Transport: mcp.Stdio, Cmd: "x"}); err != nil {
			t.Fatal(err)
		}
	}
}

// Several processes that write at once lose nothing of each other.
func TestProcessesWait(t *testing.T) {
	p := newPlace(t, "# top\n", "")
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		all.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestHelperAdds$")
			cmd.Env = append(os.Environ(), helper+"="+strings.Join([]string{p.home, p.top, name}, string(filepath.ListSeparator)))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	if c, err := p.store(true).Read(mcp.Project); err != nil || len(c.Servers) != 30 {
		t.Errorf("%v: %d servers", err, len(c.Servers))
	}
}

// A file that cannot be read is not written, and is named once.
func TestChangesOfBrokenFiles(t *testing.T) {
	broken := entry("a", "args = \""+secret+"\"\n")
	p := newPlace(t, broken, "")
	s := p.store(true)
	for name, err := range map[string]error{
		"add":    s.Add(mcp.Project, mcp.Server{Name: "n", Transport: mcp.Stdio, Cmd: "x"}),
		"safe":   s.SetCandidateSafe(mcp.Project, "a", true),
		"revoke": s.Revoke(mcp.Project, "a", now),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), ".bestof/mcp.toml:4: servers.a.args") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p.text(t, mcp.Project) != broken {
		t.Error(p.text(t, mcp.Project))
	}
}
