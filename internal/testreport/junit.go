package testreport

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Case is one testcase of a JUnit report.
type Case struct {
	Class, Name, File string
	Status            Status
	// Text is the messages and the texts of its failures and errors, up to
	// maxText bytes.
	Text string
}

const maxText = 64 << 10

// ReadJUnit reads JUnit's XML as pytest, surefire, gotestsum, vitest and others
// write it, and calls do with each test case. A document type, which is where
// entities are declared, is refused. After an error, the cases up to there
// should not be used either.
func ReadJUnit(in io.Reader, do func(Case)) error {
	p := &junit{do: do}
	d := xml.NewDecoder(in)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.Directive:
			return errors.New("it has a document type, which no report needs")
		case xml.StartElement:
			if err := p.start(token); err != nil {
				return err
			}
		case xml.CharData:
			if p.fault {
				p.say(token)
			}
		case xml.EndElement:
			p.end()
		}
	}
	if !p.root {
		return ErrNoReport
	}
	return nil
}

func parseJUnit(in io.Reader) (*Report, error) {
	r := newReport()
	if err := ReadJUnit(in, r.testCase); err != nil {
		return nil, err
	}
	return r, nil
}

type junit struct {
	do    func(Case)
	root  bool
	path  []string // names of the open elements
	test  Case
	fault bool // inside of a failure or an error
}

func (p *junit) say(text []byte) {
	p.test.Text += string(text[:min(len(text), maxText-len(p.test.Text))])
}

func (p *junit) start(e xml.StartElement) error {
	name := e.Name.Local
	if len(p.path) == 0 {
		if p.root || name != "testsuites" && name != "testsuite" {
			return fmt.Errorf("<%.40q> is not where a report begins", name)
		}
		p.root = true
	}
	if len(p.path) >= maxDepth {
		return fmt.Errorf("elements are more than %d deep", maxDepth)
	}
	parent := ""
	if len(p.path) > 0 {
		parent = p.path[len(p.path)-1]
	}
	p.path = append(p.path, name)
	if name == "testcase" {
		p.test = Case{Class: attr(e, "classname"), Name: attr(e, "name"), File: attr(e, "file"), Status: worse(attrStatus(attr(e, "status")), attrStatus(attr(e, "result")))}
	}
	if parent != "testcase" {
		return nil
	}
	if p.fault = name == "failure" || name == "error"; p.fault {
		p.say([]byte(attr(e, "message")))
	}
	switch name {
	case "failure":
		p.test.Status = worse(p.test.Status, Failed)
	case "error":
		p.test.Status = worse(p.test.Status, Error)
	case "skipped":
		s := Skipped
		if attr(e, "type") == "pytest.xfail" {
			s = Expected
		}
		p.test.Status = worse(p.test.Status, s)
	}
	return nil
}

// attrStatus is what some runners say in an attribute of a test case, beside or
// instead of an element in it. A word that is not known is no fault.
func attrStatus(word string) Status {
	switch strings.ToLower(word) {
	case "notrun", "disabled", "skipped", "suppressed", "ignored", "pending":
		return Skipped
	case "fail", "failed", "failure":
		return Failed
	case "error", "errored", "broken", "timeout":
		return Error
	}
	return Passed
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (p *junit) end() {
	name := p.path[len(p.path)-1]
	p.path = p.path[:len(p.path)-1]
	if name == "failure" || name == "error" {
		p.fault = false
	}
	if name == "testcase" {
		p.do(p.test)
	}
}

func (r *Report) testCase(c Case) {
	switch {
	case c.Class == "" && c.Status == Error:
		// pytest tells so that a file could not be collected.
		r.fault(c.Name)
		r.add(c.Name, "", c.Status)
	case c.Class == "":
		r.add(c.Name, c.Name, c.Status)
	default:
		r.add(c.id(), c.Name, c.Status)
	}
}

// id is pytest's own id where the file is told, else class.name.
func (c Case) id() string {
	module, isPython := strings.CutSuffix(c.File, ".py")
	rest, inside := strings.CutPrefix(c.Class, strings.ReplaceAll(module, "/", "."))
	if !isPython || !inside || rest != "" && rest[0] != '.' {
		return c.Class + "." + c.Name
	}
	return c.File + strings.ReplaceAll(rest, ".", "::") + "::" + c.Name
}
