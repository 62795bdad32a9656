package inside

import (
	"slices"
	"strings"
	"testing"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

func TestParse(t *testing.T) {
	forwards, argv, err := parse([]string{"--listen", "1=/a=b", "--listen", "65535=/c", "--", "prog", "--", "x"})
	if err != nil || !slices.Equal(forwards, []sandbox.Forward{{Port: 1, Socket: "/a=b"}, {Port: 65535, Socket: "/c"}}) || !slices.Equal(argv, []string{"prog", "--", "x"}) {
		t.Errorf("%v, %v, %v", forwards, argv, err)
	}
	for _, args := range [][]string{{}, {"--"}, {"prog"}, {"--listen", "--", "prog"}, {"--listen", "0=/a", "--", "prog"}, {"--listen", "65536=/a", "--", "prog"}, {"--listen", "1=", "--", "prog"}, {"--listen", "1", "--", "prog"}, {"--other", "1=/a", "--", "prog"}} {
		if _, _, err := parse(args); err == nil {
			t.Errorf("%q is read", args)
		}
	}
}

// TestForgottenMain: an executable that does not know the wrapper's words would
// run itself in the place of the program.
func TestForgottenMain(t *testing.T) {
	spec := sandbox.Spec{Argv: []string{"true"}, Forwards: []sandbox.Forward{{Port: 1, Socket: "/s"}}}
	if _, _, err := Wrap(spec, true); err == nil || !strings.Contains(err.Error(), "does not call inside.Main") {
		t.Errorf("%v", err)
	}
	spec.Forwards = nil
	if got, done, err := Wrap(spec, true); err != nil || !slices.Equal(got.Argv, spec.Argv) || done == nil {
		t.Errorf("without forwards: %v, %v", got.Argv, err)
	}
}
