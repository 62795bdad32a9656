package app

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bestof-dev/bestof/orchestrator/record"
)

// choices N records the last run N times more, each time with a task and times
// of its own, as if each had been adopted as the last was.
func cmdChoices(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	records, err := record.Open(ts.MkAbs("."), ts.Getenv("BESTOF_HOME")+"/runs")
	ts.Check(err)
	defer records.Close()
	doc, err := records.Load("last")
	ts.Check(err)
	for i := range n {
		w, err := records.Create(record.Owner{}, func() string { return record.NewID(time.Now(), uint32(i)) })
		ts.Check(err)
		doc.Run, doc.Task, doc.Candidates = w.ID(), fmt.Sprint("task ", i), slices.Clone(doc.Candidates)
		for k := range doc.Candidates {
			doc.Candidates[k].DurationMS = int64(100 + i*17%89 + k*i%7) // no two pieces of work are the same
		}
		ts.Check(w.Finish(doc))
		ts.Check(w.Close())
	}
}
