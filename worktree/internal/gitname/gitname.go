// Package gitname knows the names that a path of a tree must not have.
package gitname

import "strings"

// Refused says why a path may not be part of a tree, "" when it may. Some
// file systems take other names for .git: those that differ in case (most),
// by code points that do not show (HFS+), by trailing dots and spaces, a
// stream's name or the short form (NTFS).
func Refused(path string) string {
	if !mayFoldToGit(path) {
		return ""
	}
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if foldsToGit(name) {
			return "some systems take this name for .git"
		}
	}
	return ""
}

// mayFoldToGit is quick: it says no to most paths that foldsToGit would.
func mayFoldToGit(path string) bool {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c >= 0x80:
			return true
		case c|0x20 == 'g' && i+2 < len(path) && path[i+1]|0x20 == 'i' && path[i+2]|0x20 == 't':
			return true
		}
	}
	return false
}

func foldsToGit(name string) bool {
	if len(name) < 4 {
		return false
	}
	visible := strings.Map(func(r rune) rune {
		if (r >= 0x200c && r <= 0x200f) || (r >= 0x202a && r <= 0x202e) || (r >= 0x206a && r <= 0x206f) || r == 0xfeff {
			return -1
		}
		return r
	}, name)
	if strings.EqualFold(visible, ".git") {
		return true
	}
	ntfs, _, _ := strings.Cut(name, ":")
	ntfs = strings.TrimRight(ntfs, ". ")
	return strings.EqualFold(ntfs, ".git") || strings.EqualFold(ntfs, "git~1")
}
