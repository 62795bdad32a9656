// Package worktree makes shadows of a user's repository, reads candidates'
// trees back, and adopts one of them. It is the only importer of go-git and
// the only place that runs git.
package worktree

// A TreeID is the hex id of a git tree made from raw bytes, modes and link
// targets: no filter, attribute or line-ending rule has a say in it.
type TreeID string

// A Mode is a git file mode.
type Mode uint32

// The modes a sealed tree can hold.
const (
	ModeNone Mode = 0
	ModeFile Mode = 0o100644
	ModeExec Mode = 0o100755
	ModeLink Mode = 0o120000
)

// A FileChange is one path that differs between two trees. Path is slash
// separated, relative to the top level, and may hold any bytes but NUL.
type FileChange struct {
	Path             string
	OldMode, NewMode Mode   // ModeNone on the side where the path is absent
	Old, New         string // blob ids, "" where absent
	Binary           bool
	Added, Deleted   int // lines; 0 for binaries

	// Of a file that Renames paired: where it was, and how much of it is the
	// same, in percent. Then Old is what was at From.
	From       string
	Similarity int
}

// Status is added, deleted, modified, mode (only the mode differs), type (a
// file became a link or the reverse) or, after Renames, renamed.
func (f FileChange) Status() string {
	switch {
	case f.From != "":
		return "renamed"
	case f.OldMode == ModeNone:
		return "added"
	case f.NewMode == ModeNone:
		return "deleted"
	case (f.OldMode == ModeLink) != (f.NewMode == ModeLink):
		return "type"
	case f.Old == f.New:
		return "mode"
	default:
		return "modified"
	}
}

// A Change is the difference between the base's tree and a candidate's, tree
// to tree; commits that the candidate made are irrelevant.
type Change struct {
	Base, Tree     TreeID
	Files          []FileChange // sorted by Path, bytewise
	Added, Deleted int
	Normalised     string // equal for changes that differ only in white space: hex SHA-256
}

// Empty reports whether nothing changed.
func (c Change) Empty() bool { return len(c.Files) == 0 }
