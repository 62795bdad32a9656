package stricttoml

import (
	"errors"
	"strings"
	"testing"
)

type target struct {
	Run struct {
		Test    string   `toml:"test"`
		Protect []string `toml:"protect"`
	} `toml:"run"`
	Agents map[string]struct {
		Command []string `toml:"command"`
	} `toml:"agents"`
}

func TestDecode(t *testing.T) {
	var v target
	err := Decode("c.toml", []byte("[run]\ntest = 'go test'\n[agents.Mine]\ncommand = ['x']\n"), &v)
	if err != nil || v.Run.Test != "go test" || v.Agents["Mine"].Command[0] != "x" {
		t.Fatalf("got %+v, %v", v, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown key", "[run]\n\n# note\ntset = 'x'\n", `c.toml:4: unknown key "run.tset"`},
		{"unknown table", "[run]\n[rum]\nx = 1\n", `c.toml:2: unknown key "rum"`},
		{"wrong case", "[run]\nTest = 'x'\n", `c.toml:2: unknown key "run.Test" (keys are case-sensitive: did you mean "test"?)`},
		{"after a value of several lines", "[run]\nprotect = [\n 'a',\n 'b',\n]\nTEST = 'x'\n", `c.toml:6: unknown key "run.TEST"`},
		{"unknown key of several lines", "[run]\nzap = [\n 'a',\n]\n", `c.toml:2: unknown key "run.zap"`},
		{"in a free map", "[agents.x]\ncommand = ['a']\nprompt = 'q'\n", `c.toml:3: unknown key "agents.x.prompt"`},
		{"duplicate", "[run]\ntest = 'a'\ntest = 'b'\n", "c.toml:3: "},
		{"wrong type", "[run]\ntest = 3\n", "c.toml"},
		{"not TOML", "[run\n", "c.toml:"},
		{"raw control byte", "[run]\ntest = \"a\x1bb\"\n", "c.toml:2: "},
		{"too large", strings.Repeat("#", MaxSize+1), "c.toml: larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v target
			err := Decode("c.toml", []byte(tt.text), &v)
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %q…", err, tt.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("[run]\ntest = 'x'\n"))
	f.Add([]byte("[agents.\"\\u0000\"]\ncommand = []\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v target
		if err := Decode("c", data, &v); err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%T is not an *Error", err)
			}
		}
	})
}
