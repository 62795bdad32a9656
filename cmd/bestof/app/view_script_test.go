package app

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// A reader is the browser of a script on one `bestof view`, as people without
// JavaScript have it.
type reader struct {
	origin string
	client *http.Client
	page   string // that it has before it
}

type readerKey struct{}

// enter FILE opens, in a new browser, the address that is in the file.
func cmdEnter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: enter FILE")
	}
	u, err := url.Parse(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	jar, err := cookiejar.New(nil)
	ts.Check(err)
	r := ts.Value(readerKey{}).(*reader)
	*r = reader{origin: "http://" + u.Host, client: &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
	r.see(ts, http.MethodGet, u.RequestURI(), nil, http.StatusOK)
}

// open STATUS TEXT opens what is behind the link whose text begins so, or else
// the path, which must answer with the status. What it says is on stdout.
func cmdOpen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: open STATUS TEXT|PATH")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	r, to := ts.Value(readerKey{}).(*reader), args[1]
	link := regexp.MustCompile(`<a [^>]*href="([^"]*)"[^>]*>(?:<bdi>)?` + regexp.QuoteMeta(html.EscapeString(to))).FindStringSubmatch(r.page)
	if link != nil {
		to = html.UnescapeString(link[1])
	} else if !strings.HasPrefix(to, "/") {
		ts.Fatalf("the page has no link %q:\n%s", to, r.page)
	}
	r.see(ts, http.MethodGet, to, nil, status)
}

// press STATUS ANSWER sends the form of the page with one of its buttons.
func cmdPress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: press STATUS ANSWER")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	r, form := ts.Value(readerKey{}).(*reader), url.Values{"answer": {args[1]}}
	for _, m := range regexp.MustCompile(`type="hidden" name="([a-z]+)" value="([0-9a-f]+)"`).FindAllStringSubmatch(r.page, -1) {
		form.Set(m[1], m[2])
	}
	r.see(ts, http.MethodPost, "/confirm", form, status)
}

func (r *reader) see(ts *testscript.TestScript, method, path string, form url.Values, status int) {
	if r.client == nil {
		ts.Fatalf("no browser has entered")
	}
	q, err := http.NewRequest(method, r.origin+path, strings.NewReader(form.Encode()))
	ts.Check(err)
	if form != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Header.Set("Origin", r.origin)
	}
	answer, err := r.client.Do(q)
	ts.Check(err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	ts.Check(err)
	r.page = string(b)
	_, err = fmt.Fprintln(ts.Stdout(), html.UnescapeString(r.page))
	ts.Check(err)
	if answer.StatusCode != status {
		ts.Fatalf("%s %s answers %d, not %d:\n%s", method, path, answer.StatusCode, status, r.page)
	}
}
