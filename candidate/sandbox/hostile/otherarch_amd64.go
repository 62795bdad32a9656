package hostile

// otherArch asks for this process's id as a 32-bit program would.
func otherArch() int32
