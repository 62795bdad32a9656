package app

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/demo"
	"github.com/bestof-dev/bestof/mcp/mcptest"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

// picturesVariable names the folder where TestViewInABrowser leaves what it
// saw: `make pictures` sets it to docs.
const picturesVariable = "BESTOF_PICTURES"

// browserPlan is what testdata/browser/drive.cjs is to do.
type browserPlan struct {
	Modules  string `json:"modules"`
	Chromium string `json:"chromium"`
	Root     bool   `json:"root"`
	Address  string `json:"address"`
	Pictures string `json:"pictures"`

	Done              string            `json:"done"`    // id of a finished run
	Run               string            `json:"run"`     // path of its page
	Live              string            `json:"live"`    // path of a run that works until
	Gate              string            `json:"gate"`    // this file is there
	Killed            string            `json:"killed"`  // path of a run that works until
	Kill              int               `json:"kill"`    // this process is killed
	Hostile           string            `json:"hostile"` // path of a run with hostile candidates
	HostileCandidates []int             `json:"hostileCandidates"`
	Batch             map[string]string `json:"batch"` // paths by what they are
}

const browserAgents = `
[agents.careful]
command = ["sh", "-c", "echo 'reads parking.py'; sed -i 's|rest >= 0|rest > 0|' parking.py; echo 'rounds up'"]
[agents.quick]
command = ["sh", "-c", "sed -i 's|divmod(minutes, 60)|divmod(minutes - 1, 60)  # one less|' parking.py"]
[agents.wrong]
command = ["sh", "-c", "sed -i 's|rest >= 0|rest < 0|' parking.py"]
[agents.patient]
command = ["sh", "-c", "echo 'thinks <b>hard</b>'; until [ -e GATE ]; do sleep 0.05; done; sed -i 's|rest >= 0|rest > 0|' parking.py"]
[agents.endless]
command = ["sh", "-c", "echo goes on; exec sleep 600"]
[agents.hostile]
command = ["sh", "HOSTILE"]
`

// TestViewInABrowser looks at every page of `bestof view` in a real Chromium:
// no page has an error, a serious fault of access, or anything of a candidate
// that runs; a run is seen live to its end; and what is adopted by a click is
// in the tree.
func TestViewInABrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("chromium is not installed: run `make tools` first (%v)", err)
	}
	hostile, err := filepath.Abs("testdata/browser/hostile.sh")
	if err != nil {
		t.Fatal(err)
	}
	p := browserPlan{
		Modules: mcptest.Installed(t, "npm-web", "BESTOF_CI_WEB"), Chromium: chromium, Root: os.Geteuid() == 0,
		Gate: filepath.Join(t.TempDir(), "gate"), Pictures: os.Getenv(picturesVariable), HostileCandidates: []int{1},
	}
	if p.Pictures == "" {
		p.Pictures = t.TempDir()
	}
	b := newBench(t, "grep -qx right value\n", strings.NewReplacer("GATE", p.Gate, "HOSTILE", hostile).Replace(browserAgents))
	const test = "python3 -m unittest -q"
	park := b.park(t)
	task := "A stay of exactly one hour is charged as two. Make the failing test pass."
	if _, errs, status := park.run("run", "--sandbox", "process", "--agents", "careful:1,quick:1,wrong:1", "--test", test, task); status != 0 {
		t.Fatalf("run: %d: %s", status, errs)
	}
	hostileRun, errs, _ := b.run("run", "--json", "--sandbox", "process", "--agents", "hostile:1", "--test", "sh check.sh", `<script>alert(0)</script> "make it pass"`)
	park.batch(t)
	live, endless := park.begin("patient:1,careful:1,wrong:1", test), park.begin("endless:1", test)
	defer func() { _ = endless.cmd.Process.Kill(); _ = endless.cmd.Wait() }()

	view := park.view("--all")
	p.Address, p.Kill = view.address, endless.cmd.Process.Pid
	var doc record.Document
	if err := json.Unmarshal([]byte(hostileRun), &doc); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	list := view.get("/")
	path := func(run string) string {
		m := regexp.MustCompile(`/runs/[0-9a-f]{16}/` + run).FindString(list)
		if m == "" {
			t.Fatalf("run %s is not listed: %s", run, list)
		}
		return m
	}
	p.Done = park.runs()[0].Run
	p.Run, p.Live, p.Killed, p.Hostile = path(p.Done), path(live.id), path(endless.id), path(doc.Run)
	place := regexp.MustCompile(`/batches/[0-9a-f]{16}`).FindString(list)
	p.Batch = map[string]string{"batch": place, "batch: comparison": place + "/compare", "batch: numbers": place + "/numbers"}
	p.Address = view.next()

	drive(t, p)
	if err := os.WriteFile(p.Gate, nil, 0o600); err != nil { // where the browser did not come so far
		t.Fatal(err)
	}
	if err := live.cmd.Wait(); err != nil {
		t.Errorf("the run that was looked at: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(park.repo, "parking.py")); err != nil || !strings.Contains(string(b), "if rest > 0:") {
		t.Errorf("after the click parking.py is %q, %v", b, err)
	}
	if d := park.runs()[0].Adopted; d == nil || d.Candidate != 1 || d.Mode != "apply" {
		t.Errorf("the record says %+v", d)
	}
	view.stop()
}

func drive(t *testing.T, p browserPlan) {
	t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(mcptest.Program(t, "node"), "testdata/browser/drive.cjs", file)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s in %v", strings.TrimSpace(string(out)), time.Since(began).Round(time.Second))
}

// park is a bench with the same home and the repository of a car park.
func (b *bench) park(t *testing.T) *bench {
	t.Helper()
	d, err := demo.Pick(func(program string) bool { _, err := exec.LookPath(program); return err == nil })
	if err != nil || d.Name != "python" {
		t.Fatalf("the demo is %s, %v", d.Name, err)
	}
	dir, err := os.MkdirTemp("", "view-") // its name is in the pictures
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	park := &bench{t: t, repo: filepath.Join(dir, "parking"), home: b.home}
	for name, text := range d.Files {
		at := filepath.Join(park.repo, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "First"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = park.repo, park.environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return park
}

// batch runs a batch of two tasks on the repository.
func (b *bench) batch(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	tasks := "instance_id,repo,base_commit,problem_statement,test\npark-1,parking,,Mend it.,python3 -m unittest -q\npark-2,parking,,Mend <it> too.,python3 -m unittest -q\n"
	if err := os.WriteFile(filepath.Join(dir, "tasks.csv"), []byte(tasks), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs, status := b.run("batch", "run", filepath.Join(dir, "tasks.csv"), "--repo", b.repo, "--sandbox", "process", "--agents", "careful:1,wrong:1", "-n", "2", "--out", filepath.Join(dir, "out")); status != 0 {
		t.Fatalf("batch: %d: %s", status, errs)
	}
}

// A begunRun is a run that works.
type begunRun struct {
	cmd *exec.Cmd
	id  string
}

// begin starts a run and waits until its candidate works.
func (b *bench) begin(agents, test string) begunRun {
	b.t.Helper()
	before := len(b.ids())
	r := begunRun{cmd: b.command("run", "--quiet", "--sandbox", "process", "--agents", agents, "--test", test, "A day that was not yet over costs too little. Make the failing test pass.")}
	if err := r.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		if ids := b.ids(); len(ids) > before {
			r.id = ids[len(ids)-1]
			events, _ := os.ReadFile(filepath.Join(b.repo, ".bestof", "runs", r.id, "events.jsonl"))
			if strings.Contains(string(events), `"type":"activity"`) {
				return r
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not begin", agents)
		}
	}
}

// ids are the runs that are there, oldest first.
func (b *bench) ids() []string {
	var ids []string
	all, _ := os.ReadDir(filepath.Join(b.repo, ".bestof", "runs"))
	for _, e := range all {
		if record.ValidID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

// A viewing is `bestof view`, with a client that has entered.
type viewing struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	client  *http.Client
	errs    *bufio.Reader
}

func (b *bench) view(args ...string) *viewing {
	b.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	v := &viewing{t: b.t, cmd: b.command(append([]string{"view", "--json", "--no-open"}, args...)...), client: &http.Client{Jar: jar}}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	errs, err := v.cmd.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	v.errs = bufio.NewReader(errs)
	if err := v.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = v.cmd.Process.Kill(); _ = v.cmd.Wait() })
	var said struct {
		Address string `json:"address"`
	}
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		b.t.Fatal(err)
	}
	v.address = said.Address
	return v
}

// get is a page, for which the address is used up the first time.
func (v *viewing) get(path string) string {
	v.t.Helper()
	u, err := url.Parse(v.address)
	if err != nil {
		v.t.Fatal(err)
	}
	if len(v.client.Jar.Cookies(u)) == 0 {
		r, err := v.client.Get(v.address)
		if err != nil {
			v.t.Fatal(err)
		}
		r.Body.Close()
	}
	r, err := v.client.Get("http://" + u.Host + path)
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		v.t.Fatalf("%s: %d, %v: %s", path, r.StatusCode, err, b)
	}
	return string(b)
}

// next is the address for another browser, which is printed when one was used.
func (v *viewing) next() string {
	v.t.Helper()
	for {
		line, err := v.errs.ReadString('\n')
		if err != nil {
			v.t.Fatalf("no other address is printed: %v", err)
		}
		if _, address, ok := strings.Cut(strings.TrimSpace(line), "for another browser: "); ok {
			return address
		}
	}
}

// stop interrupts the page, which must end well.
func (v *viewing) stop() {
	v.t.Helper()
	if err := v.cmd.Process.Signal(syscall.SIGINT); err != nil {
		v.t.Fatal(err)
	}
	rest, err := io.ReadAll(v.errs)
	if err == nil {
		err = v.cmd.Wait()
	}
	if err != nil {
		v.t.Errorf("the page ends with %v", err)
	}
	if strings.Contains(string(rest), "view:") {
		v.t.Errorf("the page complains: %s", rest)
	}
}
