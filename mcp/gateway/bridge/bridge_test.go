package bridge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/gateway/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint serves h on a socket.
func endpoint(t *testing.T, h http.HandlerFunc) Config {
	t.Helper()
	c := Config{Socket: filepath.Join(t.TempDir(), "s"), Token: "the-token"}
	l, err := net.Listen("unix", c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	var done sync.WaitGroup
	done.Go(func() { s.Serve(l) })
	t.Cleanup(func() { s.Close(); done.Wait() })
	return c
}

func carry(t *testing.T, c Config, in string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Run(context.Background(), c, strings.NewReader(in), &out)
	return out.String(), err
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"

func TestWhatTheEndpointHears(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	c := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		msg, _ := wire.Parse(body)
		mu.Lock()
		heard = append(heard, strings.Join([]string{r.URL.Path, r.Host, r.Header.Get("Authorization"), msg.Method,
			r.Header.Get("Mcp-Session-Id"), r.Header.Get("Mcp-Protocol-Version"), r.Header.Get("Mcp-Method"), r.Header.Get("Mcp-Name")}, "|"))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if msg.ID == nil {
			w.WriteHeader(202)
			return
		}
		w.Header().Set("Mcp-Session-Id", "sess")
		w.Write(wire.AppendResult(nil, msg.ID, []byte(`{"protocolVersion":"2025-11-25"}`)))
	})
	c.Server = "docs"
	out, err := carry(t, c, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}
{"jsonrpc":"2.0","method":"notifications/initialized"}

{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"é","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	want := []string{
		"/mcp/docs|localhost|Bearer the-token|initialize||||",
		"/mcp/docs|localhost|Bearer the-token|notifications/initialized|sess|2025-11-25||",
		"/mcp/docs|localhost|Bearer the-token|tools/call||2026-07-28|tools/call|=?base64?w6k=?=",
	}
	if err != nil || strings.Join(heard, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v\n%s", err, strings.Join(heard, "\n"))
	}
	if out != `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}`+"\n"+`{"jsonrpc":"2.0","id":"a","result":{"protocolVersion":"2025-11-25"}}`+"\n" {
		t.Errorf("%s", out)
	}
}

func TestEveryRequestIsAnsweredWithOneLine(t *testing.T) {
	reply := func(status int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	result := `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		want string
	}{
		{"json over lines", reply(200, "application/json; charset=utf-8", "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"result\":{}}\n"), `{"jsonrpc":"2.0",  "id":1,"result":{}}` + "\n"},
		{"what others would refuse", reply(200, "application/json", result), result + "\n"},
		{"an error of the protocol", reply(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`), `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}` + "\n"},
		{"a stream", reply(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\ndata: "+result+"\n\n"), `{"jsonrpc":"2.0","method":"n"}` + "\n" + result + "\n"},
		{"a refusal", reply(401, "application/json", `{"error":"no"}`), `401 Unauthorized`},
		{"a stream that ends early", reply(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n"), `ended before its result`},
		{"a redirect", reply(307, "text/html", "x"), `307 Temporary Redirect`},
		{"nothing", reply(200, "", ""), `the endpoint answered 200 OK`},
		{"an echo of the token", reply(200, "", "the-token"), `***`},
		{"too much", reply(200, "application/json", strings.Repeat(" ", mcp.MaxLine+2)), `too long`},
	} {
		out, err := carry(t, endpoint(t, c.h), listing)
		if err != nil || !strings.Contains(out, c.want) || strings.Contains(out, "the-token") {
			t.Errorf("%s: %v\n%.300s", c.name, err, out)
		}
		if !strings.HasPrefix(c.want, "{") && strings.Count(out, `"id":1`) != 1 {
			t.Errorf("%s: not one answer\n%s", c.name, out)
		}
	}
}

func TestNoEndpoint(t *testing.T) {
	out, err := carry(t, Config{Socket: filepath.Join(t.TempDir(), "none"), Token: "the-token"}, listing)
	if err != nil || !strings.Contains(out, `"id":1,"error":{`) {
		t.Errorf("%v %s", err, out)
	}
	if _, err := carry(t, Config{}, ""); err == nil || !strings.Contains(err.Error(), "BESTOF_MCP_SOCKET") {
		t.Error(err)
	}
}

func TestWhatIsNoMessage(t *testing.T) {
	c := endpoint(t, func(w http.ResponseWriter, r *http.Request) { t.Error("it was sent") })
	for in, want := range map[string]string{
		"garbage\n": "-32700", "[]\n": "-32600", `{"jsonrpc":"2.0","id":[1],"method":"x"}` + "\n": "-32600",
		`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n": "",
	} {
		out, err := carry(t, c, in)
		if err != nil || !strings.Contains(out, want) || want == "" && out != "" {
			t.Errorf("%q: %v %s", in, err, out)
		}
	}
	if _, err := carry(t, c, strings.Repeat("x", mcp.MaxLine+100)); !errors.Is(err, wire.ErrTooLong) {
		t.Errorf("a line over the limit: %v", err)
	}
}

// In the era without sessions a request is canceled by hanging up; nothing is
// answered then.
func TestCancellationHangsUp(t *testing.T) {
	began, hungUp := make(chan struct{}), make(chan struct{})
	c := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
		close(hungUp)
	})
	in, feed := io.Pipe()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- Run(context.Background(), c, in, &out) }()
	io.WriteString(feed, listing)
	<-began
	io.WriteString(feed, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`+"\n")
	<-hungUp
	feed.Close()
	if err := <-done; err != nil || out.Len() != 0 {
		t.Errorf("%v %s", err, out.String())
	}
}

// One request that hangs holds up no other, and over the bound a request is
// refused rather than the input left unread.
func TestRequestsGoSideBySide(t *testing.T) {
	release := make(chan struct{})
	began := make(chan struct{}, maxAtOnce)
	c := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
	in, feed := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Run(context.Background(), c, in, outW); outW.Close() }()
	for range maxAtOnce {
		io.WriteString(feed, listing)
		<-began
	}
	go io.WriteString(feed, listing)
	first := make([]byte, 200)
	n, err := outR.Read(first)
	if err != nil || !strings.Contains(string(first[:n]), "32 requests are under way") {
		t.Errorf("%v %s", err, first[:n])
	}
	close(release)
	go feed.Close()
	rest, _ := io.ReadAll(outR)
	if err := <-done; err != nil || strings.Count(string(rest), "result") != maxAtOnce {
		t.Errorf("%v %d", err, strings.Count(string(rest), "result"))
	}
}

func TestAnOutputThatIsGoneEndsIt(t *testing.T) {
	c := endpoint(t, func(w http.ResponseWriter, r *http.Request) {})
	r, w := io.Pipe()
	r.Close()
	if err := Run(context.Background(), c, strings.NewReader("garbage\n"+listing), w); err == nil || !strings.Contains(err.Error(), "write the output") {
		t.Error(err)
	}
}
