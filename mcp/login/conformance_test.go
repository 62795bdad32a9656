package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/login/logintest"
	"github.com/bestof-dev/bestof/mcp/mcptest"
	"github.com/bestof-dev/bestof/mcp/session"
)

const conformWord = "be-a-conforming-client"

// conform is the client that the conformance suite starts: it connects, logs
// in when it has to, calls every tool, and logs in once more when a call wants
// more than was granted.
func conform(address string) int {
	if err := conformTo(address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func conformTo(address string) error {
	store := NewStore(os.Getenv("HOME"))
	server := mcp.Server{Name: "suite", Transport: mcp.HTTP, URL: address}
	o := Options{Now: time.Now, Timeout: 30 * time.Second, ClientIDURL: "https://conformance-test.local/client-metadata.json"}
	var registered struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &registered); err != nil {
			return err
		}
		o.ClientID, o.ClientSecret = registered.ID, registered.Secret
	}
	browsed := make(chan error, 1)
	o.Show = func(address string) {
		go func() {
			_, err := logintest.Browse(address)
			browsed <- err
		}()
	}
	for logins := 0; ; logins++ {
		wants, err := useAll(server, store)
		if err != nil || !wants {
			return err
		}
		if logins == 2 {
			return errors.New("a login that was renewed is refused")
		}
		if _, err := Login(context.Background(), store, server, o); err != nil {
			return err
		}
		<-browsed
	}
}

// useAll calls every tool of a server, and reports whether it wants a login.
func useAll(server mcp.Server, store *Store) (wants bool, err error) {
	s := session.Connect(context.Background(), []mcp.Server{server}, session.Options{
		Tokens: NewSource(store, time.Now), Version: "1", ConnectBudget: 30 * time.Second,
	})
	defer s.Close()
	for _, f := range s.Failed() {
		if f.NeedsLogin {
			return true, nil
		}
		return false, errors.New(f.Reason)
	}
	for _, tool := range s.Servers()[0].Tools {
		_, err := s.Call(context.Background(), mcp.Call{Server: server.Name, Tool: tool.Name})
		var failed *mcp.CallError
		if errors.As(err, &failed) && failed.Kind == mcp.NeedsLogin {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// conformance is, for each scenario of the suite, the checks that do not
// succeed, with the reasons that docs/mcp-conformance.md gives.
var conformance = map[string]map[string]string{
	"auth/metadata-default":                     {},
	"auth/metadata-var1":                        {},
	"auth/metadata-var2":                        {},
	"auth/metadata-var3":                        {},
	"auth/basic-cimd":                           {},
	"auth/scope-from-www-authenticate":          {},
	"auth/scope-from-scopes-supported":          {},
	"auth/scope-omitted-when-undefined":         {},
	"auth/scope-step-up":                        {},
	"auth/scope-retry-limit":                    {},
	"auth/token-endpoint-auth-basic":            {},
	"auth/token-endpoint-auth-post":             {},
	"auth/token-endpoint-auth-none":             {},
	"auth/pre-registration":                     {},
	"auth/2025-03-26-oauth-metadata-backcompat": {"authorization-request": "FAILURE", "client-registration": "FAILURE", "token-request": "FAILURE"},
	"auth/2025-03-26-oauth-endpoint-fallback":   {"authorization-request": "FAILURE", "client-registration": "FAILURE", "token-request": "FAILURE"},
	"auth/resource-mismatch":                    {},
	"auth/offline-access-scope":                 {},
	"auth/offline-access-not-supported":         {},
	"auth/client-credentials-jwt":               {"client-credentials-grant-type": "FAILURE", "client-credentials-jwt-verified": "FAILURE"},
	"auth/client-credentials-basic":             {"client-credentials-basic-auth": "FAILURE", "client-credentials-grant-type": "FAILURE"},
	"auth/cross-app-access-complete-flow":       {"complete-flow-jwt-bearer": "FAILURE", "complete-flow-token-exchange": "FAILURE"},
}

func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range slices.Sorted(maps.Keys(conformance)) {
		t.Run(scenario, func(t *testing.T) {
			checks, out := mcptest.Conformance(t, scenario, self+" "+conformWord)
			got := map[string]string{}
			passed := 0
			for _, c := range checks {
				switch c.Status {
				case "SUCCESS":
					passed++
				case "INFO", "SKIPPED":
				default:
					got[c.ID] = c.Status
				}
			}
			if !maps.Equal(got, conformance[scenario]) || passed == 0 && len(got) == 0 {
				t.Errorf("%d passed, not passed: %v, want %v\n%s", passed, got, conformance[scenario], out)
			}
		})
	}
}
