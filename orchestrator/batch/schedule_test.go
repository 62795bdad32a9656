package batch

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bestof-dev/bestof/orchestrator"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newSchedule(n int, limits Limits) *schedule {
	return &schedule{limits: limits, tasks: make([]taskState, n)}
}

// TestScheduleLaws runs random batches on the scheduler alone. Whatever
// happens: never more run than may; the budget's commitments never exceed it;
// no task is opened while an open one asks; of the tasks that ask, the one that
// goes next has the fewest running; who is admitted was said to come next;
// nothing is left unasked at the end; and there is an end.
func TestScheduleLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks, seats := rapid.IntRange(0, 6).Draw(t, "tasks"), rapid.IntRange(1, 5).Draw(t, "seats")
		limits := Limits{Jobs: rapid.IntRange(1, 5).Draw(t, "jobs"), Tokens: rapid.SampledFrom([]int64{0, 0, 100, 1000}).Draw(t, "tokens"), MicroUSD: rapid.SampledFrom([]int64{0, 50}).Draw(t, "usd")}
		if rapid.Bool().Draw(t, "machine") {
			limits.CPU, limits.Need.CPU = 2000, 1000
		}
		s := newSchedule(tasks, limits)
		now := noon
		asked, lived, tries := make([]int, tasks), 0, make([]int, tasks)
		refused := map[int]bool{}
		for steps := 0; ; steps++ {
			if steps > 2000 {
				t.Fatal("no end")
			}
			most := rapid.IntRange(1, 8).Draw(t, "most")
			coming := s.coming(most)
			asks := 0
			for i := range s.tasks {
				asks += len(s.tasks[i].asking)
			}
			for i, c := range coming {
				if !slices.Contains(s.tasks[c.task].asking, c.candidate) || slices.Contains(coming[:i], c) {
					t.Fatalf("%+v are said to come", coming)
				}
			}
			if want := min(most, asks); len(coming) != want && !s.draining {
				t.Fatalf("%d come of %d that ask, at most %d", len(coming), asks, most)
			}
			d := s.next(now)
			if d.act == admit && coming[0] != (turn{d.task, d.candidate}) {
				t.Fatalf("%+v is admitted, %+v was to come", d, coming)
			}
			asking := false
			for i := range s.tasks {
				asking = asking || len(s.tasks[i].asking) > 0
			}
			if s.taken() > limits.slots() {
				t.Fatalf("%d run, %d may", s.taken(), limits.slots())
			}
			switch d.act {
			case begin:
				if asking {
					t.Fatal("a task is opened while another asks")
				}
				s.begun(d.task)
				tries[d.task]++
			case admit:
				for i := range s.tasks {
					if o := s.tasks[i]; len(o.asking) > 0 && len(o.running) < len(s.tasks[d.task].running) {
						t.Fatalf("task %d runs %d, task %d runs %d and asks", d.task, len(s.tasks[d.task].running), i, len(o.running))
					}
				}
				if refused[d.task] || s.draining {
					t.Fatal("admitted after a refusal")
				}
				s.admitted(d.task, d.candidate)
				if c := s.committed(); limits.Tokens > 0 && c.Tokens() > limits.Tokens || limits.MicroUSD > 0 && c.MicroUSD > limits.MicroUSD {
					t.Fatalf("committed to %+v of %+v", c, limits)
				}
			case refuse:
				refused[d.task] = true
				s.answered(d.task, d.candidate)
				asked[d.task] = seats
			case stop:
				for i := range s.tasks {
					for n := range s.tasks[i].running {
						s.released(i, n)
					}
					if s.tasks[i].phase == preparing || s.tasks[i].phase == open {
						s.ended(i, false, now)
					}
				}
			case done:
				for i := range s.tasks {
					if p := s.tasks[i].phase; p == preparing || p == open || len(s.tasks[i].running) > 0 {
						t.Fatalf("done, and task %d is in phase %d", i, p)
					}
					if p := s.tasks[i].phase; p == waiting && !s.draining && limits.Tokens == 0 && limits.MicroUSD == 0 {
						t.Fatalf("done, and task %d waits", i)
					}
				}
				return
			case wait:
				if !d.until.IsZero() {
					now = d.until
				}
				// Something happens to one of the tasks.
				var live []int
				for i := range s.tasks {
					if p := s.tasks[i].phase; p == preparing || p == open {
						live = append(live, i)
					}
				}
				if len(live) == 0 && d.until.IsZero() {
					t.Fatal("waits for nothing")
				}
				if len(live) == 0 {
					continue
				}
				if !s.draining && rapid.IntRange(0, 30).Draw(t, "drain") == 0 {
					s.draining = true
				}
				i := rapid.SampledFrom(live).Draw(t, "which")
				switch state := &s.tasks[i]; {
				case state.phase == preparing:
					for n := 1; n <= seats; n++ {
						s.asked(i, n)
					}
					asked[i] = 0
				case len(state.running) > 0:
					for n := range state.running {
						if rapid.Bool().Draw(t, "reports") {
							s.reports(i, n, orchestrator.Usage{Input: int64(rapid.IntRange(0, 30).Draw(t, "in")), MicroUSD: int64(rapid.IntRange(0, 9).Draw(t, "usd")), Reported: true})
						}
						if !s.overspent() {
							s.released(i, n)
							lived++
						}
						break
					}
				case len(state.asking) == 0:
					s.ended(i, !s.draining && tries[i] < 3 && rapid.Bool().Draw(t, "again"), now.Add(time.Minute))
				}
			}
		}
	})
}

// TestBudgetIsReserved: before anybody reported, so many run as share the
// budget; then as many as the dearest one fits into what is left.
func TestBudgetIsReserved(t *testing.T) {
	s := newSchedule(1, Limits{Jobs: 2, Tokens: 100})
	s.begun(0)
	for n := 1; n <= 5; n++ {
		s.asked(0, n)
	}
	var acts []act
	step := func() decision {
		d := s.next(noon)
		acts = append(acts, d.act)
		return d
	}
	for range 2 {
		s.admitted(0, step().candidate)
	}
	if d := step(); d.act != wait {
		t.Fatalf("a third: %+v", d)
	}
	s.reports(0, 1, orchestrator.Usage{Input: 30, Reported: true})
	s.released(0, 1)
	s.released(0, 2) // said nothing
	// 70 are left, and the dearest took 30: two may run.
	for range 2 {
		d := step()
		if d.act != admit {
			t.Fatalf("%v, then %+v", acts, d)
		}
		s.admitted(0, d.candidate)
	}
	s.reports(0, 3, orchestrator.Usage{Output: 30, Reported: true})
	s.released(0, 3)
	if d := step(); d.act != wait {
		t.Fatalf("10 are left beside the one that runs: %+v", d)
	}
	s.reports(0, 4, orchestrator.Usage{Input: 41, Reported: true})
	if d := step(); d.act != refuse || d.candidate != 5 {
		t.Fatalf("overspent: %+v", d)
	}
	s.answered(0, 5)
	if d := step(); d.act != stop {
		t.Fatalf("overspent: %+v", d)
	}
}

func TestTimeIsUp(t *testing.T) {
	s := newSchedule(2, Limits{Jobs: 1, Until: noon})
	if d := s.next(noon.Add(-time.Second)); d.act != begin {
		t.Fatalf("before: %+v", d)
	}
	s.begun(0)
	if d := s.next(noon.Add(-time.Second)); d.act != wait || d.until != noon {
		t.Errorf("meanwhile: %+v", d)
	}
	if d := s.next(noon); d.act != stop {
		t.Errorf("then: %+v", d)
	}
	s.ended(0, true, noon)
	if d := s.next(noon); d.act != done {
		t.Errorf("at last: %+v", d)
	}
}

// TestScheduleOneImage: when the disk is short, no task is opened while one of
// another image is open, those of one image follow each other, and all come to
// their turn.
func TestScheduleOneImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		images := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c"}), 1, 12).Draw(t, "images")
		s := newSchedule(len(images), Limits{Jobs: rapid.IntRange(1, 4).Draw(t, "jobs")})
		s.short = true
		kinds := map[string]bool{}
		for i, image := range images {
			s.tasks[i].image = image
			kinds[image] = true
		}
		if n := s.images(); n != len(kinds) {
			t.Fatalf("%d images, want %d", n, len(kinds))
		}
		changes, last, begun := 0, "", 0
		var busy []int
		for {
			d := s.next(noon)
			if d.act == begin && (len(busy) == 0 || rapid.Bool().Draw(t, "goes on")) {
				for _, i := range busy {
					if images[i] != images[d.task] {
						t.Fatalf("a task of %q is opened beside one of %q", images[d.task], images[i])
					}
				}
				if begun++; begun == 1 || images[d.task] != last {
					changes++
				}
				last = images[d.task]
				s.begun(d.task)
				busy = append(busy, d.task)
				continue
			}
			if len(busy) == 0 {
				break
			}
			s.ended(busy[0], false, time.Time{})
			busy = busy[1:]
		}
		if begun != len(images) || changes != len(kinds) {
			t.Fatalf("%d of %d tasks were opened, the image changed %d times for %d", begun, len(images), changes, len(kinds))
		}
	})
}
