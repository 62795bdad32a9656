package view

import "golang.org/x/sys/unix"

// hideControlKeys keeps a terminal from writing "^C" into the table when that
// key is pressed, and returns what puts its mode back. A process in the
// background leaves the terminal alone: it would be stopped for touching it.
func hideControlKeys(stream any) (restore func()) {
	nothing := func() {}
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return nothing
	}
	fd := int(f.Fd())
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil || mode.Lflag&unix.ECHOCTL == 0 || !foreground(fd) {
		return nothing
	}
	old := *mode
	mode.Lflag &^= unix.ECHOCTL
	if unix.IoctlSetTermios(fd, unix.TCSETS, mode) != nil {
		return nothing
	}
	return func() {
		if foreground(fd) {
			_ = unix.IoctlSetTermios(fd, unix.TCSETS, &old) // a terminal that is gone has no mode
		}
	}
}

func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
