// Package shebang reads which interpreter runs a script.
package shebang

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// maxLine is how much of the first line the kernel reads, and more.
const maxLine = 512

// Words are those of the first line of a program on PATH, without "#!": an
// interpreter, and what it is given before the program. They are the program's
// own and not checked; an error names the program.
func Words(program string) ([]string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, maxLine)).ReadString('\n') // a short file has a line, too
	text, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(text)
	if !ok || len(words) == 0 {
		return nil, fmt.Errorf("%s does not say which interpreter runs it", path)
	}
	return words, nil
}
