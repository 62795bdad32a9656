package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/plugin"
)

// An Installed plugin is one that may be used.
type Installed struct {
	*plugin.Package
	Tree    plugin.Tree
	Scope   Scope
	Dir     string    // what ${plugin_dir} stands for
	Agreed  time.Time // zero for one that came with a trusted repository
	Shadows bool      // the scope user has another of this name, which is not used
}

// Load reads both tiers, sorted by name. What cannot be used is left out, and
// a notice for stderr says why, so that one bad package costs no other. A
// plugin of the repository hides one of the operator's that has its name.
func (s *Store) Load() (plugins []Installed, notices []string) {
	byName := map[plugin.Name]Installed{}
	for _, scope := range s.scopes() {
		tier := s.tier(scope)
		if scope == Project && !s.trusted {
			if dirs := directories(tier); len(dirs) > 0 {
				notices = append(notices, fmt.Sprintf("the plugins that came with this repository are not loaded (%s): it is not trusted. "+
					"BESTOF_TRUST_PROJECT=1 trusts it", strings.Join(quoted(dirs), ", ")))
			}
			continue
		}
		found, said := s.loadTier(scope, tier)
		notices = append(notices, said...)
		for _, p := range found {
			if by, taken := byName[p.Name]; taken {
				by.Shadows = true
				byName[p.Name] = by
				continue
			}
			byName[p.Name] = p
		}
	}
	for _, p := range byName {
		plugins = append(plugins, p)
	}
	slices.SortFunc(plugins, func(a, b Installed) int { return cmp.Compare(a.Name, b.Name) })
	return distinct(plugins, notices)
}

// distinct drops plugins that are driven by a name which another has.
func distinct(plugins []Installed, notices []string) ([]Installed, []string) {
	driven := map[string]plugin.Name{}
	var kept []Installed
	for _, p := range plugins {
		if other, taken := driven[p.Driven()]; taken {
			notices = append(notices, fmt.Sprintf("the plugin %q is not loaded: %q is driven by the name %q too", p.Name, other, p.Driven()))
			continue
		}
		driven[p.Driven()] = p.Name
		kept = append(kept, p)
	}
	return kept, notices
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return out
}

func (s *Store) loadTier(scope Scope, tier string) (found []Installed, notices []string) {
	if err := s.sound(scope); err != nil {
		return nil, []string{fmt.Sprintf("no plugin of this repository is loaded: %v", err)}
	}
	at := map[plugin.Name]string{}
	for _, dir := range directories(tier) {
		p, err := s.load(scope, filepath.Join(tier, dir))
		if errors.Is(err, errNoPlugin) {
			continue
		}
		if err != nil {
			notices = append(notices, fmt.Sprintf("the plugin in %s is not loaded: %v", filepath.Join(tier, dir), err))
			continue
		}
		if other, twice := at[p.Name]; twice {
			notices = append(notices, fmt.Sprintf("no plugin %q of the scope %s is loaded: %q and %q both say that they are it", p.Name, scope, other, dir))
			found = slices.DeleteFunc(found, func(q Installed) bool { return q.Name == p.Name })
			continue
		}
		at[p.Name] = dir
		if string(p.Name) != dir {
			notices = append(notices, fmt.Sprintf("the plugin in the directory %q is called %q: that name counts", dir, p.Name))
		}
		found = append(found, p)
	}
	return found, notices
}

// errNoPlugin means a directory without a manifest.
var errNoPlugin = errors.New("not a plugin")

// load reads one directory and holds it against its receipt.
func (s *Store) load(scope Scope, dir string) (Installed, error) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return Installed{}, errors.New("it is a link: install it with `bestof plugin install`")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Installed{}, err
	}
	defer root.Close()
	if _, err := root.Lstat(plugin.ManifestName); errors.Is(err, fs.ErrNotExist) {
		return Installed{}, errNoPlugin
	}
	tree, err := treeOf(root)
	if err != nil {
		return Installed{}, err
	}
	// A manifest that was broken since then has changed, which is the point.
	agreed := s.receipt(scope, plugin.Name(filepath.Base(dir)))
	p, err := plugin.Read(root.FS())
	if err == nil {
		err = p.Name.Check()
	}
	if err == nil && string(p.Name) != filepath.Base(dir) {
		agreed = s.receipt(scope, p.Name)
	}
	if agreed != nil && agreed.Digest != tree.Digest {
		if agreed.Digest == "" {
			return Installed{}, errors.New("its receipt cannot be read: remove it and install it again")
		}
		return Installed{}, fmt.Errorf("it is not what was agreed to: %s. `bestof plugin remove` and install it again to agree to what it is now", changes(agreed.Files, tree.Files))
	}
	if err != nil {
		return Installed{}, err
	}
	in := Installed{Package: p, Tree: tree, Scope: scope, Dir: dir}
	if agreed == nil {
		if scope == User {
			return Installed{}, errors.New("nobody agreed to it: install it with `bestof plugin install`")
		}
		return in, nil
	}
	in.Agreed = agreed.Agreed
	return in, nil
}

// Intact fails when the package is not what it was when it was loaded: some
// program of the operator's user wrote to it since then.
func (p Installed) Intact() error {
	tree, err := func() (plugin.Tree, error) {
		if info, err := os.Lstat(p.Dir); err != nil || !info.IsDir() {
			return plugin.Tree{}, errors.New("its directory is gone")
		}
		root, err := os.OpenRoot(p.Dir)
		if err != nil {
			return plugin.Tree{}, err
		}
		defer root.Close()
		return treeOf(root)
	}()
	if err == nil && tree.Digest != p.Tree.Digest {
		err = errors.New(changes(p.Tree.Files, tree.Files))
	}
	if err != nil {
		return fmt.Errorf("the plugin %q is not what it was when it was loaded: %w", p.Name, err)
	}
	return nil
}

// Find loads and returns the plugin of a name.
func (s *Store) Find(name plugin.Name) (Installed, []string, error) {
	plugins, notices := s.Load()
	for _, p := range plugins {
		if p.Name == name {
			return p, notices, nil
		}
	}
	return Installed{}, notices, fmt.Errorf("%q: %w", name, ErrNotInstalled)
}

// Remove deletes a plugin from every tier that has it, trusted or not, broken
// or not, and returns the directories that are gone. Its receipts go too.
func (s *Store) Remove(name plugin.Name) ([]string, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var gone []string
	var unsound error // of the repository, which keeps nobody from removing their own
	for _, scope := range s.scopes() {
		tier := s.tier(scope)
		if err := s.sound(scope); err != nil {
			unsound = err
			continue
		}
		for _, dir := range directories(tier) {
			path := filepath.Join(tier, dir)
			if dir != string(name) {
				if n, err := nameIn(path); err != nil || n != name {
					continue
				}
			}
			if err := remove(tier, path); err != nil {
				return gone, fmt.Errorf("remove %s: %w", path, err)
			}
			gone = append(gone, path)
		}
		if err := os.Remove(s.receiptPath(scope, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return gone, fmt.Errorf("remove the receipt: %w", err)
		}
	}
	if len(gone) == 0 && unsound == nil {
		return nil, fmt.Errorf("%q: %w", name, ErrNotInstalled)
	}
	return gone, unsound
}

// remove takes a direct child of a tier out of sight at once and then deletes
// it. A link goes, what it leads to stays.
func remove(tier, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return os.Remove(path)
	}
	aside, err := os.MkdirTemp(tier, fmt.Sprintf(".staging-%d-*", os.Getpid()))
	if err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(aside, "removed")); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	return os.RemoveAll(aside)
}
