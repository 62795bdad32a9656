package plugin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/internal/redact"
)

// ambient names lead to someone's authority although they hold no secret.
var ambient = []string{
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS",
	"DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "KUBECONFIG", "NETRC", "GIT_ASKPASS", "SSH_ASKPASS",
}

// Withheld reports whether an environment variable is never given to a plugin,
// whatever was asked and agreed to: it holds a credential or leads to one.
func Withheld(name string) bool {
	upper := strings.ToUpper(name)
	return redact.CredentialName(name) || strings.HasPrefix(upper, "AWS_") || slices.Contains(ambient, upper)
}

// Environment divides the names that a runtime asks for into those it gets and
// those that are withheld.
func (r *Runtime) Environment() (given, withheld []string) {
	for _, name := range r.Env {
		if Withheld(name) {
			withheld = append(withheld, name)
		} else {
			given = append(given, name)
		}
	}
	return given, withheld
}

// InputEnvironment gives a tool its input also as variables: each string,
// number and boolean at the top as BESTOF_INPUT_<KEY>, and as STELLA_INPUT_<KEY>
// for tools that were written for the host that the format comes from. input is
// decoded JSON. Keys that make no plain name are left out.
func InputEnvironment(input map[string]any) map[string]string {
	env := map[string]string{}
	for key, v := range input {
		var text string
		switch v := v.(type) {
		case string:
			text = v
		case bool:
			text = strconv.FormatBool(v)
		case interface{ String() string }: // json.Number
			text = v.String()
		default:
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z':
				return r - 'a' + 'A'
			case r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
				return r
			case r == '-', r == '.', r == ' ':
				return '_'
			}
			return -1
		}, key)
		if name == "" || strings.Contains(text, "\x00") {
			continue
		}
		env["BESTOF_INPUT_"+name], env["STELLA_INPUT_"+name] = text, text
	}
	return env
}
