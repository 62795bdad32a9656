package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A minuteOfYear is what a clock on the wall shows at an instant.
type minuteOfYear struct {
	at     time.Time
	clock  int64 // minutes since 1970 as the clock counts them
	fields [5]int
}

// walk is every minute of a stretch of time, one by one.
func walk(from, to time.Time, zone *time.Location) []minuteOfYear {
	all := make([]minuteOfYear, 0, to.Sub(from)/time.Minute)
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		all = append(all, minuteOfYear{t, clockOf(t.In(zone)), fieldsOf(t.In(zone))})
	}
	return all
}

func clockOf(t time.Time) int64 {
	year, month, day := t.Date()
	hour, minute, _ := t.Clock()
	return time.Date(year, month, day, hour, minute, 0, 0, time.UTC).Unix() / 60
}

func fieldsOf(t time.Time) [5]int {
	_, month, day := t.Date()
	hour, minute, _ := t.Clock()
	return [5]int{minute, hour, day, int(month), int(t.Weekday())}
}

// A plainLine is a cron line as sets of numbers; nil is *.
type plainLine [5][]int

func (l plainLine) String() string {
	var parts []string
	for _, set := range l {
		if set == nil {
			parts = append(parts, "*")
			continue
		}
		parts = append(parts, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(set)), ","), "[]"))
	}
	return strings.Join(parts, " ")
}

// matcher says whether the line names what a clock shows.
func (l plainLine) matcher() func([5]int) bool {
	var has [5][60]bool
	for i, set := range l {
		for v := range has[i] {
			has[i][v] = set == nil || slices.Contains(set, v)
		}
	}
	either := l[2] != nil && l[4] != nil
	return func(at [5]int) bool {
		day, weekday := has[2][at[2]], has[4][at[4]]
		return has[0][at[0]] && has[1][at[1]] && has[3][at[3]] && (day && weekday || either && (day || weekday))
	}
}

// brute is what the rule in the manual says, minute by minute: it knows nothing
// of offsets.
func (l plainLine) brute(minutes []minuteOfYear) (fires []time.Time) {
	everyHour, matches := l[1] == nil || len(l[1]) == 24, l.matcher()
	latest := minutes[0].clock - 1
	for _, m := range minutes {
		again := m.clock <= latest
		left := false
		for c := latest + 1; c < m.clock && !left; c++ {
			left = matches(fieldsOf(time.Unix(c*60, 0).UTC()))
		}
		latest = max(latest, m.clock)
		switch {
		case everyHour && matches(m.fields), !everyHour && (left || !again && matches(m.fields)):
			fires = append(fires, m.at)
		}
	}
	return fires
}

func all(t testing.TB, w *When, from, to time.Time) (fires []time.Time) {
	t.Helper()
	for at, ok := w.Next(from); ok && at.Before(to); at, ok = w.Next(at) {
		if len(fires) > 0 && !at.After(fires[len(fires)-1]) {
			t.Fatalf("%v does not come after %v", at, fires[len(fires)-1])
		}
		fires = append(fires, at.UTC())
	}
	return fires
}

func compiled(t testing.TB, line, zone string) *When {
	t.Helper()
	w, err := Compile(Trigger{Kind: Cron, Cron: line, Zone: zone})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func utc(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

// stretches are times in which clocks were put: hours, half hours, at midnight,
// before noon of Ramadan, and a day that a country left out.
var stretches = []struct{ zone, from, to string }{
	{"Europe/Berlin", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	{"America/New_York", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	{"Australia/Lord_Howe", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	{"Africa/Cairo", "2024-04-15T00:00:00Z", "2024-05-05T00:00:00Z"},
	{"Africa/Cairo", "2024-10-20T00:00:00Z", "2024-11-10T00:00:00Z"},
	{"Pacific/Apia", "2011-12-20T00:00:00Z", "2012-01-10T00:00:00Z"},
	{"Africa/Casablanca", "2026-02-10T00:00:00Z", "2026-03-30T00:00:00Z"},
	{"America/Sao_Paulo", "2017-10-05T00:00:00Z", "2017-10-25T00:00:00Z"},
	{"America/Sao_Paulo", "2018-02-10T00:00:00Z", "2018-02-25T00:00:00Z"},
	{"Antarctica/Troll", "2026-03-20T00:00:00Z", "2026-04-10T00:00:00Z"},
	{"Antarctica/Troll", "2026-10-15T00:00:00Z", "2026-11-05T00:00:00Z"},
	{"Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-01-15T00:00:00Z"},
}

func TestFiresAreThoseOfAMinuteWalk(t *testing.T) {
	fixed := []plainLine{
		{{30}, {2}, nil, nil, nil}, {{0}, {0}, nil, nil, nil}, {{0, 15, 30, 45}, nil, nil, nil, nil}, {{15, 45}, {1, 2, 3}, nil, nil, nil},
		{nil, {2}, nil, nil, nil}, {{59}, {1}, nil, nil, nil}, {{0}, {3}, nil, nil, nil}, {{0}, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, nil, nil, nil},
	}
	for _, s := range stretches {
		t.Run(strings.ReplaceAll(s.zone, "/", "-"), func(t *testing.T) {
			zone, err := Zone(s.zone)
			if err != nil {
				t.Fatal(err)
			}
			minutes := walk(utc(s.from), utc(s.to), zone)
			check := func(t interface{ Fatalf(string, ...any) }, w *When, l plainLine, minutes []minuteOfYear) {
				want := l.brute(minutes)
				var got []time.Time
				end := minutes[len(minutes)-1].at
				for at, ok := w.Next(minutes[0].at.Add(-time.Second)); ok && !at.After(end); at, ok = w.Next(at) {
					got = append(got, at.UTC())
				}
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					i := 0
					for i < len(got) && i < len(want) && got[i].Equal(want[i]) {
						i++
					}
					t.Fatalf("%v in %s: %d fires, want %d; they differ from number %d on: %v, want %v", l, s.zone, len(got), len(want), i, got[i:min(len(got), i+2)], want[i:min(len(want), i+2)])
				}
			}
			for _, l := range fixed {
				check(t, compiled(t, l.String(), s.zone), l, minutes)
			}
			const day = 24 * 60
			var puts []int // days on which the clock is put
			for i := 1; i < len(minutes); i++ {
				if minutes[i].clock != minutes[i-1].clock+1 {
					puts = append(puts, i/day)
				}
			}
			days := rapid.IntRange(0, max(0, len(minutes)/day-7))
			if puts != nil {
				days = rapid.OneOf(days, rapid.SampledFrom(puts))
			}
			rapid.Check(t, func(t *rapid.T) {
				l := anyLine(t)
				w, err := Compile(Trigger{Kind: Cron, Cron: l.String(), Zone: s.zone})
				if err != nil {
					return // a day that no month has
				}
				// A week that begins at noon, when no clock is put.
				first := max(0, days.Draw(t, "day")-rapid.IntRange(1, 6).Draw(t, "before"))*day + day/2
				check(t, w, l, minutes[first:min(len(minutes), first+7*day)])
			})
		})
	}
}

// anyLine is a line that tends to hit the hours in which clocks are put.
func anyLine(t *rapid.T) (l plainLine) {
	for i, f := range fields {
		high := f.high
		if i == 4 {
			high = 6
		}
		most := 4
		if i == 1 && rapid.Bool().Draw(t, "night") {
			high = 4
		}
		if i > 1 && rapid.IntRange(0, 2).Draw(t, "star") > 0 || i <= 1 && rapid.IntRange(0, 5).Draw(t, "star") == 0 {
			continue
		}
		l[i] = rapid.SliceOfNDistinct(rapid.IntRange(f.low, high), 1, most, rapid.ID[int]).Draw(t, f.name)
	}
	return l
}

// TestNextStartsAnywhere: from any instant, the next fire is the first one
// that a walk from long before finds.
func TestNextStartsAnywhere(t *testing.T) {
	for _, s := range stretches[:3] {
		from, to := utc(s.from), utc(s.to)
		lines := []string{"30 2 * * *", "*/20 * * * *", "45 1-3 * * 0", "0 */5 * * *"}
		var walks [][]time.Time
		for _, l := range lines {
			walks = append(walks, all(t, compiled(t, l, s.zone), from, to))
		}
		rapid.Check(t, func(t *rapid.T) {
			i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
			after := from.Add(time.Duration(rapid.Int64Range(0, int64(to.Sub(from))-int64(8*24*time.Hour)).Draw(t, "after")))
			w, err := Compile(Trigger{Kind: Cron, Cron: lines[i], Zone: s.zone})
			if err != nil {
				t.Fatal(err)
			}
			got, ok := w.Next(after)
			at, _ := slices.BinarySearchFunc(walks[i], after, func(f, after time.Time) int {
				if f.After(after) {
					return 1
				}
				return -1
			})
			if !ok || !got.Equal(walks[i][at]) {
				t.Fatalf("%s after %v: %v, want %v", lines[i], after, got, walks[i][at])
			}
		})
	}
}

func TestTheNightsOnWhichClocksArePut(t *testing.T) {
	for _, x := range []struct {
		line, zone, after string
		want              []string
	}{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"*/15 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"0,30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", []string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"}},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"}},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"0 0 * * *", "Africa/Cairo", "2024-04-25T12:00:00Z", []string{"2024-04-26T01:00:00+03:00", "2024-04-27T00:00:00+03:00"}},
		{"0 2 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2011-12-31T00:00:00+14:00", "2012-12-30T02:00:00+14:00"}},
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"0 12 13 * 5", "UTC", "2026-11-01T00:00:00Z", []string{"2026-11-06T12:00:00Z", "2026-11-13T12:00:00Z", "2026-11-20T12:00:00Z"}},
		{"@weekly", "UTC", "2026-11-01T00:00:00Z", []string{"2026-11-08T00:00:00Z"}},
		{"0 8 * * mon-fri", "UTC", "2026-11-06T09:00:00Z", []string{"2026-11-09T08:00:00Z"}},
		{"0 8 * * fri-sun", "UTC", "2026-11-06T09:00:00Z", []string{"2026-11-07T08:00:00Z", "2026-11-08T08:00:00Z", "2026-11-13T08:00:00Z"}},
	} {
		w := compiled(t, x.line, x.zone)
		at := utc(x.after)
		for _, want := range x.want {
			var ok bool
			if at, ok = w.Next(at); !ok || at.Format(time.RFC3339) != want {
				t.Errorf("%s in %s: %v, want %s", x.line, x.zone, at.Format(time.RFC3339), want)
			}
		}
	}
}

// TestTheRarestLineIsFound: 29 February on a Sunday, over a year that is no
// leap year, is 40 years away.
func TestTheRarestLineIsFound(t *testing.T) {
	w := compiled(t, "0 0 29 2 */7", "UTC")
	for at, end := utc("1970-01-01T00:00:00Z"), utc("2400-01-01T00:00:00Z"); at.Before(end); {
		next, ok := w.Next(at)
		if !ok || next.Weekday() != time.Sunday || next.Day() != 29 || next.Month() != 2 {
			t.Fatalf("after %v: %v, %v", at, next, ok)
		}
		at = next
	}
}

func TestTimesAndIntervals(t *testing.T) {
	at := utc("2026-11-30T12:00:00Z")
	w, err := Compile(Trigger{Kind: At, At: at.Add(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if next, ok := w.Next(at.Add(-time.Second)); !ok || !next.Equal(at) {
		t.Errorf("%v, %v", next, ok)
	}
	if next, ok := w.Next(at); ok {
		t.Errorf("twice: %v", next)
	}
	w, err = Compile(Trigger{Kind: Every, Every: 6 * time.Hour, From: at})
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]time.Duration{-time.Hour: 6 * time.Hour, 0: 6 * time.Hour, time.Second: 6 * time.Hour, 6 * time.Hour: 12 * time.Hour, 600_000 * time.Hour: 600_006 * time.Hour, 1_000_001 * time.Hour: 1_000_002 * time.Hour} {
		if next, ok := w.Next(at.Add(after)); !ok || !next.Equal(at.Add(want)) {
			t.Errorf("after %v: %v, %v", after, next, ok)
		}
	}
	if next, ok := w.Next(time.Date(9500, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
		t.Errorf("beyond all years: %v", next)
	}
	if next, ok := compiled(t, "0 0 * * *", "UTC").Next(time.Date(-400, 1, 1, 0, 0, 0, 0, time.UTC)); !ok || next.Year() != 1970 {
		t.Errorf("before all years: %v, %v", next, ok)
	}
}

func TestCronLinesAreRefusedWithARemedy(t *testing.T) {
	for line, want := range map[string]string{
		"":                    "write five",
		"* * * *":             "it has 4 fields: write five",
		"* * * * * *":         "it has 6 fields: write five",
		"60 * * * *":          `minute: "60" is none: write 0 to 59`,
		"* 24 * * *":          "hour",
		"* * 0 * *":           "day of month",
		"* * * 13 *":          "month: \"13\" is none: write 1 to 12, or jan to dec",
		"* * * * 8":           "day of week",
		"* * L * *":           `"L" is none: write 1 to 31`,
		"* * ? * *":           "day of month",
		"* * * * 5#2":         "day of week",
		"* * 15W * *":         "day of month",
		"*/0 * * * *":         "write a number from 1 to 60",
		"*/61 * * * *":        "write a number from 1 to 60",
		"*/x * * * *":         "after the slash",
		"5/10 * * * *":        "write 5-59/10",
		"30-10 * * * *":       "runs backwards: write two ranges",
		"0 0 * * sat-mon":     "runs backwards",
		"1,,2 * * * *":        "is empty",
		"1, * * * *":          "is empty",
		"-1 * * * *":          "minute",
		"001 * * * *":         "minute",
		"+1 * * * *":          "minute",
		"0 0 31 2 *":          "no month that it names has a day 31: write at most 29",
		"0 0 30 feb *":        "has a day 30",
		"0 0 31 4,6,9,11 *":   "has a day 31: write at most 30",
		"0 0 31 2 */2":        "has a day 31",
		"@reboot":             "there is no \"@reboot\"",
		"TZ=UTC 0 0 * * *":    "--tz",
		"CRON_TZ=UTC 0 0 * *": "--tz",
		"0 0 * * \x1b[2J":     `"\x1b[2J"`,
		"0 0 * * " + strings.Repeat("1,", 300) + "1": "write at most 500",
		"0 ſun * * *": "hour",
	} {
		_, err := Compile(Trigger{Kind: Cron, Cron: line, Zone: "UTC"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	for _, line := range []string{"0 0 31 2 1", "0 0 29 2 *", "0 0 30,31 2,3 *", "@Daily", " 0  0 * *\t* ", "0 0 * JAN,feb 7", "*/60 */24 */31 */12 */7", "0-59/59 * * * 5-7"} {
		if _, err := Compile(Trigger{Kind: Cron, Cron: line, Zone: "UTC"}); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	for _, zone := range []string{"", "Local", "local", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", strings.Repeat("x", 200), "Europe/\x1b"} {
		if _, err := Compile(Trigger{Kind: Cron, Cron: "@daily", Zone: zone}); err == nil || !strings.Contains(err.Error(), "write a name such as") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}

func TestTriggersAreOfOneKind(t *testing.T) {
	at := utc("2026-01-01T00:00:00Z")
	for _, trigger := range []Trigger{
		{}, {Kind: "yearly"},
		{Kind: Cron, Cron: "@daily", Zone: "UTC", Every: time.Hour},
		{Kind: At, At: at, Zone: "UTC"}, {Kind: At}, {Kind: At, At: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Kind: Every, Every: time.Second, From: at}, {Kind: Every, Every: 367 * 24 * time.Hour, From: at},
		{Kind: Every, Every: time.Hour}, {Kind: Every, Every: time.Minute + time.Millisecond, From: at}, {Kind: Every, Every: time.Hour, From: at, At: at},
	} {
		if _, err := Compile(trigger); err == nil {
			t.Errorf("%+v is let pass", trigger)
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, line := range []string{"*/15 2 1-7 jan,feb mon-fri", "@daily", "0 0 31 2 *", "5/10 * * * *", "0 0 29 2 */7", "59 23 31 12 7"} {
		f.Add(line, int64(1_700_000_000), uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, after int64, zone uint8) {
		w, err := Compile(Trigger{Kind: Cron, Cron: text, Zone: stretches[int(zone)%len(stretches)].zone})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("%q", err)
			}
			return
		}
		at := time.Unix(after, 0)
		next, ok := w.Next(at)
		if ok && !next.After(at) {
			t.Fatalf("%q: %v is not after %v", text, next, at)
		}
		if !ok && at.Year() > 1970 && at.Year() < maxYear-50 {
			t.Fatalf("%q never fires after %v", text, at)
		}
	})
}

func BenchmarkNextOf10000Jobs(b *testing.B) {
	var jobs []*When
	for i := range 10_000 {
		jobs = append(jobs, compiled(b, fmt.Sprintf("%d %d * * %d", i%60, i%24, i%7), stretches[i%len(stretches)].zone))
	}
	now := utc("2026-03-28T12:00:00Z")
	for b.Loop() {
		for _, w := range jobs {
			if _, ok := w.Next(now); !ok {
				b.Fatal("it never fires")
			}
		}
	}
}
