package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/quick"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/store"
	"github.com/bestof-dev/bestof/orchestrator"
)

// operator is a command line whose home has an mcp.toml of one server.
func operator(t *testing.T, text string) (a *app, file string, out, errs *bytes.Buffer) {
	t.Helper()
	home := t.TempDir()
	file = filepath.Join(home, "mcp.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	p := Process{In: strings.NewReader(""), Out: out, Err: errs, Environ: []string{"BESTOF_HOME=" + home, "LANG=C.UTF-8"}}
	return &app{Process: p, dir: home, yes: true}, file, out, errs
}

const oneServer = "[servers.s]\ntransport = \"stdio\"\ncmd = \"x\"\ngranted = false\n"

func declares(names ...string) handshake {
	return func(_ context.Context, s mcp.Server) (mcp.Declared, error) {
		d := mcp.Declared{Server: s, Name: "n", Version: "1", Protocol: "p"}
		for _, n := range names {
			d.Tools = append(d.Tools, mcp.Tool{Name: n, InputSchema: []byte(`{}`)})
		}
		return d, nil
	}
}

// Somebody who does not wait any longer is interrupted; the server did not fail.
func TestGrantIsInterrupted(t *testing.T) {
	a, file, _, _ := operator(t, oneServer)
	ctx, cancel := context.WithCancelCause(t.Context())
	err := a.runMCPGrant(ctx, "s", grantOptions{}, func(context.Context, mcp.Server) (mcp.Declared, error) {
		cancel(orchestrator.ErrInterrupted)
		return mcp.Declared{}, errors.New("context canceled")
	})
	text, readErr := os.ReadFile(file)
	if exitStatus(err) != orchestrator.ExitInterrupted || readErr != nil || string(text) != oneServer {
		t.Errorf("%v: %d, %q, %v", err, exitStatus(err), text, readErr)
	}
}

// A disk or a file system that fails is no misuse.
func TestFailuresOfTheMachine(t *testing.T) {
	for _, no := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EACCES} {
		err := mcpError(fmt.Errorf("write mcp.toml: %w", &os.PathError{Op: "write", Path: "p", Err: no}))
		if exitStatus(err) != orchestrator.ExitInfrastructure {
			t.Errorf("%v: %d", err, exitStatus(err))
		}
	}
}

// The document says what is so after the answer.
func TestGrantDocumentIsOfAfterwards(t *testing.T) {
	a, _, out, _ := operator(t, oneServer)
	a.json = true
	if err := a.runMCPGrant(t.Context(), "s", grantOptions{}, declares("t")); err != nil {
		t.Fatal(err)
	}
	var doc grantDocument
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if s := doc.Server; !doc.Granted || s.State != stateUsable || s.Granted == nil || !*s.Granted || s.Fingerprint != doc.Fingerprint {
		t.Errorf("%s", out)
	}
}

// What changes between the look and the answer is not granted.
func TestGrantBindsWhatWasShown(t *testing.T) {
	a, file, _, _ := operator(t, oneServer)
	swapped := strings.Replace(oneServer, `"x"`, `"evil"`, 1)
	err := a.runMCPGrant(t.Context(), "s", grantOptions{}, func(ctx context.Context, s mcp.Server) (mcp.Declared, error) {
		if err := os.WriteFile(file, []byte(swapped), 0o600); err != nil {
			return mcp.Declared{}, err
		}
		return declares("t")(ctx, s)
	})
	if exitStatus(err) != orchestrator.ExitRefused || !errors.Is(err, store.ErrChanged) {
		t.Error(err)
	}
	if b, _ := os.ReadFile(file); string(b) != swapped {
		t.Errorf("%s", b)
	}
}

// A server that does not connect changes nothing, and one that lost its tools
// needs no new answer for what is left.
func TestGrantTwice(t *testing.T) {
	a, file, out, errs := operator(t, oneServer)
	gone := errors.New("gone")
	err := a.runMCPGrant(t.Context(), "s", grantOptions{}, func(context.Context, mcp.Server) (mcp.Declared, error) { return mcp.Declared{}, gone })
	if exitStatus(err) != orchestrator.ExitInfrastructure || !errors.Is(err, gone) {
		t.Error(err)
	}
	if b, _ := os.ReadFile(file); string(b) != oneServer {
		t.Errorf("%s", b)
	}
	if err := a.runMCPGrant(t.Context(), "s", grantOptions{}, declares("t", "u")); err != nil || !strings.Contains(out.String(), "granted s: 2 tools") {
		t.Errorf("%v %s", err, out)
	}
	if err := a.runMCPGrant(t.Context(), "s", grantOptions{}, declares("u")); err != nil || !strings.Contains(errs.String(), "    - t is gone\n") {
		t.Errorf("%v %s", err, errs)
	}
	out.Reset()
	a.yes = false // nobody is asked when nothing changed
	if err := a.runMCPGrant(t.Context(), "s", grantOptions{}, declares("u")); err != nil || !strings.Contains(out.String(), "nothing changed") {
		t.Errorf("%v %s", err, out)
	}
	if err := a.runMCPGrant(t.Context(), "s", grantOptions{}, declares("u", "new")); exitStatus(err) != orchestrator.ExitRefused {
		t.Error(err)
	}
}

// The document has what changed before and after, whole but for what is hidden.
func TestGrantDocumentHasBeforeAndAfter(t *testing.T) {
	const first, second = "first-first-first", "second-second-second"
	a, file, out, errs := operator(t, strings.Replace(oneServer, "granted", `args = ["--token", "`+first+"\"]\ngranted", 1))
	a.json = true
	says := func(text string) handshake {
		return func(_ context.Context, s mcp.Server) (mcp.Declared, error) {
			return mcp.Declared{Server: s, Tools: []mcp.Tool{{Name: "t", Description: text, InputSchema: []byte(`{}`)}}}, nil
		}
	}
	grant := func(text string) *changesObject {
		t.Helper()
		out.Reset()
		if err := a.runMCPGrant(t.Context(), "s", grantOptions{}, says(text)); err != nil {
			t.Fatal(err)
		}
		var doc grantDocument
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{first, second, "\u202e"} {
			if strings.Contains(out.String()+errs.String(), secret) {
				t.Errorf("%q is told: %s%s", secret, out, errs)
			}
		}
		return doc.Changes
	}
	long := strings.Repeat("same ", 1000)
	if c := grant(long + "old\u202e"); c != nil {
		t.Errorf("the first time: %+v", c)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(oneServer, "granted", `args = ["--token", "`+second+"\", \"more\"]\ngranted", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	want := &changesObject{
		Endpoint: []string{"args"}, Where: &beforeAfter{"x --token …", "x --token … more"}, Added: []string{}, Removed: []string{},
		Changed: map[string][]string{"t": {"description"}},
		Texts:   map[string]map[string]beforeAfter{"t": {"description": {long + "old\u202e", long + "new"}}},
	}
	if c := grant(long + "new"); !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
	if c := grant(long + "new"); c == nil || c.Where != nil || len(c.Texts) != 0 {
		t.Errorf("what did not change: %+v", c)
	}
}

// A server that repeats its own key, wherever and however it writes it, does not
// have it shown, also not the half of it where a text is cut. What is granted is
// what was declared.
func TestGrantHidesWhatAServerRepeats(t *testing.T) {
	const key, pin = "a-key/of-the-entry", "314159265358"
	s := mcp.Server{Name: "s", Transport: mcp.Stdio, Cmd: "x", Args: []string{"--token", key, "--password", pin}}
	declared := func(more string) mcp.Declared {
		schema := `{"b":"\"` + key + `","a":{"a-key\/of-the-\u0065ntry":[-` + pin + `,1e3,"` + more + `"]},"a":true}`
		yes := true
		return mcp.Declared{Server: s, Name: key, Version: key, Protocol: key, Tools: []mcp.Tool{
			{Name: "t", Title: key, Description: strings.Repeat("w", 90) + " " + key + more, InputSchema: []byte(schema), OutputSchema: []byte(schema), Annotations: &mcp.Annotations{Title: key, ReadOnly: &yes}},
			{Name: key + more, InputSchema: []byte(`{}`)},
		}}
	}
	before, d := mcp.Fingerprint(s, declared("old").Tools), declared("new")
	print := mcp.Fingerprint(s, d.Tools)
	changes := mcp.Review(before, print)
	e := mcp.Entry{Server: s, Scope: mcp.User, Record: &mcp.Record{Print: before, Agreed: time.Unix(0, 0)}}
	text := handshakeText(e, d, &changes)
	doc := grantJSON(e, d, print, &changes)
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"a-key", "ntry", pin} {
		if strings.Contains(text, part) || strings.Contains(string(b), part) {
			t.Errorf("%q is told:\n%s\n%s", part, text, b)
		}
	}
	const schema = `{"b":"\"[redacted]","a":{"[redacted]":["-[redacted]",1e3,"new"]},"a":true}`
	if got := doc.Tools[0]; string(got.InputSchema) != schema || string(got.OutputSchema) != schema || !strings.HasSuffix(got.Description, " [redacted]new") {
		t.Errorf("%s", b)
	}
	if !strings.Contains(text, "calls itself: [redacted] [redacted]") || !strings.Contains(text, "[redacted]new") || len(doc.Changes.Texts["t"]) == 0 {
		t.Errorf("%s\n%s", text, b)
	}
	if !reflect.DeepEqual(d, declared("new")) || !reflect.DeepEqual(changes, mcp.Review(before, print)) || doc.Fingerprint != print.Digest() {
		t.Error("what is recorded was changed")
	}
}

// A tool cannot be called by what looks like a description or a claim.
func TestANameIsNothingElse(t *testing.T) {
	for name, want := range map[string]string{
		"read_file":            "    read_file\n",
		"docs.search/v2":       "    docs.search/v2\n",
		"t — only reads":       "    \"t — only reads\"\n",
		"a  claims: safe":      "    \"a  claims: safe\"\n",
		`x" — harmless`:        "    \"x\\\" — harmless\"\n",
		"":                     "    \"\"\n",
		strings.Repeat("n", 9): "    nnnnnnnnn\n",
	} {
		if got := toolLine(mcp.Tool{Name: name}); got != want {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}

// Nothing that a server says can move the cursor, forge a line or hide one.
func TestHandshakeIsClean(t *testing.T) {
	evil := "a\x1b[2J\r\nMCP server \"other\"\u202e\u200b\x00"
	d := mcp.Declared{Name: evil, Version: evil, Protocol: evil, Tools: []mcp.Tool{
		{Name: evil, Description: evil + strings.Repeat("x", 5000), InputSchema: []byte(`{}`)},
		{Name: "t", Description: "\n\n  first \nsecond", InputSchema: []byte(`{}`)},
	}}
	s := mcp.Server{Name: "s" + evil, Transport: mcp.Stdio, Cmd: evil, Args: []string{evil}, Env: map[string]string{evil: evil}}
	before := mcp.Fingerprint(mcp.Server{Transport: mcp.Stdio, Cmd: "b" + evil}, []mcp.Tool{{Name: evil, Description: "old" + evil, InputSchema: []byte(`{}`)}, {Name: "gone" + evil, InputSchema: []byte(`{}`)}})
	now := mcp.Fingerprint(s, d.Tools)
	changes := mcp.Review(before, now)
	text := handshakeText(mcp.Entry{Server: s, Scope: mcp.User, Record: &mcp.Record{Print: before, Agreed: time.Unix(0, 0)}}, d, &changes)
	for _, r := range text {
		if r != '\n' && (r < ' ' || r == 0x7f || r == '\u202e' || r == '\u200b') {
			t.Fatalf("%q in %q", r, text)
		}
	}
	forged := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "MCP server") {
			forged++
		}
	}
	if forged != 1 || !strings.Contains(text, "    t — first (of 13 characters") || !strings.Contains(text, "is gone\n") || !strings.Contains(text, "where it is: args, cmd, env\n") {
		t.Error(text)
	}
}

func TestDifference(t *testing.T) {
	long := strings.Repeat("same ", 40)
	for _, c := range [][4]string{
		{"", "x", "", "x"}, {"abc", "abd", "abc", "abd"},
		{long + "old" + long, long + "new" + long, "…same same same same same same old" + "same same same same same same …", "…same same same same same same new" + "same same same same same same …"},
		{long, long + "and more", "…same same same same same same ", "…same same same same same same and more"},
	} {
		if before, now := difference(c[0], c[1]); before != c[2] || now != c[3] {
			t.Errorf("%q %q", before, now)
		}
	}
	law := func(head, x, y, tail string) bool {
		before, now := difference(head+x+tail, head+y+tail)
		return (before == now) == (string([]rune(x)) == string([]rune(y)))
	}
	if err := quick.Check(law, &quick.Config{MaxCount: 5000}); err != nil {
		t.Error(err)
	}
}
