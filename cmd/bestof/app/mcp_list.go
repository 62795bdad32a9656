package app

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) mcpListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the MCP servers that are configured, and which are withheld",
		Long:    `Lists the servers of this repository and your own. It connects to none of them.`,
		Example: "  bestof mcp list\n  bestof mcp list --json",
		RunE: func(c *cobra.Command, args []string) error {
			fmt.Fprintln(a.Out, "no MCP server is configured")
			return nil
		},
	}
}
