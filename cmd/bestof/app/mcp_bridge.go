package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bestof-dev/bestof/mcp/gateway/bridge"
	"github.com/bestof-dev/bestof/orchestrator"
)

func (a *app) mcpBridgeCommand() *cobra.Command {
	var server string
	c := &cobra.Command{
		Use:   "bridge",
		Short: "Speak MCP on stdin and stdout for a candidate without a network",
		Long: `An agent inside a sandbox without a network starts this as its MCP server. It
carries messages to the candidate's socket and back, until stdin ends. The
variables BESTOF_MCP_SOCKET and BESTOF_MCP_TOKEN of a candidate's environment say
where to. Nothing but messages is written to stdout.`,
		Example: "  bestof mcp bridge\n  bestof mcp bridge --server docs",
		RunE: func(c *cobra.Command, args []string) error {
			conf := bridge.Config{Socket: a.getenv("BESTOF_MCP_SOCKET"), Token: a.getenv("BESTOF_MCP_TOKEN"), Server: server}
			if conf.Socket == "" || conf.Token == "" {
				return usagef("BESTOF_MCP_SOCKET and BESTOF_MCP_TOKEN are not set: they are in the environment of a run's candidates")
			}
			err := bridge.Run(c.Context(), conf, a.In, a.Out)
			if err != nil && c.Context().Err() == nil {
				return statusError{orchestrator.ExitInfrastructure, fmt.Errorf("mcp bridge: %w", err)}
			}
			return err
		},
	}
	c.Flags().StringVar(&server, "server", "", "carry the tools of `NAME` alone, without the name's prefix")
	return c
}
