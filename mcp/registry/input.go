package registry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bestof-dev/bestof/internal/lazyregexp"
)

// An Input is a value that only the user can give, or may change.
type Input struct {
	Name        string // what --set or --secret calls it
	Where       string // "environment variable", "argument", "header", "part of the address"
	Description string
	Placeholder string
	Format      string
	Choices     []string
	Default     string // used when nothing is given
	Required    bool   // there is no Default and it cannot be left out
	Secret      bool
	Repeated    bool // may be given several times
}

// Values are what the user gave, by name of the input; several only for a
// repeated one.
type Values map[string][]string

// A word is a text with inputs in it. Its first form is what is written, its
// second what is shown.
type word struct{ real, shown string }

func plain(s string) word { return word{s, s} }

func (w word) secret() bool { return w.real != w.shown }

func (w word) plus(o word) word { return word{w.real + o.real, w.shown + o.shown} }

// A piece of a template is fixed text or the name of an input.
type piece struct{ text, input string }

type template []piece

func (t template) inputs() []string {
	var names []string
	for _, p := range t {
		if p.input != "" && !slices.Contains(names, p.input) {
			names = append(names, p.input)
		}
	}
	return names
}

var variable = lazyregexp.New(`\{[A-Za-z0-9_.-]+\}`)

// inputs collects what an option asks for, in the order of the publisher.
type inputs struct {
	list []Input
	err  error // the first thing that cannot be
}

func (in *inputs) fail(format string, args ...any) {
	if in.err == nil {
		in.err = fmt.Errorf(format, args...)
	}
}

// add notes an input. One name is one value: of two of the same name the
// stricter counts.
func (in *inputs) add(i Input) {
	at := slices.IndexFunc(in.list, func(o Input) bool { return o.Name == i.Name })
	switch {
	case len(in.list) == maxList:
		in.fail("it asks for more than %d values", maxList)
	case i.Name == "" || len(i.Name) > 200 || strings.ContainsAny(i.Name, "= \t\r\n\x00"):
		in.fail("a value that it asks for is called %.40q", i.Name)
	case at < 0:
		in.list = append(in.list, i)
	default:
		o := &in.list[at]
		o.Secret = o.Secret || i.Secret
		o.Required = o.Required || i.Required
		o.Repeated = o.Repeated && i.Repeated
		if o.Secret {
			o.Default = ""
		}
	}
}

// template makes a template of a publisher's value. name is what the value is
// called if the user has to give it whole.
func (in *inputs) template(v Value, name, where string, required, repeated bool) template {
	if len(v.Text) > maxText || len(v.Default) > maxText || len(v.Variables) > maxList || len(v.Choices) > maxList {
		in.fail("the value of %.60q is longer than bestof reads", name)
		return nil
	}
	if v.Text != "" {
		if t, any := in.variables(string(v.Text), v.Variables, where, required, repeated, v.IsSecret); any || !v.IsSecret {
			return t
		}
		// A fixed secret is nobody's: the publisher shows its form.
		v.Placeholder, v.Default = string(v.Text), ""
	}
	in.add(input(v, name, where, required, repeated))
	return template{{input: name}}
}

// variables splits a text at the variables in braces. What is not declared
// stays as it is written.
func (in *inputs) variables(text string, declared map[string]Value, where string, required, repeated, secret bool) (t template, any bool) {
	at := 0
	for _, m := range variable().FindAllStringIndex(text, -1) {
		name := text[m[0]+1 : m[1]-1]
		v, ok := declared[name]
		if !ok {
			continue
		}
		any = true
		if m[0] > at {
			t = append(t, piece{text: text[at:m[0]]})
		}
		at = m[1]
		if v.Text != "" && !v.IsSecret {
			t = append(t, piece{text: string(v.Text)})
			continue
		}
		v.IsSecret = v.IsSecret || secret
		in.add(input(v, name, where, required || v.IsRequired, repeated))
		t = append(t, piece{input: name})
	}
	if at < len(text) || len(t) == 0 {
		t = append(t, piece{text: text[at:]})
	}
	return t, any
}

func input(v Value, name, where string, required, repeated bool) Input {
	i := Input{
		Name: name, Where: where, Description: v.Description, Placeholder: v.Placeholder, Format: v.Format,
		Secret: v.IsSecret, Repeated: repeated,
	}
	if !i.Secret {
		i.Default = string(v.Default)
	}
	for _, c := range v.Choices {
		i.Choices = append(i.Choices, string(c))
	}
	i.Required = required && i.Default == ""
	return i
}

// check says why a text cannot be a value of the input.
func (i Input) check(s string) error {
	switch {
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("%s: a value cannot hold a NUL byte", i.Name)
	case len(s) > 64<<10:
		return fmt.Errorf("%s: the value is longer than 64 KiB", i.Name)
	case len(i.Choices) > 0 && !slices.Contains(i.Choices, s) && s != i.Default:
		if i.Secret {
			return fmt.Errorf("%s: the value is none of those that the publisher allows", i.Name)
		}
		return fmt.Errorf("%s: %q is none of %s", i.Name, s, strings.Join(i.Choices, ", "))
	}
	var err error
	switch i.Format {
	case "number":
		_, err = strconv.ParseFloat(s, 64)
	case "boolean":
		_, err = strconv.ParseBool(s)
	}
	if err != nil && s != "" {
		return fmt.Errorf("%s: the value has to be a %s", i.Name, i.Format)
	}
	return nil
}

// checkValues refuses what no input asked for and what an input does not take.
func checkValues(list []Input, values Values) error {
	for name, given := range values {
		at := slices.IndexFunc(list, func(i Input) bool { return i.Name == name })
		if at < 0 {
			return fmt.Errorf("the server asks for no value called %q%s", name, known(list))
		}
		if len(given) > 1 && !list[at].Repeated {
			return fmt.Errorf("%s is given %d times and is one value", name, len(given))
		}
		for _, s := range given {
			if err := list[at].check(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func known(list []Input) string {
	if len(list) == 0 {
		return ": it asks for none"
	}
	names := make([]string, len(list))
	for i, in := range list {
		names[i] = in.Name
	}
	return ": it asks for " + strings.Join(names, ", ")
}

// Missing lists the required inputs that have no value.
func (o Option) Missing(values Values) []Input {
	var missing []Input
	for _, i := range o.Inputs {
		if i.Required && len(values[i.Name]) == 0 {
			missing = append(missing, i)
		}
	}
	return missing
}

// render puts values into a template. It gives one word for each value of a
// repeated input and none when a value is left out.
func (o Option) render(t template, values Values) []word {
	names := t.inputs()
	times := 1
	if len(names) == 1 && len(values[names[0]]) > 1 {
		times = len(values[names[0]])
	}
	var words []word
	for n := range times {
		w, whole := word{}, true
		for _, p := range t {
			if p.input == "" {
				w = w.plus(plain(p.text))
				continue
			}
			v, ok := o.value(p.input, n, values)
			whole = whole && ok
			w = w.plus(v)
		}
		if whole {
			words = append(words, w)
		}
	}
	return words
}

func (o Option) value(name string, n int, values Values) (word, bool) {
	at := slices.IndexFunc(o.Inputs, func(i Input) bool { return i.Name == name })
	if at < 0 {
		return word{}, false
	}
	in := o.Inputs[at]
	given := values[name]
	switch {
	case len(given) > 0 && in.Secret:
		return word{given[min(n, len(given)-1)], "<" + name + ">"}, true
	case len(given) > 0:
		return plain(given[min(n, len(given)-1)]), true
	case in.Default != "":
		return plain(in.Default), true
	}
	return word{}, false
}
