package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// DevcontainerFiles are where a repository may describe its container, the
// first that is there counts.
var DevcontainerFiles = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// MaxDevcontainer is how many bytes of a devcontainer.json are read.
const MaxDevcontainer = 256 << 10

// A Devcontainer is what a devcontainer.json asks for, as far as a sandbox
// gives it. The names are those of the Development Container Specification.
type Devcontainer struct {
	Source  Source
	User    string            // remoteUser, else containerUser; "" when neither is there
	Env     map[string]string // containerEnv, then remoteEnv
	Setup   []string          // postCreateCommand as a command line; nil for none
	Refused []string          // what asks for more than a sandbox gives, sorted
	Ignored []string          // what counts for nothing here, sorted
}

// refused properties would open the container, or run something that nobody
// asked for on the host.
var refused = []string{
	"runArgs", "mounts", "privileged", "capAdd", "securityOpt", "features", "initializeCommand",
	"workspaceMount", "dockerComposeFile", "service", "runServices", "gpu",
}

// silent properties are about editors and change nothing for a program.
var silent = []string{"$schema", "name", "customizations"}

var (
	userForm = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ParseDevcontainer reads the file at a slash path of a repository.
func ParseDevcontainer(file string, data []byte) (Devcontainer, error) {
	d, err := parseDevcontainer(path.Dir(file), data)
	if err != nil {
		return Devcontainer{}, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

func parseDevcontainer(dir string, data []byte) (Devcontainer, error) {
	var d Devcontainer
	if len(data) > MaxDevcontainer {
		return d, fmt.Errorf("it has more than %d bytes", MaxDevcontainer)
	}
	plain, err := plainJSON(data)
	if err != nil {
		return d, err
	}
	all, err := members(plain)
	if err != nil {
		return d, err
	}
	var r reader
	for _, m := range all {
		if err := r.property(m); err != nil {
			return d, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return r.finish(dir)
}

// A reader collects properties.
type reader struct {
	d                          Devcontainer
	image, dockerfile, context string
	build                      *Build
	remoteUser, containerUser  string
	containerEnv, remoteEnv    map[string]string
}

func (r *reader) property(m member) (err error) {
	switch m.name {
	case "image":
		return word(m.value, &r.image)
	case "build":
		return r.buildOf(m.value)
	case "dockerFile": // its older form
		return word(m.value, &r.dockerfile)
	case "context":
		return word(m.value, &r.context)
	case "remoteUser":
		return userOf(m.value, &r.remoteUser)
	case "containerUser":
		return userOf(m.value, &r.containerUser)
	case "containerEnv":
		r.containerEnv, err = r.environment(m)
	case "remoteEnv":
		r.remoteEnv, err = r.environment(m)
	case "postCreateCommand":
		r.d.Setup, err = commandOf(m.value)
	default:
		switch {
		case slices.Contains(refused, m.name):
			if !nothing(m.value) {
				r.d.Refused = append(r.d.Refused, m.name)
			}
		case !slices.Contains(silent, m.name):
			r.d.Ignored = append(r.d.Ignored, m.name)
		}
	}
	return err
}

func (r *reader) finish(dir string) (Devcontainer, error) {
	d := r.d
	if r.build == nil && r.dockerfile != "" {
		r.build = &Build{Dockerfile: r.dockerfile, Dir: r.context}
	} else if r.context != "" {
		d.Ignored = append(d.Ignored, "context")
	}
	slices.Sort(d.Refused)
	slices.Sort(d.Ignored)
	d.User = r.remoteUser
	if d.User == "" {
		d.User = r.containerUser
	}
	d.Env = map[string]string{}
	maps.Copy(d.Env, r.containerEnv)
	maps.Copy(d.Env, r.remoteEnv)
	switch {
	case r.image != "" && r.build != nil:
		return d, errors.New("it has both an image and a build: leave one out")
	case r.image != "":
		_, err := ParseRef(r.image)
		d.Source.Ref = r.image
		return d, err
	case r.build != nil:
		b, err := r.build.below(dir)
		d.Source.Build = b
		return d, err
	case slices.Contains(d.Refused, "dockerComposeFile"):
		return d, errors.New("it describes its container by a compose file, which is not read: name an image with --image")
	}
	return d, errors.New("it has neither an image nor a build: name an image with --image")
}

// below places a build that is written relative to dir in the repository.
func (b *Build) below(dir string) (*Build, error) {
	context := path.Join(dir, b.Dir)
	file := path.Join(dir, b.Dockerfile)
	for _, p := range []string{b.Dir, b.Dockerfile} {
		if path.IsAbs(p) || strings.ContainsAny(p, "\\\x00") {
			return nil, fmt.Errorf("build: %q is not a relative path", p)
		}
	}
	if outside(context) || outside(file) {
		return nil, errors.New("build: it leads out of the repository")
	}
	if context != "." {
		rel, ok := strings.CutPrefix(file, context+"/")
		if !ok {
			return nil, fmt.Errorf("build: the Dockerfile %s is not inside its context %s: make the context larger", file, context)
		}
		file = rel
	}
	return &Build{Dir: context, Dockerfile: file, Args: b.Args, Target: b.Target}, nil
}

func outside(p string) bool { return p == ".." || strings.HasPrefix(p, "../") }

func (r *reader) buildOf(value json.RawMessage) error {
	all, err := members(value)
	if err != nil {
		return err
	}
	b := &Build{}
	for _, m := range all {
		switch m.name {
		case "dockerfile":
			err = word(m.value, &b.Dockerfile)
		case "context":
			err = word(m.value, &b.Dir)
		case "target":
			err = word(m.value, &b.Target)
		case "args":
			b.Args, err = r.environment(member{"build.args", m.value})
		case "options":
			if !nothing(m.value) {
				r.d.Refused = append(r.d.Refused, "build.options")
			}
		default:
			r.d.Ignored = append(r.d.Ignored, "build."+m.name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if b.Dockerfile == "" {
		return errors.New("dockerfile is missing")
	}
	r.build = b
	return nil
}

// environment reads an object of texts. A value with a ${…} in it would need
// what is on the host, and is left out.
func (r *reader) environment(m member) (map[string]string, error) {
	all, err := members(m.value)
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for _, v := range all {
		if !nameForm.MatchString(v.name) {
			return nil, fmt.Errorf("%q is no name of a variable", v.name)
		}
		var text string
		switch err := word(v.value, &text); {
		case string(v.value) == "null":
		case err != nil:
			return nil, fmt.Errorf("%s: %w", v.name, err)
		case strings.Contains(text, "${"):
			r.d.Ignored = append(r.d.Ignored, m.name+"."+v.name)
		default:
			env[v.name] = text
		}
	}
	return env, nil
}

// commandOf reads a command: a text, which the specification gives to a shell,
// a list, which it does not, or an object with one of either.
func commandOf(value json.RawMessage) ([]string, error) {
	if nothing(value) {
		return nil, nil
	}
	var text string
	if word(value, &text) == nil {
		return []string{"/bin/sh", "-c", text}, nil
	}
	var list []string
	if json.Unmarshal(value, &list) == nil {
		if list[0] == "" || slices.ContainsFunc(list, func(s string) bool { return strings.ContainsRune(s, 0) }) {
			return nil, errors.New("its program is empty, or it has a NUL")
		}
		return list, nil
	}
	all, err := members(value)
	if err != nil {
		return nil, errors.New("write a text or a list of texts")
	}
	if len(all) == 1 {
		return commandOf(all[0].value)
	}
	return nil, errors.New("of several commands none is run: write one")
}

// nothing reports a value that asks for nothing.
func nothing(value json.RawMessage) bool {
	switch strings.Join(strings.Fields(string(value)), "") {
	case "null", "false", "{}", "[]", `""`:
		return true
	}
	return false
}

func word(value json.RawMessage, to *string) error {
	var s *string
	if err := json.Unmarshal(value, &s); err != nil || s == nil {
		return errors.New("write a text")
	}
	if strings.ContainsRune(*s, 0) || len(*s) > 32<<10 {
		return errors.New("it has a NUL, or more than 32 KiB")
	}
	*to = *s
	return nil
}

func userOf(value json.RawMessage, to *string) error {
	if err := word(value, to); err != nil {
		return err
	}
	if *to != "" && !userForm.MatchString(*to) {
		return fmt.Errorf("%q is no name of a user", *to)
	}
	return nil
}

// Notice says in one line what of the file does not hold; "" when all does.
func (d Devcontainer) Notice() string {
	var parts []string
	if len(d.Refused) > 0 {
		parts = append(parts, "refused: "+strings.Join(d.Refused, ", "))
	}
	if len(d.Ignored) > 0 {
		parts = append(parts, "not supported: "+strings.Join(d.Ignored, ", "))
	}
	if d.User != "" {
		parts = append(parts, "programs are named "+d.User+" and run with your uid")
	}
	return strings.Join(parts, "; ")
}
