package registry

import (
	"maps"
	"testing"

	"github.com/bestof-dev/bestof/mcp"
)

func TestWhatAReinstallKeeps(t *testing.T) {
	yes, no := true, false
	npx := func(version, name string, granted *bool) mcp.Server {
		return mcp.Server{
			Name: "x", Transport: mcp.Stdio, Cmd: "npx", Args: []string{"-y", "b@" + version}, RegistryName: name, Version: version,
			Granted: granted, Title: "T", CandidateSafe: true, Env: map[string]string{"OLD": "1", "BOTH": "1"},
		}
	}
	fresh := func(version, name string) mcp.Server {
		s := npx(version, name, &no)
		s.Title, s.CandidateSafe, s.Env = "", false, map[string]string{"BOTH": "2"}
		return s
	}
	remote := mcp.Server{Name: "x", Transport: mcp.HTTP, URL: "https://x", RegistryName: "io/x", Granted: &yes, Headers: map[string]string{"A": "secret"}}
	elsewhere := remote
	elsewhere.URL, elsewhere.Granted, elsewhere.Headers = "https://y", &no, nil
	for _, c := range []struct {
		what         string
		old, install mcp.Server
		granted      *bool
		title        string
		env          map[string]string
	}{
		{"same name, same endpoint", npx("1", "io/x", &yes), fresh("1", "io/x"), &yes, "T", map[string]string{"OLD": "1", "BOTH": "2"}},
		{"same name, other version", npx("1", "io/x", &yes), fresh("2", "io/x"), &no, "T", map[string]string{"BOTH": "2"}},
		{"other name, same endpoint", npx("1", "io/x", &yes), fresh("1", "io/y"), &no, "", map[string]string{"BOTH": "2"}},
		{"name unknown so far", npx("1", "", &yes), fresh("1", "io/x"), &no, "", map[string]string{"BOTH": "2"}},
		{"written by hand", npx("1", "", nil), fresh("2", "io/x"), &no, "", map[string]string{"BOTH": "2"}},
		{"withheld before", npx("1", "io/x", &no), fresh("1", "io/x"), &no, "T", map[string]string{"OLD": "1", "BOTH": "2"}},
		{"other transport", remote, fresh("1", "io/x"), &no, "", map[string]string{"BOTH": "2"}},
		{"other address", remote, elsewhere, &no, "", nil},
	} {
		got := Reinstall(c.old, c.install)
		switch {
		case (got.Granted == nil) != (c.granted == nil) || c.granted != nil && *got.Granted != *c.granted:
			t.Errorf("%s: granted is %v", c.what, got.Granted)
		case got.CandidateSafe != c.old.CandidateSafe || !sameEndpoint(got, c.install) || got.RegistryName != c.install.RegistryName || got.Title != c.title:
			t.Errorf("%s: %+v", c.what, got)
		case !maps.Equal(got.Env, c.env) || len(got.Headers) != 0:
			t.Errorf("%s: environment %v, headers %v", c.what, got.Env, got.Headers)
		}
	}
}
