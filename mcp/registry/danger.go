package registry

import (
	"fmt"
	"path"
	"strings"
)

// A verdict says what becomes of an argument that a publisher gives to a
// runner.
type verdict int

const (
	ask    verdict = iota // not known to be harmless: a person decides
	fine                  // takes nothing away from the user
	refuse                // never
)

// A rule is what is known of one option of a runner. An option that is not in
// the table is asked about, and what it takes is not known.
type rule struct {
	verdict verdict
	value   bool // the next word belongs to it
	why     string
}

const (
	otherSource = "it would fetch the package from somewhere else"
	hostAccess  = "it would open this machine to the container"
	runsShell   = "it would run a command of the publisher's"
)

// runtimeRules are the options of the known runners that stand before the
// identifier. From npm's, uv's, Docker's and .NET's command references.
var runtimeRules = map[string]map[string]rule{
	"npx": {
		"-y": {verdict: fine}, "--yes": {verdict: fine}, "--quiet": {verdict: fine}, "-q": {verdict: fine}, "--prefer-offline": {verdict: fine},
		"-c": {refuse, true, runsShell}, "--call": {refuse, true, runsShell}, "--shell": {refuse, true, runsShell}, "--script-shell": {refuse, true, runsShell},
		"--node-options": {refuse, true, runsShell}, "--node-arg": {refuse, true, runsShell}, "-n": {refuse, true, runsShell},
		"--registry": {refuse, true, otherSource}, "--userconfig": {refuse, true, otherSource}, "--globalconfig": {refuse, true, otherSource},
		"--proxy": {refuse, true, otherSource}, "--https-proxy": {refuse, true, otherSource}, "--cafile": {refuse, true, otherSource}, "--ca": {refuse, true, otherSource},
		"--strict-ssl": {refuse, true, otherSource}, "--no-strict-ssl": {refuse, false, otherSource}, "--prefix": {refuse, true, otherSource}, "--cache": {refuse, true, otherSource},
		"-p": {refuse, true, otherSource}, "--package": {refuse, true, otherSource}, "--workspace": {refuse, true, otherSource}, "-w": {refuse, true, otherSource},
	},
	"uvx": {
		"--python": {verdict: fine, value: true}, "-p": {verdict: fine, value: true}, "--isolated": {verdict: fine}, "--quiet": {verdict: fine}, "-q": {verdict: fine}, "--no-cache": {verdict: fine}, "--no-config": {verdict: fine},
		"--from": {refuse, true, otherSource}, "--index": {refuse, true, otherSource}, "--index-url": {refuse, true, otherSource}, "-i": {refuse, true, otherSource},
		"--default-index": {refuse, true, otherSource}, "--extra-index-url": {refuse, true, otherSource}, "--find-links": {refuse, true, otherSource}, "-f": {refuse, true, otherSource},
		"--with": {ask, true, ""}, "--with-editable": {refuse, true, otherSource}, "--with-requirements": {refuse, true, otherSource}, "--env-file": {refuse, true, "it would read a file of yours"},
		"--config-file": {refuse, true, otherSource}, "--allow-insecure-host": {refuse, true, otherSource}, "--directory": {refuse, true, "it would run in another directory"}, "--project": {refuse, true, otherSource},
	},
	"docker": {
		"-i": {verdict: fine}, "--interactive": {verdict: fine}, "--rm": {verdict: fine}, "--init": {verdict: fine}, "--read-only": {verdict: fine}, "--pull": {verdict: fine, value: true},
		"-w": {verdict: fine, value: true}, "--workdir": {verdict: fine, value: true}, "-m": {verdict: fine, value: true}, "--memory": {verdict: fine, value: true}, "--cpus": {verdict: fine, value: true},
		"--cap-drop": {verdict: fine, value: true}, "-q": {verdict: fine}, "--quiet": {verdict: fine}, "--platform": {verdict: fine, value: true},
		"--privileged": {refuse, false, hostAccess}, "--cap-add": {refuse, true, hostAccess}, "--device": {refuse, true, hostAccess}, "--device-cgroup-rule": {refuse, true, hostAccess},
		"--security-opt": {refuse, true, hostAccess}, "--pid": {refuse, true, hostAccess}, "--ipc": {refuse, true, hostAccess}, "--uts": {refuse, true, hostAccess}, "--userns": {refuse, true, hostAccess},
		"--cgroupns": {refuse, true, hostAccess}, "--cgroup-parent": {refuse, true, hostAccess}, "--volumes-from": {refuse, true, hostAccess}, "--runtime": {refuse, true, hostAccess}, "--sysctl": {refuse, true, hostAccess},
		"--env-file": {refuse, true, "it would read a file of yours"}, "--cidfile": {refuse, true, "it would write a file of yours"}, "-d": {refuse, false, "it would leave the container running"}, "--detach": {refuse, false, "it would leave the container running"},
		"--restart": {refuse, true, "it would leave the container running"}, "--gpus": {ask, true, ""}, "--add-host": {ask, true, ""}, "-u": {ask, true, ""}, "--user": {ask, true, ""}, "--entrypoint": {ask, true, ""},
		"-p": {ask, true, ""}, "--publish": {ask, true, ""}, "--name": {ask, true, ""}, "-h": {ask, true, ""}, "--hostname": {ask, true, ""}, "--tmpfs": {ask, true, ""}, "-l": {ask, true, ""}, "--label": {ask, true, ""},
		"--network": {ask, true, ""}, "--net": {ask, true, ""}, "-v": {ask, true, ""}, "--volume": {ask, true, ""}, "--mount": {ask, true, ""}, "-e": {verdict: fine, value: true}, "--env": {verdict: fine, value: true},
	},
	"dnx": {
		"--yes": {verdict: fine}, "-y": {verdict: fine}, "--prerelease": {refuse, false, "it would run another version"}, "--version": {refuse, true, "it would run another version"},
		"--source": {refuse, true, otherSource}, "--add-source": {refuse, true, otherSource}, "--configfile": {refuse, true, otherSource}, "--allow-roll-forward": {verdict: fine},
	},
}

// checkRuntime decides about the words that a publisher puts before the
// identifier. None of them may be taken for the identifier itself: every word
// is a known option, its value, or an option that a person agrees to. For
// docker, -e NAME=VALUE becomes a variable of the entry, so that no value
// stands in a command line.
func (o Option) checkRuntime(groups [][]word, env map[string]word, f *Filled) ([]word, error) {
	rules := runtimeRules[o.cmd]
	var words []word
	for _, g := range groups {
		words = append(words, g...)
	}
	if o.cmd == "docker" && len(words) > 0 && words[0].real == "run" {
		words = words[1:]
	}
	var kept []word
	for i := 0; i < len(words); i++ {
		option, value := cutOption(words[i])
		if !strings.HasPrefix(option.real, "-") || option.real == "-" || option.real == "--" {
			return nil, fmt.Errorf("its runtime argument %q is not an option, so it would take the place of the package", words[i].shown)
		}
		r, known := rules[option.real]
		if r.verdict == refuse {
			return nil, fmt.Errorf("it wants %s %q: %s", o.cmd, words[i].shown, r.why)
		}
		if known && r.value && value == nil {
			if i++; i == len(words) {
				return nil, fmt.Errorf("it wants %s %q without a value", o.cmd, option.shown)
			}
			value = &words[i]
		}
		if known && !r.value && value != nil && value.real != "true" {
			return nil, fmt.Errorf("it gives %s %q a value", o.cmd, option.shown)
		}
		if !known && value == nil {
			// A runner may take the word after an option for its value, and that
			// word would be the package.
			return nil, fmt.Errorf("it gives %s the option %q, and bestof does not know whether that takes a value", o.cmd, option.shown)
		}
		drop, err := o.checkOption(option.real, value, r, env, f)
		if err != nil {
			return nil, err
		}
		if drop {
			continue
		}
		shown := option
		if value != nil {
			shown = option.plus(plain(" ")).plus(*value)
		}
		if !known || r.verdict == ask {
			f.Concerns = append(f.Concerns, Concern{fmt.Sprintf("it gives %s the option %q", o.cmd, shown.shown), RiskFlag})
		}
		switch {
		case value == nil:
			kept = append(kept, option)
		case known:
			kept = append(kept, option, *value)
		default:
			kept = append(kept, option.plus(plain("=")).plus(*value))
		}
	}
	return kept, nil
}

// cutOption splits --name=value, and -vVALUE of a short option of docker.
func cutOption(w word) (option word, value *word) {
	at := strings.Index(w.real, "=")
	switch {
	case strings.HasPrefix(w.real, "--") && at > 0 && strings.HasPrefix(w.shown, w.real[:at+1]):
		return plain(w.real[:at]), &word{w.real[at+1:], w.shown[at+1:]}
	case len(w.real) > 2 && w.real[0] == '-' && w.real[1] != '-' && strings.HasPrefix(w.shown, w.real[:2]):
		return plain(w.real[:2]), &word{w.real[2:], w.shown[2:]}
	}
	return w, nil
}

// checkOption looks at what an option is given. drop says that the option is
// not needed any more.
func (o Option) checkOption(option string, value *word, r rule, env map[string]word, f *Filled) (drop bool, err error) {
	if value != nil && strings.HasPrefix(value.real, "-") {
		return false, fmt.Errorf("it gives %s %q the value %q, which would be an option of its own", o.cmd, option, value.shown)
	}
	switch {
	case o.cmd == "npx" && (option == "-y" || option == "--yes"), o.cmd == "dnx" && option == "--yes",
		o.cmd == "docker" && (option == "-i" || option == "--interactive" || option == "--rm"):
		return true, nil // always there
	case o.cmd != "docker" || value == nil:
		return false, nil
	}
	switch option {
	case "-e", "--env":
		name, text, given := strings.Cut(value.real, "=")
		if !envName().MatchString(name) {
			return false, fmt.Errorf("it wants an environment variable called %.60q", name)
		}
		if _, there := env[name]; !there && given {
			_, shown, _ := strings.Cut(value.shown, "=")
			env[name] = word{text, shown}
		} else if !there {
			return false, fmt.Errorf("it wants your environment variable %s, which bestof does not pass on", name)
		}
		return true, nil
	case "--network", "--net":
		if v := value.real; v == "host" || strings.HasPrefix(v, "container:") || strings.HasPrefix(v, "name=") {
			return false, fmt.Errorf("it wants docker %s %s: %s", option, value.shown, hostAccess)
		}
	case "-v", "--volume":
		return false, checkMount(strings.Split(value.real, ":")[0])
	case "--mount":
		if strings.ContainsAny(value.real, "\"'\n\r") {
			return false, fmt.Errorf("it wants docker --mount with quotes, which can hide what is mounted")
		}
		for _, field := range strings.Split(value.real, ",") {
			key, v, _ := strings.Cut(field, "=")
			switch strings.ToLower(strings.TrimSpace(key)) {
			case "source", "src":
				if err := checkMount(strings.TrimSpace(v)); err != nil {
					return false, err
				}
			case "volume-opt", "volume-driver":
				return false, fmt.Errorf("it wants docker --mount with %s: %s", key, hostAccess)
			}
		}
	}
	return false, nil
}

// checkMount refuses the directories of a host that are the host.
func checkMount(source string) error {
	clean := path.Clean("/" + source)
	switch {
	case strings.Contains(source, ".."), strings.HasPrefix(source, "~"), strings.Contains(source, "docker.sock"), strings.Contains(source, "containerd.sock"), strings.Contains(source, "podman.sock"):
		return fmt.Errorf("it wants to mount %q: %s", source, hostAccess)
	case !strings.HasPrefix(source, "/"):
		return nil // a volume of docker's own
	}
	for _, dir := range []string{"/", "/home", "/Users", "/root"} {
		if clean == dir {
			return fmt.Errorf("it wants to mount %q: %s", source, hostAccess)
		}
	}
	for _, dir := range []string{"/etc", "/proc", "/sys", "/dev", "/boot", "/var", "/run", "/usr", "/bin", "/sbin", "/lib"} {
		if clean == dir || strings.HasPrefix(clean, dir+"/") {
			return fmt.Errorf("it wants to mount %q: %s", source, hostAccess)
		}
	}
	return nil
}

// steering are variables that decide what a program loads or where it asks,
// as exact names and as prefixes.
var (
	steering = map[string]bool{
		"PATH": true, "HOME": true, "ENV": true, "BASH_ENV": true, "SHELL": true, "IFS": true, "NODE_OPTIONS": true, "NODE_PATH": true,
		"NODE_EXTRA_CA_CERTS": true, "NODE_TLS_REJECT_UNAUTHORIZED": true, "PYTHONPATH": true, "PYTHONHOME": true, "PYTHONSTARTUP": true,
		"PYTHONINSPECT": true, "PERL5LIB": true, "PERL5OPT": true, "RUBYOPT": true, "RUBYLIB": true, "JAVA_TOOL_OPTIONS": true, "_JAVA_OPTIONS": true,
		"JDK_JAVA_OPTIONS": true, "CLASSPATH": true, "SSL_CERT_FILE": true, "SSL_CERT_DIR": true, "HTTP_PROXY": true, "HTTPS_PROXY": true, "ALL_PROXY": true,
		"XDG_CONFIG_HOME": true, "GCONV_PATH": true, "HOSTALIASES": true, "LOCPATH": true, "EDITOR": true, "PAGER": true, "BROWSER": true,
	}
	steeringPrefix = []string{"LD_", "DYLD_", "NPM_CONFIG_", "UV_", "PIP_", "DOCKER_", "BUILDKIT_", "GIT_", "DOTNET_", "COREHOST_", "NUGET_", "BUN_", "DENO_", "GLIBC_", "MALLOC_", "BESTOF_"}
)

// checkEnv decides about a variable: one that steers programs may not be set
// by a publisher, and by the user only knowingly.
func checkEnv(name string, byUser bool, f *Filled) error {
	upper := strings.ToUpper(name)
	steers := steering[upper]
	for _, p := range steeringPrefix {
		steers = steers || strings.HasPrefix(upper, p)
	}
	switch {
	case !steers:
		return nil
	case !byUser:
		return fmt.Errorf("it sets the variable %s, which decides what programs load or where they ask", name)
	}
	f.Concerns = append(f.Concerns, Concern{fmt.Sprintf("the variable %s decides what programs load or where they ask", name), RiskFlag})
	return nil
}
