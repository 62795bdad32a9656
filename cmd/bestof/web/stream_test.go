package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bestof-dev/bestof/candidate"
	"github.com/bestof-dev/bestof/orchestrator/event"
	"github.com/bestof-dev/bestof/orchestrator/record"
)

const eventsPath = "/runs/" + string(here) + "/" + runID + "/events"

// A liveRun is a run that the test lets do things.
type liveRun struct {
	*bench
	file string
	seq  int64
	life atomic.Uint32
}

func newLive(t *testing.T) *liveRun {
	l := &liveRun{bench: newBench(t, nil), file: filepath.Join(t.TempDir(), "events.jsonl")}
	l.archive.run = fakeRun(t, record.Running)
	l.archive.run.Events = func() (*os.File, error) { return os.Open(l.file) }
	l.archive.run.Life = func() Life { return Life(l.life.Load()) }
	l.life.Store(uint32(Working))
	l.enter()
	return l
}

// write appends to the file of events.
func (l *liveRun) write(s string) {
	l.Helper()
	f, err := os.OpenFile(l.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(s)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		l.Fatal(err)
	}
}

func (l *liveRun) event(body event.Body) {
	l.Helper()
	l.seq++
	b, err := json.Marshal(event.Event{Seq: l.seq, Body: body})
	if err != nil {
		l.Fatal(err)
	}
	l.write(string(b) + "\n")
}

// A client is a browser's stream.
type client struct {
	t      *testing.T
	lines  *bufio.Reader
	lastID string
}

func (l *liveRun) follow(lastID string) *client {
	l.Helper()
	r := l.ask("GET", eventsPath, nil, func(r *http.Request) {
		if lastID != "" {
			r.Header.Set("Last-Event-ID", lastID)
		}
	})
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		l.Fatalf("the stream: %d %s", r.StatusCode, text(l, r))
	}
	return &client{t: l.T, lines: bufio.NewReader(r.Body)}
}

// next is the next message, io.EOF after the last.
func (c *client) next() (kind, data string, err error) {
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "event":
			kind = value
		case "data":
			data += value
		case "id":
			c.lastID = value
		case "":
			if kind != "" {
				return kind, data, nil
			}
		}
	}
}

// want is the next message, whose kind and a part of whose data are given.
func (c *client) want(kind, part string) {
	c.t.Helper()
	k, data, err := c.next()
	if err != nil || k != kind || !strings.Contains(data, part) {
		c.t.Fatalf("message %s %s, %v; want %s with %q", k, data, err, kind, part)
	}
}

func (c *client) wantEnd() {
	c.t.Helper()
	if kind, data, err := c.next(); err != io.EOF {
		c.t.Fatalf("after the end: %s %s, %v", kind, data, err)
	}
}

func TestAStreamTellsWhatHappens(t *testing.T) {
	l := newLive(t)
	c := make(chan *client)
	go func() { c <- l.follow("") }() // before there is any event
	l.event(event.Started{Run: runID, Candidates: []event.Seat{{Number: 1, Agent: payload}}})
	s := <-c
	s.want("candidate", `"agent":"\u003cscript\u003e`)
	l.event(event.Step{Name: "base", Text: "making the base"})
	s.want("step", "making the base")
	l.event(event.Step{Name: "base", Done: true})
	s.want("step", `"text":""`)
	l.event(event.Candidate{Number: 1, State: candidate.Working, Round: 1})
	s.want("candidate", `"state":"working"`)
	l.event(event.Activity{Number: 1, Text: "thinks\x1b[2J"})
	s.want("candidate", `thinks\\u{1b}[2J`)
	l.event(event.Notice{Text: "careful\u202e"})
	s.want("notice", `careful\\u{202e}`)
	l.event(event.Candidate{Number: 1, State: candidate.Done, Outcome: candidate.Met, Files: 2, Added: 3, Deleted: 1})
	s.want("candidate", `"state":"met","good":"good","round":"","files":"2","lines":"+3 −1"`)
	one := 1
	l.event(event.Finished{Winner: &one, Reason: "c1 wins"})
	s.want("end", "The winner is c1: c1 wins")
	s.wantEnd()
	if s.lastID != fmt.Sprint(l.seq) {
		t.Errorf("the last id is %s of %d", s.lastID, l.seq)
	}
	if r := l.ask("GET", eventsPath, nil, func(r *http.Request) { r.Header.Set("Last-Event-ID", s.lastID) }); r.StatusCode != http.StatusNoContent {
		t.Errorf("whoever knows the end asks again: %d", r.StatusCode)
	}
}

func TestAStreamGoesOnWhereItWas(t *testing.T) {
	l := newLive(t)
	for n := 1; n <= 3; n++ {
		l.event(event.Candidate{Number: n, State: candidate.Working})
	}
	c := l.follow("")
	for n, id := range []string{"", "", "3"} { // only with the last message a browser has all
		c.want("candidate", fmt.Sprintf(`"id":"c%d"`, n+1))
		if c.lastID != id {
			t.Errorf("after %d messages the id is %q", n+1, c.lastID)
		}
	}
	l.event(event.Candidate{Number: 2, State: candidate.Verifying})
	c = l.follow("3")
	c.want("candidate", `"id":"c2"`)
	l.event(event.Finished{Reason: "nobody"})
	c.want("end", "Ended without a winner: nobody")

	c = l.follow("9000") // of another run
	for n := 1; n <= 3; n++ {
		c.want("candidate", fmt.Sprintf(`"id":"c%d"`, n))
	}
	c.want("end", "nobody")
	c = l.follow("x; nonsense")
	c.want("candidate", `"id":"c1"`)
}

func TestAStreamOfAKilledRunSaysSo(t *testing.T) {
	l := newLive(t)
	l.event(event.Candidate{Number: 1, State: candidate.Working})
	c := l.follow("")
	c.want("candidate", "working")
	l.life.Store(uint32(Dead))
	c.want("end", "interrupted: its process is gone")
	c.wantEnd()

	l.life.Store(uint32(Ended)) // it ended before it wrote its last event
	c = l.follow("")
	c.want("candidate", "working")
	c.want("end", "has ended")
	c.wantEnd()
}

// Hazard: the file of events is torn, foreign, or written to by a candidate.
func TestHazardBadEvents(t *testing.T) {
	l := newLive(t)
	l.write("\n{}\nnull\n[1]\n{\"seq\":\"x\"}\n\x00\xff\n{\"seq\":1,\"type\":\"candidate\",\"body\":7}\n{\"seq\":2,\"type\":\"new\",\"body\":{}}\n")
	l.write(`{"seq":3,"type":"candidate","body":{"number":-1}}` + "\n" + `{"seq":4,"type":"activity","body":{"number":7,"text":"nobody"}}` + "\n")
	l.write(`{"seq":5,"type":"notice","body":{"text":"` + strings.Repeat("x", 2*maxLine) + `"}}` + "\n")
	for n := range 2 * maxSeats {
		l.write(fmt.Sprintf(`{"seq":%d,"type":"candidate","body":{"number":%d,"state":"done","outcome":"%s"}}`+"\n", 6+n, n+1, strings.Repeat("o", 2000)))
	}
	l.write(`{"seq":5000,"type":"finished","body":{"reason":"torn`)
	c := l.follow("")
	for n := 1; n <= maxSeats; n++ {
		c.want("candidate", fmt.Sprintf(`"id":"c%d"`, n))
	}
	l.write(` apart"}}` + "\n")
	if kind, data, err := c.next(); err != nil || kind != "end" || !strings.Contains(data, "torn apart") {
		t.Errorf("%s %s, %v", kind, data, err)
	}
}

// Hazard: the file of events is huge. Its end is read.
func TestHazardHugeEvents(t *testing.T) {
	l := newLive(t)
	line := `{"seq":1,"type":"candidate","body":{"number":1,"state":"working"}}` + "\n"
	l.write(line)
	if err := os.Truncate(l.file, 8<<30); err != nil { // a hole: it takes no disk
		t.Fatal(err)
	}
	l.write("\n" + strings.Replace(strings.Replace(line, `"seq":1`, `"seq":2`, 1), `"number":1`, `"number":2`, 1))
	c := l.follow("")
	c.want("notice", "its beginning was left out")
	c.want("candidate", `"id":"c2"`)
}

// Hazard: a client takes nothing of what it is told. Nothing piles up for it,
// and others are served.
func TestHazardSlowReader(t *testing.T) {
	l := newLive(t)
	slow, err := net.Dial("tcp", l.host())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if err := slow.(*net.TCPConn).SetReadBuffer(1024); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(slow, "GET %s HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\n\r\n", eventsPath, l.host(), l.cookie.Name, l.cookie.Value)
	for n := range 2000 {
		l.event(event.Activity{Number: 1, Text: strings.Repeat("x", 300)})
		l.event(event.Candidate{Number: 1 + n%500, State: candidate.Working, Detail: strings.Repeat("y", 300)})
	}
	l.event(event.Finished{Reason: "over"})
	c := l.follow("")
	n := 0
	for {
		kind, _, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		if n++; kind == "end" {
			break
		}
	}
	if n > 600 {
		t.Errorf("%d messages for 500 candidates: they are not put together", n)
	}
	l.get("/", http.StatusOK)
}

func TestStreamsAreBounded(t *testing.T) {
	l := newLive(t)
	l.event(event.Candidate{Number: 1, State: candidate.Working})
	var all []*client
	for range maxStreams {
		c := l.follow("")
		c.want("candidate", "c1")
		all = append(all, c)
	}
	if s := l.get(eventsPath, http.StatusServiceUnavailable); !strings.Contains(s, "Too many pages") {
		t.Errorf("one more: %s", s)
	}
	l.get("/", http.StatusOK)
	l.event(event.Finished{Reason: "over"})
	for _, c := range all {
		c.want("end", "over")
		c.wantEnd()
	}
}

// An interrupt ends the server while browsers hang on.
func TestTheServerEndsWithStreamsOpen(t *testing.T) {
	l := newLive(t)
	l.event(event.Candidate{Number: 1, State: candidate.Working})
	c := l.follow("")
	c.want("candidate", "c1")
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	if _, _, err := c.next(); err == nil {
		t.Error("the stream goes on")
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"seq":1,"type":"started","body":{"candidates":[{"number":1,"agent":"a"}]}}` + "\n" + `{"seq":2,"type":"finished","body":{"winner":1,"reason":"r"}}` + "\n"))
	f.Add([]byte("{\n\x00\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newProgress()
		tail := newTail(strings.NewReader(string(b)))
		for {
			if err := tail.next(p.line); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range p.news() {
			out, err := json.Marshal(m.body)
			if err != nil || strings.ContainsAny(string(out), "\n\r\x1b") {
				t.Errorf("%s: %q, %v", m.kind, out, err)
			}
		}
		if len(p.rows) > maxSeats {
			t.Errorf("%d rows", len(p.rows))
		}
	})
}
