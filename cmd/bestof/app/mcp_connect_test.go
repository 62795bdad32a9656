package app

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bestof-dev/bestof/mcp"
	"github.com/bestof-dev/bestof/mcp/login"
	"github.com/bestof-dev/bestof/orchestrator"
)

// Who grants is told what a server wrote to stderr before it failed, and a
// command that can be pasted.
func TestWhatAHandshakeSays(t *testing.T) {
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer locked.Close()
	a, _, _, _ := operator(t, oneServer)
	for want, server := range map[string]mcp.Server{
		"it exited with status 3; it wrote to stderr: no licence": {Transport: mcp.Stdio, Cmd: "/bin/sh", Args: []string{"-c", "echo no licence >&2; exit 3"}},
		"run `bestof mcp login 'shop;ls'` first":                  {Transport: mcp.HTTP, URL: locked.URL},
	} {
		server.Name = "shop;ls"
		if _, err := a.mcpHandshake(t.Context(), server); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What nobody answered is no refusal.
func TestLoginErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{&net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}, orchestrator.ExitInfrastructure},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, orchestrator.ExitInfrastructure},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, orchestrator.ExitInfrastructure},
		{&os.PathError{Op: "write", Path: "p", Err: syscall.ENOSPC}, orchestrator.ExitInfrastructure},
		{login.ErrTimedOut, orchestrator.ExitTimedOut},
		{orchestrator.ErrInterrupted, orchestrator.ExitInterrupted},
		{errors.New("access_denied"), orchestrator.ExitRefused},
	} {
		if got := exitStatus(loginError(fmt.Errorf("log in: %w", c.err))); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// Nothing of a run may hold what an address hides.
func TestSecretsOfServers(t *testing.T) {
	a, _, _, _ := operator(t, oneServer)
	e := mcp.Entry{Server: mcp.Server{Name: "s", Transport: mcp.HTTP, URL: "https://h.example/mcp?api_key=hunter2hunter2"}}
	if got := a.secretsOf(&orchestrator.Servers{Entries: []mcp.Entry{e}}); !slices.Contains(got, "hunter2hunter2") {
		t.Errorf("%q", got)
	}
}

// What a login has to tell while a server is used is told.
func TestLoginsTellTheOperator(t *testing.T) {
	a, _, _, errs := operator(t, oneServer)
	a.mcpTokens().(*login.Source).Notice("it cannot be stored")
	if got := errs.String(); got != "bestof: it cannot be stored\n" {
		t.Errorf("%q", got)
	}
}
