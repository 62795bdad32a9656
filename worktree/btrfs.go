package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests of btrfs on the directory that a subvolume is, or will be, in.
const (
	btrfsSnapshot = 0x50009401
	btrfsCreate   = 0x5000940e
	btrfsDestroy  = 0x5000940f
)

// subvolume asks btrfs for one thing to do with the subvolume at a path; from
// is the descriptor of what a snapshot is taken of.
func subvolume(request uintptr, path string, from int) error {
	var args struct {
		fd   int64
		name [4088]byte
	}
	args.fd = int64(from)
	if name := filepath.Base(path); copy(args.name[:255], name) != len(name) {
		return fmt.Errorf("btrfs subvolume %s: %w", path, unix.ENAMETOOLONG)
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("btrfs subvolume %s: %w", path, err)
	}
	defer unix.Close(dir)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(dir), request, uintptr(unsafe.Pointer(&args))); errno != 0 {
		return fmt.Errorf("btrfs subvolume %s: %w", path, errno)
	}
	return nil
}

// mkTree makes the directory of a base's tree: on btrfs a subvolume, so that
// a snapshot can be taken of it.
func mkTree(path string) error {
	if isBtrfs(filepath.Dir(path)) && subvolume(btrfsCreate, path, 0) == nil {
		return nil
	}
	return os.Mkdir(path, 0o755)
}

func isBtrfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.BTRFS_SUPER_MAGIC
}

// snapshotTree makes a path a writable snapshot of a base's tree. It has the
// inodes and times of the base's files.
func snapshotTree(tree, path string) error {
	fd, err := unix.Open(tree, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return subvolume(btrfsSnapshot, path, fd)
}

// tryBtrfs takes a snapshot of a subvolume.
func tryBtrfs(dir string) error {
	if !isBtrfs(dir) {
		return errors.New("the file system is not btrfs")
	}
	at := filepath.Join(dir, "tree")
	if err := subvolume(btrfsCreate, at, 0); err != nil {
		return err
	}
	return snapshotTree(at, filepath.Join(dir, "root"))
}
