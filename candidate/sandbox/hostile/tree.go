package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/candidate"
)

func itoa(n int) string { return strconv.Itoa(n) }

// gitDisguises are all kinds of .git, and all that a .git can be armed with.
func gitDisguises() []Attack {
	const named = "some systems take this name for .git"
	disguise := func(name, dir string) Attack {
		return Attack{Name: name, What: fmt.Sprintf("makes a directory %+q, which some systems take for .git", dir), Threat: threatGit, Wants: refused(named),
			Do: func(p *Place) error { return p.put("sub/"+dir+"/config", evilConfig(p)) }}
	}
	armed := func(name, what string, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatGit, Wants: alike(noise), Do: do}
	}
	git := func(name, what string, commands ...string) Attack {
		return armed(name, what, func(*Place) error {
			for _, c := range commands {
				if out, err := exec.Command("git", strings.Fields(c)...).CombinedOutput(); err != nil {
					return fmt.Errorf("git %s: %w: %s", c, err, out)
				}
			}
			return nil
		})
	}
	return []Attack{
		disguise("dotgit-case", ".GIT"), disguise("dotgit-mixed", ".gIt"), disguise("dotgit-short", "git~1"), disguise("dotgit-dot", ".git."),
		disguise("dotgit-space", ".git "), disguise("dotgit-stream", ".git::$INDEX_ALLOCATION"), disguise("dotgit-joiner", ".g\u200cit"),
		disguise("dotgit-bom", "\ufeff.git"), disguise("dotgit-backslash", "x\\.git\\hooks"),
		armed("dotgit-file", "puts a .git file that leads elsewhere", func(p *Place) error { return p.put("sub/.git", "gitdir: "+p.Canary+"\n") }),
		armed("dotgit-link", "puts a link where .git was", func(p *Place) error {
			return errors.Join(os.RemoveAll(p.in(".git")), os.Symlink(p.Canary, p.in(".git")))
		}),
		armed("dotgit-gone", "removes its .git", func(p *Place) error { return os.RemoveAll(p.in(".git")) }),
		armed("dotgit-fifo", "puts a pipe where .git/index was", func(p *Place) error {
			return errors.Join(os.Remove(p.in(".git/index")), unix.Mkfifo(p.in(".git/index"), 0o644))
		}),
		armed("dotgit-bomb", "makes .git/index and a pack of a terabyte, without blocks", func(p *Place) error {
			return errors.Join(os.Truncate(p.in(".git/index"), 1<<40), sparse(p.in(".git/objects/pack/pack-0.pack"), 1<<40))
		}),
		armed("git-config", "arms its configuration: fsmonitor, filters, textconv, sshCommand, worktree configuration", func(p *Place) error {
			return errors.Join(p.put(".git/config", evilConfig(p)+"[extensions]\n\tworktreeConfig = true\n"), p.put(".git/config.worktree", evilConfig(p)),
				p.put(".gitattributes", "* filter=z diff=z merge=z ident text eol=crlf working-tree-encoding=UTF-16\n"))
		}),
		armed("git-hooks", "installs every hook", func(p *Place) error {
			var err error
			for _, h := range []string{"pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman", "post-merge", "pre-push"} {
				err = errors.Join(err, p.put(".git/hooks/"+h, evilScript(p)))
			}
			return err
		}),
		armed("git-alternates", "borrows the objects of another repository", func(p *Place) error {
			return p.put(".git/objects/info/alternates", filepath.Join(p.Checkout, ".git/objects")+"\n")
		}),
		armed("git-modules", "adds a .gitmodules with commands and a path into .git", func(p *Place) error {
			return p.put(".gitmodules", "[submodule \"x\"]\n\tpath = .git/hooks\n\turl = ext::sh -c touch% "+p.Canary+"/ran\n\tupdate = !touch "+p.Canary+"/ran\n")
		}),
		armed("git-bare", "nests a bare repository with an armed configuration", func(p *Place) error {
			return errors.Join(p.put("bare/HEAD", "ref: refs/heads/x\n"), p.put("bare/config", evilConfig(p)), p.put("bare/objects/x", ""), p.put("bare/refs/x", ""), p.put("bare/hooks/post-checkout", evilScript(p)))
		}),
		armed("git-nested", "nests a repository with an armed configuration and hidden files", func(p *Place) error {
			if out, err := exec.Command("git", "init", "-q", "inner").CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return errors.Join(p.put("inner/file", "x"), p.put("inner/.git/config", evilConfig(p)))
		}),
		git("git-link", "points a submodule at a commit", "update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,sub"),
		git("git-hide", "hides its edit: assume-unchanged, skip-worktree", "update-index --assume-unchanged lib.sh", "update-index --skip-worktree check.sh"),
		git("git-upkeep", "gc, prune, repack, worktree prune", "gc -q --prune=now --aggressive", "prune", "repack -adq", "worktree prune"),
		git("git-commits", "commits, branches, stashes and resets", "-c user.name=x -c user.email=x@x commit -q --allow-empty -m x", "branch other", "tag v1", "reset -q --soft HEAD"),
		armed("git-ignore", "hides files by .gitignore and info/exclude", func(p *Place) error {
			return errors.Join(p.put(".gitignore", "*\n"), p.put(".git/info/exclude", "*\n"), p.put("hidden/file", "x"))
		}),
	}
}

func evilScript(p *Place) string { return "#!/bin/sh\ntouch " + filepath.Join(p.Canary, "ran") + "\n" }

func evilConfig(p *Place) string {
	run := "touch " + filepath.Join(p.Canary, "ran")
	return "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = " + run + "\n\tsshCommand = " + run + "\n\tpager = " + run + "\n\thooksPath = " + p.in(".git/hooks") +
		"\n[filter \"z\"]\n\tclean = " + run + "\n\tsmudge = " + run + "\n\tprocess = " + run + "\n\trequired = true\n[diff]\n\texternal = " + run +
		"\n[diff \"z\"]\n\ttextconv = " + run + "\n\tcommand = " + run + "\n[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = " + run + "\n[include]\n\tpath = " + p.in("more") + "\n"
}

// names are file names that deceive a reader, a terminal or a file system.
func names() []Attack {
	harmless := func(name, what string, files ...string) Attack {
		return Attack{Name: name, What: what, Threat: threatNames, Wants: alike(noise), Do: func(p *Place) error {
			for _, f := range files {
				if err := p.put(f, "x\n"); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	return []Attack{
		harmless("name-escape", "names a file with terminal sequences", "\x1b[2J\x1b[31mgone", "\x1b]52;c;cm0gLXJmIC8=\x07", "\x9b31m", "\u009b2J"),
		harmless("name-lines", "names a file with line ends", "a\nmet c9 winner", "b\r\x1b[Aforged"),
		harmless("name-bidi", "names a file with bidirectional marks", "a\u202egnp.sh", "\u2066x\u2069", "\u200b\u200e"),
		harmless("name-dashes", "names files like options", "-rf", "--adopt=apply", "-"),
		harmless("name-bytes", "names a file with bytes that are no UTF-8", "\xff\xfe", "caf\xe9"),
		harmless("name-long", "names a file with 255 bytes", strings.Repeat("n", 255)),
		harmless("name-twins", "names files like others but for case", "LIB.SH", "lib.Sh"),
		{Name: "name-twin-of-test", What: "names a file like the test but for case", Threat: threatTests, Wants: alike(ends("CHECK.SH", candidate.Tampered)),
			Do: func(p *Place) error { return p.put("CHECK.SH", "exit 0\n") }},
		harmless("name-devices", "names files like devices", "con", "aux.txt", "nul", "a:b", "x."),
		harmless("name-shell", "names a file like a command", "$(touch ran)", "`touch ran`", "; touch ran", "'\"\\"),
		{Name: "name-ours", What: "makes a .bestof with settings", Threat: threatNames, Wants: refused("belongs to bestof"),
			Do: func(p *Place) error { return p.put(".bestof/config.toml", "[run]\ntest = \"true\"\n") }},
		{Name: "name-ours-case", What: "makes a .BestOf with settings", Threat: threatNames, Wants: refused("belongs to bestof"),
			Do: func(p *Place) error { return p.put(".BestOf/config.toml", "[run]\ntest = \"true\"\n") }},
	}
}

// treeThings are trees that are not of files, or too many of them.
func treeThings() []Attack {
	kind := func(name, what string, w map[string]Want, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatTree, Wants: w, Do: do}
	}
	const odd = "neither a file, a link nor a directory"
	over := func(says string) map[string]Want { return alike(ends(says, candidate.OverBudget)) }
	maybe := alike(ends("", candidate.Met, candidate.AgentFailed))
	return []Attack{
		kind("tree-fifo", "leaves a pipe", refused(odd), func(p *Place) error { return unix.Mkfifo(p.in("pipe"), 0o644) }),
		kind("tree-socket", "leaves a socket", refused(odd), func(*Place) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			return unix.Bind(fd, &unix.SockaddrUnix{Name: "sock"})
		}),
		kind("tree-device", "leaves a device", maybe, func(p *Place) error { return unix.Mknod(p.in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) }),
		kind("tree-whiteout", "leaves the device that an overlay takes for a deletion", alike(ends("", candidate.Met, candidate.AgentFailed, candidate.Unmet)), func(p *Place) error {
			return unix.Mknod(p.in("check.sh.gone"), unix.S_IFCHR, 0)
		}),
		kind("tree-setuid", "leaves a program with the setuid and setgid bits", alike(noise), func(p *Place) error {
			return errors.Join(p.put("su", "#!/bin/sh\n"), os.Chmod(p.in("su"), 0o755|os.ModeSetuid|os.ModeSetgid))
		}),
		kind("tree-link-out", "leaves links to files outside", alike(noise), func(p *Place) error {
			return errors.Join(os.Symlink(filepath.Join(p.Canary, "secret"), p.in("l1")), os.Symlink("/proc/self/root/etc", p.in("l2")), os.Symlink("../../../../..", p.in("l3")), os.Symlink("l4", p.in("l4")))
		}),
		kind("tree-dir-to-link", "replaces a directory by a link", alike(noise), func(p *Place) error {
			return errors.Join(os.RemoveAll(p.in("dir")), os.Symlink(p.Canary, p.in("dir")))
		}),
		kind("tree-sparse", "leaves a sparse file of a terabyte", over("it is larger than"), func(p *Place) error { return sparse(p.in("huge"), 1<<40) }),
		kind("tree-many", "leaves more files than a change may have", over("files were changed"), func(p *Place) error {
			for i := range 20_100 {
				if i%2000 == 0 {
					if err := os.Mkdir(p.in("d"+itoa(i/2000)), 0o755); err != nil {
						return err
					}
				}
				if err := unix.Mknod(p.in("d"+itoa(i/2000), itoa(i)), unix.S_IFREG|0o644, 0); err != nil {
					return err
				}
			}
			return nil
		}),
		kind("tree-deep", "leaves 10,000 directories in one another", over("directories deep"), func(*Place) error { return deep(10_000) }),
		kind("tree-locked", "takes all rights from its files and directories", alike(ends("", candidate.Met, candidate.AgentFailed)), func(p *Place) error {
			return errors.Join(p.put("locked/inner/file", "x"), os.Chmod(p.in("locked/inner"), 0), os.Chmod(p.in("locked"), 0))
		}),
		kind("tree-xattrs", "marks directories as an overlay would", alike(ends("", candidate.Met, candidate.AgentFailed, candidate.Unmet)), func(p *Place) error {
			var err error
			for _, name := range []string{"user.overlay.opaque", "trusted.overlay.opaque", "user.overlay.redirect", "trusted.overlay.redirect"} {
				err = errors.Join(err, unix.Setxattr(p.Root, name, []byte("y"), 0))
			}
			return err
		}),
		kind("tree-immutable", "makes a file and a directory that cannot be changed or removed", alike(noise), func(p *Place) error {
			if err := p.put("stays/file", "x"); err != nil {
				return err
			}
			return errors.Join(setFlags(p.in("stays/file"), 0x10), setFlags(p.in("stays"), 0x10))
		}),
		kind("tree-immutable-home", "does so in its HOME", alike(noise), func(p *Place) error {
			if err := os.MkdirAll(filepath.Join(p.Me, "stays"), 0o755); err != nil {
				return err
			}
			return setFlags(filepath.Join(p.Me, "stays"), 0x10)
		}),
		kind("tree-acl", "gives others rights by an access list", alike(noise), func(p *Place) error {
			acl := []byte{2, 0, 0, 0, 1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 7, 0, 0xfe, 0xff, 0, 0, 4, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, 0x10, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 4, 0, 0xff, 0xff, 0xff, 0xff}
			return unix.Setxattr(p.in("lib.sh"), "system.posix_acl_access", acl, 0)
		}),
		kind("tree-zip", "leaves a large file of one repeated byte", alike(noise), func(p *Place) error { return sparse(p.in("zeros"), 8<<20) }),
		kind("tree-line", "leaves a line of a megabyte and bytes that are no text", alike(noise), func(p *Place) error {
			return p.put("line", strings.Repeat("\x1b[31m\u202e\x00\xff", 150_000))
		}),
	}
}

// setFlags sets the flags that chattr knows.
func setFlags(path string, flags int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags)
}

func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil { // the file system has a smaller limit
		err = f.Truncate(300 << 20)
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// deep makes n directories in one another below the working directory, and
// comes back.
func deep(n int) error {
	home, err := unix.Open(".", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(home)
	at, err := unix.Open(".", unix.O_PATH|unix.O_CLOEXEC, 0)
	for range n {
		if err != nil {
			break
		}
		next := -1
		if err = unix.Mkdirat(at, "d", 0o755); err == nil {
			next, err = unix.Openat(at, "d", unix.O_PATH|unix.O_CLOEXEC, 0)
		}
		_ = unix.Close(at)
		at = next
	}
	if at >= 0 {
		_ = unix.Close(at)
	}
	return err
}
