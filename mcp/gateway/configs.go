package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/mcp/gateway/wire"
)

// An Access is all that one candidate needs to reach its endpoint.
type Access struct {
	Candidate int
	URL       string   // http://127.0.0.1:PORT/mcp
	Socket    string   // "" when there is none
	Token     Token    // the candidate's own
	Servers   []string // what follows /mcp/, sorted; the name to configure each under
}

// Access is the way of one candidate, 1…N.
func (g *Gateway) Access(candidate int) (Access, error) {
	if candidate < 1 || candidate > len(g.members) {
		return Access{}, fmt.Errorf("mcp gateway: there is no candidate %d", candidate)
	}
	m := g.members[candidate-1]
	return Access{
		Candidate: candidate, Socket: m.socket, Token: m.token, Servers: g.surface.parts(),
		URL: "http://127.0.0.1:" + strconv.Itoa(g.front.port) + "/mcp",
	}, nil
}

// A File is written below a candidate's HOME before its agent starts. Those
// with Merge are JSON settings that may be there already: the agent's preset
// has some. MergeJSON puts the two together.
type File struct {
	Path  string // slash path, relative to HOME
	Mode  uint32 // permission bits
	Merge bool
	Bytes []byte
}

// Where the files are that no agent finds by itself.
const (
	folder      = ".bestof-mcp"
	plainFile   = folder + "/bestof-mcp.json"
	claudeFile  = folder + "/claude.json"
	copilotFile = folder + "/copilot.json"
)

// Configs are the settings with which agents reach the endpoint over HTTP: one
// server for each /mcp/<server>, so that an agent that calls a tool
// mcp__<server>__<tool> calls it by its exact wire name.
func Configs(a Access) []File {
	headers := map[string]string{"Authorization": "Bearer " + a.Token.Reveal()}
	var codex strings.Builder
	claude, gemini, opencode, copilot := servers{}, servers{}, servers{}, servers{}
	for _, s := range a.Servers {
		url := a.URL + "/" + s
		claude[s] = fields{"type": "http", "url": url, "headers": headers}
		copilot[s] = fields{"type": "http", "url": url, "headers": headers, "tools": []string{"*"}}
		gemini[s] = fields{"httpUrl": url, "headers": headers, "trust": true}
		opencode[s] = fields{"type": "remote", "url": url, "headers": headers, "oauth": false, "enabled": true}
		fmt.Fprintf(&codex, "[mcp_servers.%s]\nurl = %s\nbearer_token_env_var = \"BESTOF_MCP_TOKEN\"\n\n", s, wire.Text(url))
	}
	return files(a, codex.String(), claude, copilot, gemini, opencode)
}

// BridgeConfigs are the settings for a sandbox without a network: agents start
// bridge, which is this program with its path inside the sandbox, and that
// speaks to the socket.
func BridgeConfigs(a Access, bridge string) []File {
	env := map[string]string{"BESTOF_MCP_SOCKET": a.Socket, "BESTOF_MCP_TOKEN": a.Token.Reveal()}
	var codex strings.Builder
	claude, gemini, opencode, copilot := servers{}, servers{}, servers{}, servers{}
	for _, s := range a.Servers {
		args := []string{"mcp", "bridge", "--server", s}
		claude[s] = fields{"type": "stdio", "command": bridge, "args": args, "env": env}
		copilot[s] = fields{"type": "local", "command": bridge, "args": args, "env": env, "tools": []string{"*"}}
		gemini[s] = fields{"command": bridge, "args": args, "env": env, "trust": true}
		opencode[s] = fields{"type": "local", "command": append([]string{bridge}, args...), "environment": env, "enabled": true}
		fmt.Fprintf(&codex, "[mcp_servers.%s]\ncommand = %s\nargs = [\"mcp\", \"bridge\", \"--server\", \"%s\"]\nenv = { BESTOF_MCP_SOCKET = %s, BESTOF_MCP_TOKEN = %s }\n\n",
			s, wire.Text(bridge), s, wire.Text(a.Socket), wire.Text(a.Token.Reveal()))
	}
	return files(a, codex.String(), claude, copilot, gemini, opencode)
}

type (
	servers = map[string]any
	fields  = map[string]any
)

func files(a Access, codex string, claude, copilot, gemini, opencode servers) []File {
	plain := fields{"schema": "bestof.mcp-access/1", "candidate": a.Candidate, "endpoint": a.URL, "token": a.Token.Reveal()}
	if a.Socket != "" {
		plain["socket"] = a.Socket
	}
	list := []File{
		{Path: plainFile, Bytes: document(plain)},
		{Path: claudeFile, Bytes: document(fields{"mcpServers": claude})},
		{Path: copilotFile, Bytes: document(fields{"mcpServers": copilot})},
		{Path: ".codex/config.toml", Bytes: []byte(codex)},
		{Path: ".config/opencode/opencode.json", Merge: true, Bytes: document(fields{"mcp": opencode})},
		{Path: ".gemini/settings.json", Merge: true, Bytes: document(fields{"mcpServers": gemini})},
		{Path: ".qwen/settings.json", Merge: true, Bytes: document(fields{"mcpServers": gemini})},
	}
	for i := range list {
		list[i].Mode = 0o600
	}
	return list
}

// document is JSON for a file: sorted keys, a line end.
func document(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil { // maps of strings always encode
		return []byte("{}\n")
	}
	return b.Bytes()
}

// Environ is what a candidate's environment tells about its endpoint; home is
// its HOME inside the sandbox.
func Environ(a Access, home string) map[string]string {
	env := map[string]string{
		"BESTOF_MCP_URL":    a.URL,
		"BESTOF_MCP_TOKEN":  a.Token.Reveal(),
		"BESTOF_MCP_CONFIG": path.Join(home, plainFile),
	}
	if a.Socket != "" {
		env["BESTOF_MCP_SOCKET"] = a.Socket
	}
	return env
}

// Arguments are what the command of an agent's preset needs at its end to find
// its file; the other agents find theirs by themselves, in HOME. Codex does so
// as long as CODEX_HOME is not set to another place.
func Arguments(agent, home string) []string {
	switch agent {
	case "claude":
		return []string{"--mcp-config", path.Join(home, claudeFile)}
	case "copilot":
		return []string{"--additional-mcp-config", "@" + path.Join(home, copilotFile)}
	}
	return nil
}

// MergeJSON puts the members of one JSON object into another. Where both have
// an object of a name these are merged, and otherwise added counts.
func MergeJSON(have, added []byte) ([]byte, error) {
	a, err := wire.Object(have)
	if err != nil {
		return nil, fmt.Errorf("settings that are there: %w", err)
	}
	b, err := wire.Object(added)
	if err != nil {
		return nil, fmt.Errorf("settings to add: %w", err)
	}
	return document(merge(a, b)), nil
}

func merge(have, added map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(have)
	for _, key := range slices.Sorted(maps.Keys(added)) {
		a, errA := wire.Object(out[key])
		b, errB := wire.Object(added[key])
		out[key] = added[key]
		if errA == nil && errB == nil {
			out[key] = document(merge(a, b))
		}
	}
	return out
}
