package worktree

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/proc"
)

// A holder is a process that owns a user and a mount namespace with overlays
// in it, and maybe a network namespace with nothing but a loopback. They live
// as long as it does, or as anything that entered them.
type holder struct {
	cmd     *exec.Cmd
	input   io.Closer // its end is the holder's
	offline bool      // it has a network namespace
	once    sync.Once
}

// A holding is what a holder is to do.
type holding struct {
	Mounts  []layers
	Offline bool
}

// A layers is one overlay to mount.
type layers struct {
	Lowers              []string
	Upper, Work, Target string
}

// holderCaps are what mounting needs, and what an overlay then does on its
// user's behalf, such as writing into its work directory, which has no mode.
var holderCaps = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_MKNOD,
}

// holderName is what a holder calls itself.
const holderName = "bestof-mounts"

// holds says that this program's main calls HoldMounts, so that running it
// again gives a holder and not the program.
var holds atomic.Bool

// HoldMounts has to be the first thing a program does that wants shadows of
// kind userns: they are held by the program itself, started anew. In such a
// process it returns true when its work is done, and main should return.
func HoldMounts() bool {
	holds.Store(true)
	if len(os.Args) != 1 || os.Args[0] != holderName {
		return false
	}
	if err := hold(os.Stdin); err != nil {
		fmt.Println(err)
		return true
	}
	fmt.Println("ok")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

func hold(in io.Reader) error {
	var todo holding
	if err := gob.NewDecoder(in).Decode(&todo); err != nil {
		return fmt.Errorf("hold mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("hold mounts: %w", err)
	}
	for _, m := range todo.Mounts {
		if err := mountOverlay(m.Lowers, m.Upper, m.Work, m.Target, userMarks); err != nil {
			return err
		}
	}
	if todo.Offline {
		if err := proc.RaiseLoopback(); err != nil {
			return fmt.Errorf("hold mounts: bring up the loopback: %w", err)
		}
	}
	return nil
}

// startHolder mounts overlays in namespaces of their own. Everybody is there
// who they are here, and nobody else is: what programs leave belongs to the
// user. A program that enters has no capability, unless it is root's: the
// holder alone has them.
func startHolder(mounts []layers, offline bool) (*holder, error) {
	if !holds.Load() {
		return nil, errors.New("this program does not hold mounts: its main does not call HoldMounts")
	}
	uid, gid := os.Geteuid(), os.Getegid()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{holderName}, Env: []string{}, Dir: "/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: holderCaps,
	}
	if offline {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	h := &holder{cmd: cmd, input: in, offline: offline}
	err = gob.NewEncoder(in).Encode(holding{mounts, offline})
	answer, rerr := bufio.NewReader(io.LimitReader(out, 4096)).ReadString('\n')
	if answer == "ok\n" && err == nil {
		return h, nil
	}
	h.stop()
	if answer = strings.TrimSpace(answer); answer == "" {
		return nil, fmt.Errorf("hold mounts: %w", errors.Join(err, rerr))
	}
	return nil, errors.New(answer)
}

// stop ends the holder. What it mounted is gone once all that entered is.
func (h *holder) stop() {
	h.once.Do(func() {
		h.input.Close()
		_ = h.cmd.Process.Kill() // it has nothing to finish
		_ = h.cmd.Wait()
	})
}

// path is where this process finds what the holder sees at a path.
func (h *holder) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(h.cmd.Process.Pid), "root", name)
}

// An Entry says how to get at what a shadow has in namespaces of its own. The
// zero Entry means that it has none.
type Entry struct {
	// Argv is the beginning of a command line that runs the rest of it where
	// the shadow is, in the same process, with the same user, environment and
	// descriptors, in the directory /. Its program is an absolute path.
	Argv []string
	// Offline is Argv for a program that is to have no network but a loopback;
	// nil unless the BaseSpec asked for it.
	Offline []string
	// Host is what this process, and those with its view of the file system,
	// put before Root and Home to find them. It holds until Remove.
	Host string

	// Lower, Upper and Work, of kind engine, are the layers of an overlay that
	// whoever starts a program has to mount at Root, with the option userxattr.
	// Nobody else sees the tree: what programs changed is in Upper.
	Lower, Upper, Work string
}

// entry is how one gets to where the holder is.
func (h *holder) entry() (Entry, error) {
	nsenter, err := exec.LookPath("nsenter")
	if err == nil {
		nsenter, err = filepath.Abs(nsenter)
	}
	if err != nil {
		return Entry{}, errors.New("nsenter, of util-linux, is not installed, or not on PATH")
	}
	begin := []string{nsenter, "--preserve-credentials", "--user", "--mount"}
	end := []string{"--target", strconv.Itoa(h.cmd.Process.Pid), "--"}
	e := Entry{Argv: slices.Concat(begin, end), Host: h.path("")}
	if h.offline {
		e.Offline = slices.Concat(begin, []string{"--net"}, end)
	}
	return e, nil
}

// tryUserns is usernsWorks for a program that is in no sandbox.
func tryUserns(dir string) error {
	return usernsWorks(dir, true, func(e Entry, root, _ string) error {
		argv := append(e.Offline, "/bin/sh", "-c", `test -e "$0"`, filepath.Join(root, "file"))
		out, err := (&exec.Cmd{Path: argv[0], Args: argv, Env: []string{}, Dir: "/"}).CombinedOutput()
		if err != nil {
			line, _, _ := strings.Cut(string(out), "\n")
			return fmt.Errorf("%w: %s", err, line)
		}
		return nil
	})
}

// usernsWorks mounts an overlay in a user namespace, starts a program in it and
// deletes in it.
func usernsWorks(dir string, offline bool, start func(e Entry, root, home string) error) error {
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"lower", "upper", "work", "root", "home"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(at("lower/file"), []byte("x"), 0o600); err != nil {
		return err
	}
	h, err := startHolder([]layers{{[]string{at("lower")}, at("upper"), at("work"), at("root")}}, offline)
	if err != nil {
		return err
	}
	defer h.stop()
	e, err := h.entry()
	if err != nil {
		return err
	}
	if err := start(e, at("root"), at("home")); err != nil {
		return fmt.Errorf("start a program in a user namespace: %w", err)
	}
	if err := os.Remove(h.path(at("root/file"))); err != nil {
		return fmt.Errorf("delete in an overlay: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(at("upper/file"), &st); err != nil || !isWhiteout(&st) {
		return errors.New("an overlay here records deletions in a way that is not known")
	}
	return nil
}

// Enter is how every program must be started that is to see the shadow, its
// Home included: the sandbox around it too. It is zero for all kinds but
// userns.
func (sh *Shadow) Enter() Entry { return sh.entry }

// HostRoot is where this process itself finds the tree. It is Root for all
// kinds but userns, and means nothing for engine.
func (sh *Shadow) HostRoot() string { return sh.entry.Host + sh.Root() }
