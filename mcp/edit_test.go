package mcp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestEdits(t *testing.T) {
	grant := func(text []byte) ([]byte, error) { return SetGranted(text, "a", true) }
	remove := func(text []byte) ([]byte, error) { return RemoveServer(text, "a") }
	for _, c := range []struct {
		name         string
		edit         func([]byte) ([]byte, error)
		before, want string
	}{
		{"a value is replaced where it stands", grant,
			"# top\n[servers.a] # x\ntransport='stdio'\n granted =  false # why\ncmd='x'\n",
			"# top\n[servers.a] # x\ntransport='stdio'\n granted =  true # why\ncmd='x'\n"},
		{"an equal value is left", grant,
			"[servers.a]\ngranted=true\ntransport='stdio'\n", "[servers.a]\ngranted=true\ntransport='stdio'\n"},
		{"a new key comes last in its table", grant,
			"[servers.a]\ntransport='stdio'\n  cmd='x' # y\n\n# b\n[servers.b]\n", "[servers.a]\ntransport='stdio'\n  cmd='x' # y\n  granted = true\n\n# b\n[servers.b]\n"},
		{"not behind a table inside it", grant,
			"[servers.a]\ncmd='x'\n[servers.a.env]\nA='1'\n", "[servers.a]\ncmd='x'\ngranted = true\n[servers.a.env]\nA='1'\n"},
		{"where no line ends the file none does then", grant, "[servers.a]\ncmd='x'", "[servers.a]\ncmd='x'\ngranted = true"},
		{"line ends stay what they are", grant, "[servers.a]\r\ncmd='x'\r\n", "[servers.a]\r\ncmd='x'\r\ngranted = true\r\n"},
		{"inline tables", grant, "[servers]\na = { cmd = 'x' } # c\nb = {}\n", "[servers]\na = { cmd = 'x', granted = true } # c\nb = {}\n"},
		{"empty inline tables", grant, "servers = { a = {}, b = {} }\n", "servers = { a = { granted = true }, b = {} }\n"},
		{"dotted keys", grant, "[servers]\na.cmd = 'x'\nb.cmd = 'y'\n", "[servers]\na.cmd = 'x'\na.granted = true\nb.cmd = 'y'\n"},
		{"dotted keys at the top", grant, "servers.a.env.A = 'x'\nz = 1\n", "servers.a.env.A = 'x'\nservers.a.granted = true\nz = 1\n"},
		{"quoted names", grant, "[ servers . \"a\" ]\ncmd='x'\n", "[ servers . \"a\" ]\ncmd='x'\ngranted = true\n"},

		{"a table goes with what is in it", remove,
			"# top\n[servers.a]\ncmd='x' # gone\n# gone\nargs=[\n'y',\n]\n# stays\n\n[servers.b]\n[servers.a.env]\nA='1'\n",
			"# top\n# stays\n\n[servers.b]\n"},
		{"a blank line before the last goes too", remove, "x=1\n\n[servers.a]\ncmd='x'\n", "x=1\n"},
		{"inline first", remove, "servers = { a = {}, b = {} } # c\n", "servers = { b = {} } # c\n"},
		{"inline last", remove, "servers = { b = {}, a = { cmd = 'x' } }\n", "servers = { b = {} }\n"},
		{"inline only", remove, "servers = { a = {} }\n", "servers = {  }\n"},
		{"dotted", remove, "[servers]\na.cmd = 'x'\nb.cmd='y'\na.env.A = '1'\n", "[servers]\nb.cmd='y'\n"},
		{"unknown keys of a table go with it", remove, "[servers.a]\ncmd='x'\n[[servers.a.zap]]\nn=1\n[other]\n", "[other]\n"},
	} {
		got, err := c.edit([]byte(c.before))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%q\n%q", c.name, err, got, c.want)
		}
	}
}

func TestPutOverAnEntry(t *testing.T) {
	before := `# mine
[servers.a]
transport = "stdio" # how
cmd = "old"
args = ["1"]
zap = 1 # unknown, stays
title = "T"
[servers.a.env]
A = "1"

[servers.b]
transport = "stdio"
cmd = "y"
`
	no := false
	got, err := PutServer([]byte(before), Server{Name: "a", Transport: HTTP, URL: "https://h/", Headers: map[string]string{"X-Y": "a\"b\\\t", "K": "v"}, Granted: &no})
	want := `# mine
[servers.a]
transport = "http" # how
zap = 1 # unknown, stays
url = "https://h/"
headers = { K = "v", X-Y = "a\"b\\\t" }
candidate_safe = false
granted = false

[servers.b]
transport = "stdio"
cmd = "y"
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestPutANewEntry(t *testing.T) {
	no := false
	s := Server{Name: "a.b", Transport: Stdio, Cmd: "npx", Args: []string{"-y", "p"}, Env: map[string]string{"A": "1"}, Granted: &no, Title: "T", RegistryName: "r/n"}
	want := `[servers."a.b"]
transport = "stdio"
cmd = "npx"
args = ["-y", "p"]
env = { A = "1" }
candidate_safe = false
granted = false
title = "T"
registry_name = "r/n"
`
	for before, want := range map[string]string{"": want, "x = 1\n": "x = 1\n\n" + want, "x = 1": "x = 1\n\n" + want} {
		if got, err := PutServer([]byte(before), s); err != nil || string(got) != want {
			t.Errorf("%q: %v\n%s", before, err, got)
		}
	}
	got, err := PutServer([]byte("servers = { }\n"), Server{Name: "a", Transport: Stdio, Cmd: "x"})
	if err != nil || string(got) != "servers = { a = { transport = \"stdio\", cmd = \"x\", candidate_safe = false } }\n" {
		t.Errorf("%v %q", err, got)
	}
}

func TestRefusedEdits(t *testing.T) {
	ok := []byte("[servers.a]\ntransport='stdio'\ncmd='x'\n")
	for name, err := range map[string]error{
		"unknown grant":  second(SetGranted(ok, "b", true)),
		"unknown remove": second(RemoveServer(ok, "b")),
		"unknown safe":   second(SetCandidateSafe(nil, "b", true)),
	} {
		if !errors.Is(err, ErrNoServer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"bad name":   second(PutServer(ok, Server{Name: "a__b", Transport: Stdio, Cmd: "x"})),
		"no TOML":    second(PutServer([]byte("x"), Server{Name: "b", Transport: Stdio, Cmd: "x"})),
		"no TOML 2":  second(SetGranted([]byte("x"), "a", true)),
		"no TOML 3":  second(RemoveServer([]byte("x"), "a")),
		"no table":   second(PutServer([]byte("servers = 1"), Server{Name: "b", Transport: Stdio, Cmd: "x"})),
		"no entry":   second(PutServer([]byte("[servers]\na = 1\n"), Server{Name: "a", Transport: Stdio, Cmd: "x"})),
		"no header":  second(SetGranted([]byte("[servers.a.env]\nA = '1'\n"), "a", true)),
		"no address": second(PutServer(ok, Server{Name: "a", Transport: HTTP})),
	} {
		if err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}

func second(_ []byte, err error) error { return err }

// A piece is one server in one way to write it; every line of it holds its
// mark.
func piece(r *rand.Rand, name string, inside bool) (lines []string) {
	mark := "#" + name
	key := name
	if r.IntN(2) == 0 {
		key = fmt.Sprintf("%q", name)
	}
	extra := []string{"zap = [ 1, { x = nan } ]", "args = [ '#', \"]\" ]", "env = { A = \"}\" }", "granted = false", "title = '''x'''", "when = 2020-01-01"}
	r.Shuffle(len(extra), func(i, j int) { extra[i], extra[j] = extra[j], extra[i] })
	pairs := append([]string{"transport = 'stdio'", "cmd = \"x\""}, extra[:r.IntN(len(extra))]...)
	switch form := r.IntN(2); {
	case inside && form == 0:
		return []string{key + " = { " + strings.Join(pairs, ", ") + " } " + mark}
	case inside:
		for _, p := range pairs {
			lines = append(lines, key+"."+p+" "+mark)
		}
		return lines
	}
	lines = append(lines, "[servers."+key+"] "+mark)
	for _, p := range pairs {
		lines = append(lines, strings.Repeat(" ", r.IntN(3))+p+" "+mark)
	}
	if r.IntN(3) == 0 && !slices.ContainsFunc(pairs, func(p string) bool { return strings.HasPrefix(p, "env") }) {
		lines = append(lines, "[servers."+key+".env] "+mark, "A = 'b' "+mark)
	}
	return lines
}

// document is a random mcp.toml with the servers aa, bb and cc.
func document(r *rand.Rand) []string {
	lines := []string{"# file", "other = 1"}
	blanks := func() {
		for range r.IntN(3) {
			lines = append(lines, []string{"", "# a comment", "  "}[r.IntN(3)])
		}
	}
	inside := r.IntN(2) == 0
	if inside {
		lines = append(lines, "[servers]")
	}
	for _, name := range []string{"aa", "bb", "cc"} {
		blanks()
		lines = append(lines, piece(r, name, inside)...)
	}
	blanks()
	return append(lines, "[tail]", "x = 'y'")
}

// TestEditLaw: for random documents and edits, parse(edit(text)) is
// edited(parse(text)), and every line that is not of the edited server is
// still there, in order, byte for byte.
func TestEditLaw(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 1500 {
		lines := document(r)
		before := []byte(strings.Join(lines, "\n") + "\n")
		raw, err := parse("f", before)
		if err != nil {
			t.Fatalf("%s\n%v", before, err)
		}
		name := []string{"aa", "bb", "cc"}[r.IntN(3)]
		table := raw["servers"].(map[string]any)[name].(map[string]any)
		var after []byte
		switch op := i % 4; op {
		case 0:
			after, err = RemoveServer(before, name)
			delete(raw["servers"].(map[string]any), name)
		case 1:
			value := r.IntN(2) == 0
			after, err = SetGranted(before, name, value)
			table["granted"] = value
		case 2:
			after, err = SetCandidateSafe(before, name, true)
			table["candidate_safe"] = true
		case 3:
			after, err = PutServer(before, Server{Name: name, Transport: Stdio, Cmd: "new", Env: map[string]string{"N": "v"}})
			for _, key := range []string{"args", "granted", "title"} {
				delete(table, key)
			}
			table["cmd"], table["env"], table["candidate_safe"] = "new", map[string]any{"N": "v"}, false
		}
		if err != nil {
			t.Fatalf("edit %d of %s:\n%s\n%v", i%4, name, before, err)
		}
		got, err := parse("f", after)
		if err != nil || !sameRaw(got, raw) {
			t.Fatalf("edit %d of %s:\n%s\nbecame\n%s\n%v", i%4, name, before, after, err)
		}
		kept := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasSuffix(l, "#"+name) })
		rest := strings.Split(string(after), "\n")
		for _, want := range kept {
			if want == "" {
				continue
			}
			n := slices.Index(rest, want)
			if n < 0 {
				t.Fatalf("edit %d of %s lost %q:\n%s\nbecame\n%s", i%4, name, want, before, after)
			}
			rest = rest[n+1:]
		}
		// A blank line before a table that is gone may go with it.
		if lost := strings.Count("\n"+string(before), "\n\n") - strings.Count("\n"+string(after), "\n\n"); lost < 0 || lost > 2 || lost > 0 && i%4 != 0 && i%4 != 3 {
			t.Fatalf("edit %d of %s: %d blank lines went\n%s\nbecame\n%s", i%4, name, lost, before, after)
		}
	}
}

// Adding and removing leave the file as it was.
func TestRemoveUndoesPut(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		before := strings.Join(document(r), "\n") + strings.Repeat("\n", 1+r.IntN(3))
		with, err := PutServer([]byte(before), Server{Name: "new", Transport: HTTP, URL: "https://h/"})
		if err != nil {
			t.Fatalf("%s\n%v", before, err)
		}
		if after, err := RemoveServer(with, "new"); err != nil || string(after) != before {
			t.Fatalf("%v\n%q\n%q", err, after, before)
		}
	}
}

// FuzzEdit: whatever is TOML is edited as asked or refused, never anything
// else.
func FuzzEdit(f *testing.F) {
	f.Add(seedFile, "github")
	f.Add("servers = { a = { x = [ {b=1}, 2 ] , }, c.d = 1 }\r\n[t]", "a")
	f.Add("[servers.a]\n[servers.a.b.c]\n[[servers.a.d]]\n", "a")
	f.Add("[servers.a.env]\nA='1'", "a")
	r := rand.New(rand.NewPCG(5, 6))
	for range 10 {
		f.Add(strings.Join(document(r), "\n"), "bb")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		raw, err := parse("f", []byte(text))
		if err != nil || len(text) > 5000 {
			return
		}
		table, exists := entryOf(raw, name)
		out, err := SetGranted([]byte(text), name, true)
		if exists != !errors.Is(err, ErrNoServer) {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil {
			table["granted"] = true
			if got, err := parse("f", out); err != nil || !sameRaw(got, raw) {
				t.Fatalf("%q became %q", text, out)
			}
		}
		if out, err = RemoveServer([]byte(text), name); err == nil {
			delete(raw["servers"].(map[string]any), name)
			if got, err := parse("f", out); err != nil || !sameRaw(withoutEmpty(got), withoutEmpty(raw)) {
				t.Fatalf("%q became %q", text, out)
			}
		}
		raw, _ = parse("f", []byte(text))
		had, existed := entryOf(raw, name)
		if out, err = PutServer([]byte(text), Server{Name: name, Transport: Stdio, Cmd: "c"}); err == nil && !existed {
			got, err := parse("f", out)
			now, ok := entryOf(got, name)
			if err != nil || !ok || now["cmd"] != "c" {
				t.Fatalf("%q became %q (%v)", text, out, had)
			}
		}
	})
}
