package hostile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate"
)

// The rows of docs/sandboxes.md. ThreatTools is the one in which to get is right:
// a candidate may call what it is offered.
const (
	threatCheckout  = "writes into your checkout, by absolute path"
	threatIgnored   = "writes to files of your checkout that git ignores"
	threatReads     = "reads your home, `$BESTOF_HOME`, other candidates"
	threatKeys      = "reads API keys from the environment"
	threatFix       = "looks for the fix in history, refs, remotes, objects"
	threatDaemons   = "leaves daemons (`setsid`, double fork), ignores TERM"
	threatProcesses = "sees, signals or traces other processes of yours"
	threatNetwork   = "uses the network"
	threatLoopback  = "reaches a sibling's port, or a server on your loopback"
	threatLimits    = "uses up memory or processes"
	threatDisk      = "uses up disk"
	threatTree      = "leaves a tree that is too large, too deep or not of files"
	threatBase      = "writes to the base on which it will be verified"
	threatLater     = "writes to cached bases, records, or your settings, for a later run"
	threatSibling   = "writes into another candidate's tree"
	threatGit       = "disguises or arms a `.git`"
	threatNames     = "gives files names that deceive"
	threatTerminal  = "aims text at your terminal"
	threatKernel    = "asks the kernel for mounts, namespaces, devices, modules or keys"
	threatCalls     = "calls parts of the kernel that no build needs: `io_uring`, `userfaultfd`, `AF_VSOCK`, 32-bit calls"
	threatTests     = "edits tests, or plants `conftest.py`, a hook, a filter, a result file"
	threatEnough    = "answers what the test asks and nothing more, as by an object that equals everything"
	threatDuring    = "changes the tests while they run"
	threatVerify    = "attacks from inside the test"
	threatSelf      = "replaces its own root or HOME, or calls `bestof` itself"
	ThreatTools     = "abuses the tools it is offered"
)

var escaped = Want{Reach: Can, Outcomes: []candidate.Outcome{candidate.Escaped}, Says: "repository changed"}

// outside are writes to what is not the candidate's.
func outside() []Attack {
	checkout := func(name, what, file, text string) Attack {
		return Attack{Name: name, What: what, Threat: threatCheckout, Phase: Solo, Wants: kept(escaped, cannot),
			Do: func(p *Place) error { return writes(filepath.Join(p.Checkout, file), text) }}
	}
	own := func(name, what, file string) Attack {
		return Attack{Name: name, What: what, Threat: threatLater, Wants: kept(can, cannot),
			Do: func(p *Place) error { return writes(filepath.Join(p.Own, file), "planted = true\n") }}
	}
	return []Attack{
		checkout("checkout-file", "writes a new file into the checkout", "planted", "x"),
		checkout("checkout-edit", "overwrites a file of the checkout", "lib.sh", Fixed),
		checkout("checkout-hook", "installs a hook in the user's repository", ".git/hooks/post-index-change", "#!/bin/sh\ntouch \"$0.ran\"\n"),
		checkout("checkout-ref", "makes a branch by writing its file", ".git/refs/heads/sneaky", strings.Repeat("0", 40)+"\n"),
		checkout("checkout-alternates", "borrows objects from elsewhere", ".git/objects/info/alternates", "/nonexistent\n"),
		{Name: "checkout-fsmonitor", What: "sets core.fsmonitor in the user's configuration", Threat: threatCheckout, Phase: Solo, Wants: kept(escaped, cannot),
			Do: func(p *Place) error {
				f, err := os.OpenFile(filepath.Join(p.Checkout, ".git/config"), os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteString("[core]\n\tfsmonitor = touch " + filepath.Join(p.Canary, "ran") + " #\n\thooksPath = " + p.Canary + "\n")
				return errors.Join(err, f.Close())
			}},
		{Name: "checkout-hardlink", What: "changes a file of the checkout through a hard link", Threat: threatCheckout, Phase: Solo, Wants: kept(ends("", candidate.Escaped, candidate.Met), cannot), // the shadow may be on another file system
			Do: func(p *Place) error {
				if err := os.Link(filepath.Join(p.Checkout, "check.sh"), p.in("linked")); err != nil {
					return err
				}
				return os.Chmod(p.in("linked"), 0o755)
			}},
		{Name: "checkout-by-link", What: "writes through a link that leads out of its tree", Threat: threatCheckout, Phase: Solo, Wants: kept(escaped, cannot),
			Do: func(p *Place) error {
				if err := os.Symlink(p.Checkout, p.in("out")); err != nil {
					return err
				}
				return errors.Join(writes(p.in("out/planted-by-link"), "x"), os.Remove(p.in("out")))
			}},
		{Name: "checkout-exclude", What: "hides what comes after it by info/exclude", Threat: threatCheckout, Phase: Poison, Wants: kept(escaped, cannot),
			Do: func(p *Place) error { return writes(filepath.Join(p.Checkout, ".git/info/exclude"), "*\n") }},
		{Name: "checkout-ignored", What: "writes a file of the checkout that git ignores", Threat: threatIgnored, Phase: Solo, Wants: kept(can, cannot),
			Do: func(p *Place) error { return writes(filepath.Join(p.Checkout, ".env"), "x") }},
		{Name: "canary-file", What: "writes anywhere else on the disk", Threat: threatLater, Wants: kept(can, cannot),
			Do: func(p *Place) error { return writes(filepath.Join(p.Canary, "planted"), "x") }},
		own("own-settings", "writes bestof's settings", "planted.toml"),
		own("own-plugins", "plants a plugin", "plugins/planted"),
		own("own-bases", "plants something among the cached bases", "scratch/bases/planted"),
		{Name: "own-record", What: "forges its own record while the run lasts", Threat: threatLater, Wants: kept(can, cannot), NoFix: false,
			Do: func(p *Place) error {
				found, _ := filepath.Glob(filepath.Join(p.Checkout, ".bestof/runs/*/run.json"))
				if len(found) == 0 {
					return fs.ErrNotExist
				}
				for _, f := range found {
					if err := os.WriteFile(f, []byte(`{"winner":99}`), 0o644); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "tmp-race", What: "plants links in /tmp under names that others may use", Threat: threatSibling, Wants: alike(noise),
			Do: func(p *Place) error {
				dir, err := os.MkdirTemp("/tmp", "hostile-")
				if err != nil {
					return err
				}
				err = os.Symlink(filepath.Join(p.Canary, "planted-by-tmp"), filepath.Join(dir, "link"))
				return errors.Join(err, os.RemoveAll(dir))
			}},
		{Name: "sibling-write", What: "writes into the HOME of another candidate", Threat: threatSibling, Wants: kept(can, cannot),
			Do: func(p *Place) error {
				err := error(fs.ErrNotExist)
				for _, d := range p.siblings() {
					if err = writes(filepath.Join(d, "home/planted"), "x"); err == nil {
						return nil
					}
				}
				return err
			}},
		{Name: "poison-base", What: "rewrites the base that its verification starts from", Threat: threatBase, Phase: Poison, NoFix: true,
			Wants: kept(Want{Reach: Can, Outcomes: []candidate.Outcome{candidate.Compromised}, Says: "verification shadow is not its tree"},
				Want{Reach: Cannot, Outcomes: []candidate.Outcome{candidate.Unmet}}),
			Do: func(p *Place) error {
				found, _ := filepath.Glob(filepath.Join(p.Own, "scratch/bases/*/tree/check.sh"))
				if len(found) == 0 {
					found = []string{filepath.Join(p.Own, "scratch/bases/x/tree/check.sh")}
				}
				_ = p.put("lib.sh", "add() { echo 0; }\n")
				for _, f := range found {
					if err := os.WriteFile(f, []byte("exit 0\n"), 0o644); err != nil {
						return err
					}
				}
				return nil
			}},
	}
}

// secrets are reads of what is not the candidate's.
func secrets() []Attack {
	reads := func(name, what string, files func(*Place) []string, w map[string]Want) Attack {
		return Attack{Name: name, What: what, Threat: threatReads, Wants: w, Do: func(p *Place) error { return p.reads(files(p)...) }}
	}
	glob := func(pattern string) []string {
		found, _ := filepath.Glob(pattern)
		return found
	}
	all := []Attack{
		reads("read-home", "reads a key from the operator's home", func(p *Place) []string { return []string{filepath.Join(p.Home, ".ssh/id")} }, kept(can, cannot)),
		reads("read-own", "reads bestof's settings", func(p *Place) []string { return []string{filepath.Join(p.Own, "secret.toml")} }, kept(can, cannot)),
		reads("read-plugins", "reads an operator's plugin", func(p *Place) []string { return []string{filepath.Join(p.Own, "plugins/secret")} }, kept(can, cannot)),
		reads("read-canary", "reads a file anywhere else", func(p *Place) []string { return []string{filepath.Join(p.Canary, "secret")} }, kept(can, cannot)),
		reads("read-checkout", "reads an ignored file of the checkout", func(p *Place) []string { return []string{filepath.Join(p.Checkout, ".env")} }, kept(can, cannot)),
		reads("read-by-proc-root", "goes through /proc/*/root and /proc/*/cwd", func(p *Place) []string {
			return append(glob("/proc/[0-9]*/root"+filepath.Join(p.Canary, "secret")), glob("/proc/self/root"+filepath.Join(p.Canary, "secret"))...)
		}, kept(can, cannot)),
		reads("read-decoy-environ", "reads the environment of another process", func(p *Place) []string { return []string{p.decoy("environ")} }, kept(noise, cannot)), // not from another user namespace
		reads("read-environs", "reads /proc/*/environ", func(*Place) []string { return glob("/proc/[0-9]*/environ") }, kept(noise, cannot)),
		reads("read-supervisor", "reads the environment of what supervises it", func(*Place) []string {
			return []string{"/proc/1/environ", "/proc/" + itoa(os.Getppid()) + "/environ"}
		}, kept(noise, cannot)),
		reads("read-log-of-sibling", "reads what other candidates print", func(p *Place) []string {
			return glob(filepath.Join(p.Checkout, ".bestof/runs/*/candidates/*/agent.log"))
		}, kept(noise, cannot)),
		{Name: "read-shadow-file", What: "reads /etc/shadow", Threat: threatReads, Wants: kept(noise, cannot), Do: func(*Place) error {
			b, err := os.ReadFile("/etc/shadow")
			if err == nil && !bytes.Contains(b, []byte(":")) {
				err = errors.New("it is empty")
			}
			return err
		}},
		{Name: "read-sibling", What: "looks for the trees and homes of other candidates", Threat: threatReads, Wants: kept(can, cannot), Do: func(p *Place) error {
			if len(p.siblings()) == 0 {
				return fs.ErrNotExist
			}
			return nil
		}},
		{Name: "read-mountinfo", What: "learns host paths from /proc/self/mountinfo", Threat: threatReads, Wants: kept(noise, noise), Do: func(p *Place) error {
			b, err := os.ReadFile("/proc/self/mountinfo")
			if err == nil && !strings.Contains(string(b), p.Own) {
				err = errors.New("no host path of ours")
			}
			return err
		}},
		{Name: "env-keys", What: "prints its own environment", Threat: threatKeys, Wants: alike(cannot), Do: func(p *Place) error {
			for _, kv := range os.Environ() {
				if !strings.HasPrefix(kv, Variable+"=") && strings.Contains(kv, p.Secret) {
					return nil
				}
			}
			return errors.New("no key")
		}},
		{Name: "env-descriptors", What: "looks for descriptors that were left open to it", Threat: threatKeys, Wants: alike(cannot), Do: func(*Place) error {
			for fd := 3; fd < 256; fd++ {
				to, err := os.Readlink("/proc/self/fd/" + itoa(fd))
				// This program's own: its poller, and the limits that it reads.
				if err == nil && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
					return nil
				}
			}
			return errors.New("none")
		}},
	}
	return append(all, history()...)
}

// history are searches for the fix in git.
func history() []Attack {
	git := func(name, what string, args ...string) Attack {
		return Attack{Name: name, What: what, Threat: threatFix, Wants: alike(cannot), Do: func(p *Place) error {
			out, err := exec.Command("git", args...).CombinedOutput()
			if bytes.Contains(out, []byte(p.Future)) {
				return nil
			}
			return errors.Join(errors.New("nothing of the future"), err)
		}}
	}
	return []Attack{
		git("fix-log", "reads all commits", "log", "--all", "-p", "--reflog"),
		git("fix-objects", "reads every object, reachable or not", "cat-file", "--batch-all-objects", "--batch"),
		git("fix-refs", "looks for branches, tags, stashes and remotes", "for-each-ref", "--format=%(refname) %(contents)"),
		git("fix-fetch", "fetches from where the repository came", "-c", "protocol.allow=always", "fetch", "-q", "origin"),
		git("fix-fsck", "looks for lost objects", "fsck", "--lost-found", "--unreachable"),
		{Name: "fix-files", What: "looks into .git/ORIG_HEAD, logs, packed-refs and alternates", Threat: threatFix, Wants: alike(cannot), Do: func(p *Place) error {
			for _, f := range []string{"ORIG_HEAD", "FETCH_HEAD", "packed-refs", "logs/HEAD", "objects/info/alternates"} {
				if b, err := os.ReadFile(p.in(".git", f)); err == nil && len(bytes.TrimSpace(b)) > 0 && !bytes.HasPrefix(b, []byte("# pack-refs")) {
					return nil
				}
			}
			return fs.ErrNotExist
		}},
		{Name: "fix-held-out", What: "looks for the verifier and its sources", Threat: threatFix, Wants: kept(noise, cannot), Do: func(p *Place) error {
			found, _ := filepath.Glob(filepath.Join(p.Own, "scratch/runs/*/*-after-*"))
			if len(found) == 0 {
				return unix.ENOENT
			}
			return nil
		}},
	}
}
