package proc

import "os"

// Executable is the file of this program, for who starts it again.
func Executable() (string, error) {
	if plain := plainProgram(); plain != "" {
		return plain, nil
	}
	return os.Executable()
}
