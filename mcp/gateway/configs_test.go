package gateway_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/internal/stricttoml"
	"github.com/bestof-dev/bestof/mcp/gateway"
)

// filled puts a candidate's own values in place of what changes with each run.
func filled(s string, a gateway.Access) string {
	return strings.NewReplacer(a.Token.Reveal(), "TOKEN", a.URL, "URL", a.Socket, "SOCKET").Replace(s)
}

func TestConfigsOfAgents(t *testing.T) {
	r := start(t, nil)
	a := r.access(1)
	for name, list := range map[string][]gateway.File{"http": gateway.Configs(a), "bridge": gateway.BridgeConfigs(a, "/opt/be st/bestof")} {
		var all strings.Builder
		for _, f := range list {
			if f.Mode != 0o600 || filepath.IsAbs(f.Path) || !filepath.IsLocal(f.Path) {
				t.Errorf("%s: mode %o", f.Path, f.Mode)
			}
			if strings.HasSuffix(f.Path, ".json") && !json.Valid(f.Bytes) {
				t.Errorf("%s is not JSON", f.Path)
			}
			all.WriteString("-- " + f.Path + " --\n" + filled(string(f.Bytes), a))
		}
		golden := filepath.Join("testdata", "configs_"+name+".txt")
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if all.String() != string(want) {
			t.Errorf("%s:\n%s", golden, all.String())
		}
	}
}

func TestCodexConfigIsTOML(t *testing.T) {
	a := start(t, nil).access(1)
	for _, list := range [][]gateway.File{gateway.Configs(a), gateway.BridgeConfigs(a, `/opt/"quoted"/bestof`)} {
		i := slices.IndexFunc(list, func(f gateway.File) bool { return f.Path == ".codex/config.toml" })
		var c struct {
			Servers map[string]struct {
				URL     string            `toml:"url"`
				Token   string            `toml:"bearer_token_env_var"`
				Command string            `toml:"command"`
				Args    []string          `toml:"args"`
				Env     map[string]string `toml:"env"`
			} `toml:"mcp_servers"`
		}
		if err := stricttoml.Decode("config.toml", list[i].Bytes, &c); err != nil {
			t.Fatal(err)
		}
		s := c.Servers["docs"]
		if len(c.Servers) != 1 || s.URL != a.URL+"/docs" && s.Command != `/opt/"quoted"/bestof` {
			t.Errorf("%+v", c)
		}
	}
}

func TestEnvironmentAndArguments(t *testing.T) {
	a := start(t, nil).access(2)
	env := gateway.Environ(a, "/home/c2")
	if env["BESTOF_MCP_URL"] != a.URL || env["BESTOF_MCP_TOKEN"] != a.Token.Reveal() || env["BESTOF_MCP_SOCKET"] != a.Socket ||
		env["BESTOF_MCP_CONFIG"] != "/home/c2/.bestof-mcp/bestof-mcp.json" || len(env) != 4 {
		t.Errorf("%v", env)
	}
	for agent, want := range map[string][]string{
		"claude": {"--mcp-config", "/h/.bestof-mcp/claude.json"}, "copilot": {"--additional-mcp-config", "@/h/.bestof-mcp/copilot.json"}, "codex": nil,
	} {
		if got := gateway.Arguments(agent, "/h"); !slices.Equal(got, want) {
			t.Errorf("%s: %v", agent, got)
		}
	}
	a.Socket = ""
	if _, ok := gateway.Environ(a, "/h")["BESTOF_MCP_SOCKET"]; ok {
		t.Error("a socket that is not there")
	}
}

func TestSettingsThatAreThereStay(t *testing.T) {
	got, err := gateway.MergeJSON([]byte(`{"security":{"auth":{"selectedType":"k"}},"mcpServers":{"mine":{"a":1}},"x":[1]}`), []byte(`{"mcpServers":{"docs":{"b":2}},"x":2}`))
	want := `{"mcpServers":{"docs":{"b":2},"mine":{"a":1}},"security":{"auth":{"selectedType":"k"}},"x":2}`
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		t.Fatalf("%s", got)
	}
	one, _ := json.Marshal(a)
	if string(one) != want {
		t.Errorf("%s", one)
	}
	if _, err := gateway.MergeJSON([]byte(`// comment`), []byte(`{}`)); err == nil {
		t.Error("settings that are no JSON were replaced")
	}
}
