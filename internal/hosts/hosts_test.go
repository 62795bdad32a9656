package hosts_test

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/internal/hosts"
)

func TestRules(t *testing.T) {
	for _, c := range []struct {
		rules, target string
		plain, want   bool
	}{
		{"api.example.com", "api.example.com:443", false, true},
		{"api.example.com", "API.Example.COM.:443", false, true},
		{"API.example.com.", "api.example.com:443", false, true},
		{"api.example.com", "api.example.com:80", true, true},
		{"api.example.com", "api.example.com:80", false, false}, // no tunnel to it
		{"api.example.com", "api.example.com:22", false, false},
		{"api.example.com:22", "api.example.com:22", false, true},
		{"api.example.com:22", "api.example.com:443", false, false},
		{"api.example.com:80", "api.example.com:80", false, true},
		{"example.com", "api.example.com:443", false, false},
		{"*.example.com", "api.example.com:443", false, true},
		{"*.example.com", "a.b.example.com:443", false, true},
		{"*.example.com", "example.com:443", false, false},
		{"*.example.com", "badexample.com:443", false, false},
		{"*.example.com", "example.com.evil.org:443", false, false},
		{"*.example.com:8443", "a.example.com:8443", false, true},
		{"a.example.com, b.example.com", "b.example.com:443", false, true},
		{"127.0.0.1:8080", "127.0.0.1:8080", false, true},
		{"localhost:8080", "127.0.0.1:8080", true, true},
		{"127.0.0.1:8080", "localhost:8080", true, true},
		{"127.0.0.1:8080", "127.0.0.2:8080", false, false},
		{"[::1]:8080", "[0:0:0:0:0:0:0:1]:8080", false, true},
		{"::1", "[::1]:443", false, true},
		{"2606:4700::1111", "[2606:4700::1111]:443", false, true},
	} {
		rules, err := hosts.ParseList(c.rules)
		if err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		target, err := hosts.ParseTarget(c.target, 0)
		if err != nil {
			t.Errorf("%s: %v", c.target, err)
			continue
		}
		got := false
		for _, r := range rules {
			got = got || r.Match(target, c.plain)
		}
		if got != c.want {
			t.Errorf("%s lets %s through (plain %v): %v", c.rules, c.target, c.plain, got)
		}
	}
}

func TestNotRules(t *testing.T) {
	for _, s := range []string{
		"", "*", "*.", "*.com", "*.*.example.com", "a.*.com", "https://api.example.com", "api.example.com/v1", "user@api.example.com",
		"api.example.com:0", "api.example.com:65536", "api.example.com:", "api.example.com:+443", "api.example.com:0443", "api.example.com:https",
		"a b.com", "a\n.com", "-a.com", "a-.com", "a..com", ".com", strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 130) + "com",
		"0.0.0.0", "[::]:80", "224.0.0.1", "*.127.0.0.1", "127.1", "0x7f000001", "2130706433", "::ffff:127.0.0.1", "fe80::1%eth0", "localhost.1", "ä.com", "a\x00b.com",
	} {
		if r, err := hosts.ParseList(s); err == nil {
			t.Errorf("%q is read as %v", s, r)
		}
	}
	for _, s := range []string{"api.example.com", "", ":443", "[::1]", "127.0.0.1"} {
		if got, err := hosts.ParseTarget(s, 0); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}

func TestNotPublic(t *testing.T) {
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255", "168.63.129.16",
		"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
		"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1",
		"2002:7f00:1::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1", "4000::1",
	} {
		if hosts.NotPublic(netip.MustParseAddr(s)) == "" {
			t.Errorf("%s is said to be the world's", s)
		}
	}
	if hosts.NotPublic(netip.Addr{}) == "" {
		t.Error("no address is said to be the world's")
	}
	for _, s := range []string{"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.167.0.1", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450::1"} {
		if why := hosts.NotPublic(netip.MustParseAddr(s)); why != "" {
			t.Errorf("%s is said to be of %s", s, why)
		}
	}
}

// TestARuleIsItsText: what String writes ParseRule reads as the same rule.
func TestARuleIsItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`(\*\.)?[a-z0-9-]{1,5}(\.[a-z]{1,3}){0,2}(:[1-9][0-9]{0,4})?|\[?[0-9a-f:]{2,8}\]?(:80)?|[0-9]{1,3}(\.[0-9]{1,3}){3}`).Draw(t, "rule")
		r, err := hosts.ParseRule(s)
		if err != nil {
			return
		}
		if again, err := hosts.ParseRule(r.String()); err != nil || again != r {
			t.Fatalf("%q is %+v, written %q, and then %+v, %v", s, r, r.String(), again, err)
		}
	})
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"a.example:443", "[::1]:1", "127.0.0.1:80", "a@b:1", "[::ffff:1.2.3.4]:443", "localhost.:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := hosts.ParseTarget(s, 0)
		if err != nil {
			return
		}
		if (target.Name == "") != target.Addr.IsValid() || target.Port == 0 || strings.ContainsAny(target.String(), " \r\n\x00/@%") {
			t.Errorf("%q is %+v", s, target)
		}
		if again, err := hosts.ParseTarget(target.String(), 0); err != nil || again != target {
			t.Errorf("%q is %+v and then %+v, %v", s, target, again, err)
		}
	})
}
