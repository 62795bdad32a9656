package sandboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/candidate/sandbox"
)

const victimWord = "sandboxtest-victim"

// victim runs one spec and is killed meanwhile.
func victim(make Maker, encoded string) int {
	var spec sandbox.Spec
	err := json.Unmarshal([]byte(encoded), &spec)
	if err == nil {
		var b sandbox.Sandbox
		if b, err = make(sandbox.Options{Environ: []string{"PATH=" + sandbox.DefaultPath}}); err == nil {
			spec.Started = func(id sandbox.Process) { _ = json.NewEncoder(os.Stdout).Encode(id) }
			_, err = b.Run(context.Background(), spec)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// startVictim runs spec in another process and returns when it runs there.
func (s *suite) startVictim(t *testing.T, spec sandbox.Spec) (*exec.Cmd, sandbox.Process) {
	t.Helper()
	encoded, err := json.Marshal(struct {
		sandbox.Spec
		Log     *struct{} `json:",omitempty"`
		Started *struct{} `json:",omitempty"`
	}{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.self, victimWord, string(encoded))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var id sandbox.Process
	if err := json.NewDecoder(io.LimitReader(out, 4096)).Decode(&id); err != nil {
		t.Fatal(err)
	}
	return cmd, id
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("not so after 20 seconds: %s", what)
		case <-tick.C:
		}
	}
}

// stop runs a spec, and stops it when it is ready.
func stop(t *testing.T, b sandbox.Sandbox, spec sandbox.Spec, ready func() bool) sandbox.Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		defer cancel()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !ready() {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	})
	res, err := b.Run(ctx, spec)
	close(ended)
	watch.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, res.Stderr.Bytes())
	}
	return res
}
