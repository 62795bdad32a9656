package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// web NAME starts a server on this machine's loopback, puts its host:port into
// the variable NAME and its port into NAME_PORT. It says its name, and at
// /meet/N it answers when N have asked.
func cmdWeb(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: web NAME")
	}
	var m meeting
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello from ", args[0]) })
	mux.HandleFunc("/meet/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		select {
		case <-m.come(n):
		case <-r.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	ts.Defer(func() { server.CloseClientConnections(); server.Close() })
	at := strings.TrimPrefix(server.URL, "http://")
	ts.Setenv(args[0], at)
	ts.Setenv(args[0]+"_PORT", at[strings.LastIndexByte(at, ':')+1:])
}

// A meeting lets nobody go before all are there.
type meeting struct {
	mu   sync.Mutex
	here int
	all  chan struct{}
}

func (m *meeting) come(n int) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = make(chan struct{})
	}
	all := m.all
	if m.here++; m.here == n {
		close(m.all)
		m.all, m.here = nil, 0
	}
	return all
}
