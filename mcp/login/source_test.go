package login

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/mcp/login/logintest"
	"github.com/bestof-dev/bestof/mcp/session"
)

func TestATokenIsReplacedBeforeItsEnd(t *testing.T) {
	s := start(t, logintest.Faults{})
	s.must(Options{})
	source := s.source()
	first := s.token(source)
	s.now = s.now.Add(time.Hour - 61*time.Second)
	if got := s.token(source); got != first {
		t.Error("a token was replaced long before its end")
	}
	s.now = s.now.Add(2 * time.Second)
	second := s.token(source)
	if second == first || !s.Good(second) {
		t.Errorf("%q is not another token", second)
	}
	s.now = s.now.Add(time.Hour) // with the rotated refresh token
	if third := s.token(s.source()); third == second || !s.Good(third) {
		t.Errorf("%q is not a third token", third)
	}
}

func TestARefreshTokenThatIsNotReplacedStays(t *testing.T) {
	s := start(t, logintest.Faults{NoRotation: true})
	s.must(Options{})
	source := s.source()
	for range 3 {
		s.now = s.now.Add(time.Hour)
		if !s.Good(s.token(source)) {
			t.Fatal("no token")
		}
	}
}

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	s := start(t, logintest.Faults{Lifetime: -1})
	s.must(Options{})
	source := s.source()
	first := s.token(source)
	s.Expire()
	refusal := session.Refusal{Token: first, Status: 401}
	second, err := source.Refused(t.Context(), s.server, refusal)
	if err != nil || second == first || !s.Good(second) {
		t.Fatalf("%q %v", second, err)
	}
	// Another session that still had the first one gets the second, unasked.
	if third, err := source.Refused(t.Context(), s.server, refusal); third != second || err != nil {
		t.Errorf("%q %v", third, err)
	}
	if n := s.Requests("POST /token"); n != 2 {
		t.Errorf("%d requests for tokens", n)
	}
}

// A refresh spends the old refresh token: whoever asked may leave, and the new
// one is still kept.
func TestACallerThatLeavesCostsNoLogin(t *testing.T) {
	s := start(t, logintest.Faults{})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	between := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.ParseForm() != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		res, err := http.PostForm(s.AS.URL+"/token", r.PostForm)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		if r.PostForm.Get("grant_type") == "refresh_token" {
			leave()
			<-left
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(res.StatusCode)
		io.Copy(rw, res.Body)
	}))
	defer between.Close()
	s.Set(logintest.Faults{TokenEndpoint: between.URL})
	s.must(Options{})
	s.now = s.now.Add(time.Hour)
	source := s.source()
	if token, err := source.Token(ctx, s.server); token != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %q %v", token, err)
	}
	close(left)
	if token := s.token(source); !s.Good(token) {
		t.Errorf("the next caller got %q", token)
	}
	if n := s.Requests("POST /token"); n != 2 {
		t.Errorf("%d requests for tokens", n)
	}
}

// Many callers of several processes, at the end of a token: one refreshes.
func TestOneOfManyRefreshes(t *testing.T) {
	s := start(t, logintest.Faults{})
	s.must(Options{})
	s.now = s.now.Add(time.Hour)
	sources := []*Source{s.source(), s.source()} // as two processes have
	tokens := make([]string, 16)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			token, err := sources[i%2].Token(t.Context(), s.server)
			if err != nil {
				t.Error(err)
			}
			tokens[i] = token
		})
	}
	all.Wait()
	slices.Sort(tokens)
	if tokens[0] != tokens[len(tokens)-1] || !s.Good(tokens[0]) {
		t.Errorf("%q", tokens)
	}
	if n := s.Requests("POST /token"); n != 2 {
		t.Errorf("%d requests for tokens", n)
	}
}

func TestALoginThatEndedAsksForAPerson(t *testing.T) {
	s := start(t, logintest.Faults{})
	s.must(Options{})
	s.now = s.now.Add(time.Hour)
	s.Set(logintest.Faults{RefreshStatus: 400, RefreshError: "invalid_grant"})
	source := s.source()
	for range 3 {
		if got := s.token(source); got != "" {
			t.Errorf("got %q", got)
		}
	}
	if n := s.Requests("POST /token"); n != 2 {
		t.Errorf("%d requests for tokens: a refused refresh is tried again", n)
	}
	if state, err := s.store.State(s.server, s.now); state != Expired || err != nil {
		t.Errorf("%v %v", state, err)
	}
	if got, err := source.Refused(t.Context(), s.server, session.Refusal{Status: 401}); got != "" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

func TestAnAuthorizationServerThatIsDownKeepsTheLogin(t *testing.T) {
	s := start(t, logintest.Faults{})
	s.must(Options{})
	s.now = s.now.Add(time.Hour)
	s.Set(logintest.Faults{RefreshStatus: 503})
	if _, err := s.source().Token(t.Context(), s.server); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), `"x"`) {
		t.Error(err)
	}
	s.Set(logintest.Faults{})
	if !s.Good(s.token(s.source())) {
		t.Error("no token after it came back")
	}
}

func TestATokenWithoutRenewalEnds(t *testing.T) {
	s := start(t, logintest.Faults{NoRefresh: true})
	if sum := s.must(Options{}); sum.Renews {
		t.Errorf("%+v", sum)
	}
	if state, err := s.store.State(s.server, s.now); state != Valid || err != nil {
		t.Errorf("%v %v", state, err)
	}
	s.now = s.now.Add(time.Hour)
	if got := s.token(s.source()); got != "" {
		t.Errorf("got %q", got)
	}
}

// More scopes need a person. What was wanted is asked for at the next login,
// together with what there was.
func TestMoreScopesAreAskedForAtTheNextLogin(t *testing.T) {
	s := start(t, logintest.Faults{Scope: "read"})
	s.must(Options{})
	source := s.source()
	token := s.token(source)
	for _, challenge := range []string{
		`Bearer error="insufficient_scope", scope="admin read"`,
		`Bearer error="insufficient_scope", scope="admin"`,
		`Bearer error="invalid_token", scope="other"`,
		`Basic scope="other"`, `Bearer "broken`,
	} {
		got, err := source.Refused(t.Context(), s.server, session.Refusal{Token: token, Status: 403, Challenge: []string{challenge}})
		if got != "" || err != nil {
			t.Errorf("%s: %q %v", challenge, got, err)
		}
	}
	if got := s.token(source); got != token {
		t.Error("the login is lost")
	}
	if sum := s.must(Options{}); sum.Scope != "read admin" {
		t.Errorf("%+v", sum)
	}
	if sum := s.must(Options{}); sum.Scope != "read" {
		t.Errorf("what was granted is wanted for ever: %+v", sum)
	}
}

// The command that is named can be pasted.
func TestWhatCannotBeStoredNamesOneCommand(t *testing.T) {
	told := ""
	source := NewSource(NewStore(t.TempDir()), time.Now)
	source.Notice = func(line string) { told += line }
	source.keep(record{Name: "shop;ls"}, syscall.EDQUOT)
	if !strings.Contains(told, "(`bestof mcp login 'shop;ls'`): disk quota exceeded") {
		t.Errorf("the operator was told %q", told)
	}
}

// A rotated token that cannot be written is still used: the old one is spent.
func TestNewTokensSurviveAFullDisk(t *testing.T) {
	s := start(t, logintest.Faults{})
	s.must(Options{})
	source := s.source()
	s.now = s.now.Add(time.Hour)
	source.save = func(record) error { return syscall.ENOSPC }
	var told []string
	source.Notice = func(line string) { told = append(told, line) }
	first := s.token(source)
	s.now = s.now.Add(time.Hour)
	second := s.token(source)
	source.save = s.store.put
	if !s.Good(first) || !s.Good(second) || first == second {
		t.Errorf("%q, then %q", first, second)
	}
	if len(told) != 1 || !strings.Contains(told[0], "cannot be stored, so you may have to log in again") || !strings.Contains(told[0], "no space left") {
		t.Errorf("the operator was told %q", told)
	}
	// Somebody logs in again: that counts.
	s.now = s.now.Add(time.Second)
	s.must(Options{})
	if third := s.token(source); third == second || !s.Good(third) {
		t.Errorf("%q after another login", third)
	}
}
