package proc

import (
	"os/exec"
	"testing"
)

func TestReapBelow(t *testing.T) {
	ours, other := t.TempDir(), t.TempDir()
	start := func(dir, home string) *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + home}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	inDir, withHome, neither := start(ours, other), start(other, ours+"/home"), start(other, ours+"-not")
	n, err := ReapBelow(ours)
	if err != nil || n != 2 {
		t.Errorf("ended %d, %v", n, err)
	}
	for _, cmd := range []*exec.Cmd{inDir, withHome} {
		if cmd.Wait(); cmd.ProcessState == nil || cmd.ProcessState.Success() {
			t.Errorf("%v is alive", cmd.Args)
		}
	}
	if id, err := Identify(neither.Process.Pid); err != nil || !id.Alive() {
		t.Error("a process elsewhere was ended")
	}
	for _, bad := range []string{"", "/", "relative"} {
		if _, err := ReapBelow(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
