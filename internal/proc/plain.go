//go:build !race

package proc

// plainProgram is this program as it is shipped, where it is not that itself.
func plainProgram() string { return "" }
