package worktree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"github.com/bestof-dev/bestof/internal/bytestring"
)

// workers is how many files are read or written at a time.
var workers = max(2, min(8, runtime.GOMAXPROCS(0)))

// makeBase makes a base beside the others and gives it its name when it is
// whole, so that none is ever seen half made.
func (s *Store) makeBase(ctx context.Context, r *Repository, src *source, spec BaseSpec, key string) (err error) {
	work, err := s.newWork(mark{What: "work"})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.discard(work))
		}
	}()
	m := maker{dir: work, src: src, spec: spec, repo: r}
	if err := m.make(ctx); err != nil {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	if err := writeMark(work, mark{What: "base", Boot: boot}); err != nil {
		return err
	}
	final := s.path("bases", key)
	if _, err := os.Lstat(final); err == nil {
		// Without a mark it is of no use; with one it would have been taken.
		if err := s.discard(final); err != nil {
			return err
		}
	}
	return os.Rename(work, final)
}

type maker struct {
	dir    string
	src    *source
	spec   BaseSpec
	repo   *Repository
	stamps []stamp
	lookup *lookup
	commit oid  // what is checked out in a shadow; zero until it is known
	exact  bool // the commit is the user's own: its tree is the base's
	about  about
}

func (m *maker) make(ctx context.Context) error {
	tree := filepath.Join(m.dir, "tree")
	git := filepath.Join(m.dir, "git")
	if err := mkTree(tree); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Join(git, "objects/pack"), filepath.Join(git, "objects/info"), filepath.Join(git, "refs/heads"), filepath.Join(git, "info")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	entries := m.src.entries()
	m.lookup = newLookup(entries)
	root := m.lookup.trees[""]
	m.about = about{
		Schema: aboutSchema, Kind: m.spec.Kind, Tree: TreeID(root.String()), Commit: m.src.commit,
		Notes: m.src.notes, Rules: m.src.rules, Dirty: m.dirty(),
	}
	for _, l := range m.src.links {
		m.about.Links = append(m.about.Links, bytestring.String(l))
	}
	if err := m.history(ctx, git, root); err != nil {
		return err
	}
	if err := m.objects(ctx, git, tree, entries); err != nil {
		return err
	}
	for i := range entries {
		entries[i].size = m.src.files[i].size
	}
	if _, err := m.src.copyFiles(ctx, tree, m.src.extra, nil); err != nil {
		return err
	}
	m.noteExtra()
	if err := m.gitDir(git); err != nil {
		return err
	}
	if m.spec.Setup != nil {
		if err := m.setup(ctx, tree, git, entries); err != nil {
			return err
		}
	}
	exclude := []byte(strings.Join(m.ruleLines(), "\n") + "\n")
	if err := os.WriteFile(filepath.Join(git, "info/exclude"), exclude, 0o644); err != nil {
		return err
	}
	index := encodeIndex(entries, m.stamps, m.lookup.trees)
	if err := os.WriteFile(filepath.Join(git, "index"), index, 0o644); err != nil {
		return err
	}
	if err := moveTree(ctx, git, filepath.Join(tree, ".git")); err != nil {
		return err
	}
	if err := writeEntries(filepath.Join(m.dir, "entries"), entries); err != nil {
		return err
	}
	var err error
	if _, m.about.Stamps, err = stampsOf(tree, entries); err != nil {
		return err
	}
	b, err := json.Marshal(m.about)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, aboutFile), b, 0o600)
}

// dirty pairs the paths that differ from the commit with what they are.
func (m *maker) dirty() []dirtyPath {
	var out []dirtyPath
	for _, p := range m.src.dirty {
		i, ok := m.lookup.files[p]
		if !ok {
			if _, err := os.Lstat(filepath.Join(m.repo.root, p)); err == nil {
				if _, isTree := m.lookup.trees[p]; !isTree {
					continue // there, but left out: neither an edit nor a deletion
				}
			}
			out = append(out, dirtyPath{Path: bytestring.String(p)})
			continue
		}
		f := m.src.files[i]
		out = append(out, dirtyPath{Path: bytestring.String(p), Mode: f.mode, ID: f.id.String()})
	}
	return out
}

// objects writes the files, and a pack of them, their trees and the commit
// that a shadow has checked out.
func (m *maker) objects(ctx context.Context, git, tree string, entries []entry) error {
	pack, err := newPack(filepath.Join(git, "objects/pack"))
	if err != nil {
		return err
	}
	reused, err := m.repo.reuse(ctx, m.src, git)
	if err == nil {
		m.src.locate(reused)
		m.stamps, err = m.src.copyFiles(ctx, tree, m.src.files, pack)
	}
	if err == nil {
		err = m.trees(pack, entries)
	}
	if err != nil {
		pack.abandon()
		return err
	}
	return pack.close()
}

func (m *maker) trees(pack *packWriter, entries []entry) error {
	builder := treeBuilder{emit: func(_ string, id oid, content []byte) error {
		return pack.add(plumbing.TreeObject, id, content)
	}}
	root, err := builder.build("", entries)
	if err != nil || m.exact {
		return err
	}
	parent := ""
	if !m.commit.IsZero() {
		parent = m.commit.String()
	}
	commit := syntheticCommit(root, parent)
	m.commit = hashObject(plumbing.CommitObject, commit)
	return pack.add(plumbing.CommitObject, m.commit, commit)
}

// syntheticCommit is the same for the same tree, whoever makes it and when.
func syntheticCommit(tree oid, parent string) []byte {
	who := "bestof <bestof@localhost> 946684800 +0000"
	text := "tree " + tree.String() + "\n"
	if parent != "" {
		text += "parent " + parent + "\n"
	}
	return []byte(text + "author " + who + "\ncommitter " + who + "\n\nBase\n")
}

// gitDir writes the files of a repository that has one commit checked out and
// nothing else.
func (m *maker) gitDir(git string) error {
	for name, text := range map[string]string{
		"HEAD": m.commit.String() + "\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = false\n" +
			"[user]\n\tname = candidate\n\temail = candidate@localhost\n[gc]\n\tauto = 0\n[advice]\n\tdetachedHead = false\n",
		// The tree holds raw bytes: no attribute in it may change them.
		"info/attributes": "* -text -ident !eol !filter !working-tree-encoding\n",
	} {
		if err := os.WriteFile(filepath.Join(git, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ruleLines are the base's ignore rules that its tree does not hold.
func (m *maker) ruleLines() []string {
	var lines []string
	for _, b := range m.about.Rules.Global {
		lines = append(lines, strings.TrimSuffix(string(b), "\n"))
	}
	return lines
}

func (m *maker) noteExtra() {
	if n := len(m.src.extra); n > 0 {
		m.about.Notes = append(m.about.Notes, fmt.Sprintf("%d ignored files are in the base by .worktreeinclude", n))
	}
	if n := m.src.pointers.Load(); n > 0 {
		m.about.Notes = append(m.about.Notes, fmt.Sprintf("%d files are Git LFS pointers and stay pointers", n))
	}
}

// setup runs the setup command with a throw-away .git, then puts the tree
// back as it was. What is new and not ignored is ignored from then on.
func (m *maker) setup(ctx context.Context, tree, git string, entries []entry) error {
	home := filepath.Join(m.dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	m.about.Home = true
	throwaway := filepath.Join(tree, ".git")
	index := encodeIndex(entries, m.stamps, m.lookup.trees)
	if err := os.WriteFile(filepath.Join(git, "index"), index, 0o644); err != nil {
		return err
	}
	if err := copyTree(ctx, git, throwaway, false, nil); err != nil {
		return err
	}
	if err := m.spec.Setup(ctx, tree, home); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	if err := removeAll(ctx, throwaway); err != nil {
		return err
	}
	o := &Objects{}
	o.open(git)
	rules, err := m.about.Rules.matcher(entries, func(e entry) ([]byte, error) { return o.blob(e.id) })
	if err != nil {
		return err
	}
	w := walker{entries: entries, lookup: m.lookup, rules: rules, limits: Limits{}.over(entries), unchanged: unchanged(entries, m.stamps), lenient: true}
	if err := w.walk(ctx, tree, nil); err != nil {
		return fmt.Errorf("read the tree after setup: %w", err)
	}
	var restored int
	stamps := slices.Clone(m.stamps)
	for i, e := range entries {
		if w.seen[i] && !w.changed[i] {
			continue
		}
		restored++
		at := filepath.Join(tree, e.path)
		if err := removeAll(ctx, at); err != nil {
			return err
		}
		if err := makeParents(tree, e.path); err != nil {
			return err
		}
		data, err := o.blob(e.id)
		if err != nil {
			return err
		}
		if stamps[i], err = writeNew(unix.AT_FDCWD, at, e.mode, data, m.src.files[i].mtime); err != nil {
			return err
		}
	}
	m.stamps = stamps
	if restored > 0 {
		m.about.Notes = append(m.about.Notes, fmt.Sprintf("setup changed %d files of the tree; they were put back", restored))
	}
	if tops := w.addedTops(); len(tops) > 0 {
		var text strings.Builder
		for _, t := range tops {
			text.WriteString("/" + escapePattern(t) + "\n")
		}
		m.about.Rules.Global = append(m.about.Rules.Global, []byte(text.String()))
		m.about.Notes = append(m.about.Notes, "made by setup and ignored from then on: "+some(tops))
	}
	// Files that were touched but not changed have new stamps.
	return parallel(workers, len(entries), func(i int) error {
		var err error
		m.stamps[i], _, err = lstat(filepath.Join(tree, entries[i].path))
		return err
	})
}

// escapePattern makes a gitignore pattern that matches one path.
func escapePattern(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if strings.IndexByte(`*?[\ !#`, path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}
