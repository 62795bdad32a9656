package telemetry

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Lookup finds a variable of the environment.
type Lookup func(name string) (string, bool)

// settings are what the environment says, by the variables of OpenTelemetry's
// specification. The zero value is off.
type settings struct {
	traces   *url.URL // where they are sent; nil: they are off
	headers  map[string]string
	timeout  time.Duration // of one request
	roots    string        // a file of certificates in the PEM form; "" for the system's
	metrics  string        // address to listen on; "": they are off
	resource []attr
	parent   place // what all spans are part of; zero for nothing
}

// Bounds of what the environment may say.
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 5 * time.Minute
	maxValue       = 4096 // bytes of a header or an attribute
)

// read reads the environment. A variable that says something else than can be
// done is named in notices, and what it is about stays off: telemetry ends no
// run.
func read(look Lookup, version string) (s settings, notices []string) {
	get := func(name string) string {
		v, _ := look(name)
		return strings.TrimSpace(v)
	}
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") {
		return settings{}, nil
	}
	notice := func(format string, args ...any) { notices = append(notices, fmt.Sprintf(format, args...)) }
	if err := s.readTraces(get); err != nil {
		notice("traces are off: %v", err)
		s.traces = nil
	}
	switch exporter := get("OTEL_METRICS_EXPORTER"); exporter {
	case "", "none":
	case "prometheus":
		var err error
		if s.metrics, err = address(get("OTEL_EXPORTER_PROMETHEUS_HOST"), get("OTEL_EXPORTER_PROMETHEUS_PORT")); err != nil {
			notice("metrics are off: %v", err)
		}
	default:
		notice("metrics are off: OTEL_METRICS_EXPORTER is %q: write prometheus or none", shortened(exporter))
	}
	name := get("OTEL_SERVICE_NAME")
	attrs, err := pairs(get("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil && (s.traces != nil || s.metrics != "") {
		notice("OTEL_RESOURCE_ATTRIBUTES is not used: %v", err)
	}
	for _, a := range attrs {
		switch {
		case a[0] == "service.name" && name == "":
			name = a[1]
		case a[0] != "service.name" && a[0] != "service.version":
			s.resource = append(s.resource, attr{a[0], a[1]})
		}
	}
	if name == "" {
		name = "bestof"
	}
	s.resource = append([]attr{{"service.name", name}, {"service.version", version}}, s.resource...)
	if c, sampled, ok := parseParent(get("TRACEPARENT")); ok {
		if s.parent = c; !sampled {
			s.traces = nil // who asked does not record this
		}
	}
	return s, notices
}

// readTraces reads what is said about traces.
func (s *settings) readTraces(get func(string) string) error {
	either := func(name string) (value, from string) {
		for _, from := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if v := get(from); v != "" {
				return v, from
			}
		}
		return "", ""
	}
	endpoint, from := either("ENDPOINT")
	switch exporter := get("OTEL_TRACES_EXPORTER"); {
	case exporter == "none", exporter == "" && endpoint == "", get("OTEL_TRACES_SAMPLER") == "always_off":
		return nil
	case exporter != "" && exporter != "otlp":
		return fmt.Errorf("OTEL_TRACES_EXPORTER is %q: write otlp or none", shortened(exporter))
	}
	if protocol, from := either("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return fmt.Errorf("%s is %q: write http/protobuf", from, shortened(protocol))
	}
	if endpoint == "" {
		endpoint, from = "http://localhost:4318", "OTEL_EXPORTER_OTLP_ENDPOINT"
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s is no http or https URL", from) // which may have a password in it
	}
	if from == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		u = u.JoinPath("v1/traces")
	}
	s.traces, s.timeout, s.headers = u, defaultTimeout, map[string]string{}
	if v, from := either("TIMEOUT"); v != "" {
		ms, err := strconv.ParseInt(v, 10, 64)
		if err != nil || ms < 1 || ms > maxTimeout.Milliseconds() {
			return fmt.Errorf("%s is %q: write milliseconds, at most %d", from, shortened(v), maxTimeout.Milliseconds())
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	v, from := either("HEADERS")
	list, err := pairs(v)
	if err != nil {
		return fmt.Errorf("%s is no list of NAME=VALUE with commas between", from) // it may hold a key
	}
	for _, h := range list {
		if strings.ContainsAny(h[0]+h[1], "\r\n") || strings.Trim(h[0], headerName) != "" {
			return fmt.Errorf("%s has a header that cannot be sent", from)
		}
		s.headers[h[0]] = h[1]
	}
	s.roots, _ = either("CERTIFICATE")
	return nil
}

const headerName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// pairs reads NAME=VALUE,NAME=VALUE; values are encoded as in URLs.
func pairs(s string) (all [][2]string, err error) {
	if s == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		name = strings.TrimSpace(name)
		if !ok || name == "" || err != nil || len(name)+len(decoded) > maxValue {
			return nil, fmt.Errorf("it is no list of NAME=VALUE with commas between")
		}
		all = append(all, [2]string{name, decoded})
	}
	return all, nil
}

// address is where metrics are served: on this machine alone unless a host is
// named.
func address(host, port string) (string, error) {
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "9464"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", fmt.Errorf("OTEL_EXPORTER_PROMETHEUS_PORT is %q: write a number up to 65535", shortened(port))
	}
	if net.ParseIP(host) == nil && strings.Trim(host, headerName+".") != "" {
		return "", fmt.Errorf("OTEL_EXPORTER_PROMETHEUS_HOST is %q: write a name or an address", shortened(host))
	}
	return net.JoinHostPort(host, port), nil
}

func shortened(s string) string { return s[:min(len(s), 40)] }

// known is a word of a list, or "other": nothing but these words gets out.
func known[T ~string](word T, list []T) string {
	if slices.Contains(list, word) {
		return string(word)
	}
	return "other"
}

// named is the name of an agent or a job if it is a plain one, else "other":
// what is not may be a path, or a text.
func named(s string) string {
	if s == "" || len(s) > 40 || strings.Trim(s, headerName+".") != "" {
		return "other"
	}
	return s
}
