package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// A place is where and how one logs in for a server.
type place struct {
	resource string // RFC 8707: what the tokens are for
	meta     *oauthex.AuthServerMeta
	scopes   []string // that the server asks for, nil if it does not say
}

// discover finds where to log in (MCP authorization, 2026-07-28): the server's
// challenge, protected-resource metadata (RFC 9728), then the metadata of an
// authorization server (RFC 8414 or OpenID Connect).
func (w *web) discover(ctx context.Context) (place, error) {
	challenge, asked, err := w.challenge(ctx)
	if err != nil {
		return place{}, err
	}
	prm, err := w.protectedResource(ctx, challenge["resource_metadata"])
	if err != nil {
		return place{}, err
	}
	if prm == nil && !asked {
		return place{}, errors.New("the server asks for no login")
	}
	p := place{resource: canonical(w.server), scopes: strings.Fields(challenge["scope"])}
	issuers := []string{origin(w.server)} // the rule of 2025-03-26, when there is no metadata
	if prm != nil {
		p.resource, issuers = prm.Resource, prm.AuthorizationServers
		if len(p.scopes) == 0 {
			p.scopes = prm.ScopesSupported
		}
	}
	issuer, err := w.choose(issuers)
	if err != nil {
		return place{}, err
	}
	p.meta, err = w.authorizationServer(ctx, issuer)
	return p, err
}

// probe is sent without a token, to be refused.
const probe = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bestof","version":"0"}}}`

// challenge asks the server for its WWW-Authenticate.
func (w *web) challenge(ctx context.Context) (params map[string]string, asked bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.String(), strings.NewReader(probe))
	if err != nil {
		return nil, false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	res, err := w.client.Do(r)
	if err != nil {
		return nil, false, plainError(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		return nil, false, nil
	}
	_, _ = io.CopyN(io.Discard, res.Body, 1<<10)
	return bearer(res.Header.Values("WWW-Authenticate")), true, nil
}

// bearer is the Bearer challenge among headers; nil if there is none that can
// be read.
func bearer(headers []string) map[string]string {
	all, err := oauthex.ParseWWWAuthenticate(headers)
	if err != nil {
		return nil
	}
	for _, c := range all {
		if c.Scheme == "bearer" {
			return c.Params
		}
	}
	return nil
}

const wellKnownResource = "/.well-known/oauth-protected-resource"

// protectedResource finds the server's own metadata: where its challenge
// points, if that is the server itself, and at the two known places. It is nil
// if there is none. What is there and is about another resource is refused.
func (w *web) protectedResource(ctx context.Context, hint string) (*oauthex.ProtectedResourceMetadata, error) {
	at := func(path string) string {
		u := url.URL{Scheme: w.server.Scheme, Host: w.server.Host, Path: path}
		return u.String()
	}
	places := []string{at(wellKnownResource + strings.TrimRight(w.server.Path, "/")), at(wellKnownResource)}
	if u, err := url.Parse(hint); hint != "" && err == nil && sameOrigin(u, w.server) {
		places = append([]string{hint}, places...)
	}
	for i, address := range places {
		if slices.Contains(places[:i], address) {
			continue
		}
		var prm oauthex.ProtectedResourceMetadata
		found, err := w.getJSON(ctx, address, &prm)
		switch {
		case err != nil:
			return nil, err
		case !found:
			continue
		case !w.about(prm.Resource, address):
			return nil, fmt.Errorf("the server's metadata is about %.100q and not about %s: nothing was sent", prm.Resource, canonical(w.server))
		case len(prm.AuthorizationServers) == 0:
			return nil, errors.New("the server's metadata names no authorization server")
		}
		return &prm, nil
	}
	return nil, nil
}

// about reports whether metadata of a resource is the server's. The document
// at the root may be about the whole origin (RFC 9728, section 3.3).
func (w *web) about(resource, at string) bool {
	u, err := url.Parse(resource)
	if err != nil || !sameOrigin(u, w.server) || u.User != nil || u.Fragment != "" {
		return false
	}
	path := strings.TrimRight(u.Path, "/")
	return path == strings.TrimRight(w.server.Path, "/") || path == "" && strings.HasSuffix(at, wellKnownResource)
}

// choose is the first issuer that may be asked.
func (w *web) choose(issuers []string) (string, error) {
	var first error
	for _, issuer := range issuers {
		u, err := w.permit(issuer)
		if err == nil && u.RawQuery != "" {
			err = fmt.Errorf("%.100q is not an issuer", issuer)
		}
		if err == nil {
			return issuer, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", fmt.Errorf("the server sends logins to a place that is not asked: %w", first)
}

// authorizationServer reads the metadata of an issuer and checks all of it
// that will be used.
func (w *web) authorizationServer(ctx context.Context, issuer string) (*oauthex.AuthServerMeta, error) {
	meta, err := auth.GetAuthServerMetadata(ctx, issuer, w.client)
	switch {
	case err != nil:
		return nil, fmt.Errorf("authorization server %s: %w", issuer, errors.New(clip(plainError(err).Error())))
	case meta == nil:
		return nil, fmt.Errorf("authorization server %s publishes no metadata, so it cannot be said that it supports PKCE", issuer)
	case rootless(meta.Issuer) != rootless(issuer):
		return nil, fmt.Errorf("authorization server %s says that it is %.100q: nothing was sent", issuer, meta.Issuer)
	case !slices.Contains(meta.CodeChallengeMethodsSupported, "S256"):
		return nil, fmt.Errorf("authorization server %s does not support PKCE with S256, without which a code could be stolen", issuer)
	case len(meta.ResponseTypesSupported) > 0 && !slices.Contains(meta.ResponseTypesSupported, "code"):
		return nil, fmt.Errorf("authorization server %s gives out no authorization codes", issuer)
	}
	for _, e := range []struct {
		name, address string
		required      bool
	}{
		{"authorization", meta.AuthorizationEndpoint, true}, {"token", meta.TokenEndpoint, true},
		{"registration", meta.RegistrationEndpoint, false}, {"revocation", meta.RevocationEndpoint, false},
	} {
		if e.address == "" && !e.required {
			continue
		}
		if _, err := w.permit(e.address); err != nil {
			return nil, fmt.Errorf("the %s endpoint of %s: %w", e.name, issuer, err)
		}
	}
	return meta, nil
}

// rootless takes the slash off an issuer without a path: with it and without
// it is the same address (RFC 3986, section 6.2.3). Nothing else is forgiven.
func rootless(issuer string) string {
	if rest, ok := strings.CutSuffix(issuer, "/"); ok && strings.Count(rest, "/") == 2 {
		return rest
	}
	return issuer
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// canonical is the resource that tokens of a server are for: its address
// without query and fragment and without a slash at the end.
func canonical(u *url.URL) string {
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host) + strings.TrimRight(u.EscapedPath(), "/")
}
