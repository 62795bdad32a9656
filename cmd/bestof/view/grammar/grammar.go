// Package grammar finds the grammar of a piece of code by its file's name.
//
// The grammars are those of github.com/alecthomas/chroma/v2, of a chosen set of
// languages, in files of our own: the package of that library that has them reads
// all of them whenever a program starts, and this program starts again for each
// verification. Here a grammar is read when it is first used.
//
// The files and table.go are written from the library by
//
//	go test ./cmd/bestof/view/grammar -update
//
// and a test holds them to it.
package grammar

import (
	"cmp"
	"embed"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/chroma/v2"
)

//go:embed files
var files embed.FS

// An entry is what is known of a grammar without reading it.
type entry struct {
	file   string        // its name below files
	config chroma.Config // name, aliases, patterns of file names and priority, no more
}

// Find gives the grammar that goes with a file's name without its folders, or nil.
// It reads nothing; what it returns is read at the first Tokenise and may be used by
// many goroutines. A grammar may panic on a text, and has no limit of time.
func Find(name string) chroma.Lexer {
	in := known()
	for _, n := range []string{name, withoutCopy(name)} {
		if l := in.find(n); l != nil {
			return l
		}
	}
	return nil
}

// withoutCopy is the name of what a file with such a name is a copy or template of.
func withoutCopy(name string) string {
	for _, suffix := range []string{"~", ".bak", ".old", ".orig", ".in"} {
		if of, ok := strings.CutSuffix(name, suffix); ok {
			return of
		}
	}
	return name
}

// An index finds grammars by what their patterns are: the whole name, the end of one
// (with its dot), or another pattern. Where two are alike the higher priority
// counts, then the order of the table. A whole name comes before an end.
type index struct {
	whole, ends map[string]*lazy
	others      []pattern
}

type pattern struct {
	glob    string
	grammar *lazy
}

func (in *index) find(name string) *lazy {
	if l := in.whole[name]; l != nil {
		return l
	}
	for i := range len(name) {
		if l := in.ends[name[i:]]; l != nil && name[i] == '.' {
			return l
		}
	}
	for _, p := range in.others {
		if ok, err := path.Match(p.glob, name); ok && err == nil {
			return p.grammar
		}
	}
	return nil
}

// add puts a grammar under its patterns.
func (in *index) add(l *lazy) {
	put := func(m map[string]*lazy, key string) {
		if other := m[key]; other == nil || priority(l) > priority(other) {
			m[key] = l
		}
	}
	for _, glob := range l.config.Filenames {
		end, isEnd := strings.CutPrefix(glob, "*")
		switch {
		case strings.ContainsAny(end, `*?[\`):
			in.others = append(in.others, pattern{glob, l})
		case isEnd:
			put(in.ends, end)
		default:
			put(in.whole, glob)
		}
	}
}

func priority(l *lazy) float32 { return cmp.Or(l.config.Priority, 1) }

var known = sync.OnceValue(func() *index {
	in, names := &index{whole: map[string]*lazy{}, ends: map[string]*lazy{}}, chroma.NewLexerRegistry()
	var all []*lazy
	for _, e := range table {
		l := &lazy{config: e.config, read: sync.OnceValues(func() (chroma.Lexer, error) {
			l, err := chroma.NewXMLLexer(files, "files/"+e.file)
			if err != nil {
				return nil, err
			}
			return l.SetRegistry(names), nil
		})}
		in.add(l)
		all = append(all, l)
	}
	for _, l := range all {
		names.Register(named(l, in))
	}
	return in
})

// named is a grammar as another one refers to it: by its name, an alias or the end
// of its files' names, which a text may have chosen. It has no patterns, because to
// match them takes minutes when a hostile text's word is as long as the text.
func named(l *lazy, in *index) *lazy {
	n := &lazy{read: l.read, config: chroma.Config{Name: l.config.Name, Aliases: slices.Clone(l.config.Aliases)}}
	for _, glob := range l.config.Filenames {
		if ext, ok := strings.CutPrefix(glob, "*."); ok && in.ends["."+ext] == l {
			n.config.Aliases = append(n.config.Aliases, ext)
		}
	}
	return n
}

// A lazy grammar is read when it is first used.
type lazy struct {
	config chroma.Config
	read   func() (chroma.Lexer, error)
}

func (l *lazy) Config() *chroma.Config { return &l.config }

func (l *lazy) Tokenise(o *chroma.TokeniseOptions, text string) (chroma.Iterator, error) {
	lexer, err := l.read()
	if err != nil {
		return nil, err
	}
	return lexer.Tokenise(o, text)
}

// SetRegistry changes nothing: a grammar refers to the others of this package.
func (l *lazy) SetRegistry(*chroma.LexerRegistry) chroma.Lexer { return l }

// SetAnalyser changes nothing: a grammar is found by a name, never by a text.
func (l *lazy) SetAnalyser(func(string) float32) chroma.Lexer { return l }

func (l *lazy) AnalyseText(string) float32 { return 0 }
