package login

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// send writes parts to the listener, one by one, and reads the status.
func send(t *testing.T, l *listener, parts ...string) string {
	t.Helper()
	c, err := net.Dial("tcp4", l.host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, p := range parts {
		if _, err := io.WriteString(c, p); err != nil {
			return err.Error()
		}
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "HTTP/1.1 "))
}

func TestTheListenerTakesOneWholeAnswer(t *testing.T) {
	l, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	get := func(target, host string) string { return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	for what, c := range map[string]struct{ request, want string }{
		"another path":       {get("/", l.host), "404 Not Found"},
		"another host":       {get("/callback?state=x&code=y", "evil.example"), "404 Not Found"},
		"a POST":             {"POST /callback?state=x HTTP/1.1\r\nHost: " + l.host + "\r\nContent-Length: 0\r\n\r\n", "404 Not Found"},
		"no state":           {get("/callback?code=y", l.host), "400 Bad Request"},
		"a broken query":     {get("/callback?state=%zz", l.host), "400 Bad Request"},
		"not HTTP":           {"hello\r\n\r\n", "400 Bad Request"},
		"a header too large": {"GET /callback?state=" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\nHost: " + l.host + "\r\n\r\n", "431 Request Header Fields Too Large"},
	} {
		if got := send(t, l, c.request); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	// An answer that comes in pieces is read whole: half a state is none.
	whole := get("/callback?code=c&state=abcdef", l.host)
	for i := range 3 {
		got := send(t, l, whole[:20], whole[20:33], whole[33:])
		if want := []string{"200 OK", "409 Conflict", "409 Conflict"}[i]; got != want {
			t.Errorf("answer %d: %s, want %s", i+1, got, want)
		}
	}
	code, err := l.code(t.Context(), expected{state: "abcdef", issuer: "https://as"}, nil)
	if code != "c" || err != nil {
		t.Errorf("%q %v", code, err)
	}
}

func TestTheListenerIsOnThisMachineAlone(t *testing.T) {
	l, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(l.redirect, "http://127.0.0.1:") || !strings.HasSuffix(l.redirect, "/callback") {
		t.Error(l.redirect)
	}
	res, err := http.Get(l.redirect + "?state=x")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || strings.Contains(string(page), "x=") || res.Header.Get("Content-Security-Policy") == "" || res.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%v %s %v", err, page, res.Header)
	}
	l.close()
	if _, err := net.Dial("tcp4", l.host); err == nil {
		t.Error("it still listens")
	}
	_, port, _ := net.SplitHostPort(l.host)
	var n int
	_, _ = fmt.Sscan(port, &n)
	again, err := listen(n)
	if err != nil {
		t.Fatal(err)
	}
	again.close()
}

func TestWaitingForTheBrowserEnds(t *testing.T) {
	l, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := l.code(ctx, expected{}, nil); !errors.Is(err, stop) {
		t.Error(err)
	}
	broken := errors.New("broken")
	if _, err := l.code(t.Context(), expected{}, func(context.Context) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// FuzzAnswer holds for every query that a browser could bring: a code comes
// out only of an answer with the very state and the very issuer.
func FuzzAnswer(f *testing.F) {
	for _, q := range []string{"code=c&state=s", "code=c&state=s&iss=https%3A%2F%2Fas", "state=s&error=access_denied&error_description=%1b%5b2J", "code=c&state=s&state=t", "code=c&code=d&state=s", "state=s&code=", "iss=x&state=s&code=c"} {
		f.Add(q, true)
		f.Add(q, false)
	}
	f.Fuzz(func(t *testing.T, query string, advertised bool) {
		q, err := pastedQuery("http://127.0.0.1:1/callback?" + query)
		if err != nil {
			return
		}
		want := expected{state: "s", issuer: "https://as", iss: advertised}
		code, err := want.code(q)
		if err != nil {
			if len(err.Error()) > 2000 || code != "" {
				t.Fatalf("%q: an error of %d bytes, code %q", query, len(err.Error()), code)
			}
			return
		}
		if !same(q, "state", "s") || !same(q, "code", code) || code == "" || q.Has("error") || q.Has("iss") && !same(q, "iss", "https://as") || advertised && !q.Has("iss") {
			t.Fatalf("%q gave the code %q", query, code)
		}
	})
}

func same(q url.Values, name, value string) bool { return len(q[name]) == 1 && q[name][0] == value }

// FuzzChallenge holds for every WWW-Authenticate: reading it ends, and what it
// says is of a Bearer challenge.
func FuzzChallenge(f *testing.F) {
	for _, h := range []string{`Bearer resource_metadata="https://x", scope="a b"`, `Basic realm="x", Bearer error="insufficient_scope"`, `Bearer`, `"`, `Bearer a="\"`, `,,,`, `Bearer a=b,c`} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, header string) {
		params := bearer([]string{header})
		if len(params) > 0 && !strings.Contains(strings.ToLower(header), "bearer") {
			t.Fatalf("%q gave %v", header, params)
		}
	})
}
