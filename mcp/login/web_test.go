package login

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// A server in the world may not send us to this machine or its network; one
// that is there itself may.
func TestPlacesThatAreAskedForAServer(t *testing.T) {
	local := []string{
		"https://localhost/x", "https://a.localhost", "https://printer.local/x", "https://vault.internal", "https://127.0.0.1", "https://127.1", "https://2130706433",
		"https://0x7f000001", "https://[::1]", "https://[::ffff:127.0.0.1]", "https://10.1.2.3", "https://172.16.0.1", "https://192.168.0.1", "https://169.254.169.254",
		"https://[fe80::1]", "https://[fd00::1]", "https://0.0.0.0", "https://255.255.255.255", "https://100.64.0.1", "https://192.0.2.1", "https://[64:ff9b::7f00:1]", "https://localhost.",
	}
	never := []string{
		"http://as.example", "ftp://as.example", "file:///etc/passwd", "javascript:alert(1)", "https://", "//as.example", "as.example", "",
		"https://user@as.example", "https://as.example/#x", "https:as.example", "http://localhost.evil.example",
	}
	for _, server := range []struct {
		url   string
		local bool
	}{{"https://mcp.example/mcp", false}, {"https://10.0.0.9/mcp", true}, {"https://mcp.internal/mcp", true}, {"http://127.0.0.1:8080/mcp", true}} {
		w, err := newWeb(server.url)
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range []string{"https://as.example", "https://as.example:8443/x?y=z", server.url} {
			if _, err := w.permit(address); err != nil {
				t.Errorf("%s: %s: %v", server.url, address, err)
			}
		}
		for _, address := range local {
			if _, err := w.permit(address); (err == nil) != server.local {
				t.Errorf("%s: %s: %v", server.url, address, err)
			}
		}
		for _, address := range never {
			if _, err := w.permit(address); err == nil {
				t.Errorf("%s: %q is asked", server.url, address)
			}
		}
	}
	w, err := newWeb("http://localhost:1/mcp")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.permit("http://127.0.0.1:2/x"); err != nil {
		t.Error(err)
	}
	if _, err := w.permit("http://10.0.0.1/x"); err == nil {
		t.Error("http beyond this machine")
	}
}

// What a name means is judged when it is dialled, and a server's own name may
// not turn local after it was not.
func TestNamesAreJudgedByTheirAddresses(t *testing.T) {
	socket, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	address := socket.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	dial := func(server string, where int32, to string) error {
		w, err := newWeb(server)
		if err != nil {
			t.Fatal(err)
		}
		w.where.Store(where)
		c, err := w.dial(t.Context(), "tcp4", to)
		if err == nil {
			c.Close()
			if !w.local() {
				t.Errorf("%s was dialled, and the server is not local", to)
			}
		}
		return err
	}
	for _, c := range []struct {
		server string
		where  int32
		to     string
		ok     bool
	}{
		{"https://mcp.example/mcp", unknown, address, false},
		{"https://mcp.example/mcp", public, "localhost:" + port, false},
		{"https://mcp.example/mcp", nearby, "localhost:" + port, true},
		{"https://localhost:" + port + "/mcp", unknown, "localhost:" + port, true},
		{"https://localhost:" + port + "/mcp", public, "localhost:" + port, false},
	} {
		err := dial(c.server, c.where, c.to)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "the server is not") {
			t.Errorf("%s (%d) dials %s: %v", c.server, c.where, c.to, err)
		}
	}
}

func TestAddressesOfTheWorld(t *testing.T) {
	for _, s := range []string{"1.1.1.1", "93.184.216.34", "2606:4700::1111", "172.32.0.1", "100.128.0.1", "198.20.0.1"} {
		if localAddr(netip.MustParseAddr(s)) {
			t.Errorf("%s is taken for local", s)
		}
	}
	for _, s := range []string{"as.example", "as.example.", "a.b.c", "1password.com", "local.example"} {
		if localName(s) {
			t.Errorf("%s is taken for local", s)
		}
	}
}

func TestResourcesAreWrittenOneWay(t *testing.T) {
	for in, want := range map[string]string{
		"https://MCP.Example/mcp/": "https://mcp.example/mcp", "https://x.example": "https://x.example", "https://x.example/": "https://x.example",
		"https://x.example/a%2Fb?c=d#e": "https://x.example/a%2Fb",
	} {
		w, err := newWeb(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := canonical(w.server); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
