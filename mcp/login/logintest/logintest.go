// Package logintest is an MCP server that wants a login and the authorization
// server that gives it, for tests. Both are strict: what a client gets wrong is
// noted in Misuse. What they get wrong themselves is chosen by Faults.
package logintest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Faults are what the servers do wrong or differently. The zero value is a
// server and an authorization server that follow all rules.
type Faults struct {
	Resource      string   // the server's metadata is about this
	Issuers       []string // the server's metadata names these
	NoMetadata    bool     // the server publishes none
	Hint          string   // the challenge points here for metadata
	NoChallenge   bool     // the server answers without a login
	Scope         string   // of the challenge
	Issuer        string   // the authorization server says that it is this
	Methods       []string // PKCE methods; nil: S256
	NoPKCE        bool     // PKCE methods are not advertised
	TokenEndpoint string
	AuthorizeAt   string
	RevokeAt      string
	Iss           string // of the answer; "-" for none
	NoIss         bool   // iss is not advertised
	State         string // of the answer
	Denied        bool   // the person says no
	NoDCR         bool
	RefuseDCR     bool
	BrokenDCR     bool     // the answer breaks off
	CIMD          bool     // client id metadata documents are taken
	AuthMethods   []string // at the token endpoint
	Redirect      string   // the metadata of the authorization server redirects here
	RedirectToken string   // the token endpoint redirects here
	Endless       bool     // the metadata does not end
	Silent        bool     // the metadata never comes
	Lifetime      int      // seconds of an access token; 0: 3600, negative: it does not say
	NoRefresh     bool
	NoRotation    bool
	RefreshStatus int    // the token endpoint answers refreshes with this
	RefreshError  string // and with this OAuth error
	RevokeStatus  int
	Offline       bool // offline_access is a scope
}

// A World is the two servers. Faults may be changed between requests.
type World struct {
	MCP    *httptest.Server // the endpoint is at /mcp
	AS     *httptest.Server
	Client string // id of the client that is registered by hand
	Secret string // its secret

	mu       sync.Mutex
	faults   Faults
	misuse   []string
	requests []string
	clients  map[string]registered
	codes    map[string]grant
	access   map[string]bool // false: taken back
	refresh  map[string]grant
	spent    map[string]bool
}

type registered struct{ secret, method string }

type grant struct{ client, redirect, challenge, resource, scope string }

// New starts both servers on 127.0.0.1.
func New(f Faults) *World {
	w := &World{
		faults: f, Client: "by-hand", Secret: "s3cret of/the:client", clients: map[string]registered{}, codes: map[string]grant{},
		access: map[string]bool{}, refresh: map[string]grant{}, spent: map[string]bool{},
	}
	w.clients[w.Client] = registered{w.Secret, "any"}
	w.MCP = httptest.NewServer(http.HandlerFunc(w.serveMCP))
	w.AS = httptest.NewServer(http.HandlerFunc(w.serveAS))
	return w
}

// Close stops both.
func (w *World) Close() {
	w.MCP.CloseClientConnections()
	w.AS.CloseClientConnections()
	w.MCP.Close()
	w.AS.Close()
}

// URL is the server's endpoint.
func (w *World) URL() string { return w.MCP.URL + "/mcp" }

// Set changes the faults.
func (w *World) Set(f Faults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = f
}

// Misuse lists what clients did wrong.
func (w *World) Misuse() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.misuse)
}

// Requests counts requests by "METHOD path" of both servers.
func (w *World) Requests(line string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.requests {
		if r == line {
			n++
		}
	}
	return n
}

// Good reports whether a request with the access token would be answered.
func (w *World) Good(token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.access[token]
}

// Expire makes every access token worthless, as time would.
func (w *World) Expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.access)
}

// Refreshable counts the refresh tokens that would be taken.
func (w *World) Refreshable() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.refresh)
}

// Browse is the person with a browser: it opens the address and follows to
// where it ends, which it returns.
func Browse(address string) (end string, err error) {
	c := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error { end = r.URL.String(); return nil }}
	res, err := c.Get(address)
	if err != nil {
		return end, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return end, err
}

// Ends is Browse for a browser that cannot reach the listener.
func Ends(address string) (string, error) {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Get(address)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	return res.Header.Get("Location"), nil
}

func (w *World) wrong(format string, args ...any) {
	w.misuse = append(w.misuse, fmt.Sprintf(format, args...))
}

func (w *World) note(r *http.Request) Faults {
	w.requests = append(w.requests, r.Method+" "+r.URL.Path)
	return w.faults
}

func writeJSON(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(v)
}

func or(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func (w *World) serveMCP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.note(r)
	switch {
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
		if r.Header.Get("Authorization") != "" {
			w.wrong("metadata was asked for with credentials")
		}
		if f.NoMetadata || r.URL.Path != "/.well-known/oauth-protected-resource/mcp" {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		issuers := f.Issuers
		if issuers == nil {
			issuers = []string{w.AS.URL}
		}
		writeJSON(rw, 200, map[string]any{"resource": or(f.Resource, w.URL()), "authorization_servers": issuers, "scopes_supported": []string{"read", "write"}})
	case r.URL.Path == "/mcp":
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !w.access[token] && !f.NoChallenge {
			challenge := fmt.Sprintf(`Bearer resource_metadata=%q`, or(f.Hint, w.MCP.URL+"/.well-known/oauth-protected-resource/mcp"))
			if f.Scope != "" {
				challenge += fmt.Sprintf(`, scope=%q`, f.Scope)
			}
			rw.Header().Set("WWW-Authenticate", challenge)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		answerRPC(rw, r)
	case strings.HasPrefix(r.URL.Path, "/.well-known/") && f.NoMetadata:
		w.metadata(rw, r, f, w.MCP.URL) // the server is its own authorization server
	default:
		rw.WriteHeader(http.StatusNotFound)
	}
}

// answerRPC is a server of the protocol 2025-11-25 with one tool.
func answerRPC(rw http.ResponseWriter, r *http.Request) {
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil || len(call.ID) == 0 {
		rw.WriteHeader(http.StatusAccepted)
		return
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": call.ID}
	switch call.Method {
	case "initialize":
		answer["result"] = map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "members only", "version": "1"}}
	case "tools/list":
		answer["result"] = map[string]any{"tools": []any{map[string]any{"name": "whoami", "description": "Says who is logged in", "inputSchema": map[string]any{"type": "object"}}}}
	case "tools/call":
		answer["result"] = map[string]any{"content": []any{map[string]any{"type": "text", "text": "ada, who said " + r.Header.Get("Authorization")}}}
	default:
		answer["error"] = map[string]any{"code": -32601, "message": "no such method"}
	}
	writeJSON(rw, 200, answer)
}

func (w *World) serveAS(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		w.mu.Lock()
		f := w.note(r)
		w.mu.Unlock()
		switch {
		case f.Silent:
			<-r.Context().Done()
		case f.Endless:
			rw.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(rw, `{"issuer":"`+strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		case f.Redirect != "":
			http.Redirect(rw, r, f.Redirect, http.StatusFound)
		default:
			w.metadata(rw, r, f, w.AS.URL)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.note(r)
	_ = r.ParseForm()
	switch r.Method + " " + r.URL.Path {
	case "POST /register":
		w.register(rw, r, f)
	case "GET /authorize":
		w.authorize(rw, r, f)
	case "POST /token":
		w.token(rw, r, f)
	case "POST /revoke":
		w.revoke(rw, r, f)
	default:
		rw.WriteHeader(http.StatusNotFound)
	}
}

func (w *World) metadata(rw http.ResponseWriter, r *http.Request, f Faults, issuer string) {
	if r.URL.Path != "/.well-known/oauth-authorization-server" {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	m := map[string]any{
		"issuer": or(f.Issuer, issuer), "authorization_endpoint": or(f.AuthorizeAt, w.AS.URL+"/authorize?tenant=1"), "token_endpoint": or(f.TokenEndpoint, w.AS.URL+"/token"),
		"revocation_endpoint": or(f.RevokeAt, w.AS.URL+"/revoke"), "response_types_supported": []string{"code"},
		"authorization_response_iss_parameter_supported": !f.NoIss, "client_id_metadata_document_supported": f.CIMD,
	}
	if !f.NoDCR {
		m["registration_endpoint"] = w.AS.URL + "/register"
	}
	if f.RevokeAt == "-" {
		delete(m, "revocation_endpoint")
	}
	if methods := f.Methods; !f.NoPKCE {
		if methods == nil {
			methods = []string{"plain", "S256"}
		}
		m["code_challenge_methods_supported"] = methods
	}
	if f.AuthMethods != nil {
		m["token_endpoint_auth_methods_supported"] = f.AuthMethods
	}
	if f.Offline {
		m["scopes_supported"] = []string{"read", "write", "offline_access"}
	}
	writeJSON(rw, 200, m)
}

func (w *World) register(rw http.ResponseWriter, r *http.Request, f Faults) {
	var m map[string]any
	err := json.NewDecoder(r.Body).Decode(&m)
	if f.BrokenDCR {
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, `{"client_id":"x","client_secret":"leaked-secret",`)
		return
	}
	if err != nil || f.RefuseDCR {
		writeJSON(rw, 400, map[string]any{"error": "invalid_client_metadata", "error_description": "no\x1b[2J"})
		return
	}
	if m["application_type"] != "native" || fmt.Sprint(m["grant_types"]) != "[authorization_code refresh_token]" {
		w.wrong("registered as %v", m)
	}
	id, method := "c-"+rand.Text(), fmt.Sprint(m["token_endpoint_auth_method"])
	answer := map[string]any{"client_id": id, "redirect_uris": m["redirect_uris"], "token_endpoint_auth_method": method}
	c := registered{method: method}
	if method != "none" {
		c.secret = "s+" + rand.Text()
		answer["client_secret"] = c.secret
	}
	w.clients[id] = c
	writeJSON(rw, 201, answer)
}

func (w *World) authorize(rw http.ResponseWriter, r *http.Request, f Faults) {
	q := r.Form
	if q.Get("tenant") != "1" || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || len(q.Get("state")) < 20 {
		w.wrong("authorize: %v", q)
	}
	if _, known := w.clients[q.Get("client_id")]; !known && !f.CIMD {
		w.wrong("authorize: client %q is not known", q.Get("client_id"))
	}
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || back.Hostname() != "127.0.0.1" {
		w.wrong("authorize: redirect to %q", q.Get("redirect_uri"))
		return
	}
	answer := url.Values{"state": {or(f.State, q.Get("state"))}}
	if f.Iss != "-" {
		answer.Set("iss", or(f.Iss, f.Issuer, w.AS.URL))
	}
	if f.Denied {
		answer.Set("error", "access_denied")
		answer.Set("error_description", "the person said no\x1b[31m")
	} else {
		code := rand.Text()
		w.codes[code] = grant{q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("resource"), q.Get("scope")}
		answer.Set("code", code)
	}
	back.RawQuery = answer.Encode()
	http.Redirect(rw, r, back.String(), http.StatusFound)
}

// client says who asks, after it proved so.
func (w *World) client(r *http.Request) (string, bool) {
	id, secret := r.Form.Get("client_id"), r.Form.Get("client_secret")
	method := "none"
	if secret != "" {
		method = "client_secret_post"
	}
	if user, pass, ok := r.BasicAuth(); ok {
		id, _ = url.QueryUnescape(user)
		secret, _ = url.QueryUnescape(pass)
		method = "client_secret_basic"
	}
	c, known := w.clients[id]
	if !known {
		return id, w.faults.CIMD && strings.HasPrefix(id, "https://") && method == "none"
	}
	return id, c.secret == secret && (c.method == method || c.method == "any")
}

func (w *World) token(rw http.ResponseWriter, r *http.Request, f Faults) {
	if f.RedirectToken != "" {
		http.Redirect(rw, r, f.RedirectToken, http.StatusTemporaryRedirect)
		return
	}
	id, ok := w.client(r)
	if !ok {
		writeJSON(rw, 401, map[string]any{"error": "invalid_client"})
		return
	}
	var g grant
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		g, ok = w.codes[r.Form.Get("code")]
		delete(w.codes, r.Form.Get("code"))
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		if !ok || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) || g.redirect != r.Form.Get("redirect_uri") {
			w.wrong("token: %v", r.Form)
			ok = false
		}
	case "refresh_token":
		if f.RefreshStatus != 0 {
			writeJSON(rw, f.RefreshStatus, map[string]any{"error": f.RefreshError})
			return
		}
		old := r.Form.Get("refresh_token")
		if g, ok = w.refresh[old]; w.spent[old] {
			w.wrong("a refresh token was used twice")
		}
		if ok && !f.NoRotation {
			delete(w.refresh, old)
			w.spent[old] = true
		}
	}
	if !ok || g.client != id || g.resource != r.Form.Get("resource") {
		writeJSON(rw, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	w.issue(rw, g, f, r.Form.Get("grant_type") == "refresh_token" && f.NoRotation)
}

func (w *World) issue(rw http.ResponseWriter, g grant, f Faults, keep bool) {
	access, refresh := "a-"+rand.Text(), "r-"+rand.Text()
	w.access[access] = true
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "scope": g.scope}
	if f.Lifetime == 0 {
		answer["expires_in"] = 3600
	} else if f.Lifetime > 0 {
		answer["expires_in"] = f.Lifetime
	}
	if !f.NoRefresh && !keep {
		w.refresh[refresh] = g
		answer["refresh_token"] = refresh
	}
	writeJSON(rw, 200, answer)
}

func (w *World) revoke(rw http.ResponseWriter, r *http.Request, f Faults) {
	_, ok := w.client(r)
	switch {
	case !ok:
		writeJSON(rw, 401, map[string]any{"error": "invalid_client"})
	case f.RevokeStatus != 0:
		rw.WriteHeader(f.RevokeStatus)
	default:
		delete(w.refresh, r.Form.Get("token"))
		w.access[r.Form.Get("token")] = false
	}
}
