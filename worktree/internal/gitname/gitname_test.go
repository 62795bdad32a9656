package gitname

import "testing"

func TestRefused(t *testing.T) {
	for path, refused := range map[string]bool{
		".git": true, "a/.git/config": true, ".GIT": true, ".gIt/x": true, "d\\.git\\x": true,
		".git.": true, ".git ": true, ".git . .": true, ".git::$INDEX_ALLOCATION": true, "git~1": true, "GIT~1/x": true, "git~1.": true,
		".g\u200cit": true, "\ufeff.git": true, ".gi\u206ft/x": true,
		"": false, "git": false, ".gitignore": false, ".gitmodules": false, ".github/x": false, "x.git": false, ".gi": false, "..git": false,
		"git~2": false, "git~10": false, "digit/x": false, ".g it": false, "\xff.git\xff": false,
	} {
		if got := Refused(path); (got != "") != refused {
			t.Errorf("%q: %q", path, got)
		}
	}
}
