//go:build !amd64

package hostile

// otherArch says that there is no other architecture to ask as.
func otherArch() int32 { return -1 }
