package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/plugin"
)

// TestCapabilities: what a capability comes to depends on its name and on
// nothing else, at every level, and whatever comes to nothing is said.
func TestCapabilities(t *testing.T) {
	for _, level := range []string{"none", "observer", "steering"} {
		for tool, want := range map[string]plugin.Use{
			"network": plugin.Reaches, "process_spawn": plugin.Inside, "lint-fix": plugin.OwnTool,
			"bash": plugin.NotHere, "Network": plugin.NotHere, "mcp__db__query": plugin.NotHere,
		} {
			m := parse(t, fmt.Sprintf("name = 'p'\n[loop]\nparticipation = %q\n[[capabilities]]\ntool = %q\nrisk = 'high'\npurpose = 'p'\n[[tools]]\nname = 'lint-fix'\ndescription = 'd'", level, tool))
			if got := m.UseOf(m.Capabilities[0]); got != want {
				t.Errorf("%s, %s: %v, want %v", level, tool, got, want)
			}
			if m.Network() != (tool == "network") {
				t.Errorf("%s, %s: the network is %v", level, tool, m.Network())
			}
			said := strings.Contains(strings.Join(m.Unoffered(plugin.Host{Tools: true}), "\n"), "it does not get ")
			if said != (want == plugin.NotHere) {
				t.Errorf("%s, %s: said that it is not given: %v", level, tool, said)
			}
		}
	}
}

// TestRiskOfTools: an author is held to the grade that people read in
// [[capabilities]]; the list's silence about a shipped tool grants it.
func TestRiskOfTools(t *testing.T) {
	for _, c := range []struct {
		asked, said string
		want        plugin.Risk
		refused     bool
	}{
		{"", "", plugin.Medium, false},
		{"", "low", plugin.Low, false},
		{"", "destructive", plugin.Destructive, false},
		{"", "unheard-of", plugin.Destructive, false},
		{"low", "", plugin.Low, false},
		{"high", "", plugin.High, false},
		{"high", "medium", plugin.Medium, false},
		{"high", "high", plugin.High, false},
		{"medium", "high", plugin.High, true},
		{"high", "Low", plugin.Destructive, true}, // no word of ours
		{"low", "medium", plugin.Medium, true},
		{"anything", "destructive", plugin.Destructive, false},
	} {
		manifest := "name = 'p'\n[[tools]]\nname = 't'\ndescription = 'd'\n"
		if c.asked != "" {
			manifest += fmt.Sprintf("[[capabilities]]\ntool = 't'\nrisk = %q\npurpose = 'p'\n", c.asked)
		}
		tool := "name = 't'\ndescription = 'd'\ncommand = ['x']\n"
		if c.said != "" {
			tool += fmt.Sprintf("risk = %q\n", c.said)
		}
		p := mustPack(t, map[string]string{"plugin.toml": manifest, "tools/t.toml": tool})
		refused := p.Refuses(p.PackageTools[0])
		if got := p.RiskOf(p.PackageTools[0]); got != c.want || (refused != "") != c.refused {
			t.Errorf("asked %q, says %q: %v, refused %q", c.asked, c.said, got, refused)
		}
		text := plugin.Consent(p, tree, plugin.Host{Tools: true})
		if strings.Contains(text, "is refused when it is called") != c.refused || !strings.Contains(text, "its risk is graded "+c.want.String()) {
			t.Errorf("asked %q, says %q:\n%s", c.asked, c.said, text)
		}
	}
}

func TestToolSchema(t *testing.T) {
	for text, want := range map[string]string{
		"": `{"type":"object"}`,
		"[input_schema]\ntype = 'object'\n[input_schema.properties.path]\ntype = 'string'\n": `{"properties":{"path":{"type":"string"}},"type":"object"}`,
	} {
		tool, err := plugin.ParseTool("t.toml", []byte("name = 't'\ndescription = 'd'\ncommand = ['x']\n"+text))
		if err != nil || string(tool.Schema()) != want {
			t.Errorf("%s, %v; want %s", tool.Schema(), err, want)
		}
	}
}
