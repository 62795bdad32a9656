package mcptest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/internal/proc"
)

// OverHTTP starts npm's server-everything on loopback, with path as its PATH,
// until the test ends, and gives its URL.
func OverHTTP(t testing.TB, path string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	p, err := proc.Start(proc.Command{
		Argv: []string{Program(t, "mcp-server-everything"), "streamableHttp"},
		Dir:  "/", Env: []string{"PATH=" + path, "PORT=" + port},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	log := bufio.NewScanner(p.Stderr)
	for log.Scan() && !strings.Contains(log.Text(), "listening on port") {
	}
	go func() { _, _ = io.Copy(io.Discard, p.Stderr) }()
	return "http://127.0.0.1:" + port + "/mcp"
}
