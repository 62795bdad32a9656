package login

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/session"
)

// A Source gives sessions the tokens of stored logins, and gets new ones
// without a person as long as it can. It reads the store each time, so a login
// or logout of another process counts at once. It may be used concurrently.
type Source struct {
	Notice func(string) // one line for the operator; may be nil, set before the first use

	store *Store
	now   func() time.Time
	save  func(record) error

	mu      sync.Mutex
	unsaved map[string]record // logins whose new tokens could not be written
}

// NewSource gives tokens from a store.
func NewSource(store *Store, now func() time.Time) *Source {
	return &Source{store: store, now: now, save: store.put, unsaved: map[string]record{}}
}

var _ session.Tokens = (*Source)(nil)

// Token is the token to send to a server; "" when there is none that is worth
// sending. It is replaced up to a minute before its end.
func (s *Source) Token(ctx context.Context, server mcp.Server) (string, error) {
	r, ok, err := s.get(server)
	switch {
	case err != nil || !ok:
		return "", err
	case r.Access != "" && r.fresh(s.now()):
		return r.Access, nil
	case r.Refresh == "":
		return "", nil
	}
	return s.refresh(ctx, server, r.Access)
}

// Refused is asked once for another token after a server refused one. A 403
// that wants more scopes is remembered, and the next login asks for them.
func (s *Source) Refused(ctx context.Context, server mcp.Server, refusal session.Refusal) (string, error) {
	r, ok, err := s.get(server)
	if err != nil || !ok {
		return "", err
	}
	if refusal.Status == 403 {
		return "", s.stepUp(ctx, server, bearer(refusal.Challenge))
	}
	if r.Access != refusal.Token && r.Access != "" && r.fresh(s.now()) {
		return r.Access, nil // somebody else was faster
	}
	if r.Refresh == "" {
		return "", nil
	}
	return s.refresh(ctx, server, refusal.Token)
}

// stepUp notes the scopes of an insufficient_scope challenge. Only a person
// can agree to more, so there is no token.
func (s *Source) stepUp(ctx context.Context, server mcp.Server, challenge map[string]string) error {
	if challenge["error"] != "insufficient_scope" || challenge["scope"] == "" || len(challenge["scope"]) > 4096 {
		return nil
	}
	unlock, err := s.store.lock(ctx, server)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok, err := s.get(server)
	if err != nil || !ok {
		return err
	}
	if wanted := union(r.Wanted, challenge["scope"]); wanted != r.Wanted {
		r.Wanted = wanted
		return s.store.put(r)
	}
	return nil
}

// get prefers what could not be written.
func (s *Source) get(server mcp.Server) (record, bool, error) {
	stored, ok, err := s.store.get(server)
	if err != nil || !ok {
		return record{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.store.path(server.Name, server.URL, "")
	if r, kept := s.unsaved[key]; kept {
		if r.Since.Equal(stored.Since) {
			return r, true, nil
		}
		delete(s.unsaved, key) // somebody logged in again
	}
	return stored, true, nil
}

// refresh replaces the token old. One caller at a time does so, of all
// processes; the others find what it got. A caller that leaves does not end the
// exchange: the answer holds the only refresh token that is good after it.
func (s *Source) refresh(ctx context.Context, server mcp.Server, old string) (string, error) {
	unlock, err := s.store.lock(ctx, server)
	if err != nil {
		return "", err
	}
	var token string
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer unlock()
		token, err = s.exchange(context.WithoutCancel(ctx), server, old)
	}()
	select {
	case <-done:
		return token, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// exchange gets another token for old, unless somebody did already. The lock of
// the login is held.
func (s *Source) exchange(ctx context.Context, server mcp.Server, old string) (string, error) {
	r, ok, err := s.get(server)
	switch {
	case err != nil || !ok:
		return "", err
	case r.Access != old && r.Access != "" && r.fresh(s.now()):
		return r.Access, nil
	case r.Refresh == "":
		return "", nil
	}
	w, err := newWeb(server.URL)
	if err != nil {
		return "", err
	}
	w.place(r.Local)
	a, err := w.token(ctx, r.Token, r.Client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {r.Refresh}, "resource": {r.Resource}})
	if lost(err) {
		r.Access, r.Refresh = "", "" // so that nobody tries it again
		if err := s.store.put(r); err != nil {
			return "", err
		}
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("refresh the login of %q at %s: %w", server.Name, hostOf(r.Token), err)
	}
	r.take(a, s.now())
	if err := s.save(r); err != nil {
		s.keep(r, err)
	}
	return r.Access, nil
}

// keep has the new tokens of a login here as long as this process lives. The
// stored ones may be good for nothing any more, which is said once.
func (s *Source) keep(r record, why error) {
	s.mu.Lock()
	key := s.store.path(r.Name, r.URL, "")
	_, told := s.unsaved[key]
	s.unsaved[key] = r
	s.mu.Unlock()
	if !told && s.Notice != nil {
		s.Notice(fmt.Sprintf("the new tokens of %q cannot be stored, so you may have to log in again (`bestof mcp login %s`): %v", r.Name, mcp.QuotedWord(r.Name), why))
	}
}

// take puts new tokens into a login. A refresh token that is not replaced
// stays.
func (r *record) take(a answer, now time.Time) {
	r.Access, r.Expires = a.Access, time.Time{}
	if a.Expires > 0 {
		r.Expires = now.Add(a.Expires).UTC()
	}
	if a.Refresh != "" {
		r.Refresh = a.Refresh
	}
	if a.Scope != "" {
		r.Scope = a.Scope
	}
}

// union is the scopes of all lists, each once.
func union(lists ...string) string {
	var out []string
	seen := map[string]bool{}
	for _, list := range lists {
		for _, scope := range strings.Fields(list) {
			if !seen[scope] {
				seen[scope] = true
				out = append(out, scope)
			}
		}
	}
	return strings.Join(out, " ")
}
