package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// serve answers with handler and notes each request line.
func serve(t *testing.T, handler http.HandlerFunc) (*Client, *[]string, *[]time.Duration) {
	t.Helper()
	var lines []string
	var waited []time.Duration
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines = append(lines, r.URL.RequestURI()) // one request at a time
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := NewClient(s.URL+"/", func(_ context.Context, d time.Duration) error {
		waited = append(waited, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, &lines, &waited
}

func row(name, version, status string, latest bool) string {
	return fmt.Sprintf(`{"server":{"name":%q,"description":"d","version":%q},"_meta":{"io.modelcontextprotocol.registry/official":{"status":%q,"isLatest":%v,"publishedAt":"2026-01-02T03:04:05Z"}}}`, name, version, status, latest)
}

func TestSearchPagesThroughTheRegistry(t *testing.T) {
	var rows []string
	for i := range 130 {
		rows = append(rows, row(fmt.Sprintf("io.example/s%03d", i), "1.0.0", "active", true))
	}
	const step = 50 // the server may give less than was asked for
	c, lines, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("version") != "latest" || q.Get("search") != "exa mple" {
			t.Errorf("a filter is lost: %s", r.URL)
		}
		var at int
		fmt.Sscanf(q.Get("cursor"), "at:%d", &at)
		end := min(at+step, len(rows))
		next := ""
		if end < len(rows) {
			next = fmt.Sprintf(`,"nextCursor":"at:%d&x="`, end) // opaque, with characters that need escaping
		}
		fmt.Fprintf(w, `{"servers":[%s],"metadata":{"count":%d%s}}`, strings.Join(rows[at:end], ","), end-at, next)
	})
	for _, want := range []struct {
		limit, entries, requests int
		more                     bool
	}{{1000, 130, 3, false}, {130, 130, 3, false}, {60, 60, 2, true}, {5, 5, 1, true}} {
		*lines = nil
		found, err := c.Search(t.Context(), "  exa mple ", want.limit)
		if err != nil || len(found.Entries) != want.entries || found.More != want.more || len(*lines) != want.requests {
			t.Errorf("limit %d: %v, %d entries, more %v, %d requests", want.limit, err, len(found.Entries), found.More, len(*lines))
		}
	}
}

func TestSearchKeepsOneEntryOfEachName(t *testing.T) {
	c, _, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"servers":[%s,%s,%s,{"server":{"name":5}},{"server":{"name":"no slash"}},7],"metadata":{"nextCursor":null}}`,
			row("io.example/a", "1.10.0", "active", false), row("io.example/a", "1.2.0", "active", true), row("io.example/b", "1.0.0", "Deprecated", true))
	})
	found, err := c.Search(t.Context(), "example", 30)
	if err != nil || found.Unread != 3 || len(found.Entries) != 2 {
		t.Fatalf("%v %+v", err, found)
	}
	if e := found.Entries[0]; e.Server.Version != "1.2.0" || !e.Latest || e.Status != Active || e.Published.Year() != 2026 {
		t.Errorf("%+v", e)
	}
	if found.Entries[1].Status != Deprecated {
		t.Errorf("%+v", found.Entries[1])
	}
}

func TestAShortSearchIsNotSent(t *testing.T) {
	c, lines, _ := serve(t, func(http.ResponseWriter, *http.Request) {})
	for _, q := range []string{"", "ab", "  é1  "} {
		if _, err := c.Search(t.Context(), q, 30); !errors.Is(err, ErrShortQuery) {
			t.Errorf("%q: %v", q, err)
		}
	}
	if len(*lines) != 0 {
		t.Errorf("requests: %v", *lines)
	}
}

func TestARegistryThatTurnsInCircles(t *testing.T) {
	c, lines, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"servers":[],"metadata":{"nextCursor":"same"}}`)
	})
	if _, err := c.Search(t.Context(), "abc", 30); err == nil || !strings.Contains(err.Error(), "again and again") || len(*lines) != 2 {
		t.Errorf("%v after %d requests", err, len(*lines))
	}
	n := 0
	c, lines, _ = serve(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		fmt.Fprintf(w, `{"servers":[],"metadata":{"nextCursor":"c%d"}}`, n)
	})
	found, err := c.Search(t.Context(), "abc", 30)
	if err != nil || !found.More || len(*lines) != maxPages {
		t.Errorf("%v %+v after %d requests", err, found, len(*lines))
	}
}

func TestTheNameIsOneSegmentOfThePath(t *testing.T) {
	c, lines, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, row("io.example/a", "1.0.0+b", "active", true))
	})
	for _, version := range []string{"latest", "1.0.0+b"} {
		if _, err := c.Get(t.Context(), "io.example/a", version); err != nil {
			t.Error(err)
		}
	}
	want := []string{"/v0.1/servers/io.example%2Fa/versions/latest", "/v0.1/servers/io.example%2Fa/versions/1.0.0+b"}
	if !slices.Equal(*lines, want) {
		t.Errorf("%q", *lines)
	}
	for _, name := range []string{"a", "../a", "io.example/a/b", "io.example/a?x=y", ""} {
		if _, err := c.Get(t.Context(), name, "latest"); err == nil {
			t.Errorf("%q was looked up", name)
		}
	}
	if _, err := c.Get(t.Context(), "io.example/b", "latest"); err == nil || !strings.Contains(err.Error(), "answers with io.example/a") {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), "io.example/a", "2.0.0"); err == nil || !strings.Contains(err.Error(), `version "1.0.0+b"`) {
		t.Error(err)
	}
}

func TestADeletedServerSaysSo(t *testing.T) {
	c, lines, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("include_deleted") != "true" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, row("io.example/a", "1.0.0", "deleted", true))
	})
	e, err := c.Get(t.Context(), "io.example/a", "latest")
	if err != nil || e.Status != Deleted || len(*lines) != 2 {
		t.Errorf("%v %+v after %q", err, e, *lines)
	}
}

func TestTriesAgainWhereItMayHelp(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses []int
		retry    string
		waited   []time.Duration
		fails    string
	}{
		{"503 then fine", []int{503, 200}, "", []time.Duration{time.Second}, ""},
		{"429 with a wish", []int{429, 429, 200}, "7", []time.Duration{7 * time.Second, 7 * time.Second}, ""},
		{"429 with a long wish", []int{429, 200}, "86400", []time.Duration{maxWait}, ""},
		{"503 with no wish to wait", []int{503, 200}, "0", []time.Duration{time.Millisecond}, ""},
		{"500 for ever", []int{500, 500, 500, 500, 200}, "", []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, "500 Internal Server Error: it is: broken"},
		{"422", []int{422, 200}, "", nil, "422 Unprocessable Entity: it is: broken"},
		{"404", []int{404, 404, 200}, "", nil, ErrNotFound.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := c.statuses
			client, _, waited := serve(t, func(w http.ResponseWriter, r *http.Request) {
				status := left[0]
				left = left[1:]
				if c.retry != "" {
					w.Header().Set("Retry-After", c.retry)
				}
				if status != 200 {
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(status)
					fmt.Fprint(w, `{"title":"T","detail":"it is","errors":[{"message":"broken"}]}`)
					return
				}
				fmt.Fprint(w, row("io.example/a", "1.0.0", "active", true))
			})
			_, err := client.Get(t.Context(), "io.example/a", "latest")
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v, want %q", err, c.fails)
			}
			if !slices.Equal(*waited, c.waited) {
				t.Errorf("waited %v, want %v", *waited, c.waited)
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("a redirect to another place was followed")
	}))
	defer other.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"huge": {func(w http.ResponseWriter, r *http.Request) {
			chunk := []byte(strings.Repeat(" ", 1<<20))
			for range 9 {
				_, _ = w.Write(chunk)
			}
		}, "larger than 8 MiB"},
		"html":     {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") }, "cannot be read"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, 302) }, "not followed"},
	} {
		client, _, waited := serve(t, c.handler)
		if _, err := client.Search(t.Context(), "abc", 30); err == nil || !strings.Contains(err.Error(), c.want) || len(*waited) != 0 {
			t.Errorf("%s: %v after waits of %v", name, err, *waited)
		}
	}
}

func TestAddressesOfRegistries(t *testing.T) {
	for address, ok := range map[string]bool{
		DefaultURL: true, "https://r.example/base/": true, "http://127.0.0.1:8080": true, "http://localhost:1": true,
		"http://r.example": false, "ftp://r.example": false, "r.example": false, "https://a:b@r.example": false, "https://r.example?x=1": false, "": false,
	} {
		if _, err := NewClient(address, nil); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestWaitingEndsWithTheCommand(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if err := sleep(ctx, time.Hour); !errors.Is(err, stop) {
		t.Error(err)
	}
}
