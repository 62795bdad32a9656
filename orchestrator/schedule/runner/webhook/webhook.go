// Package webhook tells a server, once and signed, what happened: one POST of a
// JSON document, without following anybody anywhere.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The headers of a request. Signature is "t=UNIX,v1=HEX", where HEX is the
// HMAC-SHA256 of "UNIX.BODY": whoever checks it knows also when it was made.
// Delivery is the same for all tries of one document.
const (
	SignatureHeader = "Bestof-Signature"
	DeliveryHeader  = "Bestof-Delivery"
)

const (
	maxAnswer = 64 << 10
	maxWait   = time.Hour // that a server may ask for by Retry-After
)

// ErrForGood means that another try would end alike.
var ErrForGood = errors.New("it is not tried again")

// A Message is what is told.
type Message struct {
	URL      string
	Body     []byte // JSON
	Delivery string // a word without spaces
	Secret   string // signs; "" for no signature
}

// CheckURL refuses what is never sent to: anything but https, and http to this
// machine. A password in it is refused too, since jobs are shown.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return fmt.Errorf("webhook %q is no URL: write https://host/path", text)
	case u.User != nil:
		return errors.New("a webhook's URL holds no name or password: sign with a secret instead")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("webhook %s://%s: write https; http is for this machine alone", u.Scheme, u.Host)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// A Sender sends messages; NewSender makes it.
type Sender struct {
	Now     func() time.Time
	Timeout time.Duration // of one try
	client  http.Client
}

// NewSender makes one that reads no proxy from the environment, keeps no
// connection and follows no redirect.
func NewSender(now func() time.Time, timeout time.Duration) *Sender {
	return &Sender{Now: now, Timeout: timeout, client: http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second, DialContext: dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// dial connects. What is called localhost has to be this machine whatever a
// resolver says: what is sent there may be in plain text.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{}
	if host, _, err := net.SplitHostPort(address); err == nil && host == "localhost" {
		d.Control = onlyHere
	}
	return d.DialContext(ctx, network, address)
}

// onlyHere refuses an address, as IP:PORT, of another machine.
func onlyHere(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("localhost is %s, which is not this machine: nothing was sent", address)
	}
	return nil
}

// Send tries once. wait is how long the server asked to be left alone, 0 if it
// did not. An error that is ErrForGood is final; others may pass.
func (s *Sender) Send(ctx context.Context, m Message) (wait time.Duration, err error) {
	if err := CheckURL(m.URL); err != nil {
		return 0, errors.Join(err, ErrForGood)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return 0, errors.Join(err, ErrForGood)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "bestof")
	req.Header.Set(DeliveryHeader, m.Delivery)
	if m.Secret != "" {
		req.Header.Set(SignatureHeader, Sign(m.Secret, s.Now(), m.Body))
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("webhook: %w", withoutURL(err))
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // what it says matters to nobody
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return 0, nil
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500:
		return retryAfter(res.Header.Get("Retry-After")), fmt.Errorf("webhook: %s answered %d", req.URL.Host, code)
	case code >= 300 && code < 400:
		return 0, errors.Join(fmt.Errorf("webhook: %s answered %d, and redirects are not followed", req.URL.Host, code), ErrForGood)
	default:
		return 0, errors.Join(fmt.Errorf("webhook: %s answered %d", req.URL.Host, code), ErrForGood)
	}
}

// withoutURL is what went wrong, without the URL's path and query, which may be
// a secret of the server's.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads seconds; a date or nonsense is no answer.
func retryAfter(text string) time.Duration {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxWait)
}

// Sign is the value of the signature's header.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + ".")) // a hash does not fail
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
