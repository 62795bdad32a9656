package schedule

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func fullJob() Job {
	return someJob("nightly-repair", func(j *Job) {
		j.Trigger = Trigger{Kind: Cron, Cron: "0 2 * * mon-fri", Zone: "Europe/Berlin"}
		j.Command = []string{"batch", "--file", "/tasks/\xff.jsonl", "-n", "3"}
		j.Repository = "/srv/repo \xfe"
		j.Settings = Freeze([]byte("[run]\ncandidates = 3\n\x00"))
		j.Task = Task{Kind: TaskCommand, Command: []string{"sh", "newest failing"}}
		j.Policy.PerMonth = Budget{5_000_000, 1_000_000, 40 * time.Hour}
		j.Policy.Share, j.Policy.Jitter = true, 90*time.Second
		j.Result = Result{Adopt: AdoptPatch, Folder: "/srv/patches", OnFinish: []string{"gh", "pr"}, Sandbox: true, Webhooks: []Webhook{{"https://example.org/hook", "HOOK_KEY"}, {"http://127.0.0.1:8080/", ""}}}
		j.Paused, j.Revision = true, 4
	})
}

func TestAJobComesBackAsItWas(t *testing.T) {
	at := someJob("once", func(j *Job) { j.Trigger = Trigger{Kind: At, At: noon} })
	text := someJob("t", func(j *Job) { j.Task = Task{Kind: TaskText, Text: "mend\nit \xff"} })
	file := someJob("f", func(j *Job) { j.Task = Task{Kind: TaskFile, File: "tasks/next.md"} })
	for _, j := range []Job{fullJob(), someJob("plain"), at, text, file} {
		b, err := Encode(j)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, j) {
			t.Errorf("%s\n%+v, %v\nwant %+v", b, got, err, j)
		}
	}
}

func TestDecodeIsStrict(t *testing.T) {
	b, err := Encode(fullJob())
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	for name, x := range map[string][3]string{
		"another case":        {`"name":`, `"Name":`, `no key "Name"`},
		"a letter that folds": {`"schema":`, `"ſchema":`, "no key"},
		"twice":               {`"name":`, `"name":"a","name":`, `"name" is there twice`},
		"twice, inside":       {`"mode":`, `"mode":"all","mode":`, "policy: missed: the key \"mode\" is there twice"},
		"unknown":             {`"name":`, `"push":true,"name":`, `"push"`},
		"null":                {`"paused":true`, `"paused":null`, "paused: it is null"},
		"a newer schema":      {`"schema":1`, `"schema":2`, "knows 1"},
		"another type":        {`"revision":4`, `"revision":"4"`, "revision"},
		"a fraction":          {`"revision":4`, `"revision":4.5`, "revision"},
		"no duration":         {`"timeout":"6h0m0s"`, `"timeout":"soon"`, "write one such as 6h"},
		"beside base64":       {`"base64":`, `"x":1,"base64":`, "no other key"},
		"other settings":      {`"document":"W3`, `"document":"W4`, "not those that were frozen"},
		"missing":             {`"overlap":"skip",`, ``, "write skip, queue or replace"},
	} {
		bad := strings.Replace(good, x[0], x[1], 1)
		if bad == good {
			t.Errorf("%s: nothing was changed in %s", name, good)
		}
		if _, err := Decode([]byte(bad)); err == nil || !strings.Contains(err.Error(), x[2]) {
			t.Errorf("%s: %v, want %q", name, err, x[2])
		}
	}
	for _, bad := range []string{"", "null", "[]", "{", good + "{}", good + "x", "{\"name\":\"\xff\"}", strings.Repeat(`{"a":`, 100), `{"a":` + strings.Repeat("[", 100), strings.Repeat(" ", maxDocument+1)} {
		if _, err := Decode([]byte(bad)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

func TestJobsAreRefusedWithARemedy(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*Job)
		want   string
	}{
		"no name":             {func(j *Job) { j.Name = "" }, "name: \"\": write 1 to 40"},
		"a path":              {func(j *Job) { j.Name = "../x" }, "name"},
		"capitals":            {func(j *Job) { j.Name = "Nightly" }, "name"},
		"a long name":         {func(j *Job) { j.Name = strings.Repeat("a", 41) }, "name"},
		"a dash at the end":   {func(j *Job) { j.Name = "a-" }, "name"},
		"another command":     {func(j *Job) { j.Command = []string{"gc"} }, "command: it begins with none of run, batch and tool"},
		"no command":          {func(j *Job) { j.Command = nil }, "write one of them"},
		"a zero byte":         {func(j *Job) { j.Command = []string{"run", "a\x00b"} }, "command: argument 1 holds a zero byte"},
		"too many":            {func(j *Job) { j.Command = make([]string, 600); j.Command[0] = "run" }, "write at most 512"},
		"too much":            {func(j *Job) { j.Command = []string{"run", strings.Repeat("x", maxArgument)} }, "to a file"},
		"no repository":       {func(j *Job) { j.Repository = "" }, "repository"},
		"a relative one":      {func(j *Job) { j.Repository = "r" }, "write one that begins with /"},
		"dots":                {func(j *Job) { j.Repository = "/r/../s" }, "no .. in it"},
		"no digest":           {func(j *Job) { j.Settings.Document = []byte("x") }, "freeze them again"},
		"a digest of nothing": {func(j *Job) { j.Settings.Digest = "sha256:00" }, "settings"},
		"two tasks":           {func(j *Job) { j.Task = Task{Kind: TaskText, Text: "a", File: "b"} }, "task"},
		"an empty text":       {func(j *Job) { j.Task = Task{Kind: TaskText} }, "task"},
		"an unknown task":     {func(j *Job) { j.Task = Task{Kind: "url"} }, "write text, file or command"},
		"a file outside":      {func(j *Job) { j.Task = Task{Kind: TaskFile, File: "../x"} }, "no file below the repository"},
		"a long text":         {func(j *Job) { j.Task = Task{Kind: TaskText, Text: strings.Repeat("x", maxText+1)} }, "or a file"},
		"overlap":             {func(j *Job) { j.Policy.Overlap = "both" }, "overlap: it is \"both\": write skip"},
		"missed":              {func(j *Job) { j.Policy.Missed.Mode = "" }, "missed: it is"},
		"queue":               {func(j *Job) { j.Policy.Queue = 0 }, "queue: it is 0: write 1 to 100"},
		"retries":             {func(j *Job) { j.Policy.Retry.Most = 21 }, "retries: it is 21"},
		"back-off":            {func(j *Job) { j.Policy.Retry.Longest = time.Second }, "retries: longest: it is 1s: write 1m0s"},
		"horizon":             {func(j *Job) { j.Policy.Missed.Horizon = 0 }, "missed: horizon"},
		"grace":               {func(j *Job) { j.Policy.Missed.Grace = 1000 * time.Hour }, "missed: grace"},
		"timeout":             {func(j *Job) { j.Policy.Timeout = -1 }, "timeout"},
		"jitter":              {func(j *Job) { j.Policy.Jitter = 48 * time.Hour }, "jitter: it is 48h0m0s: write 0s to 24h0m0s"},
		"budget":              {func(j *Job) { j.Policy.PerRun.Tokens = -1 }, "write 0 for none"},
		"candidates":          {func(j *Job) { j.Policy.Candidates = 0 }, "candidates"},
		"push":                {func(j *Job) { j.Result.Adopt = "push" }, "write report, branch, apply or patch"},
		"patch to nowhere":    {func(j *Job) { j.Result.Adopt = AdoptPatch }, "result: folder"},
		"a folder for none":   {func(j *Job) { j.Result.Folder = "/p" }, "only patch has a folder"},
		"a sandbox for none":  {func(j *Job) { j.Result.Sandbox = true }, "sandbox"},
		"plain http":          {func(j *Job) { j.Result.Webhooks = []Webhook{{"http://example.org/", ""}} }, "write https"},
		"no scheme":           {func(j *Job) { j.Result.Webhooks = []Webhook{{"example.org", ""}} }, "begins with https://"},
		"a password":          {func(j *Job) { j.Result.Webhooks = []Webhook{{"https://a:b@example.org", ""}} }, "name a secret"},
		"a secret itself":     {func(j *Job) { j.Result.Webhooks = []Webhook{{"https://example.org", "a b"}} }, "name of its secret"},
		"too many webhooks":   {func(j *Job) { j.Result.Webhooks = make([]Webhook, 9) }, "write at most 8"},
		"no time":             {func(j *Job) { j.Created = time.Time{} }, "created"},
		"no revision":         {func(j *Job) { j.Revision = 0 }, "revision"},
		"trigger":             {func(j *Job) { j.Trigger.Kind = "" }, "write cron, at or every"},
	} {
		j := someJob("a")
		x.change(&j)
		err := j.Check()
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
		if _, encoded := Encode(j); encoded == nil {
			t.Errorf("%s: it is written", name)
		}
	}
	past := someJob("a", func(j *Job) { j.Trigger = Trigger{Kind: At, At: noon} })
	if err := past.CheckNew(noon); err == nil || !strings.Contains(err.Error(), "still to come") {
		t.Errorf("a time that passed: %v", err)
	}
	if err := past.CheckNew(noon.Add(-time.Second)); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, j := range []Job{fullJob(), someJob("a")} {
		b, err := Encode(j)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"schema":1,"trigger":{"kind":"cron","cron":"* * 31 2 *"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(j)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", b, err)
		}
		if same, err := Decode(again); err != nil || !reflect.DeepEqual(same, j) {
			t.Fatalf("%q: %+v, then %+v, %v", b, j, same, err)
		}
	})
}
