package bwrap

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

// The descriptors at which bwrap finds generated files; 3 is its report and 4
// its arguments.
const (
	passwdFD = "5"
	groupFD  = "6"
	filterFD = "7"
)

// essential directories are granted as they are, links as links; a program
// cannot start without them.
var essential = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// further system directories and the part of /etc that programs need to run at
// all. Keys, passwords and settings of people are not among them.
var further = []string{
	"/opt", "/nix/store", "/nix/var/nix/profiles", "/gnu/store",
	"/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf",
	"/etc/services", "/etc/protocols", "/etc/mime.types", "/etc/magic",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ca-certificates", "/etc/ca-certificates.conf",
	"/etc/pki/ca-trust", "/etc/pki/java", "/etc/pki/tls/cert.pem", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
	"/etc/localtime", "/etc/timezone", "/etc/os-release", "/etc/lsb-release", "/etc/debian_version",
	"/etc/terminfo", "/etc/fonts", "/etc/perl", "/etc/maven", "/etc/java*", "/etc/python*", "/etc/static",
}

// A mount is one thing to see.
type mount struct {
	source, target string
	link           bool // target is a symbolic link that says source
	write          bool
}

// flags are bwrap's words for mounts. The path checked and the path mounted
// are one: sources were resolved.
func flags(ms []mount) []string {
	var args []string
	for _, m := range ms {
		switch {
		case m.link:
			args = append(args, "--symlink", m.source, m.target)
		case m.write:
			args = append(args, "--bind", m.source, m.target)
		default:
			args = append(args, "--ro-bind", m.source, m.target)
		}
	}
	return args
}

func systemMounts(o sandbox.Options) ([]mount, error) {
	var ms []mount
	for _, p := range essential {
		fi, err := os.Lstat(p)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("bwrap: look for the system: %w", err)
		}
		if fi.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			if err != nil {
				return nil, fmt.Errorf("bwrap: look for the system: %w", err)
			}
			ms = append(ms, mount{source: to, target: p, link: true})
			continue
		}
		if o.Hides(p) {
			return nil, fmt.Errorf("bwrap: the system's %s is inside a hidden directory", p)
		}
		ms = append(ms, mount{source: p, target: p})
	}
	for _, pattern := range further {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("bwrap: %s: %w", pattern, err)
		}
		for _, p := range paths {
			if r, err := filepath.EvalSymlinks(p); err == nil && !o.Hides(p) {
				ms = append(ms, mount{source: r, target: p})
			}
		}
	}
	return ms, nil
}

// isolation is what holds for every run, whatever it may see.
func (s *Sandbox) isolation(n sandbox.Network) []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox",
	}
	if n == sandbox.NetworkNone {
		args = append(args, "--unshare-net")
	}
	return append(args, s.harden...)
}

// arguments lists everything that one run may see, general things first: a
// later mount covers an earlier one.
func (s *Sandbox) arguments(spec sandbox.Spec, dir string) ([]string, error) {
	grants := slices.Clone(s.system)
	for _, p := range slices.Concat(s.options.Read, s.tools.Read) {
		r, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue // it went away after New
		}
		grants = append(grants, mount{source: r, target: filepath.Clean(p)})
	}
	binds := spec.Binds
	for _, b := range binds {
		r, err := filepath.EvalSymlinks(b.Source)
		if err != nil {
			return nil, fmt.Errorf("bind %s: %w", b.Source, err)
		}
		grants = append(grants, mount{source: r, target: b.Target})
	}

	args := s.isolation(spec.Network)
	if s.filter {
		args = append(args, "--seccomp", filterFD)
	}
	// Settings of the kernel belong to root's uid, whatever its capabilities,
	// and a program of root has that uid: /proc must not be writable.
	args = append(args, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
	for _, d := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		args = append(args, "--perms", "1777", "--tmpfs", d)
	}
	args = append(args, "--tmpfs", "/run", "--symlink", "/run", "/var/run")

	masks := s.masks(grants)
	args = append(args, flags(grants)...)
	for _, m := range masks {
		if m.File {
			args = append(args, "--ro-bind", "/dev/null", m.Target)
		} else {
			args = append(args, "--perms", "0555", "--tmpfs", m.Target)
		}
	}
	args = append(args,
		"--perms", "0444", "--ro-bind-data", passwdFD, "/etc/passwd",
		"--perms", "0444", "--ro-bind-data", groupFD, "/etc/group")

	at := spec.Place()
	own := []mount{{source: spec.Root, target: at.Root, write: true}, {source: spec.Home, target: at.Home, write: true}}
	slices.SortFunc(own, func(a, b mount) int { return cmp.Compare(len(a.target), len(b.target)) })
	args = append(args, flags(own)...)
	home, err := os.OpenRoot(spec.HostHome())
	if err != nil {
		return nil, err
	}
	defer home.Close()
	for _, b := range s.tools.Home(at.Home) {
		if safeTarget(home, strings.TrimPrefix(b.Target, at.Home+"/")) {
			args = append(args, "--ro-bind", sandbox.Resolve(b.Source), b.Target)
		}
	}
	for _, m := range masks {
		if !m.File {
			args = append(args, "--remount-ro", m.Target)
		}
	}
	return append(args, "--remount-ro", "/", "--chdir", at.Root+strings.TrimPrefix(dir, spec.Root)), nil
}

// masks lists what of the hidden paths the grants would show.
func (s *Sandbox) masks(grants []mount) []sandbox.Mask {
	var shown []sandbox.Grant
	for _, g := range grants {
		if !g.link {
			shown = append(shown, sandbox.Grant{Source: g.source, Target: g.target})
		}
	}
	return s.options.Masks(shown)
}

// safeTarget reports whether a mount point inside home is no link that a
// program put there in an earlier run.
func safeTarget(home *os.Root, target string) bool {
	for at := target; at != "."; at = filepath.Dir(at) {
		if fi, err := home.Lstat(at); err == nil && fi.Mode()&os.ModeSymlink != 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
			return false
		}
	}
	return true
}

func (s *Sandbox) passwd(spec sandbox.Spec) []byte {
	b := fmt.Appendf(nil, "%s:x:%d:%d::%s:/bin/sh\n", s.options.User(), os.Geteuid(), os.Getegid(), spec.Place().Home)
	if os.Geteuid() != 0 {
		b = append(b, "root:x:0:0:root:/:/usr/sbin/nologin\n"...)
	}
	return append(b, "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"...)
}

func (s *Sandbox) group() []byte {
	b := fmt.Appendf(nil, "%s:x:%d:\n", s.options.User(), os.Getegid())
	if os.Getegid() != 0 {
		b = append(b, "root:x:0:\n"...)
	}
	return append(b, "nogroup:x:65534:\n"...)
}
