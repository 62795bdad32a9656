package runner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bestof-dev/bestof/orchestrator/schedule"
	"github.com/bestof-dev/bestof/orchestrator/schedule/ledger"
)

// setAndSee sets the clock, and returns when a whole turn saw the new time: one
// that was under way may have seen the old.
func (m *room) setAndSee(t time.Time) {
	m.t.Helper()
	for range 2 {
		before := m.r.Health().Turns
		m.until("a turn", func() bool { m.hands.set(t); return m.r.Health().Turns > before })
	}
}

// account is each instant that a run or a skip is about, in order, as a word
// about its hour.
func (m *room) account() string {
	m.t.Helper()
	words := map[int][]string{}
	add := func(at time.Time, word string) {
		hour := int(at.Sub(noon) / time.Hour)
		if word == string(schedule.ByMissed) && slices.Contains(words[hour], word) {
			return // the clock went over it twice
		}
		words[hour] = append(words[hour], word)
	}
	for _, r := range m.runs() {
		add(r.Instant, string(r.Outcome))
	}
	fires, err := m.l.Fires(ledger.Query{Job: "j"})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, f := range fires {
		if f.State != schedule.FireSkipped {
			continue
		}
		at := f.Instant
		for range f.Count {
			add(at, string(f.Reason.Code))
			at = at.Add(time.Hour)
		}
	}
	var out []string
	for hour := -48; hour <= 48; hour++ {
		if w := words[hour]; w != nil {
			out = append(out, fmt.Sprintf("%d:%s", hour, strings.Join(w, "+")))
		}
	}
	return strings.Join(out, " ")
}

// Hazard: the clock is set back and forward, by little and by much. Every
// instant has its run or its skip, none has two, and what the clock jumped over
// was missed: the job's policy says what becomes of it.
func TestHazardClockSetBackAndForward(t *testing.T) {
	for mode, want := range map[schedule.MissedMode]string{
		schedule.MissedOnce: "1:won 2:missed 3:missed 4:missed 5:missed 6:won 7:won",
		schedule.MissedSkip: "1:won 2:missed 3:missed 4:missed 5:missed 6:missed 7:won",
		schedule.MissedAll:  "1:won 2:missed 3:missed 4:won 5:won 6:won 7:won",
	} {
		m := newRoom(t, "exit 0")
		m.add(func(j *schedule.Job) { j.Policy.Missed.Mode, j.Policy.Missed.Most = mode, 3 })
		m.start(nil)
		hours := func(h float64) time.Time { return noon.Add(time.Duration(h * float64(time.Hour))) }
		m.setAndSee(hours(1))
		m.until("the first", func() bool { return m.account() == "1:won" })
		for _, h := range []float64{0.5, 1, 1.01, -1, 1.02, -24, 1.03} {
			m.setAndSee(hours(h))
		}
		if got := m.account(); got != "1:won" {
			t.Errorf("%s: set back and forward again: %s", mode, got)
		}
		m.setAndSee(hours(6.5))
		jumped := strings.TrimSuffix(want, " 7:won")
		m.until("what the jump left", func() bool { return m.account() == jumped })
		for _, h := range []float64{5, 6.5, -24, 6.6} {
			m.setAndSee(hours(h))
		}
		if got := m.account(); got != jumped {
			t.Errorf("%s: set back over what was missed: %s", mode, got)
		}
		m.setAndSee(hours(7))
		m.until("the last", func() bool { return m.account() == want })
		m.stop()
		if got := m.account(); got != want {
			t.Errorf("%s: %s, want %s", mode, got, want)
		}
	}
}
