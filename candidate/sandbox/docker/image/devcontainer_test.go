package image

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const devFile = ".devcontainer/devcontainer.json"

func TestParseDevcontainer(t *testing.T) {
	for _, tt := range []struct {
		name, text, notice string
		want               Devcontainer
	}{
		{
			name: "an image, with comments and trailing commas",
			text: "\xef\xbb\xbf// what we use\n{\n  \"name\": \"x\", /* not // this */\n  \"image\": \"python:3.12\", // slim?\n  \"containerEnv\": {\"A\": \"http://x/,}\",},\n}\n",
			want: Devcontainer{Source: Source{Ref: "python:3.12"}, Env: map[string]string{"A": "http://x/,}"}},
		},
		{
			name: "a build above, its user, and a command for a shell",
			text: `{"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"V": "1", "H": "${localEnv:HOME}"}, "target": "dev", "cacheFrom": "x"},
				"remoteUser": "vscode", "containerUser": "root", "postCreateCommand": "npm ci && true"}`,
			want: Devcontainer{
				Source: Source{Build: &Build{Dir: ".", Dockerfile: ".devcontainer/Dockerfile", Args: map[string]string{"V": "1"}, Target: "dev"}},
				User:   "vscode", Env: map[string]string{}, Setup: []string{"/bin/sh", "-c", "npm ci && true"},
				Ignored: []string{"build.args.H", "build.cacheFrom"},
			},
			notice: "not supported: build.args.H, build.cacheFrom; programs are named vscode and run with your uid",
		},
		{
			name: "the older form, and what a sandbox does not give",
			text: `{"dockerFile": "a/Dockerfile", "context": "a", "runArgs": ["--privileged"], "mounts": ["source=/,target=/host,type=bind"], "privileged": true,
				"features": {"ghcr.io/x/y:1": {}}, "capAdd": [], "forwardPorts": [1], "postCreateCommand": ["npm", "ci"],
				"remoteEnv": {"B": "2", "C": null}, "containerEnv": {"B": "1"}}`,
			want: Devcontainer{
				Source: Source{Build: &Build{Dir: ".devcontainer/a", Dockerfile: "Dockerfile"}}, Env: map[string]string{"B": "2"},
				Setup: []string{"npm", "ci"}, Refused: []string{"features", "mounts", "privileged", "runArgs"}, Ignored: []string{"forwardPorts"},
			},
			notice: "refused: features, mounts, privileged, runArgs; not supported: forwardPorts",
		},
		{
			name: "one named command",
			text: `{"image": "a", "postCreateCommand": {"deps": ["make", "deps"]}, "privileged": false}`,
			want: Devcontainer{Source: Source{Ref: "a"}, Env: map[string]string{}, Setup: []string{"make", "deps"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseDevcontainer(devFile, []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if got.Notice() != tt.notice {
				t.Errorf("notice %q, want %q", got.Notice(), tt.notice)
			}
		})
	}
}

func TestParseDevcontainerRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                             "not an object",
		`[]`:                           "not an object",
		`{`:                            "EOF",
		`{"image": "a"} {}`:            "something follows",
		`{"image": "a" /* }`:           "a comment does not end",
		"{\"image\": \"a\n\"}":         "line 1: a string does not end",
		`{}`:                           "neither an image nor a build: name an image with --image",
		`{"image": ""}`:                "neither an image nor a build",
		`{"image": 1}`:                 "image: write a text",
		`{"image": "A B"}`:             "is no image",
		`{"image": "a", "image": "b"}`: `"image" is there twice`,
		`{"image": "a", "build": {"dockerfile": "D"}}`: "both an image and a build",
		`{"build": {}}`: "build: dockerfile is missing",
		`{"build": {"dockerfile": "../../etc/D", "context": ".."}}`:           "leads out of the repository",
		`{"build": {"dockerfile": "/etc/D"}}`:                                 "not a relative path",
		`{"build": {"dockerfile": "../D"}}`:                                   "not inside its context",
		`{"dockerComposeFile": "c.yml", "service": "s"}`:                      "compose file",
		`{"image": "a", "containerEnv": {"A=B": "x"}}`:                        "no name of a variable",
		`{"image": "a", "remoteUser": "a:b"}`:                                 "no name of a user",
		`{"image": "a", "postCreateCommand": {"a": "x", "b": "y"}}`:           "of several commands none is run",
		`{"image": "a", "postCreateCommand": [""]}`:                           "its program is empty",
		`{"image": "a", "x": ` + strings.Repeat("[", maxDepth) + `}`:          "more than 32 levels",
		`{"image": "a", "y": "` + strings.Repeat("x", MaxDevcontainer) + `"}`: "more than 262144 bytes",
	} {
		_, err := ParseDevcontainer(devFile, []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), devFile+": ") {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// What is JSON without comments stays what it means.
func FuzzParseDevcontainer(f *testing.F) {
	f.Add([]byte(`{"image": "python:3.12", "containerEnv": {"A": "//"}, "postCreateCommand": "x"}`))
	f.Add([]byte("{\"build\": {\"dockerfile\": \"D\", \"context\": \"..\",},/**/ // x\n}"))
	f.Add([]byte(`{"a": [1,], "b": {"c": "\"/*"}, }`))
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, err := plainJSON(data)
		if err == nil && json.Valid(data) {
			var a, b any
			if json.Unmarshal(data, &a) != nil || json.Unmarshal(plain, &b) != nil || !cmp.Equal(a, b) {
				t.Errorf("%q became %q", data, plain)
			}
		}
		d, err := ParseDevcontainer(devFile, data)
		if err != nil {
			return
		}
		if (d.Source.Ref == "") == (d.Source.Build == nil) {
			t.Errorf("%q: the source is %+v", data, d.Source)
		}
		if b := d.Source.Build; b != nil && (outside(b.Dir) || outside(b.Dockerfile) || strings.HasPrefix(b.Dir, "/") || strings.HasPrefix(b.Dockerfile, "/")) {
			t.Errorf("%q: the build %+v leads out of the repository", data, b)
		}
	})
}
