package login

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/login/logintest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == conformWord {
		os.Exit(conform(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

// A setup is one operator with one server.
type setup struct {
	*logintest.World
	t      *testing.T
	home   string
	store  *Store
	server mcp.Server
	now    time.Time
}

func start(t *testing.T, f logintest.Faults) *setup {
	t.Helper()
	w := logintest.New(f)
	home := t.TempDir()
	t.Cleanup(func() {
		w.Close()
		if m := w.Misuse(); len(m) > 0 {
			t.Errorf("the client got wrong: %q", m)
		}
	})
	return &setup{w, t, home, NewStore(home), mcp.Server{Name: "x", Transport: mcp.HTTP, URL: w.URL()}, time.Unix(1_800_000_000, 0)}
}

// login logs in as a person with a browser does.
func (s *setup) login(o Options) (Summary, error) {
	browsed := make(chan struct{})
	shown := false
	o.Now = func() time.Time { return s.now }
	if o.Show == nil {
		o.Show = func(address string) {
			shown = true
			go func() {
				defer close(browsed)
				_, _ = logintest.Browse(address) // what it ends at is the login's affair
			}()
		}
	}
	sum, err := Login(s.t.Context(), s.store, s.server, o)
	if shown {
		<-browsed
	}
	return sum, err
}

func (s *setup) must(o Options) Summary {
	s.t.Helper()
	sum, err := s.login(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return sum
}

func (s *setup) source() *Source { return NewSource(s.store, func() time.Time { return s.now }) }

func (s *setup) token(source *Source) string {
	s.t.Helper()
	token, err := source.Token(s.t.Context(), s.server)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

func TestALoginGivesAToken(t *testing.T) {
	for name, c := range map[string]struct {
		faults logintest.Faults
		o      Options
		scope  string
	}{
		"registered now":                  {scope: "read write"},
		"the challenge's scope":           {faults: logintest.Faults{Scope: "read"}, scope: "read"},
		"the user's scope":                {o: Options{Scopes: []string{"a", "b"}}, scope: "a b"},
		"offline_access where there is":   {faults: logintest.Faults{Offline: true}, scope: "read write offline_access"},
		"registered by hand":              {o: Options{ClientID: "by-hand", ClientSecret: "s3cret of/the:client"}, scope: "read write"},
		"registered by hand, in the form": {faults: logintest.Faults{AuthMethods: []string{"client_secret_post"}}, o: Options{ClientID: "by-hand", ClientSecret: "s3cret of/the:client"}, scope: "read write"},
		"a metadata document":             {faults: logintest.Faults{CIMD: true, NoDCR: true}, o: Options{ClientIDURL: "https://us.example/client.json"}, scope: "read write"},
		"a secret in a header":            {faults: logintest.Faults{AuthMethods: []string{"client_secret_basic"}}, scope: "read write"},
		"a secret in the form":            {faults: logintest.Faults{AuthMethods: []string{"client_secret_post"}}, scope: "read write"},
		"no iss, not advertised":          {faults: logintest.Faults{NoIss: true, Iss: "-"}, scope: "read write"},
		"iss though not advertised":       {faults: logintest.Faults{NoIss: true}, scope: "read write"},
		"a hint to elsewhere":             {faults: logintest.Faults{Hint: "http://169.254.169.254/latest"}, scope: "read write"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c.faults)
			sum := s.must(c.o)
			if sum.Scope != c.scope || sum.Issuer != s.AS.URL || sum.Resource != s.URL() || !sum.Renews || !sum.Expires.Equal(s.now.Add(time.Hour)) {
				t.Errorf("%+v", sum)
			}
			if token := s.token(s.source()); !s.Good(token) {
				t.Errorf("the token %q is none of the server's", token)
			}
		})
	}
}

// A server without metadata is its own authorization server, the rule of
// 2025-03-26; but only if that one can be asked what it supports.
func TestAServerThatIsItsOwnAuthorizationServer(t *testing.T) {
	s := start(t, logintest.Faults{NoMetadata: true, NoIss: true, Iss: "-"})
	if sum := s.must(Options{}); sum.Issuer != s.MCP.URL || sum.Resource != s.URL() {
		t.Errorf("%+v", sum)
	}
}

func TestLoginsThatAreRefused(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s arrived at a place where nothing may go", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		faults logintest.Faults
		o      Options
		want   string
		asked  bool // a person was sent to the authorization server
	}{
		"metadata of another resource":     {faults: logintest.Faults{Resource: "http://127.0.0.1:1/mcp"}, want: "and not about"},
		"metadata of another path":         {faults: logintest.Faults{Resource: "/other"}, want: "and not about"},
		"no authorization server":          {faults: logintest.Faults{Issuers: []string{}}, want: "names no authorization server"},
		"an issuer without https":          {faults: logintest.Faults{Issuers: []string{"http://as.example"}}, want: "https"},
		"an issuer with a strange scheme":  {faults: logintest.Faults{Issuers: []string{"file:///etc/passwd"}}, want: "not an address"},
		"another issuer in its metadata":   {faults: logintest.Faults{Issuer: "https://evil.example"}, want: "does not match"},
		"a longer issuer in its metadata":  {faults: logintest.Faults{Issuer: "http://127.0.0.1:1/x"}, want: "does not match"},
		"no PKCE":                          {faults: logintest.Faults{NoPKCE: true}, want: "PKCE"},
		"PKCE without S256":                {faults: logintest.Faults{Methods: []string{"plain"}}, want: "S256"},
		"a token endpoint without https":   {faults: logintest.Faults{TokenEndpoint: "http://as.example/token"}, want: "token_endpoint"},
		"an authorize endpoint of script":  {faults: logintest.Faults{AuthorizeAt: "javascript:alert(1)"}, want: "javascript"},
		"a revocation endpoint of a file":  {faults: logintest.Faults{RevokeAt: "file:///x"}, want: "the revocation endpoint"},
		"metadata that redirects":          {faults: logintest.Faults{Redirect: elsewhere.URL + "/metadata"}, want: "not followed"},
		"metadata without an end":          {faults: logintest.Faults{Endless: true}, want: "authorization server"},
		"registration refused":             {faults: logintest.Faults{RefuseDCR: true}, want: "--client-id"},
		"a registration that breaks off":   {faults: logintest.Faults{BrokenDCR: true}, want: "RFC 7591"},
		"no registration":                  {faults: logintest.Faults{NoDCR: true}, want: "--client-id"},
		"a wrong secret":                   {o: Options{ClientID: "by-hand", ClientSecret: "wrong"}, want: "invalid_client", asked: true},
		"another state":                    {faults: logintest.Faults{State: strings.Repeat("x", 26)}, want: "its state", asked: true},
		"another iss":                      {faults: logintest.Faults{Iss: "https://evil.example"}, want: "its iss", asked: true},
		"another iss, not advertised":      {faults: logintest.Faults{Iss: "https://evil.example", NoIss: true}, want: "its iss", asked: true},
		"another iss with an error":        {faults: logintest.Faults{Iss: "https://evil.example", Denied: true}, want: "its iss", asked: true},
		"no iss though advertised":         {faults: logintest.Faults{Iss: "-"}, want: "its iss", asked: true},
		"the person says no":               {faults: logintest.Faults{Denied: true}, want: "access_denied: the person said no", asked: true},
		"a token endpoint that redirects":  {faults: logintest.Faults{RedirectToken: elsewhere.URL + "/token"}, want: "not followed", asked: true},
		"a server that asks for no login":  {faults: logintest.Faults{NoChallenge: true, NoMetadata: true}, want: "asks for no login"},
		"metadata that never comes in":     {faults: logintest.Faults{Silent: true}, o: Options{Timeout: 300 * time.Millisecond}, want: "timed out"},
		"nobody who logs in":               {o: Options{Timeout: 300 * time.Millisecond, Show: func(string) {}}, want: "timed out"},
		"an issuer on another local place": {faults: logintest.Faults{Issuers: []string{"https://10.0.0.1"}}, want: "authorization server"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c.faults)
			if c.faults.Resource == "/other" {
				s.Set(logintest.Faults{Resource: s.MCP.URL + "/other"})
			}
			_, err := s.login(c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), `log in to "x": `) {
				t.Errorf("got %v, want something about %q", err, c.want)
			}
			if err != nil && (len(err.Error()) > 1000 || strings.Contains(err.Error(), "leaked-secret")) {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if strings.Contains(name, "iss with an error") && strings.Contains(err.Error(), "said no") {
				t.Errorf("words of somebody else are shown: %v", err)
			}
			if asked := s.Requests("GET /authorize") > 0; asked != c.asked {
				t.Errorf("asked a person: %v", asked)
			}
			if _, ok, err := s.store.get(s.server); ok || err != nil {
				t.Errorf("a login is stored (%v)", err)
			}
		})
	}
}

func TestAnAuthorizationServerWithoutMetadata(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	s := start(t, logintest.Faults{Issuers: []string{none.URL}})
	if _, err := s.login(Options{}); err == nil || !strings.Contains(err.Error(), "publishes no metadata") {
		t.Error(err)
	}
}

func TestOnlyServersOnHTTPAndHTTPSLogIn(t *testing.T) {
	store := NewStore(t.TempDir())
	for _, c := range []struct {
		server mcp.Server
		want   string
	}{
		{mcp.Server{Name: "x", Transport: mcp.Stdio, Cmd: "x"}, "needs no login"},
		{mcp.Server{Name: "x", Transport: mcp.HTTP, URL: "http://mcp.example/mcp"}, "https"},
		{mcp.Server{Name: "x", Transport: mcp.HTTP, URL: "https://a:b@mcp.example/mcp"}, "user name"},
		{mcp.Server{Name: "x", Transport: mcp.HTTP, URL: "mcp"}, "not an address"},
	} {
		if _, err := Login(t.Context(), store, c.server, Options{Now: time.Now}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.server, err)
		}
	}
}

// The browser is on another machine, and the person pastes where it ended.
func TestTheAddressCanBePasted(t *testing.T) {
	s := start(t, logintest.Faults{})
	end := make(chan string, 1)
	o := Options{
		Show: func(address string) {
			at, err := logintest.Ends(address)
			if err != nil {
				t.Error(err)
			}
			end <- at
		},
		Paste: func(ctx context.Context) (string, error) { return <-end, nil },
	}
	s.must(o)
	if !s.Good(s.token(s.source())) {
		t.Error("no token")
	}
	o.Show = func(string) { end <- "http://127.0.0.1:1/other?code=x&state=y" }
	if _, err := s.login(o); err == nil || !strings.Contains(err.Error(), "not the address") {
		t.Error(err)
	}
}

func TestTokensAreKeptForTheOwnerAndOneAddress(t *testing.T) {
	s := start(t, logintest.Faults{})
	s.must(Options{})
	dir := filepath.Join(s.home, "mcp", "tokens")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 && strings.HasSuffix(f.Name(), ".json") {
			t.Errorf("%s: %v %v", f.Name(), info.Mode(), err)
		}
		if strings.HasSuffix(f.Name(), ".json") {
			kept++
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || kept != 1 {
		t.Errorf("%v %v, %d files", info.Mode(), err, kept)
	}
	if got := s.store.Secrets(s.server); len(got) != 2 || !slices.Contains(got, s.token(s.source())) {
		t.Errorf("%d secrets", len(got))
	}
	for what, change := range map[string]func(*mcp.Server){
		"another path":  func(m *mcp.Server) { m.URL += "2" },
		"another query": func(m *mcp.Server) { m.URL += "?tenant=2" },
		"another host":  func(m *mcp.Server) { m.URL = strings.Replace(m.URL, "127.0.0.1", "localhost", 1) },
		"another name":  func(m *mcp.Server) { m.Name = "y" },
	} {
		other := s.server
		change(&other)
		if token, err := s.source().Token(t.Context(), other); token != "" || err != nil {
			t.Errorf("%s gets the token %q (%v)", what, token, err)
		}
		if state, err := s.store.State(other, s.now); state != None || err != nil {
			t.Errorf("%s is logged in: %v %v", what, state, err)
		}
	}
	// A file that was moved under another login's name is not that login.
	other := s.server
	other.URL += "2"
	if err := os.Rename(s.store.path("x", s.server.URL, ".json"), s.store.path("x", other.URL, ".json")); err != nil {
		t.Fatal(err)
	}
	if token, err := s.source().Token(t.Context(), other); token != "" || err != nil {
		t.Errorf("a moved file gives the token %q (%v)", token, err)
	}
}

func TestStoredLoginsThatCannotBeRead(t *testing.T) {
	s := start(t, logintest.Faults{})
	s.must(Options{})
	file := s.store.path("x", s.server.URL, ".json")
	for what, make := range map[string]func() error{
		"garbage": func() error { return os.WriteFile(file, []byte("{"), 0o600) },
		"another schema": func() error {
			return os.WriteFile(file, []byte(`{"schema":"bestof.mcp-login/2"}`), 0o600)
		},
		"a directory": func() error { return os.Mkdir(file, 0o700) },
		"a link":      func() error { return os.Symlink("/etc/hostname", file) },
	} {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if token, err := s.source().Token(t.Context(), s.server); token != "" || err == nil || !strings.Contains(err.Error(), "stored login") {
			t.Errorf("%s: %q, %v", what, token, err)
		}
	}
}

func TestLogout(t *testing.T) {
	for name, c := range map[string]struct {
		faults  logintest.Faults
		revoked int
		failed  string
	}{
		"taken back":          {revoked: 1},
		"with a secret":       {faults: logintest.Faults{AuthMethods: []string{"client_secret_basic"}}, revoked: 1},
		"only an access one":  {faults: logintest.Faults{NoRefresh: true}, revoked: 1},
		"nothing to ask":      {faults: logintest.Faults{RevokeAt: "-"}, failed: "takes no tokens back"},
		"an error":            {faults: logintest.Faults{RevokeStatus: 503}, failed: "may still be good: 127.0.0.1"},
		"an endpoint that is": {faults: logintest.Faults{RevokeAt: "http://127.0.0.1:1/revoke"}, failed: "may still be good"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c.faults)
			s.must(Options{})
			token := s.token(s.source())
			f, err := Logout(t.Context(), s.store, "x")
			if err != nil || f.Forgotten != 1 || f.Revoked != c.revoked {
				t.Errorf("%+v %v", f, err)
			}
			if c.failed != "" && (len(f.Failed) != 1 || !strings.Contains(f.Failed[0].Error(), c.failed)) {
				t.Errorf("%v, want something about %q", f.Failed, c.failed)
			}
			if c.revoked == 1 && (s.Refreshable() != 0 || c.faults.NoRefresh && s.Good(token)) {
				t.Error("the token is still good")
			}
			if got := s.token(s.source()); got != "" {
				t.Errorf("there is still a token: %q", got)
			}
			if _, err := Logout(t.Context(), s.store, "x"); !errors.Is(err, ErrNoLogin) {
				t.Error(err)
			}
		})
	}
}
