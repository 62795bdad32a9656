package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bestof-dev/bestof/mcp/login/logintest"
)

// A fakeRegistry is the API v0.1 over a list of entries, as strict about paths
// and filters as the real one.
type fakeRegistry struct {
	mu      sync.Mutex
	fail    []int // statuses of the next answers
	entries []fakeEntry
}

type fakeEntry struct {
	raw                   json.RawMessage
	name, version, status string
	latest                bool
}

// registry FILE [STATUS…] starts a registry whose entries are the lines of
// FILE, and 130 more. Its first answers have the statuses. BESTOF_MCP_REGISTRY
// is set to where it is.
func cmdRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: registry FILE [STATUS…]")
	}
	f := &fakeRegistry{}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
	for i := range 130 {
		lines = append(lines, fmt.Sprintf(`{"server":{"name":"io.example/many-%03d","description":"One of many","version":"1.0.0","packages":[{"registryType":"npm","identifier":"many","version":"1.0.%d"}]}}`, i, i))
	}
	for _, line := range lines {
		var e struct {
			Server struct{ Name, Version string }
			Meta   map[string]struct {
				Status   string
				IsLatest *bool
			} `json:"_meta"`
		}
		ts.Check(json.Unmarshal([]byte(line), &e))
		m := e.Meta["io.modelcontextprotocol.registry/official"]
		f.entries = append(f.entries, fakeEntry{json.RawMessage(line), e.Server.Name, e.Server.Version, m.Status, m.IsLatest == nil || *m.IsLatest})
	}
	for _, a := range args[1:] {
		status, err := strconv.Atoi(a)
		ts.Check(err)
		f.fail = append(f.fail, status)
	}
	s := httptest.NewServer(f)
	ts.Defer(s.Close)
	ts.Setenv("BESTOF_MCP_REGISTRY", s.URL)
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fail) > 0 {
		status := f.fail[0]
		f.fail = f.fail[1:]
		w.Header().Set("Retry-After", "0")
		problem(w, status, "try again")
		return
	}
	if r.URL.Path == "/v0.1/servers" {
		f.list(w, r)
		return
	}
	// {name} is one segment: io.example%2Fx, never io.example/x.
	parts := strings.Split(r.URL.EscapedPath(), "/")
	if len(parts) != 6 || parts[2] != "servers" || parts[4] != "versions" {
		problem(w, http.StatusNotFound, "Endpoint not found")
		return
	}
	for _, e := range f.entries {
		if strings.ReplaceAll(e.name, "/", "%2F") == parts[3] && (e.version == parts[5] || parts[5] == "latest" && e.latest) &&
			(e.status != "deleted" || r.URL.Query().Get("include_deleted") == "true") {
			_, _ = w.Write(e.raw)
			return
		}
	}
	problem(w, http.StatusNotFound, "Server not found")
}

func (f *fakeRegistry) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	search := strings.TrimSpace(q.Get("search"))
	if len(search) < 3 {
		problem(w, http.StatusUnprocessableEntity, "expected length >= 3")
		return
	}
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		problem(w, http.StatusUnprocessableEntity, "expected number <= 100")
		return
	}
	at, _ := strconv.Atoi(strings.TrimPrefix(q.Get("cursor"), "after:"))
	page := []json.RawMessage{}
	next := ""
	for i := at; i < len(f.entries); i++ {
		e := f.entries[i]
		if !strings.Contains(e.name, search) || e.status == "deleted" || q.Get("version") == "latest" && !e.latest {
			continue
		}
		if len(page) == limit {
			next = fmt.Sprintf("after:%d", i)
			break
		}
		page = append(page, e.raw)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"servers": page, "metadata": map[string]any{"count": len(page), "nextCursor": next}})
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "detail": detail})
}

type worldKey struct{}

// members NAME FAULTS starts an MCP server that wants a login, and writes its
// entry into the operator's mcp.toml. FAULTS is logintest.Faults in JSON.
// members -set FAULTS changes them; members -expire ends all tokens.
func cmdMembers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: members NAME FAULTS | -set FAULTS | -expire")
	}
	var faults logintest.Faults
	if len(args) == 2 {
		ts.Check(json.Unmarshal([]byte(args[1]), &faults))
	}
	worlds := ts.Value(worldKey{}).(*worlds)
	switch args[0] {
	case "-set":
		worlds.last.Set(faults)
		return
	case "-expire":
		worlds.last.Expire()
		return
	}
	w := logintest.New(faults)
	worlds.last = w
	ts.Defer(func() {
		w.Close()
		if m := w.Misuse(); len(m) > 0 {
			ts.Fatalf("the client got wrong: %q", m)
		}
	})
	file := filepath.Join(ts.Getenv("BESTOF_HOME"), "mcp.toml")
	text, err := os.ReadFile(file)
	if !os.IsNotExist(err) {
		ts.Check(err)
	}
	ts.Check(os.WriteFile(file, fmt.Appendf(text, "[servers.%s]\ntransport = \"http\"\nurl = %q\n", args[0], w.URL()), 0o600))
	ts.Setenv("ISSUER", w.AS.URL)
}

type worlds struct{ last *logintest.World }

// browse FILE is a person with a browser: it waits until FILE, where a login
// writes, says which address to open, and opens it. browse FILE END writes the
// address at which the browser would end into END, without going there.
func cmdBrowse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: browse FILE [END]")
	}
	address := ""
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(5 * time.Millisecond); address == ""; <-tick.C {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil {
			for line := range strings.Lines(string(b)) {
				if strings.HasPrefix(line, "http") && strings.HasSuffix(line, "\n") {
					address = strings.TrimSpace(line)
				}
			}
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no address to open after a minute: %s", b)
		}
	}
	if len(args) == 1 {
		_, err := logintest.Browse(address)
		ts.Check(err)
		return
	}
	end, err := logintest.Ends(address)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(end+"\n"), 0o600))
}
