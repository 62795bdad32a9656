package registry

import (
	"maps"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/mcp"
)

// Reinstall is what the entry old becomes when install is written over it. The
// transport is that of install, candidate_safe is the operator's and stays, and
// a word of the card is not erased by an empty one.
//
// A grant stays only for what it was given to: the same name in the registry
// at the same endpoint. Otherwise granted is false, also where it was not
// written. Variables and headers of the operator's stay under the same
// condition; what install sets counts where both do.
func Reinstall(old, install mcp.Server) mcp.Server {
	withheld := false
	out := install
	out.CandidateSafe, out.Granted = old.CandidateSafe, &withheld
	if old.RegistryName != "" && old.RegistryName == install.RegistryName && sameEndpoint(old, install) {
		out.Granted = old.Granted
		out.Env, out.Headers = over(install.Env, old.Env), over(install.Headers, old.Headers)
	}
	if old.RegistryName != install.RegistryName {
		return out
	}
	for _, word := range []struct{ now, before *string }{
		{&out.Title, &old.Title}, {&out.Description, &old.Description}, {&out.Repository, &old.Repository}, {&out.Version, &old.Version},
	} {
		if strings.TrimSpace(*word.now) == "" {
			*word.now = *word.before
		}
	}
	return out
}

// sameEndpoint reports whether two entries start the same command or reach the
// same address.
func sameEndpoint(a, b mcp.Server) bool {
	return a.Transport == b.Transport && a.Cmd == b.Cmd && slices.Equal(a.Args, b.Args) && a.URL == b.URL
}

func over(above, below map[string]string) map[string]string {
	if len(above)+len(below) == 0 {
		return nil
	}
	out := map[string]string{}
	maps.Copy(out, below)
	maps.Copy(out, above)
	return out
}
