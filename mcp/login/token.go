package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A client is what this program is to one authorization server.
type client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	Method string `json:"method"` // none | client_secret_basic | client_secret_post
}

// A refusedError is an error of RFC 6749, section 5.2.
type refusedError struct{ Code, Description string }

func (e *refusedError) Error() string {
	return "it answers " + clip(strings.TrimSuffix(e.Code+": "+e.Description, ": "))
}

// An answer is a token endpoint's.
type answer struct {
	Access, Refresh, Scope string
	Expires                time.Duration // 0 when it does not say
}

// post sends a form with the client's credentials.
func (w *web) post(ctx context.Context, endpoint string, c client, form url.Values) (*http.Response, error) {
	if c.Method != "client_secret_basic" {
		form.Set("client_id", c.ID)
	}
	if c.Method == "client_secret_post" {
		form.Set("client_secret", c.Secret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if c.Method == "client_secret_basic" {
		r.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	}
	res, err := w.client.Do(r)
	return res, plainError(err)
}

// token asks a token endpoint.
func (w *web) token(ctx context.Context, endpoint string, c client, form url.Values) (answer, error) {
	res, err := w.post(ctx, endpoint, c, form)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	var wire struct {
		Access      string      `json:"access_token"`
		Type        string      `json:"token_type"`
		Refresh     string      `json:"refresh_token"`
		Scope       string      `json:"scope"`
		Expires     json.Number `json:"expires_in"`
		Error       string      `json:"error"`
		Description string      `json:"error_description"`
	}
	err = readJSON(res.Body, &wire)
	switch {
	case err == nil && wire.Error != "":
		return answer{}, &refusedError{wire.Error, wire.Description}
	case res.StatusCode != http.StatusOK:
		return answer{}, fmt.Errorf("%s answers %s", hostOf(endpoint), res.Status)
	case err != nil:
		return answer{}, fmt.Errorf("what %s answers is not a token: %w", hostOf(endpoint), err)
	case !tokenText(wire.Access) || !strings.EqualFold(wire.Type, "bearer"):
		return answer{}, fmt.Errorf("what %s answers is not a bearer token", hostOf(endpoint))
	case len(wire.Refresh) > maxToken || len(wire.Scope) > maxToken:
		return answer{}, fmt.Errorf("what %s answers is longer than a token can be", hostOf(endpoint))
	}
	a := answer{Access: wire.Access, Refresh: wire.Refresh, Scope: wire.Scope}
	if s, err := wire.Expires.Float64(); err == nil && s > 0 {
		a.Expires = time.Duration(min(s, 10*365*24*3600)) * time.Second
	}
	return a, nil
}

const maxToken = 32 << 10

// tokenText reports whether a text can stand in an Authorization header.
func tokenText(s string) bool {
	return s != "" && len(s) <= maxToken && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// revoke takes a token back (RFC 7009).
func (w *web) revoke(ctx context.Context, endpoint string, c client, token, hint string) error {
	res, err := w.post(ctx, endpoint, c, url.Values{"token": {token}, "token_type_hint": {hint}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 1<<10)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", hostOf(endpoint), res.Status)
	}
	return nil
}

// lost reports whether an error says that a refresh token is worth nothing any
// more, rather than that it could not be used just now.
func lost(err error) bool {
	var refused *refusedError
	return errors.As(err, &refused) && (refused.Code == "invalid_grant" || refused.Code == "invalid_client" || refused.Code == "unauthorized_client")
}
