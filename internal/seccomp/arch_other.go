//go:build !amd64 && !arm64

package seccomp

const (
	arch = 0 // its filter is not written
	x32  = 0
)

var refusedHere []uint32
