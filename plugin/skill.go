package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bestof-dev/bestof/plugin/wire"
)

// A Skill is text that helps with some tasks. It is added to the brief of a
// task that it matches, and enforces nothing.
type Skill struct {
	Slug        string
	Description string // what it is matched by, besides its slug
	Text        string
	File        string
}

func (p *Package) readSkills(dir fs.FS) error {
	entries, err := fs.ReadDir(dir, "skills")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var names, files []string
	for _, e := range entries {
		file := path.Join("skills", e.Name(), "SKILL.md")
		if !e.IsDir() {
			continue
		}
		data, err := readFile(dir, file, MaxContent)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !utf8.Valid(data) {
			return fmt.Errorf("%s is not UTF-8", file)
		}
		description, text := frontMatter(string(data))
		if i := slices.IndexFunc(p.Skills, func(d Declared) bool { return d.Name == e.Name() }); i >= 0 && description == "" {
			description = p.Skills[i].Description
		}
		p.PackageSkills = append(p.PackageSkills, Skill{Slug: e.Name(), Description: description, Text: text, File: file})
		names, files = append(names, e.Name()), append(files, file)
	}
	return reconcile("skills", "skills", p.Skills, names, files)
}

// frontMatter splits "---", "key: value" lines and "---" off a skill and
// returns its description.
func frontMatter(text string) (description, body string) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	head, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text
	}
	head, body, ok = strings.Cut(head, "\n---\n")
	if !ok {
		return "", text
	}
	for line := range strings.Lines(head) {
		if value, ok := strings.CutPrefix(line, "description:"); ok {
			description = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return description, strings.TrimLeft(body, "\n")
}

// maxSkills is how many skills a brief gets at most.
const maxSkills = 3

// Match picks the skills that a task calls for, best first: those that share
// words with it, in their slug or their description. A slug's word weighs as
// much as three others, and one common word is not enough.
func Match(task string, skills []Skill) []Skill {
	said := words(task)
	type scored struct {
		skill Skill
		score int
	}
	var found []scored
	for _, s := range skills {
		score := 0
		slug := words(s.Slug)
		for w := range slug {
			if said[w] {
				score += 3
			}
		}
		for w := range words(s.Description) {
			if said[w] && !slug[w] {
				score++
			}
		}
		if score >= 2 {
			found = append(found, scored{s, score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.skill.Slug, b.skill.Slug))
	})
	var out []Skill
	for _, f := range found[:min(maxSkills, len(found))] {
		out = append(out, f.skill)
	}
	return out
}

// common words say nothing about a task.
var common = strings.Fields(`about after all and any are before but can code does file files for from have how into its make more
	must not one only other our should some such than that the their them then there these they this use used uses using was when
	where which will with you your`)

// words are the telling words of a text, without their plural.
func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if utf8.RuneCountInString(w) > 2 && !slices.Contains(common, w) {
			if utf8.RuneCountInString(w) > 3 {
				w = strings.TrimSuffix(w, "s")
			}
			set[w] = true
		}
	}
	return set
}

// Context is what the package's content adds to the brief of a task: the
// skills that match it and the active records, as advice.
func (p *Package) Context(task string) []wire.Context {
	var out []wire.Context
	for _, s := range Match(task, p.PackageSkills) {
		out = append(out, wire.Context{Label: fmt.Sprintf("skill %s of the plugin %s", s.Slug, p.Name), Text: s.Text})
	}
	for _, r := range p.PackageRecords {
		if r.Active {
			out = append(out, wire.Context{Label: fmt.Sprintf("advice %s of the plugin %s", r.Lineage, p.Name), Text: r.Statement})
		}
	}
	return out
}
