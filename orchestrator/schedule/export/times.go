package export

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
)

// cronLine is a trigger as five fields that every cron reads alike: numbers,
// ranges and lists.
func cronLine(f Format, t schedule.Trigger, w *schedule.When) (string, error) {
	fields, ok := w.Fields()
	switch {
	case t.Kind == schedule.At:
		return "", fmt.Errorf("it fires once, and %s repeats every year: export it for systemd, or let `bestof daemon` or `bestof job tick` start it", f)
	case !ok:
		minutes, hours, err := product(t)
		if err != nil {
			return "", err
		}
		return list(minutes, 0, 59, "-") + " " + list(hours, 0, 23, "-") + " * * *", nil
	}
	days, weekdays, err := cronDays(f, fields)
	if err != nil {
		return "", err
	}
	return strings.Join([]string{list(fields.Minutes, 0, 59, "-"), list(fields.Hours, 0, 23, "-"), days, list(fields.Months, 1, 12, "-"), weekdays}, " "), nil
}

// cronDays writes the two fields of the day. If both are restricted, a day
// matches by either, everywhere. Only where a field begins with an asterisk do
// both have to match, and there Kubernetes, for which */2 is no asterisk, thinks
// otherwise.
func cronDays(f Format, fields schedule.Fields) (days, weekdays string, err error) {
	days, weekdays = list(fields.Days, 1, 31, "-"), list(fields.Weekdays, 0, 6, "-")
	all := days == "*" || weekdays == "*"
	switch {
	case fields.Either && all:
		return "*", "*", nil
	case fields.Either || all:
		return days, weekdays, nil
	case f == Kubernetes:
		return "", "", errors.New("its day must match by number and by weekday, and a CronJob takes either: let `bestof daemon` or `bestof job tick` start it")
	}
	if step, ok := stepped(fields.Days, 1, 31); ok {
		return step, weekdays, nil
	}
	if step, ok := stepped(fields.Weekdays, 0, 6); ok {
		return days, step, nil
	}
	return "", "", errors.New("its day must match by number and by weekday, and cron takes either: let `bestof daemon` or `bestof job tick` start it")
}

// stepped is a set as */N, if it is one.
func stepped(set []int, low, high int) (string, bool) {
	if len(set) < 1 || set[0] != low {
		return "", false
	}
	step := high - low + 1
	if len(set) > 1 {
		step = set[1] - set[0]
	}
	var want []int
	for v := low; v <= high; v += step {
		want = append(want, v)
	}
	return "*/" + strconv.Itoa(step), slices.Equal(set, want)
}

// list writes a set of numbers: * for all, a-b for three or more in a row.
func list(set []int, low, high int, through string) string {
	if len(set) == high-low+1 {
		return "*"
	}
	var parts []string
	for i := 0; i < len(set); {
		end := i
		for end+1 < len(set) && set[end+1] == set[end]+1 {
			end++
		}
		switch end - i {
		case 0:
			parts = append(parts, strconv.Itoa(set[i]))
		case 1:
			parts = append(parts, strconv.Itoa(set[i]), strconv.Itoa(set[end]))
		default:
			parts = append(parts, strconv.Itoa(set[i])+through+strconv.Itoa(set[end]))
		}
		i = end + 1
	}
	return strings.Join(parts, ",")
}

const wholeDay = 24 * time.Hour

// daily are the seconds of a UTC day at which an interval fires, if it fires at
// the same ones every day.
func daily(t schedule.Trigger) ([]int, error) {
	if wholeDay%t.Every != 0 || t.From.Nanosecond() != 0 {
		return nil, fmt.Errorf("it fires every %v, which is not at the same times every day: let `bestof daemon` or `bestof job tick` start it, or use --cron", t.Every)
	}
	var at []int
	first := time.Duration(((t.From.Unix()%86400)+86400)%86400) * time.Second % t.Every
	for d := first; d < wholeDay; d += t.Every {
		at = append(at, int(d/time.Second))
	}
	return at, nil
}

// product says an interval as minutes and hours, all of each with all of the
// other. Seconds are left out.
func product(t schedule.Trigger) (minutes, hours []int, err error) {
	at, err := daily(t)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range at {
		m, h := s/60%60, s/3600
		if !slices.Contains(minutes, m) {
			minutes = append(minutes, m)
		}
		if !slices.Contains(hours, h) {
			hours = append(hours, h)
		}
	}
	if len(minutes)*len(hours) != len(at) {
		return nil, nil, fmt.Errorf("it fires every %v, which no cron line says: export it for systemd, or use --cron", t.Every)
	}
	slices.Sort(minutes)
	return minutes, hours, nil
}

var weekdayNames = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// calendars is a trigger as calendar events of systemd.time(7). A timer fires
// when any of them is due, once.
func calendars(t schedule.Trigger, w *schedule.When) ([]string, error) {
	switch t.Kind {
	case schedule.At:
		at := t.At.UTC()
		if at.Nanosecond() != 0 {
			at = at.Truncate(time.Second).Add(time.Second)
		}
		return []string{at.Format("2006-01-02 15:04:05 UTC")}, nil
	case schedule.Every:
		return everyCalendars(t)
	}
	f, _ := w.Fields()
	weekdays := ""
	if len(f.Weekdays) < 7 {
		var names []string
		for _, d := range f.Weekdays {
			names = append(names, weekdayNames[d])
		}
		weekdays = strings.Join(names, ",") + " "
	}
	days := list(f.Days, 1, 31, "..")
	rest := func(days string) string {
		return fmt.Sprintf("*-%s-%s %s:%s:00 %s", list(f.Months, 1, 12, ".."), days, list(f.Hours, 0, 23, ".."), list(f.Minutes, 0, 59, ".."), w.Zone())
	}
	switch {
	case f.Either && (weekdays == "" || days == "*"):
		return []string{rest("*")}, nil
	case f.Either:
		return []string{rest(days), weekdays + rest("*")}, nil
	}
	return []string{weekdays + rest(days)}, nil
}

// maxCalendars bounds the lines for one job.
const maxCalendars = 100

func everyCalendars(t schedule.Trigger) ([]string, error) {
	at, err := daily(t)
	if err != nil {
		return nil, err
	}
	if minutes, hours, err := product(t); err == nil && at[0]%60 == 0 {
		return []string{fmt.Sprintf("*-*-* %s:%s:00 UTC", list(hours, 0, 23, ".."), list(minutes, 0, 59, ".."))}, nil
	}
	if len(at) > maxCalendars {
		return nil, fmt.Errorf("it fires every %v, which takes %d lines: use --cron", t.Every, len(at))
	}
	var all []string
	for _, s := range at {
		all = append(all, fmt.Sprintf("*-*-* %02d:%02d:%02d UTC", s/3600, s/60%60, s%60))
	}
	return all, nil
}
