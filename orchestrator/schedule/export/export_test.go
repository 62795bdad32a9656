package export

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/deploy/schema"
	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

var options = Options{Program: "/usr/bin/bestof", Home: "/home/bestof/.bestof", Image: "registry.example.com/bestof" + digest, Mount: "/home/bestof"}

// job is one that every format can say.
func job(name, cron, zone string) schedule.Job {
	return schedule.Job{
		Name: name, Trigger: schedule.Trigger{Kind: schedule.Cron, Cron: cron, Zone: zone}, Command: []string{"run", "repair"},
		Repository: "/home/bestof/repository", Policy: schedule.DefaultPolicy(), Result: schedule.DefaultResult(),
	}
}

func every(d time.Duration, from string) schedule.Job {
	at, _ := time.Parse(time.RFC3339, from)
	j := job("x", "", "")
	j.Trigger = schedule.Trigger{Kind: schedule.Every, Every: d, From: at}
	return j
}

func TestTimes(t *testing.T) {
	once := job("x", "", "")
	once.Trigger = schedule.Trigger{Kind: schedule.At, At: time.Date(2026, 12, 1, 3, 0, 0, 0, time.FixedZone("", 3600))}
	for _, c := range []struct {
		job                       schedule.Job
		cron, kubernetes, systemd string // "" is refused; several events of systemd are joined by " | "
	}{
		{job("x", "0 2 * * *", "Europe/Berlin"), "0 2 * * *", "0 2 * * *", "*-*-* 2:0:00 Europe/Berlin"},
		{job("x", "@hourly", "UTC"), "0 * * * *", "0 * * * *", "*-*-* *:0:00 UTC"},
		{job("x", "*/15 9-17 * jan-mar,dec mon-fri", "UTC"), "0,15,30,45 9-17 * 1-3,12 1-5", "0,15,30,45 9-17 * 1-3,12 1-5", "Mon,Tue,Wed,Thu,Fri *-1..3,12-* 9..17:0,15,30,45:00 UTC"},
		{job("x", "30 4 1,15 * 7", "UTC"), "30 4 1,15 * 0", "30 4 1,15 * 0", "*-*-1,15 4:30:00 UTC | Sun *-*-* 4:30:00 UTC"},
		{job("x", "30 4 1-31 * 5", "UTC"), "30 4 * * *", "30 4 * * *", "*-*-* 4:30:00 UTC"},
		// Both must match, which only crontab(5) can say, and only of steps.
		{job("x", "30 4 */2 * 1", "UTC"), "30 4 */2 * 1", "", "Mon *-*-1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 4:30:00 UTC"},
		{job("x", "30 4 13 * */5", "UTC"), "30 4 13 * */5", "", "Sun,Fri *-*-13 4:30:00 UTC"},
		{job("x", "30 4 */2,4 * 1", "UTC"), "", "", "Mon *-*-1,3..5,7,9,11,13,15,17,19,21,23,25,27,29,31 4:30:00 UTC"},
		{once, "", "", "2026-12-01 02:00:00 UTC"},
		{every(6*time.Hour, "2026-11-30T15:17:00Z"), "17 3,9,15,21 * * *", "17 3,9,15,21 * * *", "*-*-* 3,9,15,21:17:00 UTC"},
		{every(20*time.Minute, "2026-11-30T15:17:00Z"), "17,37,57 * * * *", "17,37,57 * * * *", "*-*-* *:17,37,57:00 UTC"},
		{every(8*time.Hour, "2026-11-30T15:17:05Z"), "17 7,15,23 * * *", "17 7,15,23 * * *", "*-*-* 07:17:05 UTC | *-*-* 15:17:05 UTC | *-*-* 23:17:05 UTC"},
		{every(7*time.Hour, "2026-11-30T15:17:00Z"), "", "", ""},
		{every(48*time.Hour, "2026-11-30T15:17:00Z"), "", "", ""},
	} {
		for _, f := range Formats {
			want := map[Format]string{Cron: c.cron, Kubernetes: c.kubernetes, Systemd: c.systemd}[f]
			p, err := planned(f, c.job, options)
			if got := strings.Join(p.times, " | "); err == nil && got != want || (err != nil) != (want == "") {
				t.Errorf("%s of %+v is %q (%v), want %q", f, c.job.Trigger, got, err, want)
			}
			if err != nil && !strings.Contains(err.Error(), ": ") {
				t.Errorf("%v has no remedy", err)
			}
		}
	}
}

// cronText draws cron lines of all kinds.
func cronText(t *rapid.T) string {
	field := func(name string, low, high int) string {
		part := func() string {
			a := rapid.IntRange(low, high).Draw(t, name)
			b := rapid.IntRange(a, high).Draw(t, name+" to")
			return rapid.SampledFrom([]string{"*", fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("%d-%d/2", a, b), "*/2", "*/3"}).Draw(t, name+" form")
		}
		s := part()
		for range rapid.IntRange(0, 2).Draw(t, name+" more") {
			s += "," + part()
		}
		return s
	}
	return strings.Join([]string{field("minute", 0, 59), field("hour", 0, 23), field("day", 1, 31), field("month", 1, 12), field("weekday", 0, 7)}, " ")
}

// TestCronLinesMeanTheSame holds each line against what its reader does with
// it: cron reads it as schedule does, Kubernetes takes a day if either field
// matches unless one is an asterisk.
func TestCronLinesMeanTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trigger := schedule.Trigger{Kind: schedule.Cron, Cron: cronText(t), Zone: "UTC"}
		w, err := schedule.Compile(trigger)
		if err != nil {
			t.Skip("an impossible day")
		}
		want, _ := w.Fields()
		if line, err := cronLine(Cron, trigger, w); err == nil {
			again, err := schedule.Compile(schedule.Trigger{Kind: schedule.Cron, Cron: line, Zone: "UTC"})
			if err != nil {
				t.Fatalf("%s became %s: %v", trigger.Cron, line, err)
			}
			got, _ := again.Fields()
			if !slices.Equal(got.Minutes, want.Minutes) || !slices.Equal(got.Hours, want.Hours) || !slices.Equal(got.Months, want.Months) {
				t.Fatalf("%s became %s", trigger.Cron, line)
			}
			sameDays(t, trigger.Cron+" became "+line, want, func(day, weekday int) bool { return matches(got, day, weekday) })
		}
		line, err := cronLine(Kubernetes, trigger, w)
		if err != nil {
			return
		}
		fields := strings.Fields(line)
		again, err := schedule.Compile(schedule.Trigger{Kind: schedule.Cron, Cron: line, Zone: "UTC"})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := again.Fields()
		sameDays(t, trigger.Cron+" became "+line, want, func(day, weekday int) bool {
			d, w := slices.Contains(got.Days, day), slices.Contains(got.Weekdays, weekday)
			if fields[2] == "*" || fields[4] == "*" {
				return d && w
			}
			return d || w
		})
	})
}

func matches(f schedule.Fields, day, weekday int) bool {
	d, w := slices.Contains(f.Days, day), slices.Contains(f.Weekdays, weekday)
	return d && w || f.Either && (d || w)
}

func sameDays(t *rapid.T, what string, want schedule.Fields, got func(day, weekday int) bool) {
	for day := 1; day <= 31; day++ {
		for weekday := range 7 {
			if got(day, weekday) != matches(want, day, weekday) {
				t.Fatalf("%s, which differs on day %d, weekday %d", what, day, weekday)
			}
		}
	}
}

// TestCalendarsMeanTheSame asks systemd itself when its timers fire.
func TestCalendarsMeanTheSame(t *testing.T) {
	base := time.Date(2026, 1, 10, 11, 12, 0, 0, time.UTC)
	var specs []string
	var whens []*schedule.When
	add := func(trigger schedule.Trigger) {
		w, err := schedule.Compile(trigger)
		if err != nil {
			return
		}
		events, err := calendars(trigger, w)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 1 { // of several, systemd takes the first that comes
			specs, whens = append(specs, events[0]), append(whens, w)
		}
	}
	for i := range 150 {
		zone := []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"}[i%4]
		add(schedule.Trigger{Kind: schedule.Cron, Cron: rapid.Custom(cronText).Example(i), Zone: zone})
	}
	for _, d := range []time.Duration{time.Minute, 20 * time.Minute, time.Hour, 12 * time.Hour, 24 * time.Hour} {
		add(schedule.Trigger{Kind: schedule.Every, Every: d, From: base.Add(-4 * time.Minute)})
	}
	add(schedule.Trigger{Kind: schedule.At, At: base.Add(1000 * time.Hour)})
	cmd := exec.Command("systemd-analyze", append([]string{"calendar", "--iterations=3", "--base-time=" + base.Format("2006-01-02 15:04:05 UTC"), "--"}, specs...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "LANG=C.UTF-8", "SYSTEMD_COLORS=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze: %v: %s", err, out)
	}
	answers := strings.Split(strings.TrimSpace(string(out)), "\n\n")
	if len(answers) != len(specs) || len(specs) < 50 {
		t.Fatalf("%d answers to %d events:\n%s", len(answers), len(specs), out)
	}
	compared := 0
	fire := regexp.MustCompile(`(?m)^ +(?:Next elapse|\(in UTC\)|Iter(?:ation|\.) #\d+): \w+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC$`)
	for i, w := range whens {
		at, ok := base, true
		for _, m := range fire.FindAllStringSubmatch(answers[i], -1) {
			got, err := time.Parse("2006-01-02 15:04:05", m[1])
			if err != nil {
				t.Fatal(err)
			}
			if at, ok = w.Next(at); !ok {
				t.Errorf("%s fires at %v, which it should not", specs[i], got)
				break
			}
			if clockIsPut(w.Zone(), base, at) {
				break // there they may differ, which a note says
			}
			compared++
			if !got.Equal(at) {
				t.Errorf("%s fires at %v, want %v\n%s", specs[i], got, at, answers[i])
				break
			}
		}
	}
	if compared < 150 {
		t.Errorf("only %d instants were compared:\n%s", compared, out)
	}
}

// clockIsPut reports whether the offset of a zone changed between two instants.
func clockIsPut(z *time.Location, a, b time.Time) bool {
	_, x := a.In(z).Zone()
	_, y := b.In(z).Zone()
	return x != y || b.Sub(a) > 60*24*time.Hour && z != time.UTC
}

func TestManifestsAreAdmitted(t *testing.T) {
	j := job(strings.Repeat("a", 40), "0 2 * * *", "Europe/Berlin")
	j.Policy.Jitter = time.Minute
	files, notes, err := Files(Kubernetes, []schedule.Job{job("b", "5 4 * * sun", "UTC"), j}, options)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || len(notes) != 2 {
		t.Errorf("%d files, notes %q", len(files), notes)
	}
	for _, f := range files {
		objects, err := schema.Read([]byte(f.Text))
		if err != nil {
			t.Fatalf("%v\n%s", err, f.Text)
		}
		c := objects[0].(*schema.CronJob)
		if name := strings.TrimPrefix(c.Metadata.Name, "bestof-"); !slices.Equal(c.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args, []string{"job", "run", name}) || f.Name != "bestof-job-"+name+".yaml" {
			t.Errorf("%s runs %v", f.Name, c.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args)
		}
	}
}

// hostile are paths that mean something to what reads them.
var hostile = []string{
	`/tmp/plain`, `/tmp/a b/bestof`, `/tmp/%h/%%`, `/tmp/$HOME/$(id)/${PATH}/$$`, "/tmp/`id`", `/tmp/a'b"c\d`, `/tmp/a;b#c&d|e`, `/tmp/*?[x]~`, `/tmp/é€😀`, `/tmp/- @!+:`, `/tmp/"`, `/tmp/\`, `/tmp/{{.}}`, `/tmp/<&>`,
}

// TestCronLinesReachTheProgram runs each line as cron would.
func TestCronLinesReachTheProgram(t *testing.T) {
	for _, path := range hostile {
		dir := t.TempDir()
		o := Options{Program: filepath.Join(dir, path, "bestof"), Home: path}
		if err := os.MkdirAll(filepath.Dir(o.Program), 0o755); err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\nprintf '%s|' \"$BESTOF_HOME\" \"$@\"\n"
		if err := os.WriteFile(o.Program, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		files, _, err := Files(Cron, []schedule.Job{job("x", "0 2 * * *", "UTC")}, o)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(files[0].Text), "\n")
		_, command, _ := strings.Cut(lines[len(lines)-1], "0 2 * * * ")
		// cron(8): an unescaped % ends the command.
		command, _, _ = strings.Cut(strings.ReplaceAll(command, `\%`, "\x00"), "%")
		out, err := exec.Command("/bin/sh", "-c", strings.ReplaceAll(command, "\x00", "%")).CombinedOutput()
		if want := path + "|job|run|x|"; err != nil || string(out) != want {
			t.Errorf("%s gives %q (%v), want %q", command, out, err, want)
		}
	}
}

// TestUnitsAreVerified lets systemd itself read the units. It looks whether the
// programs of commands can be run, and so whether their paths were understood.
func TestUnitsAreVerified(t *testing.T) {
	dir := t.TempDir()
	for i, path := range hostile {
		program := filepath.Join(dir, strings.Map(noQuote, path), "bestof")
		if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		j := job(fmt.Sprintf("x%d", i), "30 4 1,15 * 7", "Europe/Berlin")
		j.Policy.Jitter = time.Hour
		files, _, err := Files(Systemd, []schedule.Job{j}, Options{Program: program, Home: path, Path: path + ":/usr/bin", User: i%2 == 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(f.Text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		assignments := regexp.MustCompile(`(?m)^Environment="(.*)"$`).FindAllStringSubmatch(files[0].Text, -1)
		unquote := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `%%`, `%`)
		if len(assignments) != 2 || unquote.Replace(assignments[0][1]) != "BESTOF_HOME="+path {
			t.Errorf("the environment is %q", assignments)
		}
	}
	for _, quote := range []string{`"`, `'`, `\`} {
		if _, _, err := Files(Systemd, []schedule.Job{job("x", "0 2 * * *", "UTC")}, Options{Program: "/a" + quote + "/bestof"}); err == nil {
			t.Errorf("systemd would not run /a%s/bestof", quote)
		}
	}
	units, err := filepath.Glob(filepath.Join(dir, "*.timer"))
	if err != nil || len(units) != len(hostile) {
		t.Fatalf("%d units: %v", len(units), err)
	}
	cmd := exec.Command("systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=one"}, units...)...)
	cmd.Env = append(os.Environ(), "SYSTEMD_COLORS=0", "SYSTEMD_UNIT_PATH="+dir+":")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), dir) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// noQuote replaces what systemd does not allow in the path of a program.
func noQuote(r rune) rune {
	if strings.ContainsRune(`'"\`, r) {
		return '_'
	}
	return r
}

func TestHostileManifests(t *testing.T) {
	for _, path := range hostile {
		o := options
		o.Program, o.Home, o.Mount, o.Path = path+"/bestof", path+"/home", path, "/usr/bin"
		j := job("x", "0 2 * * *", "UTC")
		j.Repository = path + "/repository"
		files, _, err := Files(Kubernetes, []schedule.Job{j}, o)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := schema.Read([]byte(files[0].Text))
		if err != nil {
			t.Fatalf("%v\n%s", err, files[0].Text)
		}
		c := objects[0].(*schema.CronJob).Spec.JobTemplate.Spec.Template.Spec.Containers[0]
		// Kubernetes makes one dollar sign of two.
		got := []string{strings.ReplaceAll(c.Command[0], "$$", "$"), strings.ReplaceAll(c.Env[0].Value, "$$", "$"), c.VolumeMounts[0].MountPath}
		if diff := cmp.Diff([]string{o.Program, o.Home, o.Mount}, got); diff != "" || strings.Contains(strings.ReplaceAll(c.Command[0], "$$", ""), "$") {
			t.Errorf("%q: %s", path, diff)
		}
	}
}

func TestRefused(t *testing.T) {
	for what, c := range map[string]struct {
		format Format
		change func(*schedule.Job, *Options)
		want   string
	}{
		"format":        {"launchd", func(*schedule.Job, *Options) {}, "write kubernetes, systemd or cron"},
		"image":         {Kubernetes, func(_ *schedule.Job, o *Options) { o.Image = "bestof:latest" }, "by its digest"},
		"image 2":       {Kubernetes, func(_ *schedule.Job, o *Options) { o.Image = "x y" + digest }, "by its digest"},
		"home":          {Kubernetes, func(_ *schedule.Job, o *Options) { o.Home = "/root/.bestof" }, "forgotten with each pod"},
		"repository":    {Kubernetes, func(j *schedule.Job, _ *Options) { j.Repository = "/srv/x" }, "say --mount DIR"},
		"line feed":     {Cron, func(_ *schedule.Job, o *Options) { o.Home = "/a\n* * * * * rm" }, "cannot be written in a line"},
		"line feed 2":   {Systemd, func(_ *schedule.Job, o *Options) { o.Program = "/a\nExecStartPre=/bin/rm" }, "cannot be written in a line"},
		"carriage":      {Systemd, func(_ *schedule.Job, o *Options) { o.Path = "/a\r/b" }, "cannot be written in a line"},
		"bytes":         {Kubernetes, func(_ *schedule.Job, o *Options) { o.Program = "/a\xff" }, "cannot be written in a line"},
		"relative":      {Cron, func(_ *schedule.Job, o *Options) { o.Program = "bestof" }, "not an absolute path"},
		"path":          {Cron, func(_ *schedule.Job, o *Options) { o.Path = `/a"b` }, "quotation mark"},
		"name":          {Systemd, func(j *schedule.Job, _ *Options) { j.Name = "x\n[Service]\nUser=root" }, "a unit may have"},
		"name 2":        {Kubernetes, func(j *schedule.Job, _ *Options) { j.Name = strings.Repeat("a", 60) }, "a unit may have"},
		"zone":          {Cron, func(j *schedule.Job, _ *Options) { j.Trigger.Zone = "UTC\nPATH=/tmp" }, "zone"},
		"paused cron":   {Cron, func(j *schedule.Job, _ *Options) { j.Paused = true }, "bestof job resume x"},
		"paused timer":  {Systemd, func(j *schedule.Job, _ *Options) { j.Paused = true }, "bestof job resume x"},
		"queue timer":   {Systemd, func(j *schedule.Job, _ *Options) { j.Policy.Overlap = schedule.OverlapQueue }, "only skips"},
		"replace timer": {Systemd, func(j *schedule.Job, _ *Options) { j.Policy.Overlap = schedule.OverlapReplace }, "only skips"},
		"queue pod":     {Kubernetes, func(j *schedule.Job, _ *Options) { j.Policy.Overlap = schedule.OverlapQueue }, "skips or replaces"},
		"missed":        {Kubernetes, func(j *schedule.Job, _ *Options) { j.Policy.Missed.Mode = schedule.MissedAll }, "one at most"},
	} {
		j, o := job("x", "0 2 * * *", "UTC"), options
		c.change(&j, &o)
		files, _, err := Files(c.format, []schedule.Job{j}, o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s: %v %v, want an error with %q", what, files, err, c.want)
		}
	}
	if _, _, err := Files(Cron, nil, options); err == nil {
		t.Error("nothing was exported")
	}
	paused := job("x", "0 2 * * *", "UTC")
	paused.Paused = true
	if files, _, err := Files(Kubernetes, []schedule.Job{paused}, options); err != nil || !strings.Contains(files[0].Text, "suspend: true") {
		t.Errorf("a paused job is not suspended: %v", err)
	}
}
