package task

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/bestof-dev/bestof/internal/stricttoml"
)

// A Form is how an input spells its tasks.
type Form string

// The forms.
const (
	JSONLines Form = "jsonl"  // one object a line, as the official data sets have it
	JSON      Form = "json"   // a list of the same objects
	CSV       Form = "csv"    // a header and one row a task
	TOML      Form = "toml"   // our own: [[task]]
	Folders   Form = "folder" // a directory with a folder for each task
)

// A Source is one input. Exactly one of Reader and Dir is set; Dir goes with
// Folders and must not lead out of the directory (os.Root's FS does not).
type Source struct {
	Name   string // for messages
	Form   Form
	Reader io.Reader
	Dir    fs.FS
}

// FormOf tells the form by a file's name.
func FormOf(name string) (Form, error) {
	switch strings.ToLower(path.Ext(name)) {
	case ".jsonl", ".ndjson":
		return JSONLines, nil
	case ".json":
		return JSON, nil
	case ".csv":
		return CSV, nil
	case ".toml":
		return TOML, nil
	}
	return "", fmt.Errorf("%s: the form of these tasks is not known: name a .jsonl, .json, .csv or .toml file, or a directory of task folders", name)
}

// Read reads an input whole and gives every problem with it in one list, which
// is empty when all its tasks can be used. It reads at most MaxInput bytes, of
// TOML at most stricttoml.MaxSize.
func Read(src Source) (Input, []Problem) {
	limited := func() io.Reader { return &capped{r: src.Reader, left: MaxInput} }
	switch src.Form {
	case JSONLines:
		return readLines(src.Name, limited())
	case JSON:
		return readArray(src.Name, limited())
	case CSV:
		return readCSV(src.Name, limited())
	case TOML:
		data, err := io.ReadAll(io.LimitReader(src.Reader, stricttoml.MaxSize+1))
		if err != nil {
			return Input{}, []Problem{{src.Name, err.Error()}}
		}
		return readTOML(src.Name, data)
	case Folders:
		return readFolders(src.Name, src.Dir)
	}
	return Input{}, []Problem{{src.Name, fmt.Sprintf("there is no form %q of tasks", string(src.Form))}}
}

// capped fails, rather than end, after so many bytes.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		// One byte more decides whether there is anything left to refuse.
		var one [1]byte
		n, err := c.r.Read(one[:])
		if n > 0 {
			return 0, fmt.Errorf("it is larger than %d GiB", MaxInput>>30)
		}
		return 0, err
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
