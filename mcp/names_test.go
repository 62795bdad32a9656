package mcp

import (
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

func TestNamesOfEntries(t *testing.T) {
	for name, ok := range map[string]bool{
		"github": true, "a.b": true, "a_b": true, "a b": true, "é": true,
		"": false, "a__b": false, "_a": false, "a_": false, "a\nb": false, "a\x1b[0m": false, strings.Repeat("a", 129): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func TestWireNamesArePlainWhereTheyCanBe(t *testing.T) {
	if got := WireName("docs", "search"); got != "mcp__docs__search" {
		t.Error(got)
	}
	if got := WireName("docs", "a__b"); got != "mcp__docs__a__b" {
		t.Error(got)
	}
}

func TestWireNamesAreInjectiveAndLegal(t *testing.T) {
	seen := map[string]Route{}
	law := func(server, tool string) bool {
		if CheckName(server) != nil {
			return true
		}
		name := WireName(server, tool)
		if len(name) > MaxWireName || strings.IndexFunc(name, illegal) >= 0 || !strings.HasPrefix(name, "mcp__") {
			return false
		}
		if part, rest, ok := SplitWireName(name); !ok || "mcp__"+part+"__"+rest != name {
			return false
		}
		other, ok := seen[name]
		seen[name] = Route{server, tool}
		return !ok || other == Route{server, tool}
	}
	if err := quick.Check(law, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
	for _, pair := range [][2]Route{
		{{"a", "b.c"}, {"a", "b-c"}}, {{"a b", "c"}, {"a-b", "c"}}, {{"a", "b"}, {"a", "b "}},
		{{"s", strings.Repeat("x", 80)}, {"s", strings.Repeat("x", 81)}}, {{"s", ""}, {"s", "-"}},
	} {
		if WireName(pair[0].Server, pair[0].Tool) == WireName(pair[1].Server, pair[1].Tool) {
			t.Errorf("%v and %v meet", pair[0], pair[1])
		}
	}
}

func TestALongServersNameLeavesRoomForItsEnd(t *testing.T) {
	long := strings.Repeat("s", 128)
	part, rest, ok := SplitWireName(WireName(long, "tool"))
	if !ok || part != long[:maxServerPart] || !strings.HasPrefix(rest, "tool-") {
		t.Errorf("%q, %q, %v", part, rest, ok)
	}
	for _, name := range []string{"", "mcp__", "mcp__a", "mcp__a__", "mcp____a", "other__a__b"} {
		if _, _, ok := SplitWireName(name); ok {
			t.Errorf("%q was split", name)
		}
	}
}

// A server can choose a tool's name to be what another tool's name becomes.
func TestACollisionLosesBothRoutes(t *testing.T) {
	long := Route{"s", strings.Repeat("x", 80)}
	forged := Route{"s", strings.TrimPrefix(WireName(long.Server, long.Tool), "mcp__s__")}
	table := NewTable([]Route{long, forged, {"s", "ok"}, {"s", "ok"}})
	if !slices.Equal(table.Names, []string{"mcp__s__ok"}) || len(table.Colliding) != 1 {
		t.Errorf("names %v, colliding %v", table.Names, table.Colliding)
	}
	if _, ok := table.Route(table.Colliding[0]); ok {
		t.Error("a name that two tools claim leads somewhere")
	}
}
