package session_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/mcptest"
	"github.com/bestof-dev/bestof/mcp/session"
)

const conformWord = "be-a-conforming-client"

// conform is the client that the conformance suite starts: it connects, calls
// what it knows arguments for, and reports what failed.
func conform(url string) int {
	o := patient()
	o.CallTimeout = 5 * time.Second // a scenario asks somebody who is not there
	s := session.Connect(context.Background(), []mcp.Server{{Name: "suite", Transport: mcp.HTTP, URL: url}}, o)
	defer s.Close()
	for _, f := range s.Failed() {
		fmt.Fprintln(os.Stderr, f.Words())
		return 1
	}
	arguments := map[string]string{"add_numbers": `{"a":5,"b":3}`}
	for _, tool := range s.Servers()[0].Tools {
		got, e := call(s, "suite", tool.Name, arguments[tool.Name])
		fmt.Println(tool.Name, got, e)
	}
	return 0
}

// expected are the checks that do not succeed, with the reasons that
// docs/mcp-conformance.md gives.
var expected = map[string]map[string]string{
	"initialize": {},
	"tools_call": {},
	"sse-retry":  {},
	"elicitation-sep1034-client-defaults": { // no elicitation is offered
		"client-elicitation-sep1034-general":         "FAILURE",
		"client-elicitation-sep1034-string-default":  "FAILURE",
		"client-elicitation-sep1034-integer-default": "FAILURE",
		"client-elicitation-sep1034-number-default":  "FAILURE",
		"client-elicitation-sep1034-enum-default":    "FAILURE",
		"client-elicitation-sep1034-boolean-default": "FAILURE",
	},
}

func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range slices.Sorted(maps.Keys(expected)) {
		t.Run(scenario, func(t *testing.T) {
			checks, out := mcptest.Conformance(t, scenario, self+" "+conformWord)
			got := map[string]string{}
			passed := 0
			for _, c := range checks {
				if c.Status == "SUCCESS" {
					passed++
				} else if c.Status != "INFO" {
					got[c.ID] = c.Status
				}
			}
			if !maps.Equal(got, expected[scenario]) || passed == 0 && len(got) == 0 {
				t.Errorf("%d passed, not passed: %v, want %v\n%s", passed, got, expected[scenario], out)
			}
		})
	}
}
