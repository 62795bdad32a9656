package runner

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SystemClock is the machine's: its alarm follows the time of day, also over a
// suspension of the machine.
func SystemClock() Clock { return Clock{Now: time.Now, Alarm: alarm} }

// alarm rings at a time of day, and when somebody sets the clock: then what is
// due is decided anew.
func alarm(at time.Time) (<-chan struct{}, func(), error) {
	if at.IsZero() {
		at = time.Now().AddDate(100, 0, 0)
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), "alarm")
	// A time of zero would mean no alarm at all.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, at.UnixNano()))}
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &spec, nil); err != nil {
		f.Close()
		return nil, nil, err
	}
	rings := make(chan struct{})
	go func() {
		var count [8]byte
		_, _ = f.Read(count[:]) // its time, ECANCELED when the clock was set, or closed
		close(rings)
	}()
	return rings, func() { _ = f.Close() }, nil
}

// watch tells when a file of the ledger in dir changes, by whomever. What
// changes while nobody listens is told once.
func watch(ctx context.Context, dir string) (<-chan struct{}, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch the ledger of jobs: %w", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		f.Close()
		return nil, fmt.Errorf("watch the ledger of jobs: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = f.Close() })
	changes := make(chan struct{}, 1)
	go func() {
		buf := make([]byte, 16<<10)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return // it was closed
			}
			if !aboutLedger(buf[:n]) {
				continue
			}
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}()
	return changes, nil
}

// aboutLedger reads events of inotify(7).
func aboutLedger(events []byte) bool {
	const head = int(unsafe.Sizeof(unix.InotifyEvent{}))
	for len(events) >= head {
		mask := binary.NativeEndian.Uint32(events[4:])
		length := int(binary.NativeEndian.Uint32(events[12:]))
		if length > len(events)-head {
			return true
		}
		name := strings.TrimRight(string(events[head:head+length]), "\x00")
		if mask&unix.IN_Q_OVERFLOW != 0 || strings.HasPrefix(filepath.Base(name), "jobs.db") {
			return true
		}
		events = events[head+length:]
	}
	return false
}
