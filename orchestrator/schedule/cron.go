package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// A field of a cron line, with the values that crontab(5) allows.
type field struct {
	name  string
	low   int
	high  int
	names []string // of low, low+1 …
}

var fields = [5]field{
	{name: "minute", high: 59},
	{name: "hour", high: 23},
	{name: "day of month", low: 1, high: 31},
	{name: "month", low: 1, high: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", high: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// words stand for five fields, as in crontab(5).
var words = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// maxCron is the longest cron line, in bytes.
const maxCron = 500

// A line is a cron line: one bit for each value of each field.
type line struct {
	minutes, hours, days, months, weekdays uint64

	either bool // a day matches by its number or by its weekday; else by both
}

// everyHour reports whether the line names no hour.
func (l *line) everyHour() bool { return l.hours == 1<<24-1 }

// parseCron reads a cron line. Its errors name the field and say what to write.
func parseCron(text string) (line, error) {
	if len(text) > maxCron {
		return line{}, fmt.Errorf("cron: it has %d bytes: write at most %d", len(text), maxCron)
	}
	parts := strings.Fields(text)
	if len(parts) == 1 && strings.HasPrefix(parts[0], "@") {
		five, ok := words[strings.ToLower(parts[0])]
		if !ok {
			return line{}, fmt.Errorf("cron: there is no %s: write @hourly, @daily, @weekly, @monthly, @yearly, or five fields", quote(parts[0]))
		}
		parts = strings.Fields(five)
	}
	if len(parts) > 0 && strings.Contains(parts[0], "=") {
		return line{}, fmt.Errorf("cron: %s is no field: name the zone beside the line (--tz)", quote(parts[0]))
	}
	if len(parts) != len(fields) {
		return line{}, fmt.Errorf("cron: it has %d fields: write five: minute, hour, day of month, month, day of week", len(parts))
	}
	var sets [5]uint64
	for i, part := range parts {
		var err error
		if sets[i], err = fields[i].parse(part); err != nil {
			return line{}, fmt.Errorf("cron: %s: %w", fields[i].name, err)
		}
	}
	l := line{minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4]}
	if l.weekdays&(1<<7) != 0 { // 0 and 7 are Sunday
		l.weekdays = l.weekdays&^(1<<7) | 1
	}
	// crontab(5): if both fields of the day are restricted, that is do not begin
	// with *, either decides.
	l.either = parts[2][0] != '*' && parts[4][0] != '*'
	return l, l.possible()
}

func (f field) parse(text string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(text, ",") {
		s, err := f.part(part)
		if err != nil {
			return 0, err
		}
		set |= s
	}
	return set, nil
}

// part reads *, a, a-b, and the latter and * with a step.
func (f field) part(text string) (uint64, error) {
	if text == "" {
		return 0, fmt.Errorf("an element of the list is empty: write values between commas")
	}
	span, stepText, stepped := strings.Cut(text, "/")
	low, high := f.low, f.high
	if f.high == 7 && span == "*" {
		high = 6 // 7 is Sunday once more
	}
	if from, to, ranged := strings.Cut(span, "-"); span != "*" {
		var err error
		if low, err = f.value(from); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if high, err = f.value(to); err != nil {
				return 0, err
			}
			if f.high == 7 && high == 0 && low > 0 {
				high = 7 // fri-sun
			}
		case stepped:
			return 0, fmt.Errorf("%s has a step without a range: write %s-%d/%s", quote(text), from, f.high, quoteless(stepText))
		default:
			high = low
		}
		if low > high {
			return 0, fmt.Errorf("%s runs backwards: write two ranges with a comma", quote(text))
		}
	}
	step := 1
	if stepped {
		n, ok := number(stepText)
		if !ok || n < 1 || n > f.high-f.low+1 {
			return 0, fmt.Errorf("%s has no step that fits: write a number from 1 to %d after the slash", quote(text), f.high-f.low+1)
		}
		step = n
	}
	var set uint64
	for v := low; v <= high; v += step {
		set |= 1 << v
	}
	return set, nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) && len(text) == len(name) {
			return f.low + i, nil
		}
	}
	n, ok := number(text)
	if !ok || n < f.low || n > f.high {
		named := ""
		if f.names != nil {
			named = fmt.Sprintf(", or %s to %s", f.names[0], f.names[len(f.names)-1])
		}
		return 0, fmt.Errorf("%s is none: write %d to %d%s", quote(text), f.low, f.high, named)
	}
	return n, nil
}

// number reads one or two digits.
func number(text string) (int, bool) {
	if len(text) < 1 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// longest is how many days a month may have.
var longest = [13]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// possible reports a line whose days no year has.
func (l *line) possible() error {
	if l.either {
		return nil
	}
	first := bits.TrailingZeros64(l.days)
	most := 0
	for m := 1; m <= 12; m++ {
		if l.months&(1<<m) != 0 {
			most = max(most, longest[m])
		}
	}
	if first > most {
		return fmt.Errorf("cron: day of month: no month that it names has a day %d: write at most %d", first, most)
	}
	return nil
}

// quote shows a part of a line to people.
func quote(s string) string { return strconv.Quote(quoteless(s)) }

func quoteless(s string) string {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return s
}
