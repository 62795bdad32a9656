package telemetry

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/batch/progress"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func lookup(env map[string]string) Lookup {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

func TestEnvironment(t *testing.T) {
	for what, c := range map[string]struct {
		env             map[string]string
		traces, metrics string
		notice          string // part of the only one; "" for none
	}{
		"nothing":        {},
		"endpoint":       {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example.com/otlp/"}, traces: "https://c.example.com/otlp/v1/traces"},
		"own endpoint":   {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:1/x"}, traces: "http://c:1/x"},
		"exporter":       {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, traces: "http://localhost:4318/v1/traces"},
		"none":           {env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}},
		"disabled":       {env: map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "prometheus"}},
		"sampler":        {env: map[string]string{"OTEL_TRACES_SAMPLER": "always_off", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}},
		"not sampled":    {env: map[string]string{"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}},
		"sampled":        {env: map[string]string{"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, traces: "http://c/v1/traces"},
		"metrics":        {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, metrics: "localhost:9464"},
		"metrics where":  {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0", "OTEL_EXPORTER_PROMETHEUS_PORT": "80"}, metrics: "0.0.0.0:80"},
		"metrics 6":      {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST": "::1"}, metrics: "[::1]:9464"},
		"other exporter": {env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, notice: "write otlp or none"},
		"other metrics":  {env: map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, notice: "write prometheus or none"},
		"protocol":       {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, notice: "write http/protobuf"},
		"scheme":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "unix:///secret"}, notice: "OTEL_EXPORTER_OTLP_ENDPOINT is no http"},
		"timeout":        {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, notice: "write milliseconds"},
		"headers":        {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization"}, notice: "NAME=VALUE"},
		"line feed":      {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a=b%0d%0ac:d"}, notice: "cannot be sent"},
		"port":           {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "99999"}, notice: "up to 65535"},
		"host":           {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST": "a b"}, notice: "a name or an address"},
		"attributes":     {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_RESOURCE_ATTRIBUTES": "a"}, metrics: "localhost:9464", notice: "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		s, notices := read(lookup(c.env), "1")
		traces := ""
		if s.traces != nil {
			traces = s.traces.String()
		}
		if traces != c.traces || s.metrics != c.metrics {
			t.Errorf("%s: traces %q, metrics %q", what, traces, s.metrics)
		}
		if c.notice == "" && len(notices) > 0 || c.notice != "" && (len(notices) != 1 || !strings.Contains(notices[0], c.notice) || strings.Contains(notices[0], "secret")) {
			t.Errorf("%s: notices %q, want %q", what, notices, c.notice)
		}
	}
	s, _ := read(lookup(map[string]string{"OTEL_SERVICE_NAME": "nightly", "OTEL_RESOURCE_ATTRIBUTES": "team=a%20b,service.name=x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a=1,B=x%3Dy"}), "1.2")
	if want := []attr{{"service.name", "nightly"}, {"service.version", "1.2"}, {"team", "a b"}}; !slices.Equal(s.resource, want) {
		t.Errorf("the resource is %v", s.resource)
	}
	if want := map[string]string{"a": "1", "B": "x=y"}; !maps.Equal(s.headers, want) {
		t.Errorf("the headers are %v", s.headers)
	}
}

func TestEnvironmentNeverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "prometheus"}
		for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES", "TRACEPARENT", "OTEL_EXPORTER_PROMETHEUS_HOST", "OTEL_EXPORTER_OTLP_TIMEOUT"} {
			if rapid.Bool().Draw(t, name) {
				env[name] = rapid.String().Draw(t, name+" value")
			}
		}
		_, notices := read(lookup(env), "1")
		for _, n := range notices {
			if len(n) > 300 {
				t.Fatalf("%q", n)
			}
		}
	})
}

// A collector keeps what it was sent.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
	header http.Header
	status []int // answers, one after another; then 200
}

func newCollector(t *testing.T, status ...int) *collector {
	c := &collector{status: status}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.status) > 0 {
			w.WriteHeader(c.status[0])
			c.status = c.status[1:]
			return
		}
		c.bodies, c.header = append(c.bodies, body), r.Header
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) all() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Join(c.bodies, nil)
}

func start(t *testing.T, env map[string]string) (*Telemetry, *[]string) {
	t.Helper()
	var told []string
	tel := Start(lookup(env), "1.2.3", func(line string) { told = append(told, line) })
	if tel == nil {
		t.Fatalf("it is off: %q", told)
	}
	return tel, &told
}

var at = time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC)

// secret are words of a user that must not get out.
var secret = []string{"hunter2", "/home/ada", "payroll.py", "fix-the-salary"}

// runEvents are those of a run of two candidates, with a user's words in every
// field that is a text.
func runEvents() []event.Event {
	hidden := strings.Join(secret, " ")
	bodies := []event.Body{
		event.Started{Run: "2nn9vadkc1", Candidates: []event.Seat{{Number: 1, Agent: "mutate"}, {Number: 2, Agent: hidden}}, Isolation: hidden, Missing: secret, Directory: hidden},
		event.Step{Name: "base", Text: hidden}, event.Step{Name: "base", Text: hidden}, event.Step{Name: "base", Done: true, Text: hidden},
		event.Step{Name: hidden, Text: hidden}, event.Step{Name: hidden, Done: true},
		event.Notice{Text: hidden},
	}
	for _, s := range []candidate.State{candidate.Queued, candidate.Preparing, candidate.Working, candidate.Sealing, candidate.Verifying} {
		bodies = append(bodies, event.Candidate{Number: 1, State: s, Detail: hidden}, event.Candidate{Number: 2, State: s})
	}
	winner := 1
	bodies = append(bodies,
		event.Activity{Number: 1, Text: hidden},
		event.Candidate{Number: 1, State: candidate.Preparing, Round: 1}, event.Candidate{Number: 1, State: candidate.Working, Round: 1},
		event.Candidate{Number: 1, State: candidate.Done, Round: 1, Outcome: candidate.Met, Detail: hidden, Files: 1, Added: 2, Deleted: 3},
		event.Candidate{Number: 2, State: candidate.Done, Outcome: candidate.Outcome(hidden)},
		event.Candidate{Number: 77, State: candidate.Working},
		event.Finished{Winner: &winner, Reason: hidden},
	)
	var all []event.Event
	for i, b := range bodies {
		all = append(all, event.Event{Seq: int64(i + 1), At: at.Add(time.Duration(i) * time.Second), Body: b})
	}
	return all
}

// TestRunIsTold follows a run from its events to the bytes that a collector and
// Prometheus get.
func TestRunIsTold(t *testing.T) {
	c := newCollector(t)
	tel, told := start(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=hunter3", "OTEL_SERVICE_NAME": "nightly",
		"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "0",
	})
	run := tel.Run()
	for _, e := range runEvents() {
		run.Publish(e)
	}
	run.End([]Used{{Candidate: 1, Input: 100, Output: 20, MicroUSD: 1500000}})
	numbers := get(t, tel)
	tel.Close()
	if len(*told) != 0 {
		t.Errorf("it told %q", *told)
	}
	body := c.all()
	for _, w := range append(secret, "hunter3") {
		if bytes.Contains(body, []byte(w)) || strings.Contains(numbers, w) {
			t.Errorf("%q got out", w)
		}
	}
	if c.header.Get("X-Key") != "hunter3" || c.header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("the headers are %v", c.header)
	}
	for _, line := range []string{
		`bestof_runs_total{exit_code="0"} 1`, `bestof_runs_running 0`, `bestof_candidates_total{agent="mutate",outcome="met"} 1`,
		`bestof_candidates_total{agent="other",outcome="other"} 1`, `bestof_candidates{state="working"} 0`, `bestof_tokens_total 120`, `bestof_cost_usd_total 1.5`,
		`bestof_candidate_phase_duration_seconds_count{state="working"} 3`, `bestof_step_duration_seconds_sum{step="base"} 2`, `bestof_step_duration_seconds_count{step="other"} 1`,
		`bestof_run_duration_seconds_bucket{le="60"} 1`, `bestof_run_duration_seconds_bucket{le="15"} 0`, `bestof_build_info{version="1.2.3"} 1`,
	} {
		if !strings.Contains(numbers, line+"\n") {
			t.Errorf("there is no %s in\n%s", line, numbers)
		}
	}
	wellFormed(t, numbers)
	// The file was read once with the library that opentelemetry-proto generates
	// for Go; decode below says what it saw.
	golden(t, "testdata/run.otlp.hex", hex.EncodeToString(body)+"\n")
	golden(t, "testdata/run.otlp.txt", decode(t, body))
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got): %s", file, diff)
	}
}

func get(t *testing.T, tel *Telemetry) string {
	t.Helper()
	if host, _, _ := net.SplitHostPort(tel.Address()); !net.ParseIP(host).IsLoopback() {
		t.Errorf("it listens on %s", tel.Address())
	}
	r, err := http.Get("http://" + tel.Address() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		t.Fatal(r.Status, err)
	}
	return string(b)
}

var sample = regexp.MustCompile(`^[a-z_]+(\{([a-z_]+="[^"\\]*(\\.[^"\\]*)*",?)+\})? -?[0-9.e+-]+$`)

// wellFormed checks the text format line by line.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			if seen[line] {
				t.Errorf("%q twice", line)
			}
			seen[line] = true
			continue
		}
		if !sample.MatchString(line) {
			t.Errorf("%q is no sample", line)
		}
	}
}

func TestBatchAndJobsAreTold(t *testing.T) {
	c := newCollector(t)
	tel, _ := start(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.URL, "OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"})
	b := tel.Batch()
	hidden := strings.Join(secret, " ")
	for i, body := range []progress.Body{
		progress.Started{Directory: hidden, Tasks: 4, Left: 3, Solved: 1, Spend: progress.Spend{Tokens: 1000}},
		progress.Task{ID: hidden, State: progress.Running, Attempt: 1, Run: "2nn9vadkc1"},
		progress.Candidate{Task: hidden, Number: 1, Agent: "mutate", State: "working"},
		progress.Candidate{Task: hidden, Number: 1, Agent: "mutate", State: "done", Outcome: "unmet", Detail: hidden},
		progress.Spend{Tokens: 1500, MicroUSD: 250000},
		progress.Spend{Tokens: 1600, MicroUSD: 500000},
		progress.Notice{Text: hidden},
		progress.Task{ID: hidden, State: progress.Unsolved, Reason: hidden},
		progress.Finished{Reason: hidden, Left: 2, ExitCode: 3},
	} {
		b.Publish(progress.Event{Seq: int64(i + 1), At: at.Add(time.Duration(i) * time.Second), Body: body})
	}
	tel.Jobs(2, 1)
	parent, sampled, ok := parseParent(tel.JobParent(schedule.Run{Job: "nightly", Instant: at, Attempt: 1, Started: at}))
	if !ok || !sampled {
		t.Errorf("what a job's run starts has no parent: %v", parent)
	}
	tel.JobRun(schedule.Run{Job: "nightly", Instant: at, Attempt: 1, Started: at, Ended: at.Add(time.Minute), Outcome: schedule.Won, Reason: hidden, Record: hidden, Used: schedule.Budget{MicroUSD: 500000, Tokens: 10}})
	tel.JobRun(schedule.Run{Job: hidden, Instant: at, Attempt: 1, Started: at}) // it has not ended
	numbers := get(t, tel)
	tel.Close()
	body := c.all()
	if !bytes.Contains(body, slices.Concat([]byte{1<<3 | length, 16}, parent.trace[:], []byte{2<<3 | length, 8}, parent.span[:])) {
		t.Error("the parent of what a job's run starts is not the span of that run")
	}
	for _, w := range secret {
		if bytes.Contains(body, []byte(w)) || strings.Contains(numbers, w) {
			t.Errorf("%q got out", w)
		}
	}
	for _, line := range []string{
		`bestof_batch_tasks{state="waiting"} 2`, `bestof_batch_tasks{state="solved"} 1`, `bestof_batch_tasks{state="unsolved"} 1`, `bestof_batch_tasks{state="running"} 0`,
		`bestof_tokens_total 610`, `bestof_cost_usd_total 1`, `bestof_candidates_total{agent="mutate",outcome="unmet"} 1`, `bestof_runs_running 0`,
		`bestof_job_runs_total{job="nightly",outcome="won"} 1`, `bestof_job_fires_waiting 2`, `bestof_job_runs_running 1`, `bestof_job_run_duration_seconds_sum{job="nightly"} 60`,
	} {
		if !strings.Contains(numbers, line+"\n") {
			t.Errorf("there is no %s in\n%s", line, numbers)
		}
	}
	wellFormed(t, numbers)
	got := decode(t, body)
	for _, want := range []string{"batch ", "task ", "candidate ", "working ", "job "} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no span %s in\n%s", want, got)
		}
	}
}

// TestSpansHaveOneParent checks that every span but the root is part of another
// one that was sent, for random orders of states.
func TestSpansHaveOneParent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tel := &Telemetry{numbers: newRegistry(), queue: make(chan span, maxQueued)}
		run := tel.Run()
		moment := at
		publish := func(b event.Body) {
			moment = moment.Add(time.Second)
			run.Publish(event.Event{At: moment, Body: b})
		}
		publish(event.Started{Run: "r", Candidates: []event.Seat{{Number: 1, Agent: "a"}, {Number: 2, Agent: "b"}}})
		done := map[int]bool{}
		all := append([]candidate.State{candidate.Done}, states...)
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			n := rapid.IntRange(1, 2).Draw(t, "number")
			s := rapid.SampledFrom(all).Draw(t, "state")
			if !done[n] {
				publish(event.Candidate{Number: n, State: s, Round: rapid.IntRange(0, 1).Draw(t, "round"), Outcome: candidate.Met})
			}
			done[n] = done[n] || s == candidate.Done
		}
		for n := 1; n <= 2; n++ {
			if !done[n] {
				publish(event.Candidate{Number: n, State: candidate.Done, Outcome: candidate.Cancelled})
			}
		}
		publish(event.Finished{})
		run.End(nil)
		close(tel.queue)
		ids, roots := map[spanID]bool{}, 0
		var spans []span
		for s := range tel.queue {
			ids[s.id], spans = true, append(spans, s)
		}
		for _, s := range spans {
			if s.parent == (spanID{}) {
				roots++
			} else if !ids[s.parent] {
				t.Fatalf("%s is part of nothing", s.name)
			}
			if s.end.Before(s.start) {
				t.Fatalf("%s ends before it begins", s.name)
			}
		}
		if roots != 1 {
			t.Fatalf("%d roots", roots)
		}
		if text := string(tel.numbers.text()); strings.Contains(text, "bestof_candidates{") && regexp.MustCompile(`bestof_candidates\{state="\w+"\} [^0]`).MatchString(text) {
			t.Fatalf("candidates are left over:\n%s", text)
		}
	})
}

func TestCollectorIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + l.Addr().String()
	l.Close()
	for what, c := range map[string]struct {
		endpoint, notice string
	}{
		"nobody listens": {gone, "connection refused"},
		"it refuses":     {newCollector(t, 401, 401).URL, "status 401"},
		"it is busy":     {newCollector(t, 503, 503).URL, "status 503"},
		"it redirects":   {newCollector(t, 302, 302).URL, "status 302"},
	} {
		tel, told := start(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": strings.Replace(c.endpoint, "http://", "http://ada:hunter2@", 1)})
		run := tel.Run()
		for _, e := range runEvents() {
			run.Publish(e)
		}
		run.End(nil)
		tel.Close()
		if len(*told) != 1 || !strings.Contains((*told)[0], c.notice) || strings.Contains((*told)[0], "hunter2") {
			t.Errorf("%s: it told %q, want %q", what, *told, c.notice)
		}
	}
}

// TestCollectorHangs: what is emitted while a collector does not answer waits for
// nothing, and neither does the end for longer than the farewell.
func TestCollectorHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it never accepts
	tel, told := start(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + l.Addr().String()})
	for range 3 * maxQueued {
		tel.emit(span{name: "x", start: at, end: at})
	}
	tel.Close()
	if !strings.Contains(string(tel.numbers.text()), "bestof_telemetry_spans_lost_total "+fmt.Sprint(3*maxQueued)) || len(*told) != 1 {
		t.Errorf("it told %q:\n%s", *told, tel.numbers.text())
	}
}

// TestPortIsTaken: the second of two processes does without metrics.
func TestPortIsTaken(t *testing.T) {
	env := map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
	first, _ := start(t, env)
	defer first.Close()
	_, env["OTEL_EXPORTER_PROMETHEUS_PORT"], _ = net.SplitHostPort(first.Address())
	var told []string
	if second := Start(lookup(env), "1", func(line string) { told = append(told, line) }); second != nil || len(told) != 1 || !strings.Contains(told[0], "in use") {
		t.Errorf("it told %q", told)
	}
}

func TestOff(t *testing.T) {
	var told []string
	tel := Start(lookup(nil), "1", func(line string) { told = append(told, line) })
	run, batch := tel.Run(), tel.Batch()
	run.Publish(event.Event{Body: event.Started{}})
	run.End(nil)
	batch.Publish(progress.Event{Body: progress.Started{}})
	tel.Jobs(1, 1)
	tel.JobRun(schedule.Run{})
	tel.Close()
	if tel != nil || tel.Address() != "" || told != nil {
		t.Errorf("it is on: %q", told)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	r := newRegistry()
	for i := range 3 * maxSeries {
		r.add(jobRunsTotal, 1, fmt.Sprintf("j%d", i), "a\"b\\c\nd")
	}
	text := string(r.text())
	if n := strings.Count(text, "\n"); n > maxSeries+3 {
		t.Errorf("%d lines", n)
	}
	if !strings.Contains(text, fmt.Sprintf("bestof_job_runs_total{job=\"other\",outcome=\"other\"} %d\n", 2*maxSeries)) {
		t.Error("the others are not counted together")
	}
	wellFormed(t, text)
}

func FuzzParent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, s string) {
		if p, _, ok := parseParent(s); ok && (p.trace == (traceID{}) || s[:36] != fmt.Sprintf("00-%x-", p.trace)) {
			t.Errorf("%q is %x", s, p)
		}
	})
}
