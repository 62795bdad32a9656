package agent

// Presets are the agents that need no settings: mutate, and programs that work
// wherever they are on PATH and their key is in the operator's environment.
// They are sorted by name. Each flag and variable is there because the program
// otherwise asks a question, refuses to run as root, updates itself, calls
// home, or sees the operator's own configuration.
func Presets() []Definition {
	return []Definition{
		{
			Name:        "claude",
			Description: "Claude Code (claude -p)",
			Command: []string{"claude", "-p", "--output-format", "stream-json", "--verbose",
				"--permission-mode", "bypassPermissions", "--strict-mcp-config", "--no-session-persistence"},
			PassEnv: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL",
				"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_MAX_RETRIES"},
			Env: map[string]string{
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
				"DISABLE_AUTOUPDATER":                      "1",
				"ENABLE_TOOL_SEARCH":                       "false", // else MCP tools are hidden from the model
				"IS_SANDBOX":                               "1",     // else it refuses to run as root
			},
			Models: []Model{{Host: "api.anthropic.com", BaseURL: "ANTHROPIC_BASE_URL"}},
		},
		{
			Name:        "codex",
			Description: "OpenAI Codex (codex exec)",
			// Its own sandbox cannot be nested in ours: commands then fail and it still exits 0.
			Command: []string{"codex", "exec", "--json", "--skip-git-repo-check", "--ephemeral",
				"--dangerously-bypass-approvals-and-sandbox",
				"-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false", "-"},
			// It reads neither OPENAI_API_KEY nor OPENAI_BASE_URL.
			PassEnv: []string{"CODEX_API_KEY"},
			Models:  []Model{{Host: "api.openai.com"}},
		},
		{
			Name:        "copilot",
			Description: "GitHub Copilot (copilot -p)",
			Command: []string{"copilot", "-p", promptMark, "--allow-all", "--no-ask-user", "--no-auto-update",
				"--disable-builtin-mcps", "--output-format", "json", "--no-color"},
			Prompt: PromptArgument,
			PassEnv: []string{"COPILOT_GITHUB_TOKEN", "COPILOT_MODEL", "COPILOT_OFFLINE", "COPILOT_PROVIDER_API_KEY",
				"COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "GH_TOKEN", "GITHUB_TOKEN"},
			// Which of them it is depends on the plan that the token belongs to.
			Models: []Model{{Host: "api.github.com"}, {Host: "api.githubcopilot.com", BaseURL: "COPILOT_PROVIDER_BASE_URL"},
				{Host: "*.githubcopilot.com", BaseURL: "COPILOT_PROVIDER_BASE_URL"}},
		},
		{
			Name:        "gemini",
			Description: "Gemini CLI (gemini)",
			// -p is appended to what comes on stdin.
			Command: []string{"gemini", "-p", "Do the task described above.", "-o", "stream-json",
				"--approval-mode", "yolo", "--skip-trust"},
			PassEnv: []string{"GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_GEMINI_BASE_URL"},
			Files: map[string]string{".gemini/settings.json": `{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false},
  "general": {"enableAutoUpdate": false}
}
`},
			Models: []Model{{Host: "generativelanguage.googleapis.com", BaseURL: "GOOGLE_GEMINI_BASE_URL"}},
		},
		{
			Name:        "mutate",
			Description: "built-in search for a small edit that makes the test pass; offline, no model",
			Command:     []string{"internal", "agent", "mutate"},
			Builtin:     true,
		},
		{
			Name:        "opencode",
			Description: "opencode (opencode run)",
			Command:     []string{"opencode", "run", "--format", "json", "--auto", "--pure", "--title", "bestof", promptMark},
			Prompt:      PromptArgument,
			PassEnv:     []string{"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENROUTER_API_KEY"},
			Env: map[string]string{
				"OPENCODE_CONFIG_CONTENT":          `{"permission":{"*":"allow"},"share":"disabled","autoupdate":false}`,
				"OPENCODE_DISABLE_AUTOUPDATE":      "1",
				"OPENCODE_DISABLE_CLAUDE_CODE":     "1",
				"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
				"OPENCODE_DISABLE_LSP_DOWNLOAD":    "1",
				"OPENCODE_DISABLE_MODELS_FETCH":    "1",
			},
			// Without these it installs its plugin interface from the npm registry
			// into every candidate's HOME, and waits for that.
			Files: map[string]string{
				".config/opencode/node_modules/.keep": "",
				".config/opencode/package-lock.json": `{"lockfileVersion": 3, "packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
`,
			},
			Models: providers("OPENAI_BASE_URL"),
		},
		{
			Name:        "pi",
			Description: "pi coding agent (pi -p)",
			Command:     []string{"pi", "-p", "--mode", "json", "--no-session", promptMark},
			Prompt:      PromptArgument,
			PassEnv:     []string{"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"},
			Env:         map[string]string{"PI_OFFLINE": "1"},
			Models:      providers(""),
		},
		{
			Name:        "qwen",
			Description: "Qwen Code (qwen)",
			Command:     []string{"qwen", promptMark, "--auth-type", "openai", "-o", "stream-json", "--approval-mode", "yolo"},
			Prompt:      PromptArgument,
			PassEnv:     []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"},
			Files: map[string]string{".qwen/settings.json": `{"privacy": {"usageStatisticsEnabled": false}}
`},
			Models: []Model{{Host: "api.openai.com", BaseURL: "OPENAI_BASE_URL"}},
		},
	}
}

// providers are those whose keys an agent for any model is given; openai is the
// variable that moves the first of them.
func providers(openai string) []Model {
	return []Model{{Host: "api.openai.com", BaseURL: openai}, {Host: "api.anthropic.com"}, {Host: "generativelanguage.googleapis.com"}, {Host: "openrouter.ai"}}
}
