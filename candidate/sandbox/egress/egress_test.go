package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/candidate/sandbox/egress"
	"github.com/bestof-dev/bestof/internal/hosts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a proxy for a program, with names and addresses of its own.
type world struct {
	names  map[string][]string // what a name resolves to, one answer a line of addresses
	asked  atomic.Int32        // how often a name was resolved
	dialed sync.Map            // addresses that were dialled
	server string              // where every dial ends up
	ledger egress.Ledger
	limits egress.Limits
	roots  *x509.CertPool
	proxy  *egress.Proxy
	socket string
}

func (w *world) open(t *testing.T, rules string) *world {
	t.Helper()
	var parsed []hosts.Rule
	if rules != "" {
		var err error
		if parsed, err = hosts.ParseList(rules); err != nil {
			t.Fatal(err)
		}
	}
	w.proxy = egress.New(egress.Config{
		Rules: parsed, Limits: w.limits, Ledger: &w.ledger, Roots: w.roots,
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			n := int(w.asked.Add(1)) - 1
			answers := w.names[name]
			if len(answers) == 0 {
				return nil, errors.New("no such host")
			}
			var to []netip.Addr
			for _, s := range strings.Fields(answers[min(n, len(answers)-1)]) {
				to = append(to, netip.MustParseAddr(s))
			}
			return to, nil
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			w.dialed.Store(to.String(), true)
			if w.server == "" {
				return nil, errors.New("refused")
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", w.server)
		},
	})
	w.socket = filepath.Join(t.TempDir(), "s")
	if err := w.proxy.Listen(w.socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.proxy.Close() })
	return w
}

func (w *world) dial(t *testing.T) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn)
}

// ask sends a head, and returns the status and the connection after it.
func (w *world) ask(t *testing.T, head string) (int, *net.UnixConn, *bufio.Reader) {
	t.Helper()
	c := w.dial(t)
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatalf("%.60q: %v", head, err)
	}
	return res.StatusCode, c, in
}

func connect(host string) string {
	return "CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
}

// echo answers in capitals when all was said.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				b, _ := io.ReadAll(c)
				c.Write(bytes.ToUpper(b))
			})
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return l.Addr().String()
}

func TestTunnel(t *testing.T) {
	w := (&world{names: map[string][]string{"api.example.com": {"1.1.1.1"}}, server: echo(t)}).open(t, "api.example.com")
	var group sync.WaitGroup
	for i := range 30 {
		code, c, in := w.ask(t, connect("API.example.com:443"))
		if code != http.StatusOK {
			t.Fatalf("status %d", code)
		}
		group.Go(func() {
			fmt.Fprintf(c, "hello %d", i)
			c.CloseWrite()
			if b, err := io.ReadAll(in); string(b) != fmt.Sprintf("HELLO %d", i) || err != nil {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
	group.Wait()
	w.proxy.Close()
	want := egress.Use{Host: "api.example.com", Port: 443, Allowed: true, Count: 30, Sent: 10*7 + 20*8, Received: 10*7 + 20*8}
	if got := w.ledger.Uses(); len(got) != 1 || got[0] != want {
		t.Errorf("kept %+v, want %+v", got, want)
	}
	if _, there := w.dialed.Load("1.1.1.1:443"); !there {
		t.Error("it was not dialled by its address")
	}
}

// TestNamesThatLeadHome: what a name resolves to counts, at the moment at which
// it is dialled and once.
func TestNamesThatLeadHome(t *testing.T) {
	for _, addrs := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16",
		"0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "fd00:ec2::254", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1",
		"10.0.0.1 127.0.0.1",
	} {
		w := (&world{names: map[string][]string{"evil.example.com": {addrs}}, server: echo(t)}).open(t, "*.example.com")
		if code, _, _ := w.ask(t, connect("evil.example.com:443")); code != http.StatusForbidden {
			t.Errorf("%s: status %d", addrs, code)
		}
		w.dialed.Range(func(to, _ any) bool { t.Errorf("%s: dialled %v", addrs, to); return true })
		w.proxy.Close()
		if got := w.ledger.Uses(); len(got) != 1 || got[0].Allowed || !strings.HasPrefix(got[0].Reason, "its name leads to ") {
			t.Errorf("%s: kept %+v", addrs, got)
		}
	}

	// One that has both: the world's is dialled and no other.
	w := (&world{names: map[string][]string{"both.example.com": {"10.0.0.1 1.1.1.1 ::1"}}, server: echo(t)}).open(t, "*.example.com")
	if code, _, _ := w.ask(t, connect("both.example.com:443")); code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	w.dialed.Range(func(to, _ any) bool {
		if to != "1.1.1.1:443" {
			t.Errorf("dialled %v", to)
		}
		return true
	})

	// One that changes its mind after it was judged.
	w = (&world{names: map[string][]string{"rebind.example.com": {"1.1.1.1", "127.0.0.1"}}, server: echo(t)}).open(t, "*.example.com")
	for i, want := range []int{http.StatusOK, http.StatusForbidden} {
		if code, _, _ := w.ask(t, connect("rebind.example.com:443")); code != want || int(w.asked.Load()) != i+1 {
			t.Errorf("status %d after %d resolutions", code, w.asked.Load())
		}
	}
	if _, there := w.dialed.Load("127.0.0.1:443"); there {
		t.Error("this machine was dialled")
	}
}

func TestWhatIsNotLetThrough(t *testing.T) {
	w := (&world{names: map[string][]string{"api.example.com": {"1.1.1.1"}, "other.example.com": {"1.1.1.1"}}, server: echo(t)}).
		open(t, "api.example.com,127.0.0.1:8080,*.deep.example.com")
	for head, want := range map[string]int{
		connect("other.example.com:443"):                                                   403,
		connect("api.example.com:22"):                                                      403,
		connect("api.example.com:80"):                                                      403,
		connect("127.0.0.1:8081"):                                                          403,
		connect("127.0.0.2:8080"):                                                          403,
		connect("[::1]:8080"):                                                              403,
		connect("deep.example.com:443"):                                                    403,
		connect("1.1.1.1:443"):                                                             403,
		connect("169.254.169.254:80"):                                                      403,
		connect("gone.deep.example.com:443"):                                               403,
		connect("[::ffff:127.0.0.1]:8080"):                                                 400,
		connect("127.1:8080"):                                                              400,
		connect("2130706433:8080"):                                                         400,
		connect("api.example.com"):                                                         400,
		connect("user@api.example.com:443"):                                                400,
		connect("api.example.com:443/"):                                                    400,
		connect("/api.example.com:443"):                                                    400,
		connect("api.example.com:0443"):                                                    400,
		connect("api.example.com:99999"):                                                   400,
		connect("api.example.com%00.evil:443"):                                             400,
		"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n":                                  400,
		"GET https://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n":           400,
		"GET http://u:p@api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n":        400,
		"GET http://api.example.com:8080/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n":       403,
		"GET http://other.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n":          403,
		"GET ftp://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n":             400,
		"GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n":     403,
		"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n":                             400,
		"CONNECT api.example.com:443 HTTP/1.1\r\nX: " + strings.Repeat("a", 64<<10) + "\r": 431,
	} {
		if code, _, _ := w.ask(t, head); code != want {
			t.Errorf("%.70q: status %d, want %d", head, code, want)
		}
	}
	w.dialed.Range(func(to, _ any) bool { t.Errorf("dialled %v", to); return true })
	for _, u := range w.ledger.Uses() {
		if u.Allowed || u.Reason == "" {
			t.Errorf("kept %+v", u)
		}
	}
	code, _, _ := w.ask(t, connect("127.0.0.1:8080"))
	if _, there := w.dialed.Load("127.0.0.1:8080"); !there || code != http.StatusOK {
		t.Errorf("what the operator named is answered %d", code)
	}
}

func TestPlainHTTP(t *testing.T) {
	got := make(chan *http.Request, 4)
	bodies := make(chan string, 4)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r
		bodies <- string(b)
		fmt.Fprint(rw, "answer")
	}))
	defer server.Close()
	w := (&world{names: map[string][]string{"api.example.com": {"1.1.1.1"}}, server: server.Listener.Addr().String()}).open(t, "api.example.com")
	transport := &http.Transport{
		Proxy:       http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", w.socket) },
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodPost, "http://api.example.com/a?b=c", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Connection": {"X-Drop"}, "X-Drop": {"1"}, "Proxy-Authorization": {"secret"}, "X-Keep": {"2"}, "Expect": {"100-continue"}}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if string(b) != "answer" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	r := <-got
	if body := <-bodies; body != "body" || r.RequestURI != "/a?b=c" || r.Host != "api.example.com" {
		t.Errorf("the server was asked %s of %s with %q", r.RequestURI, r.Host, body)
	}
	if r.Header.Get("X-Drop") != "" || r.Header.Get("Proxy-Authorization") != "" || r.Header.Get("X-Keep") != "2" {
		t.Errorf("it was given %v", r.Header)
	}

	// A second request on the connection is nobody's.
	c := w.dial(t)
	fmt.Fprintf(c, "GET http://api.example.com/1 HTTP/1.1\r\nHost: x\r\n\r\nGET http://api.example.com/2 HTTP/1.1\r\nHost: x\r\n\r\n")
	all, _ := io.ReadAll(c)
	if n := bytes.Count(all, []byte("HTTP/1.1 200")); n != 1 || len(got) != 1 {
		t.Errorf("%d answers, %d requests:\n%s", n, len(got), all)
	}
	if r := <-got; r.Host != "api.example.com" {
		t.Errorf("the server was asked for the host %s", r.Host)
	}
}

func TestBounds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := func(limits egress.Limits) *world {
		return (&world{names: map[string][]string{"a.example.com": {"1.1.1.1"}}, server: l.Addr().String(), limits: limits}).open(t, "a.example.com")
	}
	t.Run("slow heads", func(t *testing.T) {
		w := open(egress.Limits{HeaderTime: 20 * time.Millisecond, Connections: 1})
		c := w.dial(t)
		io.WriteString(c, "CONNECT a.example")
		if b, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 400 ")) {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("idle", func(t *testing.T) {
		w := open(egress.Limits{Idle: 20 * time.Millisecond})
		_, _, in := w.ask(t, connect("a.example.com:443"))
		if b, err := io.ReadAll(in); len(b) != 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("total", func(t *testing.T) {
		w := open(egress.Limits{Total: 20 * time.Millisecond})
		_, c, _ := w.ask(t, connect("a.example.com:443"))
		for {
			if _, err := c.Write([]byte("never idle")); err != nil {
				break
			}
		}
	})
	t.Run("bytes", func(t *testing.T) {
		w := open(egress.Limits{Bytes: 100})
		_, c, _ := w.ask(t, connect("a.example.com:443"))
		for {
			if _, err := c.Write(make([]byte, 60)); err != nil {
				break
			}
		}
		if code, _, _ := w.ask(t, connect("a.example.com:443")); code != http.StatusForbidden {
			t.Errorf("and then status %d", code)
		}
		w.proxy.Close()
		uses := w.ledger.Uses()
		if len(uses) != 2 || uses[0].Sent > 100 || uses[0].Reason == "" || uses[1].Reason != uses[0].Reason {
			t.Errorf("kept %+v", uses)
		}
	})
	t.Run("connections", func(t *testing.T) {
		w := open(egress.Limits{Connections: 2})
		var held []*net.UnixConn
		for range 2 {
			_, c, _ := w.ask(t, connect("a.example.com:443"))
			held = append(held, c)
		}
		c := w.dial(t)
		io.WriteString(c, connect("a.example.com:443"))
		if b, _ := io.ReadAll(c); len(b) != 0 {
			t.Errorf("the third is answered %q", b)
		}
		for _, c := range held {
			c.Close()
		}
	})
	t.Run("what is kept", func(t *testing.T) {
		w := open(egress.Limits{})
		for i := range 400 {
			w.ask(t, connect(fmt.Sprintf("n%d.example.com:443", i)))
		}
		uses, sum := w.ledger.Uses(), 0
		for _, u := range uses {
			sum += u.Count
		}
		if len(uses) > 257 || sum != 400 || !slices.ContainsFunc(uses, func(u egress.Use) bool { return u.Host == egress.Others && u.Count == 400-256 }) {
			t.Errorf("%d uses of %d requests", len(uses), sum)
		}
	})
}

func TestUnreachable(t *testing.T) {
	w := (&world{names: map[string][]string{"a.example.com": {"1.1.1.1"}}}).open(t, "a.example.com,b.example.com")
	if code, _, _ := w.ask(t, connect("a.example.com:443")); code != http.StatusBadGateway {
		t.Errorf("status %d", code)
	}
	if code, _, _ := w.ask(t, connect("b.example.com:443")); code != http.StatusForbidden {
		t.Errorf("a name that is not there: status %d", code)
	}
}

// TestOneTarget: a socket that leads to one host and says nothing itself.
func TestOneTarget(t *testing.T) {
	w := (&world{server: echo(t)}).open(t, "127.0.0.1:8080")
	for port, want := range map[uint16]string{8080: "HELLO", 8081: ""} {
		to := hosts.Target{Addr: netip.MustParseAddr("127.0.0.1"), Port: port}
		w.socket = filepath.Join(t.TempDir(), "s")
		if err := w.proxy.ListenTo(w.socket, to); err != nil {
			t.Fatal(err)
		}
		c := w.dial(t)
		io.WriteString(c, "hello")
		c.CloseWrite()
		if b, _ := io.ReadAll(c); string(b) != want {
			t.Errorf("port %d answers %q", port, b)
		}
	}
}

// TestBase: a service is offered as plain HTTP, and reached over TLS.
func TestBase(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, "%s %s of %s, key %s\n", r.Method, r.URL, r.Host, r.Header.Get("X-Key"))
		rw.(http.Flusher).Flush()
		if r.URL.Path == "/v1/stream" {
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for _, c := range []struct{ rules, base, want string }{
		{"example.com:443", "https://example.com/v1", "GET /v1/models?a=b of example.com, key k\n"}, // the name of the test's certificate
		{"example.com:443", "https://other.example.org/v1", "502"},
		{"127.0.0.1:443", "https://example.com/v1", "502"},
		{"example.net:443", "https://example.net/v1", "502"}, // another's certificate
	} {
		w := &world{names: map[string][]string{"example.com": {"1.1.1.1"}, "example.net": {"1.1.1.1"}, "other.example.org": {"1.1.1.1"}}, server: server.Listener.Addr().String()}
		w.roots = roots
		w.open(t, c.rules)
		socket := filepath.Join(t.TempDir(), "s")
		if err := w.proxy.ListenFor(socket, c.base); err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}
		get := func(path string) *http.Response {
			req, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:1"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Key", "k")
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		res := get("/models?a=b")
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if got := string(b); err != nil || got != c.want && c.want != fmt.Sprint(res.StatusCode) {
			t.Errorf("%s for %s: %d %q, %v", c.base, c.rules, res.StatusCode, got, err)
		}
		if c.want != "502" {
			for _, above := range []string{"/../admin", "/a/%2e%2e/%2e%2e/admin", "/a%2f..%2f..%2fadmin"} {
				res := get(above)
				said, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if res.StatusCode != http.StatusBadRequest {
					t.Errorf("%s leads above the base URL: %s", above, said)
				}
			}
			stream := get("/stream")
			if line, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil || line == "" {
				t.Errorf("a stream says %q, %v", line, err)
			}
			defer stream.Body.Close() // it is open when the proxy is closed
		}
		if err := w.proxy.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
		uses := w.ledger.Uses()
		if allowed := c.rules[:7] == c.base[8:15]; len(uses) == 0 || uses[0].Allowed != allowed || allowed && uses[0].Sent == 0 {
			t.Errorf("%s for %s: kept %+v", c.base, c.rules, uses)
		}
	}
	for _, bad := range []string{"", "example.com", "ftp://example.com", "https://", "https://u:p@example.com", "https://example.com?a", "https://example.com/#f", "https://127.1"} {
		if err := egress.New(egress.Config{}).ListenFor("/none", bad); err == nil || strings.Contains(err.Error(), "listen") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestClose: nothing is carried after it, and nobody waits for anybody.
func TestClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := (&world{names: map[string][]string{"a.example.com": {"1.1.1.1"}}, server: l.Addr().String()}).open(t, "a.example.com")
	_, _, in := w.ask(t, connect("a.example.com:443"))
	half := w.dial(t)
	io.WriteString(half, "CONNECT ")
	if err := w.proxy.Close(); err != nil {
		t.Error(err)
	}
	for _, r := range []io.Reader{in, half} {
		if b, _ := io.ReadAll(r); bytes.Contains(b, []byte("200")) {
			t.Errorf("%q", b)
		}
	}
	if _, err := net.Dial("unix", w.socket); err == nil {
		t.Error("it still listens")
	}
	if err := w.proxy.Listen(filepath.Join(t.TempDir(), "s")); err == nil {
		t.Error("it listens again")
	}
	if err := egress.New(egress.Config{Ledger: &w.ledger}).Listen("/" + strings.Repeat("x", 108)); err == nil || !strings.Contains(err.Error(), "shorter work directory") {
		t.Errorf("a long path: %v", err)
	}
}

// FuzzRequest: whatever a program sends, nothing is dialled but what is
// allowed.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{connect("a.example.com:443"), connect("b.example.com:443"), "GET http://a.example.com/ HTTP/1.0\r\n\r\n", "POST http://b.example.com HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "CONNECT [::1]:443 HTTP/1.1\r\n\r\n", "CONNECT a.example.com:443 HTTP/9.9\r\n\r\n"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	var n atomic.Int64
	f.Fuzz(func(t *testing.T, b []byte) {
		var ledger egress.Ledger
		p := egress.New(egress.Config{
			Rules: []hosts.Rule{{Name: "a.example.com"}}, Ledger: &ledger,
			Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
				if name != "a.example.com" {
					t.Errorf("%q was resolved", name)
				}
				return []netip.Addr{netip.MustParseAddr("1.1.1.1")}, nil
			},
			Dial: func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
				if s := to.String(); s != "1.1.1.1:443" && s != "1.1.1.1:80" {
					t.Errorf("%s was dialled", s)
				}
				return nil, errors.New("refused")
			},
		})
		socket := filepath.Join(dir, fmt.Sprint(n.Add(1)))
		if err := p.Listen(socket); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(b)
		c.(*net.UnixConn).CloseWrite()
		if all, _ := io.ReadAll(c); bytes.HasPrefix(all, []byte("HTTP/1.1 200")) {
			t.Errorf("answered %q", all)
		}
		c.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}
