package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/bestof-dev/bestof/judge"
	"github.com/bestof-dev/bestof/plugin"
	"github.com/bestof-dev/bestof/plugin/verify"
	"github.com/bestof-dev/bestof/plugin/wire"
)

// Cases lists what a plugin of this manifest has to keep: for each point that
// it answers, for each that it does not, and for each hook that it declares.
func Cases(m *plugin.Manifest) ([]Case, error) {
	if m.Runtime == nil {
		return nil, nil
	}
	var cases []Case
	after, before := m.Loop.Answers(wire.AfterTurn), m.Loop.Answers(wire.BeforeTurn)
	if after {
		if m.Runtime.Protocol == wire.Version {
			vectors, err := vectors(m, before)
			if err != nil {
				return nil, err
			}
			cases = append(cases, vectors...)
		}
		more, err := further(m)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	if before {
		more, err := beforeTurn(m)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	more, err := hooks(m)
	return append(cases, more...), err
}

// vectors are the shared ones. A plugin that does not run tests has to refuse
// and to answer the same requests, with words and evidence of its own.
func vectors(m *plugin.Manifest, answersBefore bool) ([]Case, error) {
	const dir = "testdata/vectors"
	names, err := fs.Glob(verify.Vectors, dir+"/*.request.json")
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, name := range names {
		base := strings.TrimSuffix(name, ".request.json")
		c := Case{Name: "vector " + path.Base(base), Point: wire.AfterTurn}
		if c.Request, err = verify.Vectors.ReadFile(name); err != nil {
			return nil, err
		}
		if strings.HasPrefix(path.Base(base), "07-") && answersBefore {
			// The request lacks what before_turn needs, so it is still refused.
			c.Refused = true
			cases = append(cases, c)
			continue
		}
		refusal, err := verify.Vectors.ReadFile(base + ".refusal.txt")
		if err == nil {
			c.Refused = true
			// The test's own parts matter to those that run it.
			c.Advice = !RunsTests(m) && strings.HasPrefix(path.Base(base), "16-")
			if RunsTests(m) {
				_, c.Refusal, _ = strings.Cut(strings.TrimSpace(string(refusal)), ": ")
			}
		} else if RunsTests(m) {
			if c.Response, err = verify.Vectors.ReadFile(base + ".expected.json"); err != nil {
				return nil, err
			}
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// further cases are edits of one good request.
func further(m *plugin.Manifest) ([]Case, error) {
	version := m.Runtime.Protocol
	good, err := after(version, "/tmp", "test", "1", "=", "1")
	if err != nil {
		return nil, err
	}
	killed, err := after(version, "/tmp", "sh", "-c", "kill -9 $$")
	if err != nil {
		return nil, err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, good, "", "\t"); err != nil {
		return nil, err
	}
	edit := func(old, new string) []byte { return []byte(strings.Replace(string(good), old, new, 1)) }
	flip := func(want judge.Flip) func(wire.Response) string {
		if !RunsTests(m) {
			return nil
		}
		return func(r wire.Response) string {
			if got := r.After.Evidence.Flip; got != want {
				return fmt.Sprintf("it reports %s, not %s", got, want)
			}
			return ""
		}
	}
	accept := func(name string, request []byte, want judge.Flip) Case {
		return Case{Name: name, Point: wire.AfterTurn, Request: request, Judge: flip(want)}
	}
	refuse := func(name string, request []byte) Case {
		return Case{Name: name, Point: wire.AfterTurn, Request: request, Refused: true}
	}
	advise := func(name string, request []byte) Case {
		c := refuse(name, request)
		c.Advice = true
		return c
	}
	cases := []Case{
		accept("a plain request", good, judge.FlipAchieved),
		accept("a request in many lines", pretty.Bytes(), judge.FlipAchieved),
		accept("space around the request", append(append([]byte(" \r\n\t"), good...), "\n \n"...), judge.FlipAchieved),
		accept("null for the test", replaceObject(good, `"test":`), judge.FlipUnobservable),
		accept("null for the candidate", replaceObject(good, `"candidate":`), judge.FlipUnobservable),
		accept("a later round", edit(`"round":0`, `"round":7`), judge.FlipAchieved),
		accept("text beyond ASCII", edit("make it pass", "fais-le passer \u00e9 \u65e5\u672c \\ud83d\\ude00"), judge.FlipAchieved),
		accept("nothing measured", edit(`,"changed_files":["a"]`, ``), judge.FlipAchieved),
		accept("nothing changed", edit(`"changed_files":["a"]`, `"changed_files":[]`), judge.FlipAchieved),
		refuse("an unknown field of the turn", edit(`"completed"`, `"zeal":1,"completed"`)),
		refuse("an unknown field of the test", edit(`"program"`, `"shell":true,"program"`)),
		refuse("a list as the request", append(append([]byte("["), good...), ']')),
		refuse("nothing", nil),
		refuse("a version that does not exist", edit(fmt.Sprintf(`"protocol_version":%d`, version), `"protocol_version":9`)),
		refuse("a version that is no number", edit(fmt.Sprintf(`"protocol_version":%d`, version), `"protocol_version":true`)),
		refuse("a root that is no text", edit(`"root":"/tmp"`, `"root":["/tmp"]`)),
		{Name: "arguments that are no texts", Point: wire.AfterTurn, Request: edit(`"args":["1"`, `"args":[1`), Refused: true, Advice: !RunsTests(m)},
		refuse("an unfinished request", good[:len(good)/2]),
		refuse("two requests", append(bytes.Clone(good), good...)),
		advise("a key twice", edit(`"goal"`, `"goal":"other","goal"`)),
		advise("a key of the test twice", edit(`"program"`, `"program":"false","program"`)),
		advise("bytes that are not UTF-8", edit("make it pass", "\xff\xfe")),
	}
	if RunsTests(m) {
		c := accept("a test that a signal kills", killed, judge.FlipNotAchieved)
		c.Judge = func(r wire.Response) string {
			e := r.After.Evidence
			if n, ok := e.Measurements[verify.ExitCode]; !ok || n == 0 || e.Flip != judge.FlipNotAchieved {
				return fmt.Sprintf("it reports %s with %v", e.Flip, e.Measurements)
			}
			return ""
		}
		cases = append(cases, c)
		quiet, err := after(version, "/tmp", "sh", "-c", "echo '{}'; cat; exit 0")
		if err != nil {
			return nil, err
		}
		cases = append(cases, accept("a test that writes and reads", quiet, judge.FlipAchieved))
	}
	if version == wire.Version2 && RunsTests(m) {
		told := wire.Request{After: request("/tmp", "sh", "-c", `test "$PROBE" = yes -a "$(pwd)" = /`)}
		told.After.ProtocolVersion = version
		told.After.Candidate.Root = "/"
		told.After.Candidate.Test.Env = map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "PROBE": "yes"}
		b, err := told.Encode()
		if err != nil {
			return nil, err
		}
		cases = append(cases, accept("the environment of the test", b, judge.FlipAchieved))
		told.After.Candidate.Test.Args[1] = `test "$(pwd)" = /usr`
		told.After.Candidate.Test.Cwd = "usr"
		if b, err = told.Encode(); err != nil {
			return nil, err
		}
		cases = append(cases, accept("the working directory of the test", b, judge.FlipAchieved))
		told.After.Candidate.Test.Args[1] = "while :; do sleep 1; done"
		told.After.Candidate.Test.TimeoutMS = 300
		if b, err = told.Encode(); err != nil {
			return nil, err
		}
		cases = append(cases, accept("the time limit of the test", b, judge.FlipUnobservable))
	}
	return cases, nil
}

func request(root, program string, args ...string) *wire.AfterRequest {
	return &wire.AfterRequest{
		Wrapper: "verify-v1", Goal: "make it pass",
		Candidate: &wire.Grant{Handle: "candidate-1", Root: root, Test: &wire.TestPlan{Program: program, Args: args, Baseline: wire.Failed}},
		Turn:      wire.Turn{Completed: true, Answer: "done", ChangedFiles: []string{"a"}},
	}
}

func after(version uint32, root, program string, args ...string) ([]byte, error) {
	r := request(root, program, args...)
	r.ProtocolVersion = version
	b, err := wire.Request{After: r}.Encode()
	return bytes.TrimSpace(b), err
}

// replaceObject puts null in the place of the object after key.
func replaceObject(message []byte, key string) []byte {
	start := bytes.Index(message, []byte(key)) + len(key)
	depth := 0
	for i := start; i < len(message); i++ {
		switch message[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return append(append(bytes.Clone(message[:start]), "null"...), message[i+1:]...)
			}
		}
	}
	return message
}

func beforeTurn(m *plugin.Manifest) ([]Case, error) {
	b, err := wire.Request{Before: &wire.BeforeRequest{
		ProtocolVersion: m.Runtime.Protocol, Wrapper: "verify-v1", Stage: "execute", Goal: "make it pass",
		Candidate: &wire.Grant{Handle: "host-tree", Root: "/tmp"},
	}}.Encode()
	if err != nil {
		return nil, err
	}
	edit := func(old, new string) []byte { return []byte(strings.Replace(string(b), old, new, 1)) }
	return []Case{
		{Name: "before_turn", Point: wire.BeforeTurn, Request: b},
		{Name: "before_turn with signals", Point: wire.BeforeTurn, Request: edit(`"goal"`, `"published":[{"signal":"test-command","value":{"boolean":true}},{"signal":"candidates","value":{"count":3}}],"goal"`)},
		{Name: "before_turn with an unknown field", Point: wire.BeforeTurn, Request: edit(`"goal"`, `"zeal":1,"goal"`), Refused: true},
		{Name: "before_turn in a version that does not exist", Point: wire.BeforeTurn, Request: edit(fmt.Sprintf(`"protocol_version":%d`, m.Runtime.Protocol), `"protocol_version":9`), Refused: true},
	}, nil
}
