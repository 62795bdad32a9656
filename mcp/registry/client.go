package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultURL is the public registry.
const DefaultURL = "https://registry.modelcontextprotocol.io"

// ErrNotFound means that the registry has no such server or version.
var ErrNotFound = errors.New("the registry has no such server")

// ErrShortQuery means that a search was not sent: registries refuse words of
// less than three characters.
var ErrShortQuery = errors.New("a search needs at least 3 characters, which have to stand in the server's name")

var errRedirect = errors.New("it redirects to")

const (
	requestTimeout = 30 * time.Second
	maxTries       = 4
	maxWait        = 20 * time.Second // between two tries
	maxPages       = 50
)

// A Client reads one registry. It sends no credentials.
type Client struct {
	base *url.URL
	http *http.Client
	wait func(context.Context, time.Duration) error
}

// NewClient returns a client of the registry at base. wait passes the time
// between two tries; nil is the real clock.
func NewClient(base string, wait func(context.Context, time.Duration) error) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the registry's address %q is not one: write for example %s", base, DefaultURL)
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())):
		return nil, fmt.Errorf("the registry's address %q does not begin with https://", base)
	}
	if wait == nil {
		wait = sleep
	}
	return &Client{base: u, wait: wait, http: &http.Client{
		Timeout: requestTimeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 3 || r.URL.Scheme != u.Scheme || r.URL.Host != u.Host {
				return fmt.Errorf("%w %q, which is not followed", errRedirect, r.URL.Redacted())
			}
			return nil
		},
	}}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A Found is what a search gave.
type Found struct {
	Entries []Entry // one of each name, in the registry's order
	More    bool    // the registry has more than was asked for
	Unread  int     // elements that are no entries
}

// Search lists at most limit servers whose names contain the query, each in
// its latest version.
func (c *Client) Search(ctx context.Context, query string, limit int) (Found, error) {
	query = strings.TrimSpace(query)
	if len([]rune(query)) < 3 {
		return Found{}, fmt.Errorf("search for %q: %w", query, ErrShortQuery)
	}
	var found Found
	index := map[string]int{}
	cursor, seen := "", map[string]bool{}
	for n := 0; ; n++ {
		if n == maxPages {
			found.More = true
			return found, nil
		}
		q := url.Values{"version": {"latest"}, "search": {query}, "limit": {strconv.Itoa(min(limit, maxPerRow))}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		body, err := c.get(ctx, []string{"v0.1", "servers"}, q)
		if err != nil {
			return found, fmt.Errorf("search for %q: %w", query, err)
		}
		p, err := decodePage(body)
		if err != nil {
			return found, fmt.Errorf("search for %q: %w", query, err)
		}
		found.Unread += p.unread
		for _, e := range p.entries {
			if i, ok := index[e.Server.Name]; ok {
				if e.Latest && !found.Entries[i].Latest {
					found.Entries[i] = e
				}
				continue
			}
			if len(found.Entries) == limit {
				found.More = true
				return found, nil
			}
			index[e.Server.Name] = len(found.Entries)
			found.Entries = append(found.Entries, e)
		}
		if p.next == "" {
			return found, nil
		}
		if seen[p.next] {
			return found, fmt.Errorf("search for %q: the registry gives the same page again and again", query)
		}
		seen[p.next] = true
		cursor = p.next
	}
}

// Get looks one version of a server up; "latest" is the newest.
func (c *Client) Get(ctx context.Context, name, version string) (Entry, error) {
	if err := CheckName(name); err != nil {
		return Entry{}, err
	}
	path := []string{"v0.1", "servers", name, "versions", version}
	body, err := c.get(ctx, path, nil)
	if errors.Is(err, ErrNotFound) { // a deleted one is not shown unasked, and says why
		body, err = c.get(ctx, path, url.Values{"include_deleted": {"true"}})
	}
	if err != nil {
		return Entry{}, fmt.Errorf("look up %s (%s): %w", name, version, err)
	}
	e, err := decodeEntry(body)
	switch {
	case err != nil:
		return Entry{}, fmt.Errorf("look up %s (%s): %w", name, version, err)
	case e.Server.Name != name:
		return Entry{}, fmt.Errorf("look up %s: the registry answers with %s", name, e.Server.Name)
	case version != "latest" && e.Server.Version != version:
		return Entry{}, fmt.Errorf("look up %s %s: the registry answers with version %q", name, version, e.Server.Version)
	}
	return e, nil
}

// get sends one request, again where it may help, and returns the body.
// Each segment of the path is escaped whole: a slash in it is %2F.
func (c *Client) get(ctx context.Context, segments []string, query url.Values) ([]byte, error) {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	u := *c.base
	u.RawPath = strings.TrimRight(c.base.EscapedPath(), "/") + "/" + strings.Join(escaped, "/")
	u.Path, _ = url.PathUnescape(u.RawPath)
	u.RawQuery = query.Encode()
	for try := 1; ; try++ {
		body, again, err := c.once(ctx, u.String(), try)
		if err == nil || again == 0 || try == maxTries || ctx.Err() != nil {
			return body, err
		}
		if err := c.wait(ctx, again); err != nil {
			return nil, err
		}
	}
}

// once sends one request. A positive again is how long to wait before
// another try may help.
func (c *Client) once(ctx context.Context, address string, try int) (body []byte, again time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", "application/json, application/problem+json")
	r.Header.Set("User-Agent", "bestof")
	backoff := time.Second << (try - 1)
	res, err := c.http.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		if errors.Is(err, errRedirect) {
			backoff = 0
		}
		return nil, backoff, fmt.Errorf("the registry at %s cannot be reached: %w", c.base.Host, err)
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, backoff, fmt.Errorf("the registry's answer broke off: %w", err)
	case len(body) > maxBody:
		return nil, 0, fmt.Errorf("the registry's answer is larger than %d MiB", maxBody>>20)
	case res.StatusCode == http.StatusOK:
		return body, 0, nil
	case res.StatusCode == http.StatusNotFound:
		return nil, 0, ErrNotFound
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500 {
		again = backoff
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s >= 0 {
			again = max(time.Millisecond, min(time.Duration(min(s, 3600))*time.Second, maxWait))
		}
	}
	return nil, again, fmt.Errorf("the registry answers %s%s", res.Status, problem(body))
}

// problem is what a problem document (RFC 9457) says, as ": text".
func problem(body []byte) string {
	var p struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &p) != nil {
		return ""
	}
	parts := []string{p.Detail}
	if p.Detail == "" {
		parts[0] = p.Title
	}
	for _, e := range p.Errors[:min(len(p.Errors), 3)] {
		parts = append(parts, e.Message)
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, ": ")
	if r := []rune(text); len(r) > 300 {
		text = string(r[:300]) + "…"
	}
	return ": " + text
}
