package schedule

import "time"

// Decide says what is to be done now. It is a function of its arguments alone.
func Decide(s State, now time.Time) []Decision { return nil }
