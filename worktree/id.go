package worktree

// ID is the blob id of a file of the tree, "" when it has none at path.
func (b *Base) ID(path string) string {
	i, ok := b.index().files[path]
	if !ok {
		return ""
	}
	return b.entries[i].id.String()
}
