package app

import (
	"context"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/redact"
	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/login"
	mcpsession "github.com/bestof-dev/bestof/mcp/session"
	"github.com/bestof-dev/bestof/mcp/store"
	"github.com/bestof-dev/bestof/orchestrator"
)

// servers are the MCP servers that a run shares with its candidates: all that
// are configured, none, or those of the names asked for. It returns nil when
// there is none. Which of them candidates may use is the run's to decide.
func (a *app) servers(s *site, asked string) (*orchestrator.Servers, error) {
	if asked == "none" {
		return nil, nil
	}
	loaded := store.New(s.home, s.repo.Root(), trusted(a.getenv("BESTOF_TRUST_PROJECT"))).Load()
	for _, n := range loaded.Notices {
		a.warn("%s", n)
	}
	for _, u := range loaded.Unusable {
		a.warn("MCP server %s cannot be used: %s", u.Name, u.Reason)
	}
	entries := loaded.Entries
	if asked != "all" && asked != "" {
		var chosen []mcp.Entry
		for name := range strings.SplitSeq(asked, ",") {
			i := slices.IndexFunc(entries, func(e mcp.Entry) bool { return e.Name == name })
			if i < 0 {
				return nil, usagef("--mcp: no server %q can be used here: `bestof mcp list` shows those that can", name)
			}
			e := entries[i]
			switch reason := e.Withheld(); {
			case !e.CandidateSafe:
				return nil, usagef("--mcp: the server %s is not marked candidate_safe: `bestof mcp candidate-safe %s` says that candidates may share it", name, mcp.QuotedWord(name))
			case reason != "":
				return nil, refusedf("--mcp: the server %s is withheld: %s", name, reason)
			}
			chosen = append(chosen, e)
		}
		entries = chosen
	}
	if len(entries) == 0 {
		return nil, nil
	}
	return &orchestrator.Servers{
		Entries: entries,
		Connect: func(ctx context.Context, servers []mcp.Server) orchestrator.Connection {
			return mcpsession.Connect(ctx, servers, mcpsession.Options{
				Dir: s.repo.Root(), Path: a.getenv("PATH"), Version: version(), Tokens: a.mcpTokens(), Notice: func(line string) { a.warn("%s", line) },
			})
		},
	}, nil
}

// secretsOf are the credentials of servers, which no record may hold. Of a
// login they are the tokens that it begins with.
func (a *app) secretsOf(servers *orchestrator.Servers) []string {
	if servers == nil {
		return nil
	}
	const shortest = 8 // as everywhere: less would redact ordinary words
	var all []string
	home, err := a.home()
	for _, e := range servers.Entries {
		if err == nil {
			all = append(all, login.NewStore(home).Secrets(e.Server)...)
		}
		all = append(all, e.AddressSecrets()...)
		var environ []string
		for name, value := range e.Env {
			environ = append(environ, name+"="+value)
		}
		all = append(all, redact.FromEnviron(environ)...)
		for _, value := range e.Headers {
			_, bare, _ := strings.Cut(value, " ") // of "Bearer …"
			for _, v := range []string{value, bare} {
				if len(v) >= shortest {
					all = append(all, v)
				}
			}
		}
	}
	return all
}
