package webhook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sender(timeout time.Duration) *Sender {
	return NewSender(func() time.Time { return noon }, timeout)
}

// The value was made by `printf '1772366400.{"a":1}' | openssl dgst -sha256 -hmac key`.
func TestSign(t *testing.T) {
	const want = "t=1772366400,v1=90a64f88ebf606de162bfece044c01c80129bba6361c091018f52b4b50366e6b"
	if got := Sign("key", noon, []byte(`{"a":1}`)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSend(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	m := Message{URL: server.URL + "/hook?key=x", Body: []byte(`{"a":1}`), Delivery: "nightly/3", Secret: "key"}
	if _, err := sender(time.Minute).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.Header.Get("Content-Type") != "application/json" || got.Header.Get(DeliveryHeader) != "nightly/3" ||
		got.Header.Get(SignatureHeader) != Sign("key", noon, body) || string(body) != `{"a":1}` {
		t.Errorf("%s %v %s", got.Method, got.Header, body)
	}
	m.Secret = ""
	if _, err := sender(time.Minute).Send(t.Context(), m); err != nil || got.Header.Get(SignatureHeader) != "" {
		t.Errorf("%v, %v", err, got.Header)
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		code  int
		after string
		wait  time.Duration
		final bool
	}{
		{code: 500}, {code: 503, after: "7", wait: 7 * time.Second}, {code: 429, after: "99999999", wait: maxWait}, {code: 429, after: "soon"}, {code: 429, after: "-1"},
		{code: 400, final: true}, {code: 404, final: true}, {code: 302, final: true},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Retry-After", c.after)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.code)
		}))
		wait, err := sender(time.Minute).Send(t.Context(), Message{URL: server.URL, Body: []byte("{}")})
		server.Close()
		if err == nil || errors.Is(err, ErrForGood) != c.final || wait != c.wait || asked != 1 {
			t.Errorf("%d: %v, wait %s, asked %d times", c.code, err, wait, asked)
		}
	}
}

// Hazard: a server that says nothing, one that never ends, and an error that
// tells a secret URL.
func TestHazardServers(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flood" {
			for range 10_000 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
			t.Error("all of the flood was read")
			return
		}
		<-gone
	}))
	defer server.Close()
	defer close(gone)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sender(time.Minute).Send(ctx, Message{URL: server.URL + "/hang?key=s3cret", Body: []byte("{}")})
	if err == nil || errors.Is(err, ErrForGood) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
	if _, err := sender(time.Nanosecond).Send(t.Context(), Message{URL: server.URL + "/hang", Body: []byte("{}")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := sender(time.Minute).Send(t.Context(), Message{URL: server.URL + "/flood", Body: []byte("{}")}); err != nil {
		t.Errorf("%v", err)
	}
}

func TestCheckURL(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://example.org/x": true, "http://localhost:8080/": true, "http://127.0.0.1/": true, "http://[::1]:1/": true,
		"http://example.org/": false, "ftp://example.org": false, "example.org": false, "https://": false, "https://me:pw@example.org/": false,
		"file:///etc/passwd": false, "https:example.org": false, "http://127.0.0.1.example.org/": false, "\x00": false, "": false,
	} {
		if err := CheckURL(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Hazard: a resolver says that localhost is somewhere else.
func TestHazardLocalhostElsewhere(t *testing.T) {
	for address, fine := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "10.0.0.7:80": false, "[2001:db8::1]:80": false, "nonsense": false} {
		if err := onlyHere("tcp", address, nil); (err == nil) != fine {
			t.Errorf("%s: %v", address, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(t.Context(), "tcp4", net.JoinHostPort("localhost", port))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
