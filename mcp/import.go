package mcp

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/stricttoml"
)

// An Imported entry is what became of one entry of somebody else's file.
type Imported struct {
	Name   string
	Server *Server  // withheld until it is granted; nil if it was not taken
	Notes  []string // why it was not taken, or what of it was left out; without any value
}

// Import reads the servers of an mcp.toml or of a JSON file as Claude
// (mcpServers) and VS Code (servers) write it, in the order of the file. All
// of them are withheld and none is candidate_safe: both are for the operator to
// say. notices are about the file as a whole; name is its name and decides with
// its first byte which of the two it is.
func Import(name string, data []byte) (entries []Imported, notices []string, err error) {
	if len(data) > stricttoml.MaxSize {
		return nil, nil, fmt.Errorf("%s: larger than %d bytes", name, stricttoml.MaxSize)
	}
	text := strings.TrimLeft(strings.TrimPrefix(string(data), "\ufeff"), " \t\r\n")
	if path.Ext(name) == ".toml" || path.Ext(name) != ".json" && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "/") {
		return importTOML(name, data)
	}
	entries, notices, err = importJSON(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return entries, notices, nil
}

func importTOML(name string, data []byte) (entries []Imported, notices []string, err error) {
	c, err := ParseConfig(name, data)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range c.Servers {
		entry := Imported{Name: s.Name}
		if s.CandidateSafe {
			entry.Notes = append(entry.Notes, "candidate_safe is not taken over: `bestof mcp candidate-safe` sets it")
		}
		entries = append(entries, entry.taken(s))
	}
	for _, u := range c.Unusable {
		entries = append(entries, Imported{Name: u.Name, Notes: []string{u.Reason}})
	}
	return entries, c.Notices, nil
}

// taken completes an entry with its server, if that can be used.
func (i Imported) taken(s Server) Imported {
	withheld := false
	s.Granted, s.CandidateSafe = &withheld, false
	if err := CheckServer(s); err != nil {
		i.Notes = append(i.Notes, err.Error())
		return i
	}
	i.Server = &s
	return i
}

func (i Imported) left(format string, args ...any) Imported {
	i.Notes = append(i.Notes, fmt.Sprintf(format, args...))
	return i
}

func importJSON(data []byte) (entries []Imported, notices []string, err error) {
	v, err := strictJSON(plainJSON(data))
	if err != nil {
		return nil, nil, err
	}
	top, ok := v.(object)
	if !ok {
		return nil, nil, errors.New("it is not a JSON object")
	}
	if inner, ok := top.values["mcp"].(object); ok && !top.has("servers") && !top.has("mcpServers") {
		top = inner // the settings.json of an editor
	}
	found := false
	names := map[string]bool{}
	for _, key := range top.keys {
		switch servers, isObject := top.values[key].(object); {
		case key == "inputs":
			notices = append(notices, "inputs: nobody is asked for values here: write them into the entries")
		case key == "projects":
			notices = append(notices, "projects: servers of single projects are left: import the .mcp.json of each")
		case key != "mcpServers" && key != "servers":
		case !isObject:
			return nil, nil, fmt.Errorf("%s is not an object", key)
		default:
			found = true
			for _, name := range servers.keys {
				entry := importEntry(name, servers.values[name])
				if names[name] {
					entry = Imported{Name: name}.left("the file has another server of this name")
				}
				names[name] = true
				entries = append(entries, entry)
			}
		}
	}
	if !found {
		return nil, nil, errors.New("it has neither mcpServers nor servers")
	}
	return entries, notices, nil
}

// An importer reads one entry and notes what it cannot take.
type importer struct {
	Imported
	from object
	used []string
	bad  string // why the entry is not taken
}

func importEntry(name string, v any) Imported {
	o, ok := v.(object)
	if !ok {
		return Imported{Name: name}.left("it is not an object")
	}
	i := &importer{Imported: Imported{Name: name}, from: o}
	s := Server{Name: name, Transport: i.transport(), Description: i.text("description")}
	if s.Transport == Stdio {
		i.command(&s)
		s.Env = i.table("env", "environment")
	} else {
		s.URL = i.text("httpUrl", "serverUrl", "url")
		s.Headers = i.table("headers", "http_headers")
	}
	i.switches()
	i.rest()
	if i.bad != "" {
		i.Notes = []string{i.bad}
		return i.Imported
	}
	return i.taken(s)
}

// transport reads what kind of server it is.
func (i *importer) transport() Transport {
	command, url := i.from.has("command"), i.from.has("url") || i.from.has("httpUrl") || i.from.has("serverUrl")
	switch kind := i.text("type", "transport"); strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(kind)) {
	case "stdio", "local":
		return Stdio
	case "http", "streamablehttp", "remote":
		return HTTP
	case "sse":
		i.bad = "it speaks the old SSE transport, which is not spoken here: ask for its streamable HTTP address"
	case "":
		switch {
		case command && url:
			i.bad = "it has both a command and an address: say which with type"
		case !command && !url:
			i.bad = "it has neither a command nor an address"
		case command:
			return Stdio
		}
	default:
		i.bad = "its type is neither stdio nor http"
	}
	return HTTP
}

// command reads the program and its arguments, which some write as one list.
func (i *importer) command(s *Server) {
	if list, ok := i.from.values["command"].([]any); ok && len(list) > 0 {
		i.used = append(i.used, "command")
		words := i.words("command", list)
		s.Cmd, s.Args = words[0], words[1:]
	} else {
		s.Cmd = i.text("command")
	}
	if v := i.from.values["args"]; v != nil {
		list, ok := v.([]any)
		if !ok {
			i.bad = "args is not a list"
		}
		i.used = append(i.used, "args")
		s.Args = append(s.Args, i.words("args", list)...)
	}
}

func (i *importer) words(key string, list []any) []string {
	words := make([]string, len(list))
	for n, v := range list {
		word, ok := v.(string)
		if !ok {
			i.bad = fmt.Sprintf("%s: element %d is not a string", key, n+1)
		}
		words[n] = i.literal(key, word)
	}
	return words
}

// literal refuses the entry when a value would have to be computed.
func (i *importer) literal(key, value string) string {
	if strings.Contains(value, "${") {
		i.bad = fmt.Sprintf("%s holds ${…}: values are literal here, so write the entry yourself", key)
	}
	return value
}

// text reads the first of several keys that is there.
func (i *importer) text(keys ...string) string {
	for _, key := range keys {
		v, ok := i.from.values[key]
		if !ok {
			continue
		}
		i.used = append(i.used, key)
		s, ok := v.(string)
		if !ok {
			i.bad = key + " is not a string"
		}
		return i.literal(key, s)
	}
	return ""
}

// table reads variables or headers. One whose value would have to be computed
// is left out, since what remains can be completed by hand.
func (i *importer) table(keys ...string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		v, ok := i.from.values[key]
		if !ok {
			continue
		}
		i.used = append(i.used, key)
		o, ok := v.(object)
		if !ok && v != nil {
			i.bad = key + " is not an object"
		}
		for _, name := range o.keys {
			switch v := o.values[name].(type) {
			case nil:
				i.Notes = append(i.Notes, fmt.Sprintf("%s: %q has no value and is left out", key, shownKey(name)))
			case object, []any:
				i.bad = fmt.Sprintf("%s: %q is not a string", key, shownKey(name))
			default:
				text := fmt.Sprint(v)
				if strings.Contains(text, "${") {
					i.Notes = append(i.Notes, fmt.Sprintf("%s: %q is left out, since its value holds ${…} and values are literal here: write it yourself", key, shownKey(name)))
					continue
				}
				out[name] = text
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// switches notes what was turned off, which this format cannot say.
func (i *importer) switches() {
	off := i.from.values["disabled"] == true || i.from.values["enabled"] == false
	i.used = append(i.used, "disabled", "enabled")
	if off {
		i.Notes = append(i.Notes, "it was turned off there; here it is withheld until it is granted")
	}
}

// rest notes the keys that nothing was made of.
func (i *importer) rest() {
	var other []string
	for _, key := range i.from.keys {
		if !slices.Contains(i.used, key) {
			other = append(other, fmt.Sprintf("%q", shownKey(key)))
		}
	}
	if len(other) > 0 {
		i.Notes = append(i.Notes, "left out, since an mcp.toml has no such keys: "+strings.Join(other, ", "))
	}
}
