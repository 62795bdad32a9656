// Package toolchain finds the compilers, interpreters and package caches that
// an operator uses, so that a sandbox can grant exactly these, read-only.
package toolchain

// A tool is one row: where a toolchain lives and what a program needs of it.
// {root} in a value is the place that was found, {home} the program's own HOME.
type tool struct {
	env  string            // variable of the operator that names the root
	at   []string          // otherwise the first of these that exists; relative ones are below the operator's home
	read []string          // granted below the root at the same path; "." is all of it
	home map[string]string // below the root → shown below {home}
	set  map[string]string // environment
	off  map[string]string // environment only without a network
}

// tools lists what is found by name. Caches are granted, credentials and
// settings beside them are not: no row may name them.
var tools = []tool{
	// Python
	{env: "PYENV_ROOT", at: []string{".pyenv"}, read: []string{"."}, set: map[string]string{"PYENV_ROOT": "{root}"}},
	{at: []string{".local/share/uv"}, read: []string{"python", "tools"}, set: map[string]string{"UV_PYTHON_INSTALL_DIR": "{root}/python"}, off: map[string]string{"UV_OFFLINE": "1"}},
	{at: []string{".local/share/pipx", ".local/pipx"}, read: []string{"venvs", "shared"}},
	{at: []string{".local/lib"}, read: []string{"."}},

	// JavaScript
	{env: "NVM_DIR", at: []string{".nvm"}, read: []string{"versions", "alias", "nvm.sh"}, set: map[string]string{"NVM_DIR": "{root}"}},
	{env: "VOLTA_HOME", at: []string{".volta"}, read: []string{"bin", "tools", "hooks.json"}, set: map[string]string{"VOLTA_HOME": "{root}"}},
	{env: "FNM_DIR", at: []string{".local/share/fnm", ".fnm"}, read: []string{"node-versions", "aliases"}},
	{env: "BUN_INSTALL", at: []string{".bun"}, read: []string{"bin", "install/global"}},
	{at: []string{".deno"}, read: []string{"bin"}},
	{off: map[string]string{"npm_config_offline": "true", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_update_notifier": "false"}},

	// Several languages
	{env: "ASDF_DATA_DIR", at: []string{".asdf"}, read: []string{"."}, set: map[string]string{"ASDF_DATA_DIR": "{root}"}},
	{env: "MISE_DATA_DIR", at: []string{".local/share/mise"}, read: []string{"installs", "shims", "plugins"}, set: map[string]string{"MISE_DATA_DIR": "{root}"}, off: map[string]string{"MISE_OFFLINE": "1"}},

	// Go. Without a network a missing module is an error at once.
	{env: "GOROOT", read: []string{"."}},
	{env: "GOMODCACHE", at: []string{"{gopath}/pkg/mod", "go/pkg/mod"}, read: []string{"."}, set: map[string]string{"GOMODCACHE": "{root}"}},
	{off: map[string]string{"GOPROXY": "off", "GOTELEMETRY": "off"}},

	// Rust. Cargo locks and writes beside its caches, so only they are shown.
	{env: "RUSTUP_HOME", at: []string{".rustup"}, read: []string{"."}, set: map[string]string{"RUSTUP_HOME": "{root}", "RUSTUP_AUTO_INSTALL": "0"}},
	{env: "CARGO_HOME", at: []string{".cargo"}, read: []string{"bin"},
		home: map[string]string{"registry": ".cargo/registry", "git": ".cargo/git"},
		set:  map[string]string{"CARGO_HOME": "{home}/.cargo"}, off: map[string]string{"CARGO_NET_OFFLINE": "true"}},

	// Java
	{env: "JAVA_HOME", read: []string{"."}, set: map[string]string{"JAVA_HOME": "{root}"}},
	{env: "SDKMAN_DIR", at: []string{".sdkman"}, read: []string{"candidates"}, set: map[string]string{"SDKMAN_DIR": "{root}"}},
	{at: []string{".m2"}, home: map[string]string{"repository": ".m2/repository", "wrapper": ".m2/wrapper"}},
	{env: "GRADLE_USER_HOME", at: []string{".gradle"}, read: []string{"caches/modules-2"},
		home: map[string]string{"wrapper": ".gradle/wrapper"},
		set:  map[string]string{"GRADLE_USER_HOME": "{home}/.gradle", "GRADLE_RO_DEP_CACHE": "{root}/caches"}},

	// Ruby
	{env: "RBENV_ROOT", at: []string{".rbenv"}, read: []string{"."}, set: map[string]string{"RBENV_ROOT": "{root}"}},

	// Coding agents that install themselves below the operator's home
	{at: []string{".local/share/claude"}, read: []string{"versions"}},
}

// prefixes tell that a directory with a bin on the PATH is one installation
// and is needed whole: any of the marks suffices.
var prefixes = []string{
	"pyvenv.cfg",              // a Python virtual environment
	"conda-meta",              // conda
	"src/runtime/runtime2.go", // a GOROOT
	"lib/node_modules",        // Node and its global packages
	"lib/rustlib",             // a Rust toolchain
	"release",                 // a JDK
}
