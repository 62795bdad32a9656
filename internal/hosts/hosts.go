// Package hosts says which hosts may be reached: rules as an operator writes
// them, and what a program asks for. It is pure: it resolves nothing.
package hosts

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// A Rule lets through one host, or all names below one.
type Rule struct {
	Name  string     // in lower case without a dot at the end; "" for an address
	Below bool       // names that end in "."+Name, not Name itself
	Addr  netip.Addr // valid: exactly this address, wherever it is
	Port  uint16     // 0: 443, and 80 for plain HTTP
}

// A Target is what a program asks to be connected to.
type Target struct {
	Name string     // in lower case without a dot at the end; "" for an address
	Addr netip.Addr // valid for an address, and for localhost
	Port uint16
}

const (
	// HTTPS and HTTP are the ports of a rule that names none.
	HTTPS = 443
	HTTP  = 80

	maxName = 253 // RFC 1035, 2.3.4, as text
)

// label is RFC 1123's, with the underscore that some names have.
var label = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

// ParseList reads rules between commas: name, *.suffix, address, each with
// :port if it is another than 443.
func ParseList(list string) ([]Rule, error) {
	var rules []Rule
	for part := range strings.SplitSeq(list, ",") {
		r, err := ParseRule(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// ParseRule reads one rule.
func ParseRule(s string) (Rule, error) {
	bad := func(why string) (Rule, error) {
		return Rule{}, fmt.Errorf("%q is not a host: %s; write api.example.com, *.example.com or 127.0.0.1:8080", s, why)
	}
	rest, below := strings.CutPrefix(s, "*.")
	t, err := parse(rest, 0)
	switch {
	case err != nil:
		return bad(err.Error())
	case t.Addr.IsValid() && below:
		return bad("an address has nothing below it")
	case t.Addr.IsValid() && (t.Addr.IsUnspecified() || t.Addr.IsMulticast()):
		return bad("nothing can be reached there")
	case below && !strings.Contains(t.Name, "."):
		return bad("a suffix has a dot in it")
	}
	return Rule{Name: t.Name, Below: below, Addr: t.Addr, Port: t.Port}, nil
}

// ParseTarget reads host:port; without a port it is def, which 0 makes an
// error.
func ParseTarget(s string, def uint16) (Target, error) {
	t, err := parse(s, def)
	if err == nil && t.Port == 0 {
		err = errors.New("it has no port")
	}
	if err != nil {
		return Target{}, err
	}
	return t, nil
}

func parse(s string, def uint16) (Target, error) {
	if len(s) > maxName+8 {
		return Target{}, errors.New("it is too long")
	}
	host, port := s, def
	if addr, err := netip.ParseAddr(s); err == nil { // an address without a port, IPv6 included
		return target(addr, port)
	}
	if h, p, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != p {
			return Target{}, errors.New("its port is not a number from 1 to 65535")
		}
		host, port = h, uint16(n)
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return target(addr, port)
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" {
		return target(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	}
	if err := checkName(host); err != nil {
		return Target{}, err
	}
	return Target{Name: host, Port: port}, nil
}

func target(addr netip.Addr, port uint16) (Target, error) {
	if addr.Is4In6() || addr.Zone() != "" {
		return Target{}, errors.New("an address is written in its own family, without a zone")
	}
	return Target{Addr: addr, Port: port}, nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return errors.New("a name has 1 to 253 characters")
	}
	last := ""
	for part := range strings.SplitSeq(name, ".") {
		if !label.MatchString(part) {
			return errors.New("a name is made of letters, digits, - and dots")
		}
		last = part
	}
	// 127.1, 0x7f000001 and 2130706433 are addresses to some resolvers.
	if last[0] >= '0' && last[0] <= '9' {
		return errors.New("it is an address to some and a name to others")
	}
	return nil
}

// Match reports whether the rule lets the target through. plain says that it
// is asked for with plain HTTP and not for a tunnel.
func (r Rule) Match(t Target, plain bool) bool {
	if r.Port != t.Port && (r.Port != 0 || t.Port != HTTPS && (!plain || t.Port != HTTP)) {
		return false
	}
	switch {
	case r.Addr.IsValid() || t.Addr.IsValid():
		return r.Addr == t.Addr
	case r.Below:
		return strings.HasSuffix(t.Name, "."+r.Name)
	}
	return r.Name == t.Name
}

// String is the rule as ParseRule reads it.
func (r Rule) String() string {
	name := r.Name
	if r.Addr.IsValid() {
		name = r.Addr.String()
	} else if r.Below {
		name = "*." + name
	}
	return withPort(name, r.Addr, r.Port)
}

// Host is the name or the address.
func (t Target) Host() string {
	if t.Addr.IsValid() {
		return t.Addr.String()
	}
	return t.Name
}

func (t Target) String() string { return withPort(t.Host(), t.Addr, t.Port) }

func withPort(host string, addr netip.Addr, port uint16) string {
	if port == 0 {
		return host
	}
	if addr.Is6() {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}

// special are networks in which nothing of the world's is (the IANA registries
// of special-purpose addresses), with what is said of them.
var special = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this host"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's private network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "this machine"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's metadata"},
	{netip.MustParsePrefix("169.254.0.0/16"), "this link, where clouds have their metadata"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private network"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a special purpose"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private network"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "many hosts at once"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a special purpose"},
	{netip.MustParsePrefix("2001::/23"), "a special purpose"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2002::/16"), "a relay"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
}

// global is where IPv6 has addresses of the world. What is outside of it is
// loopback, link-local, unique local, mapped, translated (NAT64) or nothing.
var global = netip.MustParsePrefix("2000::/3")

// NotPublic says what an address is of when it is not the world's, and is ""
// when it is. An IPv4 address in IPv6 clothes is judged as what it is.
func NotPublic(addr netip.Addr) string {
	if !addr.IsValid() {
		return "nothing"
	}
	addr = addr.Unmap().WithZone("")
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.what
		}
	}
	if addr.Is6() && !global.Contains(addr) {
		return "a private or special network"
	}
	return ""
}
