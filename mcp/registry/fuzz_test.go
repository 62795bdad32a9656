package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/internal/argv"
)

// FuzzEntry holds for every entry that a registry could send: planning ends,
// nothing is written that is not shown, and the publisher's text becomes no
// more arguments than the entry declares, none of them a second package.
func FuzzEntry(f *testing.F) {
	for _, s := range []string{
		`{"name":"a/b","packages":[{"registryType":"npm","identifier":"b","version":"1.2.3","runtimeArguments":[{"type":"positional","value":"-y"}],"packageArguments":[{"type":"named","name":"--p","value":"{v} x","variables":{"v":{"default":"1"}}}]}]}`,
		`{"name":"a/b","packages":[{"registryType":"oci","identifier":"a/b:1","runtimeArguments":[{"type":"named","name":"-v","value":"/srv:/x"},{"type":"positional","value":"-eA=b"}],"environmentVariables":[{"name":"T","isSecret":true,"isRequired":true}]}]}`,
		`{"name":"a/b","packages":[{"registryType":"pypi","identifier":"b","version":"1.2","runtimeHint":"bash","runtimeArguments":[{"type":"positional","value":"--x=y"}]}]}`,
		`{"name":"a/b","packages":[{"registryType":"nuget","identifier":"b","version":"1.2","packageArguments":[{"type":"positional","valueHint":"a","isRepeated":true}]}]}`,
		`{"name":"a/b","remotes":[{"type":"streamable-http","url":"https://{h}/mcp","variables":{"h":{"default":"x"}},"headers":[{"name":"A","value":"b"}]}]}`,
	} {
		f.Add(`{"server":` + s + `}`)
	}
	f.Add(`{"servers":[{"server":{"name":"a/b"}}],"metadata":{"nextCursor":"x"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := decodePage([]byte(text)); err == nil && len(p.next) > len(text) {
			t.Fatal("a cursor from nowhere")
		}
		e, err := decodeEntry([]byte(text))
		if err != nil {
			return
		}
		options, _ := Plan(e)
		at := 0 // packages follow the remotes
		for i, o := range options {
			values := Values{}
			for _, in := range o.Inputs {
				values[in.Name] = []string{"value-of-the-user"}
				if len(in.Choices) > 0 {
					values[in.Name] = []string{in.Choices[0]}
				}
				if in.Format == "number" {
					values[in.Name] = []string{"1"}
				}
				if in.Format == "boolean" {
					values[in.Name] = []string{"true"}
				}
				if in.Secret && len(in.Choices) == 0 && in.Format == "" {
					values[in.Name] = []string{"s3cret-of-the-user"}
				}
			}
			filled, err := o.Fill(values)
			if err != nil {
				continue
			}
			if strings.Contains(filled.Shown, "s3cret-of-the-user") || strings.Contains(strings.Join(filled.Settings, "\n"), "s3cret-of-the-user") {
				t.Fatalf("a secret is shown: %q %q", filled.Shown, filled.Settings)
			}
			if o.Kind == OnHTTP {
				if err := CheckURL(filled.URL); err != nil {
					t.Fatal(err)
				}
				continue
			}
			at = i - len(e.Server.Remotes)
			checkCommand(t, e.Server.Packages[at], o, filled)
		}
	})
}

func checkCommand(t *testing.T, p Package, o Option, f Filled) {
	ident := slices.Index(f.Args, o.ident)
	if ident < 0 {
		t.Fatalf("%q has no %q", f.Args, o.ident)
	}
	before := f.Args[:ident]
	if o.Kind == NuGet {
		before = nil // what is for dnx stands behind the package, up to --
	}
	if limit := 3 + 2*len(p.Environment) + 2*len(p.Runtime) + 2*len(f.Env); len(before) > limit {
		t.Fatalf("%q: %d words before the package, of %d", f.Args, len(before), limit)
	}
	if len(f.Args) > 5+2*len(f.Env)+2*len(p.Runtime)+2*len(p.Arguments) {
		t.Fatalf("%q: more words than the entry declares", f.Args)
	}
	// Before the package stand options and their values: nothing that the
	// runner could take for a package.
	for i := 0; i < len(before); i++ {
		word := before[i]
		if o.Kind == OCI && i == 0 && word == "run" {
			continue
		}
		if !strings.HasPrefix(word, "-") || word == "-" || word == "--" {
			t.Fatalf("%q: %q stands before the package", f.Args, word)
		}
		if runtimeRules[o.cmd][word].value && o.Runner == "" {
			if i++; strings.HasPrefix(before[min(i, len(before)-1)], "-") {
				t.Fatalf("%q: the value of %s is an option", f.Args, word)
			}
		}
	}
	if !slices.ContainsFunc(o.Inputs, func(i Input) bool { return i.Secret }) && !strings.ContainsRune(f.Shown, '\r') {
		if shown, err := argv.Split(f.Shown); err != nil || !slices.Equal(shown, slices.Concat([]string{f.Cmd}, f.Args)) {
			t.Fatalf("%q is written and %q is shown (%v)", f.Args, f.Shown, err)
		}
	}
	if o.Runner != "" && !slices.ContainsFunc(f.Concerns, func(c Concern) bool { return c.Flag == RunnerFlag }) {
		t.Fatalf("%q is started without a question", o.Runner)
	}
}
