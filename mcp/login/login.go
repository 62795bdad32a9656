package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/bestof-dev/bestof/mcp"
)

// Timeout is how long a person has for a login.
const Timeout = 5 * time.Minute

// Options say how a person takes part in a login.
type Options struct {
	// Dependencies.

	Show  func(address string)                      // tells the person where to go; it must not wait
	Paste func(ctx context.Context) (string, error) // reads the address that the browser ended at; nil: only the listener hears of it
	Now   func() time.Time

	// Config.

	ClientID     string   // of a client that was registered by hand, "" for none
	ClientSecret string   // its secret, if it has one
	ClientIDURL  string   // a client id metadata document, for servers that take one
	Scopes       []string // to ask for instead of what the server asks for
	Port         int      // of the listener on 127.0.0.1; 0 is any
	Timeout      time.Duration
}

// ErrTimedOut means that a login took longer than it may.
var ErrTimedOut = errors.New("the login timed out")

// A Summary is what a login gave, without anything secret.
type Summary struct {
	Resource string
	Issuer   string
	Scope    string
	Expires  time.Time // zero: it does not say
	Renews   bool      // it goes on without a person
}

// Login lets a person log in for a server, and stores the tokens. It is the
// authorization code flow of OAuth 2.1 with PKCE (S256), a loopback listener
// (RFC 8252), resource indicators (RFC 8707) and issuer identification
// (RFC 9207).
func Login(ctx context.Context, store *Store, server mcp.Server, o Options) (Summary, error) {
	if server.Transport != mcp.HTTP {
		return Summary{}, fmt.Errorf("%q is started on this machine and needs no login: put what it needs into its env", server.Name)
	}
	if o.Timeout == 0 {
		o.Timeout = Timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("%w: nobody finished it within %s", ErrTimedOut, o.Timeout))
	defer cancel()
	r, err := login(ctx, store, server, o)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Summary{}, fmt.Errorf("log in to %q: %w", server.Name, err)
	}
	return Summary{r.Resource, r.Issuer, r.Scope, r.Expires, r.Refresh != ""}, nil
}

func login(ctx context.Context, store *Store, server mcp.Server, o Options) (record, error) {
	w, err := newWeb(server.URL)
	if err != nil {
		return record{}, err
	}
	p, err := w.discover(ctx)
	if err != nil {
		return record{}, err
	}
	before, _, err := store.get(server)
	if err != nil {
		return record{}, err
	}
	scope := scopes(p, o.Scopes, before)
	l, err := listen(o.Port)
	if err != nil {
		return record{}, err
	}
	defer l.close()
	c, err := w.register(ctx, p.meta, o, l.redirect, scope)
	if err != nil {
		return record{}, err
	}
	verifier, state := rand.Text()+rand.Text(), rand.Text()
	address, err := authorizeURL(p, c.ID, l.redirect, scope, verifier, state)
	if err != nil {
		return record{}, err
	}
	want := expected{state, p.meta.Issuer, p.meta.AuthorizationResponseIssParameterSupported}
	o.Show(address)
	code, err := l.code(ctx, want, o.Paste)
	if err != nil {
		return record{}, err
	}
	a, err := w.token(ctx, p.meta.TokenEndpoint, c, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {l.redirect}, "code_verifier": {verifier}, "resource": {p.resource},
	})
	if err != nil {
		return record{}, err
	}
	r := record{
		Schema: schema, Name: server.Name, URL: server.URL, Resource: p.resource, Issuer: p.meta.Issuer,
		Token: p.meta.TokenEndpoint, Revocation: p.meta.RevocationEndpoint, Client: c, Scope: scope, Since: o.Now().UTC(), Local: w.local(),
	}
	r.take(a, o.Now())
	unlock, err := store.lock(ctx, server)
	if err != nil {
		return record{}, err
	}
	defer unlock()
	return r, store.put(r)
}

// scopes is what to ask for: what the user says, else what the server asks for,
// else nothing. What was granted before and what the server wanted since stay
// in it, so that more scopes do not cost the ones there are.
func scopes(p place, chosen []string, before record) string {
	ask := strings.Join(p.scopes, " ")
	if len(chosen) > 0 {
		ask = strings.Join(chosen, " ")
	}
	if before.Issuer == p.meta.Issuer && before.Wanted != "" {
		ask = union(before.Scope, ask, before.Wanted)
	}
	if slices.Contains(p.meta.ScopesSupported, "offline_access") {
		ask = union(ask, "offline_access")
	}
	return ask
}

// register is who we are to an authorization server: a client registered by
// hand, a metadata document, or one that is registered now (RFC 7591).
func (w *web) register(ctx context.Context, meta *oauthex.AuthServerMeta, o Options, redirect, scope string) (client, error) {
	supported := meta.TokenEndpointAuthMethodsSupported
	switch {
	case o.ClientID != "":
		c := client{ID: o.ClientID, Secret: o.ClientSecret, Method: "none"}
		if c.Secret != "" {
			c.Method = "client_secret_basic"
			if len(supported) > 0 && !slices.Contains(supported, c.Method) {
				c.Method = "client_secret_post"
			}
		}
		return c, nil
	case o.ClientIDURL != "" && meta.ClientIDMetadataDocumentSupported:
		return client{ID: o.ClientIDURL, Method: "none"}, nil
	case meta.RegistrationEndpoint == "":
		return client{}, fmt.Errorf("authorization server %s registers no clients by itself: register one there and give --client-id", meta.Issuer)
	}
	method := "none"
	for _, m := range []string{"client_secret_basic", "client_secret_post", "none"} {
		if slices.Contains(supported, m) {
			method = m
		}
	}
	res, err := oauthex.RegisterClient(ctx, meta.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		ClientName: "bestof", RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: method, ApplicationType: "native", Scope: scope,
	}, w.client)
	if err != nil {
		return client{}, fmt.Errorf("authorization server %s registers no client (%s): register one there and give --client-id", meta.Issuer, registrationError(err))
	}
	c := client{ID: res.ClientID, Secret: res.ClientSecret, Method: res.TokenEndpointAuthMethod}
	switch {
	case c.Secret == "":
		c.Method = "none"
	case c.Method != "client_secret_post" && c.Method != "none":
		c.Method = "client_secret_basic"
	}
	if len(c.ID) > 4096 || len(c.Secret) > 4096 {
		return client{}, errors.New("the client that was registered has a longer name than is stored")
	}
	return c, nil
}

// registrationError is why no client was registered, without the body of the
// answer, which may hold a secret.
func registrationError(err error) string {
	var refused *oauthex.ClientRegistrationError
	var sent *url.Error
	switch {
	case errors.As(err, &refused):
		return clip((&refusedError{refused.ErrorCode, refused.ErrorDescription}).Error())
	case errors.As(err, &sent):
		return clip(plainError(sent).Error())
	}
	return "its answer is not what RFC 7591 wants"
}

// authorizeURL is where the person goes.
func authorizeURL(p place, clientID, redirect, scope, verifier, state string) (string, error) {
	u, err := url.Parse(p.meta.AuthorizationEndpoint)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(verifier))
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": clientID, "redirect_uri": redirect, "state": state, "resource": p.resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if scope != "" {
		q.Set("scope", scope)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// A Farewell is what a logout did.
type Farewell struct {
	Forgotten int     // logins that are not stored any more
	Revoked   int     // of them, taken back at their authorization server
	Failed    []error // why the others were not
}

// ErrNoLogin means that there is nothing to log out of.
var ErrNoLogin = errors.New("nobody is logged in")

// Logout forgets every login of a name, at whatever address, after it asked
// the authorization servers to take the tokens back (RFC 7009). That they do
// not answer does not keep the tokens.
func Logout(ctx context.Context, store *Store, name string) (Farewell, error) {
	records, err := store.named(name)
	if err != nil {
		return Farewell{}, err
	}
	if len(records) == 0 {
		return Farewell{}, fmt.Errorf("%w: there is no stored login of %q", ErrNoLogin, name)
	}
	var f Farewell
	for _, r := range records {
		if err := store.forget(ctx, r); err != nil {
			return f, fmt.Errorf("forget the login of %q: %w", name, err)
		}
		f.Forgotten++
		if err := r.takeBack(ctx); err != nil {
			f.Failed = append(f.Failed, err)
			continue
		}
		f.Revoked++
	}
	return f, nil
}

func (r record) takeBack(ctx context.Context) error {
	token, hint := r.Refresh, "refresh_token"
	if token == "" {
		token, hint = r.Access, "access_token"
	}
	switch {
	case token == "":
		return errors.New("it had ended already")
	case r.Revocation == "":
		return fmt.Errorf("%s takes no tokens back: this one ends by itself", r.Issuer)
	}
	w, err := newWeb(r.URL)
	if err != nil {
		return err
	}
	w.place(r.Local)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.revoke(ctx, r.Revocation, r.Client, token, hint); err != nil {
		return fmt.Errorf("it may still be good: %w", err)
	}
	return nil
}
