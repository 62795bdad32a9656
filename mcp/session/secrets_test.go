package session_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/mcp"
)

// A server that repeats what its entry gave it gives nothing away by that:
// neither in why it failed, nor in what an agent or the operator is told.
func TestHazardAServerRepeatsItsSecrets(t *testing.T) {
	tells := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{"jsonrpc": "2.0", "id": m.ID, "error": object{"code": -32000, "message": "bad token " + r.Header.Get("Authorization") + r.URL.Query().Get("api_key")}})
	}))
	defer tells.Close()
	long := strings.Repeat("y", 150) // a value must not be cut before it is hidden
	for name, server := range map[string]mcp.Server{
		"stderr": {Transport: mcp.Stdio, Cmd: "sh", Args: []string{"-c", `echo "bad token $API_TOKEN, ` + long + ` $SETTINGS" >&2; exit 3`},
			Env: map[string]string{"API_TOKEN": "hunter2hunter2", "SETTINGS": strings.Repeat("hunter2", 10)}},
		"argument": {Transport: mcp.Stdio, Cmd: "sh", Args: []string{"-c", `echo "bad token $1" >&2; exit 3`, "--token", "hunter2hunter2"}},
		"address":  {Transport: mcp.HTTP, URL: tells.URL + "/?api_key=hunter2hunter2"},
		"error":    {Transport: mcp.HTTP, URL: tells.URL, Headers: map[string]string{"Authorization": "Bearer hunter2hunter2"}},
	} {
		server.Name = "teller"
		f := connect(t, patient(), server).Failed()
		if len(f) != 1 || !strings.Contains(f[0].Words(), "bad token ") || strings.Contains(f[0].Words(), "hunter2") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	var told notices
	o := patient()
	o.Notice = told.add
	srv := server("good")
	srv.Env = map[string]string{"GORACE": "atexit_sleep_ms=0", "API_TOKEN": "secret hunter2"}
	if _, e := call(up(t, o, srv), "good", "die", ""); e == nil {
		t.Error("the tool that kills its server answered")
	}
	if said := told.String(); !strings.Contains(said, "dying of tool die, [redacted]") {
		t.Errorf("the operator was told %q", said)
	}
}
