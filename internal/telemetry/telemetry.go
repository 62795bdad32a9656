// Package telemetry tells other programs how runs go: traces to a collector of
// OpenTelemetry, metrics to whoever reads the text format of Prometheus. Both
// are off unless the environment asks for them, by the variables that
// OpenTelemetry specifies. It is fed from the events of runs, batches and jobs,
// and lets out nothing but numbers, words of fixed lists, ids of runs and plain
// names of agents and jobs: no text, no path, no variable.
//
// It does without the SDK of OpenTelemetry, whose exporters would make the
// program 40 % larger: what is sent is a handful of spans for each candidate.
package telemetry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// Bounds of what is kept until it is sent.
const (
	maxQueued  = 4096 // spans
	maxBatch   = 512  // spans of one request
	sendEvery  = 5 * time.Second
	farewell   = 2 * time.Second // for what is left when the program ends
	maxAnswer  = 64 << 10        // bytes that are read of an answer
	maxRoots   = 1 << 20         // bytes of a file of certificates
	headerWait = 5 * time.Second
)

// A Telemetry is what the environment asked for. A nil one is off, and all its
// methods do nothing.
type Telemetry struct {
	settings settings
	version  string
	numbers  *registry
	notice   func(string)

	queue   chan span // nil: no traces
	stop    context.CancelFunc
	work    sync.WaitGroup
	client  *http.Client
	failure string // the first one; of the goroutine that sends, and then of Close

	server *http.Server
	listen net.Listener
}

// Start reads the environment and begins what it asks for. It returns nil where
// that is nothing. notice is told, in one line each, what could not be done, by
// Start and by Close.
func Start(look Lookup, version string, notice func(string)) *Telemetry {
	s, notices := read(look, version)
	for _, n := range notices {
		notice("telemetry: " + n)
	}
	if s.traces == nil && s.metrics == "" {
		return nil
	}
	t := &Telemetry{settings: s, version: version, numbers: newRegistry(), notice: func(line string) { notice("telemetry: " + line) }}
	t.numbers.set(buildInfo, 1, version)
	if s.traces != nil {
		t.beginTraces()
	}
	if s.metrics != "" {
		t.beginMetrics()
	}
	if t.queue == nil && t.server == nil {
		return nil
	}
	return t
}

func (t *Telemetry) beginTraces() {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	if t.settings.roots != "" {
		pool, err := certificates(t.settings.roots)
		if err != nil {
			t.notice("traces are off: OTEL_EXPORTER_OTLP_CERTIFICATE: " + err.Error())
			return
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	t.client = &http.Client{
		Transport: transport, Timeout: t.settings.timeout,
		// The headers may have a key in them, for this server alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx, stop := context.WithCancel(context.Background()) // its end is Close's
	t.queue, t.stop = make(chan span, maxQueued), stop
	t.work.Go(func() { t.send(ctx) })
}

func certificates(file string) (*x509.CertPool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	pem, err := io.ReadAll(io.LimitReader(f, maxRoots))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in the PEM form", file)
	}
	return pool, nil
}

// emit hands a span over. It never waits: what does not fit is lost, and counted.
func (t *Telemetry) emit(s span) {
	if t.queue == nil {
		return
	}
	select {
	case t.queue <- s:
	default:
		t.numbers.add(spansLost, 1)
	}
}

// send sends what was emitted, now and then, until the context ends.
func (t *Telemetry) send(ctx context.Context) {
	defer t.client.CloseIdleConnections()
	ticker := time.NewTicker(sendEvery)
	defer ticker.Stop()
	var kept []span
	for {
		select {
		case s := <-t.queue:
			if kept = append(kept, s); len(kept) < maxBatch {
				continue
			}
		case <-ticker.C:
		case <-ctx.Done():
			for n := len(t.queue); n > 0; n-- {
				kept = append(kept, <-t.queue)
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			if left, err := t.flush(last, kept); len(left) > 0 {
				t.lose(left, err)
			}
			return
		}
		var err error
		kept, err = t.flush(ctx, kept)
		if over := len(kept) - (maxQueued - maxBatch); over > 0 {
			t.lose(kept[:over], err)
			kept = kept[over:]
		}
	}
}

// flush sends what is kept and returns what is to be sent again, with the
// reason: a collector that is away for a moment loses nothing.
func (t *Telemetry) flush(ctx context.Context, kept []span) ([]span, error) {
	for len(kept) > 0 {
		n := min(len(kept), maxBatch)
		err := t.post(ctx, kept[:n])
		var refused refusal
		switch {
		case errors.As(err, &refused) && !refused.again():
			t.lose(kept[:n], err)
		case err != nil:
			return kept, err
		}
		kept = kept[n:]
	}
	return nil, nil
}

// lose counts spans that are given up. Close tells of the first ones.
func (t *Telemetry) lose(lost []span, err error) {
	t.numbers.add(spansLost, float64(len(lost)))
	if t.failure == "" {
		t.failure = fmt.Sprintf("spans could not be sent to %s: %v", t.settings.traces.Host, reason(err))
	}
}

// reason is an error without the URL that was asked, which may hold a secret.
func reason(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// A refusal is an answer that is none of success.
type refusal int

func (r refusal) Error() string { return fmt.Sprintf("it answered with status %d", int(r)) }

// again reports whether the specification of OTLP wants it to be sent again.
func (r refusal) again() bool {
	return r == http.StatusTooManyRequests || r == http.StatusBadGateway || r == http.StatusServiceUnavailable || r == http.StatusGatewayTimeout
}

// post sends spans in one request.
func (t *Telemetry) post(ctx context.Context, spans []span) error {
	body := encode(t.settings.resource, t.version, spans)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.settings.traces.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "bestof/"+t.version)
	for name, value := range t.settings.headers {
		req.Header.Set(name, value)
	}
	answer, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // so that the connection can be used again
	if answer.StatusCode/100 != 2 {
		return refusal(answer.StatusCode)
	}
	return nil
}

func (t *Telemetry) beginMetrics() {
	var err error
	if t.listen, err = net.Listen("tcp", t.settings.metrics); err != nil {
		t.notice("metrics are off: " + err.Error())
		return
	}
	t.server = &http.Server{
		ReadHeaderTimeout: headerWait, WriteTimeout: headerWait, MaxHeaderBytes: 16 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" || r.Method != http.MethodGet {
				http.Error(w, "metrics are at GET /metrics", http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			_, _ = w.Write(t.numbers.text()) // who went away reads nothing
		}),
	}
	t.work.Go(func() { _ = t.server.Serve(t.listen) }) // it always ends with an error, that of Close
}

// Address is where metrics are served, "" if they are not.
func (t *Telemetry) Address() string {
	if t == nil || t.server == nil {
		return ""
	}
	return t.listen.Addr().String()
}

// Close sends what is left, for two seconds at most, and ends everything.
func (t *Telemetry) Close() {
	if t == nil {
		return
	}
	if t.stop != nil {
		t.stop()
	}
	if t.server != nil {
		_ = t.server.Close() // who reads just now reads again elsewhere
	}
	t.work.Wait()
	if t.failure != "" {
		t.notice(t.failure)
	}
}
