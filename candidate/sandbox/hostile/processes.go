package hostile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate"
)

// processes are attacks by processes on processes.
func processes() []Attack {
	daemon := func(name, what string, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatDaemons, Wants: alike(noise), Do: do}
	}
	stranger := func(name, what string, w map[string]Want, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatProcesses, Wants: w, Do: do}
	}
	supervisorLost := Want{Outcomes: []candidate.Outcome{candidate.Escaped}, Says: "supervised it was killed"}
	ownEnd := ends("", candidate.Met, candidate.AgentFailed, candidate.Unmet)
	late := ends("", candidate.Met, candidate.Unmet)
	return []Attack{
		daemon("daemon-session", "leaves a daemon in a session of its own", func(p *Place) error { return p.leave("sleep") }),
		daemon("daemon-double", "leaves a daemon that was forked twice", func(p *Place) error { return p.leave("fork", "sleep") }),
		daemon("daemon-stubborn", "leaves daemons that ignore TERM, INT, HUP and QUIT", func(p *Place) error { return p.leave("fork", "stubborn") }),
		daemon("daemon-stopped", "leaves a daemon that stopped itself", func(p *Place) error { return p.leave("fork", "stopped") }),
		daemon("daemon-reaper", "leaves a daemon that takes orphans in", func(p *Place) error { return p.leave("reaper") }),
		daemon("daemon-chain", "leaves a chain of processes that hand on to the next, each in a session of its own", func(p *Place) error { return p.leave("chain", "2000") }),
		daemon("daemon-traced", "leaves a daemon that traces its child", func(p *Place) error { return p.leave("tracer") }),
		{Name: "daemon-edits", What: "leaves a daemon that edits the tree after the agent's end", Threat: threatDaemons, Wants: alike(late),
			Do: func(p *Place) error { return p.leave("edits", p.in("lib.sh")) }},
		{Name: "daemon-swaps", What: "leaves a daemon that swaps files for links while they are read", Threat: threatDaemons,
			Wants: alike(ends("", candidate.Met, candidate.Unmet, candidate.AgentFailed)), Do: func(p *Place) error {
				return errors.Join(p.put("swap/x", "x"), p.leave("swaps", p.in("swap"), p.Canary))
			}},
		{Name: "daemon-bomb", What: "leaves a time bomb that waits for its verification", Threat: threatDaemons, Wants: alike(noise),
			Do: func(p *Place) error { return p.leave("bomb", filepath.Dir(p.Root)+"-after-*", p.Canary) }},
		stranger("kill-decoy", "kills a process of the operator's", kept(noise, cannot), func(p *Place) error {
			return unix.Kill(p.Decoy, 0) // whether it could: the decoy is shared by many attacks
		}),
		stranger("trace-decoy", "traces a process of the operator's, or reads its memory", kept(noise, cannot), func(p *Place) error {
			f, err := os.OpenFile(p.decoy("mem"), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}),
		stranger("renice-decoy", "changes the priority of a process of the operator's", kept(noise, cannot), func(p *Place) error {
			return unix.Setpriority(unix.PRIO_PROCESS, p.Decoy, 19)
		}),
		stranger("see-decoy", "lists the processes of the operator", kept(can, cannot), func(p *Place) error {
			_, err := os.ReadFile(p.decoy("cmdline"))
			return err
		}),
		stranger("pidfd-decoy", "opens a process of the operator's and takes its descriptors", kept(noise, cannot), func(p *Place) error {
			fd, err := unix.PidfdOpen(p.Decoy, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}),
		{Name: "kill-supervisor", What: "kills what supervises it", Threat: threatProcesses, Phase: Solo, Wants: kept(supervisorLost, noise),
			Do: func(*Place) error { return unix.Kill(os.Getppid(), unix.SIGKILL) }},
		{Name: "trace-supervisor", What: "traces what supervises it", Threat: threatProcesses, Wants: kept(noise, noise), Do: func(*Place) error {
			f, err := os.OpenFile("/proc/"+itoa(os.Getppid())+"/mem", os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}},
		{Name: "kill-group", What: "kills its own process group", Threat: threatProcesses, Wants: alike(ownEnd), NoFix: false,
			Do: func(p *Place) error { return errors.Join(p.fix(), unix.Kill(0, unix.SIGKILL)) }},
		{Name: "kill-all", What: "kills all that it may", Threat: threatProcesses, Wants: kept(Want{Not: "it would end the machine"}, ownEnd),
			Do: func(p *Place) error {
				if err := errors.Join(p.contained(), p.fix()); err != nil {
					return err
				}
				return unix.Kill(-1, unix.SIGKILL)
			}},
		{Name: "stop-supervisor", What: "stops what supervises it, so that nothing ends it", Threat: threatProcesses, Phase: Slow,
			Wants: kept(Want{Outcomes: []candidate.Outcome{candidate.Escaped, candidate.TimedOut}}, Want{Outcomes: []candidate.Outcome{candidate.TimedOut, candidate.Met}}),
			Do: func(*Place) error {
				if err := unix.Kill(os.Getppid(), unix.SIGSTOP); err != nil {
					return err
				}
				time.Sleep(time.Hour)
				return nil
			}},
		{Name: "stop-itself", What: "stops all its processes", Threat: threatProcesses, Phase: Slow, Wants: alike(ends("", candidate.TimedOut)),
			Do: func(*Place) error {
				if err := unix.Kill(0, unix.SIGSTOP); err != nil {
					return err
				}
				time.Sleep(time.Hour) // until another thread has taken the signal
				return nil
			}},
		{Name: "ignore-term", What: "ignores TERM and goes on", Threat: threatDaemons, Phase: Slow, Wants: alike(ends("", candidate.TimedOut)),
			Do: func(*Place) error { stubborn(); return nil }},
	}
}

// leave starts this program aside, in a session of its own and with nothing of
// this one's, and does not wait.
func (p *Place) leave(words ...string) error {
	cmd := exec.Command("/proc/self/exe", append([]string{"-" + words[0]}, words[1:]...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var b [1]byte
	if _, err = io.ReadFull(ready, b[:]); err != nil {
		return fmt.Errorf("it did not get ready: %w", err)
	}
	return nil
}

// aside is what an attack leaves behind. It says on stdout when it is ready.
func aside(word string, args []string) int {
	parent := os.Getppid()
	ready := func() { _, _ = os.Stdout.Write([]byte("r")) }
	switch word {
	case "-during":
		return duringTest(args)
	case "-other-arch":
		if int(otherArch()) != os.Getpid() {
			return 1
		}
	case "-serve":
		return serve(os.Stdin, os.Stdout)
	case "-sleep":
		ready()
		time.Sleep(time.Hour)
	case "-fork":
		cmd := exec.Command("/proc/self/exe", append([]string{"-" + args[0]}, args[1:]...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdout = os.Stdout
		_ = cmd.Start()
	case "-stubborn":
		ready()
		stubborn()
	case "-stopped":
		ready()
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		time.Sleep(time.Hour)
	case "-reaper":
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		for range 3 {
			cmd := exec.Command("/proc/self/exe", "-fork", "stubborn")
			_ = cmd.Run()
		}
		ready()
		stubborn()
	case "-chain":
		ready()
		chain(args)
	case "-tracer":
		cmd := exec.Command("/proc/self/exe", "-sleep")
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setsid: true}
		_ = cmd.Start()
		ready()
		stubborn()
	case "-edits":
		ready()
		orphaned(parent, func() { _ = os.WriteFile(args[0], []byte("add() { echo late; }\n"), 0o644) })
	case "-swaps":
		ready()
		orphaned(parent, func() {
			_ = os.Rename(args[0], args[0]+"-")
			_ = os.Symlink(args[1], args[0])
			_ = os.Remove(args[0])
			_ = os.Rename(args[0]+"-", args[0])
		})
	case "-bomb":
		ready()
		orphaned(parent, func() {
			if found, _ := filepath.Glob(args[0]); len(found) > 0 { // its own: a sibling's may be there while it still lives
				_ = os.WriteFile(filepath.Join(args[1], "bomb"), nil, 0o644)
			}
		})
	default:
		return 2
	}
	return 0
}

// orphaned does something over and over when its parent has ended, for as long
// as it is left alive, and a minute at most.
func orphaned(parent int, do func()) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if os.Getppid() != parent {
			do()
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func stubborn() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	time.Sleep(time.Hour)
}

// chain hands on to the next process, as often as its argument says.
func chain(args []string) {
	var left int
	if _, err := fmt.Sscan(strings.Join(args, " "), &left); err != nil || left == 0 {
		return
	}
	cmd := exec.Command("/proc/self/exe", "-chain", itoa(left-1))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Start()
}
