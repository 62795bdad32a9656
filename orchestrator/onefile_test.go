package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
	"github.com/bestof-dev/bestof/candidate/sandbox/fake"
	"github.com/bestof-dev/bestof/orchestrator/record"
	"github.com/bestof-dev/bestof/plugin/tool"
)

func oneFileSet(names ...tool.Name) tool.Set {
	var s tool.Set
	for _, n := range names {
		b := []byte("DESCRIPTION = 'd'\nSCHEMA = {}\ndef run(args): pass\n")
		s.Tools = append(s.Tools, tool.Tool{File: tool.File{Name: n, Path: "/operators/own/" + n.File(), Bytes: b, SHA256: tool.HashOf(b)}, Contract: tool.Contract{Description: "d", Schema: json.RawMessage(`{}`)}})
	}
	return s
}

// TestNoToolsLeaveTheWire: without a tool the gateway is offered the very same
// tools as without one-file tools at all.
func TestNoToolsLeaveTheWire(t *testing.T) {
	for _, o := range []*OneFile{nil, {}, {Set: tool.Set{Skipped: []tool.Skip{{File: "a.py", Reason: "r"}}}}} {
		if door := (Tooling{&turn{Config: Config{OneFile: o}}}).door(); door != nil {
			t.Errorf("%+v: there is a door: %+v", o, door)
		}
	}
	s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{"check": check, self: plugin, "agent": writes("right\n")}), "agent")
	s.cfg.OneFile = &OneFile{}
	if doc := s.run(t); doc.Tools != nil {
		t.Errorf("%+v", doc.Tools)
	}
}

// heard are the very bytes that a gateway answers to initialize and to
// tools/list, without the two lines that differ from one time to the next.
func heard(p *fake.Process) ([]byte, error) {
	at, _ := sandbox.Lookup(p.Env, "BESTOF_MCP_URL")
	token, _ := sandbox.Lookup(p.Env, "BESTOF_MCP_TOKEN")
	host, path, _ := strings.Cut(strings.TrimPrefix(at, "http://"), "/")
	var all []byte
	session := ""
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
	} {
		c, err := net.Dial("tcp", host)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", path, host, token, session, len(body), body)
		b, err := io.ReadAll(c)
		if err != nil {
			return nil, err
		}
		for line := range bytes.SplitSeq(b, []byte("\r\n")) {
			switch {
			case bytes.HasPrefix(line, []byte("Date:")):
			case bytes.HasPrefix(line, []byte("Mcp-Session-Id:")):
				session = string(line) + "\r\n"
			default:
				all = append(append(all, line...), "\r\n"...)
			}
		}
	}
	return all, nil
}

// TestNoToolsLeaveTheBytes: beside a server's tools, a candidate reads the very
// same bytes whether there are no one-file tools or the feature is not there. One
// live tool is what changes them.
func TestNoToolsLeaveTheBytes(t *testing.T) {
	read := func(o *OneFile) string {
		var got []byte
		s := newStage(t, fake.New(sandbox.Options{}, map[string]fake.Program{
			"check": check, self: plugin,
			"agent": func(ctx context.Context, p *fake.Process) fake.Exit {
				var err error
				if got, err = heard(p); err != nil {
					t.Error(err)
				}
				return writes("right\n")(ctx, p)
			},
		}), "agent")
		s.cfg.Settings.Network = sandbox.NetworkHost
		share(s)
		s.cfg.OneFile = o
		s.run(t)
		return string(got)
	}
	without := read(nil)
	if !strings.Contains(without, "protocolVersion") || !strings.Contains(without, "mcp__docs__search") {
		t.Fatal(without)
	}
	if with := read(&OneFile{Set: tool.Set{Skipped: []tool.Skip{{File: "a.py", Reason: "r"}}}}); with != without {
		t.Errorf("%s\nis not\n%s", with, without)
	}
	if with := read(&OneFile{Set: oneFileSet("a")}); with == without || !strings.Contains(with, "mcp__bestof__tool") {
		t.Errorf("with a tool: %s", with)
	}
}

// TestTheDoorIsOneTool: it has the names and nothing else of the operator's.
func TestTheDoorIsOneTool(t *testing.T) {
	g := Tooling{&turn{Config: Config{OneFile: &OneFile{Set: oneFileSet("b", "a")}}}}
	first, second := g.door(), g.door()
	if len(first) != 1 || string(first[0].Tool.InputSchema) != string(second[0].Tool.InputSchema) || !first[0].OwnTime {
		t.Fatalf("%+v", first)
	}
	text := string(first[0].Tool.InputSchema) + first[0].Tool.Description
	if !strings.Contains(text, `"a","b"`) || strings.Contains(text, "operators") || strings.Contains(text, "reload") || strings.Contains(text, "delete") {
		t.Error(text)
	}
	for _, s := range sources(g.turn.OneFile.Set) {
		if strings.Contains(s.Path, "operators") {
			t.Errorf("a kernel is told of %s", s.Path)
		}
	}
}

// TestDraftsAreBounded: a candidate proposes so many tools and no more, and may
// go on with those that it has.
func TestDraftsAreBounded(t *testing.T) {
	zones, err := tool.Open(t.TempDir(), tool.Settings{Python: tool.Python{Env: []string{"PATH=" + os.Getenv("PATH")}}})
	if err != nil {
		t.Fatal(err)
	}
	d := &drafts{zones: zones, made: map[tool.Name]tool.Hash{}}
	for i := range maxProposals {
		d.made[tool.Name("t"+string(rune('a'+i)))] = ""
	}
	source := "DESCRIPTION = 'd'\nSCHEMA = {'type': 'object'}\ndef run(args):\n    return 1\n"
	if _, err := d.create(t.Context(), "more", source); err == nil || !strings.Contains(err.Error(), "as many as there can be") {
		t.Errorf("%v", err)
	}
	if w, err := d.create(t.Context(), "ta", source); err != nil || w.Tool.Path != "pending/ta.py" {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestWhatIsProposedIsWhatWasWritten: a file of the record that is another by now
// reaches nobody.
func TestWhatIsProposedIsWhatWasWritten(t *testing.T) {
	s := newStage(t, fake.New(sandbox.Options{}, nil), "agent")
	var got []string
	s.cfg.OneFile = &OneFile{Propose: func(_ context.Context, name tool.Name, b []byte) (string, error) {
		got = append(got, string(name)+" "+string(b))
		return "kept", nil
	}}
	tn := &turn{Config: s.cfg}
	if err := s.cfg.Record.File("c1/"+draftsDir, "x.py", []byte("one")); err != nil {
		t.Fatal(err)
	}
	p := record.ProposedTool{Name: "x", SHA256: string(tool.HashOf([]byte("one"))), File: "candidates/c1/" + draftsDir + "/x.py"}
	if words, err := tn.proposeOne(t.Context(), p); err != nil || words != "kept" {
		t.Errorf("%q, %v", words, err)
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Record.Path(), p.File), []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tn.proposeOne(t.Context(), p); err == nil {
		t.Error("another file was proposed")
	}
	if len(got) != 1 || got[0] != "x one" {
		t.Errorf("%q", got)
	}
	s.cfg.OneFile.Propose = nil
	if words, err := tn.proposeOne(t.Context(), p); err != nil || !strings.Contains(words, "bestof tool create x "+s.cfg.Record.Path()) {
		t.Errorf("%q, %v", words, err)
	}
	if len(got) != 1 {
		t.Errorf("where nothing is proposed: %q", got)
	}
}
