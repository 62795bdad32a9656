package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/cmd/bestof/view"
	"github.com/bestof-dev/bestof/internal/bytestring"
	"github.com/bestof-dev/bestof/orchestrator/batch/report"
	"github.com/bestof-dev/bestof/orchestrator/compare"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	here    Place = "0011223344556677"
	runID         = "2nn43hjw3t"
	payload       = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
)

// A fakeArchive has one run and one batch.
type fakeArchive struct {
	run    Run
	listed []string // texts of the list
	// batches is how the batch stands now; nil for one that is over.
	batches func() (Batch, error)
}

func (f *fakeArchive) List(context.Context) (Listing, error) {
	out := Listing{Batches: []BatchLine{{Place: "b", Directory: payload, State: payload}}, Notices: []string{payload}}
	line := RunLine{Summary: view.Summary{Run: runID, Task: payload}, Foreign: true}
	out.Shelves = []Shelf{{Place: here, Title: payload, Runs: []RunLine{line, {Summary: view.Summary{Run: runID, Fault: payload}}}, Older: runID}}
	return out, nil
}

func (f *fakeArchive) Shelf(_ context.Context, place Place, _ string) (Shelf, error) {
	if place != here {
		return Shelf{}, ErrNone
	}
	return Shelf{Place: here, Title: "r"}, nil
}

func (f *fakeArchive) Run(_ context.Context, place Place, run string) (Run, error) {
	if place != here || run != runID {
		return Run{}, fmt.Errorf("run %s: %w", run, ErrNone)
	}
	return f.run, nil
}

func (f *fakeArchive) Batch(_ context.Context, place Place) (Batch, error) {
	if place != "b" {
		return Batch{}, ErrNone
	}
	tasks := []BatchTask{{ID: payload, State: payload, Run: runID, Winner: 1, Reason: payload}, {ID: "second"}}
	if f.batches != nil {
		return f.batches()
	}
	return Batch{
		Place: "b", Directory: payload, State: payload, Spend: payload, Count: 2, Tasks: slices.Values(tasks),
		Compare: func() (compare.Batch, error) {
			return compare.BuildBatch(payload, []compare.BatchTask{{ID: payload, State: "done", Reason: payload, Run: runID, Unread: payload}}), nil
		},
		Numbers: func() (report.Report, error) {
			return report.Build(report.Input{Batch: payload}, report.Options{}), nil
		},
	}, nil
}

// fakeRun is a run in a phase, with events in a file.
func fakeRun(t *testing.T, phase record.Phase) Run {
	t.Helper()
	dir := t.TempDir()
	change := &record.Change{Tree: "t1", Normalised: "n", Files: []record.FileChange{{Path: payload, Status: "modified", Old: "a", New: "b", OldMode: "100644", NewMode: "100644", Added: 1, Deleted: 1}}}
	doc := record.Document{Schema: record.Schema, Run: runID, Phase: phase, Task: payload, Reason: payload, Candidates: []record.Candidate{
		{Number: 1, Agent: payload, State: candidate.Done, Outcome: candidate.Met, Change: change, Detail: payload},
		{Number: 2, Agent: payload, State: candidate.Working, Outcome: "", Detail: payload},
	}}
	if phase != record.Running {
		one := 1
		doc.Winner = &one
		doc.Candidates[1].State, doc.Candidates[1].Outcome = candidate.Done, candidate.Unmet
	}
	return Run{
		Doc: doc, Place: here, Title: payload,
		Life:   func() Life { return Working },
		Events: func() (*os.File, error) { return os.Open(filepath.Join(dir, "events.jsonl")) },
		Blobs: func() (compare.Blobs, error) {
			return func(id string) ([]byte, error) { return []byte("x\n" + id + payload + "\n"), nil }, nil
		},
		Log: func(int, int64) ([]byte, bool, error) { return []byte(payload + "\n\x1b[31m" + payload), true, nil },
	}
}

// A fakeAdopter counts.
type fakeAdopter struct {
	refusal string
	adopted atomic.Int32
	wait    chan struct{} // when not nil, adopting waits for it
}

func (f *fakeAdopter) Propose(_ context.Context, place Place, run string, n int) (Proposal, error) {
	return Proposal{
		Place: place, Run: run, Candidate: n, Tree: "t1", Into: payload, Branch: payload, Refusal: f.refusal, BranchRefusal: f.refusal,
		Files: []record.FileChange{{Path: bytestring.String(payload), Status: payload}},
	}, nil
}

func (f *fakeAdopter) Adopt(_ context.Context, p Proposal, branch bool) (string, error) {
	if f.wait != nil {
		<-f.wait
	}
	f.adopted.Add(1)
	return fmt.Sprintf("adopted %d, branch %v %s", p.Candidate, branch, payload), nil
}

// A bench is a server that listens, and a browser that may have entered.
type bench struct {
	*testing.T
	server  *Server
	stop    func() error
	archive *fakeArchive
	adopter *fakeAdopter
	cookie  *http.Cookie
	entered []string
	faults  chan error
}

func newBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := &bench{T: t, archive: &fakeArchive{run: fakeRun(t, record.Finished)}, adopter: &fakeAdopter{}, faults: make(chan error, 100)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Archive: b.archive, Adopter: b.adopter, Start: "/", poll: time.Millisecond, Log: func(err error) { b.faults <- err },
		Entered: func(next string) { b.entered = append(b.entered, next) },
	}
	if change != nil {
		change(&o)
	}
	b.server = New(l.Addr().(*net.TCPAddr).Port, o)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.server.Serve(ctx, l) }()
	b.stop = sync.OnceValue(func() error {
		stop()
		return <-ended
	})
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return b
}

func (b *bench) host() string { return b.server.guard.hosts[0] }

// ask sends one request as it is given, from the browser that entered.
func (b *bench) ask(method, path string, body url.Values, change func(*http.Request)) *http.Response {
	b.Helper()
	var content io.Reader
	if body != nil {
		content = strings.NewReader(body.Encode())
	}
	r, err := http.NewRequestWithContext(b.Context(), method, "http://"+b.host()+path, content)
	if err != nil {
		b.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+b.host())
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.Fatalf("%s %s: %v", method, path, err)
	}
	b.Cleanup(func() { answer.Body.Close() })
	return answer
}

func text(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// get is a page of the browser that entered, which must have the status.
func (b *bench) get(path string, status int) string {
	b.Helper()
	r := b.ask("GET", path, nil, nil)
	s := text(b, r)
	if r.StatusCode != status {
		b.Fatalf("GET %s: %d, not %d: %s", path, r.StatusCode, status, s)
	}
	return s
}

func (b *bench) enter() {
	b.Helper()
	u, err := url.Parse(b.server.Address())
	if err != nil {
		b.Fatal(err)
	}
	r := b.ask("GET", u.RequestURI(), nil, nil)
	if r.StatusCode != http.StatusSeeOther || len(r.Cookies()) != 1 {
		b.Fatalf("entering: %d, %v", r.StatusCode, r.Cookies())
	}
	b.cookie = r.Cookies()[0]
}

var pathsOfPages = []string{
	"/", "/places/" + string(here), "/runs/" + string(here) + "/" + runID, "/runs/" + string(here) + "/" + runID + "/log/1", "/runs/" + string(here) + "/" + runID + "/diff/0/1",
	"/runs/" + string(here) + "/" + runID + "/diff/0/1/0", "/runs/" + string(here) + "/" + runID + "/adopt/1", "/batches/b", "/batches/b/compare", "/batches/b/numbers", "/jobs", "/jobs/nightly", "/jobs/nightly/ask?what=run",
}

func TestTheTokenWorksOnce(t *testing.T) {
	b := newBench(t, nil)
	first := b.server.Address()
	u, _ := url.Parse(first)
	if r := b.ask("HEAD", u.RequestURI(), nil, nil); r.StatusCode != http.StatusNoContent || len(r.Cookies()) > 0 {
		t.Errorf("a look ahead: %d, %v", r.StatusCode, r.Cookies())
	}
	b.enter()
	if c := b.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("the cookie is %v", c)
	}
	if len(b.entered) != 1 || b.entered[0] == first || b.entered[0] != b.server.Address() {
		t.Errorf("the next address is %v", b.entered)
	}
	if r := b.ask("GET", u.RequestURI(), nil, nil); r.StatusCode != http.StatusSeeOther || len(r.Cookies()) > 0 {
		t.Errorf("again in the same browser: %d, %v", r.StatusCode, r.Cookies())
	}
	known := b.cookie
	b.cookie = nil
	for _, uri := range []string{u.RequestURI(), "/enter", "/enter?token=", "/enter?token=" + strings.Repeat("0", 64)} {
		if r := b.ask("GET", uri, nil, nil); r.StatusCode != http.StatusForbidden || len(r.Cookies()) > 0 {
			t.Errorf("%s in another browser: %d, %v", uri, r.StatusCode, r.Cookies())
		}
	}
	b.cookie = known
	b.get("/", http.StatusOK)
}

func TestOnlyWhoEnteredSeesAnything(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []*http.Cookie{nil, {Name: b.server.guard.cookieName(), Value: ""}, {Name: b.server.guard.cookieName(), Value: strings.Repeat("0", 64)}, {Name: "bestof", Value: "x"}} {
		b.cookie = c
		for _, p := range append(slices.Clone(pathsOfPages), "/nothing", "/runs/"+string(here)+"/"+runID+"/events") {
			s := b.get(p, http.StatusUnauthorized)
			if strings.Contains(s, runID) || strings.Contains(s, "alert") {
				t.Errorf("%s shows something of the run to a stranger", p)
			}
		}
		for _, p := range open {
			b.get(p, http.StatusOK)
		}
		if r := b.ask("POST", "/confirm", url.Values{}, nil); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("a stranger's form: %d", r.StatusCode)
		}
	}
}

// Hazard: a name of somebody else's leads to this address (DNS rebinding).
func TestHazardAnotherHost(t *testing.T) {
	b := newBench(t, nil)
	b.enter()
	port := b.host()[strings.LastIndexByte(b.host(), ':'):]
	for _, host := range []string{"evil.example" + port, "127.0.0.1", "127.0.0.1:1", "localhost.evil.example" + port, "0.0.0.0" + port, "[::1]" + port, "evil.example", "LOCALHOST" + port} {
		for _, path := range []string{"/", "/view.css", strings.TrimPrefix(b.server.Address(), "http://"+b.host())} {
			r := b.ask("GET", path, nil, func(r *http.Request) { r.Host = host })
			if r.StatusCode != http.StatusMisdirectedRequest || len(r.Cookies()) > 0 {
				t.Errorf("host %s, %s: %d", host, path, r.StatusCode)
			}
		}
	}
	r := b.ask("GET", "/", nil, func(r *http.Request) { r.Host = "localhost" + port })
	if r.StatusCode != http.StatusOK {
		t.Errorf("localhost: %d", r.StatusCode)
	}
}

// Hazard: a page of another origin, also of another port of this machine, makes
// the operator's browser ask, with the cookie.
func TestHazardAnotherOrigin(t *testing.T) {
	b := newBench(t, nil)
	b.enter()
	for name, change := range map[string]func(*http.Request){
		"cross site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another port": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"origin":       func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") },
		"null":         func(r *http.Request) { r.Header.Set("Origin", "null") },
		"https":        func(r *http.Request) { r.Header.Set("Origin", "https://"+r.Host) },
	} {
		for _, path := range []string{"/", "/view.js", "/runs/" + string(here) + "/" + runID + "/events"} {
			r := b.ask("GET", path, nil, change)
			if s := text(t, r); r.StatusCode != http.StatusForbidden || strings.Contains(s, runID) {
				t.Errorf("%s, %s: %d %s", name, path, r.StatusCode, s)
			}
		}
	}
	for _, site := range []string{"same-origin", "none"} {
		if r := b.ask("GET", "/", nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", site, r.StatusCode)
		}
	}
}

// form is the hidden fields of the page's form.
func form(t testing.TB, page string) url.Values {
	t.Helper()
	v := url.Values{}
	for _, m := range regexp.MustCompile(`type="hidden" name="([a-z]+)" value="([0-9a-f]+)"`).FindAllStringSubmatch(page, -1) {
		v.Set(m[1], m[2])
	}
	if v.Get("csrf") == "" || v.Get("question") == "" {
		t.Fatalf("the page has no form: %s", page)
	}
	return v
}

const adoptPath = "/runs/" + string(here) + "/" + runID + "/adopt/1"

// Hazard: a form is forged (CSRF).
func TestHazardForgedForm(t *testing.T) {
	b := newBench(t, nil)
	b.enter()
	good := form(t, b.get(adoptPath, http.StatusOK))
	good.Set("answer", "apply")
	with := func(name, value string) url.Values {
		v := url.Values{}
		for k := range good {
			v.Set(k, good.Get(k))
		}
		v.Set(name, value)
		return v
	}
	for name, c := range map[string]struct {
		body   url.Values
		change func(*http.Request)
		status int
	}{
		"no csrf":      {with("csrf", ""), nil, http.StatusForbidden},
		"another csrf": {with("csrf", strings.Repeat("0", 64)), nil, http.StatusForbidden},
		"csrf in the address": {with("csrf", ""), func(r *http.Request) {
			r.URL.RawQuery = "csrf=" + good.Get("csrf")
		}, http.StatusForbidden},
		"no origin":      {good, func(r *http.Request) { r.Header.Del("Origin") }, http.StatusForbidden},
		"another origin": {good, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"plain text":     {good, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		"no question":    {with("question", ""), nil, http.StatusConflict},
		"another answer": {with("answer", "everything"), nil, http.StatusBadRequest},
		"too large":      {with("more", strings.Repeat("x", 2*maxForm)), nil, http.StatusBadRequest},
	} {
		r := b.ask("POST", "/confirm", c.body, c.change)
		if text(t, r); r.StatusCode != c.status {
			t.Errorf("%s: %d, not %d", name, r.StatusCode, c.status)
		}
	}
	for _, path := range []string{"/confirm?" + good.Encode(), adoptPath + "?" + good.Encode()} {
		b.ask("GET", path, nil, nil)
	}
	if n := b.adopter.adopted.Load(); n != 0 {
		t.Errorf("adopted %d times", n)
	}
	other := newSessionOf(b)
	other.Set("question", good.Get("question"))
	other.Set("answer", "apply")
	b.cookie.Value = strings.Repeat("1", 64)
	if r := b.ask("POST", "/confirm", other, nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("another browser's form: %d", r.StatusCode)
	}
}

// newSessionOf is the form of another browser.
func newSessionOf(b *bench) url.Values {
	b.Helper()
	mine := *b.cookie
	b.cookie = nil
	b.enter()
	v := form(b, b.get(adoptPath, http.StatusOK))
	b.cookie = &mine
	return v
}

func TestADoubleClickAdoptsOnce(t *testing.T) {
	b := newBench(t, nil)
	b.adopter.wait = make(chan struct{})
	b.enter()
	v := form(t, b.get(adoptPath, http.StatusOK))
	if s := b.get("/done/"+v.Get("question"), http.StatusConflict); !strings.Contains(s, "not answered yet") {
		t.Errorf("before: %s", s)
	}
	v.Set("answer", "branch")
	var all sync.WaitGroup
	began := make(chan struct{}, 5)
	for range 5 {
		all.Go(func() {
			began <- struct{}{}
			if r := b.ask("POST", "/confirm", v, nil); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/done/"+v.Get("question") {
				t.Errorf("a click: %d %s", r.StatusCode, r.Header.Get("Location"))
			}
		})
	}
	for range 5 {
		<-began
	}
	close(b.adopter.wait)
	all.Wait()
	if n := b.adopter.adopted.Load(); n != 1 {
		t.Errorf("adopted %d times", n)
	}
	if s := b.get("/done/"+v.Get("question"), http.StatusOK); !strings.Contains(s, "adopted 1, branch true") {
		t.Errorf("after: %s", s)
	}
}

func TestWhatIsRefusedHasNoButton(t *testing.T) {
	b := newBench(t, nil)
	b.enter()
	b.adopter.refusal = "no: " + payload
	if s := b.get(adoptPath, http.StatusOK); strings.Contains(s, "<form") || !strings.Contains(s, "no: &lt;script") {
		t.Errorf("a refusal: %s", s)
	}
	b.adopter.refusal = ""
	b.archive.run.Foreign = true
	b.get(adoptPath, http.StatusForbidden)
	b.archive.run.Foreign, b.archive.run.Batch = false, true
	b.get(adoptPath, http.StatusForbidden)
}

func TestReadOnlyChangesNothing(t *testing.T) {
	b := newBench(t, func(o *Options) { o.ReadOnly, o.Jobs = true, fakeJobs{} })
	b.enter()
	b.get(adoptPath, http.StatusForbidden)
	b.get("/jobs/nightly/ask?what=run", http.StatusForbidden)
	for _, p := range pathsOfPages {
		if r := b.ask("GET", p, nil, nil); strings.Contains(text(t, r), `method="post"`) {
			t.Errorf("%s has a form", p)
		}
	}
	b.server.o.ReadOnly = false
	v := form(t, b.get(adoptPath, http.StatusOK))
	b.server.o.ReadOnly = true
	v.Set("answer", "apply")
	if r := b.ask("POST", "/confirm", v, nil); r.StatusCode != http.StatusForbidden || b.adopter.adopted.Load() != 0 {
		t.Errorf("a form: %d", r.StatusCode)
	}
}

// Hazard: names of places and runs are not paths.
func TestHazardTraversal(t *testing.T) {
	b := newBench(t, nil)
	b.enter()
	for _, p := range []string{
		"/runs/" + string(here) + "/..%2f..%2fetc", "/runs/..%2f..%2fetc/passwd", "/runs/" + string(here) + "/" + runID + "/log/..%2f1", "/runs/" + string(here) + "/" + runID + "/log/-1",
		"/runs/" + string(here) + "/" + runID + "/log/3", "/runs/" + string(here) + "/" + runID + "/diff/0/2", "/runs/" + string(here) + "/" + runID + "/diff/0/1/99999999999999999999", "/runs/" + string(here) + "/" + runID + "/diff/0/1/1",
		"/runs/" + string(here) + "/" + runID + "/diff/1/1", "/places/..", "/places/x?before=..", "/places/" + string(here) + "?before=../x", "/batches/" + string(here), "/view.css/..%2fweb.go", "/page/view.css", "/jobs",
	} {
		r := b.ask("GET", p, nil, nil)
		if r.StatusCode != http.StatusNotFound && r.StatusCode != http.StatusTemporaryRedirect && r.StatusCode != http.StatusMovedPermanently {
			t.Errorf("%s: %d %s", p, r.StatusCode, text(t, r))
		}
	}
}

// Every page of hostile records is inert: nothing of theirs is markup, and the
// browser is told to allow nothing but our own two files.
func TestHazardHostileTexts(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Jobs = fakeJobs{} })
	b.enter()
	for _, phase := range []record.Phase{record.Finished, record.Running, record.Interrupted} {
		b.archive.run = fakeRun(t, phase)
		for _, p := range pathsOfPages {
			r := b.ask("GET", p, nil, nil)
			s := text(t, r)
			if r.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", p, r.StatusCode)
			}
			if strings.Contains(s, "<script>") || strings.Contains(s, "<img") || strings.Contains(s, "\x1b") || strings.Contains(s, ` onerror="`) {
				t.Errorf("%s: a hostile text is markup", p)
			}
			if strings.Contains(s, " style=") || strings.Count(s, "<script") != 1 || strings.Contains(s, "<style") {
				t.Errorf("%s has a style or a script inside", p)
			}
			policy := r.Header.Get("Content-Security-Policy")
			own := "http://" + b.host()
			if want := "default-src 'none'; script-src " + own + "/view.js; style-src " + own + "/view.css; "; !strings.HasPrefix(policy, want) || !strings.Contains(policy, "frame-ancestors 'none'") {
				t.Errorf("%s: policy %q", p, policy)
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin"} {
				if got := r.Header.Get(name); got != want {
					t.Errorf("%s: %s is %q", p, name, got)
				}
			}
		}
	}
	select {
	case err := <-b.faults:
		t.Error(err)
	default:
	}
}

func TestSessionsAreBounded(t *testing.T) {
	b := newBench(t, nil)
	b.enter()
	first := b.cookie
	for range maxSessions {
		b.cookie = nil
		b.enter()
	}
	b.get("/", http.StatusOK)
	b.cookie = first
	b.get("/", http.StatusUnauthorized)
	for range maxQuestions + 10 {
		b.server.asked.ask(&question{})
	}
	if n := len(b.server.asked.all); n != maxQuestions {
		t.Errorf("%d questions are remembered", n)
	}
}

type fakeJobs struct{ changed func(name, action string) }

func (fakeJobs) List(context.Context) ([]Job, error) {
	return []Job{{Name: payload, When: payload, State: payload, Last: payload, Bad: true}}, nil
}

func (fakeJobs) History(_ context.Context, name string) (Job, []JobRun, error) {
	if name != "nightly" {
		return Job{}, nil, ErrNone
	}
	return Job{Name: name, When: payload, State: payload, Paused: true}, []JobRun{{How: payload, Text: payload, Link: RunPath(here, runID), Good: true}}, nil
}

func (f fakeJobs) Change(_ context.Context, name, action string) (string, error) {
	f.changed(name, action)
	return action + " " + name + payload, nil
}

func TestJobsAreChangedOnceConfirmed(t *testing.T) {
	var changed []string
	b := newBench(t, func(o *Options) {
		o.Jobs = fakeJobs{func(name, action string) { changed = append(changed, action+" "+name) }}
	})
	b.enter()
	b.get("/jobs/other", http.StatusNotFound)
	b.get("/jobs/nightly/ask?what=delete", http.StatusBadRequest)
	v := form(t, b.get("/jobs/nightly/ask?what=resume", http.StatusOK))
	for _, answer := range []string{"run", "resume", "resume"} {
		v.Set("answer", answer)
		b.ask("POST", "/confirm", v, nil)
	}
	if !slices.Equal(changed, []string{"resume nightly"}) {
		t.Errorf("changed: %v", changed)
	}
}
