package hostile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bestof-dev/bestof/candidate"
)

// rounds are attacks on what a candidate itself is made of: its root, its HOME
// and bestof's program. Held ones plant something in one round that the host
// would fall for in the next.
func rounds() []Attack {
	own := func(name, what string, phase Phase, w map[string]Want, do func(*Place) error) Attack {
		return Attack{Name: name, What: what, Threat: threatSelf, Phase: phase, Wants: w, Do: do}
	}
	gone := ends("", candidate.Tampered, candidate.AgentFailed, candidate.Empty, candidate.Unmet, candidate.Infrastructure, candidate.Met)
	calls := func(p *Place, dir string, args ...string) error {
		cmd := exec.Command(filepath.Join(filepath.Dir(p.Program), "bestof"), args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "BESTOF_HOME="+p.Own, "HOME="+p.Home)
		return cmd.Run()
	}
	return []Attack{
		own("root-gone", "removes its root", InAgent, alike(gone), func(p *Place) error {
			err := os.RemoveAll(p.Root)
			p.Root = p.Me
			return err
		}),
		{Name: "root-link", What: "replaces its root by a link", Threat: threatSelf, Wants: alike(gone), NoFix: true, Do: func(p *Place) error {
			if err := os.Rename(p.Root, p.Root+"-"); err != nil {
				return err
			}
			return os.Symlink(p.Canary, p.Root)
		}},
		own("root-locked", "takes all rights from its root", InAgent, alike(gone), func(p *Place) error { return errors.Join(p.fix(), os.Chmod(p.Root, 0)) }),
		{Name: "home-gone", What: "removes its HOME", Threat: threatSelf, Wants: alike(noise), Do: func(p *Place) error { return os.RemoveAll(p.Me) }},
		own("home-link", "replaces its HOME by a link between two rounds", Held, alike(ends("", candidate.Met, candidate.AgentFailed, candidate.Infrastructure)), func(p *Place) error {
			if err := os.Rename(p.Me, p.Me+"-"); err != nil {
				return err
			}
			return os.Symlink(p.Canary, p.Me)
		}),
		own("home-dirs", "replaces what is in its HOME by links between two rounds", Held, alike(noise), func(p *Place) error {
			var err error
			for _, d := range []string{".config", ".cache", "tmp", ".local"} {
				err = errors.Join(err, os.RemoveAll(filepath.Join(p.Me, d)), os.Symlink(p.Canary, filepath.Join(p.Me, d)))
			}
			return err
		}),
		own("home-prompt", "puts links where the host writes its prompt and settings", Held, alike(noise), func(p *Place) error {
			var err error
			for _, f := range []string{".bestof-prompt.md", "seeded/file"} {
				at := filepath.Join(p.Me, f)
				err = errors.Join(err, os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(filepath.Join(p.Canary, "planted-by-prompt"), at))
			}
			return err
		}),
		own("home-seeded-dir", "puts a link where the host makes a directory for its settings", Held, alike(ends("", candidate.Met, candidate.Infrastructure, candidate.AgentFailed)), func(p *Place) error {
			return errors.Join(os.RemoveAll(filepath.Join(p.Me, "seeded")), os.Symlink(p.Canary, filepath.Join(p.Me, "seeded")))
		}),
		own("root-git-link", "replaces its .git by a link to the checkout's between two rounds", Held, alike(noise), func(p *Place) error {
			return errors.Join(os.RemoveAll(p.in(".git")), os.Symlink(filepath.Join(p.Checkout, ".git"), p.in(".git")))
		}),
		own("bestof-adopt", "calls bestof to adopt itself", InAgent, kept(noise, cannot), func(p *Place) error { return calls(p, p.Root, "adopt", "last", "--yes") }),
		own("bestof-adopt-there", "calls bestof to adopt itself in the checkout", InAgent, alike(cannot), func(p *Place) error { return calls(p, p.Checkout, "adopt", "last", "--yes") }),
		own("bestof-gc", "calls bestof to clean up the run it is in", InAgent, kept(noise, noise), func(p *Place) error { return calls(p, p.Checkout, "gc", "--keep", "0") }),
		own("bestof-revise", "calls bestof to approve a revision", InAgent, alike(cannot), func(p *Place) error { return calls(p, p.Checkout, "revise", "last", "--yes") }),
	}
}
