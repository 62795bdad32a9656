package schedule

import (
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"time"
)

// A When is a trigger that was understood. It is read only and may be shared.
//
// A cron line names minutes of a clock on a wall, and where that clock is put
// forward or back this is the rule, which is that of cron(8):
//
//   - A line that names hours means a time of day. A time that the clock leaves
//     out is made up for at the first instant after the gap, once for all of
//     them; of a time that comes twice only the first counts.
//   - A line whose hour field lets every hour pass means so many minutes: it
//     follows elapsed time. It fires in both passes of a doubled hour, and
//     nothing that a gap leaves out is made up for.
type When struct {
	kind  TriggerKind
	line  line
	zone  *time.Location
	at    time.Time
	every time.Duration
	from  time.Time
}

// The bounds of a trigger.
const (
	minEvery = time.Minute
	maxEvery = 366 * 24 * time.Hour
)

// maxAhead is how far Next looks. The rarest line, 29 February on one day of
// the week, comes after 40 years at the latest.
const maxAhead = 41 * 366 * 24 * time.Hour

// The years in which instants may lie.
const (
	minYear = 1970
	maxYear = 9000
)

// Compile understands a trigger. Its errors name the field and the remedy.
// Instants are whole seconds.
func Compile(t Trigger) (*When, error) {
	w := &When{kind: t.Kind, zone: time.UTC}
	switch t.Kind {
	case Cron:
		if !t.At.IsZero() || t.Every != 0 || !t.From.IsZero() {
			return nil, fmt.Errorf("trigger: a cron line has no other time beside it: remove at, every and from")
		}
		var err error
		if w.line, err = parseCron(t.Cron); err != nil {
			return nil, err
		}
		w.zone, err = Zone(t.Zone)
		return w, err
	case At:
		if t.Cron != "" || t.Zone != "" || t.Every != 0 || !t.From.IsZero() {
			return nil, fmt.Errorf("trigger: one time has nothing beside it: remove cron, zone, every and from")
		}
		if !inRange(t.At) {
			return nil, fmt.Errorf("at: the year is %d: write one from %d to %d", t.At.Year(), minYear, maxYear)
		}
		w.at = t.At.Truncate(time.Second)
		return w, nil
	case Every:
		if t.Cron != "" || t.Zone != "" || !t.At.IsZero() {
			return nil, fmt.Errorf("trigger: an interval has no other time beside it: remove cron, zone and at")
		}
		if t.Every < minEvery || t.Every > maxEvery || t.Every%time.Second != 0 {
			return nil, fmt.Errorf("every: it is %v: write %v to %v, in whole seconds", t.Every, minEvery, maxEvery)
		}
		if !inRange(t.From) {
			return nil, fmt.Errorf("from: the year is %d: write one from %d to %d", t.From.Year(), minYear, maxYear)
		}
		w.every, w.from = t.Every, t.From.Truncate(time.Second)
		return w, nil
	}
	return nil, fmt.Errorf("trigger: its kind is %s: write cron, at or every", quote(string(t.Kind)))
}

func inRange(t time.Time) bool { y := t.UTC().Year(); return y >= minYear && y <= maxYear }

var zones sync.Map // name → *time.Location

// Zone is the time zone of a name such as Europe/Berlin.
func Zone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	if name == "" || strings.EqualFold(name, "local") || len(name) > 100 {
		return nil, fmt.Errorf("zone: %s is none that is the same on every machine: write a name such as Europe/Berlin or UTC", quote(name))
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone: there is no %s: write a name such as Europe/Berlin or UTC", quote(name))
	}
	zones.Store(name, z)
	return z, nil
}

// Zone is that of the trigger's clock, UTC where it has none.
func (w *When) Zone() *time.Location { return w.zone }

// Next is the first instant after the given one at which the trigger fires, ok
// whether there is one. It is a function of its receiver and argument alone.
func (w *When) Next(after time.Time) (next time.Time, ok bool) {
	if after.Year() < minYear {
		after = time.Date(minYear, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	switch {
	case after.Year() > maxYear:
		return time.Time{}, false
	case w.kind == At:
		return w.at, w.at.After(after)
	case w.kind == Every:
		return w.tick(after)
	}
	return w.cron(after)
}

func (w *When) tick(after time.Time) (time.Time, bool) {
	if after.Before(w.from) {
		return w.from.Add(w.every), true
	}
	// A Duration holds 292 years only.
	from, every := w.from, w.every
	for after.Sub(from) > maxAhead {
		from = from.Add(maxAhead / every * every)
	}
	return from.Add((after.Sub(from)/every + 1) * every), true
}

const (
	minute = int64(60)
	day    = 24 * 60 * minute
)

// cron goes through the spans of time in which the clock is not touched. In
// one, the clock's seconds are the instant's plus the offset.
func (w *When) cron(after time.Time) (time.Time, bool) {
	// The first instant that counts, in seconds: a minute begins after it.
	from := after.Unix() + 1
	limit := from + int64(maxAhead/time.Second)
	for from < limit {
		begin, end, offset, before := w.span(from)
		local := from + offset
		if !w.line.everyHour() && begin > 0 {
			if from == begin && offset > before {
				// The clock went forward over [begin+before, begin+offset).
				if _, missed := w.line.next(begin+before, begin+offset); missed {
					return time.Unix(begin, 0).In(w.zone), true
				}
			}
			// Before this the clock shows for the second time what it showed.
			local = max(local, begin+before)
		}
		if clock, ok := w.line.next(local, min(end, limit)+offset); ok {
			return time.Unix(clock-offset, 0).In(w.zone), true
		}
		from = end
	}
	return time.Time{}, false
}

// span is what is known of the clock at an instant: the offset, since when and
// until when it holds, and the offset before. begin is 0 where none is known.
func (w *When) span(at int64) (begin, end, offset, before int64) {
	t := time.Unix(at, 0).In(w.zone)
	_, seconds := t.Zone()
	start, stop := t.ZoneBounds()
	begin, end, offset, before = 0, 1<<62, int64(seconds), int64(seconds)
	if !stop.IsZero() {
		end = stop.Unix()
	}
	if start.IsZero() {
		return begin, end, offset, before
	}
	begin = start.Unix()
	// No clock was ever put by more than a day.
	if at-begin <= day {
		_, seconds = start.Add(-time.Second).Zone()
		before = int64(seconds)
	}
	return begin, end, offset, before
}

// next is the first minute from the clock's second on, before end, that the
// line names. Clocks here count seconds since 1970 as if there were no zones.
func (l *line) next(clock, end int64) (int64, bool) {
	clock = (clock + minute - 1) / minute * minute // no clock is from before 1970
	for clock < end {
		days := clock / day
		year, month, d := civil(days)
		switch {
		case l.months&(1<<month) == 0:
			clock = (days + int64(length(year, month)-d) + 1) * day
			continue
		case !l.day(d, int((days+4)%7)): // 1970 began on a Thursday
			clock = (days + 1) * day
			continue
		}
		within := clock % day / minute
		hour, min := int(within/60), int(within%60)
		if l.hours&(1<<hour) != 0 {
			if m := l.minutes >> min; m != 0 {
				clock += int64(bits.TrailingZeros64(m)) * minute
				return clock, clock < end
			}
		}
		later := l.hours >> (hour + 1)
		if later == 0 {
			clock = (days + 1) * day
			continue
		}
		hour += 1 + bits.TrailingZeros64(later)
		clock = days*day + int64(hour)*60*minute + int64(bits.TrailingZeros64(l.minutes))*minute
		return clock, clock < end
	}
	return 0, false
}

// day reports whether a day matches by its number and its day of the week.
func (l *line) day(number, weekday int) bool {
	n, w := l.days&(1<<number) != 0, l.weekdays&(1<<weekday) != 0
	return n && w || l.either && (n || w)
}

// civil is the date of a day, counted from 1 January 1970: Howard Hinnant's
// "days_from_civil", backwards.
func civil(days int64) (year, month, d int) {
	z := days + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = int(doy - (153*mp+2)/5 + 1)
	month = int(mp + 3)
	if mp >= 10 {
		month = int(mp - 9)
	}
	year = int(yoe + era*400)
	if month <= 2 {
		year++
	}
	return year, month, d
}

func length(year, month int) int {
	if month == 2 && (year%4 != 0 || year%100 == 0 && year%400 != 0) {
		return 28
	}
	return longest[month]
}
