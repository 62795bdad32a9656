package mcp

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const seedFile = `[servers.filesystem]
transport = "stdio"
cmd = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "."]
env = { LOG_LEVEL = "info" }

[servers.github]
transport = "http"
url = "https://mcp.example.com/mcp"
headers = { Authorization = "Bearer …" }

[servers.docs]
transport = "http"
url = "https://docs.example.com/mcp"
candidate_safe = true
`

// The documentation's example files work unmodified.
func TestSeedFileWorks(t *testing.T) {
	c, err := ParseConfig("mcp.toml", []byte(seedFile))
	if err != nil || len(c.Notices)+len(c.Unusable) > 0 {
		t.Fatalf("%v %+v", err, c)
	}
	want := []Server{
		{Name: "docs", Transport: HTTP, URL: "https://docs.example.com/mcp", CandidateSafe: true},
		{Name: "filesystem", Transport: Stdio, Cmd: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "."}, Env: map[string]string{"LOG_LEVEL": "info"}},
		{Name: "github", Transport: HTTP, URL: "https://mcp.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer …"}},
	}
	if !reflect.DeepEqual(c.Servers, want) {
		t.Errorf("%+v", c.Servers)
	}
	for _, s := range c.Servers {
		if !s.Usable() {
			t.Errorf("%s was written by hand and is withheld", s.Name)
		}
	}
}

func TestAllKeys(t *testing.T) {
	text := `[servers.a]
transport = "stdio"
cmd = "x"
candidate_safe = true
granted = false
title = "T"
description = "D"
registry_name = "R"
repository = "P"
version = "V"
`
	c, err := ParseConfig("mcp.toml", []byte(text))
	no := false
	want := Server{Name: "a", Transport: Stdio, Cmd: "x", CandidateSafe: true, Granted: &no, Title: "T", Description: "D", RegistryName: "R", Repository: "P", Version: "V"}
	if err != nil || len(c.Servers) != 1 || !reflect.DeepEqual(c.Servers[0], want) || len(c.Notices) > 0 {
		t.Errorf("%v %+v", err, c)
	}
	for _, empty := range []string{"", "# nothing\n", "\ufeff[servers]\n"} {
		if c, err := ParseConfig("mcp.toml", []byte(empty)); err != nil || len(c.Servers) > 0 || len(c.Notices) > 0 {
			t.Errorf("%q: %v %+v", empty, err, c)
		}
	}
}

const secret = "s3cr3t-value"

// Every refusal of a file names the line and none quotes it.
func TestRefusedFiles(t *testing.T) {
	var many strings.Builder
	for i := range MaxServers + 1 {
		fmt.Fprintf(&many, "[servers.s%d]\ntransport = \"stdio\"\ncmd = \"x\"\n", i)
	}
	const stdio = "[servers.a]\ntransport = \"stdio\"\ncmd = \"x\"\n"
	for text, want := range map[string]string{
		many.String():                               fmt.Sprintf("f:%d: there are more than", 3*MaxServers+1),
		"servers = 1":                               "f:1: servers is not a table",
		"[[servers]]":                               "f:1: servers is not a table",
		"[servers]\na = 1":                          "f:2: servers.a is not a table",
		"[servers.a]\ncmd = \"x\"":                  "f:1: servers.a has no transport",
		"[servers.a]\nTransport = \"stdio\"":        `f:1: servers.a has no transport (keys are case-sensitive: there is "Transport")`,
		"[servers.a]\ntransport = 1":                "f:2: servers.a.transport is not a string",
		"[servers.a]\n\ntransport = \"Stdio\"":      `f:3: servers.a: transport is neither "stdio" nor "http"`,
		"[servers.a]\ntransport = \"sse\"":          `f:2: servers.a: transport is neither "stdio" nor "http"`,
		"[servers.a]\ntransport = \"stdio\"":        "f:1: servers.a has no cmd",
		"[servers.'a b']\ntransport = \"http\"":     `f:1: servers."a b" has no url`,
		stdio + "args = \"" + secret + "\"":         "f:4: servers.a.args is not a list of strings",
		stdio + "args = [\n\"y\",\n1]":              "f:6: servers.a.args: element 2 is not a string",
		stdio + "env = 1":                           "f:4: servers.a.env is not a table of strings",
		stdio + "env.A = 1":                         "f:4: servers.a.env.A is not a string",
		stdio + "granted = \"" + secret + "\"":      "f:4: servers.a.granted is not true or false",
		stdio + "candidate_safe = 1":                "f:4: servers.a.candidate_safe is not true or false",
		stdio + "title = 1":                         "f:4: servers.a.title is not a string",
		stdio + "env = { A = " + secret + " }":      "f:4: this is not TOML",
		stdio + "env = { A = \"" + secret:           "f:4: this is not TOML",
		stdio + "cmd = \"" + secret + "\"":          "f:4: this is not TOML",
		stdio + "\"" + secret + " = 1":              "f:4: this is not TOML",
		stdio + "env.A = \"" + secret + "\\q\"":     "f:4: this is not TOML",
		strings.Repeat("#", 1<<20) + "\n":           "f: larger than",
		"[servers.a]\ntransport=\"http\"\nurl = {}": "f:3: servers.a.url is not a string",
	} {
		_, err := ParseConfig("f", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
}

// What counts for nothing is said and refuses nothing.
func TestNotices(t *testing.T) {
	text := `zap = "` + secret + `"
[Servers.x]
a = 1
[servers.a]
Granted = "` + secret + `"
transport = "stdio"
url = "https://` + secret + `"
headers = "` + secret + `"
cmd = "x"
timeout = 1
"A_TOKEN=` + secret + `" = 1
[servers.b]
transport = "http"
url = "https://h/"
args = 1
`
	c, err := ParseConfig("f", []byte(text))
	want := []string{
		"f:1: zap is no key and counts for nothing",
		`f:2: Servers is no key and counts for nothing (keys are case-sensitive: did you mean "servers"?)`,
		`f:5: servers.a.Granted is no key and counts for nothing (keys are case-sensitive: did you mean "granted"?)`,
		`f:7: servers.a: url counts for nothing with transport = "stdio"`,
		`f:8: servers.a: headers counts for nothing with transport = "stdio"`,
		"f:10: servers.a.timeout is no key and counts for nothing",
		`f:11: servers.a."A_TOKEN…" is no key and counts for nothing`,
		`f:15: servers.b: args counts for nothing with transport = "http"`,
	}
	if err != nil || len(c.Servers) != 2 || !slices.Equal(c.Notices, want) {
		t.Errorf("%v\n%s", err, strings.Join(c.Notices, "\n"))
	}
}

// An entry that cannot be used costs no other, and its reason tells no value.
func TestUnusableEntries(t *testing.T) {
	for entry, want := range map[string]string{
		`[servers.a__b]` + "\ntransport = \"stdio\"\ncmd = \"x\"":                                                                     "rename the entry",
		`[servers._a]` + "\ntransport = \"stdio\"\ncmd = \"x\"":                                                                       "rename the entry",
		`[servers.""]` + "\ntransport = \"stdio\"\ncmd = \"x\"":                                                                       "empty",
		`[servers.x]` + "\ntransport = \"stdio\"\ncmd = \" \"":                                                                        "cmd is empty",
		`[servers.x]` + "\ntransport = \"stdio\"\ncmd = \"x\"\nargs = [\"" + secret + "\\u0000\"]":                                    "NUL",
		`[servers.x]` + "\ntransport = \"stdio\"\ncmd = \"x\"\nenv = { \"A=B\" = \"" + secret + "\" }":                                `"A…" cannot be the name`,
		`[servers.x]` + "\ntransport = \"stdio\"\ncmd = \"x\"\nenv = { A = \"" + secret + "\\u0000\" }":                               "NUL",
		`[servers.x]` + "\ntransport = \"http\"\nurl = \"ftp://" + secret + "/\"":                                                     "not an http or https",
		`[servers.x]` + "\ntransport = \"http\"\nurl = \"" + secret + "\"":                                                            "not an http or https",
		`[servers.x]` + "\ntransport = \"http\"\nurl = \"https://:80/" + secret + "\"":                                                "with a host",
		`[servers.x]` + "\ntransport = \"http\"\nurl = \"https://h/\"\nheaders = { \"A B\" = \"x\" }":                                 `"A…" cannot be the name`,
		`[servers.x]` + "\ntransport = \"http\"\nurl = \"https://h/\"\nheaders = { A = \"1\", a = \"2\" }":                            "twice",
		`[servers.x]` + "\ntransport = \"http\"\nurl = \"https://h/\"\nheaders = { A = \"" + secret + "\\r\\nB: 1\" }":                "line end",
		`[servers.x]` + "\ntransport = \"http\"\nurl = \"https://h/\"\nheaders = { \"Authorization: Bearer " + secret + "\" = \"\" }": `"Authorization…" cannot be the name`,
		`[servers.x]` + "\ntransport = \"stdio\"\ncmd = \"x\"\nenv = { \"A_TOKEN=" + secret + "\" = \"\" }":                           `"A_TOKEN…" cannot be the name`,
	} {
		c, err := ParseConfig("f", []byte(entry+"\n[servers.good]\ntransport = \"stdio\"\ncmd = \"y\"\n"))
		if err != nil || len(c.Servers) != 1 || c.Servers[0].Name != "good" || len(c.Unusable) != 1 ||
			!strings.Contains(c.Unusable[0].Reason, want) || strings.Contains(c.Unusable[0].Reason, secret) {
			t.Errorf("%q: %v %+v", entry, err, c)
		}
	}
}

// The operator keeps every name of the operator's file.
func TestMerge(t *testing.T) {
	no := false
	user := Config{Servers: []Server{{Name: "b"}, {Name: "d", Granted: &no}}, Unusable: []Unusable{{"_x", "r"}}}
	project := Config{Servers: []Server{{Name: "a"}, {Name: "b"}, {Name: "d"}}, Unusable: []Unusable{{"_x", "s"}, {"_y", "t"}}}
	entries, unusable, shadowed := Merge(project, user)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name+" "+string(e.Scope))
	}
	if !slices.Equal(got, []string{"a project", "b user", "d user"}) || fmt.Sprint(unusable) != "[{_x r} {_y t}]" || !slices.Equal(shadowed, []string{"_x", "b", "d"}) {
		t.Errorf("%v %v %v", got, unusable, shadowed)
	}
}

func TestEndpointHidesCredentials(t *testing.T) {
	for _, c := range []struct {
		server Server
		want   string
	}{
		{Server{Transport: Stdio, Cmd: "npx", Args: []string{"-y", "a b", "", "$(x)", "it's"}}, `npx -y 'a b' '' '$(x)' 'it'\''s'`},
		{Server{Transport: Stdio, Cmd: "x", Args: []string{"--api-key", secret, "--port", "80"}}, "x --api-key … --port 80"},
		{Server{Transport: Stdio, Cmd: "x", Args: []string{"--token=" + secret, "-e", "GITHUB_TOKEN=" + secret, "-e", "LEVEL=info"}}, "x --token=… -e GITHUB_TOKEN=… -e LEVEL=info"},
		{Server{Transport: Stdio, Cmd: "x", Args: []string{"--header", "Authorization: Bearer " + secret, "-H", "X:" + secret}}, "x --header 'Authorization: …' -H 'X: …'"},
		{Server{Transport: Stdio, Cmd: "x", Args: []string{"postgres://u:" + secret + "@h/db?k=" + secret + "&" + secret + "#" + secret}}, "x 'postgres://…@h/db?k=…&…#…'"},
		{Server{Transport: Stdio, Cmd: "x", Args: []string{"--db=https://u:" + secret + "@h/?api_key=" + secret, "--token=https://" + secret}}, "x '--db=https://…@h/?api_key=…' --token=…"},
		{Server{Transport: Stdio, Cmd: "x", Args: []string{"pre" + secret}, Env: map[string]string{"A_TOKEN": secret}}, "x 'pre[redacted]'"},
		{Server{Transport: Stdio, Cmd: "x", Args: []string{"ghp_" + strings.Repeat("a1", 18)}}, "x '[redacted]'"},
		{Server{Transport: HTTP, URL: "https://u:" + secret + "@h:1/mcp?a=" + secret + "&b#" + secret}, "https://…@h:1/mcp?a=…&…#…"},
		{Server{Transport: HTTP, URL: "https://h/s/0a1b2c3d4e5f6a7b8c9d0e1f/mcp"}, "https://h/s/…/mcp"},
		{Server{Transport: HTTP, URL: "https://h/" + secret, Headers: map[string]string{"A": "Bearer " + secret}}, "https://h/[redacted]"},
		{Server{Transport: HTTP, URL: "https://h/%zz" + secret}, "…"},
	} {
		got := c.server.Endpoint()
		if got != c.want || strings.Contains(got, secret) {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	s := Server{Transport: HTTP, Headers: map[string]string{"B": secret, "A": secret}, Env: map[string]string{"C": ""}}
	if !slices.Equal(s.Credentials(), []string{"A", "B"}) {
		t.Error(s.Credentials())
	}
}

// What an address or an argument hides of itself is a secret wherever else it
// turns up, unless it is an ordinary word.
func TestAddressSecrets(t *testing.T) {
	key := "0a1b2c3d4e5f6a7b8c9d0e1f"
	for _, c := range []struct {
		server Server
		want   []string
	}{
		{Server{Transport: HTTP, URL: "https://someone:" + secret + "@h:1/mcp?env=production&n=1"}, []string{secret}},
		{Server{Transport: HTTP, URL: "https://" + key + "@h/s/" + key + "x/mcp"}, []string{key, key + "x"}},
		{Server{Transport: HTTP, URL: "https://h/mcp?api_key=a%2Fb%2Fc%2Fd%2F&v=" + key + "&" + key}, []string{"a%2Fb%2Fc%2Fd%2F", "a/b/c/d/", key, key}},
		{Server{Transport: HTTP, URL: "https://h/mcp?token=short"}, nil},
		{Server{Transport: Stdio, Args: []string{"--api-key", secret, "--port", "8080808080", "--level=verbose-level"}}, []string{secret}},
		{Server{Transport: Stdio, Args: []string{"--token=" + secret, "-H", "Authorization: Bearer " + secret}}, []string{secret, "Bearer " + secret, secret}},
		{Server{Transport: Stdio, Args: []string{"--db=postgres://u:" + secret + "@h/db"}}, []string{secret}},
		// What is an ordinary word.
		{Server{Transport: Stdio, Args: []string{"postgres://postgres@host/db", "-H", "Accept: application/json", "--header", "X-Mode:read-only mode"}}, nil},
		{Server{Transport: HTTP, URL: "https://operator@h/mcp"}, nil},
		// Headers by their names, and by their values.
		{Server{Transport: Stdio, Args: []string{"-H", "Cookie: sid=" + secret, "-H", "X-Auth:" + secret, "-H", "Accept: " + key, "--header=Authorization: Bearer " + secret}},
			[]string{"sid=" + secret, secret, key, "Bearer " + secret, secret}},
		// As it is written and as it is meant.
		{Server{Transport: HTTP, URL: "https://u:p%40ssword@h/"}, []string{"p%40ssword", "p@ssword"}},
		{Server{Transport: HTTP, URL: "https://h/mcp#access%20words"}, []string{"access%20words", "access words"}},
		// What cannot be read.
		{Server{Transport: Stdio, Args: []string{"postgres://u:pass#word@h/db"}}, []string{"postgres://u:pass#word@h/db", "u:pass#word", "pass#word"}},
		{Server{Transport: HTTP, URL: "https://u:pass/word@h/?to=a@b"}, []string{"https://u:pass/word@h/?to=a@b", "u:pass/word@h/?to=a", "pass/word@h/?to=a", "pass/word"}},
		{Server{Transport: HTTP, URL: "https://u:pass%40w%6Frd@/mcp"}, []string{"https://u:pass%40w%6Frd@/mcp", "u:pass%40w%6Frd", "pass%40w%6Frd", "pass@word"}},
		{Server{Transport: HTTP, URL: "https://h/%zz" + secret}, []string{"https://h/%zz" + secret}},
	} {
		if got := c.server.AddressSecrets(); !slices.Equal(got, c.want) {
			t.Errorf("%s has %q, want %q", c.server.Endpoint(), got, c.want)
		}
	}
}

// FuzzParseConfig: nothing that stands in a value is ever told, and what can be
// used can be written and read again.
func FuzzParseConfig(f *testing.F) {
	f.Add(seedFile)
	f.Add("[servers.a]\ntransport = \"stdio\"\ncmd = \"x\"\nenv.A = \"CANARY\"\n[servers.b__]\n")
	f.Add("servers = { a = { transport = 'http', url = 'https://CANARY@h' } }")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig("f", []byte(text))
		if err != nil {
			return
		}
		for _, s := range c.Servers {
			if err := CheckServer(s); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			out, err := PutServer(nil, s)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			again, err := ParseConfig("f", out)
			if err != nil || len(again.Servers) != 1 || !sameServer(again.Servers[0], s) {
				t.Fatalf("%q became %q: %v %+v", text, out, err, again)
			}
		}
	})
}

// sameServer takes an empty list for none.
func sameServer(a, b Server) bool {
	for _, s := range []*Server{&a, &b} {
		if len(s.Args) == 0 {
			s.Args = nil
		}
		if len(s.Env) == 0 {
			s.Env = nil
		}
		if len(s.Headers) == 0 {
			s.Headers = nil
		}
	}
	return reflect.DeepEqual(a, b)
}
