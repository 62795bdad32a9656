package app

import (
	"strings"

	"github.com/spf13/cobra"
)

// mcpCommand is the parent of everything about MCP servers; each group of
// verbs has a file of its own.
func (a *app) mcpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp COMMAND",
		Short: "Configure MCP servers, and say which may be used",
		Long: `MCP servers are named in .bestof/mcp.toml of a repository and in
$BESTOF_HOME/mcp.toml for all of them. A server that was installed or imported
is withheld until you read what it declares and grant it. See docs/mcp.md.`,
		Example: `  bestof mcp list
  bestof mcp grant docs`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return usagef("there is no command %q (see `%s --help`)", "mcp "+args[0], c.CommandPath())
		},
	}
	c.AddCommand(
		a.mcpListCommand(), a.mcpGrantCommand(), a.mcpRemoveCommand(), a.mcpImportCommand(), a.mcpCandidateSafeCommand(),
		a.mcpSearchCommand(), a.mcpInstallCommand(), a.mcpLoginCommand(), a.mcpLogoutCommand(),
		a.mcpServeCommand(), a.mcpConfirmCommand(), a.mcpBridgeCommand(), a.mcpUsageCommand(),
	)
	for _, sub := range c.Commands() {
		sub.Long = strings.TrimSpace(sub.Long) + "\n\n" + statuses
		sub.Args = asUsage(sub.Args)
	}
	return c
}
