package sandbox

import "github.com/bestof-dev/bestof/internal/proc"

// Command is the process of a Spec: what it is run with once a sandbox has
// decided on the program, its directory and its environment.
func (s Spec) Command(argv []string, dir string, env []string) proc.Command {
	return proc.Command{
		Argv: argv, Enter: s.Enter.Argv, Dir: dir, Env: env, Stdin: s.Stdin,
		Timeout: s.Timeout, Grace: s.Grace, Head: s.Head, Tail: s.Tail, Log: s.Log, Started: s.Started,
	}
}

// Ended says in the words of this package how a process ended.
func Ended(r proc.Result) Result {
	return Result{
		End: End(r.End), Code: r.Code, Signal: r.Signal,
		Stdout: Output(r.Stdout), Stderr: Output(r.Stderr),
		Duration: r.Duration, Reason: r.Reason, OOM: r.OOM,
	}
}
