package mcp

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func imported(t *testing.T, name, text string) (map[string]Imported, []string) {
	t.Helper()
	entries, notices, err := Import(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Imported{}
	for _, e := range entries {
		all[e.Name] = e
	}
	if len(all) != len(entries) {
		t.Errorf("a name twice in %+v", entries)
	}
	return all, notices
}

func TestImportClaude(t *testing.T) {
	all, notices := imported(t, ".mcp.json", `{
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "p"], "env": {"LEVEL": "info", "PORT": 80, "T": "${TOKEN:-`+secret+`}", "U": null}, "cwd": "/x", "disabled": true, "alwaysAllow": ["a"]},
    "web": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${T}", "X": "1"}},
    "gem": {"httpUrl": "https://h/g"},
    "listed": {"type": "local", "command": ["node", "x.js"], "environment": {"A": "b"}}
  },
  "projects": {"/p": {"mcpServers": {"of-a-project": {"command": "x"}}}},
  "other": 1
}`)
	if len(notices) != 1 || !strings.HasPrefix(notices[0], "projects: servers of single projects are left") {
		t.Errorf("notices: %q", notices)
	}
	for name, want := range map[string]struct {
		server Server
		notes  []string
	}{
		"files": {Server{Name: "files", Transport: Stdio, Cmd: "npx", Args: []string{"-y", "p"}, Env: map[string]string{"LEVEL": "info", "PORT": "80"}, Granted: no()}, []string{
			`env: "T" is left out, since its value holds ${…} and values are literal here: write it yourself`, `env: "U" has no value and is left out`,
			"it was turned off there; here it is withheld until it is granted", `left out, since an mcp.toml has no such keys: "cwd", "alwaysAllow"`,
		}},
		"web":    {Server{Name: "web", Transport: HTTP, URL: "https://h/mcp", Headers: map[string]string{"X": "1"}, Granted: no()}, []string{`headers: "Authorization" is left out, since its value holds ${…} and values are literal here: write it yourself`}},
		"gem":    {Server{Name: "gem", Transport: HTTP, URL: "https://h/g", Granted: no()}, nil},
		"listed": {Server{Name: "listed", Transport: Stdio, Cmd: "node", Args: []string{"x.js"}, Env: map[string]string{"A": "b"}, Granted: no()}, nil},
	} {
		got := all[name]
		if got.Server == nil || !reflect.DeepEqual(*got.Server, want.server) || fmt.Sprintf("%q", got.Notes) != fmt.Sprintf("%q", want.notes) {
			t.Errorf("%s: %+v\n%q", name, got.Server, got.Notes)
		}
	}
}

func TestImportVSCode(t *testing.T) {
	text := "\ufeff// people write comments\n{\n  \"inputs\": [{\"id\": \"k\"},], /* and\n commas */\n  \"servers\": {\n \"a\": {\"type\": \"stdio\", \"command\": \"x\", \"args\": [\"//not\", \"/*not*/\", \"a\\\"//\",],},\n},\n}"
	for _, shape := range []string{text, `{"mcp": ` + text[strings.Index(text, "{"):] + `}`} {
		all, notices := imported(t, "mcp.json", shape)
		want := Server{Name: "a", Transport: Stdio, Cmd: "x", Args: []string{"//not", "/*not*/", `a"//`}, Granted: no()}
		if all["a"].Server == nil || !reflect.DeepEqual(*all["a"].Server, want) || len(notices) != 1 || !strings.HasPrefix(notices[0], "inputs:") {
			t.Errorf("%+v %v", all["a"].Server, notices)
		}
	}
}

func TestImportTOML(t *testing.T) {
	all, notices := imported(t, "mcp.toml", seedFile+"zap = 1\n[servers.a__b]\ntransport = \"http\"\nurl = \"https://h/\"\ngranted = true\n[servers.g]\ntransport = \"stdio\"\ncmd = \"x\"\ngranted = true\n")
	if s := all["g"].Server; s == nil || *s.Granted || !strings.Contains(all["a__b"].Notes[0], "rename") || all["a__b"].Server != nil {
		t.Errorf("%+v", all)
	}
	if s := all["docs"]; s.Server == nil || s.Server.CandidateSafe || s.Server.Usable() || !strings.Contains(s.Notes[0], "candidate_safe") {
		t.Errorf("%+v", all["docs"])
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "zap") {
		t.Error(notices)
	}
	if all, _ := imported(t, "servers", seedFile); len(all) != 3 {
		t.Error("a file of another name is not read as TOML")
	}
}

// What is not taken says why and tells no value.
func TestLeftEntries(t *testing.T) {
	for entry, want := range map[string]string{
		`1`:                                               "not an object",
		`{}`:                                              "neither a command nor an address",
		`{"command": "x", "url": "https://h/"}`:           "both a command and an address",
		`{"type": "sse", "url": "https://h/"}`:            "SSE",
		`{"type": "ws", "url": "https://h/"}`:             "neither stdio nor http",
		`{"type": 1, "url": "https://h/"}`:                "type is not a string",
		`{"type": "stdio"}`:                               "cmd is empty",
		`{"command": 1}`:                                  "command is not a string",
		`{"command": []}`:                                 "command is not a string",
		`{"command": "${` + secret + `}"}`:                "command holds ${…}",
		`{"command": "x", "args": "` + secret + `"}`:      "args is not a list",
		`{"command": "x", "args": ["` + secret + `", 1]}`: "args: element 2 is not a string",
		`{"command": "x", "args": ["${workspaceFolder}/` + secret + `"]}`: "args holds ${…}",
		`{"command": "x", "env": "` + secret + `"}`:                       "env is not an object",
		`{"command": "x", "env": {"A": ["` + secret + `"]}}`:              `env: "A" is not a string`,
		`{"url": "` + secret + `"}`:                                       "not an http or https",
		`{"url": "https://${HOST}/` + secret + `"}`:                       "url holds ${…}",
		`{"url": "https://h/", "headers": {"A": "` + secret + `\n"}}`:     "line end",
	} {
		all, _ := imported(t, "x.json", `{"mcpServers": {"e": `+entry+`, "good": {"command": "y"}}}`)
		notes := strings.Join(all["e"].Notes, "; ")
		if all["e"].Server != nil || !strings.Contains(notes, want) || strings.Contains(notes, secret) || all["good"].Server == nil {
			t.Errorf("%s: %+v", entry, all["e"])
		}
	}
	entries, _, err := Import("x.json", []byte(`{"mcpServers": {"a": {"command": "x"}, "b__c": {"command": "x"}}, "servers": {"a": {"command": "y"}}}`))
	if err != nil || len(entries) != 3 || entries[1].Server != nil || entries[2].Server != nil || !strings.Contains(entries[2].Notes[0], "another server of this name") {
		t.Errorf("%v %+v", err, entries)
	}
}

func TestRefusedImports(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "x", "command": "` + secret + `"}}}`: `line 1: the key "command" stands there twice`,
		"{\n\"servers\": {\"" + secret + "\": }}":                              "line 2: this is not JSON",
		`{"servers": {}} {}`:            "something stands after its end",
		`{"servers": "` + secret + `"}`: "servers is not an object",
		`[]`:                            "it is not a JSON object",
		`{"other": {}}`:                 "neither mcpServers nor servers",
		`{"servers": ` + strings.Repeat("[", 200): "nested more than 100 deep",
		strings.Repeat(" ", 1<<20) + "{}":         "larger than",
		``:                                        "this is not JSON",
	} {
		if _, _, err := Import("x.json", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "x.json: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, _, err := Import("x.toml", []byte("a = "+secret)); err == nil || strings.Contains(err.Error(), secret) {
		t.Error(err)
	}
}

// FuzzImport: whatever is taken can be written, is withheld, and is no
// candidate's.
func FuzzImport(f *testing.F) {
	f.Add("x.json", `{"mcpServers": {"a": {"command": "x", "args": ["y"], "env": {"A": 1e400}}}}`)
	f.Add("x.json", "// c\n{\"servers\": {\"a\": {\"url\": \"https://h/\", \"headers\": {\"A\": \"b\"},},},}")
	f.Add("mcp.toml", seedFile)
	f.Add("x", `/* `)
	f.Fuzz(func(t *testing.T, name, text string) {
		entries, _, err := Import(name, []byte(text))
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Server == nil {
				if len(e.Notes) == 0 {
					t.Fatalf("%q: %q is left without a word", text, e.Name)
				}
				continue
			}
			if e.Server.Usable() || e.Server.CandidateSafe || e.Server.Name != e.Name {
				t.Fatalf("%q: %+v", text, e.Server)
			}
			if _, err := PutServer(nil, *e.Server); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
