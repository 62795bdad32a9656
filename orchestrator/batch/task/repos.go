package task

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bestof-dev/bestof/internal/lazyregexp"
)

// Places is where repositories are looked for. Paths are absolute.
type Places struct {
	Repo  string            // one repository for all tasks; it comes before everything else
	Repos string            // a directory of clones and bare mirrors
	Map   map[string]string // from what tasks call a repository to a path or a URL
	From  string            // what relative paths of tasks and of the map start from
}

// A Place is a repository that was found, or a URL to fetch it from. Exactly
// one of Dir and URL is set.
type Place struct {
	Dir string
	URL string
}

func (p Place) String() string { return p.Dir + p.URL }

var (
	ownerName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+$`)
	webURL    = lazyregexp.New(`^(https?|ssh|git|file)://([^\s/-][^\s/]*)?/\S+$`)
	scpURL    = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9_][A-Za-z0-9_.-]*:[^\s:]\S*$`)
)

// IsURL tells whether a repository's name is a URL that git can reach by
// itself. A remote helper of git (ext::…) would be a command, so it is none.
func IsURL(repo string) bool { return webURL().MatchString(repo) || scpURL().MatchString(repo) }

// repoFault says why a text is neither owner/name, nor a path, nor a URL.
func repoFault(repo string) string {
	switch {
	case len(repo) > 4096:
		return "is too long for a repository"
	case strings.ContainsFunc(repo, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "holds a control character"
	case strings.HasPrefix(repo, "-"):
		return quote(repo) + " begins with a dash"
	case strings.Contains(repo, "::") || strings.Contains(repo, "://") && !IsURL(repo):
		return quote(repo) + " is no URL that is understood: https, http, ssh, git and file are, and user@host:path"
	}
	return ""
}

// Candidates lists the places where a task's repository may be, the first that
// exists counts. It looks at none of them.
func (p Places) Candidates(repo string) []Place {
	if p.Repo != "" {
		return []Place{{Dir: p.Repo}}
	}
	var out []Place
	add := func(place Place) {
		if !slices.Contains(out, place) {
			out = append(out, place)
		}
	}
	if to, ok := p.Map[repo]; ok {
		return []Place{p.spelled(to)}
	}
	if repo == "" {
		return nil
	}
	if p.Repos != "" {
		for _, name := range p.names(repo) {
			if filepath.IsLocal(name) {
				add(Place{Dir: filepath.Join(p.Repos, name)})
				add(Place{Dir: filepath.Join(p.Repos, name+".git")})
			}
		}
	}
	if IsURL(repo) || !ownerName().MatchString(repo) || p.Repos == "" {
		add(p.spelled(repo))
	}
	return out
}

// spelled is a path or a URL as it is written.
func (p Places) spelled(s string) Place {
	if IsURL(s) {
		return Place{URL: s}
	}
	if filepath.IsAbs(s) {
		return Place{Dir: filepath.Clean(s)}
	}
	return Place{Dir: filepath.Join(p.From, s)}
}

// names are the paths below Repos that a repository may have.
func (p Places) names(repo string) []string {
	if IsURL(repo) {
		_, rest, web := strings.Cut(repo, "://")
		if _, after, ok := strings.Cut(rest, "/"); web && ok {
			rest = after
		} else if !web {
			_, rest, _ = strings.Cut(repo, ":")
		}
		repo = strings.TrimSuffix(strings.Trim(rest, "/"), ".git")
	}
	names := []string{repo}
	if owner, name, ok := strings.Cut(repo, "/"); ok && !strings.Contains(name, "/") {
		names = append(names, owner+"__"+name)
	}
	return names
}

// A World answers what only looking can tell. Each question is asked once.
type World interface {
	// Repository tells whether a clone or a bare mirror is at dir.
	Repository(dir string) (bool, error)
	// Commit resolves a revision in the repository at dir; "" is HEAD. It
	// returns "" when the repository does not have it.
	Commit(dir, rev string) (id string, err error)
	// Image tells whether an image can be used.
	Image(reference string) (bool, error)
}

// A Resolved is where a task runs.
type Resolved struct {
	Place
	Commit string // the full id; "" when the place is a URL, which is not reached here
}

// Resolve finds every task's repository and commit, and asks for its image,
// and lists all that is missing. The result is in the order of the tasks.
func Resolve(tasks []Task, places Places, world World) ([]Resolved, []Problem) {
	r := resolver{places: places, world: world, repos: map[string]found{}, commits: map[[2]string]found{}, images: map[string]string{}}
	out := make([]Resolved, len(tasks))
	for i, t := range tasks {
		repo := r.repository(t.Repo)
		if repoFault(t.Repo) != "" || commitFault(t.BaseCommit) != "" {
			// It was told already.
		} else if repo.fault != "" {
			r.add(t.Where, "%s: %s", t.ID, repo.fault)
		} else if out[i].Place = repo.place; repo.place.Dir != "" {
			commit := r.commit(repo.place.Dir, t.BaseCommit)
			if out[i].Commit = commit.commit; commit.fault != "" {
				r.add(t.Where, "%s: %s", t.ID, commit.fault)
			}
		}
		if fault := r.image(t.Image); fault != "" {
			r.add(t.Where, "%s: %s", t.ID, fault)
		}
	}
	return out, r.all()
}

// Missing says what is wrong with an image that is not a task's own.
func Missing(where, reference string, world World) []Problem {
	r := resolver{world: world, images: map[string]string{}}
	if fault := r.image(reference); fault != "" {
		r.add(where, "%s", fault)
	}
	return r.all()
}

type found struct {
	place  Place
	commit string
	fault  string
}

type resolver struct {
	problems
	places  Places
	world   World
	repos   map[string]found
	commits map[[2]string]found
	images  map[string]string
}

func (r *resolver) repository(repo string) found {
	if f, known := r.repos[repo]; known {
		return f
	}
	f := r.look(repo)
	r.repos[repo] = f
	return f
}

func (r *resolver) look(repo string) found {
	places := r.places.Candidates(repo)
	if len(places) == 0 {
		if repo == "" {
			return found{fault: "it names no repository: give --repo DIR"}
		}
		return found{fault: fmt.Sprintf("no place is known for the repository %s: give --repos DIR, or --repo DIR", quote(repo))}
	}
	var looked []string
	for _, p := range places {
		if p.URL != "" {
			return found{place: p}
		}
		there, err := r.world.Repository(p.Dir)
		if err != nil {
			return found{fault: fmt.Sprintf("the repository at %s: %v", quote(p.Dir), err)}
		}
		if there {
			return found{place: p}
		}
		looked = append(looked, quote(p.Dir))
	}
	return found{fault: fmt.Sprintf("there is no repository %s: looked at %s", quote(repo), strings.Join(looked, ", "))}
}

func (r *resolver) commit(dir, rev string) found {
	key := [2]string{dir, rev}
	if f, known := r.commits[key]; known {
		return f
	}
	var f found
	id, err := r.world.Commit(dir, rev)
	switch {
	case err != nil:
		f.fault = fmt.Sprintf("the commit %s in %s: %v", quote(rev), quote(dir), err)
	case id == "" && rev == "":
		f.fault = fmt.Sprintf("the repository %s has no commit", quote(dir))
	case id == "":
		f.fault = fmt.Sprintf("the repository %s has no commit %s: fetch it there first", quote(dir), quote(rev))
	}
	f.commit = id
	r.commits[key] = f
	return f
}

func (r *resolver) image(reference string) string {
	if reference == "" {
		return ""
	}
	if fault, known := r.images[reference]; known {
		return fault
	}
	fault := ""
	there, err := r.world.Image(reference)
	switch {
	case err != nil:
		fault = fmt.Sprintf("the image %s: %v", quote(reference), err)
	case !there:
		fault = fmt.Sprintf("there is no image %s, neither here nor in a registry that lets it be pulled: pull or build it first", quote(reference))
	}
	r.images[reference] = fault
	return fault
}
