// Verify runs the test that a candidate's grant names and reports what it
// observed.
//
// One request on stdin, one response on stdout. What is not understood in full
// is refused: status 1, one line on stderr, nothing on stdout. Nothing but the
// standard library is used.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	name   = "verify"
	speaks = 1
	// testTime is less than [runtime] timeout_secs, so that there is time to
	// say that it passed.
	testTime = 240 * time.Second
)

type table = map[string]any

type evidence struct {
	Flip         string         `json:"flip"`
	Measurements map[string]int `json:"measurements,omitempty"`
}

func main() {
	in, err := io.ReadAll(os.Stdin)
	var candidate table
	if err == nil {
		candidate, err = read(in)
	}
	if errors.Is(err, errHook) {
		return
	}
	if err != nil {
		line := strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return unicode.ReplacementChar
		}, err.Error())
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, line)
		os.Exit(1)
	}
	body := table{"protocol_version": speaks, "evidence": oracle(candidate)}
	if err := json.NewEncoder(os.Stdout).Encode(table{"point": "after_turn", "body": body}); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// errHook is a hook's payload: the evidence after the turn decides, so there is
// nothing to say.
var errHook = errors.New("a hook")

// oracle looks at a candidate and returns the evidence about it.
func oracle(candidate table) evidence {
	plan, _ := candidate["test"].(table)
	root, _ := candidate["root"].(string)
	if info, err := os.Stat(root); plan == nil || err != nil || !info.IsDir() {
		return evidence{Flip: "unobservable"}
	}
	code, took, err := run(plan, root)
	if err != nil {
		return evidence{Flip: "unobservable"}
	}
	e := evidence{Flip: "unobservable", Measurements: map[string]int{
		"test-command-exit-code": code, "test-duration-ms": int(took.Milliseconds()),
	}}
	switch plan["baseline"] {
	case "failed":
		e.Flip = "not-achieved"
		if code == 0 {
			e.Flip = "achieved"
		}
	case "passed":
		e.Flip = "not-achieved"
	}
	return e
}

// run runs the test. An error means that it could not be started or did not
// end in its time.
func run(plan table, root string) (code int, took time.Duration, err error) {
	var args []string
	list, _ := plan["args"].([]any)
	for _, a := range list {
		args = append(args, a.(string))
	}
	// Its output has no way into the response, and it cannot wait for input.
	cmd := exec.Command(plan["program"].(string), args...)
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	late := time.AfterFunc(testTime, end)
	_ = cmd.Wait() // how it ended is in ProcessState
	if !late.Stop() {
		return 0, 0, errors.New("the test did not end in its time")
	}
	end() // what it left behind
	code = cmd.ProcessState.ExitCode()
	if code < 0 { // a signal, and the wire has no negative numbers
		code = 1
	}
	return code, time.Since(started), nil
}

// read reads a request strictly and returns the candidate's grant, or nil.
func read(in []byte) (table, error) {
	request, err := parse(in)
	if err != nil {
		return nil, err
	}
	_, event := request["event"]
	if _, point := request["point"]; event && !point {
		return nil, errHook
	}
	for key := range request {
		if key != "point" && key != "body" {
			return nil, errors.New("the request envelope carried a field outside {point, body}")
		}
	}
	if request["point"] != "after_turn" {
		point, _ := json.Marshal(request["point"])
		return nil, fmt.Errorf("this plugin answers after_turn only; the host asked for %s", point)
	}
	body, ok := request["body"].(table)
	if !ok {
		return nil, errors.New("the body of the request is not an object")
	}
	if err := only(body, "protocol_version", "wrapper", "stage", "round", "goal", "candidate", "turn"); err != nil {
		return nil, err
	}
	if version, _ := body["protocol_version"].(json.Number); version != json.Number(strconv.Itoa(speaks)) {
		return nil, fmt.Errorf("this plugin speaks wrapper protocol_version %d; the host asked for %v", speaks, body["protocol_version"])
	}
	turn, err := optional(body, "turn")
	if err := cmp.Or(err, only(turn, "completed", "answer", "tools", "changed_files")); err != nil {
		return nil, err
	}
	candidate, err := optional(body, "candidate")
	if err := cmp.Or(err, only(candidate, "handle", "root", "test")); err != nil || candidate == nil {
		return nil, err
	}
	if root, ok := candidate["root"].(string); !ok || root == "" {
		return nil, errors.New("the request has an empty root")
	}
	plan, err := optional(candidate, "test")
	if err == nil && plan != nil {
		err = check(plan)
	}
	return candidate, err
}

func check(plan table) error {
	if err := only(plan, "program", "args", "baseline"); err != nil {
		return err
	}
	if program, ok := plan["program"].(string); !ok || program == "" {
		return errors.New("the request has an empty program")
	}
	list, ok := plan["args"].([]any)
	if !ok && plan["args"] != nil || slices.ContainsFunc(list, func(a any) bool { _, text := a.(string); return !text }) {
		return errors.New("the args of the request are not a list of strings")
	}
	switch plan["baseline"] {
	case nil, "not-run", "passed", "failed", "unobserved":
		return nil
	}
	got, _ := json.Marshal(plan["baseline"])
	return fmt.Errorf("TestBaseline is a closed set {not-run, passed, failed, unobserved}; got %s", got)
}

func only(t table, allowed ...string) error {
	var unknown []string
	for key := range t {
		if !slices.Contains(allowed, key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return fmt.Errorf("the request denies unknown fields; got %s", strings.Join(unknown, ", "))
}

func optional(t table, key string) (table, error) {
	v, ok := t[key].(table)
	if !ok && t[key] != nil {
		return nil, fmt.Errorf("the field %s of the request is not an object", key)
	}
	return v, nil
}

func parse(in []byte) (table, error) {
	not := errors.New("stdin was not a single JSON object")
	if !utf8.Valid(in) || !json.Valid(in) {
		return nil, not
	}
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	v, err := value(d)
	request, ok := v.(table)
	if err != nil || !ok {
		return nil, not
	}
	return request, nil
}

// value reads one value of valid JSON. A key that is there twice, which
// encoding/json lets pass, is an error.
func value(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		t := table{}
		for d.More() {
			token, err := d.Token()
			if err != nil {
				return nil, err
			}
			key := token.(string)
			if _, twice := t[key]; twice {
				return nil, errors.New("a key is there twice")
			}
			if t[key], err = value(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return t, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}
