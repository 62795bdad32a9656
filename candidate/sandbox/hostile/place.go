package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Variable holds a Place's targets as JSON.
const Variable = "HOSTILE"

// Targets are what an attack may go for. All of it is the test's own, made to
// be attacked: nothing here is anything of the machine's.
type Targets struct {
	Checkout string // the operator's repository
	Home     string // the operator's home, with .ssh/id
	Own      string // $BESTOF_HOME
	Canary   string // a directory outside of everything, with the file secret
	Secret   string // a text that is in every secret file of the above, and in the variable API_KEY; carried backwards
	Future   string // a text that only later commits of the checkout have
	Decoy    int    // a process of the operator's, with Secret in its environment
	TCP      string // where a service of the host listens
	Abstract string // an abstract socket of the host
	Socket   string // a socket file of the host that stands in for an engine's
	PIDs     string // the host's process namespace, as its link says
	Key      string // the description of a key in the session keyring of who started the run
	Program  string // this program's path inside of the sandbox
}

// A Place is where an attack finds itself.
type Place struct {
	Targets
	Root string // the working directory
	Me   string // HOME
}

// Fixed is the honest answer to the task, the whole of the file lib.sh.
const Fixed = "add() { echo $(($1 + $2)); }\n"

// Main is the program. Its arguments are the names of attacks, of which several
// can be made only in an agent, or one of the words that start what attacks
// leave behind. It prints one line for each that begins with the name and says
// "reached" or "refused", and ends with status 0.
func Main(args []string) int {
	if len(args) > 1 && strings.HasPrefix(args[1], "-") {
		return aside(args[1], args[2:])
	}
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: hostile NAME…")
		return 2
	}
	p, err := here()
	switch {
	case err == nil && args[1] == "honest":
		return told(p.fix())
	case err == nil && args[1] == "honest-python":
		return told(p.put("calc.py", CalcFixed))
	}
	a, ok := Named(args[1])
	if !ok || err != nil {
		fmt.Fprintf(os.Stderr, "hostile: no attack %q, or no targets: %v\n", args[1], err)
		return 2
	}
	if a.Phase == InTest || a.Phase == SoloTest {
		if err := p.plant(a); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if a.Phase == Held && p.secondRound() {
		return told(p.fix())
	}
	report(a, p)
	for _, name := range args[2:] {
		if more, ok := Named(name); ok {
			report(more, p)
		}
	}
	if a.NoFix || a.Phase == Held {
		return 0
	}
	return told(p.fix())
}

func told(err error) int {
	if err != nil {
		fmt.Println("could not mend:", err)
	}
	return 0
}

func report(a Attack, p *Place) {
	done := make(chan error, 1)
	go func() { done <- a.Do(p) }()
	var err error
	select {
	case err = <-done:
	case <-time.After(patience(a)):
		err = errors.New("it took too long")
	}
	if err != nil {
		fmt.Printf("%s refused: %q\n", a.Name, err.Error())
		return
	}
	fmt.Printf("%s reached\n", a.Name)
}

// patience is how long an attack may try.
func patience(a Attack) time.Duration {
	if a.Phase == Slow {
		return time.Hour
	}
	return 35 * time.Second
}

func here() (*Place, error) {
	p := &Place{Me: os.Getenv("HOME")}
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), &p.Targets); err != nil {
		return nil, err
	}
	p.Secret = Backwards(p.Secret)
	var err error
	p.Root, err = os.Getwd()
	return p, err
}

// Backwards is how targets carry their secret, so that who reads them has not
// read it.
func Backwards(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// fix mends the fault that the test looks for.
func (p *Place) fix() error {
	return os.WriteFile(filepath.Join(p.Root, "lib.sh"), []byte(Fixed), 0o644)
}

// plant makes the test run the attack: lib.sh is sourced by it.
func (p *Place) plant(a Attack) error {
	carried := p.Targets
	carried.Secret = Backwards(p.Secret)
	targets, err := json.Marshal(carried)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s='%s' '%s' -during %s\n", Variable, targets, p.Program, a.Name)
	fixed := Fixed
	if a.NoFix {
		fixed = "add() { echo 0; }\n"
	}
	return os.WriteFile(filepath.Join(p.Root, "lib.sh"), []byte(line+fixed), 0o644)
}

// secondRound tells the rounds of a held candidate apart, by what the first
// left in the tree.
func (p *Place) secondRound() bool {
	_, err := os.Lstat(filepath.Join(p.Root, "lib.sh.round"))
	if err == nil {
		return os.Remove(filepath.Join(p.Root, "lib.sh.round")) == nil
	}
	_ = os.WriteFile(filepath.Join(p.Root, "lib.sh.round"), nil, 0o644)
	return false
}

// in is a path below the root.
func (p *Place) in(elem ...string) string {
	return filepath.Join(append([]string{p.Root}, elem...)...)
}

// put writes a file below the root.
func (p *Place) put(name, text string) error {
	at := p.in(name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, []byte(text), 0o755)
}

// reads is nil when one of the files holds the secret.
func (p *Place) reads(files ...string) error {
	err := errors.New("there is no such file")
	for _, f := range files {
		b, rerr := os.ReadFile(f)
		if rerr != nil {
			err = rerr
		} else if strings.Contains(string(b), p.Secret) {
			return nil
		} else {
			err = fmt.Errorf("%s has no secret", f)
		}
	}
	return err
}

// writes makes or overwrites a file in a directory that exists.
func writes(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// opens is a probe: it opens for writing and writes nothing.
func opens(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// contained reports whether this is another process namespace than the
// host's. What would harm a machine is done only then.
func (p *Place) contained() error {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return err
	}
	if ns == p.PIDs || p.PIDs == "" {
		return errors.New("not tried: these are the host's processes")
	}
	return nil
}

// others are the shadows beside this one: the directories of a run that have a
// root of their own. It is empty where they cannot be seen.
func (p *Place) others() []string {
	mine := filepath.Dir(p.Root)
	found, _ := filepath.Glob(filepath.Join(p.Own, "scratch/runs/*/*/root"))
	var dirs []string
	for _, f := range found {
		if d := filepath.Dir(f); d != mine {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// siblings are others, waited for: one may begin only now.
func (p *Place) siblings() []string {
	if _, err := os.Stat(p.Own); err != nil {
		return nil
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if all := p.others(); len(all) > 0 {
			return all
		}
	}
	return nil
}

func (p *Place) decoy(elem string) string { return "/proc/" + strconv.Itoa(p.Decoy) + "/" + elem }
