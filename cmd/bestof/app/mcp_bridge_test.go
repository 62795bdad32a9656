package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway"
	"github.com/bestof-dev/bestof/mcp/usage"
)

// An echoServer is a server whose one tool says back what it was given.
type echoServer struct{}

func (echoServer) Servers() []mcp.Declared { return nil }

func (echoServer) Call(_ context.Context, c mcp.Call) (mcp.Result, error) {
	text, err := json.Marshal(c.Server + "/" + c.Tool + " " + string(c.Arguments))
	return mcp.Result{Content: []json.RawMessage{json.RawMessage(`{"type":"text","text":` + string(text) + `}`)}}, err
}

// candidate starts the endpoint of a candidate, with the tool echo of the
// server docs, and sets the environment of one.
func cmdCandidate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: candidate")
	}
	dir, err := os.MkdirTemp("", "bestof-s")
	ts.Check(err)
	ts.Defer(func() { os.RemoveAll(dir) })
	g, err := gateway.New(gateway.Config{
		Upstream: echoServer{}, Candidates: 1, SocketDir: filepath.Join(dir, "s"), Now: time.Now, Version: "test",
		Offers: []gateway.Offer{{Server: "docs", Tools: []mcp.Tool{{Name: "echo"}}}, {Server: "deploy", Withheld: gateway.NotCandidateSafe}},
	})
	ts.Check(err)
	ts.Defer(func() { ts.Check(g.Close()) })
	a, err := g.Access(1)
	ts.Check(err)
	for name, value := range gateway.Environ(a, ts.Getenv("HOME")) {
		ts.Setenv(name, value)
	}
}

// uses FILE records calls of MCP tools, a line each: run, candidate, server,
// tool, milliseconds, outcome, minutes ago.
func cmdUses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: uses FILE")
	}
	r := usage.NewRecorder(usage.File(ts.Getenv("BESTOF_HOME")), func(s string) { ts.Logf("%s", s) })
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		f := strings.Fields(line)
		n := map[int]int{1: 0, 4: 0, 6: 0}
		for i := range n {
			v, err := strconv.Atoi(f[i])
			ts.Check(err)
			n[i] = v
		}
		tool, err := strconv.Unquote(`"` + f[3] + `"`)
		ts.Check(err)
		r.Record(mcp.Use{
			Run: f[0], Candidate: n[1], Server: f[2], Tool: tool, Took: time.Duration(n[4]) * time.Millisecond, Outcome: f[5],
			Started: time.Now().Add(-time.Duration(n[6]) * time.Minute), Sent: 2000, Received: 100,
		})
	}
	if lost := r.Close(); lost != 0 {
		ts.Fatalf("%d uses are lost", lost)
	}
}
