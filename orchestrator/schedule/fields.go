package schedule

// Fields are the values that the five fields of a cron line name, ascending.
type Fields struct {
	Minutes, Hours, Days, Months []int
	Weekdays                     []int // 0 is Sunday
	// Either says that a day matches by its number or by its weekday; else both
	// have to match.
	Either bool
}

// Fields are those of the trigger's cron line, ok whether it has one.
func (w *When) Fields() (f Fields, ok bool) {
	if w.kind != Cron {
		return Fields{}, false
	}
	l := w.line
	return Fields{members(l.minutes), members(l.hours), members(l.days), members(l.months), members(l.weekdays), l.either}, true
}

// members lists the bits of a set.
func members(set uint64) []int {
	var all []int
	for v := range 64 {
		if set&(1<<v) != 0 {
			all = append(all, v)
		}
	}
	return all
}
