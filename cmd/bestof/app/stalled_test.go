package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// stalled FILE serves an image, named in STALLED, whose only layer never comes
// to its end. FILE says "asked" when an engine is in the middle of it.
func cmdStalled(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: stalled FILE")
	}
	file := ts.MkAbs(args[0])
	digest := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	const kind = "application/vnd.docker.distribution.manifest.v2+json"
	layer := digest("never")
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[%q]}}`, layer)
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.docker.container.image.v1+json","size":%d,"digest":%q},`+
		`"layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","size":1048576,"digest":%q}]}`, kind, len(config), digest(config), layer)
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Docker-Content-Digest", digest(manifest))
			_, _ = w.Write([]byte(manifest))
		case strings.HasSuffix(r.URL.Path, digest(config)):
			_, _ = w.Write([]byte(config))
		case strings.HasSuffix(r.URL.Path, layer):
			w.Header().Set("Content-Length", "1048576")
			_, _ = w.Write(make([]byte, 4096))
			_ = http.NewResponseController(w).Flush()
			if err := os.WriteFile(file, []byte("asked\n"), 0o644); err != nil {
				ts.Logf("%v", err)
			}
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}
	}))
	ts.Defer(func() { close(stop); s.Close() })
	ts.Setenv("STALLED", strings.TrimPrefix(s.URL, "http://")+"/stalled/image:1")
}
