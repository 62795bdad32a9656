package proc_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/internal/proc"
)

func talk(t *testing.T, c proc.Command) *proc.Process {
	t.Helper()
	p, err := proc.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func line(t *testing.T, r io.Reader) string {
	t.Helper()
	s, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(s, "\n")
}

func TestConversation(t *testing.T) {
	p := talk(t, shell("while read -r word; do echo heard $word; echo log $word >&2; done; exit 3"))
	for i := range 3 {
		if _, err := fmt.Fprintf(p.Stdin, "%d\n", i); err != nil {
			t.Fatal(err)
		}
		if out, log := line(t, p.Stdout), line(t, p.Stderr); out != fmt.Sprint("heard ", i) || log != fmt.Sprint("log ", i) {
			t.Errorf("said %q and %q", out, log)
		}
	}
	p.Stdin.Close()
	if res, err := p.Wait(); err != nil || res.End != proc.Exited || res.Code != 3 {
		t.Errorf("ended %+v, %v", res, err)
	}
	if b, err := io.ReadAll(p.Stdout); err != nil || len(b) > 0 {
		t.Errorf("after its end: %q, %v", b, err)
	}
}

func TestConversationWithNobody(t *testing.T) {
	p := talk(t, command("no-such-program"))
	if res, err := p.Wait(); err != nil || res.End != proc.NotRun || !strings.Contains(res.Reason, "not on the PATH") {
		t.Errorf("ended %+v, %v", res, err)
	}
}

func TestNothingOutlivesAConversation(t *testing.T) {
	stubborn := "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000' & sleep 1000 & echo up; "
	for name, script := range map[string]string{
		"stopped":                stubborn + "while :; do sleep 1000; done",
		"ended by itself":        stubborn + "exit 0",
		"its streams held on to": "setsid sh -c 'trap \"\" TERM; sleep 1000' & echo up",
	} {
		t.Run(name, func(t *testing.T) {
			c, mark := marked(shell(script))
			c.Grace = 50 * time.Millisecond
			p := talk(t, c)
			line(t, p.Stdout)
			if name == "stopped" {
				if err := p.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			res, err := p.Wait()
			if want := map[bool]proc.End{true: proc.Stopped, false: proc.Exited}[name == "stopped"]; err != nil || res.End != want {
				t.Errorf("ended %+v, %v", res, err)
			}
			if n := living(mark); n != 0 {
				t.Errorf("%d processes are alive", n)
			}
			if _, err := io.Copy(io.Discard, p.Stdout); err != nil {
				t.Error(err)
			}
		})
	}
}

// A write that waits because the program does not read ends with Close.
func TestCloseInterruptsAWrite(t *testing.T) {
	p := talk(t, command("sleep", "1000"))
	ended := make(chan error)
	go func() {
		_, err := p.Stdin.Write(make([]byte, 1<<20))
		ended <- err
	}()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a megabyte went to a program that reads nothing")
	}
}

// talkAndHang is the process that crashes: TestMain calls it.
func talkAndHang(mark string) {
	c := shell("setsid sleep 1000 & echo up; sleep 1000")
	c.Env = append(c.Env, mark)
	p, err := proc.Start(c)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, _ = io.CopyN(os.Stdout, p.Stdout, 3)
	select {}
}

func TestNothingOutlivesACrashOfTheTalker(t *testing.T) {
	_, mark := marked(command("true"))
	cmd := exec.Command("/proc/self/exe", "talk-and-hang", mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line(t, out)
	if n := living(mark); n < 2 {
		t.Errorf("only %d processes are alive before the crash", n)
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	eventually(t, "all are dead", func() bool { return living(mark) == 0 })
}
