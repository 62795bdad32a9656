package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The guard keeps out everybody but the operator's browser:
//
//   - Other machines: the server listens on the loopback alone.
//   - Other users and programs of this machine: they know no cookie. A browser
//     gets one for a token that works once, so that an address that was seen in
//     a list of processes or in a history is worth nothing.
//   - Names that lead here (DNS rebinding): the Host must be an address of the
//     loopback with this port.
//   - Other pages in the operator's browser: the cookie is SameSite=Strict; a
//     request that another origin made, also one of another port of this
//     machine, is refused by Sec-Fetch-Site and Origin; and what changes
//     something needs the session's own word as well.
type guard struct {
	port    int
	hosts   []string
	entered func(address string)

	mu       sync.Mutex
	token    string
	sessions []session // the oldest first
}

// maxSessions is how many browsers are known at once; the oldest is forgotten.
const maxSessions = 16

type session struct {
	cookie string
	csrf   string // what forms must carry
}

func newGuard(port int, entered func(string)) *guard {
	p := strconv.Itoa(port)
	return &guard{port: port, hosts: []string{"127.0.0.1:" + p, "localhost:" + p}, entered: entered, token: secret()}
}

// secret has 256 bits of chance.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x", b)
}

// same takes as long for a wrong text as for a right one.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func (g *guard) address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Sprintf("http://127.0.0.1:%d/enter?token=%s", g.port, g.token)
}

// cookieName has the port in it: browsers give a cookie to every port of a
// machine, and two servers must not take each other's.
func (g *guard) cookieName() string { return "bestof-" + strconv.Itoa(g.port) }

// enter makes a session for a token and replaces the token.
func (g *guard) enter(token string) (session, bool) {
	g.mu.Lock()
	if !same(token, g.token) {
		g.mu.Unlock()
		return session{}, false
	}
	g.token = secret()
	s := session{cookie: secret(), csrf: secret()}
	g.sessions = append(g.sessions, s)
	if len(g.sessions) > maxSessions {
		g.sessions = slices.Delete(g.sessions, 0, 1)
	}
	g.mu.Unlock()
	if g.entered != nil {
		g.entered(g.address())
	}
	return s, true
}

// known finds the session of a request.
func (g *guard) known(r *http.Request) (session, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found session
	ok := false
	for _, c := range r.CookiesNamed(g.cookieName()) {
		for _, s := range g.sessions {
			if same(c.Value, s.cookie) {
				found, ok = s, true
			}
		}
	}
	return found, ok
}

// headers are those of every answer. Nothing is allowed but our one script and
// one style, the stream and our forms; the browser keeps nothing.
func headers(h http.Header, host string) {
	own := "http://" + host
	h.Set("Content-Security-Policy", "default-src 'none'; script-src "+own+"/view.js; style-src "+own+"/view.css; img-src "+own+"/icon.svg; connect-src "+own+
		"; form-action "+own+"; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	for name, value := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store",
		// With no-referrer browsers would send forms without their origin.
		"Referrer-Policy":            "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy": "camera=(), geolocation=(), microphone=()",
		"Server":             ServerName,
	} {
		h.Set(name, value)
	}
}

// ServerName is how every answer says what gives it.
const ServerName = "bestof-view"

// open are the paths that anybody who may speak here at all may have.
var open = []string{"/view.css", "/view.js", "/icon.svg"}

// A refusal is the answer to a request that has no business here.
type refusal struct {
	status int
	words  string
	goOn   bool // the operator may have come by a link of another page
}

// protect lets through to next only what the operator's browser asks for.
func (g *guard) protect(next http.Handler, refuse func(http.ResponseWriter, *http.Request, refusal)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(g.hosts, r.Host) {
			// No page: whoever asks has another name for us, and is not told more.
			headers(w.Header(), g.hosts[0])
			http.Error(w, "this server has another name", http.StatusMisdirectedRequest)
			return
		}
		headers(w.Header(), r.Host)
		if r.URL.Path == "/enter" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			g.answerEnter(w, r, next, refuse)
			return
		}
		if no := g.strange(r); no.status != 0 {
			refuse(w, r, no)
			return
		}
		if slices.Contains(open, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		s, ok := g.known(r)
		if !ok {
			refuse(w, r, refusal{http.StatusUnauthorized, "Enter by the address that bestof view printed on the terminal. It works once; the next one is printed then.", true})
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			if no := g.forged(r, s); no.status != 0 {
				refuse(w, r, no)
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(withSession(r.Context(), s)))
	})
}

func (g *guard) answerEnter(w http.ResponseWriter, r *http.Request, next http.Handler, refuse func(http.ResponseWriter, *http.Request, refusal)) {
	if r.Method == http.MethodHead { // somebody looks before a person does: the token stays
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if _, known := g.known(r); !known {
		s, ok := g.enter(r.URL.Query().Get("token"))
		if !ok {
			refuse(w, r, refusal{http.StatusForbidden, "This address was used before, or is not one of ours. The terminal shows the one that works.", true})
			return
		}
		http.SetCookie(w, &http.Cookie{Name: g.cookieName(), Value: s.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		r = r.WithContext(withSession(r.Context(), s))
	}
	next.ServeHTTP(w, r)
}

// strange refuses what another origin made the browser ask.
func (g *guard) strange(r *http.Request) refusal {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return refusal{http.StatusForbidden, "Another page asked for this.", true}
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return refusal{http.StatusForbidden, "Another page asked for this.", true}
	}
	return refusal{}
}

// forged refuses what did not come from a form of ours.
func (g *guard) forged(r *http.Request, s session) refusal {
	if r.Header.Get("Origin") == "" {
		return refusal{http.StatusForbidden, "The browser does not say which page sent this.", false}
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/x-www-form-urlencoded" {
		return refusal{http.StatusUnsupportedMediaType, "This is not a form of ours.", false}
	}
	if err := r.ParseForm(); err != nil {
		return refusal{http.StatusBadRequest, "The form cannot be read.", false}
	}
	if !same(r.PostForm.Get("csrf"), s.csrf) {
		return refusal{http.StatusForbidden, "The form is not of this session: load its page again.", false}
	}
	return refusal{}
}
