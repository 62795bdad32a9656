// Package notify tells a service manager how a daemon is, in the words of
// sd_notify(3), over the socket that NOTIFY_SOCKET names.
package notify

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// What can be told.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
)

// A Socket is where a service manager listens. The zero value is nobody, who is
// told nothing.
type Socket struct{ conn *net.UnixConn }

// Open connects to the socket of a name: an absolute path, or @ and a name that
// is in no file system. Without a name there is nobody to tell.
func Open(name string) (Socket, error) {
	if name == "" {
		return Socket{}, nil
	}
	if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "@") || len(name) == 1 {
		return Socket{}, fmt.Errorf("NOTIFY_SOCKET is %q: it must be an absolute path, or begin with @", name)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return Socket{}, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return Socket{conn}, nil
}

// patience is how long a manager that does not listen is waited for.
const patience = 100 * time.Millisecond

// Tell sends lines, one of the constants or STATUS=text each. A manager that is
// gone, or that does not listen, keeps nobody waiting.
func (s Socket) Tell(lines ...string) error {
	if s.conn == nil {
		return nil
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := s.conn.Write([]byte(strings.Join(lines, "\n")))
	return err
}

// Close lets go of the socket.
func (s Socket) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

// Status is a line for people in what the manager shows of the daemon.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Watchdog is how often Alive must be told, half of what the manager waits, by
// WATCHDOG_USEC and WATCHDOG_PID; 0 when it does not wait, or for another
// process.
func Watchdog(usec, pid string, self int) time.Duration {
	n, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Microsecond) {
		return 0
	}
	if pid != "" && pid != strconv.Itoa(self) {
		return 0
	}
	return time.Duration(n) * time.Microsecond / 2
}
