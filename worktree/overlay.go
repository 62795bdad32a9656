package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// How an overlay marks what it changes: in attributes that only root may
// write, or in the user's, for which the kernel turns redirects and
// metadata-only copies off by itself.
const (
	ownMarks  = "redirect_dir=off,metacopy=off"
	userMarks = "userxattr"
)

// mountOverlay makes target show lowers, the topmost first, under a private
// upper layer. Redirects and metadata-only copies are off, because a seal
// reads the upper layer on its own; "volatile" is off, because such an upper
// layer cannot be mounted again.
func mountOverlay(lowers []string, upper, work, target, options string) error {
	var escaped []string
	for _, l := range lowers {
		escaped = append(escaped, escapeOption(l, true))
	}
	options = fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,index=off,%s",
		strings.Join(escaped, ":"), escapeOption(upper, false), escapeOption(work, false), options)
	if len(options) >= os.Getpagesize() {
		return fmt.Errorf("mount overlay: the paths are too long: %d bytes", len(options))
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount overlay at %s: %w", target, err)
	}
	if err := unix.Mount("", target, "", unix.MS_PRIVATE, ""); err != nil {
		return errors.Join(fmt.Errorf("mount overlay at %s: make it private: %w", target, err), unmount(target))
	}
	return nil
}

// escapeOption protects what separates the options of a mount.
func escapeOption(path string, colon bool) string {
	path = strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(path)
	if colon {
		path = strings.ReplaceAll(path, ":", `\:`)
	}
	return path
}

// unmount takes a mount away even when a straggler still has a file open in
// it; nothing new can be opened there.
func unmount(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return nil
}

// mountsBelow lists the mount points at and below a directory, innermost
// first.
func mountsBelow(dir string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if at := unescapeMount(fields[4]); at == dir || strings.HasPrefix(at, dir+"/") {
			out = append(out, at)
		}
	}
	slices.Reverse(out) // later mounts lie on earlier ones
	return out, nil
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unmountBelow unmounts all that mountsBelow lists.
func unmountBelow(dir string) ([]string, error) {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if err := unmount(m); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// tryOverlay mounts an overlay in an empty directory.
func tryOverlay(tmp string) error {
	at := func(name string) string { return filepath.Join(tmp, name) }
	for _, name := range []string{"lower", "upper", "work", "root"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(at("lower/file"), []byte("x"), 0o600); err != nil {
		return err
	}
	if err := mountOverlay([]string{at("lower")}, at("upper"), at("work"), at("root"), ownMarks); err != nil {
		return err
	}
	// An upper layer that cannot keep a whiteout is mounted read-only.
	if err := os.Remove(at("root/file")); err != nil {
		return fmt.Errorf("delete in an overlay: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(at("upper/file"), &st); err != nil || !isWhiteout(&st) {
		return errors.New("an overlay here records deletions in a way that is not known")
	}
	return nil
}

// isWhiteout reports whether an entry of an upper layer hides a lower one.
func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}
