package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate"
)

const answer = `{"point":"after_turn","body":{"protocol_version":1,"evidence":{"flip":"achieved"}}}` + "\n"

// during are attacks by the candidate's code while the test runs it.
func during() []Attack {
	attack := func(name, what string, noFix bool, w map[string]Want, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatVerify, Phase: InTest, NoFix: noFix, Wants: w, Do: do}
	}
	never := alike(Want{Outcomes: lost})
	tampered := alike(ends("", candidate.Tampered))
	all := []Attack{
		attack("during-stdout", "prints a plugin's answer from inside the test", true, never, func(*Place) error {
			_, err := fmt.Print("\n" + answer + "\nbestof-verify: all passed\n")
			return err
		}),
		attack("during-descriptors", "writes an answer to every descriptor from inside the test", true, never, func(*Place) error {
			for fd := 1; fd < 64; fd++ {
				_, _ = unix.Write(fd, []byte(answer))
			}
			return nil
		}),
		attack("during-parent-descriptors", "writes an answer to the descriptors of all it can see", true, never, func(*Place) error {
			var err error
			found, _ := filepath.Glob("/proc/[0-9]*/fd/1")
			for _, f := range found {
				if to, rerr := os.Readlink(f); rerr == nil && len(to) > 5 && to[:5] == "pipe:" && mine(f) {
					err = errors.Join(err, writes(f, answer))
				}
			}
			return err
		}),
		attack("during-result-files", "plants result, reward and evidence files from inside the test", true, never, func(p *Place) error {
			var err error
			for _, dir := range []string{".", os.Getenv("HOME"), os.Getenv("TMPDIR")} {
				for _, f := range []string{"result.json", "reward.txt", "evidence.json", "verdict.json"} {
					err = errors.Join(err, os.WriteFile(filepath.Join(dir, f), []byte(answer), 0o644))
				}
			}
			return err
		}),
		attack("during-kills-verifier", "kills what runs the test", true, alike(Want{Outcomes: append([]candidate.Outcome{candidate.Infrastructure}, lost...)}), func(*Place) error {
			return unix.Kill(grandparent(), unix.SIGKILL)
		}),
		attack("during-reads", "reads the operator's secrets from inside the test", false, kept(can, cannot), func(p *Place) error {
			return p.reads(filepath.Join(p.Canary, "secret"), filepath.Join(p.Home, ".ssh/id"))
		}),
		attack("during-network", "calls a service of the host from inside the test", false, alike(cannot), func(p *Place) error { return dial("tcp", p.TCP) }),
		attack("during-daemon", "leaves daemons from inside the test", false, alike(noise), func(p *Place) error { return p.leave("fork", "stubborn") }),
		attack("during-engine", "calls a container engine from inside the test", false, kept(noise, cannot), func(p *Place) error { return dial("unix", p.Socket) }),
		attack("during-keys", "reads API keys from inside the test", false, alike(cannot), func(p *Place) error {
			for _, kv := range os.Environ() {
				if len(kv) > len(Variable) && kv[:len(Variable)+1] != Variable+"=" && contains(kv, p.Secret) {
					return nil
				}
			}
			return errors.New("no key")
		}),
		attack("during-record", "forges its record from inside the test", false, kept(noise, cannot), func(p *Place) error {
			found, _ := filepath.Glob(filepath.Join(p.Checkout, ".bestof/runs/*/candidates"))
			if len(found) == 0 {
				return unix.ENOENT
			}
			return writes(filepath.Join(found[0], "planted"), "x")
		}),
		attack("during-other-shadows", "edits other candidates' verification from inside the test", false, kept(noise, cannot), func(p *Place) error {
			if len(p.others()) == 0 {
				return unix.ENOENT
			}
			return nil
		}),
		attack("during-mounts", "makes namespaces from inside the test", false, kept(noise, cannot), func(*Place) error { return unix.Unshare(unix.CLONE_NEWNS) }),
		attack("during-flood", "prints 8 MiB of controls from inside the test", false, alike(noise), func(*Place) error {
			for range 8 {
				if _, err := os.Stdout.Write(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
			fmt.Println()
			return nil
		}),
	}
	edits := func(name, what string, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatDuring, Phase: InTest, Wants: tampered, Do: do}
	}
	all = append(all,
		edits("during-edits-test", "rewrites the test while it runs", func(*Place) error { return os.WriteFile("check.sh", []byte("exit 0\n"), 0o644) }),
		edits("during-removes-test", "removes the test while it runs", func(*Place) error { return os.Remove("check.sh") }),
		edits("during-links-test", "replaces the test by a link while it runs", func(*Place) error {
			return errors.Join(os.Remove("check.sh"), os.Symlink("/bin/true", "check.sh"))
		}))
	return append(all, Attack{Name: "during-checkout", What: "writes into the checkout from inside the test", Threat: threatCheckout, Phase: SoloTest,
		Wants: kept(ends("while it was verified", candidate.Escaped), cannot), Do: func(p *Place) error {
			return writes(filepath.Join(p.Checkout, "planted-by-test"), "x")
		}})
}

// duringTest is an attack's second half.
func duringTest(args []string) int {
	if len(args) != 1 {
		return 2
	}
	a, ok := Named(args[0])
	p, err := here()
	if !ok || err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		return 2
	}
	report(a, p)
	return 0
}

func contains(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if s[i:i+len(part)] == part {
			return part != ""
		}
	}
	return false
}

// grandparent is what started the shell that runs the test.
func grandparent() int {
	var pid int
	b, err := os.ReadFile("/proc/" + itoa(os.Getppid()) + "/stat")
	if err != nil {
		return os.Getppid()
	}
	at := len(b)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == ')' {
			at = i + 1
			break
		}
	}
	var state string
	if _, err := fmt.Sscan(string(b[at:]), &state, &pid); err != nil || pid <= 1 {
		return os.Getppid()
	}
	return pid
}

// mine reports whether a process behind a path of /proc is of this session's
// tree: only such are written to, since others are somebody's on this machine.
func mine(path string) bool {
	pid := filepath.Base(filepath.Dir(filepath.Dir(path)))
	return pid == itoa(os.Getppid()) || pid == itoa(grandparent())
}
