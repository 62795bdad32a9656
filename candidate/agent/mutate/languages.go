package mutate

import (
	"path"
	"strings"
)

// A language is what the search knows of one: how its text splits into
// tokens, how its operators are spelled, and what its tests are called.
type language struct {
	name         string
	extensions   []string
	lineComment  []string
	blockComment [2]string
	quotes       []string // longest first; one byte long means that it ends with the line
	rawQuote     string   // a quote without escapes that may span lines
	keywords     []string
	control      []string // keywords that take a condition in a header
	indent       bool     // blocks are made by indentation

	swaps     [][]string // spellings that are mistaken for one another
	words     [][]string // names that are, among functions and constants
	constants []string   // what a wrong constant or result is often meant to be
	results   []string   // more of them, for a whole result

	and, or, not string
	null         string
	isNull       string // format of a test for null; "" when there is none
	isEmpty      string // the same for an empty container
	block        string // format of a guarded statement: condition, statement
	end          string // of a statement
	larger       string // format of the larger of two, "" when there is none
	smaller      string
	list         string // format of a list with one element, "" when there is none
	slices       []string
	declare      string // format of a plain assignment

	testFiles []string // base name patterns
	testDirs  []string
	signal    string // "quit" or "abort": what makes a hanging program print where it is
}

var braceSwaps = [][]string{
	{"<", "<=", ">", ">=", "==", "!="},
	{"+", "-", "*", "/", "%"},
	{"&", "|", "^"},
	{"<<", ">>"},
	{"&&", "||"},
	{"=", "+=", "-=", "*=", "/="},
	{"&=", "|=", "^="},
	{"<<=", ">>="},
	{"++", "--"},
}

var languages = []*language{
	{
		name: "python", extensions: []string{".py"}, lineComment: []string{"#"}, indent: true,
		quotes: []string{`"""`, `'''`, `"`, `'`},
		keywords: words(`and as assert async await break class continue def del elif else except finally for from global
			if import in is lambda nonlocal not or pass raise return try while with yield None True False self cls`),
		control: []string{"if", "elif", "while"},
		swaps: [][]string{
			{"<", "<=", ">", ">=", "==", "!="},
			{"+", "-", "*", "/", "//", "%", "**"},
			{"&", "|", "^"},
			{"<<", ">>"},
			{"and", "or"},
			{"=", "+=", "-=", "*=", "//="},
			{"&=", "|=", "^="},
			{"<<=", ">>="},
			{"in", "not in"},
			{"is", "is not", "=="},
			{"break", "continue"},
			{"if", "while"},
			{"yield", "yield from"},
		},
		words: [][]string{{"any", "all"}, {"min", "max"}, {"True", "False"}, {"append", "extend", "add", "update"}, {"ceil", "floor"},
			{"pop", "popleft"}, {"append", "appendleft"}, {"keys", "values", "items"}, {"startswith", "endswith"},
			{"lower", "upper"}, {"lstrip", "rstrip", "strip"}, {"find", "rfind"}, {"sorted", "reversed", "list"}, {"int", "float", "round"},
			{"issubset", "issuperset"}, {"union", "intersection", "difference"}, {"bisect_left", "bisect_right"}, {"sum", "len", "max"}},
		constants: []string{"0", "1", "-1", "2"},
		results:   []string{"None", "True", "False", "[]", "[[]]", `""`, "{}"},
		and:       "and", or: "or", not: "not ", null: "None", isNull: "%s is None", isEmpty: "not %s",
		block: "if %s:\n\t%s", larger: "max(%s, %s)", smaller: "min(%s, %s)", list: "[%s]",
		slices:    []string{"%s[1:]", "%s[:-1]", "%s[::-1]"},
		declare:   "%s = %s",
		testFiles: []string{"test_*.py", "*_test.py", "tests.py", "test.py", "conftest.py"}, testDirs: []string{"tests", "test"},
		signal: "abort",
	},
	{
		name: "go", extensions: []string{".go"}, lineComment: []string{"//"}, blockComment: [2]string{"/*", "*/"},
		quotes: []string{`"`, `'`}, rawQuote: "`",
		keywords: words(`break case chan const continue default defer else fallthrough for func go goto if import interface map
			package range return select struct switch type var nil true false int int64 int32 uint uint64 byte rune string bool float64 error any`),
		control: []string{"if", "for"},
		swaps:   append([][]string{{"=", ":="}, {"break", "continue"}, {"if", "for"}}, braceSwaps...),
		words: [][]string{{"true", "false"}, {"min", "max"}, {"HasPrefix", "HasSuffix"}, {"Index", "LastIndex"}, {"TrimLeft", "TrimRight", "Trim"},
			{"TrimPrefix", "TrimSuffix"}, {"Floor", "Ceil", "Round"}, {"ToLower", "ToUpper"}, {"Before", "After"}, {"Lock", "Unlock", "RLock"}},
		constants: []string{"0", "1", "-1", "2"},
		results:   []string{"nil", "true", "false", `""`},
		and:       "&&", or: "||", not: "!", null: "nil", isNull: "%s == nil", isEmpty: "len(%s) == 0",
		block: "if %s {\n\t%s\n}", larger: "max(%s, %s)", smaller: "min(%s, %s)",
		slices:    []string{"%s[1:]", "%s[:len(%[1]s)-1]"},
		declare:   "%s = %s",
		testFiles: []string{"*_test.go"}, testDirs: []string{"testdata"},
		signal: "quit",
	},
	{
		name: "javascript", extensions: []string{".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"},
		lineComment: []string{"//"}, blockComment: [2]string{"/*", "*/"},
		quotes: []string{`"`, `'`}, rawQuote: "`",
		keywords: words(`await async break case catch class const continue debugger default delete do else export extends finally for function
			if import in instanceof let new of return static super switch this throw try typeof var void while with yield null undefined true false
			require module exports number string boolean`),
		control: []string{"if", "while", "for"},
		swaps: append([][]string{{"===", "!==", "<", "<=", ">", ">="}, {"<", "<=", ">", ">=", "===", "!=="}, {"break", "continue"}, {"if", "while"},
			{"+", "-", "*", "/", "%", "**"}, {"||", "??", "&&"}, {"in", "of"}, {">>", ">>>"}, {"let", "var"}}, braceSwaps...),
		words: [][]string{{"true", "false"}, {"min", "max"}, {"some", "every"}, {"push", "unshift"}, {"pop", "shift"}, {"floor", "ceil", "round", "trunc"},
			{"indexOf", "lastIndexOf"}, {"startsWith", "endsWith"}, {"keys", "values", "entries"}, {"trimStart", "trimEnd", "trim"},
			{"toLowerCase", "toUpperCase"}, {"find", "findLast"}, {"filter", "map"}, {"slice", "splice"}},
		constants: []string{"0", "1", "-1", "2"},
		results:   []string{"null", "true", "false", "[]", "[[]]", `""`, "undefined"},
		and:       "&&", or: "||", not: "!", null: "null", isNull: "%s == null", isEmpty: "%s.length === 0",
		block: "if (%s) {\n\t%s\n}", end: ";", larger: "Math.max(%s, %s)", smaller: "Math.min(%s, %s)", list: "[%s]",
		slices:    []string{"%s.slice(1)", "%s.slice(0, -1)"},
		declare:   "%s = %s",
		testFiles: []string{"*.test.*", "*.spec.*", "test.*", "*_test.*", "*-test.*", "test-*"}, testDirs: []string{"test", "tests", "__tests__"},
	},
	{
		name: "java", extensions: []string{".java"}, lineComment: []string{"//"}, blockComment: [2]string{"/*", "*/"},
		quotes: []string{`"""`, `"`, `'`},
		keywords: words(`abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally
			float for goto if implements import instanceof int interface long native new package private protected public return short static
			strictfp super switch synchronized this throw throws transient try void volatile while null true false var record String Integer Object`),
		control: []string{"if", "while", "for"},
		swaps:   append([][]string{{"break", "continue"}, {"if", "while"}, {">>", ">>>"}}, braceSwaps...),
		words: [][]string{{"true", "false"}, {"min", "max"}, {"add", "remove"}, {"addFirst", "addLast"}, {"pollFirst", "pollLast", "poll"}, {"push", "add", "offer"}, {"floor", "ceil", "round"},
			{"indexOf", "lastIndexOf"}, {"startsWith", "endsWith"}, {"keySet", "values", "entrySet"}, {"anyMatch", "allMatch", "noneMatch"}, {"isEmpty", "size"}, {"addAll", "removeAll", "retainAll"}},
		constants: []string{"0", "1", "-1", "2"},
		results:   []string{"null", "true", "false", `""`},
		and:       "&&", or: "||", not: "!", null: "null", isNull: "%s == null", isEmpty: "%s.isEmpty()",
		block: "if (%s) {\n\t%s\n}", end: ";", larger: "Math.max(%s, %s)", smaller: "Math.min(%s, %s)",
		declare:   "%s = %s",
		testFiles: []string{"*Test.java", "Test*.java", "*Tests.java", "*IT.java"}, testDirs: []string{"test", "tests"},
		signal: "quit",
	},
	{
		name: "c", extensions: []string{".c", ".h", ".cc", ".cpp", ".hpp"}, lineComment: []string{"//"}, blockComment: [2]string{"/*", "*/"},
		quotes: []string{`"`, `'`},
		keywords: words(`auto break case char const continue default do double else enum extern float for goto if inline int long register
			return short signed sizeof static struct switch typedef union unsigned void volatile while NULL bool true false size_t include define
			ifdef ifndef endif uint8_t int32_t uint32_t int64_t uint64_t`),
		control: []string{"if", "while", "for"},
		swaps:   append([][]string{{"break", "continue"}, {"if", "while"}, {".", "->"}}, braceSwaps...),
		words: [][]string{{"true", "false"}, {"strcmp", "strncmp"}, {"strchr", "strrchr"}, {"memcpy", "memmove"}, {"tolower", "toupper"}, {"isalpha", "isalnum", "isdigit", "isspace"},
			{"prev", "next"}, {"left", "right"}, {"head", "tail"}},
		constants: []string{"0", "1", "-1", "2"},
		results:   []string{"NULL"},
		and:       "&&", or: "||", not: "!", null: "NULL", isNull: "%s == NULL",
		block: "if (%s) {\n\t%s\n}", end: ";",
		larger:    "(%[1]s > %[2]s ? %[1]s : %[2]s)",
		smaller:   "(%[1]s < %[2]s ? %[1]s : %[2]s)",
		slices:    []string{"%s + 1"},
		declare:   "%s = %s",
		testFiles: []string{"test_*", "*_test.*", "test.*", "tests.*", "*-test.*", "check_*"}, testDirs: []string{"test", "tests"},
	},
}

func words(s string) []string { return strings.Fields(s) }

func languageOf(name string) *language {
	ext := path.Ext(name)
	for _, l := range languages {
		for _, e := range l.extensions {
			if e == ext {
				return l
			}
		}
	}
	return nil
}

// isTest reports whether the slash path names a test by the customs of l.
func (l *language) isTest(name string) bool {
	dir, base := path.Split(name)
	for _, pattern := range l.testFiles {
		if ok, _ := path.Match(pattern, base); ok {
			return true
		}
	}
	for _, part := range strings.Split(dir, "/") {
		for _, d := range l.testDirs {
			if part == d {
				return true
			}
		}
	}
	return false
}
